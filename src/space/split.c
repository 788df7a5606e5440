/* SPDX-License-Identifier: MIT */
/*
 * split.c - one VMA becomes two, and bounds that move.
 *
 *      VVVVVVVV   split at the middle, below: NNNNVVVV   above: VVVVNNNN
 *
 * I1 The new VMA is stored first: readers find each address in the old VMA or the new.
 * I2 map_count may exceed the limit by one for a moment: only the checked form looks at it.
 */
#include "space/space.h"
#include "space/vma_lock.h"

#include <errno.h>

int sm__split_unchecked(struct sm__op *op, struct sm__vma *v, sm_addr addr, bool below)
{
	struct sm_space *s = op->space;
	struct sm__step step = {
		.kind = SM__STEP_SPLIT, .space = s, .vma = v, .start = addr, .end = v->end
	};
	struct sm__vma *n = sm__vma_copy(s, v);
	uint64_t shift = sm__pages(s, addr - v->start);
	struct sm__tree_cursor c;
	struct sm__prep prep;
	int err = -ENOMEM;

	SM_ASSERT(v->start < addr && addr < v->end);
	if (!n || sm__prepare(s, &prep, 2, 2))
		goto free_new;
	err = s->backend->plan ? s->backend->plan(&step) : 0;
	if (err)
		goto unprepare;
	sm__vma_start_write(s, v);
	sm__vma_start_write(s, n);
	if (below) {
		n->end = addr;
		v->start = addr;
		v->pgoff += shift;
	} else {
		n->start = addr;
		n->pgoff += shift;
		v->end = addr;
	}
	c = sm__cursor(&s->tree);
	sm__store_new(s, &prep, n, &c);
	sm__store(s, &prep, v, &c);
	sm__unprepare(s, &prep);
	if (s->backend->commit)
		s->backend->commit(&step, sm__op_gather(op));
	s->splits++;
	return 0;
unprepare:
	sm__unprepare(s, &prep);
free_new:
	if (n)
		sm__vma_free(s, n, false);
	return err;
}

int sm__split(struct sm__op *op, struct sm__vma *v, sm_addr addr, bool below)
{
	if (op->space->map_count >= op->space->host->o.max_map_count)
		return -ENOMEM;
	return sm__split_unchecked(op, v, addr, below);
}

int sm__vma_set_bounds(struct sm__op *op, struct sm__vma *v, sm_addr start, sm_addr end)
{
	struct sm_space *s = op->space;
	struct sm__prep prep;
	int err = sm__prepare(s, &prep, 1, 1);

	if (err)
		return err;
	sm__vma_start_write(s, v);
	v->pgoff += (uint64_t)((int64_t)(start - v->start) >> s->page_shift);
	v->start = start;
	v->end = end;
	sm__store(s, &prep, v, NULL);
	sm__unprepare(s, &prep);
	return 0;
}
