/* SPDX-License-Identifier: MIT */
/*
 * tree_rb.c - the red-black tree of kernels up to 6.0: nodes inside the VMAs, a list through them,
 * and in every node the largest gap of its subtree.
 *
 * I1 Search tree by first; the root is black, no red node has a red child, every path from a node to
 *    a leaf has the same number of black nodes.
 * I2 The list holds the same nodes in the same order.
 * I3 n->subtree_gap = max(gap in front of n, children's subtree_gap); the gap in front of n reaches
 *    from the end of its list predecessor (or 0) to n->first.
 *
 * A change of n->first or n->last moves two gaps, n's and its successor's: both paths are redone.
 * No allocation, so reserve always succeeds. No RCU reader.
 */
#include "space/tree.h"

#include <errno.h>

enum { RED = 0, BLACK = 1 };

static struct sm__tree_node *parent_of(const struct sm__tree_node *n)
{
	return (struct sm__tree_node *)(n->parent_and_colour & ~(uintptr_t)1);
}

static bool is_black(const struct sm__tree_node *n)
{
	return !n || (n->parent_and_colour & 1) == BLACK;
}

static bool is_red(const struct sm__tree_node *n)
{
	return !is_black(n);
}

static void set_parent(struct sm__tree_node *n, struct sm__tree_node *p)
{
	n->parent_and_colour = (uintptr_t)p | (n->parent_and_colour & 1);
}

static void set_colour(struct sm__tree_node *n, uintptr_t colour)
{
	n->parent_and_colour = (n->parent_and_colour & ~(uintptr_t)1) | colour;
}

static sm_addr gap_start(const struct sm__tree *t, const struct sm__tree_node *n)
{
	return n->prev == &t->ends ? 0 : n->prev->last + 1;
}

static uint64_t gap_before(const struct sm__tree *t, const struct sm__tree_node *n)
{
	return n->first - gap_start(t, n);
}

static uint64_t computed_gap(const struct sm__tree *t, const struct sm__tree_node *n)
{
	uint64_t g = gap_before(t, n);

	if (n->left && n->left->subtree_gap > g)
		g = n->left->subtree_gap;
	if (n->right && n->right->subtree_gap > g)
		g = n->right->subtree_gap;
	return g;
}

/* Redoes the gaps from n to the root; stops where nothing changes. */
static void propagate(const struct sm__tree *t, struct sm__tree_node *n)
{
	for (; n; n = parent_of(n)) {
		uint64_t g = computed_gap(t, n);

		if (n->subtree_gap == g)
			return;
		n->subtree_gap = g;
	}
}

/* As propagate, to the root in any case: below, more than one node changed. */
static void propagate_all(const struct sm__tree *t, struct sm__tree_node *n)
{
	for (; n; n = parent_of(n))
		n->subtree_gap = computed_gap(t, n);
}

static void replace_child(struct sm__tree *t, struct sm__tree_node *parent,
			  struct sm__tree_node *old, struct sm__tree_node *new)
{
	if (!parent)
		t->root = new;
	else if (parent->left == old)
		parent->left = new;
	else
		parent->right = new;
}

/*
 *      n                r
 *     / \              / \
 *    a   r     =>     n   c        (left; right is the mirror)
 *       / \          / \
 *      b   c        a   b
 */
static void rotate(struct sm__tree *t, struct sm__tree_node *n, bool left)
{
	struct sm__tree_node *r = left ? n->right : n->left;
	struct sm__tree_node *b = left ? r->left : r->right;
	struct sm__tree_node *p = parent_of(n);

	if (left) {
		n->right = b;
		r->left = n;
	} else {
		n->left = b;
		r->right = n;
	}
	if (b)
		set_parent(b, n);
	set_parent(r, p);
	set_parent(n, r);
	replace_child(t, p, n, r);
	r->subtree_gap = n->subtree_gap;
	n->subtree_gap = computed_gap(t, n);
}

