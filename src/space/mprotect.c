/* SPDX-License-Identifier: MIT */
/*
 * mprotect.c - new permissions for a range, VMA by VMA. What was changed before a failure stays.
 *
 * I1 A VMA whose flags do not change is neither stamped nor stored.
 * I2 Permissions that were taken away are gone from every TLB before the call returns: the gather is
 *    finished under the write lock.
 */
#include "space/space.h"
#include "space/advice.h"
#include "space/vma_lock.h"

#include <errno.h>

struct protect {
	struct sm__op op;
	struct sm_space *s;
	sm_addr start, end;
	uint64_t wanted;	  /* SM_VM_READ, WRITE, EXEC */
	struct sm__tree_cursor c; /* on the VMA at hand */
	struct sm__vma *prev;
	/* locked areas that became writable: their pages come after the unlock */
	unsigned populate;
	struct {
		sm_addr start, end;
	} fill[8];
};

/* Should there be more than fit, the last takes what lies between, too. */
static void fill_later(struct protect *p, sm_addr start, sm_addr end)
{
	unsigned i = p->populate;

	if (i && (p->fill[i - 1].end == start || i == SM__ARRAY_SIZE(p->fill)))
		p->fill[i - 1].end = end;
	else
		p->fill[p->populate++] = (__typeof__(p->fill[0])){ start, end };
}

static bool may(uint64_t flags)
{
	uint64_t access = flags & (SM_VM_READ | SM_VM_WRITE | SM_VM_EXEC);

	/* MAYREAD, MAYWRITE, MAYEXEC are the same bits, four higher */
	return (access & ~(flags >> 4)) == 0;
}

/* The charge for private memory that becomes writable; *flags may gain or lose ACCOUNT. */
static int charge(struct protect *p, struct sm__vma *v, uint64_t pages, uint64_t *flags,
		  uint64_t *charged)
{
	const uint64_t known =
		SM_VM_ACCOUNT | SM_VM_WRITE | SM_VM_HUGETLB | SM_VM_SHARED | SM_VM_NORESERVE;

	*charged = 0;
	if (*flags & SM_VM_WRITE) {
		if (!sm__may_expand(p->s, *flags, pages) && sm__may_expand(p->s, v->flags, pages))
			return -ENOMEM;
		if (!(v->flags & known)) {
			if (sm__charge(p->s, pages))
				return -ENOMEM;
			*charged = pages;
			*flags |= SM_VM_ACCOUNT;
		}
	} else if ((v->flags & SM_VM_ACCOUNT) && !v->file && !sm__anon_of(v)) {
		*flags &= ~(uint64_t)SM_VM_ACCOUNT;
	}
	return 0;
}

static bool may_merge(const struct sm__vma *around[2], const struct sm__vma *v, uint64_t flags)
{
	const struct sm__vma *p = around[0], *n = around[1];

	return (p && p->end == v->start && p->flags == flags) ||
	       (n && n->start == v->end && n->flags == flags);
}

/*
 * The VMA that is to have the flags and nothing else: merged with a neighbour (then it has them already),
 * split off, or v as it is. NULL: *err is set.
 */
static struct sm__vma *shape(struct protect *p, struct sm__vma *v, sm_addr start, sm_addr end,
			     uint64_t flags, int *err)
{
	struct sm__vma *around[2];
	struct sm__merge m;

	sm__around(&p->c, around);
	if (p->prev) /* just changed: in front of v, or v itself */
		around[0] = p->prev;
	if (v->start == start && v->end == end &&
	    !may_merge((const struct sm__vma **)around, v, flags))
		return v; /* nearly always: nothing to merge with, nothing to cut */
	sm__merge_from(&m, &p->op, v);
	m.pgoff += sm__pages(p->s, start - v->start);
	m.start = start;
	m.end = end;
	m.flags = flags;
	m.middle = v;
	m.prev = v->start == start ? around[0] : NULL;
	m.next = v->end == end ? around[1] : NULL;
	m.c = &p->c;
	v = sm__modify(&m);
	*err = m.error;
	return v;
}

static void plan(struct protect *p, struct sm__step *step, struct sm__vma *v, uint64_t flags)
{
	step->kind = SM__STEP_PROTECT;
	step->space = p->s;
	step->vma = v;
	step->old_flags = v->flags;
	step->new_flags = flags;
	step->to = NULL;
}

/* The map's part: shape, flags. On failure nothing but splits has changed. */
static int set_flags(struct protect *p, struct sm__vma **v, sm_addr start, sm_addr end,
		     uint64_t flags)
{
	int err = 0;
	struct sm__vma *w = shape(p, *v, start, end, flags, &err);

	if (err)
		return err;
	*v = w;
	/* permissions and ACCOUNT make no VMA plain that was not, so this does not fail */
	return w->flags != flags ? sm__store_flags(p->s, w, flags, &p->c) : 0;
}

