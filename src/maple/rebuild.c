/* SPDX-License-Identifier: MIT */
/*
 * rebuild.c - the general store: split, share, merge, and everything that spans leaves.
 *
 * One scheme for all of them. Between a left path and a right path lies what the store touches. On
 * each level, from the leaves up, three things are put in a row:
 *
 *	what is left of the left node | what is new | what is left of the right node
 *
 * The row is cut into as few nodes as hold it, evenly; those are what is new on the level above, in
 * place of everything from the left node to the right node.
 *
 *	         [ A  B  C  D ]                  [ A  P  Q  D ]        level 1: a new node,
 *	           /  \                             /  \               two children change
 *	 left path      right path                 /    \
 *	[a b c d]  [e f g h i j]         [a b x]    [h i j ..]        level 0: B, C -> P, Q
 *	     ^store x over c..g^
 *
 * It ends where one node takes the place of one node with the same bounds: there one child pointer
 * is stored into a node that stays; or at the root word. When the row is short (below the minimum)
 * a neighbour of the level, cousin or not, is taken into it: the left or right path moves on.
 *
 * I1 All nodes are made before anything is published; an allocation that fails gives them back, and
 *    the tree is as it was.
 * I2 `gone` holds every old node that is replaced; subtrees that lie wholly between the two
 *    original paths are dropped by drop_between(). Together: each node that was reachable and no
 *    longer is, once.
 * I3 A leaf whose entries all stay is not touched, even if its lower bound moves (I3 of node.h
 *    keeps its gaps in front of its entries); its largest gap is put right after the store
 *    (settle_gap).
 * I4 No row is left below the minimum, but for the right-most leaf and for a row that is its whole
 *    level.
 *
 * G1 One atomic store publishes all of it.
 * G2 Nodes of `gone` and dropped subtrees are marked after that store.
 */
#include <errno.h>
#include "maple/write.h"
#include "base/delay.h"

enum {
	/* Left rest, three new, right rest, and a neighbour on each side. */
	LEAF_ROW_MAX = 4 * LEAF_SLOTS + 3,
	INNER_ROW_MAX = 4 * INNER_SLOTS + 3,
	GONE_MAX = 5 * SM_MAPLE_HEIGHT_MAX,
	PARTS_MAX = 4,
};

/* A child, as it stands in a row. */
struct child {
	void *node;
	uint64_t max; /* its upper bound */
	uint64_t gap;
};

struct rebuild {
	struct sm__write *w;
	struct sm_cursor *c;
	struct sm_maple_pool *pool;
	struct sm_cursor_path left, right; /* working paths: move when a neighbour is taken in */
	struct sm_cursor_path right_end;   /* the right path before it moved, for drop_between */
	bool spans;			   /* left and right leaf differ */
	bool append;			   /* the store is at the end of all: leave full nodes */
	bool max_moved;			   /* the upper bound of what was replaced changed */
	unsigned int level;
	unsigned int nr_new; /* what is new on this level: */
	struct child fresh[PARTS_MAX];
	unsigned int nr_row;
	struct child row[INNER_ROW_MAX];
	unsigned int nr_leaves, nr_inners; /* nodes made, to give back on failure */
	struct sm__leaf *leaves[PARTS_MAX];
	struct sm__inner *inners[INNER_WORST(SM_MAPLE_HEIGHT_MAX)];
	unsigned int nr_gone;
	struct {
		void *node;
		bool leaf;
	} gone[GONE_MAX];
	uint64_t settle; /* a key of the leaf whose lower bound moved */
	bool must_settle;
};

static void gone_add(struct rebuild *r, void *node, bool leaf)
{
	SM_ASSERT(r->nr_gone < GONE_MAX);
	r->gone[r->nr_gone].node = node;
	r->gone[r->nr_gone++].leaf = leaf;
}

static void give_back(struct rebuild *r)
{
	for (unsigned int i = 0; i < r->nr_leaves; i++)
		sm__node_give_back(r->pool, SM__NODE_LEAF, r->leaves[i]);
	for (unsigned int i = 0; i < r->nr_inners; i++)
		sm__node_give_back(r->pool, SM__NODE_INNER, r->inners[i]);
}