static void insert_fixup(struct sm__tree *t, struct sm__tree_node *n)
{
	struct sm__tree_node *p, *g, *u;

	while ((p = parent_of(n)) && is_red(p)) {
		bool left;

		g = parent_of(p); /* exists: a red node is not the root */
		left = g->left == p;
		u = left ? g->right : g->left;
		if (is_red(u)) {
			set_colour(p, BLACK);
			set_colour(u, BLACK);
			set_colour(g, RED);
			n = g;
			continue;
		}
		if (n == (left ? p->right : p->left)) {
			rotate(t, p, left);
			n = p;
			p = parent_of(n);
		}
		set_colour(p, BLACK);
		set_colour(g, RED);
		rotate(t, g, !left);
	}
	set_colour(t->root, BLACK);
}

/* Links n behind its list predecessor `before` (or first). */
static void link_node(struct sm__tree *t, struct sm__tree_node *n, struct sm__tree_node *before)
{
	struct sm__tree_node *after = before->next, *p;

	n->prev = before;
	n->next = after;
	before->next = n;
	after->prev = n;
	n->left = n->right = NULL;
	if (before != &t->ends && !before->right) {
		p = before;
		p->right = n;
	} else if (after != &t->ends) {
		p = after; /* its left is empty: n's predecessor would be there */
		p->left = n;
	} else {
		p = NULL;
		t->root = n;
	}
	n->parent_and_colour = (uintptr_t)p | RED;
	n->subtree_gap = computed_gap(t, n);
	propagate_all(t, p);
	if (after != &t->ends)
		propagate(t, after);
	insert_fixup(t, n);
	t->count++;
}

/* The place of x (may be NULL) under p has one black node too few. */
static void erase_fixup(struct sm__tree *t, struct sm__tree_node *x, struct sm__tree_node *p)
{
	while (p && is_black(x)) {
		bool left = p->left == x;
		struct sm__tree_node *s = left ? p->right : p->left;

		if (is_red(s)) {
			set_colour(s, BLACK);
			set_colour(p, RED);
			rotate(t, p, left);
			s = left ? p->right : p->left;
		}
		if (is_black(s->left) && is_black(s->right)) {
			set_colour(s, RED);
			x = p;
			p = parent_of(x);
			continue;
		}
		if (is_black(left ? s->right : s->left)) {
			set_colour(left ? s->left : s->right, BLACK);
			set_colour(s, RED);
			rotate(t, s, !left);
			s = left ? p->right : p->left;
		}
		set_colour(s, p->parent_and_colour & 1);
		set_colour(p, BLACK);
		set_colour(left ? s->right : s->left, BLACK);
		rotate(t, p, left);
		return;
	}
	if (x)
		set_colour(x, BLACK);
}

static void unlink_node(struct sm__tree *t, struct sm__tree_node *n)
{
	struct sm__tree_node *p = parent_of(n), *x, *after = n->next;
	struct sm__tree_node *deepest; /* gaps are wrong from here upwards */
	uintptr_t lost = n->parent_and_colour & 1;

	n->prev->next = after;
	after->prev = n->prev;
	if (!n->left || !n->right) {
		x = n->left ? n->left : n->right;
		if (x)
			set_parent(x, p);
		replace_child(t, p, n, x);
		deepest = p;
	} else {
		/* the successor takes n's place and colour */
		struct sm__tree_node *y = after;
		struct sm__tree_node *yp = parent_of(y);

		x = y->right;
		lost = y->parent_and_colour & 1;
		if (yp == n) {
			yp = y;
		} else {
			yp->left = x;
			if (x)
				set_parent(x, yp);
			y->right = n->right;
			set_parent(y->right, y);
		}
		y->left = n->left;
		set_parent(y->left, y);
		y->parent_and_colour = n->parent_and_colour;
		replace_child(t, p, n, y);
		deepest = yp;
		p = yp;
	}
	propagate_all(t, deepest);
	if (after != &t->ends)
		propagate_all(t, after);
	if (lost == BLACK)
		erase_fixup(t, x, p);
	n->prev = n->next = n->left = n->right = NULL;
	n->parent_and_colour = 0;
	t->count--;
}

static void set_bounds(struct sm__tree *t, struct sm__tree_node *n, sm_addr first, sm_addr last)
{
	n->first = first;
	n->last = last;
	propagate(t, n);
	if (n->next != &t->ends)
		propagate(t, n->next);
}

