/* SPDX-License-Identifier: MIT */
/*
 * split.c - one VMA becomes two, and bounds that move.
 *
 *      VVVVVVVV   split at the middle, below: NNNNVVVV   above: VVVVNNNN
 *
 * I1 One store: readers see the old VMA, or all that has become of it.
 * I2 map_count may exceed the limit by one for a moment: only the checked form looks at it.
 */
#include "space/space.h"
#include "space/vma_lock.h"

#include <errno.h>

/* Where a huge page could lie across a new border inside v, it must be split first. */
int sm__plan_border(struct sm__op *op, struct sm__step *step, struct sm__vma *v, sm_addr at)
{
	step->kind = SM__STEP_SPLIT;
	step->space = op->space;
	step->vma = v;
	step->start = at;
	step->end = v->end;
	return op->space->backend->plan ? op->space->backend->plan(step) : 0;
}

void sm__commit_border(struct sm__op *op, struct sm__step *step)
{
	if (op->space->backend->commit)
		op->space->backend->commit(step, sm__op_gather(op));
}

int sm__split_unchecked(struct sm__op *op, struct sm__vma *v, sm_addr addr, bool below)
{
	struct sm_space *s = op->space;
	struct sm__vma *n = sm__vma_copy(s, v), *sides[2] = { NULL, NULL };
	uint64_t shift = sm__pages(s, addr - v->start);
	struct sm__step step;
	struct sm__prep prep;
	int err = -ENOMEM;

	SM_ASSERT(v->start < addr && addr < v->end);
	if (!n || sm__prepare(s, &prep, sm__records(v, 2), 1))
		goto free_new;
	err = sm__plan_border(op, &step, v, addr);
	if (err)
		goto unprepare;
	sm__vma_start_write(s, v);
	sm__vma_start_write(s, n);
	if (below) {
		n->end = addr;
		v->start = addr;
		v->pgoff += shift;
		sides[1] = v;
	} else {
		n->start = addr;
		n->pgoff += shift;
		v->end = addr;
		sides[0] = v;
	}
	sm__attach(s, n);
	sm__adopt(s, n, v);
	sm__store_cut(s, &prep, n, sides, NULL);
	sm__unprepare(s, &prep);
	sm__commit_border(op, &step);
	s->splits++;
	return 0;
unprepare:
	sm__unprepare(s, &prep);
free_new:
	if (n)
		sm__vma_free(s, n, false);
	return err;
}

/*
 * [start, end) is cut out of the middle of v, which keeps it:  VVVVVVVV -> NNVVVVMM
 * 0, -ENOMEM: nothing has changed.
 */
int sm__split_out(struct sm__op *op, struct sm__vma *v, sm_addr start, sm_addr end,
		  struct sm__tree_cursor *c)
{
	struct sm_space *s = op->space;
	struct sm__vma *sides[2] = { sm__vma_copy(s, v), NULL };
	struct sm__step steps[2];
	struct sm__prep prep;
	int err = -ENOMEM;

	SM_ASSERT(v->start < start && start < end && end < v->end);
	sides[1] = sides[0] ? sm__vma_copy(s, v) : NULL;
	if (!sides[1] || sm__prepare(s, &prep, sm__records(v, 3), 1))
		goto free_sides;
	err = sm__plan_border(op, &steps[0], v, start);
	if (err)
		goto unprepare;
	err = sm__plan_border(op, &steps[1], v, end);
	if (err)
		goto abort;
	sm__vma_start_write(s, v);
	sides[0]->end = start;
	sides[1]->start = end;
	sides[1]->pgoff += sm__pages(s, end - v->start);
	v->pgoff += sm__pages(s, start - v->start);
	v->start = start;
	v->end = end;
	for (int i = 0; i < 2; i++) {
		sm__attach(s, sides[i]);
		sm__adopt(s, sides[i], v);
	}
	sm__store_cut(s, &prep, v, sides, c);
	sm__unprepare(s, &prep);
	sm__commit_border(op, &steps[0]);
	sm__commit_border(op, &steps[1]);
	s->splits += 2;
	return 0;
abort:
	if (s->backend->abort)
		s->backend->abort(&steps[0]);
unprepare:
	sm__unprepare(s, &prep);
free_sides:
	for (int i = 0; i < 2; i++)
		if (sides[i])
			sm__vma_free(s, sides[i], false);
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
	int err = sm__prepare(s, &prep, sm__records(v, 1), 1);

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
