/* SPDX-License-Identifier: MIT */
/*
 * write.h - a store as one struct: what is asked, what the leaf makes of it, what it costs.
 */
#ifndef SM_MAPLE_WRITE_H
#define SM_MAPLE_WRITE_H

#include "maple/path.h"
#include "maple/pool.h"

enum {
	/*
	 * A leaf with fewer entries takes a neighbour in; two leaves become one up to LEAF_MERGE.
	 * The right-most leaf may hold less, down to one entry: that is what makes ascending stores
	 * leave full nodes behind.
	 */
	LEAF_MIN = 4,
	LEAF_MERGE = 8,
	/* A full leaf shares with a neighbour that has at most so many entries; else it splits. */
	LEAF_SHARE = 7,
	INNER_MIN = 6,
	/* Leaves that one store can need: ten left, three new, ten right. */
	LEAF_WORST = 3,
};

/* Inner nodes that one store can need in a tree of this height: three per level, a new root. */
#define INNER_WORST(height) (3 * ((height)-1) + 1)

struct sm__entry {
	uint64_t first, last;
	void *value;
};

enum sm__write_kind {
	SM__WRITE_NOTHING, /* NULL over a gap */
	SM__WRITE_VALUE,   /* the bounds of an entry: one atomic store in place */
	SM__WRITE_LEAF,	   /* a new leaf for the same keys: one pointer in the parent */
	SM__WRITE_REBUILD, /* bounds of leaves change: new nodes up to where they no longer do */
};

struct sm__write {
	struct sm_cursor *c;
	struct sm_maple *tree;
	void *entry;
	/* What takes the place of the values that are cut: in front of the range, behind it. NULL: they stay. */
	void *side[2];
	enum sm__write_kind kind;
	/* Entries [from, to) of the leaf give way to fresh[0..nr_fresh). */
	unsigned int from, to, nr_fresh;
	struct sm__entry fresh[3];
	bool before; /* fresh[0] is what remains in front of an overwritten one */
	bool rest;   /* the last fresh entry is what remains behind one */
};

/* The value of what is left of entry i of l, in front of the range (0) or behind it (1). */
static inline void *sm__write_side(const struct sm__write *w, unsigned int side,
				   const struct sm__leaf *l, unsigned int i)
{
	return w->side[side] ? w->side[side] : sm__leaf_value(l, i);
}

/* Fills leaf[0..n) from entries and the rest with what I1 of node.h asks for. */
void sm__leaf_fill(struct sm__leaf *l, const struct sm__entry *e, unsigned int n);

/* The largest gap of a leaf that holds the keys from `min` on, to the end of all if `last`. */
uint64_t sm__leaf_gap(const struct sm__leaf *l, uint64_t min, bool last);
uint64_t sm__inner_gap(const struct sm__inner *n);

/* The gap below child slot[level] of node[level] is now `gap`: tells the nodes above. */
void sm__gap_set(const struct sm_cursor_path *p, unsigned int level, uint64_t gap);

/* The general case. 0 or -ENOMEM. */
int sm__rebuild(struct sm__write *w);

/* sm_cursor_store without the checks of arguments; the path is valid and slot[0] is its place. */
int sm__write_at(struct sm_cursor *c, void *entry);

/*
 * The same, and what the range leaves of a value that it cuts becomes side[0] (in front of it) and
 * side[1] (behind it), in the one step that readers see; NULL: it keeps its value.
 */
int sm__write_cut(struct sm_cursor *c, void *entry, void *const side[2]);

/* How many leaves (need[0]) and inner nodes (need[1]) that store can take. */
void sm__write_need(struct sm_cursor *c, void *entry, unsigned int need[2]);

/*
 * Makes the path valid for the writer and slot[0] the place of index. The leaf, NULL: empty tree.
 */
struct sm__leaf *sm__write_seek(struct sm_cursor *c);

/* Has the cursor taken a path since it was set? */
static inline bool sm__cursor_has_path(const struct sm_cursor *c)
{
	return c->state == SM_CURSOR_ACTIVE || c->state == SM_CURSOR_OVERFLOW ||
	       c->state == SM_CURSOR_UNDERFLOW;
}

static inline bool sm__entry_is_reserved(const void *entry)
{
	return (uintptr_t)entry < 4096 && ((uintptr_t)entry & 3) == 2;
}

#endif
