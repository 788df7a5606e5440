/* SPDX-License-Identifier: MIT */
/*
 * copy.c - whole trees at once: the copy that fork makes, and the loading of sorted ranges.
 *
 * I1 A tree under construction is published by one store of the root word, when it is whole; until
 *    then nobody can have met its nodes, and they are given back at once if memory runs out.
 */
#include <errno.h>
#include "maple/write.h"

/* Never published: gives back `node` and the first n children of it that were set. */
static void give_back(struct sm_maple_pool *pool, void *node, unsigned int level)
{
	struct sm__inner *inner = node;

	if (!level) {
		sm__node_give_back(pool, SM__NODE_LEAF, node);
		return;
	}
	for (unsigned int i = 0; i < INNER_SLOTS && sm__inner_child(inner, i); i++)
		give_back(pool, sm__inner_child(inner, i), level - 1);
	sm__node_give_back(pool, SM__NODE_INNER, node);
}

/* -------------------------------------------------------------------------------- copy ---- */

static struct sm__leaf *copy_leaf(struct sm_maple_pool *pool, const struct sm__leaf *src)
{
	struct sm__leaf *l = sm__leaf_take(pool, NULL);

	if (!l)
		return NULL;
	l->n = src->n;
	for (unsigned int i = 0; i < LEAF_SLOTS; i++) {
		l->last[i] = src->last[i];
		l->entry[i].first = src->entry[i].first;
		atomic_store_explicit(&l->entry[i].value, sm__leaf_value(src, i),
				      memory_order_relaxed);
	}
	return l;
}

/* Depth first; the depth is the height of the tree. NULL: exhausted, nothing is kept. */
static void *copy_node(struct sm_maple_pool *pool, const void *node, unsigned int level)
{
	const struct sm__inner *src = node;
	struct sm__inner *x;
	void *child;

	if (!level)
		return copy_leaf(pool, node);
	x = sm__inner_take(pool, NULL);
	if (!x)
		return NULL;
	x->n = src->n;
	for (unsigned int i = 0; i < INNER_SLOTS; i++) {
		if (i + 1 < INNER_SLOTS)
			x->pivot[i] = src->pivot[i];
		x->gap[i] = src->gap[i];
		atomic_store_explicit(&x->child[i], NULL, memory_order_relaxed);
	}
	for (unsigned int i = 0; i < src->n; i++) {
		child = copy_node(pool, sm__inner_child(src, i), level - 1);
		if (!child) {
			give_back(pool, x, level);
			return NULL;
		}
		atomic_store_explicit(&x->child[i], child, memory_order_relaxed);
	}
	return x;
}

int sm_maple_copy(struct sm_maple *dst, const struct sm_maple *src)
{
	uintptr_t root = sm__root_load(src);
	unsigned int height = sm__root_height(root);
	void *copy;

	if (dst->root)
		return -EEXIST;
	if (!root)
		return 0;
	copy = copy_node(dst->pool, sm__root_node(root), height - 1);
	if (!copy)
		return -ENOMEM;
	sm__root_publish(dst, sm__root_pack(copy, height));
	dst->version++;
	return 0;
}

/* -------------------------------------------------------------------------------- load ---- */

/*
 * One row per level collects children. A row that is full to twice a node gives its first half up
 * as a node, so that at the end every row holds enough for one node or for two of at least half.
 */
struct loader {
	struct sm_maple_pool *pool;
	unsigned int levels; /* rows in use; row[l] holds nodes of level l */
	struct load_row {
		unsigned int n;
		struct {
			void *node;
			uint64_t max, gap;
		} child[2 * INNER_SLOTS];
	} row[SM_MAPLE_HEIGHT_MAX];
};

static int load_child(struct loader *ld, unsigned int level, void *node, uint64_t max,
		      uint64_t gap);

