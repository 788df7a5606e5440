/* SPDX-License-Identifier: MIT */
/*
 * tree_maple.c - the maple tree as the tree of a space (kernels from 6.1 on).
 *
 * The tree holds the words of tree.h, which lead to the node in the VMA: at once, or by way of a record.
 *
 * I1 opaque of a cursor is a writer's struct sm_cursor without spare nodes; its first word is the
 *    tree, so that 0 there means that the cursor has not been anywhere yet.
 * I2 Nodes put aside by reserve() belong to the tree (`spare`), and are lent to the cursor for one
 *    change: so whichever cursor makes the change, it cannot fail.
 */
#include "space/tree.h"

#include <errno.h>
#include <stdlib.h>
#include "base/inject.h"
#include "maple/write.h"
#include "samara/maple.h"

struct impl {
	struct sm_maple tree;
	struct sm_cursor spare; /* only its spare nodes are used */
};

_Static_assert(sizeof(struct sm_cursor) <= sizeof(((struct sm__tree_cursor *)0)->opaque),
	       "the cursor of the maple tree fits");

static struct impl *impl_of(const struct sm__tree *t)
{
	return t->impl;
}

static struct sm__tree_node *node_of(const void *value)
{
	return sm__word_node((uintptr_t)value);
}

/* As the maple tree takes it: never followed there. */
static void *value_of(uint64_t word)
{
	return (void *)(uintptr_t)word;
}

/* The maple cursor inside, standing at addr if it has not been anywhere. */
static struct sm_cursor *cursor(struct sm__tree_cursor *c, sm_addr addr)
{
	struct sm_cursor *k = (struct sm_cursor *)c->opaque;

	if (!c->opaque[0])
		sm_cursor_init_writer(k, &impl_of(c->tree)->tree, addr, addr);
	return k;
}

static int maple_init(struct sm__tree *t)
{
	struct impl *m = sm__inject_fail() ? NULL : aligned_alloc(SM__CACHELINE, sizeof(*m));
	int ret;

	if (!m)
		return -ENOMEM;
	ret = sm_maple_init(&m->tree, t->nodes);
	if (ret) {
		free(m);
		return ret;
	}
	sm_cursor_init_writer(&m->spare, &m->tree, 0, 0);
	t->impl = m;
	t->count = 0;
	return 0;
}

/*
 * I2: what is left stays for the next change: refilling it now and then is cheaper than each time
 * anew.
 */
static void maple_release(struct sm__tree *t)
{
	(void)t;
}

static void maple_destroy(struct sm__tree *t)
{
	struct impl *m = impl_of(t);

	if (!m)
		return;
	sm_cursor_release(&m->spare);
	sm_maple_destroy(&m->tree);
	free(m);
	t->impl = NULL;
}

/* ---------------------------------------------------------------------- locked readers ---- */

static struct sm__tree_node *maple_find(struct sm__tree *t, sm_addr addr)
{
	return node_of(sm_maple_load_held(&impl_of(t)->tree, addr));
}

/* Where sm_cursor_find goes; nearly always it ends in the leaf that the walk comes to. */
static struct sm__tree_node *maple_seek(struct sm__tree_cursor *c, sm_addr addr)
{
	struct sm_cursor *k = cursor(c, addr);
	const struct sm__leaf *l = sm__path_walk(k->tree, &k->path, addr);
	unsigned int i = k->path.slot[0];

	if (sm__unlikely(!l || i >= l->n)) {
		sm_cursor_set(k, addr);
		return c->node = node_of(sm_cursor_find(k, UINT64_MAX));
	}
	k->version = k->tree->version;
	k->state = SM_CURSOR_ACTIVE;
	k->in_gap = 0;
	k->index = l->entry[i].first;
	k->last = l->last[i];
	return c->node = node_of(sm__leaf_value(l, i));
}

/*
 * Past the end the maple cursor is on the gap behind the last range, before the first on the one in
 * front.
 */
static struct sm__tree_node *maple_next(struct sm__tree_cursor *c)
{
	return c->node = node_of(sm_cursor_next(cursor(c, 0), UINT64_MAX));
}

