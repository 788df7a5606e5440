/* SPDX-License-Identifier: MIT */
/*
 * write.c - a store: what it does to its leaf, and the three cheap ways to do it.
 *
 *	before    | a     |    | b          | c  |      entries of one leaf, gaps between them
 *	store           [  x     ]
 *	after     | a   | x      | b        | c  |      from = a, to = b + 1; fresh = a', x, b'
 *
 * I1 Everything that can fail comes before the one store that publishes; after it nothing can.
 * I2 The leaf covers the same keys before and after, unless kind is REBUILD (rebuild.c).
 *
 * G1 A store becomes visible by exactly one atomic store: of a value (VALUE), of a child or of the
 *    root word (all others). A reader sees all of it or nothing.
 * G2 The old node is retired after that store.
 */
#include <errno.h>
#include "maple/check.h"
#include "base/delay.h"

void sm__leaf_fill(struct sm__leaf *l, const struct sm__entry *e, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		l->last[i] = e[i].last;
		l->entry[i].first = e[i].first;
		atomic_store_explicit(&l->entry[i].value, e[i].value, memory_order_relaxed);
	}
	for (; i < LEAF_SLOTS; i++) {
		l->last[i] = SM__KEY_MAX;
		l->entry[i].first = 0;
		atomic_store_explicit(&l->entry[i].value, NULL, memory_order_relaxed);
	}
	l->n = n;
}

uint64_t sm__leaf_gap(const struct sm__leaf *l, uint64_t min, bool last)
{
	uint64_t gap = l->entry[0].first - min, g;
	unsigned int n = l->n;

	for (unsigned int i = 1; i < n; i++) {
		g = l->entry[i].first - l->last[i - 1] - 1;
		gap = g > gap ? g : gap;
	}
	if (last) {
		g = SM__KEY_MAX - l->last[n - 1];
		gap = g > gap ? g : gap;
	}
	return gap;
}

uint64_t sm__inner_gap(const struct sm__inner *n)
{
	uint64_t gap = 0;

	/* Unused places hold 0. */
#pragma GCC unroll 16
	for (unsigned int i = 0; i < INNER_SLOTS; i++)
		gap = n->gap[i] > gap ? n->gap[i] : gap;
	return gap;
}

void sm__gap_set(const struct sm_cursor_path *p, unsigned int level, uint64_t gap)
{
	for (unsigned int l = level; l < p->height; l++) {
		struct sm__inner *n = p->node[l];
		uint64_t old = n->gap[p->slot[l]], above;

		if (old == gap)
			return;
		n->gap[p->slot[l]] = gap;
		if (l + 1 == p->height)
			return;
		above = sm__path_inner(p, l + 1)->gap[p->slot[l + 1]];
		if (gap < above) {
			if (old < above)
				return;
			gap = sm__inner_gap(n);
		}
	}
}

struct sm__leaf *sm__write_seek(struct sm_cursor *c)
{
	struct sm__leaf *l;

	if (sm__cursor_has_path(c) && c->version == c->tree->version) {
		l = sm__path_leaf(&c->path);
		if (c->index >= sm__path_min(&c->path, 0) &&
		    c->index <= sm__path_max(&c->path, 0)) {
			c->path.slot[0] = (uint8_t)sm__leaf_find(l, c->index);
			return l;
		}
	}
	c->version = c->tree->version;
	return sm__path_walk(c->tree, &c->path, c->index);
}

/* A store as it is asked for; what a leaf makes of it is for classify(). Not zeroed: every store comes here. */
static void write_init(struct sm__write *w, struct sm_cursor *c, void *entry, void *const side[2])
{
	w->c = c;
	w->tree = c->tree;
	w->entry = entry;
	w->side[0] = side[0];
	w->side[1] = side[1];
}

