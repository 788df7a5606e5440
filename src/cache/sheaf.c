/* SPDX-License-Identifier: MIT */
/* sheaf.c - making, filling, emptying sheaves; where one goes that nobody wants. */
#include "base/delay.h"
#include "base/inject.h"
#include "base/osmem.h"
#include "cache/internal.h"

_Thread_local unsigned int sm__cache_depth __attribute__((tls_model("initial-exec")));

const struct sm_sheaf sm__sheaf_locked = { .capacity = 0 };
const struct sm_sheaf sm__sheaf_none = { .capacity = 0 };

unsigned int sm__cache_node_here(const struct sm_cache *c)
{
	unsigned int cpu = sm__percpu_cpu();

	return c->slots[cpu < c->cpus ? cpu : 0].node;
}

struct sm_sheaf *sm__sheaf_new(struct sm_cache *c, bool may_wait)
{
	struct sm_sheaf *s;
	void *p;

	if (sm__inject_fail_below() || !sm__slab_alloc(&c->sheaves, 0, 1, &p, may_wait))
		return NULL;
	s = p;
	sm__sheaf_set_size(s, 0);
	s->capacity = c->capacity;
	s->base = 0;
	s->tag = 0;
	s->cache = c;
	s->node = 0;
	s->oversize = false;
	sm__count(c, SM__COUNT_sheaf_alloc, 1);
	return s;
}

void sm__sheaf_free(struct sm_cache *c, struct sm_sheaf *s)
{
	void *p = s;

	if (!s->capacity)
		return; /* SM__NO_SHEAF */
	sm__count(c, SM__COUNT_sheaf_free, 1);
	if (s->oversize)
		sm__os_unmap(s, s->bytes);
	else
		sm__slab_free(&c->sheaves, 1, &p);
}

void sm__sheaf_flush(struct sm_cache *c, struct sm_sheaf *s)
{
	uint32_t n = sm__sheaf_size(s);

	if (!n)
		return;
	sm__sheaf_set_size(s, 0);
	sm__slab_free(&c->objects, n, s->objects);
	sm__count(c, SM__COUNT_sheaf_flush, n);
}

bool sm__sheaf_refill(struct sm_cache *c, struct sm_sheaf *s, uint32_t n, unsigned int node,
		      bool may_wait)
{
	uint32_t size = sm__sheaf_size(s);
	size_t got =
		sm__slab_alloc(&c->objects, node, s->capacity - size, s->objects + size, may_wait);

	sm__sheaf_set_size(s, size + (uint32_t)got);
	if (got)
		sm__count(c, SM__COUNT_sheaf_refill, got);
	sm__delay();
	return size + got >= n;
}

void sm__cache_put_full(struct sm_cache *c, unsigned int node, struct sm_sheaf *s, bool may_wait)
{
	/* The limit is ignored: this is the undoing of a race, bounded by the number of CPUs. */
	if (!c->barns_absent && sm__barn_put_full(&c->barns[node], s, true, may_wait))
		return;
	sm__sheaf_flush(c, s);
	sm__sheaf_free(c, s);
}

void sm__cache_put_empty(struct sm_cache *c, unsigned int node, struct sm_sheaf *s, bool may_wait)
{
	if (!s->capacity)
		return;
	if (c->barns_absent || !sm__barn_put_empty(&c->barns[node], s, may_wait))
		sm__sheaf_free(c, s);
}
