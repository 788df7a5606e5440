/* SPDX-License-Identifier: MIT */
/*
 * cache.c - creation, shrinking and the end of a cache.
 *
 * One mapping holds the cache, its slots, barns, counters and the heads of its slab lists; sheaves and
 * slabs are made when they are first needed, so a cache that nobody uses costs a page or two.
 */
#include "base/inject.h"
#include "base/osmem.h"
#include "base/topology.h"
#include "cache/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
	OBJECT_CHUNK_SHIFT = 21, /* a huge page */
	SHEAF_CHUNK_SHIFT = 18,
	RCU_AGE_MS = 20,
};

static _Thread_local char error_text[128];

const char *sm_cache_error(void)
{
	return error_text;
}

static bool absurd(const char *text)
{
	snprintf(error_text, sizeof(error_text), "%s", text);
	errno = EINVAL;
	return true;
}

static bool options_are_absurd(const struct sm_cache_options *o)
{
	if (!o)
		return absurd("options: NULL");
	if (!o->size || o->size > SM_CACHE_SIZE_MAX)
		return absurd("size: not between 1 and 131072 bytes");
	if (o->align & (o->align - 1) || o->align > SM_CACHE_ALIGN_MAX)
		return absurd("align: not a power of two up to 4096");
	if (o->capacity > SM_CACHE_CAPACITY_MAX)
		return absurd("capacity: more than 4096 objects");
	if (o->barn_full > SM_CACHE_BARN_MAX)
		return absurd("barn_full: more than 65536 sheaves");
	if (o->barn_empty > SM_CACHE_BARN_MAX)
		return absurd("barn_empty: more than 65536 sheaves");
	if (o->rcu_age_ms > SM_CACHE_AGE_MAX)
		return absurd("rcu_age_ms: more than 3600000 ms");
	if (o->fake_nodes > SM_CACHE_FAKE_NODES_MAX)
		return absurd("fake_nodes: more than 64");
	if (o->layer != SM_CACHE_LAYER_SHEAF && o->layer != SM_CACHE_LAYER_SLAB)
		return absurd("layer: neither sheaf nor slab");
	return false;
}

/* Linux 7.0's steps, grown, as there, to what the sheaf's memory holds anyway: 9, 17, 33, 65. */
static uint32_t capacity_by_size(size_t slot)
{
	uint32_t least = slot >= 4096 ? 4 : slot >= 1024 ? 12 : slot >= 256 ? 26 : 60;
	size_t bytes = sizeof(struct sm_sheaf) + least * sizeof(void *);

	bytes = SM__ALIGN_UP(bytes, SM__CACHELINE);
	return (uint32_t)((bytes - sizeof(struct sm_sheaf)) / sizeof(void *));
}

/* As Linux 6.12's cpu_partial: so many objects, in slabs that are half full. */
static uint32_t cpu_partial_slabs(size_t slot, unsigned int per_slab)
{
	uint32_t objects = slot >= 4096 ? 6 : slot >= 1024 ? 24 : slot >= 256 ? 52 : 120;
	uint32_t slabs = (objects * 2 + per_slab - 1) / per_slab;

	return slabs < 2 ? 2 : slabs;
}

/*
 * Ten sheaves, as Linux, is a horizon of a few hundred objects that does not grow with the machine:
 * here four per CPU of the node, and at least what holds BARN_BYTES of objects, so that bursts of a
 * thousand small objects stay above the slabs; large objects are held to the ten.
 */
static uint32_t barn_limit(uint32_t asked, uint32_t cpus, size_t sheaf_bytes)
{
	enum { BARN_BYTES = 1 << 20, BARN_SHEAVES = 128, BARN_LEAST = 10 };
	size_t by_bytes = BARN_BYTES / sheaf_bytes;
	uint32_t limit = cpus * 4;

	if (asked)
		return asked;
	if (by_bytes > BARN_SHEAVES)
		by_bytes = BARN_SHEAVES;
	limit = limit > by_bytes ? limit : (uint32_t)by_bytes;
	return limit < BARN_LEAST ? BARN_LEAST : limit;
}

/* Where the pieces of the one mapping are, each on lines of its own. */
struct layout {
	size_t slots, barns, counters, object_nodes, sheaf_nodes, bytes;
};

static size_t place(size_t *end, size_t bytes)
{
	size_t at = *end;

	*end += SM__ALIGN_UP(bytes, 128);
	return at;
}

