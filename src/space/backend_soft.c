/* SPDX-License-Identifier: MIT */
/*
 * backend_soft.c - the backend with pages: translates steps, forks and faults of VMAs into
 * operations on entries (src/memory).
 *
 *      step       plan (may fail)                          commit
 *      UNMAP      2 MiB pages split at both ends           zap, markers and empty tables too
 *      PROTECT    the same                                 entries take the new permissions
 *      MOVE       split; tables of the target held         entries move; tables let go
 *      SPLIT      split at the new border                  -
 *
 * I1 A fault runs under whichever lock its caller holds; entries are guarded by the locks of their
 *    tables alone, so faults on other areas and on other pages of the same one do not wait.
 * I2 What needs a function of a file (its size, a page) is done by wait(), without a lock; the file
 *    is referenced meanwhile.
 * I3 A VMA is in the reverse map (memory/rmap.h) before it maps a page of an object; one of a child
 *    that inherits private copies of such pages, too (truncation takes those away). From then on until
 *    it is detached; whoever gets a part of its range adopts that.
 * I4 So the VMAs in the reverse map cover every entry that maps a page of the object, but for those of
 *    a munmap that has downgraded, whose end is waited for (tests/proof/reverse_map.pml).
 */
#include "space/soft.h"
#include "space/soft_advise.h"
#include "base/thread.h"
#include "memory/file.h"

#include <errno.h>
#include <sched.h>

/* ---------------------------------------------------------------- host and space */

static void destroy_memory(struct sm_host *host)
{
	if (host->memory_state)
		(void)sm__memory_destroy(host->memory_state);
	host->memory_state = NULL;
}

static void memory_figures(struct sm_host *host, struct sm_host_stats *out)
{
	struct sm__pool_stats st;

	sm__pool_stats(((struct sm__memory *)host->memory_state)->pool, &st);
	out->frames = st.total;
	out->frames_used = st.in_use;
}

uint64_t sm_host_trim(struct sm_host *host)
{
	struct sm__memory *m;

	sm__thread_enter();
	pthread_mutex_lock(&host->lock);
	m = host->memory_state;
	pthread_mutex_unlock(&host->lock);
	return m ? sm__pool_trim(m->pool) : 0;
}

struct sm__memory *sm__host_memory(struct sm_host *host)
{
	struct sm__memory_options o = {
		.bytes = host->o.frame_bytes,
		.page_shift = (uint8_t)host->page_shift,
		.is_private = host->o.frames == SM_FRAMES_PRIVATE,
	};
	struct sm__memory *m;

	pthread_mutex_lock(&host->lock);
	if (!host->memory_state && !sm__memory_create(&o, &m)) {
		host->memory_state = m;
		host->memory_destroy = destroy_memory;
		host->memory_figures = memory_figures;
	}
	m = host->memory_state;
	pthread_mutex_unlock(&host->lock);
	return m;
}

struct visit {
	struct sm__mm *mm;
	uint64_t first, last;
	void (*visit)(struct sm__mm *mm, sm_addr start, sm_addr end, bool shared, void *arg);
	void *arg;
};

/* The part of a VMA that maps pages [first, last] of the object. */
static void visit_area(struct sm__rmap_area *area, void *arg)
{
	const struct sm__vma *v = sm__container_of(area, struct sm__vma, area);
	const struct visit *w = arg;
	unsigned shift = w->mm->page_shift;
	uint64_t nr = sm__vma_size(v) >> shift, from, to;

	if (w->last < v->pgoff)
		return;
	from = w->first > v->pgoff ? w->first - v->pgoff : 0;
	to = w->last - v->pgoff < nr ? w->last - v->pgoff + 1 : nr;
	if (from < to)
		w->visit(w->mm, v->start + (from << shift), v->start + (to << shift),
			 v->flags & SM_VM_SHARED, w->arg);
}

