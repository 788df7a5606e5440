/* SPDX-License-Identifier: MIT */
/*
 * munmap.c - taking a range away, also for whoever maps over it.
 *
 *      gather    split the ends; check seals; plan the backend's steps      may fail
 *      (tree)    erase, or store something over it                         cannot fail
 *      detach    no reader can lock the VMAs any more; counts follow
 *      finish    zap, flush; under the read lock where it was downgraded
 *
 * One end of one VMA, what a stack of mappings and a heap give back mostly, is not split off first: the VMA
 * lets go of it in one store.
 *
 * I1 gather fails before anything is taken away; a split it made stays, as on Linux.
 * I2 What finish frees was flushed first (backend.h I3).
 * I3 After a downgrade a reader of the tree does not see that the pages are still mapped: who must
 *    reach every mapping of a page waits until `unmapping` falls (backend_soft.c I4). There is one
 *    such munmap at most: the next needs the write lock.
 */
#include "space/space.h"
#include "base/delay.h"
#include "base/inject.h"
#include "space/vma_lock.h"

#include <errno.h>
#include <stdlib.h>

/* v begins before the range: its lower part becomes a VMA of its own. */
static int split_first(struct sm__unmap *u, struct sm__vma *v)
{
	struct sm_space *s = u->op->space;

	/* a hole in one VMA makes one more of them; cutting off an end does not */
	if (u->end < v->end && s->map_count >= s->host->o.max_map_count)
		return -ENOMEM;
	if (v->flags & SM_VM_SEALED)
		return -EPERM;
	return sm__split_unchecked(u->op, v, u->start, true);
}

/* Lists the VMAs of the range, by gone_next in ascending order. */
static int list(struct sm__unmap *u, struct sm__vma *v)
{
	struct sm_space *s = u->op->space;
	struct sm__vma **tail = &u->first;

	for (; v && v->start < u->end; v = v->end < u->end ? sm__next(u->c) : NULL) {
		uint64_t pages;

		if (v->flags & SM_VM_SEALED)
			return -EPERM;
		if (v->end > u->end) {
			int err = sm__split_unchecked(u->op, v, u->end, false);

			if (err)
				return err;
			sm__seek(u->c, v->start); /* the tree has changed */
		}
		sm__vma_start_write(s, v);
		pages = sm__pages(s, sm__vma_size(v));
		u->count++;
		u->pages += pages;
		if (v->flags & SM_VM_ACCOUNT)
			u->accounted += pages;
		if (v->flags & SM_VM_LOCKED)
			u->locked += pages;
		*tail = v;
		tail = &v->gone_next;
		*tail = NULL;
	}
	return 0;
}

static void free_steps(struct sm__unmap *u)
{
	if (u->steps != &u->one)
		free(u->steps);
	u->steps = NULL;
}

static void abort_steps(struct sm__unmap *u, uint64_t planned)
{
	while (planned--)
		if (u->op->space->backend->abort)
			u->op->space->backend->abort(&u->steps[planned]);
	free_steps(u);
}

static int plan(struct sm__unmap *u)
{
	const struct sm__backend *b = u->op->space->backend;
	uint64_t i = 0;

	if (!b->plan || !u->count)
		return 0;
	if (u->count == 1)
		u->steps = &u->one;
	else
		u->steps = sm__inject_fail() ? NULL : malloc(u->count * sizeof(*u->steps));
	if (!u->steps)
		return -ENOMEM;
	for (struct sm__vma *v = u->first; v; v = v->gone_next, i++) {
		int err;

		u->steps[i] = (struct sm__step){ .kind = SM__STEP_UNMAP,
						 .space = u->op->space,
						 .vma = v,
						 .start = v->start,
						 .end = v->end,
						 .old_flags = v->flags };
		err = b->plan(&u->steps[i]);
		if (err) {
			abort_steps(u, i);
			return err;
		}
	}
	return 0;
}

int sm__unmap_gather(struct sm__unmap *u)
{
	struct sm__vma *v = sm__seek(u->c, u->start);
	int err = 0;

	u->first = NULL;
	u->count = u->pages = u->accounted = u->locked = 0;
	u->steps = NULL;
	if (v && v->start < u->end) {
		if (u->start > v->start) {
			err = split_first(u, v);
			v = err ? v : sm__seek(u->c, u->start); /* the tree has changed */
		}
		if (!err)
			err = list(u, v);
		if (!err)
			err = plan(u);
		if (err)
			return err;
	}
	return 0;
}

void sm__unmap_neighbours(struct sm__unmap *u)
{
	u->next = sm__seek(u->c, u->end);
	sm__seek(u->c, u->start);
	u->prev = sm__prev(u->c);
}