static struct layout plan_layout(uint32_t cpus, uint32_t nodes)
{
	struct layout l = { .bytes = SM__ALIGN_UP(sizeof(struct sm_cache), 128) };

	l.slots = place(&l.bytes, sizeof(struct sm__slot) * cpus);
	l.barns = place(&l.bytes, sizeof(struct sm__barn) * nodes);
	l.counters = place(&l.bytes, sizeof(struct sm__counters) * cpus);
	l.object_nodes = place(&l.bytes, sizeof(struct sm__slab_node) * nodes);
	l.sheaf_nodes = place(&l.bytes, sizeof(struct sm__slab_node));
	return l;
}

static void init_slabs(struct sm_cache *c, const struct sm_cache_options *o, const struct layout *l)
{
	size_t align = o->align ? o->align : 16;
	size_t slot = SM__ALIGN_UP(o->size, align);
	size_t sheaf;

	/* 16 bytes at least: more than 256 objects do not fit into a slab's bitmap. */
	slot = slot < 16 ? 16 : slot;
	sm__slab_class_init(&c->objects,
			    &(struct sm__slab_shape){ .slot = slot,
						      .chunk_shift = OBJECT_CHUNK_SHIFT,
						      .nodes = c->nodes,
						      .type_stable = o->type_stable,
						      .ctor = o->ctor },
			    (void *)((char *)c + l->object_nodes));
	if (c->layer_slab)
		c->capacity = c->objects.objects;
	else
		c->capacity = o->capacity ? o->capacity : capacity_by_size(slot);
	sheaf = sizeof(struct sm_sheaf) + c->capacity * sizeof(void *);
	sm__slab_class_init(&c->sheaves,
			    &(struct sm__slab_shape){ .slot = SM__ALIGN_UP(sheaf, SM__CACHELINE),
						      .chunk_shift = SHEAF_CHUNK_SHIFT,
						      .nodes = 1 },
			    (void *)((char *)c + l->sheaf_nodes));
	c->slab_mask = ~(((uintptr_t)1 << c->objects.slab_shift) - 1);
	c->cpu_partial = cpu_partial_slabs(slot, c->objects.objects);
}

static void init_slots(struct sm_cache *c, const struct sm_cache_options *o)
{
	size_t sheaf_bytes = c->capacity * c->objects.slot;

	for (uint32_t i = 0; i < c->cpus; i++) {
		struct sm__slot *slot = &c->slots[i];

		slot->node = o->fake_nodes ? i % o->fake_nodes : sm__cpu_node(i);
		sm__list_init(&slot->partial);
		atomic_store_explicit(&slot->main, SM__NO_SHEAF, memory_order_relaxed);
	}
	for (uint32_t n = 0; n < c->nodes; n++) {
		uint32_t cpus = 0;

		for (uint32_t i = 0; i < c->cpus; i++)
			cpus += c->slots[i].node == n;
		sm__barn_init(&c->barns[n], barn_limit(o->barn_full, cpus, sheaf_bytes),
			      barn_limit(o->barn_empty, cpus, sheaf_bytes));
	}
}

struct sm_cache *sm_cache_create(const struct sm_cache_options *o)
{
	struct sm_cache *c;
	uint32_t cpus, nodes;
	struct layout l;

	error_text[0] = '\0';
	if (options_are_absurd(o))
		return NULL;
	cpus = sm__cpu_count();
	nodes = o->fake_nodes ? o->fake_nodes : sm__node_count();
	l = plan_layout(cpus, nodes);
	c = sm__inject_fail() ? NULL : sm__os_map(l.bytes);
	if (!c) {
		snprintf(error_text, sizeof(error_text), "out of memory");
		errno = ENOMEM;
		return NULL;
	}
	c->map_bytes = l.bytes;
	c->slots = (void *)((char *)c + l.slots);
	c->barns = (void *)((char *)c + l.barns);
	c->counters = (void *)((char *)c + l.counters);
	c->cpus = cpus;
	c->nodes = nodes;
	c->nodes_matter = nodes > 1;
	c->options = *o;
	c->rseq = sm__percpu_mode() == SM__PERCPU_RSEQ;
	c->rseq_offset = sm__percpu_rseq_offset();
	c->layer_slab = o->layer == SM_CACHE_LAYER_SLAB;
	c->barns_absent = o->no_barn;
	c->pop_cpus = c->rseq ? cpus : 0;
	c->push_cpus = c->nodes_matter ? 0 : c->pop_cpus;
	c->rcu_sheaves = !o->no_rcu_sheaf && !c->layer_slab;
	c->rcu_age_ms = o->rcu_age_ms ? o->rcu_age_ms : RCU_AGE_MS;
	snprintf(c->name, sizeof(c->name), "%s", o->name ? o->name : "unnamed");
	init_slabs(c, o, &l);
	init_slots(c, o);
	sm__rcu_start();
	sm__cache_list_add(c);
	return c;
}

