/* SPDX-License-Identifier: MIT */
/* twin_advice.c - madvise, process_madvise, mlock, mseal, mincore, msync. */
#include "model/twin_parts.h"

#include <errno.h>

#include "samara/types.h"

static bool is_known(uint64_t advice)
{
	return advice <= SM_MADV_DONTNEED ||
	       (advice >= SM_MADV_FREE && advice <= SM_MADV_COLLAPSE) ||
	       advice == SM_MADV_GUARD_INSTALL || advice == SM_MADV_GUARD_REMOVE;
}

/* Discarding sealed private memory that the caller could not overwrite is no way around the seal. */
static bool is_sealed_off(uint32_t flags, int file, uint64_t advice)
{
	switch (advice) {
	case SM_MADV_FREE:
	case SM_MADV_DONTNEED:
	case SM_MADV_DONTNEED_LOCKED:
	case SM_MADV_REMOVE:
	case SM_MADV_DONTFORK:
	case SM_MADV_WIPEONFORK:
	case SM_MADV_GUARD_INSTALL:
		return flags & VF_SEALED && file < 0 && !(flags & VF_WRITE);
	default:
		return false;
	}
}

/* The advices that are flags of the VMA. */
static int flag_advice(struct call *c, struct span s, uint64_t advice)
{
	const struct twin_page *p = &c->t->page[s.first];
	uint32_t set = 0, clear = 0, flags;

	switch (advice) {
	case SM_MADV_NORMAL:
		clear = VF_RANDOM | VF_SEQUENTIAL;
		break;
	case SM_MADV_RANDOM:
		set = VF_RANDOM, clear = VF_SEQUENTIAL;
		break;
	case SM_MADV_SEQUENTIAL:
		set = VF_SEQUENTIAL, clear = VF_RANDOM;
		break;
	case SM_MADV_DONTFORK:
		set = VF_DONTFORK;
		break;
	case SM_MADV_DOFORK:
		clear = VF_DONTFORK;
		break;
	case SM_MADV_WIPEONFORK:
		if (p->file >= 0)
			return -EINVAL;
		set = VF_WIPEONFORK;
		break;
	case SM_MADV_KEEPONFORK:
		if (p->flags & VF_DROPPABLE)
			return -EINVAL;
		clear = VF_WIPEONFORK;
		break;
	case SM_MADV_DONTDUMP:
		set = VF_DONTDUMP;
		break;
	case SM_MADV_DODUMP:
		if (p->flags & VF_DROPPABLE)
			return -EINVAL;
		clear = VF_DONTDUMP;
		break;
	case SM_MADV_MERGEABLE:
		set = p->flags & (VF_MAYSHARE | VF_DROPPABLE) ? 0 : VF_MERGEABLE;
		break;
	case SM_MADV_UNMERGEABLE:
		clear = VF_MERGEABLE;
		break;
	case SM_MADV_HUGEPAGE:
		set = VF_HUGEPAGE, clear = VF_NOHUGEPAGE;
		break;
	case SM_MADV_NOHUGEPAGE:
		set = VF_NOHUGEPAGE, clear = VF_HUGEPAGE;
		break;
	default:
		return -EINVAL;
	}
	flags = (p->flags & ~clear) | set;
	if (flags == p->flags)
		return 0;
	return change_flags(c, s, flags) ? -EAGAIN : 0;
}

/* The pages are empty again: zero, or what the file says. */
static void zap(struct call *c, struct span s, bool guards_too)
{
	for (unsigned i = s.first; i < s.end; i++) {
		struct twin_page *p = &c->t->page[i];

		p->own = p->zero = p->maybe = p->lazy = false;
		p->token = 0;
		p->guard = p->guard && !guards_too;
	}
}

static int punch(struct call *c, struct span s)
{
	const struct twin_page *p = &c->t->page[s.first];
	struct twin_file *f;

	if (p->flags & VF_LOCKED || p->file < 0)
		return -EINVAL;
	if (!(p->flags & VF_SHARED) || !(p->flags & VF_MAYWRITE))
		return -EACCES;
	f = &c->w->file[p->file];
	for (unsigned i = 0; i < s.end - s.first; i++) {
		if (p[i].pgoff < f->room)
			f->token[p[i].pgoff] = 0;
	}
	return 0;
}

