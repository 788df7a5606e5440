/* SPDX-License-Identifier: MIT */
/*
 * mseal.c - a range is sealed for good: its mappings stay as they are.
 *
 * I1 Two passes: a hole anywhere is found before anything is sealed.
 */
#include "space/advice.h"

#include <errno.h>

static bool is_whole(struct sm_space *s, sm_addr start, sm_addr end)
{
	struct sm__tree_cursor c = sm__cursor(&s->tree);

	for (struct sm__vma *v = sm__seek(&c, start); v && v->start <= start; v = sm__next(&c)) {
		start = v->end;
		if (start >= end)
			return true;
	}
	return false;
}

static int seal(struct sm__op *op, sm_addr start, sm_addr end)
{
	struct sm_space *s = op->space;
	struct sm__tree_cursor cursor = sm__cursor(&s->tree);
	struct sm__change c = { .op = op, .vma = sm__seek(&cursor, start), .start = start };
	int err = 0;

	c.prev = c.vma->start < start ? c.vma : sm__prev(&cursor);
	while (!err && c.start < end) {
		c.vma = sm__find(s, c.start);
		c.end = c.vma->end < end ? c.vma->end : end;
		c.flags = c.vma->flags | SM_VM_SEALED;
		c.name = c.vma->name;
		err = sm__change(&c);
		c.prev = c.vma;
		c.start = c.end;
	}
	return err;
}

int sm_mseal(struct sm_space *s, sm_addr addr, uint64_t length, uint64_t flags)
{
	uint64_t len = sm__page_align(s, length);
	struct sm__op op;
	int err;

	sm__op_init(&op, s, SM_CALL_MSEAL);
	if (flags || !sm__page_aligned(s, addr) || (length && !len) || addr + len < addr)
		return -EINVAL;
	if (!len)
		return 0;
	err = sm__op_lock(&op, SM__WRITE, addr - s->page_size, addr + len + s->page_size);
	if (err)
		return err;
	err = is_whole(s, addr, addr + len) ? seal(&op, addr, addr + len) : -ENOMEM;
	sm__op_unlock(&op);
	return err;
}
