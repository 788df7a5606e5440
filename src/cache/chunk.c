/* SPDX-License-Identifier: MIT */
/*
 * chunk.c - the shape of a class of slabs, its chunks of memory, and what can be counted and checked
 * in them.
 *
 * A chunk stays mapped until its class ends: a thread that has set the last bit of a slab may still
 * look at the slab's state, whatever happens to the slab meanwhile. What goes back to the system is
 * the memory of slabs.
 */
#include "base/osmem.h"
#include "cache/slab.h"

#include <stdio.h>

/*
 * At least as the kernel's min_partial, log2(slot) / 2 within 5 and 10; and up to KEEP_BYTES of slabs, as a
 * page that goes back here costs a system call and a fault to come again, not a list operation.
 */
static unsigned int empty_slabs_to_keep(size_t slot, unsigned int slab_shift)
{
	enum { KEEP_BYTES = 512 << 10 };
	unsigned int half = (63 - (unsigned int)__builtin_clzll(slot)) / 2;
	unsigned int least = half < 5 ? 5 : half > 10 ? 10 : half;
	unsigned int by_bytes = KEEP_BYTES >> slab_shift;

	return by_bytes > least ? by_bytes : least;
}

/*
 * 64 objects fill a bitmap word and make refills long enough; beyond 64 KiB a slab holds back too
 * much memory, unless fewer than four objects fitted.
 */
static unsigned int choose_slab_shift(size_t slot)
{
	unsigned int shift = 12;

	while (((size_t)1 << shift) / slot < 64 && shift < 16)
		shift++;
	while (((size_t)1 << shift) / slot < 4)
		shift++;
	return shift;
}

void sm__slab_class_init(struct sm__slab_class *class, const struct sm__slab_shape *shape,
			 struct sm__slab_node *nodes)
{
	unsigned int shift = choose_slab_shift(shape->slot);
	size_t objects = ((size_t)1 << shift) / shape->slot;
	size_t head;

	if (objects > SM__SLAB_OBJECTS_MAX)
		objects = SM__SLAB_OBJECTS_MAX;
	class->slot = shape->slot;
	class->reciprocal = (uint32_t)((((uint64_t)1 << 32) + shape->slot - 1) / shape->slot);
	class->objects = (unsigned int)objects;
	class->words = (class->objects + 63) / 64;
	class->slab_shift = shift;
	class->chunk_shift = shape->chunk_shift;
	class->slabs = 1u << (shape->chunk_shift - shift);
	head = sizeof(struct sm__chunk) + class->slabs * sizeof(struct sm__slab);
	class->first = (unsigned int)((head + ((size_t)1 << shift) - 1) >> shift);
	class->nodes = shape->nodes;
	class->keep_empty = empty_slabs_to_keep(shape->slot, shift);
	class->type_stable = shape->type_stable;
	class->ctor = shape->ctor;
	class->node = nodes;
	for (unsigned int n = 0; n < shape->nodes; n++) {
		sm__spin_init(&nodes[n].lock);
		sm__list_init(&nodes[n].partial);
		sm__list_init(&nodes[n].empty);
		sm__list_init(&nodes[n].chunks);
	}
}

#if SM_VALIDATE
/*
 * Which stretches of 2 MiB are chunks, so that a foreign pointer is recognised without being
 * followed: a byte each, for 2^47 bytes of addresses; only the pages that are used exist.
 */
enum { CHUNK_MAP_SHIFT = 21, CHUNK_MAP_BITS = 47 - CHUNK_MAP_SHIFT };
static _Atomic(_Atomic uint8_t *) chunk_map;

static _Atomic uint8_t *chunk_map_entry(const void *p)
{
	uintptr_t at = (uintptr_t)p >> CHUNK_MAP_SHIFT;
	_Atomic uint8_t *map = atomic_load_explicit(&chunk_map, memory_order_acquire);

	return map && at < (uintptr_t)1 << CHUNK_MAP_BITS ? &map[at] : NULL;
}

static bool chunk_map_make(void)
{
	_Atomic uint8_t *none = NULL, *map;

	if (atomic_load_explicit(&chunk_map, memory_order_acquire))
		return true;
	map = sm__os_map((size_t)1 << CHUNK_MAP_BITS);
	if (!map)
		return false;
	if (!atomic_compare_exchange_strong_explicit(&chunk_map, &none, map, memory_order_acq_rel,
						     memory_order_acquire))
		sm__os_unmap((void *)map, (size_t)1 << CHUNK_MAP_BITS);
	return true;
}

