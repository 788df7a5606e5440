/* SPDX-License-Identifier: MIT */
/*
 * path.h - the path of a cursor from the root to a leaf. Nodes know nothing of their parents: the
 * path does, so that copying an inner node writes to none of its children.
 *
 *	level 2   node[2] = root     slot[2] = 1
 *	level 1   node[1]            slot[1] = 5        what a store of one leaf changes:
 *	level 0   node[0] = leaf     slot[0] = 3        child[5] of node[1], one pointer
 *
 * I1 node[l] was child slot[l+1] of node[l+1] when the path was taken.
 * I2 A path is used while its nodes cannot be reclaimed: in the read section it was taken in, or by
 *    the writer as long as cursor.version equals tree.version.
 */
#ifndef SM_MAPLE_PATH_H
#define SM_MAPLE_PATH_H

#include "maple/node.h"

static inline struct sm__leaf *sm__path_leaf(const struct sm_cursor_path *p)
{
	return p->node[0];
}

static inline struct sm__inner *sm__path_inner(const struct sm_cursor_path *p, unsigned int level)
{
	return p->node[level];
}

/* The smallest key of the node at `level`. */
static inline uint64_t sm__path_min(const struct sm_cursor_path *p, unsigned int level)
{
	for (unsigned int l = level + 1; l < p->height; l++) {
		unsigned int s = p->slot[l];

		if (s > 0)
			return sm__path_inner(p, l)->pivot[s - 1] + 1;
	}
	return 0;
}

/* The largest key of the node at `level`. */
static inline uint64_t sm__path_max(const struct sm_cursor_path *p, unsigned int level)
{
	for (unsigned int l = level + 1; l < p->height; l++) {
		const struct sm__inner *n = sm__path_inner(p, l);

		if (p->slot[l] + 1u < n->n)
			return n->pivot[p->slot[l]];
	}
	return SM__KEY_MAX;
}

/* Is the node at `level` the right-most (left-most) of its level? */
static inline bool sm__path_is_last(const struct sm_cursor_path *p, unsigned int level)
{
	for (unsigned int l = level + 1; l < p->height; l++)
		if (p->slot[l] + 1u < sm__path_inner(p, l)->n)
			return false;
	return true;
}

static inline bool sm__path_is_first(const struct sm_cursor_path *p, unsigned int level)
{
	for (unsigned int l = level + 1; l < p->height; l++)
		if (p->slot[l] > 0)
			return false;
	return true;
}

/* Reader: was a node above the leaf replaced? Then bounds taken from the path may be old. */
static inline bool sm__path_stale(const struct sm_cursor_path *p)
{
	for (unsigned int l = 1; l < p->height; l++)
		if (sm__inner_dead(sm__path_inner(p, l)))
			return true;
	return false;
}

enum sm__path_step {
	SM__PATH_END,	/* there is no such node */
	SM__PATH_MOVED, /* the path leads to the neighbour; slot[level] is unset */
	SM__PATH_STALE, /* a node of the path was replaced: walk again */
};

/*
 * sm_maple_load_held with the range that the value has. NULL: nothing there, bounds are unset. Value and
 * bounds are of one instant.
 */
void *sm__maple_load_range(const struct sm_maple *t, uint64_t key, uint64_t bounds[2]);

/* Takes the way to `key`; returns the leaf, or NULL if the tree is empty. slot[0] is its place. */
struct sm__leaf *sm__path_walk(const struct sm_maple *t, struct sm_cursor_path *p, uint64_t key);

/* To the right (left) neighbour of the node at `level`, on the same level. */
enum sm__path_step sm__path_right(struct sm_cursor_path *p, unsigned int level);
enum sm__path_step sm__path_left(struct sm_cursor_path *p, unsigned int level);

#endif