static void each_mapping(struct sm__mm *mm, struct sm__pages *pages, uint64_t first, uint64_t last,
			 void (*visit)(struct sm__mm *mm, sm_addr start, sm_addr end, bool shared,
				       void *arg),
			 void *arg)
{
	struct visit w = { mm, first, last, visit, arg };
	struct sm_space *s = mm->owner;
	struct sm__op op;

	sm__op_init(&op, s, SM_CALL_MSYNC);
	/* Interrupted, the caller's signal waits for this bounded walk. */
	while (sm__op_lock(&op, SM__READ, 0, s->o.range_end))
		;
	/* acquire: pairs with the release in sm_munmap. It has the read lock, and needs nothing of ours. */
	while (atomic_load_explicit(&s->unmapping, memory_order_acquire))
		sched_yield();
	sm__rmap_each_area(pages, mm, visit_area, &w);
	sm__op_unlock(&op);
}

static const struct sm__mm_ops mm_ops = { .each_mapping = each_mapping };

static int soft_attach(struct sm_space *s)
{
	struct sm__memory *m = sm__host_memory(s->host);
	struct sm__mm *mm;
	int err;

	if (!m)
		return -ENOMEM;
	err = sm__mm_create(m, &mm_ops, s, &mm);
	if (err)
		return err;
	if (s->o.range_end > sm__mm_limit(mm)) {
		sm__mm_destroy(mm);
		return -EINVAL;
	}
	mm->tlb.kick = s->o.kick;
	mm->tlb.kick_arg = s->o.kick_arg;
	s->backend_state = mm;
	return 0;
}

static void soft_leave(struct sm_space *s)
{
	sm__mm_leave(s->backend_state);
}

static void soft_detach(struct sm_space *s)
{
	if (s->backend_state)
		sm__mm_destroy(s->backend_state);
	s->backend_state = NULL;
}

/* ---------------------------------------------------------------- steps */

/*
 * Relaxed: who maps a 2 MiB page says so first, under a lock of the VMA that the writer has waited for.
 */
static bool may_have_huge(struct sm__mm *mm)
{
	return sm__unlikely(atomic_load_explicit(&mm->had_huge, memory_order_relaxed));
}

static int split_ends(struct sm__mm *mm, const struct sm__step *step)
{
	int err = sm__pt_split_at(mm, step->start);

	return err ? err : sm__pt_split_at(mm, step->end);
}

static int soft_plan(struct sm__step *step)
{
	struct sm__mm *mm = step->space->backend_state;
	int err = 0;

	switch (step->kind) {
	case SM__STEP_UNMAP:
	case SM__STEP_PROTECT:
		return may_have_huge(mm) ? split_ends(mm, step) : 0;
	case SM__STEP_MOVE:
		if (may_have_huge(mm))
			err = sm__mm_split_range(mm, step->start, step->end);
		if (err)
			return err;
		return sm__mm_hold_tables(mm, step->new_start,
					  step->new_start + (step->end - step->start));
	case SM__STEP_SPLIT:
		return may_have_huge(mm) ? sm__pt_split_at(mm, step->start) : 0;
	}
	return 0;
}

static void release_target(struct sm__mm *mm, struct sm__step *step)
{
	sm__mm_release_tables(mm, step->new_start, step->new_start + (step->end - step->start));
}

static void soft_commit(struct sm__step *step, struct sm__gather *g)
{
	struct sm__mm *mm = step->space->backend_state;
	struct sm__mmu_gather *mg = sm__soft_gather(g);

	switch (step->kind) {
	case SM__STEP_UNMAP:
		sm__mm_zap(mm, step->start, step->end, SM__ZAP_MARKERS | SM__ZAP_TABLES, mg);
		break;
	case SM__STEP_PROTECT:
		sm__mm_protect(mm, step->start, step->end, sm__prot_of(step->new_flags),
			       step->new_flags & SM_VM_SHARED, mg);
		break;
	case SM__STEP_MOVE:
		sm__mm_move(mm, step->start, step->new_start, step->end - step->start, mg);
		release_target(mm, step);
		break;
	case SM__STEP_SPLIT:
		break;
	}
}

