/* SPDX-License-Identifier: MIT */
/*
 * tree.h - the tree of a space behind a small table of functions: address ranges that do not
 * overlap, each with the node embedded in its VMA. Red-black, AVL and maple tree implement it.
 *
 * Two kinds of users:
 *   writers and locked readers hold mmap_lock (write or read) and work with nodes, through a cursor;
 *   RCU readers (ops->rcu only) hold an RCU read section and get a range with its word: either the
 *   address of a record whose first word points back to the node, or the node's address itself with 22
 *   bits of what a reader wants to know, who then need not touch more memory than the tree.
 *
 * I1 Ranges are inclusive [first, last], never empty, and do not overlap.
 * I2 One change of the tree (store, erase) is one step to an RCU reader: it sees the old state of a
 *    range or the new, never a hole that was not there.
 * I3 After reserve(t, n) succeeded, the next n changes cannot fail.
 * I4 store() over existing ranges: what is covered whole is unlinked, a neighbour covered at one
 *    end is trimmed to what remains. The new range never lies strictly inside an old one.
 * I5 erase() is called with ranges whose ends are range ends: nothing is trimmed.
 * I6 node->first and node->last are kept up to date by trees that link the node (rb, avl); a tree
 *    that keeps its own keys (maple) may leave them alone. Callers use the bounds of their VMA.
 */
#ifndef SM_SPACE_TREE_H
#define SM_SPACE_TREE_H

#include "base/base.h"
#include "samara/types.h"

/*
 * Embedded in what the tree holds. Rule: read under mmap_lock, written under mmap_lock for write.
 */
struct sm__tree_node {
	uintptr_t parent_and_colour; /* avl: parent and balance */
	struct sm__tree_node *left, *right;
	struct sm__tree_node *prev, *next; /* the list, ascending */
	sm_addr first, last;
	uint64_t subtree_gap; /* largest gap in front of any node of this subtree */
};

/* The head of a record. */
struct sm__tree_value {
	struct sm__tree_node *node;
};

/*
 * A word of the tree, 0 = nothing there.
 *
 *      record   0 ............. | address of a struct sm__tree_value ........ | 000000
 *      direct   bits [21:5] (17) | bits 46 to 6 of the node's address ........ | bits [4:0] | 1
 *
 * Direct words are for nodes aligned to 64 below 2^47, where x86-64 gives memory unless asked for more.
 */
#if defined(__x86_64__)
enum { SM__WORD_BITS = 22 };
#else
enum { SM__WORD_BITS = 0 };
#endif
#define SM__WORD_NODE (((1ull << 47) - 1) & ~63ull)

static inline uint64_t sm__word_direct(const struct sm__tree_node *node, uint64_t bits)
{
	SM_ASSERT(!((uintptr_t)node & ~SM__WORD_NODE) && !(bits >> SM__WORD_BITS));
	return bits >> 5 << 47 | (uintptr_t)node | (bits & 31) << 1 | 1;
}

static inline bool sm__word_is_direct(uint64_t word)
{
	return SM__WORD_BITS > 0 && (word & 1);
}

static inline uint64_t sm__word_bits(uint64_t word)
{
	return word >> 47 << 5 | (word >> 1 & 31);
}

static inline struct sm__tree_node *sm__word_node(uint64_t word)
{
	if (sm__word_is_direct(word))
		return (struct sm__tree_node *)(uintptr_t)(word & SM__WORD_NODE);
	return word ? ((struct sm__tree_value *)(uintptr_t)word)->node : NULL;
}

/* A range and its word as an RCU reader finds them. */
struct sm__tree_found {
	uint64_t word;
	sm_addr first, last;
};

struct sm__tree;
struct sm_maple_pool;

/*
 * A position. On the stack, made by sm__cursor(); valid until the tree is changed by anybody else
 * than the cursor's own store or erase, after which it stands on what was stored (or, after an
 * erase, in front of what follows).
 */
struct sm__tree_cursor {
	struct sm__tree *tree;
	struct sm__tree_node *node; /* where it stands; NULL = past the last */
	/* Of the implementation (a struct sm_cursor); the first word is 0 until a seek. */
	uint64_t opaque[32];
};

