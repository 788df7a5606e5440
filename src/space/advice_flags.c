/* SPDX-License-Identifier: MIT */
/*
 * advice_flags.c - a range of one VMA takes other flags or another name: merged with a neighbour that
 * has them, or split off.
 *
 * I1 A VMA that has them already is neither stamped nor stored.
 * I2 What is split before a failure stays split, as on Linux; flags change whole or not at all.
 */
#include "space/advice.h"
#include "space/vma_lock.h"

/* The VMA is the range now, and keeps its old attributes until this stores the new ones. */
static int store(struct sm__change *c)
{
	struct sm_space *s = c->op->space;
	struct sm__name *old = c->vma->name;
	struct sm__prep prep;
	int err;

	sm__vma_start_write(s, c->vma);
	if (old == c->name)
		return sm__store_flags(s, c->vma, c->flags, NULL);
	err = sm__prepare(s, &prep, 1, 1);
	if (err)
		return err;
	c->vma->flags = c->flags;
	c->vma->name = sm__name_get(c->name);
	sm__store(s, &prep, c->vma, NULL);
	sm__unprepare(s, &prep);
	sm__name_put(old);
	return 0;
}

static bool has_them(const struct sm__change *c)
{
	return c->vma->flags == c->flags && sm__name_equal(c->vma->name, c->name);
}

int sm__change(struct sm__change *c)
{
	struct sm_space *s = c->op->space;
	struct sm__tree_cursor cursor = sm__cursor(&s->tree);
	struct sm__vma *v = c->vma;
	struct sm__merge m;
	int err;

	if (has_them(c))
		return 0;
	err = sm__vma_start_write_interruptible(s, v);
	if (err)
		return err;
	sm__merge_from(&m, c->op, v);
	m.pgoff += sm__pages(s, c->start - v->start);
	m.start = c->start;
	m.end = c->end;
	m.flags = c->flags;
	m.name = c->name;
	m.middle = v;
	m.prev = c->prev;
	m.next = v->end == c->end ? sm__seek(&cursor, c->end) : NULL;
	v = sm__modify(&m);
	if (!v)
		return m.error;
	c->vma = v;
	return has_them(c) ? 0 : store(c);
}
