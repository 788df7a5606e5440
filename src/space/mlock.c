/* SPDX-License-Identifier: MIT */
/*
 * mlock.c - memory that stays: mlock, mlock2, munlock, mlockall, munlockall.
 *
 * I1 locked_vm is the number of pages of VMAs with SM_VM_LOCKED.
 * I2 The flags change under the write lock, then the pages are brought in without it: what fails there
 *    leaves the flags set, as on Linux.
 */
#include "space/advice.h"

#include <errno.h>

static const uint64_t lock_bits = SM_VM_LOCKED | SM_VM_LOCKONFAULT;
static const uint64_t never = SM_VM_IO | SM_VM_DONTEXPAND | SM_VM_PFNMAP | SM_VM_MIXEDMAP |
			      SM_VM_HUGETLB | SM_VM_DROPPABLE;

static int set_lock(struct sm__change *c, uint64_t bits)
{
	struct sm_space *s = c->op->space;
	uint64_t old = c->vma->flags;
	int err;

	c->flags = (old & ~lock_bits) | bits;
	c->name = c->vma->name;
	if (old & never)
		return 0;
	err = sm__change(c);
	if (err)
		return err;
	if ((bits & SM_VM_LOCKED) && !(old & SM_VM_LOCKED))
		s->locked_vm += sm__pages(s, c->end - c->start);
	else if (!(bits & SM_VM_LOCKED) && (old & SM_VM_LOCKED))
		s->locked_vm -= sm__pages(s, c->end - c->start);
	return 0;
}

static int set_range(struct sm__op *op, sm_addr start, sm_addr end, uint64_t bits)
{
	struct sm_space *s = op->space;
	struct sm__tree_cursor cursor = sm__cursor(&s->tree);
	struct sm__change c = { .op = op, .vma = sm__find(s, start), .start = start };

	if (!c.vma)
		return -ENOMEM;
	sm__seek(&cursor, start);
	c.prev = c.vma->start < start ? c.vma : sm__prev(&cursor);
	for (;;) {
		int err;

		c.end = c.vma->end < end ? c.vma->end : end;
		err = set_lock(&c, bits);
		if (err)
			return err;
		if (c.end >= end)
			return 0;
		c.prev = c.vma;
		c.start = c.end;
		c.vma = sm__find(s, c.start);
		if (!c.vma)
			return -ENOMEM;
	}
}

static uint64_t limit_pages(const struct sm_space *s)
{
	return atomic_load_explicit((_Atomic uint64_t *)&s->limit_memlock, memory_order_relaxed) >>
	       s->page_shift;
}

/* Pages of the range that are locked already. */
static uint64_t locked_pages(struct sm_space *s, sm_addr start, sm_addr end)
{
	struct sm__tree_cursor c = sm__cursor(&s->tree);
	uint64_t n = 0;

	for (struct sm__vma *v = sm__seek(&c, start); v && v->start < end; v = sm__next(&c)) {
		sm_addr from = v->start > start ? v->start : start;

		if (v->flags & SM_VM_LOCKED)
			n += sm__pages(s, (v->end < end ? v->end : end) - from);
	}
	return n;
}

static bool within_limit(struct sm_space *s, sm_addr start, uint64_t length)
{
	uint64_t pages = sm__pages(s, length), limit = limit_pages(s);

	if (s->o.capabilities & SM_CAP_IPC_LOCK)
		return true;
	if (s->locked_vm + pages <= limit)
		return true;
	return start + length >= start &&
	       s->locked_vm + pages - locked_pages(s, start, start + length) <= limit;
}

/* Whole pages around [addr, addr + length); the length may wrap to 0. */
static void widen(const struct sm_space *s, sm_addr *addr, uint64_t *length)
{
	*length = sm__page_align(s, *length + (*addr & (s->page_size - 1)));
	*addr &= ~(s->page_size - 1);
}