/* Changes [start, end) of v. On success p->prev is the VMA that now covers the end of it. */
static int change(struct protect *p, struct sm__vma *v, sm_addr start, sm_addr end, uint64_t flags)
{
	struct sm_space *s = p->s;
	const struct sm__backend *b = s->backend;
	uint64_t old = v->flags, pages = sm__pages(s, end - start), charged;
	struct sm__step step;
	int err = charge(p, v, pages, &flags, &charged);

	if (err)
		return err;
	err = sm__vma_start_write_interruptible(s, v);
	if (!err && b->plan) {
		plan(p, &step, v, flags);
		step.start = start;
		step.end = end;
		err = b->plan(&step);
	}
	if (err)
		goto uncharge;
	err = set_flags(p, &v, start, end, flags);
	if (err) {
		if (b->plan && b->abort)
			b->abort(&step);
		goto uncharge;
	}
	if (b->plan) {
		step.vma = v;
		b->commit(&step, sm__op_gather(&p->op));
	}
	if ((old & SM_VM_ACCOUNT) && !(flags & SM_VM_ACCOUNT))
		sm__uncharge(s, pages);
	sm__account(s, old, -(int64_t)pages);
	sm__account(s, flags, (int64_t)pages);
	if ((old & (SM_VM_WRITE | SM_VM_SHARED | SM_VM_LOCKED)) == SM_VM_LOCKED &&
	    (flags & SM_VM_WRITE)) {
		/* its pages come after the unlock, its identity before the next area is looked at */
		if (!(flags & SM_VM_LOCKONFAULT))
			sm__anon_prepare(s, v);
		fill_later(p, start, end);
	}
	p->prev = v;
	return 0;
uncharge:
	sm__uncharge(s, charged);
	return err;
}

static int one_vma(struct protect *p, struct sm__vma *v, sm_addr start, sm_addr end)
{
	uint64_t flags =
		(v->flags & ~(uint64_t)(SM_VM_READ | SM_VM_WRITE | SM_VM_EXEC)) | p->wanted;

	if (!may(flags))
		return -EACCES;
	if (p->s->o.deny_write_exec && (flags & SM_VM_EXEC) &&
	    ((flags & SM_VM_WRITE) || !(v->flags & SM_VM_EXEC)))
		return -EACCES;
	if (v->flags & SM_VM_SEALED)
		return -EPERM;
	if (flags == v->flags) {
		p->prev = v;
		return 0;
	}
	return change(p, v, start, end, flags);
}

/* Where PROT_GROWSDOWN begins: at the start of the stack that addr lies in or below. */
static int find_start(struct protect *p, struct sm__vma **first, int grows)
{
	struct sm__vma *v = sm__seek(&p->c, p->start);
	if (!v)
		return -ENOMEM;
	if (grows & SM_PROT_GROWSDOWN) {
		if (v->start >= p->end)
			return -ENOMEM;
		p->start = v->start;
		if (!(v->flags & SM_VM_GROWSDOWN))
			return -EINVAL;
	} else {
		if (v->start > p->start)
			return -ENOMEM;
		if (grows & SM_PROT_GROWSUP)
			return -EINVAL; /* no VMA grows up on x86-64 */
	}
	p->prev = NULL;
	*first = v;
	return 0;
}

static int walk(struct protect *p, struct sm__vma *v)
{
	sm_addr at = p->start;

	for (;;) {
		sm_addr stop = v->end < p->end ? v->end : p->end;
		int err = one_vma(p, v, at, stop);

		if (err)
			return err;
		at = stop;
		if (at >= p->end)
			return 0;
		v = sm__seek(&p->c, at);
		if (!v || v->start > at)
			return -ENOMEM;
	}
}

int sm_mprotect(struct sm_space *s, sm_addr addr, uint64_t length, int prot)
{
	const int grow_bits = SM_PROT_GROWSDOWN | SM_PROT_GROWSUP;
	const int known = SM_PROT_READ | SM_PROT_WRITE | SM_PROT_EXEC | SM_PROT_SEM;
	int grows = prot & grow_bits, err;
	struct sm__vma *v;
	struct protect p;

	sm__op_init(&p.op, s, SM_CALL_MPROTECT);
	if (grows == grow_bits || !sm__page_aligned(s, addr))
		return -EINVAL;
	if (!length)
		return 0;
	p.s = s;
	p.start = addr;
	p.end = addr + sm__page_align(s, length);
	if (p.end <= addr)
		return -ENOMEM;
	if (prot & ~(grow_bits | known))
		return -EINVAL;
	p.wanted = sm__prot_flags(prot);
	p.c = sm__cursor(&s->tree);
	p.populate = 0;
	err = sm__op_lock(&p.op, SM__WRITE, addr - s->page_size, p.end + s->page_size);
	if (err)
		return err;
	err = find_start(&p, &v, grows);
	if (!err)
		err = walk(&p, v);
	sm__op_notice(&p.op, SM_NOTICE_PROTECT, p.start, p.end);
	sm__op_unlock(&p.op);
	for (unsigned i = 0; sm__unlikely(i < p.populate); i++)
		(void)sm__populate_range(s, p.fill[i].start, p.fill[i].end, SM__POPULATE_LOCKED);
	return err;
}
