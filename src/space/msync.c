/* SPDX-License-Identifier: MIT */
/*
 * msync.c - what was written through shared mappings reaches the file.
 *
 * I1 The file's functions run without any lock of the space: the walk lets go, and looks anew from
 *    where it was. A hole is remembered and the walk goes on; a busy area or a file that fails ends it.
 */
#include "space/space.h"
#include "samara/file.h"

#include <errno.h>

struct syncing {
	struct sm__op op;
	struct sm_space *s;
	sm_addr at, end;
	int flags;
	bool hole;
	/* what is to be written back, with a reference */
	struct sm_file *file;
	uint64_t offset, length;
};

/* Walks to the next part of a file that must be written. 0: y->file is it, or there is none. */
static int find_work(struct syncing *y)
{
	struct sm_space *s = y->s;
	struct sm__tree_cursor c = sm__cursor(&s->tree);
	struct sm__vma *v = sm__seek(&c, y->at);

	for (; y->at < y->end; v = sm__next(&c)) {
		sm_addr from = y->at;

		if (!v || v->start > from)
			y->hole = true;
		if (!v || v->start >= y->end)
			return 0;
		if (v->start > from)
			from = v->start;
		if ((y->flags & SM_MS_INVALIDATE) && (v->flags & SM_VM_LOCKED))
			return -EBUSY;
		y->at = v->end < y->end ? v->end : y->end;
		if (!(y->flags & SM_MS_SYNC) || !v->file || !(v->flags & SM_VM_SHARED))
			continue;
		y->file = sm_file_get(v->file);
		y->offset = (v->pgoff << s->page_shift) + (from - v->start);
		y->length = y->at - from;
		return 0;
	}
	return 0;
}

int sm_msync(struct sm_space *s, sm_addr addr, uint64_t length, int flags)
{
	const int known = SM_MS_ASYNC | SM_MS_INVALIDATE | SM_MS_SYNC;
	struct syncing y = { .s = s, .at = addr, .flags = flags };
	int err;

	if ((flags & ~known) || !sm__page_aligned(s, addr) ||
	    ((flags & SM_MS_ASYNC) && (flags & SM_MS_SYNC)))
		return -EINVAL;
	y.end = addr + sm__page_align(s, length);
	if (y.end < addr)
		return -ENOMEM;
	do {
		y.file = NULL;
		sm__op_init(&y.op, s, SM_CALL_MSYNC);
		err = sm__op_lock(&y.op, SM__READ, y.at, y.end);
		if (err)
			return err;
		err = find_work(&y);
		sm__op_unlock(&y.op);
		if (y.file) {
			err = sm_file_sync(y.file, y.offset, y.length, true);
			sm_file_put(y.file);
		}
	} while (!err && y.file && y.at < y.end);
	return err || !y.hole ? err : -ENOMEM;
}