/* The row is all there is on this level: what becomes of it is the root. */
static bool whole_level(const struct rebuild *r, unsigned int level)
{
	return sm__path_is_first(&r->left, level) && sm__path_is_last(&r->right, level);
}

/*
 * Moves the right (left) path to its neighbour on `level`. Nodes above that the path leaves behind,
 * and that the left path does not share, hold nothing but what is replaced: they are gone.
 */
static bool take_right(struct rebuild *r, unsigned int level)
{
	struct sm_cursor_path old = r->right;

	if (sm__path_right(&r->right, level) != SM__PATH_MOVED)
		return false;
	for (unsigned int l = level + 1; l < old.height && old.node[l] != r->right.node[l]; l++)
		if (old.node[l] != r->left.node[l])
			gone_add(r, old.node[l], false);
	return true;
}

static bool take_left(struct rebuild *r, unsigned int level)
{
	struct sm_cursor_path old = r->left;

	if (sm__path_left(&r->left, level) != SM__PATH_MOVED)
		return false;
	for (unsigned int l = level + 1; l < old.height && old.node[l] != r->left.node[l]; l++)
		if (old.node[l] != r->right.node[l])
			gone_add(r, old.node[l], false);
	return true;
}

/* Which neighbour to take: one of the same parent if there is one, the right one if both are. */
static bool prefer_right(const struct rebuild *r, unsigned int level)
{
	if (sm__path_is_last(&r->right, level))
		return false;
	if (r->right.slot[level + 1] + 1u < sm__path_inner(&r->right, level + 1)->n)
		return true;
	return r->left.slot[level + 1] == 0;
}

/* ------------------------------------------------------------------------------ leaves ---- */

static unsigned int put_leaf(struct sm__entry *row, const struct sm__leaf *l, unsigned int from,
			     unsigned int to)
{
	unsigned int n = 0;

	for (unsigned int i = from; i < to; i++)
		row[n++] =
			(struct sm__entry){ l->entry[i].first, l->last[i], sm__leaf_value(l, i) };
	return n;
}

/*
 * Puts the row of entries: left rest, fresh, right rest. A right leaf that loses nothing stays: the
 * path then goes back to the last leaf that does.
 */
static unsigned int leaf_row(struct rebuild *r, struct sm__entry *row)
{
	struct sm__write *w = r->w;
	struct sm_cursor *c = r->c;
	struct sm__leaf *a = sm__path_leaf(&r->left), *b;
	unsigned int n = put_leaf(row, a, 0, w->from), i;

	for (i = 0; i < w->nr_fresh; i++)
		row[n++] = w->fresh[i];
	if (!r->spans)
		return n + put_leaf(row + n, a, w->to, a->n);
	b = sm__path_leaf(&r->right);
	i = r->right.slot[0];
	if (i == 0 && b->entry[0].first > c->last) {
		sm__path_left(&r->right, 0);
		return n;
	}
	if (i < b->n && b->entry[i].first <= c->last) {
		if (b->last[i] > c->last)
			row[n++] = (struct sm__entry){ c->last + 1, b->last[i],
						       sm__write_side(w, 1, b, i) };
		i++;
	}
	return n + put_leaf(row + n, b, i, b->n);
}

static unsigned int share_parts(unsigned int n, unsigned int slots)
{
	return (n + slots - 1) / slots;
}

/* A full row of one leaf: can a neighbour of the same parent take some? */
static unsigned int share_leaf(struct rebuild *r, struct sm__entry *row, unsigned int n)
{
	struct sm__inner *parent;
	const struct sm__leaf *l;
	unsigned int s;

	if (r->left.height == 1)
		return n;
	parent = sm__path_inner(&r->left, 1);
	s = r->left.slot[1];
	if (s + 1u < parent->n) {
		l = sm__inner_child(parent, s + 1);
		if (l->n <= LEAF_SHARE && take_right(r, 0)) {
			gone_add(r, (void *)l, true);
			return n + put_leaf(row + n, l, 0, l->n);
		}
	}
	if (s > 0) {
		l = sm__inner_child(parent, s - 1);
		if (l->n <= LEAF_SHARE && take_left(r, 0)) {
			gone_add(r, (void *)l, true);
			for (unsigned int i = n; i-- > 0;)
				row[i + l->n] = row[i];
			put_leaf(row, l, 0, l->n);
			return n + l->n;
		}
	}
	return n;
}

