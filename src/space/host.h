/* SPDX-License-Identifier: MIT */
/*
 * host.h - inside of a host: limits, the commit charge, and the object caches its spaces share.
 *
 * I1 committed is the sum of the charges of all its spaces and shared anonymous files.
 * I2 A cache is made once, on first use, and lives as long as the host.
 */
#ifndef SM_SPACE_HOST_H
#define SM_SPACE_HOST_H

#include "base/base.h"
#include "samara/cache.h"
#include "samara/design.h"
#include "samara/host.h"
#include "samara/maple.h"

#include <pthread.h>
#include <stdatomic.h>

struct sm__frames; /* of the memory room */

/* Object caches that differ by design; the layer is the second index. */
enum sm__host_cache {
	SM__CACHE_VMA,
	SM__CACHE_VMA_TYPESAFE,
	SM__CACHE_VMA_LOCK,
	SM__CACHE_SHOWN,
	SM__CACHES,
};

struct sm_host {
	/* fixed after creation */
	struct sm_host_options o;
	unsigned page_shift;

	_Atomic int64_t committed; /* pages; relaxed: a sum, orders nothing */
	_Atomic uint64_t spaces;
	struct sm__list all;  /* every space; under lock, see spaces.h */
	_Atomic bool merging; /* a merge pass is under way (ksm.c) */
	struct sm__list link; /* of all hosts of the process, hostfork.c */

	pthread_mutex_t lock;				  /* guards the making of what follows */
	_Atomic(struct sm_cache *) caches[SM__CACHES][2]; /* published with release */
	_Atomic(struct sm_maple_pool *) nodes[2][2];	  /* by node_free and layer, likewise */
	void *memory_state; /* of the memory room: pool and page cache; under lock until made */
	void (*memory_destroy)(struct sm_host *host);
	void (*memory_figures)(struct sm_host *host, struct sm_host_stats *out);
};

/* The cache, made on first use. NULL: no memory. layer: enum sm_cache_layer. */
struct sm_cache *sm__host_cache(struct sm_host *h, enum sm__host_cache which,
				enum sm_cache_layer layer);

/*
 * The pool of maple nodes for this way of freeing and this layer, made on first use. NULL: no
 * memory.
 */
struct sm_maple_pool *sm__host_nodes(struct sm_host *h, enum sm_design_node_free node_free,
				     enum sm_design_layer layer);

/*
 * Takes or gives back pages of commit. Take may refuse: total_vm is that of the asking space.
 * Return: 0 or -ENOMEM.
 */
int sm__host_charge(struct sm_host *h, uint64_t pages, uint64_t total_vm, bool admin);
void sm__host_uncharge(struct sm_host *h, uint64_t pages);

/* hostfork.c: the hosts a fork of the process holds still. */
void sm__host_enlist(struct sm_host *h);
void sm__host_delist(struct sm_host *h);

#endif