/* One VMA's part of an advice. */
static int advise_part(struct call *c, struct span s, uint64_t advice)
{
	struct twin_page *p = &c->t->page[s.first];

	if (is_sealed_off(p->flags, p->file, advice))
		return -EPERM;
	switch (advice) {
	case SM_MADV_WILLNEED:
		return 0;
	case SM_MADV_COLD:
	case SM_MADV_PAGEOUT:
		return p->flags & VF_LOCKED ? -EINVAL : 0;
	case SM_MADV_DONTNEED:
		if (p->flags & VF_LOCKED)
			return -EINVAL;
		__attribute__((fallthrough));
	case SM_MADV_DONTNEED_LOCKED:
		zap(c, s, false);
		return 0;
	case SM_MADV_FREE:
		if (p->file >= 0 || p->flags & VF_LOCKED)
			return -EINVAL;
		for (unsigned i = s.first; i < s.end; i++)
			c->t->page[i].lazy = c->t->page[i].own;
		return 0;
	case SM_MADV_REMOVE:
		return punch(c, s);
	case SM_MADV_GUARD_INSTALL:
		if (p->flags & VF_LOCKED)
			return -EINVAL;
		if (p->file < 0)
			anon_prepare(c, s.first);
		zap(c, s, true);
		for (unsigned i = s.first; i < s.end; i++)
			c->t->page[i].guard = !c->w->config.bare;
		return 0;
	case SM_MADV_GUARD_REMOVE:
		for (unsigned i = s.first; i < s.end; i++)
			c->t->page[i].guard = false;
		return 0;
	case SM_MADV_COLLAPSE:
		return -EINVAL;
	default:
		return flag_advice(c, s, advice);
	}
}

/* Faults pages in, in order, up to the first that cannot be. */
static int advise_populate(struct call *c, struct span s, bool write)
{
	for (unsigned i = s.first; i < s.end; i++) {
		const struct twin_page *p = &c->t->page[i];

		if (!p->mapped)
			return -ENOMEM;
		if (!(p->flags & (write ? VF_WRITE : VF_READ)))
			return -EINVAL;
		if (fault_in(c, i, write) != TOUCH_OK)
			return -EFAULT;
	}
	return 0;
}

int64_t twin_madvise(struct call *c, uint64_t addr, uint64_t len, uint64_t advice)
{
	bool hole = false;
	struct span s;

	if (!is_known(advice) || addr % PAGE || (len && !page_align(len)) ||
	    addr + page_align(len) < addr)
		return -EINVAL;
	if (!len)
		return 0;
	s = span_of(c, addr, page_align(len));
	if (advice == SM_MADV_POPULATE_READ || advice == SM_MADV_POPULATE_WRITE)
		return advise_populate(c, s, advice == SM_MADV_POPULATE_WRITE);
	if (s.first == s.end)
		return -ENOMEM;
	for (unsigned at = s.first; at < s.end;) {
		unsigned from = next_mapped(c, at, s.end);
		struct span v = { from, s.end };
		int err;

		hole = hole || from > at;
		if (from == s.end)
			break;
		if (vma_at(c, from).end < s.end)
			v.end = vma_at(c, from).end;
		err = advise_part(c, v, advice);
		if (err)
			return err;
		at = v.end;
	}
	return hole ? -ENOMEM : 0;
}

/* Ranges in order up to the first failure; the sum of the lengths before it, if there are any. */
int64_t twin_process_madvise(struct call *c, const struct op *op)
{
	uint64_t advice = op->arg[6], done = 0, total = 0;
	bool first = true;

	if (op->arg[7])
		return -EINVAL;
	for (int i = 0; i < 3; i++) {
		uint64_t addr = op->arg[2 * i], len = op->arg[2 * i + 1];

		if ((int64_t)len < 0)
			return -EINVAL;
		if (addr > c->w->task_size || len > c->w->task_size - addr)
			return -EFAULT;
		total += len;
	}
	if (!total)
		return 0;
	if (!is_known(advice))
		return -EINVAL;
	for (int i = 0; i < 3; i++) {
		uint64_t len = op->arg[2 * i + 1];
		int64_t r = len || first ? twin_madvise(c, op->arg[2 * i], len, advice) : 0;

		first = false;
		if (r)
			return done ? (int64_t)done : r;
		done += len;
	}
	return (int64_t)done;
}