static int rb_init(struct sm__tree *t)
{
	t->root = NULL;
	t->count = 0;
	t->ends.prev = t->ends.next = &t->ends;
	return 0;
}

static void rb_destroy(struct sm__tree *t)
{
	rb_init(t);
}

/* The first node whose range ends at or after addr. */
static struct sm__tree_node *lower_bound(struct sm__tree *t, sm_addr addr)
{
	struct sm__tree_node *n = t->root, *best = NULL;

	while (n) {
		if (n->last >= addr) {
			best = n;
			if (n->first <= addr)
				break;
			n = n->left;
		} else {
			n = n->right;
		}
	}
	return best;
}

static struct sm__tree_node *rb_find(struct sm__tree *t, sm_addr addr)
{
	struct sm__tree_node *n = lower_bound(t, addr);

	return n && n->first <= addr ? n : NULL;
}

static struct sm__tree_node *rb_seek(struct sm__tree_cursor *c, sm_addr addr)
{
	return c->node = lower_bound(c->tree, addr);
}

static struct sm__tree_node *rb_next(struct sm__tree_cursor *c)
{
	struct sm__tree_node *n = c->node ? c->node->next : &c->tree->ends;

	return c->node = n == &c->tree->ends ? NULL : n;
}

static struct sm__tree_node *rb_prev(struct sm__tree_cursor *c)
{
	struct sm__tree_node *n = c->node ? c->node->prev : c->tree->ends.prev;

	return c->node = n == &c->tree->ends ? NULL : n;
}

static int rb_reserve(struct sm__tree *t, unsigned changes)
{
	(void)t;
	(void)changes;
	return 0;
}

static void rb_release(struct sm__tree *t)
{
	(void)t;
}

static void rb_store(struct sm__tree_cursor *c, const struct sm__tree_item *item)
{
	struct sm__tree *t = c->tree;
	struct sm__tree_node *n = lower_bound(t, item->first), *next;
	struct sm__tree_node *before = n ? n->prev : t->ends.prev;

	for (; n && n->first <= item->last; n = next) {
		next = n->next == &t->ends ? NULL : n->next;
		if (n == item->node)
			continue;
		if (n->first >= item->first && n->last <= item->last) {
			unlink_node(t, n);
		} else if (n->first < item->first) {
			SM_ASSERT_MSG(n->last <= item->last, "store inside %#llx-%#llx",
				      (unsigned long long)n->first, (unsigned long long)n->last);
			set_bounds(t, n, n->first, item->first - 1);
			before = n;
		} else {
			set_bounds(t, n, item->last + 1, n->last);
		}
	}
	if (item->node->next) { /* linked: it was among them, or grows into free space */
		set_bounds(t, item->node, item->first, item->last);
	} else {
		item->node->first = item->first;
		item->node->last = item->last;
		link_node(t, item->node, before);
	}
	c->node = item->node;
}

static void rb_erase(struct sm__tree_cursor *c, sm_addr first, sm_addr last)
{
	struct sm__tree *t = c->tree;
	struct sm__tree_node *n = lower_bound(t, first), *next;

	for (; n && n->first <= last; n = next) {
		SM_ASSERT(n->first >= first && n->last <= last);
		next = n->next == &t->ends ? NULL : n->next;
		unlink_node(t, n);
	}
	c->node = n;
}

static int rb_load(struct sm__tree *t, const struct sm__tree_item *items, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		items[i].node->first = items[i].first;
		items[i].node->last = items[i].last;
		link_node(t, items[i].node, t->ends.prev);
	}
	return 0;
}

/* The leftmost node with a gap of size in front of it, of which the end is at least min_first - 1. */
static struct sm__tree_node *leftmost_gap(struct sm__tree *t, struct sm__tree_node *n,
					  uint64_t size, sm_addr min_first)
{
	struct sm__tree_node *r;

	while (n && n->subtree_gap >= size) {
		if (n->first >= min_first) {
			r = leftmost_gap(t, n->left, size, min_first);
			if (r)
				return r;
			if (gap_before(t, n) >= size)
				return n;
		}
		n = n->right;
	}
	return NULL;
}

