/* SPDX-License-Identifier: MIT */
/*
 * tree_binary.h - what the red-black and the AVL tree share: nodes inside the VMAs, a list through
 * them, and in every node the largest gap of its subtree. How the tree is kept low is the affair of
 * each.
 *
 * I1 Search tree by first; the list holds the same nodes in the same order.
 * I2 n->subtree_gap = max(gap in front of n, children's subtree_gap); the gap in front of n reaches
 *    from the end of its list predecessor (or 0) to n->first.
 * I3 The low two bits of parent_and_colour are the balancer's: a colour, or a balance.
 *
 * A change of n->first or n->last moves two gaps, n's and its successor's: both paths are redone.
 * No allocation, so reserve always succeeds. No RCU reader.
 */
#ifndef SM_SPACE_TREE_BINARY_H
#define SM_SPACE_TREE_BINARY_H

#include "space/tree.h"

#define SM__BINARY_BITS ((uintptr_t)3)

static inline struct sm__tree_node *sm__binary_parent(const struct sm__tree_node *n)
{
	return (struct sm__tree_node *)(n->parent_and_colour & ~SM__BINARY_BITS);
}

static inline unsigned int sm__binary_bits(const struct sm__tree_node *n)
{
	return n->parent_and_colour & SM__BINARY_BITS;
}

static inline void sm__binary_set_bits(struct sm__tree_node *n, unsigned int bits)
{
	n->parent_and_colour = (n->parent_and_colour & ~SM__BINARY_BITS) | bits;
}

/* Rotates n down to the left or right; parents, gaps, not the bits. */
void sm__binary_rotate(struct sm__tree *t, struct sm__tree_node *n, bool left);

/*
 * Links n as a leaf behind its list predecessor `before`, with these bits; gaps are right after it.
 */
void sm__binary_link(struct sm__tree *t, struct sm__tree_node *n, struct sm__tree_node *before,
		     unsigned int bits);

/* Where the tree lost height when a node was taken out. */
struct sm__binary_hole {
	struct sm__tree_node *child, *parent; /* what took the place (or NULL), and above it */
	bool left;			      /* it is parent's left */
	unsigned int bits;		      /* of the place that was lost */
};
struct sm__binary_hole sm__binary_unlink(struct sm__tree *t, struct sm__tree_node *n);

/* Parents, order and gaps of a subtree; counts its nodes. */
bool sm__binary_check(struct sm__tree *t, struct sm__tree_node *n, size_t *count);
/* The list against the tree, which has `in_tree` nodes. NULL or a text. */
const char *sm__binary_check_list(struct sm__tree *t, size_t in_tree);

/* The functions of the table that do not care how the tree is kept low. */
int sm__binary_init(struct sm__tree *t);
void sm__binary_destroy(struct sm__tree *t);
struct sm__tree_node *sm__binary_find(struct sm__tree *t, sm_addr addr);
struct sm__tree_node *sm__binary_seek(struct sm__tree_cursor *c, sm_addr addr);
struct sm__tree_node *sm__binary_next(struct sm__tree_cursor *c);
struct sm__tree_node *sm__binary_prev(struct sm__tree_cursor *c);
void sm__binary_around(struct sm__tree_cursor *c, struct sm__tree_node *out[2]);
int sm__binary_reserve(struct sm__tree *t, unsigned changes);
void sm__binary_release(struct sm__tree *t);
int sm__binary_gap_lowest(struct sm__tree *t, uint64_t size, const sm_addr limits[2],
			  sm_addr *addr);
int sm__binary_gap_highest(struct sm__tree *t, uint64_t size, const sm_addr limits[2],
			   sm_addr *addr);

/* The changes, given how a node goes in and out. */
struct sm__binary_balance {
	void (*link)(struct sm__tree *t, struct sm__tree_node *n, struct sm__tree_node *before);
	void (*unlink)(struct sm__tree *t, struct sm__tree_node *n);
};
void sm__binary_store(struct sm__tree_cursor *c, const struct sm__tree_item *item,
		      const struct sm__binary_balance *b);
void sm__binary_erase(struct sm__tree_cursor *c, sm_addr first, sm_addr last,
		      const struct sm__binary_balance *b);
int sm__binary_load(struct sm__tree *t, const struct sm__tree_item *items, size_t n,
		    const struct sm__binary_balance *b);

#endif