static void soft_abort(struct sm__step *step)
{
	/* A split page translates as before: only held tables have to be let go. */
	if (step->kind == SM__STEP_MOVE)
		release_target(step->space->backend_state, step);
}

static void soft_gather_begin(struct sm__gather *g, struct sm_space *s)
{
	sm__mmu_gather_begin(sm__soft_gather(g), s->backend_state);
}

static void soft_gather_finish(struct sm__gather *g)
{
	sm__mmu_gather_finish(sm__soft_gather(g));
}

static void soft_adopt(struct sm__vma *to, const struct sm__vma *from)
{
	sm__rmap_adopt(&to->area, &from->area);
}

static void soft_leave_map(struct sm__vma *v)
{
	sm__rmap_leave(&v->area);
}

static void soft_forget(struct sm__vma *v)
{
	sm__rmap_end(&v->area);
}

static int soft_fork(struct sm__vma *child, struct sm__vma *parent, struct sm__gather *g)
{
	struct sm__mm *from = sm__soft_gather(g)->mm;
	struct sm_space *s = atomic_load_explicit(&child->space, memory_order_relaxed);
	struct sm__mm *to = s->backend_state;
	struct sm__pages *pages = parent->file ? sm__pages_bound(parent->file) : NULL;
	int err = 0;

	/* Pages of an object come back by faults; an area never written has no others, but may have
	 * guard markers. */
	if (!sm__flags_private(parent->flags)) {
		if (!atomic_load_explicit(&from->shared_guards, memory_order_relaxed))
			return 0;
		atomic_store_explicit(&to->shared_guards, true, memory_order_relaxed);
	}
	if (pages)
		err = sm__rmap_enter(&child->area, pages, to);
	return err ? err : sm__mm_fork(to, from, parent->start, parent->end, sm__soft_gather(g));
}

/* ---------------------------------------------------------------- faults */

/* What a fault remembers between attempts, in f->priv. */
enum memo {
	FILE_HELD,     /* struct sm_file, referenced for wait() */
	FETCHED,       /* a page was fetched: beyond the end is now really beyond */
	FETCH_INDEX,   /* which */
	FETCH_ERROR,   /* -errno of the fetch */
	HAS_RECLAIMED, /* memory ran out before */
};

static int wait_for_page(struct sm__fault *f)
{
	struct sm_file *file = f->priv[FILE_HELD];
	struct sm__memory *m = sm__host_memory(f->space->host);
	struct sm__pages *pages;
	int err = sm__pages_of(m, file, &pages);

	if (!err)
		err = sm__pages_fetch(pages, file, (uintptr_t)f->priv[FETCH_INDEX]);
	sm_file_put(file);
	f->priv[FILE_HELD] = NULL;
	f->priv[FETCHED] = f;
	f->major = true;
	if (err == -ENOMEM && !f->priv[HAS_RECLAIMED]) {
		f->priv[HAS_RECLAIMED] = f;
		sm__memory_reclaim(m);
		return 0;
	}
	if (err == -ENOMEM)
		return err;
	/* What could not be read is a bus error, said by the next attempt. */
	f->priv[FETCH_ERROR] = (void *)(intptr_t)err;
	return 0;
}

static enum sm__fault_outcome fetch(struct sm__fault *f, uint64_t index)
{
	f->priv[FILE_HELD] = sm_file_get(f->vma->file);
	f->priv[FETCH_INDEX] = (void *)(uintptr_t)index;
	f->wait = wait_for_page;
	return SM__FAULT_WAIT;
}

static int wait_for_memory(struct sm__fault *f)
{
	sm__memory_reclaim(sm__host_memory(f->space->host));
	return 0;
}

/* Who drops the page needs the CPU, or a lock that this thread has let go. */
static int wait_for_leaving(struct sm__fault *f)
{
	(void)f;
	sched_yield();
	return 0;
}

static enum sm__fault_outcome leaves(struct sm__fault *f)
{
	f->wait = wait_for_leaving;
	return SM__FAULT_WAIT;
}

