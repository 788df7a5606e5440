/* SPDX-License-Identifier: MIT */
/*
 * tree_avl.c - the AVL tree: lower than the red-black tree, at the price of more rotations. No
 * kernel used it for this; it is here so that the three can be compared.
 *
 * I1 The heights of a node's subtrees differ by at most one; the bits of the node are their
 *    difference, right minus left, plus one. (Order, list and gaps: tree_binary.h.)
 */
#include "space/tree_binary.h"

static int balance_of(const struct sm__tree_node *n)
{
	return (int)sm__binary_bits(n) - 1;
}

static void set_balance(struct sm__tree_node *n, int balance)
{
	sm__binary_set_bits(n, (unsigned int)(balance + 1));
}

/*
 * p leans to one side by two; side = -1 (left) or 1 (right). Returns the node that takes its place;
 * its balance is 0 if the subtree is lower now than it was.
 *
 *	  p                s              p                    g
 *	   \              / \              \                  / \
 *	    s     =>      p   x             s      =>         p   s
 *	   / \            \               /                   \  /
 *	  y   x            y             g
 */
static struct sm__tree_node *straighten(struct sm__tree *t, struct sm__tree_node *p, int side)
{
	bool left = side > 0; /* the way p goes down */
	struct sm__tree_node *s = left ? p->right : p->left, *g;
	int b = balance_of(s);

	if (b != -side) {
		sm__binary_rotate(t, p, left);
		set_balance(p, b ? 0 : side);
		set_balance(s, b ? 0 : -side);
		return s;
	}
	g = left ? s->left : s->right;
	b = balance_of(g);
	sm__binary_rotate(t, s, !left);
	sm__binary_rotate(t, p, left);
	set_balance(p, b == side ? -side : 0);
	set_balance(s, b == -side ? side : 0);
	set_balance(g, 0);
	return g;
}

static void avl_link(struct sm__tree *t, struct sm__tree_node *n, struct sm__tree_node *before)
{
	struct sm__tree_node *p;

	sm__binary_link(t, n, before, 1);
	/* n's subtree is one higher. */
	for (; (p = sm__binary_parent(n)); n = p) {
		int side = p->left == n ? -1 : 1, b = balance_of(p) + side;

		if (b == 2 || b == -2) {
			straighten(t, p, side);
			return;
		}
		set_balance(p, b);
		if (!b)
			return;
	}
}

static void avl_unlink(struct sm__tree *t, struct sm__tree_node *n)
{
	struct sm__binary_hole hole = sm__binary_unlink(t, n);
	struct sm__tree_node *p = hole.parent;
	bool left = hole.left;

	/* p's subtree on one side is one lower. */
	while (p) {
		int side = left ? 1 : -1, b = balance_of(p) + side;

		if (b == 2 || b == -2) {
			p = straighten(t, p, side);
			b = balance_of(p);
		} else {
			set_balance(p, b);
		}
		if (b)
			return;
		left = sm__binary_parent(p) && sm__binary_parent(p)->left == p;
		p = sm__binary_parent(p);
	}
}

static const struct sm__binary_balance balance = { avl_link, avl_unlink };

static void avl_store(struct sm__tree_cursor *c, const struct sm__tree_item *item)
{
	sm__binary_store(c, item, &balance);
}

static void avl_erase(struct sm__tree_cursor *c, sm_addr first, sm_addr last)
{
	sm__binary_erase(c, first, last, &balance);
}

static int avl_load(struct sm__tree *t, const struct sm__tree_item *items, size_t n)
{
	return sm__binary_load(t, items, n, &balance);
}

/* Height of the subtree, or -1. */
static int height(const struct sm__tree_node *n)
{
	int l, r;

	if (!n)
		return 0;
	l = height(n->left);
	r = height(n->right);
	if (l < 0 || r < 0 || r - l != balance_of(n) || r - l > 1 || l - r > 1)
		return -1;
	return 1 + (l > r ? l : r);
}

static const char *avl_validate(struct sm__tree *t)
{
	size_t in_tree = 0;

	if (!sm__binary_check(t, t->root, &in_tree))
		return "links, order or gaps of the tree are wrong";
	if (height(t->root) < 0)
		return "the tree is out of balance";
	return sm__binary_check_list(t, in_tree);
}

const struct sm__tree_ops sm__tree_avl_ops = {
	.name = "avl",
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
	.store = avl_store,
	.erase = avl_erase,
	.load = avl_load,
	.gap_lowest = sm__binary_gap_lowest,
	.gap_highest = sm__binary_gap_highest,
	.validate = avl_validate,
};