/* What the store makes of the leaf at slot[0]: from, to, fresh, kind. */
static void classify(struct sm__write *w)
{
	const struct sm_cursor *c = w->c;
	const struct sm__leaf *l = sm__path_leaf(&c->path);
	unsigned int n = l->n, from = c->path.slot[0], to = from, left;
	struct sm__entry *f = w->fresh;
	bool before = false, end_goes;

	while (to < n && l->entry[to].first <= c->last)
		to++;
	w->from = from;
	w->to = to;
	if (from == to) {
		if (!w->entry) {
			w->kind = SM__WRITE_NOTHING;
			return;
		}
	} else if (l->entry[from].first < c->index) {
		before = true;
		*f++ = (struct sm__entry){ l->entry[from].first, c->index - 1,
					   sm__write_side(w, 0, l, from) };
	}
	if (w->entry)
		*f++ = (struct sm__entry){ c->index, c->last, w->entry };
	w->rest = to > from && l->last[to - 1] > c->last;
	if (w->rest)
		*f++ = (struct sm__entry){ c->last + 1, l->last[to - 1],
					   sm__write_side(w, 1, l, to - 1) };
	w->before = before;
	w->nr_fresh = (unsigned int)(f - w->fresh);
	if (w->entry && to - from == 1 && !before && !w->rest && l->entry[from].first == c->index &&
	    l->last[from] == c->last) {
		w->kind = SM__WRITE_VALUE;
		return;
	}
	left = n - (to - from) + w->nr_fresh;
	w->kind = SM__WRITE_LEAF;
	/* The leaf's upper bound stays when an entry still ends there. */
	end_goes = to == n && !w->rest && !(w->entry && c->last == l->last[n - 1]);
	if (left > LEAF_SLOTS || !left)
		w->kind = SM__WRITE_REBUILD;
	else if (left < LEAF_MIN && !sm__path_is_last(&c->path, 0))
		w->kind = SM__WRITE_REBUILD;
	else if ((end_goes || c->last > l->last[n - 1]) && !sm__path_is_last(&c->path, 0))
		w->kind = SM__WRITE_REBUILD;
}

/*
 * dst = src with entries [from, to) replaced by the fresh ones. Every place is written once, from a
 * place that is computed: how far the rest moves costs no branch. Places that a shorter leaf has
 * left over at its end are emptied.
 */
