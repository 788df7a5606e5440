/* SPDX-License-Identifier: MIT */
/*
 * node.h - the two kinds of nodes of a maple tree, and the search inside one.
 *
 *	leaf, 256 bytes: ten ranges, each with a value; gaps are what lies between them
 *	+------------------------------+---+------+----------------------------------------------+
 *	| last[0..9]                   | n | dead | (first, value)[0..9]                         |
 *	+------------------------------+---+------+----------------------------------------------+
 *	  line 0 ............ | line 1 ............. | line 2 ............ | line 3 .............
 *
 *	inner, 384 bytes: sixteen children; what the readers need is the first four lines
 *	+------------------------------+----------+-----------------------+----------------------+
 *	| pivot[0..14]                 | n | dead | child[0..15]          | gap[0..15]           |
 *	+------------------------------+----------+-----------------------+----------------------+
 *	  line 0 ............ | line 1 .......... | lines 2, 3 .......... | lines 4, 5: writer ..
 *
 * I1 Entries of a leaf ascend and do not overlap: last[i-1] < first[i] <= last[i]. Unused places
 *    hold last = all ones and value = NULL, so that counting last[] < key over all ten needs no n.
 * I2 Child i of an inner node holds the keys in (pivot[i-1], pivot[i]]; the bound before the first
 *    and behind the last child is the node's own. Unused pivots are all ones, unused children 0.
 * I3 A leaf that is not the right-most of the tree ends with an entry: its upper bound is
 *    last[n-1]. So every gap between two entries lies inside one leaf, in front of an entry.
 * I4 All leaves are on one level (level 0). The root word is the root's address plus the height.
 * I5 gap[i] is the length of the largest gap below child i (saturated at 2^64-1).
 *
 * What of a published node may change, and how (everything else is immutable until it is
 * reclaimed):
 * C1 a leaf's value, from one value to another: an atomic release store (pairs with the acquire
 *    loads of readers);
 * C2 an inner node's child: an atomic release store of another node for exactly the same keys;
 * C3 dead, once, from 0: an atomic release store after the node was unlinked;
 * C4 gap[]: readers never look at it.
 * So bounds are read by plain loads, all of them, whatever the writer does meanwhile.
 */
#ifndef SM_MAPLE_NODE_H
#define SM_MAPLE_NODE_H

#include "base/base.h"
#include "samara/maple.h"

enum {
	LEAF_SLOTS = 10,  /* (256 - 16) / 24 */
	INNER_SLOTS = 16, /* fifteen pivots, the mark and sixteen children fill four lines */
	HEIGHT_BITS = 6,  /* nodes are aligned to 64 */
	LEAF_ALIGN = 256,
	INNER_ALIGN = 128,
};

#define SM__KEY_MAX UINT64_MAX

/* Letters: i = immutable once published; a = atomic, see C1..C3; w = the writer's alone. */
struct sm__leaf {
	uint64_t last[LEAF_SLOTS]; /* i */
	uint32_t n;		   /* i */
	_Atomic uint32_t dead;	   /* a: 0 = alive */
	uint64_t unused;
	struct sm__leaf_entry {
		uint64_t first;	       /* i */
		_Atomic(void *) value; /* a */
	} entry[LEAF_SLOTS];
};

struct sm__inner {
	uint64_t pivot[INNER_SLOTS - 1];    /* i */
	uint32_t n;			    /* i */
	_Atomic uint32_t dead;		    /* a: 0 = alive */
	_Atomic(void *) child[INNER_SLOTS]; /* a */
	uint64_t gap[INNER_SLOTS];	    /* w */
};

_Static_assert(sizeof(struct sm__leaf) == 256, "a leaf is four lines");
_Static_assert(sizeof(struct sm__inner) == 384,
	       "an inner node is four lines and two for the writer");
_Static_assert(offsetof(struct sm__inner, child) == 128, "children start on a line");
_Static_assert(offsetof(struct sm__leaf, entry) % 16 == 0, "an entry does not cross a line");

/* --------------------------------------------------------------------------- root word ---- */

static inline uintptr_t sm__root_pack(const void *node, unsigned int height)
{
	return (uintptr_t)node | height;
}

static inline unsigned int sm__root_height(uintptr_t root)
{
	return root & ((1u << HEIGHT_BITS) - 1);
}

static inline void *sm__root_node(uintptr_t root)
{
	return (void *)(root & ~(uintptr_t)((1u << HEIGHT_BITS) - 1));
}

/* Acquire: pairs with the release store of sm__root_publish. */
static inline uintptr_t sm__root_load(const struct sm_maple *t)
{
	return __atomic_load_n(&t->root, __ATOMIC_ACQUIRE);
}

static inline void sm__root_publish(struct sm_maple *t, uintptr_t root)
{
	__atomic_store_n(&t->root, root, __ATOMIC_RELEASE);
}

/* ------------------------------------------------------------------------------ fields ---- */

static inline void *sm__leaf_value(const struct sm__leaf *l, unsigned int i)
{
	/* Acquire: pairs with the release store of a value in place (C1). */
	return atomic_load_explicit(&l->entry[i].value, memory_order_acquire);
}

static inline void *sm__inner_child(const struct sm__inner *n, unsigned int i)
{
	/* Acquire: pairs with the release store that published the child (C2). */
	return atomic_load_explicit(&n->child[i], memory_order_acquire);
}

static inline bool sm__leaf_dead(const struct sm__leaf *l)
{
	/*
	 * Acquire: pairs with the mark's release store, so that a walk after it sees what replaced
	 * us.
	 */
	return atomic_load_explicit(&l->dead, memory_order_acquire) != 0;
}

static inline bool sm__inner_dead(const struct sm__inner *n)
{
	/* Acquire: as sm__leaf_dead. */
	return atomic_load_explicit(&n->dead, memory_order_acquire) != 0;
}

/* ------------------------------------------------------------------------------ search ---- */

/*
 * The first entry that ends at or after key; LEAF_SLOTS if none of a full leaf does. No branches.
 */
static inline unsigned int sm__leaf_find(const struct sm__leaf *l, uint64_t key)
{
	unsigned int i = 0;

#pragma GCC unroll 16
	for (unsigned int k = 0; k < LEAF_SLOTS; k++)
		i += l->last[k] < key;
	return i;
}

/* The child that holds key. */
static inline unsigned int sm__inner_find(const struct sm__inner *n, uint64_t key)
{
	unsigned int i = 0;

#pragma GCC unroll 16
	for (unsigned int k = 0; k < INNER_SLOTS - 1; k++)
		i += n->pivot[k] < key;
	return i;
}

#endif