static void chunk_map_set(const struct sm__slab_class *class, struct sm__chunk *chunk, uint8_t v)
{
	if (class->chunk_shift >= CHUNK_MAP_SHIFT)
		atomic_store_explicit(chunk_map_entry(chunk), v, memory_order_release);
}
#else
static bool chunk_map_make(void)
{
	return true;
}

static void chunk_map_set(const struct sm__slab_class *class, struct sm__chunk *chunk, uint8_t v)
{
	(void)class;
	(void)chunk;
	(void)v;
}
#endif

/*
 * From the second chunk of a node on huge pages help more than they waste: the class has filled 2 MiB
 * already.
 */
struct sm__chunk *sm__chunk_make(struct sm__slab_class *class, unsigned int node, bool huge)
{
	size_t bytes = (size_t)1 << class->chunk_shift;
	struct sm__chunk *chunk;

	if (!chunk_map_make())
		return NULL;
	chunk = sm__os_map_aligned(bytes, bytes);
	if (!chunk)
		return NULL;
	if (huge && class->chunk_shift >= 21)
		sm__os_advise_huge(chunk, bytes);
	chunk->magic = SM__CHUNK_MAGIC;
	chunk->class = class;
	chunk->node = (uint16_t)node;
	sm__list_init(&chunk->link);
	for (unsigned int i = 0; i < SM__CHUNK_SLOT_WORDS * 64; i++) {
		if (i < class->first || i >= class->slabs)
			chunk->slot_used[i / 64] |= (uint64_t)1 << (i % 64);
	}
	chunk_map_set(class, chunk, 1);
	return chunk;
}

void sm__chunk_destroy(struct sm__slab_class *class, struct sm__chunk *chunk)
{
	chunk_map_set(class, chunk, 0);
#if SM_ASAN
	__asan_unpoison_memory_region(chunk, (size_t)1 << class->chunk_shift);
#endif
	sm__os_unmap(chunk, (size_t)1 << class->chunk_shift);
}

void sm__slab_class_fini(struct sm__slab_class *class)
{
	struct sm__chunk *chunk;

	/*
	 * acquire: pairs with the release of the last callback that touched a slab. Two barriers do (a
	 * callback may have queued one more); what is left then was left by threads that a fork lost.
	 */
	for (int i = 0; i < 2; i++) {
		if (atomic_load_explicit(&class->nr_releasing, memory_order_acquire) ||
		    atomic_load_explicit(&class->nr_deferred, memory_order_acquire))
			sm__rcu_barrier();
	}
	for (unsigned int n = 0; n < class->nodes; n++) {
		sm__list_for_each_safe (chunk, &class->node[n].chunks, link) {
			sm__list_del(&chunk->link);
			sm__chunk_destroy(class, chunk);
		}
		class->node[n].nr_chunks = 0;
	}
}

static bool slot_in_use(const struct sm__chunk *chunk, unsigned int i)
{
	return chunk->slot_used[i / 64] >> (i % 64) & 1;
}

static unsigned int free_objects(const struct sm__slab_class *class, struct sm__slab *slab)
{
	unsigned int n = 0;

	for (unsigned int w = 0; w < class->words; w++)
		n += (unsigned int)__builtin_popcountll(
			atomic_load_explicit(&slab->free[w], memory_order_acquire));
	return n;
}

void sm__slab_for_each(struct sm__slab_class *class, bool locked,
		       void (*fn)(struct sm__slab_class *, struct sm__slab *, void *), void *arg)
{
	struct sm__chunk *chunk;

	for (unsigned int n = 0; n < class->nodes; n++) {
		if (!locked)
			sm__spin_lock(&class->node[n].lock);
		sm__list_for_each_entry (chunk, &class->node[n].chunks, link) {
			for (unsigned int i = class->first; i < class->slabs; i++) {
				if (slot_in_use(chunk, i))
					fn(class, &chunk->slabs[i], arg);
			}
		}
		if (!locked)
			sm__spin_unlock(&class->node[n].lock);
	}
}

static void count_slab(struct sm__slab_class *class, struct sm__slab *slab, void *arg)
{
	struct sm__slab_count *count = arg;

	count->slabs++;
	count->taken += class->objects - free_objects(class, slab);
}

struct sm__slab_count sm__slab_count(struct sm__slab_class *class)
{
	struct sm__slab_count count = { 0 };
	uint64_t chunks = 0;

	sm__slab_for_each(class, false, count_slab, &count);
	for (unsigned int n = 0; n < class->nodes; n++) {
		sm__spin_lock(&class->node[n].lock);
		chunks += class->node[n].nr_chunks;
		sm__spin_unlock(&class->node[n].lock);
	}
	count.reserved = chunks << class->chunk_shift;
	count.committed = (count.slabs + chunks * class->first) << class->slab_shift;
	return count;
}