/* A short row takes neighbours in until it is long enough or the whole level. */
static unsigned int feed_leaves(struct rebuild *r, struct sm__entry *row, unsigned int n)
{
	const struct sm__leaf *l;

	while (n && n < LEAF_MIN && !sm__path_is_last(&r->right, 0)) {
		if (prefer_right(r, 0)) {
			take_right(r, 0);
			l = sm__path_leaf(&r->right);
			n += put_leaf(row + n, l, 0, l->n);
		} else {
			take_left(r, 0);
			l = sm__path_leaf(&r->left);
			for (unsigned int i = n; i-- > 0;)
				row[i + l->n] = row[i];
			put_leaf(row, l, 0, l->n);
			n += l->n;
		}
		gone_add(r, (void *)l, true);
	}
	return n;
}

/* Cuts the row into leaves. 0 or -ENOMEM. */
static int make_leaves(struct rebuild *r, const struct sm__entry *row, unsigned int n,
		       unsigned int parts)
{
	uint64_t min = sm__path_min(&r->left, 0);
	bool last = sm__path_is_last(&r->right, 0);

	for (unsigned int i = 0; i < parts; i++) {
		unsigned int take = r->append && n > LEAF_SLOTS ? LEAF_SLOTS
								: (n + parts - i - 1) / (parts - i);
		bool end = last && i + 1 == parts;
		struct sm__leaf *l = sm__leaf_take(r->pool, r->c->spare[0]);

		if (!l)
			return -ENOMEM;
		r->leaves[r->nr_leaves++] = l;
		sm__leaf_fill(l, row, take);
		row += take;
		n -= take;
		r->fresh[i] = (struct child){ l, end ? SM__KEY_MAX : l->last[take - 1],
					      sm__leaf_gap(l, min, end) };
		min = l->last[take - 1] + 1;
	}
	r->nr_new = parts;
	return 0;
}

static int rebuild_leaves(struct rebuild *r)
{
	struct sm__entry row[LEAF_ROW_MAX];
	unsigned int n = leaf_row(r, row), parts;
	uint64_t old_max, min = sm__path_min(&r->left, 0);
	void *a = r->left.node[0], *b = r->right.node[0];

	r->right_end = r->right;
	gone_add(r, a, true);
	if (b != a)
		gone_add(r, b, true);
	if (n > LEAF_SLOTS && !r->spans && !r->append)
		n = share_leaf(r, row, n);
	n = feed_leaves(r, row, n);
	parts = share_parts(n, LEAF_SLOTS);
	if (n > LEAF_MERGE && n <= LEAF_SLOTS && r->nr_gone > 1 && parts == 1)
		parts = 2;
	old_max = sm__path_max(&r->right, 0);
	r->max_moved = !parts || (!sm__path_is_last(&r->right, 0) && row[n - 1].last != old_max);
	if (r->max_moved) {
		r->must_settle = true;
		r->settle = parts ? row[n - 1].last + 1 : min;
	}
	return make_leaves(r, row, n, parts);
}

/* ------------------------------------------------------------------------- inner nodes ---- */

static void row_add(struct rebuild *r, const struct sm__inner *n, unsigned int from,
		    unsigned int to, uint64_t max)
{
	for (unsigned int i = from; i < to; i++)
		r->row[r->nr_row++] = (struct child){ sm__inner_child(n, i),
						      i + 1 < n->n ? n->pivot[i] : max, n->gap[i] };
}

static void row_add_front(struct rebuild *r, const struct sm__inner *n, uint64_t max)
{
	unsigned int had = r->nr_row;

	for (unsigned int i = had; i-- > 0;)
		r->row[i + n->n] = r->row[i];
	r->nr_row = 0;
	row_add(r, n, 0, n->n, max);
	r->nr_row = had + n->n;
}

