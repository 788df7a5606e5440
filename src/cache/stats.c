/* SPDX-License-Identifier: MIT */
/* stats.c - counters, the state of a cache, and the check of its books (I1 of internal.h). */
#include "cache/internal.h"

#include <stdio.h>
#include <string.h>

/* What lies in slots and barns now. */
struct cached {
	uint64_t objects, full, empty;
};

static void add_sheaf(struct cached *cached, const struct sm_sheaf *s)
{
	if (s)
		cached->objects += sm__sheaf_size(s);
}

static struct cached count_cached(struct sm_cache *c)
{
	struct cached cached = { 0 };

	sm__slot_lock_all(c);
	for (unsigned int i = 0; i < c->cpus; i++) {
		struct sm__slot *slot = &c->slots[i];

		add_sheaf(&cached, slot->saved);
		add_sheaf(&cached, slot->spare);
		add_sheaf(&cached, atomic_load_explicit(&slot->rcu_free, memory_order_relaxed));
	}
	for (unsigned int n = 0; n < c->nodes; n++) {
		struct sm__barn *barn = &c->barns[n];

		sm__spin_lock(&barn->lock);
		for (struct sm_sheaf *s = barn->full; s; s = s->next, cached.full++)
			add_sheaf(&cached, s);
		for (struct sm_sheaf *s = barn->empty; s; s = s->next, cached.empty++)
			add_sheaf(&cached, s);
		sm__spin_unlock(&barn->lock);
	}
	sm__slot_unlock_all(c);
	return cached;
}

static void sum_counters(struct sm_cache *c, struct sm_cache_stats *out)
{
	for (unsigned int i = 0; i < c->cpus; i++) {
#define ADD(name, what) \
	out->name +=    \
		atomic_load_explicit(&c->counters[i].n[SM__COUNT_##name], memory_order_relaxed);
		SM_CACHE_COUNTERS(ADD)
#undef ADD
		out->alloc_fastpath +=
			atomic_load_explicit(&c->slots[i].nr_alloc, memory_order_relaxed);
		out->free_fastpath +=
			atomic_load_explicit(&c->slots[i].nr_free, memory_order_relaxed);
	}
	out->slab_alloc = atomic_load_explicit(&c->objects.nr_slab_alloc, memory_order_relaxed);
	out->slab_free = atomic_load_explicit(&c->objects.nr_slab_free, memory_order_relaxed);
}

void sm_cache_stats(struct sm_cache *c, struct sm_cache_stats *out)
{
	struct cached cached = count_cached(c); /* also settles the counts in the mains */
	struct sm__slab_count count = sm__slab_count(&c->objects);
	struct sm__slab_count sheaves = sm__slab_count(&c->sheaves);

	memset(out, 0, sizeof(*out));
	memcpy(out->name, c->name, sizeof(out->name));
	out->object_size = c->options.size;
	out->slot_size = c->objects.slot;
	out->capacity = c->capacity;
	out->barn_full = c->barns_absent ? 0 : c->barns[0].max_full;
	out->barn_empty = c->barns_absent ? 0 : c->barns[0].max_empty;
	out->nodes = c->nodes;
	out->objects_per_slab = c->objects.objects;
	out->slab_size = (size_t)1 << c->objects.slab_shift;
	out->rseq = c->rseq;
	sum_counters(c, out);
	out->slabs = count.slabs;
	out->objects_taken = count.taken;
	out->objects_cached = cached.objects;
	out->sheaves_full = cached.full;
	out->sheaves_empty = cached.empty;
	out->rcu_in_flight = atomic_load_explicit(&c->rcu_in_flight, memory_order_relaxed) +
			     atomic_load_explicit(&c->objects.nr_deferred, memory_order_relaxed);
	out->bytes_reserved = count.reserved + sheaves.reserved;
	out->bytes_committed = count.committed + sheaves.committed;
}

static bool complain(char *why, size_t size, const char *what, uint64_t a, uint64_t b)
{
	snprintf(why, size, "%s: %llu != %llu", what, (unsigned long long)a, (unsigned long long)b);
	return false;
}

bool sm__cache_is_valid(struct sm_cache *c, uint64_t outside, char *why, size_t size)
{
	struct cached cached = count_cached(c);
	struct sm__slab_count count = sm__slab_count(&c->objects);
	uint64_t flying = atomic_load_explicit(&c->rcu_in_flight, memory_order_acquire) +
			  atomic_load_explicit(&c->objects.nr_deferred, memory_order_acquire);
	uint64_t sheaves = 0, made;

	if (count.taken != outside + cached.objects + flying)
		return complain(why, size, "objects outside the slabs, and where they are",
				count.taken, outside + cached.objects + flying);
	for (unsigned int i = 0; i < c->cpus; i++) {
		struct sm_sheaf *main =
			atomic_load_explicit(&c->slots[i].main, memory_order_relaxed);

		sheaves += main->capacity != 0;
		sheaves += c->slots[i].spare != NULL;
		sheaves +=
			atomic_load_explicit(&c->slots[i].rcu_free, memory_order_relaxed) != NULL;
	}
	/* Submitted and borrowed ones come on top; destroy sees whether any was lost. */
	made = sm__slab_count(&c->sheaves).taken;
	sheaves += cached.full + cached.empty;
	if (made < sheaves)
		return complain(why, size, "fewer sheaves made than there are", made, sheaves);
	return sm__slab_is_valid(&c->objects, why, size) &&
	       sm__slab_is_valid(&c->sheaves, why, size);
}