/* What was taken out of slots, to be flushed once they are released (I3). */
struct detached {
	struct sm_sheaf *sheaves; /* through next */
	struct sm__list slabs;	  /* layer=slab */
};

static void detach_sheaf(struct detached *detached, struct sm_sheaf *s)
{
	if (!s || !s->capacity)
		return;
	s->next = detached->sheaves;
	detached->sheaves = s;
}

/* Everything of a held slot; rcu_free goes to a grace period. */
static void detach_slot(struct sm_cache *c, struct sm__slot *slot, struct detached *detached)
{
	sm__rcu_sheaf_submit(c, slot);
	detach_sheaf(detached, slot->spare);
	slot->spare = NULL;
	detach_sheaf(detached, slot->saved);
	slot->saved = SM__NO_SHEAF;
	while (slot->nr_partial) {
		struct sm__list *slab = slot->partial.next;

		sm__list_del(slab);
		sm__list_add(&detached->slabs, slab);
		slot->nr_partial--;
	}
}

static void flush_detached(struct sm_cache *c, struct detached *detached)
{
	struct sm__slab *slab;
	struct sm_sheaf *s, *next;

	for (s = detached->sheaves; s; s = next) {
		next = s->next;
		sm__sheaf_flush(c, s);
		if (s->tag)
			sm__slab_thaw(&c->objects, sm__slab_of(&c->objects, (void *)s->tag));
		sm__sheaf_free(c, s);
	}
	sm__list_for_each_safe (slab, &detached->slabs, link) {
		sm__list_del(&slab->link);
		sm__slab_thaw(&c->objects, slab);
	}
}

static void flush_barn(struct sm_cache *c, struct sm__barn *barn)
{
	struct sm_sheaf *chain[2], *next;

	sm__barn_empty_out(barn, &chain[0], &chain[1]);
	for (int i = 0; i < 2; i++) {
		for (struct sm_sheaf *s = chain[i]; s; s = next) {
			next = s->next;
			sm__sheaf_flush(c, s);
			sm__sheaf_free(c, s);
		}
	}
}

/* Must succeed: it waits for whoever holds a slot or a barn. */
static void flush_all(struct sm_cache *c)
{
	struct detached detached = { .sheaves = NULL };

	sm__list_init(&detached.slabs);
	sm__cache_enter();
	sm__slot_lock_all(c);
	for (uint32_t i = 0; i < c->cpus; i++)
		detach_slot(c, &c->slots[i], &detached);
	sm__slot_unlock_all(c);
	flush_detached(c, &detached);
	for (uint32_t n = 0; n < c->nodes; n++)
		flush_barn(c, &c->barns[n]);
	sm__cache_leave();
}

void sm_cache_shrink(struct sm_cache *c)
{
	flush_all(c);
	sm__slab_shrink(&c->objects);
	sm__slab_shrink(&c->sheaves);
}

int sm_cache_destroy(struct sm_cache *c)
{
	if (!c)
		return 0;
	/* off the list first: the worker's age limit must not meet a cache that goes */
	sm__cache_list_del(c);
	sm_cache_barrier(c);
	flush_all(c);
	/* what others freed through RCU between the two, though nobody should */
	while (atomic_load_explicit(&c->rcu_in_flight, memory_order_acquire))
		sm__rcu_barrier();
	for (uint32_t n = 0; n < c->nodes; n++)
		flush_barn(c, &c->barns[n]);
	/* A sheaf that is neither in a slot nor in a barn now is borrowed. */
	if (sm__slab_count(&c->objects).taken || sm__slab_count(&c->sheaves).taken ||
	    atomic_load_explicit(&c->oversize, memory_order_relaxed)) {
		sm__cache_list_add(c);
		return -EBUSY;
	}
	sm__slab_class_fini(&c->objects);
	sm__slab_class_fini(&c->sheaves);
	sm__os_unmap(c, c->map_bytes);
	return 0;
}