static struct sm__tree_node *maple_prev(struct sm__tree_cursor *c)
{
	return c->node = node_of(sm_cursor_prev(cursor(c, UINT64_MAX), 0));
}

/* Nearly always both are in the leaf, or the leaf is at the edge of the tree; else a copy of the cursor
 * looks. */
static void maple_around(struct sm__tree_cursor *c, struct sm__tree_node *out[2])
{
	struct sm_cursor *k = cursor(c, 0), other;
	const struct sm__leaf *l = sm__path_leaf(&k->path);
	unsigned int i = k->path.slot[0];

	if (sm__likely(i > 0)) {
		out[0] = node_of(sm__leaf_value(l, i - 1));
	} else if (sm__path_is_first(&k->path, 0)) {
		out[0] = NULL;
	} else {
		other = *k;
		out[0] = node_of(sm_cursor_prev(&other, 0));
	}
	if (sm__likely(i + 1 < l->n)) {
		out[1] = node_of(sm__leaf_value(l, i + 1));
	} else if (sm__path_is_last(&k->path, 0)) {
		out[1] = NULL;
	} else {
		other = *k;
		out[1] = node_of(sm_cursor_next(&other, UINT64_MAX));
	}
}

/* ----------------------------------------------------------------------------- writers ---- */

static int maple_reserve(struct sm__tree *t, unsigned changes)
{
	return sm_cursor_expect(&impl_of(t)->spare, changes);
}

static const uint64_t uncut[2];

static void change(struct sm__tree_cursor *c, const struct sm__tree_item *item,
		   const uint64_t sides[2])
{
	struct sm_cursor *k = cursor(c, item->first), *spare = &impl_of(c->tree)->spare;
	void *const values[2] = { value_of(sides[0]), value_of(sides[1]) };
	int ret;

	sm_cursor_retarget(k, item->first, item->last);
	for (unsigned int i = 0; i < SM__ARRAY_SIZE(k->spare); i++)
		k->spare[i] = spare->spare[i];
	sm__write_seek(k);
	ret = sm__write_cut(k, value_of(item->word), values);
	for (unsigned int i = 0; i < SM__ARRAY_SIZE(k->spare); i++)
		k->spare[i] = NULL;
	SM_ASSERT_MSG(!ret, "a reserved change failed: %d", ret);
	(void)ret;
}

/*
 * The cursor stands on the range that is stored: the value is exchanged in place, as sm__write_at would
 * (SM__WRITE_VALUE), without finding that out again. Flips of permissions live on this.
 */
static bool store_in_place(struct sm__tree_cursor *c, const struct sm__tree_item *item)
{
	struct sm_cursor *k = (struct sm_cursor *)c->opaque;
	struct sm__leaf *l;
	unsigned int i;

	if (!c->opaque[0] || k->state != SM_CURSOR_ACTIVE || k->in_gap ||
	    k->version != k->tree->version)
		return false;
	l = sm__path_leaf(&k->path);
	i = k->path.slot[0];
	if (i >= l->n || l->entry[i].first != item->first || l->last[i] != item->last)
		return false;
	/* release: pairs with sm__leaf_value (C1 of maple/node.h) */
	atomic_store_explicit(&l->entry[i].value, value_of(item->word), memory_order_release);
	return true;
}

static void maple_store(struct sm__tree_cursor *c, const struct sm__tree_item *item)
{
	if (store_in_place(c, item)) {
		c->node = item->node;
		return;
	}
	change(c, item, uncut);
	c->node = item->node;
}

static void maple_store_cut(struct sm__tree_cursor *c, const struct sm__tree_item *item,
			    const uint64_t sides[2])
{
	change(c, item, sides);
	c->node = item->node;
}

static void maple_erase(struct sm__tree_cursor *c, sm_addr first, sm_addr last)
{
	change(c, &(struct sm__tree_item){ NULL, 0, first, last }, uncut);
	c->node = node_of(sm_cursor_next(cursor(c, first), UINT64_MAX));
}