static int change_range(struct sm_space *s, sm_addr addr, uint64_t length, uint64_t bits)
{
	struct sm__op op;
	int err;

	sm__op_init(&op, s, SM_CALL_MLOCK);
	err = sm__op_lock(&op, SM__WRITE, addr - s->page_size, addr + length + s->page_size);
	if (err)
		return err;
	if (bits && !within_limit(s, addr, length))
		err = -ENOMEM;
	else if (addr + length < addr)
		err = -EINVAL;
	else if (length)
		err = set_range(&op, addr, addr + length, bits);
	sm__op_unlock(&op);
	return err;
}

/* What POSIX wants to hear of a page that did not come. */
static int posix_error(int err)
{
	if (err == -EFAULT || err == -EHWPOISON)
		return -ENOMEM;
	return err == -ENOMEM ? -EAGAIN : err;
}

int sm_mlock2(struct sm_space *s, sm_addr addr, uint64_t length, int flags)
{
	uint64_t bits = SM_VM_LOCKED | (flags & SM_MLOCK_ONFAULT ? SM_VM_LOCKONFAULT : 0);
	int err;

	if (flags & ~SM_MLOCK_ONFAULT)
		return -EINVAL;
	if (!sm__lock_allowed(s))
		return -EPERM;
	widen(s, &addr, &length);
	err = change_range(s, addr, length, bits);
	if (err)
		return err;
	return posix_error(sm__populate_range(s, addr, addr + length, SM__POPULATE_LOCK));
}

int sm_mlock(struct sm_space *s, sm_addr addr, uint64_t length)
{
	return sm_mlock2(s, addr, length, 0);
}

int sm_munlock(struct sm_space *s, sm_addr addr, uint64_t length)
{
	widen(s, &addr, &length);
	return change_range(s, addr, length, 0);
}

/* ---- all of it ---- */

static uint64_t bits_of(int flags)
{
	return SM_VM_LOCKED | (flags & SM_MCL_ONFAULT ? SM_VM_LOCKONFAULT : 0);
}

/* What cannot be changed is passed over: Linux does not report it. */
static void set_everywhere(struct sm__op *op, uint64_t bits)
{
	struct sm_space *s = op->space;
	struct sm__change c = { .op = op };
	sm_addr at = 0;

	for (;;) {
		struct sm__tree_cursor cursor = sm__cursor(&s->tree);

		c.vma = sm__seek(&cursor, at);
		if (!c.vma)
			return;
		c.start = c.vma->start;
		c.end = at = c.vma->end;
		(void)set_lock(&c, bits);
		c.prev = c.vma;
	}
}

static void apply_all(struct sm__op *op, int flags)
{
	struct sm_space *s = op->space;

	s->def_flags &= ~lock_bits;
	if (flags & SM_MCL_FUTURE)
		s->def_flags |= bits_of(flags);
	if ((flags & (SM_MCL_FUTURE | SM_MCL_CURRENT)) != SM_MCL_FUTURE)
		set_everywhere(op, flags & SM_MCL_CURRENT ? bits_of(flags) : 0);
}

int sm_mlockall(struct sm_space *s, int flags)
{
	const int known = SM_MCL_CURRENT | SM_MCL_FUTURE | SM_MCL_ONFAULT;
	struct sm__op op;
	int err;

	if (!flags || (flags & ~known) || flags == SM_MCL_ONFAULT)
		return -EINVAL;
	if (!sm__lock_allowed(s))
		return -EPERM;
	sm__op_init(&op, s, SM_CALL_MLOCK);
	err = sm__op_lock(&op, SM__WRITE, 0, s->o.range_end);
	if (err)
		return err;
	if (!(flags & SM_MCL_CURRENT) || s->total_vm <= limit_pages(s) ||
	    (s->o.capabilities & SM_CAP_IPC_LOCK))
		apply_all(&op, flags);
	else
		err = -ENOMEM;
	sm__op_unlock(&op);
	if (!err && (flags & SM_MCL_CURRENT))
		(void)sm__populate_range(s, 0, s->o.range_end, SM__POPULATE_TRY);
	return err;
}

int sm_munlockall(struct sm_space *s)
{
	struct sm__op op;
	int err;

	sm__op_init(&op, s, SM_CALL_MLOCK);
	err = sm__op_lock(&op, SM__WRITE, 0, s->o.range_end);
	if (err)
		return err;
	apply_all(&op, 0);
	sm__op_unlock(&op);
	return 0;
}