/* One range for load(). */
struct sm__tree_item {
	struct sm__tree_node *node;
	uint64_t word; /* rcu trees */
	sm_addr first, last;
};

struct sm__tree_ops {
	const char *name;
	bool rcu; /* load_rcu and next_rcu work without any lock */
	int (*init)(struct sm__tree *t);
	void (*destroy)(
		struct sm__tree *t); /* the memory of the tree; the nodes are the caller's */

	/* Locked readers. seek: the node covering addr, else the first above, else NULL. */
	struct sm__tree_node *(*find)(struct sm__tree *t, sm_addr addr); /* covering, or NULL */
	struct sm__tree_node *(*seek)(struct sm__tree_cursor *c, sm_addr addr);
	struct sm__tree_node *(*next)(struct sm__tree_cursor *c); /* NULL at the end, may go back */
	struct sm__tree_node *(*prev)(struct sm__tree_cursor *c); /* NULL before the first */
	/* The nodes before and after the one the cursor stands on, which it does not leave. */
	void (*around)(struct sm__tree_cursor *c, struct sm__tree_node *out[2]);

	/* Writers. */
	int (*reserve)(struct sm__tree *t, unsigned changes); /* 0 or -ENOMEM; may be repeated */
	void (*release)(struct sm__tree *t);		      /* what reserve left over */
	void (*store)(struct sm__tree_cursor *c, const struct sm__tree_item *item);
	/*
	 * rcu trees: a store in the same step as the words of what it leaves of the ranges that it cuts:
	 * sides[0] in front of it, sides[1] behind; 0: the word stays. The range may lie inside an old one. An
	 * item without node and word leaves a hole; the cursor is to be sought again then.
	 */
	void (*store_cut)(struct sm__tree_cursor *c, const struct sm__tree_item *item,
			  const uint64_t sides[2]);
	void (*erase)(struct sm__tree_cursor *c, sm_addr first, sm_addr last);
	/* Fills an empty tree with n ascending items in one go. 0 or -ENOMEM (still empty). */
	int (*load)(struct sm__tree *t, const struct sm__tree_item *items, size_t n);

	/*
	 * A free range of size bytes within [low, high] (inclusive): the one with the lowest start,
	 * or the one with the highest end. 0 and *addr, or -ENOENT.
	 */
	int (*gap_lowest)(struct sm__tree *t, uint64_t size, const sm_addr limits[2],
			  sm_addr *addr);
	int (*gap_highest)(struct sm__tree *t, uint64_t size, const sm_addr limits[2],
			   sm_addr *addr);

	/*
	 * The same through a cursor, which then stands on the gap: c->node is the first node above it, prev
	 * gives the one below, a store into the gap does not walk again. NULL: search, then seek.
	 */
	int (*gap_at)(struct sm__tree_cursor *c, uint64_t size, const sm_addr limits[2],
		      bool highest, sm_addr *addr);

	/*
	 * RCU readers: the range that covers addr; the one that covers addr or the first above. False: none.
	 */
	bool (*load_rcu)(struct sm__tree *t, sm_addr addr, struct sm__tree_found *out);
	bool (*next_rcu)(struct sm__tree *t, sm_addr addr, struct sm__tree_found *out);

	/* Checks everything it can; NULL, or a text. Cost: linear. */
	const char *(*validate)(struct sm__tree *t);
};

struct sm__tree {
	const struct sm__tree_ops *ops;
	size_t count; /* ranges; kept by rb and avl */
	/* rb, avl */
	struct sm__tree_node *root;
	struct sm__tree_node ends; /* list head: ends.next = first, ends.prev = last */
	/* maple: its own structure */
	void *impl;
	struct sm_maple_pool *nodes; /* where maple nodes come from; NULL = the tree's own */
};

extern const struct sm__tree_ops sm__tree_rb_ops;
extern const struct sm__tree_ops sm__tree_avl_ops;
extern const struct sm__tree_ops sm__tree_maple_ops;

static inline struct sm__tree_cursor sm__cursor(struct sm__tree *t)
{
	struct sm__tree_cursor c;

	c.tree = t;
	c.node = NULL;
	c.opaque[0] = 0;
	return c;
}

#endif