static void build_leaf(struct sm__leaf *dst, const struct sm__leaf *src, const struct sm__write *w)
{
	unsigned int tail = w->from + w->nr_fresh;
	unsigned int shift = w->nr_fresh - (w->to - w->from); /* modulo 2^32 */

#pragma GCC unroll 16
	for (unsigned int i = 0; i < LEAF_SLOTS; i++) {
		unsigned int s = i < tail ? i : i - shift;

		s = s < LEAF_SLOTS ? s : LEAF_SLOTS - 1;
		dst->last[i] = src->last[s];
		dst->entry[i].first = src->entry[s].first;
		atomic_store_explicit(
			&dst->entry[i].value,
			atomic_load_explicit(&src->entry[s].value, memory_order_relaxed),
			memory_order_relaxed);
	}
	for (unsigned int i = 0; i < w->nr_fresh; i++) {
		dst->last[w->from + i] = w->fresh[i].last;
		dst->entry[w->from + i].first = w->fresh[i].first;
		atomic_store_explicit(&dst->entry[w->from + i].value, w->fresh[i].value,
				      memory_order_relaxed);
	}
	for (unsigned int i = LEAF_SLOTS + shift; i < LEAF_SLOTS; i++) {
		dst->last[i] = SM__KEY_MAX;
		dst->entry[i].first = 0;
		atomic_store_explicit(&dst->entry[i].value, NULL, memory_order_relaxed);
	}
	dst->n = src->n + shift;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/*
 * The largest gap of the leaf after the store, from the one it had: only the gaps from the end of
 * entry from - 1 to the begin of entry `to` change. The whole leaf is looked at only when the
 * largest was among them and what came is smaller.
 */
static uint64_t gap_after(const struct sm__write *w, const struct sm__leaf *fresh, uint64_t had)
{
	const struct sm_cursor_path *p = &w->c->path;
	const struct sm__leaf *old = sm__path_leaf(p);
	uint64_t at = w->from ? old->last[w->from - 1] + 1 : sm__path_min(p, 0), now = at;
	uint64_t went = 0, came = 0;

	for (unsigned int i = w->from; i < w->to; i++) {
		went = larger(went, old->entry[i].first - at);
		at = old->last[i] + 1;
	}
	for (unsigned int i = 0; i < w->nr_fresh; i++) {
		came = larger(came, w->fresh[i].first - now);
		now = w->fresh[i].last + 1;
	}
	if (w->to < old->n) {
		went = larger(went, old->entry[w->to].first - at);
		came = larger(came, old->entry[w->to].first - now);
	} else if (sm__path_is_last(p, 0)) {
		/* To the last of all keys; 0 stands for the one after it. */
		went = larger(went, at ? SM__KEY_MAX - at + 1 : 0);
		came = larger(came, now ? SM__KEY_MAX - now + 1 : 0);
	}
	if (sm__likely(went < had || came >= had))
		return larger(went < had ? had : 0, came);
	return sm__leaf_gap(fresh, sm__path_min(p, 0), sm__path_is_last(p, 0));
}

/* The leaf on the path gives way to `fresh`, which covers the same keys. */
static void publish_leaf(struct sm__write *w, struct sm__leaf *fresh)
{
	struct sm_cursor *c = w->c;
	struct sm_maple *t = c->tree;
	struct sm__leaf *old = sm__path_leaf(&c->path);
	struct sm__inner *parent;

	sm__delay();
	if (c->path.height == 1) {
		sm__root_publish(t, sm__root_pack(fresh, 1));
	} else {
		parent = sm__path_inner(&c->path, 1);
		/* Release: pairs with sm__inner_child (C2 of node.h). */
		atomic_store_explicit(&parent->child[c->path.slot[1]], fresh, memory_order_release);
		sm__gap_set(&c->path, 1, gap_after(w, fresh, parent->gap[c->path.slot[1]]));
	}
	c->path.node[0] = fresh;
	c->version = ++t->version;
	sm__leaf_retire(t->pool, old);
}

static int write_leaf(struct sm__write *w)
{
	struct sm_cursor *c = w->c;
	struct sm__leaf *fresh = sm__leaf_take(w->tree->pool, c->spare[0]);

	if (sm__unlikely(!fresh))
		return -ENOMEM;
	build_leaf(fresh, sm__path_leaf(&c->path), w);
	publish_leaf(w, fresh);
	c->path.slot[0] = (uint8_t)(w->from + w->before);
	return 0;
}

static int write_first(struct sm__write *w)
{
	struct sm_cursor *c = w->c;
	struct sm__leaf *fresh = sm__leaf_take(w->tree->pool, c->spare[0]);
	const struct sm__entry e = { c->index, c->last, w->entry };

	if (!fresh)
		return -ENOMEM;
	sm__leaf_fill(fresh, &e, 1);
	sm__root_publish(w->tree, sm__root_pack(fresh, 1));
	c->version = ++w->tree->version;
	c->path.height = 1;
	c->path.node[0] = fresh;
	c->path.slot[0] = 0;
	return 0;
}

static void *const no_sides[2];

int sm__write_at(struct sm_cursor *c, void *entry)
{
	return sm__write_cut(c, entry, no_sides);
}

int sm__write_cut(struct sm_cursor *c, void *entry, void *const side[2])
{
	struct sm__write w;
	struct sm__leaf *l;
	void *replaced;
	int ret = 0;

	write_init(&w, c, entry, side);
	if (!c->path.height) {
		c->replaced = NULL;
		if (entry)
			ret = write_first(&w);
	} else {
		classify(&w);
		l = sm__path_leaf(&c->path);
		replaced = w.from < w.to ? sm__leaf_value(l, w.from) : NULL;
		switch (w.kind) {
		case SM__WRITE_VALUE:
			c->replaced = replaced;
			/* Release: pairs with sm__leaf_value (C1 of node.h). */
			atomic_store_explicit(&l->entry[w.from].value, entry, memory_order_release);
			break;
		case SM__WRITE_LEAF:
			c->replaced = replaced;
			ret = write_leaf(&w);
			break;
		case SM__WRITE_REBUILD:
			c->replaced = replaced;
			ret = sm__rebuild(&w);
			break;
		default:
			c->replaced = NULL;
		}
	}
	if (sm__unlikely(ret)) {
		c->replaced = NULL;
		c->error = ret;
		c->state = SM_CURSOR_ERROR;
		return ret;
	}
	c->in_gap = !entry;
	c->state = c->path.height ? SM_CURSOR_ACTIVE : SM_CURSOR_NONE;
	SM_ASSERT_MSG(!sm__path_validate(c), "%s", sm__path_validate(c));
	return 0;
}

void sm__write_need(struct sm_cursor *c, void *entry, unsigned int need[2])
{
	struct sm__write w;

	write_init(&w, c, entry, no_sides);
	need[0] = need[1] = 0;
	if (!c->path.height) {
		need[0] = entry != NULL;
		return;
	}
	classify(&w);
	if (w.kind == SM__WRITE_LEAF) {
		need[0] = 1;
	} else if (w.kind == SM__WRITE_REBUILD) {
		need[0] = LEAF_WORST;
		need[1] = INNER_WORST(c->path.height);
	}
}
