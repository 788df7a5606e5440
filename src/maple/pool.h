/* SPDX-License-Identifier: MIT */
/*
 * pool.h - where nodes come from and how they leave.
 *
 * I1 A node is handed out alive and with every field unset but `dead`; whoever takes it fills it.
 * I2 A node that readers may have met is retired (marked, then freed after a grace period); one
 *    that was never published is given back at once.
 */
#ifndef SM_MAPLE_POOL_H
#define SM_MAPLE_POOL_H

#include "maple/node.h"
#include "samara/cache.h"

struct sm_maple_pool {
	struct sm_cache *leaf, *inner;
	enum sm_maple_node_free node_free;
	atomic_uint trees; /* that use it; for sm_maple_pool_destroy */
};

enum sm__node_kind {
	SM__NODE_LEAF,
	SM__NODE_INNER,
};

/* From the spare nodes of the cursor if it has any, else from the cache. NULL: exhausted. */
struct sm__leaf *sm__leaf_take(struct sm_maple_pool *pool, struct sm_sheaf *spare);
struct sm__inner *sm__inner_take(struct sm_maple_pool *pool, struct sm_sheaf *spare);

/* Never published: back at once. */
void sm__node_give_back(struct sm_maple_pool *pool, enum sm__node_kind kind, void *node);

/* Unlinked: marks it dead, frees it when no reader can be in it. */
void sm__leaf_retire(struct sm_maple_pool *pool, struct sm__leaf *leaf);
void sm__inner_retire(struct sm_maple_pool *pool, struct sm__inner *inner);

/* The same for every node below and including `node`, which is on `level`. */
void sm__subtree_retire(struct sm_maple_pool *pool, void *node, unsigned int level);

#endif