static struct sm__tree_node *rightmost_gap(struct sm__tree *t, struct sm__tree_node *n,
					   uint64_t size, sm_addr max_start)
{
	struct sm__tree_node *r;

	while (n && n->subtree_gap >= size) {
		if (gap_start(t, n) <= max_start) {
			r = rightmost_gap(t, n->right, size, max_start);
			if (r)
				return r;
			if (gap_before(t, n) >= size)
				return n;
		}
		n = n->left;
	}
	return NULL;
}

static bool limits_fit(uint64_t size, const sm_addr limits[2])
{
	return size && limits[0] <= limits[1] && limits[1] - limits[0] >= size - 1;
}

static int rb_gap_lowest(struct sm__tree *t, uint64_t size, const sm_addr limits[2], sm_addr *addr)
{
	struct sm__tree_node *n, *last = t->ends.prev;
	sm_addr start;

	if (!limits_fit(size, limits))
		return -ENOENT;
	n = leftmost_gap(t, t->root, size, limits[0] + size);
	if (n) {
		start = gap_start(t, n);
	} else {
		start = last == &t->ends ? 0 : last->last + 1;
		if (last != &t->ends && start == 0)
			return -ENOENT; /* the last range ends at the top of the keys */
	}
	if (start < limits[0])
		start = limits[0];
	if (start > limits[1] - (size - 1))
		return -ENOENT;
	*addr = start;
	return 0;
}

static int rb_gap_highest(struct sm__tree *t, uint64_t size, const sm_addr limits[2], sm_addr *addr)
{
	struct sm__tree_node *n, *last = t->ends.prev;
	sm_addr tail = last == &t->ends ? 0 : last->last + 1, top = limits[1] - (size - 1), at;

	if (!limits_fit(size, limits))
		return -ENOENT;
	if ((last == &t->ends || tail) && tail <= top) {
		*addr = top;
		return 0;
	}
	n = rightmost_gap(t, t->root, size, top);
	if (!n)
		return -ENOENT;
	at = n->first - size < top ? n->first - size : top;
	if (at < limits[0])
		return -ENOENT;
	*addr = at;
	return 0;
}

/* Black height of the subtree, or -1; counts nodes. */
static int check_subtree(struct sm__tree *t, struct sm__tree_node *n, size_t *count)
{
	int l, r;

	if (!n)
		return 0;
	if ((n->left && parent_of(n->left) != n) || (n->right && parent_of(n->right) != n))
		return -1;
	if (is_red(n) && (is_red(n->left) || is_red(n->right)))
		return -1;
	if ((n->left && n->left->last >= n->first) || (n->right && n->right->first <= n->last))
		return -1;
	if (n->subtree_gap != computed_gap(t, n))
		return -1;
	l = check_subtree(t, n->left, count);
	r = check_subtree(t, n->right, count);
	(*count)++;
	return l < 0 || l != r ? -1 : l + (is_black(n) ? 1 : 0);
}

static const char *rb_validate(struct sm__tree *t)
{
	size_t in_tree = 0, in_list = 0;
	sm_addr end = 0;
	bool any = false;

	if (is_red(t->root))
		return "the root is red";
	if (check_subtree(t, t->root, &in_tree) < 0)
		return "links, colours, order or gaps of the tree are wrong";
	for (struct sm__tree_node *n = t->ends.next; n != &t->ends; n = n->next) {
		if (n->first > n->last || (any && n->first < end))
			return "the list is out of order";
		if (n->next->prev != n)
			return "the list is not linked both ways";
		end = n->last + 1;
		any = true;
		in_list++;
	}
	if (in_tree != t->count || in_list != t->count)
		return "tree, list and count differ";
	return NULL;
}

const struct sm__tree_ops sm__tree_rb_ops = {
	.name = "rb",
	.rcu = false,
	.init = rb_init,
	.destroy = rb_destroy,
	.find = rb_find,
	.seek = rb_seek,
	.next = rb_next,
	.prev = rb_prev,
	.reserve = rb_reserve,
	.release = rb_release,
	.store = rb_store,
	.erase = rb_erase,
	.load = rb_load,
	.gap_lowest = rb_gap_lowest,
	.gap_highest = rb_gap_highest,
	.validate = rb_validate,
};
