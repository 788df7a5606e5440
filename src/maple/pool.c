/* SPDX-License-Identifier: MIT */
/*
 * pool.c - the caches of nodes: taking, giving back, retiring.
 *
 * G1 A node is marked dead after what replaces it was published (release stores, in this order), so
 *    a reader that finds the mark and walks again cannot meet the same node.
 * G2 A retired node is handed out again only after every read section that was open at the mark
 *    ended.
 *
 * node_free = call_rcu gives every node a callback of its own. Its record lies behind the part that
 * readers look at: a dead node keeps its contents for those who are still inside.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include "maple/pool.h"
#include "base/delay.h"
#include "base/inject.h"
#include "base/rcu.h"

enum {
	DEFAULT_CAPACITY = 32, /* nodes per sheaf, as Linux' maple_node cache */
};

struct deferred {
	struct rcu_head rcu;
	struct sm_cache *cache;
};

struct deferred_leaf {
	struct sm__leaf leaf;
	struct deferred deferred;
};

struct deferred_inner {
	struct sm__inner inner;
	struct deferred deferred;
};

static struct sm_cache *make_cache(const struct sm_maple_pool_options *o, const char *kind,
				   size_t size, size_t align)
{
	char name[32];
	struct sm_cache_options co = {
		.name = name,
		.size = size,
		.align = align,
		.capacity = o->capacity ? o->capacity : DEFAULT_CAPACITY,
		.layer = o->slab_layer ? SM_CACHE_LAYER_SLAB : SM_CACHE_LAYER_SHEAF,
		.owner = o->owner,
	};

	snprintf(name, sizeof(name), "%.20s_%s", o->name ? o->name : "maple", kind);
	return sm_cache_create(&co);
}

struct sm_maple_pool *sm_maple_pool_create(const struct sm_maple_pool_options *options)
{
	static const struct sm_maple_pool_options defaults;
	const struct sm_maple_pool_options *o = options ? options : &defaults;
	bool deferred = o->node_free == SM_MAPLE_FREE_CALL_RCU;
	struct sm_maple_pool *pool;

	if ((unsigned int)o->node_free > SM_MAPLE_FREE_NOW) {
		errno = EINVAL;
		return NULL;
	}
	pool = sm__inject_fail() ? NULL : malloc(sizeof(*pool));
	if (!pool) {
		errno = ENOMEM;
		return NULL;
	}
	pool->node_free = o->node_free;
	atomic_init(&pool->trees, 0);
	pool->leaf = make_cache(o, "leaf",
				deferred ? sizeof(struct deferred_leaf) : sizeof(struct sm__leaf),
				deferred ? SM__CACHELINE : LEAF_ALIGN);
	if (!pool->leaf)
		goto no_leaf;
	pool->inner = make_cache(
		o, "inner", deferred ? sizeof(struct deferred_inner) : sizeof(struct sm__inner),
		deferred ? SM__CACHELINE : INNER_ALIGN);
	if (!pool->inner)
		goto no_inner;
	return pool;
no_inner:
	sm_cache_destroy(pool->leaf);
no_leaf:
	free(pool);
	return NULL;
}

int sm_maple_pool_destroy(struct sm_maple_pool *pool)
{
	int ret;

	if (!pool)
		return 0;
	/* Acquire: pairs with the release of the last tree's sm_maple_destroy. */
	if (atomic_load_explicit(&pool->trees, memory_order_acquire))
		return -EBUSY;
	if (pool->node_free == SM_MAPLE_FREE_CALL_RCU)
		sm__rcu_barrier();
	/* A cursor may still hold spare nodes of one cache: the call can then be repeated. */
	if (pool->inner) {
		ret = sm_cache_destroy(pool->inner);
		if (ret)
			return ret;
		pool->inner = NULL;
	}
	ret = sm_cache_destroy(pool->leaf);
	if (ret)
		return ret;
	free(pool);
	return 0;
}