/* The first n children of the row become a node of the next level. */
static int load_cut(struct loader *ld, unsigned int level, unsigned int n)
{
	struct load_row *row = &ld->row[level];
	struct sm__inner *x;
	uint64_t max;

	if (level + 1 == SM_MAPLE_HEIGHT_MAX)
		return -ENOMEM;
	x = sm__inner_take(ld->pool, NULL);
	if (!x)
		return -ENOMEM;
	for (unsigned int i = 0; i < INNER_SLOTS; i++) {
		bool used = i < n;

		if (i + 1 < INNER_SLOTS)
			x->pivot[i] = i + 1 < n ? row->child[i].max : SM__KEY_MAX;
		atomic_store_explicit(&x->child[i], used ? row->child[i].node : NULL,
				      memory_order_relaxed);
		x->gap[i] = used ? row->child[i].gap : 0;
	}
	x->n = n;
	max = row->child[n - 1].max;
	row->n -= n;
	for (unsigned int i = 0; i < row->n; i++)
		row->child[i] = row->child[i + n];
	return load_child(ld, level + 1, x, max, sm__inner_gap(x));
}

static int load_child(struct loader *ld, unsigned int level, void *node, uint64_t max, uint64_t gap)
{
	struct load_row *row = &ld->row[level];

	if (level == ld->levels) {
		ld->levels++;
		row->n = 0;
	}
	row->child[row->n].node = node;
	row->child[row->n].max = max;
	row->child[row->n++].gap = gap;
	return row->n == 2 * INNER_SLOTS ? load_cut(ld, level, INNER_SLOTS) : 0;
}

static int load_leaves(struct loader *ld, const struct sm_maple_range *ranges, size_t n)
{
	uint64_t min = 0;

	while (n) {
		unsigned int take = n < LEAF_SLOTS ? (unsigned int)n : LEAF_SLOTS;
		struct sm__entry row[LEAF_SLOTS];
		struct sm__leaf *l = sm__leaf_take(ld->pool, NULL);
		int ret;

		if (!l)
			return -ENOMEM;
		for (unsigned int i = 0; i < take; i++)
			row[i] = (struct sm__entry){ ranges[i].first, ranges[i].last,
						     ranges[i].entry };
		sm__leaf_fill(l, row, take);
		ranges += take;
		n -= take;
		ret = load_child(ld, 0, l, l->last[take - 1], sm__leaf_gap(l, min, !n));
		if (ret)
			return ret;
		min = l->last[take - 1] + 1;
	}
	return 0;
}

/* Closes the rows from below; the last one left with a single node is the root. */
static int load_finish(struct loader *ld)
{
	for (unsigned int level = 0; level < ld->levels; level++) {
		struct load_row *row = &ld->row[level];
		int ret = 0;

		if (level + 1 == ld->levels && row->n == 1)
			return 0;
		if (row->n > INNER_SLOTS)
			ret = load_cut(ld, level, row->n / 2);
		if (!ret)
			ret = load_cut(ld, level, row->n);
		if (ret)
			return ret;
	}
	return 0;
}

static bool sorted(const struct sm_maple_range *r, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!r[i].entry || sm__entry_is_reserved(r[i].entry) || r[i].first > r[i].last ||
		    (i && r[i].first <= r[i - 1].last))
			return false;
	return true;
}

int sm_maple_load_sorted(struct sm_maple *t, const struct sm_maple_range *ranges, size_t n)
{
	struct loader ld;
	unsigned int top;
	int ret;

	if (t->root)
		return -EEXIST;
	if (!sorted(ranges, n))
		return -EINVAL;
	if (!n)
		return 0;
	ld.pool = t->pool;
	ld.levels = 0;
	ret = load_leaves(&ld, ranges, n);
	if (!ret)
		ret = load_finish(&ld);
	if (ret) {
		for (unsigned int l = 0; l < ld.levels; l++)
			for (unsigned int i = 0; i < ld.row[l].n; i++)
				give_back(t->pool, ld.row[l].child[i].node, l);
		return ret;
	}
	top = ld.levels - 1;
	sm__root_publish(t, sm__root_pack(ld.row[top].child[0].node, top + 1));
	t->version++;
	return 0;
}