void sm__unmap_detach(struct sm__unmap *u)
{
	struct sm_space *s = u->op->space;
	struct sm__vma *v = u->first, *next;

	for (; v; v = next) {
		next = v->gone_next;
		sm__account(s, v->flags, -(int64_t)sm__pages(s, sm__vma_size(v)));
		sm__detach(u->op, v);
	}
	s->locked_vm -= u->locked;
	if (!u->keep_charge)
		sm__uncharge(s, u->accounted);
	u->first = NULL;
	sm__op_notice(u->op, u->what, u->start, u->end);
}

void sm__unmap_finish(struct sm__unmap *u)
{
	for (uint64_t i = 0; u->steps && i < u->count; i++)
		u->op->space->backend->commit(&u->steps[i], sm__op_gather(u->op));
	free_steps(u);
}

void sm__unmap_abort(struct sm__unmap *u)
{
	if (u->steps)
		abort_steps(u, u->count);
	u->first = NULL;
}

/* The range is one end of v and not all of it. */
static bool is_end_of(const struct sm__unmap *u, const struct sm__vma *v)
{
	return v && v->start <= u->start && v->end >= u->end &&
	       (v->start == u->start) != (v->end == u->end) && !(v->flags & SM_VM_SEALED);
}

static int trim(struct sm__unmap *u, struct sm__vma *v)
{
	struct sm_space *s = u->op->space;
	uint64_t pages = sm__pages(s, u->end - u->start);
	struct sm__prep prep;
	int err = sm__prepare(s, &prep, sm__records(v, 1), 1);

	if (err)
		return err;
	sm__vma_start_write(s, v);
	if (s->backend->plan) {
		u->one = (struct sm__step){ .kind = SM__STEP_UNMAP,
					    .space = s,
					    .vma = v,
					    .start = u->start,
					    .end = u->end,
					    .old_flags = v->flags };
		err = s->backend->plan(&u->one);
		if (err) {
			sm__unprepare(s, &prep);
			return err;
		}
		u->count = 1;
		u->steps = &u->one;
	}
	sm__store_without(s, &prep, v, u->start, u->end, u->c);
	sm__unprepare(s, &prep);
	s->splits++; /* as if it had been split off and taken out */
	sm__account(s, v->flags, -(int64_t)pages);
	if (v->flags & SM_VM_LOCKED)
		s->locked_vm -= pages;
	if (v->flags & SM_VM_ACCOUNT)
		sm__uncharge(s, pages);
	sm__op_notice(u->op, u->what, u->start, u->end);
	return 0;
}

static int take_out(struct sm__unmap *u)
{
	struct sm_space *s = u->op->space;
	struct sm__vma *v = sm__seek(u->c, u->start);
	struct sm__prep prep;
	int err;

	if (is_end_of(u, v))
		return trim(u, v);
	err = sm__unmap_gather(u);
	if (err || !u->count)
		return err;
	err = sm__prepare(s, &prep, 0, 1);
	if (err) {
		sm__unmap_abort(u);
		return err;
	}
	sm__erase(s, u->start, u->end, u->c);
	sm__unprepare(s, &prep);
	sm__unmap_detach(u);
	return 0;
}

int sm__unmap_locked(struct sm__op *op, sm_addr start, sm_addr end)
{
	struct sm__tree_cursor c = sm__cursor(&op->space->tree);
	struct sm__unmap u = { .op = op, .c = &c, .start = start, .end = end };
	int err = take_out(&u);

	if (!err)
		sm__unmap_finish(&u);
	return err;
}

int sm_munmap(struct sm_space *s, sm_addr addr, uint64_t length)
{
	struct sm__tree_cursor c = sm__cursor(&s->tree);
	struct sm__unmap u = { .c = &c, .start = addr };
	struct sm__op op;
	int err;

	sm__op_init(&op, s, SM_CALL_MUNMAP);
	if (!sm__page_aligned(s, addr) || addr > s->o.range_end || length > s->o.range_end - addr)
		return -EINVAL;
	u.op = &op;
	u.end = addr + sm__page_align(s, length);
	if (u.end == addr)
		return -EINVAL;
	err = sm__op_lock(&op, SM__WRITE, addr - s->page_size, u.end + s->page_size);
	if (err)
		return err;
	err = take_out(&u);
	if (!err && u.steps) {
		/* relaxed: published by the downgrade */
		atomic_store_explicit(&s->unmapping, true, memory_order_relaxed);
		sm__op_downgrade(&op); /* what follows keeps faults on other VMAs out no longer */
		sm__delay();
		sm__unmap_finish(&u);
		sm__op_finish_gather(&op);
		/* release: pairs with the acquire in each_mapping */
		atomic_store_explicit(&s->unmapping, false, memory_order_release);
	}
	sm__op_unlock(&op);
	return err;
}
