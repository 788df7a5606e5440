/* SPDX-License-Identifier: MIT */
/* memory.c - makes and ends what the spaces of a host share. */
#include "memory/memory.h"
#include "memory/pagecache.h"
#include "base/inject.h"
#include "base/rcu.h"

#include <errno.h>
#include <stdlib.h>

int sm__memory_create(const struct sm__memory_options *o, struct sm__memory **out)
{
	struct sm__pool_options po = {
		.bytes = o->bytes,
		.page_shift = o->page_shift,
		.is_private = o->is_private,
	};
	struct sm__memory *m;
	int err;

	*out = NULL;
	if (sm__inject_fail())
		return -ENOMEM;
	m = malloc(sizeof(*m));
	if (!m)
		return -ENOMEM;
	err = sm__pool_create(&po, &m->pool);
	if (err) {
		free(m);
		return err;
	}
	sm__spin_init(&m->lock);
	for (unsigned i = 0; i < SM__PAGES_BUCKETS; i++)
		sm__list_init(&m->objects[i]);
	sm__rmap_init(m);
	atomic_init(&m->swap, NULL);
	sm__memory_enlist(m);
	*out = m;
	return 0;
}

uint64_t sm__memory_destroy(struct sm__memory *m)
{
	uint64_t lost;

	/* Tables and objects on their way through a grace period are frames of ours. */
	sm__rcu_barrier();
	sm__memory_delist(m);
	sm__swap_off(m);
	lost = sm__pool_destroy(m->pool);
	/* The zero page is the one frame that is always in use, and number 0 is not counted. */
	free(m);
	return lost;
}

bool sm__memory_reclaim(struct sm__memory *m)
{
	struct sm__pool_stats before, after;

	sm__pool_stats(m->pool, &before);
	sm__rcu_barrier();
	(void)sm__pages_shrink(m, 1024);
	sm__pool_stats(m->pool, &after);
	return after.in_use < before.in_use;
}
