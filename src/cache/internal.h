/* SPDX-License-Identifier: MIT */
/* internal.h - what the files of src/cache share. */
#ifndef SM_CACHE_INTERNAL_H
#define SM_CACHE_INTERNAL_H

#include "cache/slab.h"

#include <samara/cache.h>

struct sm_sheaf {
	uint32_t size;
	uint32_t capacity;
	struct sm_cache *cache;
	size_t bytes;
	void *objects[];
};

struct sm_cache {
	struct sm__slab_class objects;
	struct sm__slab_node *nodes;
	unsigned int nr_nodes;
	unsigned int capacity;
	size_t map_bytes;
	struct sm_cache_options options;
	char name[32];
};

#endif