static int maple_load(struct sm__tree *t, const struct sm__tree_item *items, size_t n)
{
	struct sm_maple_range *ranges;
	int ret;

	if (!n)
		return 0;
	ranges = sm__inject_fail() ? NULL : malloc(n * sizeof(*ranges));
	if (!ranges)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		ranges[i] = (struct sm_maple_range){ items[i].first, items[i].last,
						     value_of(items[i].word) };
	ret = sm_maple_load_sorted(&impl_of(t)->tree, ranges, n);
	free(ranges);
	return ret;
}

/* -------------------------------------------------------------------------------- gaps ---- */

static int maple_gap(struct sm__tree *t, uint64_t size, const sm_addr limits[2], sm_addr *addr,
		     bool highest)
{
	const struct sm_maple_window w = { limits[0], limits[1] };
	struct sm_cursor k;
	int ret;

	sm_cursor_init_writer(&k, &impl_of(t)->tree, 0, 0);
	ret = highest ? sm_cursor_gap_highest(&k, w, size) : sm_cursor_gap_lowest(&k, w, size);
	if (ret)
		return -ENOENT;
	*addr = k.index;
	return 0;
}

static int maple_gap_at(struct sm__tree_cursor *c, uint64_t size, const sm_addr limits[2],
			bool highest, sm_addr *addr)
{
	const struct sm_maple_window w = { limits[0], limits[1] };
	struct sm_cursor *k = cursor(c, 0);
	const struct sm__leaf *l;
	unsigned int i;

	if (highest ? sm_cursor_gap_highest(k, w, size) : sm_cursor_gap_lowest(k, w, size))
		return -ENOENT;
	*addr = k->index;
	if (sm__likely(k->state == SM_CURSOR_ACTIVE && k->in_gap)) {
		l = sm__path_leaf(&k->path);
		i = k->path.slot[0];
		if (sm__likely(i < l->n)) {
			c->node = node_of(sm__leaf_value(l, i));
			return 0;
		}
	}
	maple_seek(c, *addr); /* an empty tree, or what is above is in another leaf */
	return 0;
}

static int maple_gap_lowest(struct sm__tree *t, uint64_t size, const sm_addr limits[2],
			    sm_addr *addr)
{
	return maple_gap(t, size, limits, addr, false);
}

static int maple_gap_highest(struct sm__tree *t, uint64_t size, const sm_addr limits[2],
			     sm_addr *addr)
{
	return maple_gap(t, size, limits, addr, true);
}

/* ------------------------------------------------------------------------- RCU readers ---- */

static bool maple_load_rcu(struct sm__tree *t, sm_addr addr, struct sm__tree_found *out)
{
	uint64_t bounds[2];

	out->word = (uintptr_t)sm__maple_load_range(&impl_of(t)->tree, addr, bounds);
	out->first = bounds[0];
	out->last = bounds[1];
	return out->word;
}

static bool maple_next_rcu(struct sm__tree *t, sm_addr addr, struct sm__tree_found *out)
{
	struct sm_cursor k;

	sm_cursor_init(&k, &impl_of(t)->tree, addr, addr);
	out->word = (uintptr_t)sm_cursor_find(&k, UINT64_MAX);
	out->first = k.index;
	out->last = k.last;
	return out->word;
}

static const char *maple_validate(struct sm__tree *t)
{
	return sm_maple_validate(&impl_of(t)->tree);
}

const struct sm__tree_ops sm__tree_maple_ops = {
	.name = "maple",
	.rcu = true,
	.init = maple_init,
	.destroy = maple_destroy,
	.find = maple_find,
	.seek = maple_seek,
	.next = maple_next,
	.prev = maple_prev,
	.around = maple_around,
	.reserve = maple_reserve,
	.release = maple_release,
	.store = maple_store,
	.store_cut = maple_store_cut,
	.erase = maple_erase,
	.load = maple_load,
	.gap_lowest = maple_gap_lowest,
	.gap_highest = maple_gap_highest,
	.gap_at = maple_gap_at,
	.load_rcu = maple_load_rcu,
	.next_rcu = maple_next_rcu,
	.validate = maple_validate,
};