static void inner_row(struct rebuild *r)
{
	unsigned int level = r->level, lo = r->left.slot[level], hi = r->right.slot[level];
	struct sm__inner *a = sm__path_inner(&r->left, level);
	struct sm__inner *b = sm__path_inner(&r->right, level);

	r->nr_row = 0;
	row_add(r, a, 0, lo, 0);
	for (unsigned int i = 0; i < r->nr_new; i++)
		r->row[r->nr_row++] = r->fresh[i];
	if (hi + 1 < b->n) {
		row_add(r, b, hi + 1, b->n, sm__path_max(&r->right, level));
		r->max_moved = false;
	}
	gone_add(r, a, false);
	if (b != a)
		gone_add(r, b, false);
	while (r->nr_row && r->nr_row < INNER_MIN && !whole_level(r, level)) {
		if (prefer_right(r, level)) {
			take_right(r, level);
			b = sm__path_inner(&r->right, level);
			row_add(r, b, 0, b->n, sm__path_max(&r->right, level));
			r->max_moved = false;
		} else {
			take_left(r, level);
			b = sm__path_inner(&r->left, level);
			row_add_front(r, b, sm__path_max(&r->left, level));
		}
		gone_add(r, b, false);
	}
}

static struct sm__inner *make_inner(struct rebuild *r, const struct child *row, unsigned int n)
{
	struct sm__inner *x = sm__inner_take(r->pool, r->c->spare[1]);

	if (!x)
		return NULL;
	r->inners[r->nr_inners++] = x;
	for (unsigned int i = 0; i < INNER_SLOTS; i++) {
		bool used = i < n;

		if (i + 1 < INNER_SLOTS)
			x->pivot[i] = i + 1 < n ? row[i].max : SM__KEY_MAX;
		atomic_store_explicit(&x->child[i], used ? row[i].node : NULL,
				      memory_order_relaxed);
		x->gap[i] = used ? row[i].gap : 0;
	}
	x->n = n;
	return x;
}

/* Cuts the row into nodes, which are what is new on the next level. */
static int make_inners(struct rebuild *r)
{
	unsigned int n = r->nr_row, parts = share_parts(n, INNER_SLOTS), used = 0;

	for (unsigned int i = 0; i < parts; i++) {
		unsigned int take = (n + parts - i - 1) / (parts - i);
		struct sm__inner *x;

		if (r->append && parts == 2)
			take = i ? n : n - INNER_MIN;
		x = make_inner(r, r->row + used, take);
		if (!x)
			return -ENOMEM;
		used += take;
		n -= take;
		r->fresh[i] = (struct child){ x, r->row[used - 1].max, sm__inner_gap(x) };
	}
	r->nr_new = parts;
	return 0;
}

/* ----------------------------------------------------------------------------- publish ---- */

/* Subtrees strictly between the original paths, which nothing refers to any more. */
static void drop_between(struct rebuild *r)
{
	const struct sm_cursor_path *a = &r->c->path, *b = &r->right_end;

	for (unsigned int l = 1; l < a->height; l++) {
		struct sm__inner *x = sm__path_inner(a, l), *y = sm__path_inner(b, l);
		unsigned int to = x == y ? b->slot[l] : x->n;

		for (unsigned int i = a->slot[l] + 1u; i < to; i++)
			sm__subtree_retire(r->pool, sm__inner_child(x, i), l - 1);
		if (x == y)
			return;
		for (unsigned int i = 0; i < b->slot[l]; i++)
			sm__subtree_retire(r->pool, sm__inner_child(y, i), l - 1);
	}
}

static void retire_gone(struct rebuild *r)
{
	if (r->spans)
		drop_between(r);
	for (unsigned int i = 0; i < r->nr_gone; i++) {
		if (r->gone[i].leaf)
			sm__leaf_retire(r->pool, r->gone[i].node);
		else
			sm__inner_retire(r->pool, r->gone[i].node);
	}
}