struct check {
	char *why;
	size_t size;
	bool ok;
	uint64_t partial, empty; /* slabs that say so */
};

static void complain(struct check *check, const struct sm__slab *slab, const char *what)
{
	if (check->ok)
		snprintf(check->why, check->size, "slab %p: %s", (const void *)slab, what);
	check->ok = false;
}

static void check_slab(struct sm__slab_class *class, struct sm__slab *slab, void *arg)
{
	struct check *check = arg;
	uint32_t state = atomic_load_explicit(&slab->state, memory_order_acquire);
	unsigned int n = free_objects(class, slab);

	for (unsigned int w = 0; w < class->words; w++) {
		uint64_t bits = atomic_load_explicit(&slab->free[w], memory_order_acquire);
		uint64_t deferred = atomic_load_explicit(&slab->pending[w], memory_order_acquire);
		unsigned int left = class->objects - w * 64;

		if (left < 64 && bits >> left)
			complain(check, slab, "a bit beyond the last object");
		if (bits & deferred)
			complain(check, slab, "an object is free and deferred (I5)");
	}
	if (state == SM__SLAB_FULL && n)
		complain(check, slab, "full with an object in it (I3)");
	if (state == SM__SLAB_EMPTY && n != class->objects)
		complain(check, slab, "empty with an object outside (I2)");
	check->partial += state == SM__SLAB_PARTIAL;
	check->empty += state == SM__SLAB_EMPTY;
}

bool sm__slab_is_valid(struct sm__slab_class *class, char *why, size_t size)
{
	struct check check = { .why = why, .size = size, .ok = true };
	uint64_t partial = 0, empty = 0;
	struct sm__slab *slab;

	sm__slab_for_each(class, false, check_slab, &check);
	for (unsigned int n = 0; n < class->nodes; n++) {
		uint64_t before = partial;

		sm__spin_lock(&class->node[n].lock);
		sm__list_for_each_entry (slab, &class->node[n].partial, link)
			partial++;
		sm__list_for_each_entry (slab, &class->node[n].empty, link)
			empty++;
		if (partial - before != class->node[n].nr_partial)
			complain(&check, NULL, "nr_partial is not the length of the list");
		sm__spin_unlock(&class->node[n].lock);
	}
	if (partial != check.partial || empty != check.empty)
		complain(&check, NULL, "a slab is on a list its state does not name (I2)");
	return check.ok;
}

#if SM_VALIDATE
/* The object's bit, or an abort that says what is wrong with the pointer. */
static struct sm__slab *find_object(struct sm__slab_class *class, const char *name, const void *p,
				    uint64_t *bit, unsigned int *word)
{
	_Atomic uint8_t *known = chunk_map_entry(p);
	struct sm__chunk *chunk = sm__chunk_of(class, p);
	unsigned int index = sm__object_index(class, p), i = sm__slab_index(class, p);
	uintptr_t offset = (uintptr_t)p & (((uintptr_t)1 << class->slab_shift) - 1);

	SM_ASSERT_MSG(known && atomic_load_explicit(known, memory_order_acquire),
		      "cache %s: %p is not memory of a cache (foreign pointer)", name, p);
	SM_ASSERT_MSG(chunk->magic == SM__CHUNK_MAGIC && chunk->class == class,
		      "cache %s: %p belongs to another cache", name, p);
	SM_ASSERT_MSG(i >= class->first && index < class->objects && index * class->slot == offset,
		      "cache %s: %p is not the start of an object", name, p);
	*word = index / 64;
	*bit = (uint64_t)1 << (index % 64);
	return &chunk->slabs[i];
}

void sm__slab_mark_held(struct sm__slab_class *class, const char *name, const void *p)
{
	uint64_t bit, old;
	unsigned int w;
	struct sm__slab *slab = find_object(class, name, p, &bit, &w);

	old = atomic_fetch_or_explicit(&slab->held[w], bit, memory_order_relaxed);
	SM_ASSERT_MSG(!(old & bit), "cache %s: %p handed out twice", name, p);
}

void sm__slab_mark_back(struct sm__slab_class *class, const char *name, const void *p)
{
	uint64_t bit, old;
	unsigned int w;
	struct sm__slab *slab = find_object(class, name, p, &bit, &w);

	old = atomic_fetch_and_explicit(&slab->held[w], ~bit, memory_order_relaxed);
	SM_ASSERT_MSG(old & bit, "cache %s: %p is free already (double free)", name, p);
}
#endif