void sm_maple_pool_barrier(struct sm_maple_pool *pool)
{
	if (pool->node_free == SM_MAPLE_FREE_CALL_RCU) {
		sm__rcu_barrier();
		return;
	}
	sm_cache_barrier(pool->leaf);
	sm_cache_barrier(pool->inner);
}

void sm_maple_pool_stats(struct sm_maple_pool *pool, struct sm_cache_stats *leaf,
			 struct sm_cache_stats *inner)
{
	sm_cache_stats(pool->leaf, leaf);
	sm_cache_stats(pool->inner, inner);
}

static void *take(struct sm_cache *cache, struct sm_sheaf *spare)
{
	void *node;

	if (spare) {
		node = sm_sheaf_take(spare);
		if (node)
			return node;
	}
	return sm__inject_fail() ? NULL : sm_cache_alloc(cache);
}

struct sm__leaf *sm__leaf_take(struct sm_maple_pool *pool, struct sm_sheaf *spare)
{
	struct sm__leaf *l = take(pool->leaf, spare);

	if (l)
		atomic_store_explicit(&l->dead, 0, memory_order_relaxed);
	return l;
}

struct sm__inner *sm__inner_take(struct sm_maple_pool *pool, struct sm_sheaf *spare)
{
	struct sm__inner *n = take(pool->inner, spare);

	if (n)
		atomic_store_explicit(&n->dead, 0, memory_order_relaxed);
	return n;
}

void sm__node_give_back(struct sm_maple_pool *pool, enum sm__node_kind kind, void *node)
{
	sm_cache_free(kind == SM__NODE_LEAF ? pool->leaf : pool->inner, node);
}

static void free_leaf(struct rcu_head *head)
{
	struct deferred_leaf *d = sm__container_of(head, struct deferred_leaf, deferred.rcu);

	sm_cache_free(d->deferred.cache, d);
}

static void free_inner(struct rcu_head *head)
{
	struct deferred_inner *d = sm__container_of(head, struct deferred_inner, deferred.rcu);

	sm_cache_free(d->deferred.cache, d);
}

void sm__leaf_retire(struct sm_maple_pool *pool, struct sm__leaf *leaf)
{
	struct deferred_leaf *d;

	sm__delay();
	/* Release: pairs with sm__leaf_dead; what replaced the leaf was published before. */
	atomic_store_explicit(&leaf->dead, 1, memory_order_release);
	if (sm__likely(pool->node_free == SM_MAPLE_FREE_SHEAF)) {
		sm_cache_free_rcu(pool->leaf, leaf);
	} else if (pool->node_free == SM_MAPLE_FREE_NOW) {
		sm_cache_free(pool->leaf, leaf);
	} else {
		d = sm__container_of(leaf, struct deferred_leaf, leaf);
		d->deferred.cache = pool->leaf;
		sm__call_rcu(&d->deferred.rcu, free_leaf);
	}
}

void sm__inner_retire(struct sm_maple_pool *pool, struct sm__inner *inner)
{
	struct deferred_inner *d;

	sm__delay();
	/* Release: pairs with sm__inner_dead. */
	atomic_store_explicit(&inner->dead, 1, memory_order_release);
	if (sm__likely(pool->node_free == SM_MAPLE_FREE_SHEAF)) {
		sm_cache_free_rcu(pool->inner, inner);
	} else if (pool->node_free == SM_MAPLE_FREE_NOW) {
		sm_cache_free(pool->inner, inner);
	} else {
		d = sm__container_of(inner, struct deferred_inner, inner);
		d->deferred.cache = pool->inner;
		sm__call_rcu(&d->deferred.rcu, free_inner);
	}
}

void sm__subtree_retire(struct sm_maple_pool *pool, void *node, unsigned int level)
{
	struct sm__inner *inner = node;
	unsigned int n;

	if (!level) {
		sm__leaf_retire(pool, node);
		return;
	}
	n = inner->n;
	for (unsigned int i = 0; i < n; i++)
		sm__subtree_retire(pool, sm__inner_child(inner, i), level - 1);
	sm__inner_retire(pool, inner);
}
