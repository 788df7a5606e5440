/* SPDX-License-Identifier: MIT */
/*
 * fault.c - one access that the hardware could not finish, and stacks that grow.
 *
 *   1  RCU, tree, VMA lock, bounds        -> 3 under the VMA lock, else 2     (designs with a VMA lock)
 *   2  mmap_lock read (write to grow)     -> 3
 *   3  permissions -> identity -> backend -> done | signal | again from 2 or 1
 *
 * I1 A lock taken in 1 or 2 is given up in the same function, once, whatever 3 said.
 * I2 Every step from 1 to 2, and from 3 back, is counted with its reason.
 * I3 A private area has an identity before its first page of its own comes in.
 */
#include "space/space.h"
#include "base/thread.h"
#include "space/vma_lock.h"

#include <errno.h>
#include <signal.h>

#ifndef SEGV_MAPERR
#define SEGV_MAPERR 1
#define SEGV_ACCERR 2
#define BUS_ADRERR  2
#endif
#ifndef BUS_MCEERR_AR
#define BUS_MCEERR_AR 4
#endif

static struct sm__fault_counts *counts_of(struct sm_space *s)
{
	static _Atomic uint32_t next_slot;
	/* initial-exec: no function call where the library is shared */
	static _Thread_local uint32_t slot __attribute__((tls_model("initial-exec")));

	if (sm__unlikely(!slot))
		slot = atomic_fetch_add_explicit(&next_slot, 1, memory_order_relaxed) %
			       SM__STAT_SLOTS +
		       1;
	return &s->counts[slot - 1];
}

