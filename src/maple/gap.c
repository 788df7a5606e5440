/* SPDX-License-Identifier: MIT */
/*
 * gap.c - the search for keys without a value, from below and from above. For the writer.
 *
 * I1 A child whose gap[] is at least `size` holds such a gap whole, unless the window cuts it: only
 *    the leaf with the window's end the search starts from can disappoint. So the search goes up
 *    once and down once more at most, and never comes back.
 */
#include <errno.h>
#include "maple/write.h"

static int found(struct sm_cursor *c, unsigned int slot, uint64_t first, uint64_t last)
{
	c->path.slot[0] = (uint8_t)slot;
	c->in_gap = 1;
	c->index = first;
	c->last = last;
	c->state = SM_CURSOR_ACTIVE;
	return 0;
}

/* 0, or -EBUSY for bad luck in an empty tree or a bad window. */
static int check(struct sm_cursor *c, struct sm_maple_window w, uint64_t size)
{
	if (!size || w.min > w.max || size - 1 > w.max - w.min)
		return -EINVAL;
	c->version = c->tree->version;
	return 0;
}

/* The lowest gap of the leaf that reaches `size` keys at or above min; 1 if there is none. */
static int leaf_lowest(struct sm_cursor *c, struct sm_maple_window w, uint64_t size)
{
	const struct sm__leaf *l = sm__path_leaf(&c->path);
	unsigned int n = l->n, i = sm__leaf_find(l, w.min);
	uint64_t from = w.min;

	if (i < n && l->entry[i].first <= from)
		from = l->last[i++] + 1;
	for (; i < n; i++) {
		if (l->entry[i].first > from && l->entry[i].first - from >= size)
			break;
		from = l->last[i] + 1;
	}
	if (i == n && (!sm__path_is_last(&c->path, 0) || !from || SM__KEY_MAX - from < size - 1))
		return 1;
	if (from > w.max || w.max - from < size - 1)
		return -EBUSY;
	return found(c, i, from, from + size - 1);
}

int sm_cursor_gap_lowest(struct sm_cursor *c, struct sm_maple_window w, uint64_t size)
{
	struct sm_cursor_path *p = &c->path;
	int ret = check(c, w, size);

	if (ret)
		return ret;
	if (!sm__path_walk(c->tree, p, w.min)) {
		sm_cursor_set_range(c, w.min, w.min + size - 1);
		return 0;
	}
	ret = leaf_lowest(c, w, size);
	if (ret <= 0)
		return ret;
	for (unsigned int l = 1; l < p->height; l++) {
		const struct sm__inner *n = p->node[l];
		unsigned int s = p->slot[l] + 1u;

		while (s < n->n && n->gap[s] < size)
			s++;
		if (s == n->n)
			continue;
		if (n->pivot[s - 1] >= w.max)
			return -EBUSY;
		for (;;) {
			p->slot[l] = (uint8_t)s;
			p->node[l - 1] = sm__inner_child(n, s);
			if (--l == 0)
				break;
			n = p->node[l];
			for (s = 0; n->gap[s] < size; s++)
				;
		}
		w.min = sm__path_min(p, 0);
		ret = leaf_lowest(c, w, size);
		SM_ASSERT_MSG(ret <= 0, "gap of %lu keys promised", (unsigned long)size);
		return ret;
	}
	return -EBUSY;
}

/* The highest gap of the leaf that reaches `size` keys at or below max; 1 if there is none. */
static int leaf_highest(struct sm_cursor *c, struct sm_maple_window w, uint64_t size)
{
	const struct sm__leaf *l = sm__path_leaf(&c->path);
	unsigned int n = l->n, i = sm__leaf_find(l, w.max);
	uint64_t to = w.max, from;

	if (i < n && l->entry[i].first <= to) {
		/*
		 * The window's end lies in entry i: the gap in front of it is the first to look at.
		 */
		if (!l->entry[i].first)
			return 1;
		to = l->entry[i].first - 1;
	}
	for (; i > 0; i--) {
		from = l->last[i - 1] + 1;
		if (from <= to && to - from >= size - 1)
			break;
		if (!l->entry[i - 1].first)
			return 1;
		to = l->entry[i - 1].first - 1;
	}
	if (i == 0) {
		from = sm__path_min(&c->path, 0);
		if (from > to || to - from < size - 1)
			return 1;
	}
	if (to < w.min || to - w.min < size - 1)
		return -EBUSY;
	return found(c, i, to - size + 1, to);
}

int sm_cursor_gap_highest(struct sm_cursor *c, struct sm_maple_window w, uint64_t size)
{
	struct sm_cursor_path *p = &c->path;
	int ret = check(c, w, size);

	if (ret)
		return ret;
	if (!sm__path_walk(c->tree, p, w.max)) {
		sm_cursor_set_range(c, w.max - size + 1, w.max);
		return 0;
	}
	ret = leaf_highest(c, w, size);
	if (ret <= 0)
		return ret;
	for (unsigned int l = 1; l < p->height; l++) {
		const struct sm__inner *n = p->node[l];
		unsigned int s = p->slot[l];

		while (s > 0 && n->gap[s - 1] < size)
			s--;
		if (s == 0)
			continue;
		s--;
		if (n->pivot[s] < w.min)
			return -EBUSY;
		for (;;) {
			p->slot[l] = (uint8_t)s;
			p->node[l - 1] = sm__inner_child(n, s);
			if (--l == 0)
				break;
			n = p->node[l];
			for (s = n->n - 1; n->gap[s] < size; s--)
				;
		}
		w.max = sm__path_max(p, 0);
		ret = leaf_highest(c, w, size);
		SM_ASSERT_MSG(ret <= 0, "gap of %lu keys promised", (unsigned long)size);
		return ret;
	}
	return -EBUSY;
}