/* Sets or clears the lock flags VMA by VMA; a hole ends it. */
static int64_t lock_parts(struct call *c, struct span s, uint32_t lock)
{
	for (unsigned at = s.first; at < s.end;) {
		struct span v = { at, s.end };
		uint32_t old, flags;

		if (!has_vma(c, at))
			return -ENOMEM;
		if (vma_at(c, at).end < s.end)
			v.end = vma_at(c, at).end;
		old = c->t->page[at].flags;
		flags = (old & ~(uint32_t)(VF_LOCKED | VF_ONFAULT)) | lock;
		if (flags != old && !(old & VF_DROPPABLE) && change_flags(c, v, flags))
			return -ENOMEM;
		at = v.end;
	}
	return 0;
}

int64_t twin_mlock(struct call *c, uint64_t addr, uint64_t len, uint64_t flags)
{
	uint64_t limit = c->w->config.memlock_pages;
	struct span s;
	int64_t err, locked;

	if (flags & ~(uint64_t)SM_MLOCK_ONFAULT)
		return -EINVAL;
	if (limit == 0)
		return -EPERM;
	len = page_align(len + addr % PAGE);
	addr &= ~(PAGE - 1);
	s = span_of(c, addr, len);
	locked = (int64_t)(len / PAGE) + count_pages(c, (struct span){ 0, c->pages }, VF_LOCKED, 0);
	if (limit != ~0ULL && locked > (int64_t)limit &&
	    locked - count_pages(c, s, VF_LOCKED, 0) > (int64_t)limit)
		return -ENOMEM;
	if (addr + len < addr)
		return -EINVAL;
	err = lock_parts(c, s, VF_LOCKED | (flags ? VF_ONFAULT : 0));
	if (err)
		return err;
	return populate(c, s, false) ? -ENOMEM : 0;
}

int64_t twin_munlock(struct call *c, uint64_t addr, uint64_t len)
{
	len = page_align(len + addr % PAGE);
	addr &= ~(PAGE - 1);
	if (addr + len < addr)
		return -EINVAL;
	return lock_parts(c, span_of(c, addr, len), 0);
}

int64_t twin_mseal(struct call *c, uint64_t addr, uint64_t len, uint64_t flags)
{
	struct span s;

	if (flags || addr % PAGE || (len && !page_align(len)) || addr + page_align(len) < addr)
		return -EINVAL;
	s = span_of(c, addr, page_align(len));
	for (unsigned i = s.first; i < s.end; i++) {
		if (!has_vma(c, i))
			return -ENOMEM;
	}
	for (unsigned at = s.first; at < s.end;) {
		struct span v = { at, s.end };
		uint32_t old = c->t->page[at].flags;

		if (vma_at(c, at).end < s.end)
			v.end = vma_at(c, at).end;
		if (!(old & VF_SEALED) && change_flags(c, v, old | VF_SEALED))
			return -ENOMEM;
		at = v.end;
	}
	return 0;
}

int64_t twin_mincore(struct call *c, uint64_t addr, uint64_t len, unsigned char *core)
{
	struct span s;

	if (addr % PAGE)
		return -EINVAL;
	if (addr > c->w->task_size || len > c->w->task_size - addr)
		return -ENOMEM;
	s = span_of(c, addr, page_align(len));
	for (unsigned i = s.first; i < s.end; i++) {
		if (!has_vma(c, i))
			return -ENOMEM;
	}
	c->w->core_any = false;
	for (unsigned i = s.first; i < s.end; i++) {
		core[i - s.first] = c->t->page[i].own || c->t->page[i].zero;
		c->w->core_any |= c->t->page[i].maybe;
	}
	return 0;
}

int64_t twin_msync(struct call *c, uint64_t addr, uint64_t len, uint64_t flags)
{
	const uint64_t known = SM_MS_ASYNC | SM_MS_INVALIDATE | SM_MS_SYNC;
	bool hole = false;
	struct span s;

	if (flags & ~known || addr % PAGE ||
	    (flags & (SM_MS_ASYNC | SM_MS_SYNC)) == (SM_MS_ASYNC | SM_MS_SYNC))
		return -EINVAL;
	len = page_align(len);
	if (addr + len < addr)
		return -ENOMEM;
	s = span_of(c, addr, len);
	for (unsigned i = s.first; i < s.end; i++) {
		if (!has_vma(c, i))
			hole = true;
		else if (flags & SM_MS_INVALIDATE && c->t->page[i].flags & VF_LOCKED)
			return -EBUSY;
	}
	return hole ? -ENOMEM : 0;
}
