/* SPDX-License-Identifier: MIT */
/*
 * tree_rb.c - the red-black tree of kernels up to 6.0.
 *
 * I1 The root is black, no red node has a red child, every path from a node to a leaf has the same
 *    number of black nodes. (Order, list and gaps: tree_binary.h.)
 */
#include "space/tree_binary.h"

enum { RED = 0, BLACK = 1 };

static bool is_black(const struct sm__tree_node *n)
{
	return !n || sm__binary_bits(n) == BLACK;
}

static bool is_red(const struct sm__tree_node *n)
{
	return !is_black(n);
}

static void insert_fixup(struct sm__tree *t, struct sm__tree_node *n)
{
	struct sm__tree_node *p, *g, *u;

	while ((p = sm__binary_parent(n)) && is_red(p)) {
		bool left;

		g = sm__binary_parent(p); /* exists: a red node is not the root */
		left = g->left == p;
		u = left ? g->right : g->left;
		if (is_red(u)) {
			sm__binary_set_bits(p, BLACK);
			sm__binary_set_bits(u, BLACK);
			sm__binary_set_bits(g, RED);
			n = g;
			continue;
		}
		if (n == (left ? p->right : p->left)) {
			sm__binary_rotate(t, p, left);
			n = p;
			p = sm__binary_parent(n);
		}
		sm__binary_set_bits(p, BLACK);
		sm__binary_set_bits(g, RED);
		sm__binary_rotate(t, g, !left);
	}
	sm__binary_set_bits(t->root, BLACK);
}

static void rb_link(struct sm__tree *t, struct sm__tree_node *n, struct sm__tree_node *before)
{
	sm__binary_link(t, n, before, RED);
	insert_fixup(t, n);
}

/* The place of x (may be NULL) under p has one black node too few. */
static void erase_fixup(struct sm__tree *t, struct sm__tree_node *x, struct sm__tree_node *p)
{
	while (p && is_black(x)) {
		bool left = p->left == x;
		struct sm__tree_node *s = left ? p->right : p->left;

		if (is_red(s)) {
			sm__binary_set_bits(s, BLACK);
			sm__binary_set_bits(p, RED);
			sm__binary_rotate(t, p, left);
			s = left ? p->right : p->left;
		}
		if (is_black(s->left) && is_black(s->right)) {
			sm__binary_set_bits(s, RED);
			x = p;
			p = sm__binary_parent(x);
			continue;
		}
		if (is_black(left ? s->right : s->left)) {
			sm__binary_set_bits(left ? s->left : s->right, BLACK);
			sm__binary_set_bits(s, RED);
			sm__binary_rotate(t, s, !left);
			s = left ? p->right : p->left;
		}
		sm__binary_set_bits(s, sm__binary_bits(p));
		sm__binary_set_bits(p, BLACK);
		sm__binary_set_bits(left ? s->right : s->left, BLACK);
		sm__binary_rotate(t, p, left);
		return;
	}
	if (x)
		sm__binary_set_bits(x, BLACK);
}

static void rb_unlink(struct sm__tree *t, struct sm__tree_node *n)
{
	struct sm__binary_hole hole = sm__binary_unlink(t, n);

	if (hole.bits == BLACK)
		erase_fixup(t, hole.child, hole.parent);
}

static const struct sm__binary_balance balance = { rb_link, rb_unlink };

static void rb_store(struct sm__tree_cursor *c, const struct sm__tree_item *item)
{
	sm__binary_store(c, item, &balance);
}

static void rb_erase(struct sm__tree_cursor *c, sm_addr first, sm_addr last)
{
	sm__binary_erase(c, first, last, &balance);
}

static int rb_load(struct sm__tree *t, const struct sm__tree_item *items, size_t n)
{
	return sm__binary_load(t, items, n, &balance);
}

/* Black height of the subtree, or -1. */
static int black_height(const struct sm__tree_node *n)
{
	int l, r;

	if (!n)
		return 0;
	if (is_red(n) && (is_red(n->left) || is_red(n->right)))
		return -1;
	l = black_height(n->left);
	r = black_height(n->right);
	return l < 0 || l != r ? -1 : l + (is_black(n) ? 1 : 0);
}

static const char *rb_validate(struct sm__tree *t)
{
	size_t in_tree = 0;

	if (is_red(t->root))
		return "the root is red";
	if (!sm__binary_check(t, t->root, &in_tree))
		return "links, order or gaps of the tree are wrong";
	if (black_height(t->root) < 0)
		return "colours of the tree are wrong";
	return sm__binary_check_list(t, in_tree);
}

const struct sm__tree_ops sm__tree_rb_ops = {
	.name = "rb",
	.rcu = false,
	.init = sm__binary_init,
	.destroy = sm__binary_destroy,
	.find = sm__binary_find,
	.seek = sm__binary_seek,
	.next = sm__binary_next,
	.prev = sm__binary_prev,
	.around = sm__binary_around,
	.reserve = sm__binary_reserve,
	.release = sm__binary_release,
	.store = rb_store,
	.erase = rb_erase,
	.load = rb_load,
	.gap_lowest = sm__binary_gap_lowest,
	.gap_highest = sm__binary_gap_highest,
	.validate = rb_validate,
};