static void count(_Atomic uint64_t *c)
{
	/* relaxed load and store: nearly always one thread per slot; a lost count is a lost count */
	atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

static struct sm_fault_result signal_at(sm_addr addr, int signo, int code)
{
	return (struct sm_fault_result){ .signo = signo, .code = code, .addr = addr };
}

/* Any of the three lets a read pass, as on x86-64 without protection keys. */
static bool allowed(uint64_t flags, enum sm_access access)
{
	if (access & SM_ACCESS_WRITE)
		return flags & SM_VM_WRITE;
	if (access & SM_ACCESS_EXEC)
		return flags & SM_VM_EXEC;
	return flags & (SM_VM_READ | SM_VM_WRITE | SM_VM_EXEC);
}

static bool makes_own_page(const struct sm__vma *v, enum sm_access access)
{
	return (access & SM_ACCESS_WRITE) && sm__flags_private(v->flags);
}

/* ---- identity */

/* Whether the identity of `from` may be taken over by its neighbour `to`; first is the lower one. */
static uint64_t lendable(const struct sm_space *s, const struct sm__vma *first,
			 const struct sm__vma *second, const struct sm__vma *from)
{
	const uint64_t access = SM_VM_READ | SM_VM_WRITE | SM_VM_EXEC;
	uint64_t anon = sm__anon_of(from);

	if (!anon || (anon & SM__ANON_FORKED) || first->end != second->start ||
	    first->file != second->file || first->tag != second->tag ||
	    ((first->flags ^ second->flags) & ~access) ||
	    second->pgoff != first->pgoff + sm__pages(s, sm__vma_size(first)))
		return 0;
	return anon;
}

/*
 * So that the two can merge later, an area takes the identity of a neighbour it is compatible with
 * (the upper first), permissions aside. mmap_lock is held, for read at least.
 */
void sm__anon_prepare(struct sm_space *s, struct sm__vma *v)
{
	struct sm__tree_cursor c = sm__cursor(&s->tree);
	struct sm__vma *n;
	uint64_t anon = 0, none = 0;

	if (sm__anon_of(v))
		return;
	n = sm__seek(&c, v->end);
	if (n)
		anon = lendable(s, v, n, n);
	if (!anon) {
		sm__seek(&c, v->start);
		n = sm__prev(&c);
		if (n)
			anon = lendable(s, n, v, n);
	}
	if (!anon)
		anon = sm__anon_new(s);
	/* relaxed: a number; of two faulters one wins and both use what is there */
	atomic_compare_exchange_strong_explicit(&v->anon, &none, anon, memory_order_relaxed,
						memory_order_relaxed);
}

/* ---- growing a stack */

static int may_grow(const struct sm_space *s, const struct sm__vma *v, sm_addr addr)
{
	uint64_t pages = sm__pages(s, v->start - addr);
	uint64_t stack =
		atomic_load_explicit((_Atomic uint64_t *)&s->limit_stack, memory_order_relaxed);

	if (pages > v->pgoff || !sm__may_expand(s, v->flags, pages) || v->end - addr > stack ||
	    !sm__may_lock(s, v->flags, v->start - addr))
		return -ENOMEM;
	return 0;
}

/* Grows v down to addr. mmap_lock for write. 0, -ENOMEM. */
static int grow_down(struct sm__op *op, struct sm__vma *v, sm_addr addr)
{
	struct sm_space *s = op->space;
	uint64_t gap = s->host->o.stack_guard_gap << s->page_shift, pages;
	struct sm__vma *below;
	int err;

	addr &= ~(s->page_size - 1);
	if (!(v->flags & SM_VM_GROWSDOWN) || addr < s->host->o.mmap_min_addr)
		return -ENOMEM;
	below = sm__vma_before(s, v->start);
	if (below && !(below->flags & SM_VM_GROWSDOWN) &&
	    (below->flags & (SM_VM_READ | SM_VM_WRITE | SM_VM_EXEC)) && addr - below->end < gap)
		return -ENOMEM;
	sm__anon_prepare(s, v);
	err = may_grow(s, v, addr);
	if (err)
		return err;
	pages = sm__pages(s, v->start - addr);
	err = sm__charge(s, pages);
	if (err)
		return err;
	err = sm__vma_set_bounds(op, v, addr, v->end);
	if (err) {
		sm__uncharge(s, pages);
		return err;
	}
	sm__account(s, v->flags, (int64_t)pages);
	if (v->flags & SM_VM_LOCKED)
		s->locked_vm += pages;
	if (!(v->flags &
	      SM_VM_ACCOUNT)) /* asked for, as Linux does, but nobody would give it back */
		sm__uncharge(s, pages);
	return 0;
}

/* ---- step 3 */

enum outcome { FINISHED, AGAIN_UNDER_MMAP, AGAIN };

/* A file mapping may have guard pages and no identity: an access to one gives it none. */
static bool is_guarded(const struct sm__fault *f)
{
	return f->vma->file && f->space->backend->marked && f->space->backend->marked(f);
}

/* The part that is the same under both locks. f->vma is locked and covers f->addr. */
static enum outcome handle(struct sm__fault *f, struct sm_fault_result *r)
{
	struct sm_space *s = f->space;
	enum sm__fault_outcome o;

	*r = (struct sm_fault_result){ .addr = f->addr,
				       .flags = f->under_vma ? SM_FAULT_UNDER_VMA : 0 };
	if (!allowed(f->vma->flags, f->access)) {
		r->signo = SIGSEGV;
		r->code = SEGV_ACCERR;
		return FINISHED;
	}
	if (makes_own_page(f->vma, f->access) && sm__unlikely(!sm__anon_of(f->vma)) &&
	    !is_guarded(f)) {
		uint64_t since = 0;

		/* the neighbours must hold still: try only, nobody waits with a VMA lock held */
		if (f->under_vma && !sm__mmap_read_trylock(&s->lock, SM_CALL_FAULT, &since)) {
			count(&counts_of(s)->reason[SM_FALLBACK_identity]);
			return AGAIN_UNDER_MMAP;
		}
		sm__anon_prepare(s, f->vma);
		if (f->under_vma)
			sm__mmap_read_unlock(&s->lock, since);
	}
	o = s->backend->fault ? s->backend->fault(f) : SM__FAULT_DONE;
	if (f->major)
		r->flags |= SM_FAULT_MAJOR;
	switch (o) {
	case SM__FAULT_DONE:
		break;
	case SM__FAULT_NOMEM:
		r->error = -ENOMEM;
		break;
	case SM__FAULT_BUS:
		r->signo = SIGBUS;
		r->code = BUS_ADRERR;
		break;
	case SM__FAULT_SEGV:
		r->signo = SIGSEGV;
		r->code = SEGV_MAPERR; /* a guard page answers as if nothing were there */
		break;
	case SM__FAULT_POISON:
		r->signo = SIGBUS;
		r->code = BUS_MCEERR_AR;
		break;
	case SM__FAULT_DEVICE:
		r->flags |= SM_FAULT_DEVICE;
		break;
	case SM__FAULT_NEED_MMAP:
		count(&counts_of(s)->reason[SM_FALLBACK_backend]);
		return AGAIN_UNDER_MMAP;
	case SM__FAULT_WAIT:
		count(&counts_of(s)->reason[SM_FALLBACK_wait]);
		return AGAIN;
	}
	return FINISHED;
}

/* ---- step 2 */

static enum outcome under_mmap_lock(struct sm__fault *f, struct sm_fault_result *r)
{
	struct sm_space *s = f->space;
	struct sm__tree_cursor c = sm__cursor(&s->tree);
	enum outcome o = FINISHED;
	bool grew = false;
	struct sm__op op;

	sm__thread_leave();
	sm__op_init(&op, s, SM_CALL_FAULT);
	f->under_vma = false;
	*r = signal_at(f->addr, SIGSEGV, SEGV_MAPERR);
	if (sm__op_lock(&op, SM__READ, f->addr, f->addr + 1)) {
		r->signo = 0;
		r->error = -EINTR;
		return FINISHED;
	}
	f->vma = sm__seek(&c, f->addr);
	if (f->vma && f->vma->start > f->addr && (f->vma->flags & SM_VM_GROWSDOWN)) {
		sm_addr end = f->vma->end;

		/* growing writes: everything is looked at again under the write lock */
		sm__op_unlock(&op);
		if (sm__op_lock(&op, SM__WRITE, f->addr, end)) {
			r->signo = 0;
			r->error = -EINTR;
			return FINISHED;
		}
		f->vma = sm__seek(&c, f->addr);
		if (f->vma && f->vma->start > f->addr) {
			if (grow_down(&op, f->vma, f->addr))
				f->vma = NULL;
			else
				grew = true;
		}
		sm__op_downgrade(&op);
	}
	if (f->vma && f->vma->start <= f->addr) {
		o = handle(f, r);
		if (grew)
			r->flags |= SM_FAULT_GREW;
	}
	sm__op_unlock(&op);
	return o;
}

/* ---- step 1 */

/* Which faults the design lets run under the VMA lock. */
static bool design_allows(const struct sm_space *s, const struct sm__vma *v, enum sm_access access)
{
	switch (s->design.fault) {
	case SM_FAULT_NONE:
		return false;
	case SM_FAULT_ANON:
		return !v->file;
	case SM_FAULT_ANON_FILE:
		return !v->file || !(access & SM_ACCESS_WRITE);
	case SM_FAULT_ALL:
		break;
	}
	return true;
}

static void note_abort(struct sm_space *s, enum sm_fallback why)
{
	count(&counts_of(s)->abort);
	count(&counts_of(s)->reason[why]);
}

/* The VMA at f->addr, locked for reading, or NULL. form is a constant where it is inlined. */
static inline __attribute__((always_inline)) struct sm__vma *
lock_vma(struct sm_space *s, sm_addr addr, enum sm_design_vma_lock form)
{
	static const enum sm_fallback reasons[] = {
		[SM__VMA_STAMPED] = SM_FALLBACK_write_locked,
		[SM__VMA_WAITED] = SM_FALLBACK_writer_waits,
		[SM__VMA_RECYCLED] = SM_FALLBACK_recycled,
	};
	enum sm__vma_try got;
	struct sm__vma *v;

	sm__rcu_read_lock();
	for (;;) {
		struct sm__tree_found found;

		if (!s->tree.ops->load_rcu(&s->tree, addr, &found)) {
			sm__rcu_read_unlock();
			note_abort(s, SM_FALLBACK_no_vma);
			return NULL;
		}
		v = sm__vma_of(sm__word_node(found.word));
		sm__delay();
		got = sm__vma_start_read(s, v, form);
		if (got != SM__VMA_DETACHED)
			break;
		count(&counts_of(s)->miss);
		count(&counts_of(s)->reason[SM_FALLBACK_detached]);
		/* close the section: the walk must not meet the same dead node for ever */
		sm__rcu_read_unlock();
		sm__rcu_read_lock();
	}
	sm__rcu_read_unlock();
	if (got != SM__VMA_LOCKED_BY_US) {
		note_abort(s, reasons[got]);
		return NULL;
	}
	if (sm__unlikely(addr < v->start || addr >= v->end)) {
		sm__vma_end_read(v, form);
		note_abort(s, SM_FALLBACK_moved);
		return NULL;
	}
	return v;
}

/* One copy of the look-up and the try per form: the form is a constant inside. */
static struct sm__vma *lock_vma_of(struct sm_space *s, sm_addr addr)
{
	switch (s->design.vma_lock) {
	case SM_VMA_LOCK_REFCNT:
		return lock_vma(s, addr, SM_VMA_LOCK_REFCNT);
	case SM_VMA_LOCK_OWN:
		return lock_vma(s, addr, SM_VMA_LOCK_OWN);
	case SM_VMA_LOCK_INLINE:
		return lock_vma(s, addr, SM_VMA_LOCK_INLINE);
	case SM_VMA_LOCK_NONE:
		break;
	}
	return NULL;
}

static enum outcome under_vma_lock(struct sm__fault *f, struct sm_fault_result *r)
{
	struct sm_space *s = f->space;
	struct sm__fault_counts *counts = counts_of(s);
	struct sm__vma *v = lock_vma_of(s, f->addr);
	enum outcome o;

	if (!v)
		return AGAIN_UNDER_MMAP;
	if (!design_allows(s, v, f->access)) {
		sm__vma_end_read(v, s->design.vma_lock);
		count(&counts->retry);
		count(&counts->reason[SM_FALLBACK_design]);
		return AGAIN_UNDER_MMAP;
	}
	f->vma = v;
	f->under_vma = true;
	o = handle(f, r);
	sm__vma_end_read(v, s->design.vma_lock);
	count(o == FINISHED ? &counts->success : &counts->retry);
	return o;
}

void sm__fault_perform(struct sm__fault *f, struct sm_fault_result *r)
{
	struct sm_space *s = f->space;
	enum outcome o;

	count(&counts_of(s)->faults);
	f->vma = NULL;
	f->tries = 0;
	f->major = false;
	f->wait = NULL;
	f->host = NULL;
	if (f->addr >= s->o.range_end) {
		*r = signal_at(f->addr, SIGSEGV, SEGV_MAPERR);
		return;
	}
	for (;;) {
		o = s->design.fault != SM_FAULT_NONE ? under_vma_lock(f, r) : AGAIN_UNDER_MMAP;
		if (o == AGAIN_UNDER_MMAP)
			o = under_mmap_lock(f, r);
		if (sm__likely(o == FINISHED))
			return;
		f->tries++;
		sm__thread_leave();
		if (f->wait && f->wait(f)) {
			*r = (struct sm_fault_result){ .error = -ENOMEM, .addr = f->addr };
			return;
		}
	}
}

struct sm_fault_result sm_fault(struct sm_space *s, sm_addr addr, enum sm_access access)
{
	struct sm_fault_result r;
	struct sm__fault f;

	sm__thread_enter();
	f.space = s;
	f.addr = addr;
	f.access = access;
	f.tlb = NULL;
	f.seen = 0;
	sm__fault_perform(&f, &r);
	return r;
}
