/* SPDX-License-Identifier: MIT */
/* mincore.c - which pages of a range are in memory. What precedes a hole has been answered then. */
#include "space/advice.h"

#include <errno.h>
#include <string.h>

static int answer(struct sm_space *s, struct sm__advise *a)
{
	if (!s->backend->advise) {
		memset(a->vec, 0, sm__pages(s, a->end - a->start));
		return 0;
	}
	return s->backend->advise(a);
}

int sm_mincore(struct sm_space *s, sm_addr addr, uint64_t length, unsigned char *vec)
{
	struct sm__advise a = { .what = SM__PAGES_PRESENT, .space = s, .vec = vec };
	uint64_t len = sm__page_align(s, length);
	struct sm__tree_cursor c = sm__cursor(&s->tree);
	sm_addr at = addr, end = addr + len;
	struct sm__op op;
	int err;

	sm__op_init(&op, s, SM_CALL_MINCORE);
	if (!sm__page_aligned(s, addr))
		return -EINVAL;
	if (addr + length < addr || addr + length > s->o.range_end)
		return -ENOMEM;
	if (!len)
		return 0;
	err = sm__op_lock(&op, SM__READ, addr, end);
	if (err)
		return err;
	a.vma = sm__seek(&c, at);
	while (!err && at < end) {
		if (!a.vma || a.vma->start > at) {
			err = -ENOMEM;
			break;
		}
		a.start = at;
		a.end = a.vma->end < end ? a.vma->end : end;
		err = answer(s, &a);
		a.vec += sm__pages(s, a.end - a.start);
		at = a.end;
		a.vma = sm__next(&c);
	}
	sm__op_unlock(&op);
	return err;
}