/* A leaf got another lower bound, or became the last: its largest gap is another. */
static void settle_gap(struct rebuild *r)
{
	struct sm_cursor_path p;
	struct sm__leaf *l = sm__path_walk(r->c->tree, &p, r->settle);

	if (l && p.height > 1)
		sm__gap_set(&p, 1, sm__leaf_gap(l, sm__path_min(&p, 0), sm__path_is_last(&p, 0)));
}

static void publish_root(struct rebuild *r, void *node, unsigned int height)
{
	/* Above this level the paths lead to nothing that stays. */
	for (unsigned int l = r->level; l < r->left.height; l++) {
		gone_add(r, r->left.node[l], false);
		if (r->right.node[l] != r->left.node[l])
			gone_add(r, r->right.node[l], false);
	}
	sm__delay();
	sm__root_publish(r->c->tree, node ? sm__root_pack(node, height) : 0);
}

/* One node for one node with the same bounds. */
static bool fits_in_place(const struct rebuild *r)
{
	return r->nr_new == 1 && !r->max_moved &&
	       r->left.node[r->level] == r->right.node[r->level] &&
	       r->left.slot[r->level] == r->right.slot[r->level];
}

static void publish_child(struct rebuild *r)
{
	struct sm__inner *x = sm__path_inner(&r->left, r->level);

	sm__delay();
	/* Release: pairs with sm__inner_child (C2 of node.h). */
	atomic_store_explicit(&x->child[r->left.slot[r->level]], r->fresh[0].node,
			      memory_order_release);
	sm__gap_set(&r->left, r->level, r->fresh[0].gap);
}

/* What is new is its whole level: it becomes the root, under a new root if it is several nodes. */
static int finish_whole(struct rebuild *r)
{
	struct child *f = r->fresh;
	unsigned int height = r->level; /* of trees whose root is one of `fresh` */

	if (!r->nr_new) {
		publish_root(r, NULL, 0);
		return 0;
	}
	if (r->nr_new > 1) {
		struct sm__inner *x;

		if (height == SM_MAPLE_HEIGHT_MAX)
			return -ENOMEM;
		x = make_inner(r, f, r->nr_new);
		if (!x)
			return -ENOMEM;
		publish_root(r, x, height + 1);
		return 0;
	}
	publish_root(r, f[0].node, height);
	return 0;
}

/*
 * From the leaves up until the change is one pointer. r->level is the level it is to be stored in.
 */
static int rebuild_up(struct rebuild *r)
{
	int ret = rebuild_leaves(r);

	for (r->level = 1; !ret; r->level++) {
		if (whole_level(r, r->level - 1))
			return finish_whole(r);
		if (fits_in_place(r)) {
			publish_child(r);
			return 0;
		}
		inner_row(r);
		if (r->nr_row == 1 && whole_level(r, r->level)) {
			/* A root with one child is no root. */
			r->level++;
			publish_root(r, r->row[0].node, r->level - 1);
			return 0;
		}
		ret = make_inners(r);
	}
	return ret;
}

int sm__rebuild(struct sm__write *w)
{
	struct sm_cursor *c = w->c;
	struct rebuild r;
	struct sm__leaf *l = sm__path_leaf(&c->path);
	int ret;

	r.w = w;
	r.c = c;
	r.pool = w->tree->pool;
	r.left = c->path;
	r.right = c->path;
	r.spans = c->last > l->last[l->n - 1] && !sm__path_is_last(&c->path, 0);
	if (r.spans)
		sm__path_walk(w->tree, &r.right, c->last);
	r.append = w->to == l->n && !w->rest && w->entry && sm__path_is_last(&c->path, 0);
	r.nr_leaves = r.nr_inners = r.nr_gone = 0;
	r.must_settle = false;
	ret = rebuild_up(&r);
	if (ret) {
		give_back(&r);
		return ret;
	}
	w->tree->version++;
	if (r.must_settle)
		settle_gap(&r);
	retire_gone(&r);
	c->version = w->tree->version;
	sm__path_walk(w->tree, &c->path, c->index);
	return 0;
}