static enum sm__fault_outcome no_memory(struct sm__fault *f)
{
	if (f->priv[HAS_RECLAIMED])
		return SM__FAULT_NOMEM;
	f->priv[HAS_RECLAIMED] = f;
	f->wait = wait_for_memory;
	return SM__FAULT_WAIT;
}

static enum sm__fault_outcome translate(struct sm__fault *f, const struct sm__page_fault *pf,
					enum sm__page_outcome o)
{
	f->major = f->major || pf->major;
	switch (o) {
	case SM__PAGE_DONE:
		return SM__FAULT_DONE;
	case SM__PAGE_NOMEM:
		return no_memory(f);
	case SM__PAGE_GUARD:
		return SM__FAULT_SEGV;
	case SM__PAGE_POISON:
		return SM__FAULT_POISON;
	case SM__PAGE_LEAVES:
		return leaves(f);
	case SM__PAGE_FETCH:
		return fetch(f, pf->index);
	case SM__PAGE_BUS:
	case SM__PAGE_IO:
		break;
	}
	return SM__FAULT_BUS;
}

static enum sm__fault_outcome soft_fault(struct sm__fault *f)
{
	struct sm__mm *mm = f->space->backend_state;
	struct sm__vma *v = f->vma;
	struct sm__page_fault pf;
	enum sm__page_outcome out;

	if (!f->tries)
		f->priv[FILE_HELD] = f->priv[FETCHED] = f->priv[FETCH_ERROR] =
			f->priv[HAS_RECLAIMED] = NULL;
	if (sm__unlikely(v->flags & (SM_VM_PFNMAP | SM_VM_IO)))
		return SM__FAULT_DEVICE;
	if (sm__unlikely(f->priv[FETCH_ERROR]))
		return SM__FAULT_BUS;
	pf.mm = mm;
	pf.addr = f->addr;
	pf.access = f->access;
	pf.prot = sm__prot_of(v->flags);
	pf.shared = v->flags & SM_VM_SHARED;
	pf.huge = v->flags & SM_VM_HUGEPAGE;
	pf.start = v->start;
	pf.end = v->end;
	pf.major = f->priv[FETCHED];
	pf.pages = NULL;
	pf.index = 0;
	pf.tlb = f->tlb;
	pf.peeked = f->tlb && !f->tries && f->under_vma;
	pf.entry = f->seen;
	if (v->file) {
		pf.index = sm__index_of(v, f->addr, mm->page_shift);
		pf.pages = sm__pages_bound(v->file);
		/* The first use of a file asks for its size. */
		if (!pf.pages)
			return fetch(f, pf.index);
		if (pf.pages->memory != mm->memory)
			return SM__FAULT_BUS;
		if (sm__rmap_enter(&v->area, pf.pages, mm))
			return no_memory(f);
	}
	out = sm__mm_fault(&pf);
	if (f->tlb && out == SM__PAGE_DONE)
		f->host = pf.host;
	return translate(f, &pf, out);
}

static bool soft_marked(const struct sm__fault *f)
{
	_Atomic uint64_t *entry;
	unsigned level;
	sm__pte e;

	sm__rcu_read_lock();
	e = sm__pt_read(f->space->backend_state, f->addr, &entry, &level);
	sm__rcu_read_unlock();
	return e && !sm__pte_present(e) && sm__pte_type(e) == SM__PTE_GUARD;
}

const struct sm__backend sm__backend_soft = {
	.name = "soft",
	.attach = soft_attach,
	.leave = soft_leave,
	.detach = soft_detach,
	.plan = soft_plan,
	.commit = soft_commit,
	.abort = soft_abort,
	.gather_begin = soft_gather_begin,
	.gather_finish = soft_gather_finish,
	.fault = soft_fault,
	.marked = soft_marked,
	.advise = sm__soft_advise,
	.adopt = soft_adopt,
	.leave_map = soft_leave_map,
	.forget = soft_forget,
	.fork = soft_fork,
};
