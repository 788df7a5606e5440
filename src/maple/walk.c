/* SPDX-License-Identifier: MIT */
/*
 * walk.c - the way down: look-up, and the walks that a cursor makes.
 *
 * Guarantees to readers inside a read section:
 * G1 Every node reached is whole: what was written into it before it was published is seen (release
 *    store of the pointer, acquire load here).
 * G2 A look-up returns the value the key had at one instant between its begin and its end. Each
 *    node on the way was part of the tree at some instant of the call, not before that of the node
 *    above: a node that was replaced meanwhile gets no new children any more, so what it holds is
 *    what it held when it was replaced. Hence no node is checked for being dead and nothing is ever
 *    repeated.
 * G3 No node reached is reclaimed: each was part of the tree after the read section had begun.
 * G4 A step to a neighbour that finds every node it used alive took a child that was in the tree at
 *    some instant of the step; if one is dead, the mark was set after the replacement was published
 *    (release, acquire), so the walk that follows meets the replacement and not the dead node
 *    again.
 */
#include "maple/path.h"
#include "base/delay.h"

/*
 * All lines of a node at once, before the first is looked at: misses come together, not one by one.
 */
static inline void prefetch_node(const void *node)
{
	for (size_t line = 0; line < sizeof(struct sm__leaf); line += SM__CACHELINE)
		__builtin_prefetch((const char *)node + line);
}

struct sm__leaf *sm__path_walk(const struct sm_maple *t, struct sm_cursor_path *p, uint64_t key)
{
	uintptr_t root = sm__root_load(t);
	unsigned int level = sm__root_height(root);
	void *node = sm__root_node(root);

	p->height = (uint8_t)level;
	if (sm__unlikely(!level))
		return NULL;
	while (--level) {
		unsigned int s = sm__inner_find(node, key);

		p->node[level] = node;
		p->slot[level] = (uint8_t)s;
		sm__delay();
		node = sm__inner_child(node, s);
		prefetch_node(node);
	}
	p->node[0] = node;
	p->slot[0] = (uint8_t)sm__leaf_find(node, key);
	return node;
}

void *sm_maple_load_held(const struct sm_maple *t, uint64_t key)
{
	uint64_t bounds[2];
	void *value = sm__maple_load_range(t, key, bounds);

	return value != SM_MAPLE_ZERO ? value : NULL;
}

void *sm__maple_load_range(const struct sm_maple *t, uint64_t key, uint64_t bounds[2])
{
	uintptr_t root = sm__root_load(t);
	unsigned int level = sm__root_height(root), i;
	void *node = sm__root_node(root), *value;
	const struct sm__leaf *leaf;

	if (sm__unlikely(!level))
		return NULL;
	while (--level) {
		sm__delay();
		node = sm__inner_child(node, sm__inner_find(node, key));
		prefetch_node(node);
	}
	leaf = node;
	sm__delay();
	i = sm__leaf_find(leaf, key);
	if (sm__unlikely(i == LEAF_SLOTS))
		return NULL;
	value = sm__leaf_value(leaf, i);
	bounds[0] = leaf->entry[i].first;
	bounds[1] = leaf->last[i];
	return bounds[0] <= key ? value : NULL;
}

/* Down from node[from] along the left (right) edge to `level`. */
static void descend_left(struct sm_cursor_path *p, unsigned int from, unsigned int level)
{
	for (unsigned int l = from; l > level; l--) {
		p->slot[l] = 0;
		sm__delay();
		p->node[l - 1] = sm__inner_child(p->node[l], 0);
	}
}

static void descend_right(struct sm_cursor_path *p, unsigned int from, unsigned int level)
{
	for (unsigned int l = from; l > level; l--) {
		const struct sm__inner *n = p->node[l];

		p->slot[l] = (uint8_t)(n->n - 1);
		sm__delay();
		p->node[l - 1] = sm__inner_child(n, n->n - 1);
	}
}

enum sm__path_step sm__path_right(struct sm_cursor_path *p, unsigned int level)
{
	for (unsigned int l = level + 1; l < p->height; l++) {
		const struct sm__inner *n = p->node[l];
		unsigned int s = p->slot[l] + 1u;
		void *child = s < n->n ? sm__inner_child(n, s) : NULL;

		sm__delay();
		if (sm__inner_dead(n))
			return SM__PATH_STALE;
		if (child) {
			p->slot[l] = (uint8_t)s;
			p->node[l - 1] = child;
			/* Whoever comes here goes on to the next: its lines come meanwhile. */
			if (l == 1 && s + 1 < n->n)
				prefetch_node(sm__inner_child(n, s + 1));
			descend_left(p, l - 1, level);
			return SM__PATH_MOVED;
		}
	}
	return SM__PATH_END;
}

enum sm__path_step sm__path_left(struct sm_cursor_path *p, unsigned int level)
{
	for (unsigned int l = level + 1; l < p->height; l++) {
		const struct sm__inner *n = p->node[l];
		unsigned int s = p->slot[l];
		void *child = s ? sm__inner_child(n, s - 1) : NULL;

		sm__delay();
		if (sm__inner_dead(n))
			return SM__PATH_STALE;
		if (child) {
			p->slot[l] = (uint8_t)(s - 1);
			p->node[l - 1] = child;
			descend_right(p, l - 1, level);
			return SM__PATH_MOVED;
		}
	}
	return SM__PATH_END;
}
