/* SPDX-License-Identifier: MIT */
/*
 * check.c - the invariants of node.h as predicates, and the counting of nodes.
 */
#include <inttypes.h>
#include "maple/check.h"

struct walk {
	const struct sm_maple *tree;
	unsigned int height;
	char text[160];
};

static bool complain(struct walk *w, const void *node, const char *what, uint64_t value)
{
	snprintf(w->text, sizeof(w->text), "node %p: %s (%#" PRIx64 ")", node, what, value);
	return false;
}

/* I1 and I3 of node.h. */
static bool leaf_is_valid(struct walk *w, const struct sm__leaf *l, uint64_t min, uint64_t max,
			  uint64_t *gap)
{
	bool last = max == SM__KEY_MAX;
	uint64_t from = min;
	unsigned int i;

	if (l->n < 1 || l->n > LEAF_SLOTS)
		return complain(w, l, "number of entries", l->n);
	if (l->n < LEAF_MIN && !last)
		return complain(w, l, "too few entries", l->n);
	if (sm__leaf_dead(l))
		return complain(w, l, "dead leaf in the tree", 0);
	for (i = 0; i < l->n; i++) {
		if (l->entry[i].first < from || (from == 0 && i > 0))
			return complain(w, l, "entries overlap or leave the node",
					l->entry[i].first);
		if (l->last[i] < l->entry[i].first)
			return complain(w, l, "range ends before it begins", l->last[i]);
		if (!sm__leaf_value(l, i))
			return complain(w, l, "entry without a value", l->entry[i].first);
		from = l->last[i] + 1;
	}
	for (; i < LEAF_SLOTS; i++)
		if (l->last[i] != SM__KEY_MAX || sm__leaf_value(l, i))
			return complain(w, l, "unused place is not empty", i);
	if (l->last[l->n - 1] > max)
		return complain(w, l, "last entry leaves the node", l->last[l->n - 1]);
	if (!last && l->last[l->n - 1] != max)
		return complain(w, l, "gap at the end of a leaf", max);
	*gap = sm__leaf_gap(l, min, last);
	return true;
}

/* I2, I4 and I5 of node.h. */
static bool node_is_valid(struct walk *w, const void *node, unsigned int level, uint64_t min,
			  uint64_t max, uint64_t *gap)
{
	const struct sm__inner *n = node;
	unsigned int i;

	if (!level)
		return leaf_is_valid(w, node, min, max, gap);
	if (n->n < 2 || n->n > INNER_SLOTS)
		return complain(w, n, "number of children", n->n);
	if (n->n < INNER_MIN && level + 1 < w->height)
		return complain(w, n, "too few children", n->n);
	if (sm__inner_dead(n))
		return complain(w, n, "dead node in the tree", 0);
	*gap = 0;
	for (i = 0; i < n->n; i++) {
		uint64_t end = i + 1 < n->n ? n->pivot[i] : max, below;

		if (end < min || end > max)
			return complain(w, n, "pivots do not ascend", end);
		if (!node_is_valid(w, sm__inner_child(n, i), level - 1, min, end, &below))
			return false;
		if (below != n->gap[i])
			return complain(w, n, "largest gap of a child", n->gap[i]);
		*gap = below > *gap ? below : *gap;
		min = end + 1;
	}
	for (; i < INNER_SLOTS; i++)
		if (sm__inner_child(n, i) || n->gap[i])
			return complain(w, n, "unused place is not empty", i);
	for (i = n->n - 1; i < INNER_SLOTS - 1; i++)
		if (n->pivot[i] != SM__KEY_MAX)
			return complain(w, n, "unused pivot", i);
	return true;
}

const char *sm_maple_validate(const struct sm_maple *t)
{
	static _Thread_local struct walk w;
	uintptr_t root = sm__root_load(t);
	uint64_t gap;

	w.tree = t;
	w.height = sm__root_height(root);
	if (!root)
		return NULL;
	if (!w.height || w.height > SM_MAPLE_HEIGHT_MAX)
		return "height out of range";
	return node_is_valid(&w, sm__root_node(root), w.height - 1, 0, SM__KEY_MAX, &gap) ? NULL
											  : w.text;
}

const char *sm__path_validate(const struct sm_cursor *c)
{
	static _Thread_local struct walk w;
	const struct sm_cursor_path *p = &c->path;
	uint64_t gap;

	w.height = p->height;
	if (!p->height)
		return NULL;
	if (sm__root_load(c->tree) != sm__root_pack(p->node[p->height - 1], p->height))
		return "the path does not begin at the root";
	for (unsigned int l = p->height - 1; l > 0; l--)
		if (sm__inner_child(p->node[l], p->slot[l]) != p->node[l - 1])
			return "the path leaves the tree";
	if (!leaf_is_valid(&w, p->node[0], sm__path_min(p, 0), sm__path_max(p, 0), &gap))
		return w.text;
	for (unsigned int l = 1; l < p->height; l++) {
		const struct sm__inner *n = p->node[l];

		if (n->gap[p->slot[l]] != gap)
			return "largest gap on the path";
		if (n->n < 2 || (n->n < INNER_MIN && l + 1 < p->height))
			return "too few children on the path";
		gap = sm__inner_gap(n);
	}
	return NULL;
}

static void count(const void *node, unsigned int level, struct sm_maple_memory *m)
{
	const struct sm__inner *n = node;
	const struct sm__leaf *l = node;

	if (!level) {
		m->leaves++;
		m->bytes += sizeof(*l);
		m->entries += l->n;
		return;
	}
	m->inners++;
	m->bytes += sizeof(*n);
	for (unsigned int i = 0; i < n->n; i++)
		count(sm__inner_child(n, i), level - 1, m);
}

void sm_maple_memory(const struct sm_maple *t, struct sm_maple_memory *out)
{
	uintptr_t root = sm__root_load(t);

	*out = (struct sm_maple_memory){ 0 };
	if (root)
		count(sm__root_node(root), sm__root_height(root) - 1, out);
}
