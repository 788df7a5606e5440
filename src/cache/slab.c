/* SPDX-License-Identifier: MIT */
/*
 * slab.c - allocation from slabs and free into them; the invariants are in slab.h.
 *
 * Life of a slab:
 *
 *	            make            no bit left              first bit back
 *	   LOOSE ----------> PARTIAL ----------> FULL ----------------------> BACK
 *	     ^                ^ |  ^                                           |
 *	     |   give back    | |  +----------- next holder of the lock -------+
 *	     +------- EMPTY <-+ | freeze / thaw
 *	                        v
 *	                      FROZEN (layer=slab)
 *
 * Lock order: the node's lock is the innermost of the cache; nothing is mapped, discarded or constructed
 * under it.
 */
#include "cache/slab.h"
#include "base/delay.h"
#include "base/inject.h"
#include "base/osmem.h"

#include <string.h>

/* Bits of objects that exist in word w of a slab. */
static uint64_t word_mask(const struct sm__slab_class *class, unsigned int w)
{
	unsigned int left = class->objects - w * 64;

	return left >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << left) - 1;
}

static bool slab_is_empty(const struct sm__slab_class *class, struct sm__slab *slab)
{
	for (unsigned int w = 0; w < class->words; w++) {
		/* acquire: pairs with the OR of the last free, whose object is now ours to discard */
		if (atomic_load_explicit(&slab->free[w], memory_order_acquire) !=
		    word_mask(class, w))
			return false;
	}
	return true;
}

static bool slab_has_free(const struct sm__slab_class *class, struct sm__slab *slab)
{
	uint64_t any = 0;

	for (unsigned int w = 0; w < class->words; w++)
		any |= atomic_load_explicit(&slab->free[w], memory_order_seq_cst);
	return any != 0;
}

static void set_state(struct sm__slab *slab, enum sm__slab_state state)
{
	atomic_store_explicit(&slab->state, state, memory_order_seq_cst);
}

/* Moves up to n objects of the slab to out[]. The caller owns the slab's bits (I1). */
static size_t take_objects(const struct sm__slab_class *class, struct sm__slab *slab, size_t n,
			   void **out)
{
	char *base = sm__slab_memory(class, slab);
	size_t got = 0;

	for (unsigned int w = 0; w < class->words && got < n; w++) {
		uint64_t bits = atomic_load_explicit(&slab->free[w], memory_order_relaxed);
		uint64_t left = bits;
		size_t slot = class->slot;

		while (left && got < n) {
			out[got++] = base + (w * 64 + (unsigned int)__builtin_ctzll(left)) * slot;
			left &= left - 1;
		}
		/* acquire: pairs with the OR that freed them; bits set meanwhile stay set */
		if (bits != left)
			atomic_fetch_and_explicit(&slab->free[w], ~(bits ^ left),
						  memory_order_acq_rel);
	}
	return got;
}

static void back_push(struct sm__slab_node *node, struct sm__slab *slab)
{
	struct sm__slab *head = atomic_load_explicit(&node->back, memory_order_relaxed);

	do {
		slab->back_next = head;
		/* release: pairs with the acquire exchange in back_drain */
	} while (!atomic_compare_exchange_weak_explicit(
		&node->back, &head, slab, memory_order_release, memory_order_relaxed));
}

static void full_to_back(struct sm__slab_class *class, struct sm__slab *slab)
{
	uint32_t full = SM__SLAB_FULL;

	if (atomic_compare_exchange_strong_explicit(&slab->state, &full, SM__SLAB_BACK,
						    memory_order_seq_cst, memory_order_seq_cst))
		back_push(&class->node[slab->node], slab);
}

/* Says FULL, or BACK where an object came back meanwhile (I3). */
static void make_full(struct sm__slab_class *class, struct sm__slab *slab)
{
	set_state(slab, SM__SLAB_FULL);
	sm__delay();
	if (slab_has_free(class, slab))
		full_to_back(class, slab);
}

/* Node lock held. */
static void list_partial(struct sm__slab_node *node, struct sm__slab *slab)
{
	sm__list_add(&node->partial, &slab->link);
	node->nr_partial++;
	set_state(slab, SM__SLAB_PARTIAL);
}

static void unlist_partial(struct sm__slab_node *node, struct sm__slab *slab)
{
	sm__list_del(&slab->link);
	node->nr_partial--;
}

static void back_drain(struct sm__slab_node *node)
{
	struct sm__slab *slab, *next;

	if (!atomic_load_explicit(&node->back, memory_order_relaxed))
		return;
	/* acquire: pairs with the release of the pushers */
	slab = atomic_exchange_explicit(&node->back, NULL, memory_order_acquire);
	for (; slab; slab = next) {
		next = slab->back_next;
		list_partial(node, slab);
	}
}

static bool node_lock(struct sm__slab_node *node, bool may_wait)
{
	if (may_wait)
		sm__spin_lock(&node->lock);
	else if (!sm__spin_trylock(&node->lock))
		return false;
	back_drain(node);
	return true;
}

/* The next slab with objects, off the lists and LOOSE; NULL. Node lock held. */
static struct sm__slab *next_slab(struct sm__slab_node *node)
{
	struct sm__slab *slab;

	if (!sm__list_empty(&node->partial)) {
		slab = sm__list_first(&node->partial, struct sm__slab, link);
		unlist_partial(node, slab);
	} else if (!sm__list_empty(&node->empty)) {
		slab = sm__list_first(&node->empty, struct sm__slab, link);
		sm__list_del(&slab->link);
		node->nr_empty--;
	} else {
		return NULL;
	}
	set_state(slab, SM__SLAB_LOOSE);
	return slab;
}

static size_t alloc_from_node(struct sm__slab_class *class, struct sm__slab_node *node, size_t n,
			      void **out)
{
	struct sm__slab *slab;
	size_t got = 0;

	while (got < n && (slab = next_slab(node))) {
		got += take_objects(class, slab, n - got, out + got);
		if (slab_has_free(class, slab))
			list_partial(node, slab);
		else
			make_full(class, slab);
	}
	return got;
}

/* Reserves the place of a slab in a chunk of the node that has one. Node lock held. */
static struct sm__slab *reserve_slot(struct sm__slab_class *class, struct sm__slab_node *node)
{
	struct sm__chunk *chunk;
	struct sm__slab *slab;

	sm__list_for_each_entry (chunk, &node->chunks, link) {
		if (chunk->used == class->slabs - class->first)
			continue;
		for (unsigned int w = 0; w < SM__CHUNK_SLOT_WORDS; w++) {
			uint64_t open = ~chunk->slot_used[w];
			unsigned int bit;

			if (!open)
				continue;
			bit = (unsigned int)__builtin_ctzll(open);
			chunk->slot_used[w] |= (uint64_t)1 << bit;
			chunk->used++;
			slab = &chunk->slabs[w * 64 + bit];
			slab->index = (uint16_t)(w * 64 + bit);
			slab->node = chunk->node;
			slab->class = class;
			return slab;
		}
	}
	return NULL;
}

static void unpoison(const void *p, size_t bytes)
{
	(void)p;
	(void)bytes;
#if SM_ASAN
	__asan_unpoison_memory_region(p, bytes);
#endif
}

/* A fresh slab, LOOSE, all its objects in it; NULL on exhaustion or when the lock is busy. */
static struct sm__slab *make_slab(struct sm__slab_class *class, unsigned int n, bool may_wait)
{
	struct sm__slab_node *node = &class->node[n];
	struct sm__slab *slab;
	bool huge;

	if (sm__inject_fail_below() || !node_lock(node, may_wait))
		return NULL;
	slab = reserve_slot(class, node);
	huge = node->nr_chunks > 0;
	sm__spin_unlock(&node->lock);
	if (!slab) {
		struct sm__chunk *chunk = sm__chunk_make(class, n, huge);

		if (!chunk)
			return NULL;
		if (!node_lock(node, may_wait)) {
			sm__chunk_destroy(class, chunk);
			return NULL;
		}
		sm__list_add(&node->chunks, &chunk->link);
		node->nr_chunks++;
		slab = reserve_slot(class, node);
		sm__spin_unlock(&node->lock);
	}
	unpoison(sm__slab_memory(class, slab), (size_t)1 << class->slab_shift);
	if (class->ctor) {
		char *object = sm__slab_memory(class, slab);

		for (unsigned int i = 0; i < class->objects; i++, object += class->slot)
			class->ctor(object);
	}
	for (unsigned int w = 0; w < class->words; w++)
		atomic_store_explicit(&slab->free[w], word_mask(class, w), memory_order_release);
	atomic_fetch_add_explicit(&class->nr_slab_alloc, 1, memory_order_relaxed);
	return slab;
}

/* The memory goes back; the place in the chunk can be used again. The slab is LOOSE and empty. */
static void give_back(struct sm__slab_class *class, struct sm__slab *slab)
{
	struct sm__chunk *chunk = sm__chunk_of(class, slab);
	struct sm__slab_node *node = &class->node[slab->node];

	sm__os_discard(sm__slab_memory(class, slab), (size_t)1 << class->slab_shift);
	atomic_fetch_add_explicit(&class->nr_slab_free, 1, memory_order_relaxed);
	sm__spin_lock(&node->lock);
	/* bits and place go together: who counts sees a slab that is all there, or none */
	for (unsigned int w = 0; w < class->words; w++)
		atomic_store_explicit(&slab->free[w], 0, memory_order_relaxed);
	chunk->slot_used[slab->index / 64] &= ~((uint64_t)1 << (slab->index % 64));
	chunk->used--;
	sm__spin_unlock(&node->lock);
}

static void give_back_after_readers(struct rcu_head *head)
{
	struct sm__slab *slab = sm__container_of(head, struct sm__slab, rcu);
	struct sm__slab_class *class = slab->class;

	give_back(class, slab);
	/* release: the last touch; sm__slab_class_fini waits for it */
	atomic_fetch_sub_explicit(&class->nr_releasing, 1, memory_order_release);
}

static void release(struct sm__slab_class *class, struct sm__slab *slab)
{
	if (!class->type_stable) {
		give_back(class, slab);
		return;
	}
	atomic_fetch_add_explicit(&class->nr_releasing, 1, memory_order_relaxed);
	sm__call_rcu(&slab->rcu, give_back_after_readers);
}

size_t sm__slab_alloc(struct sm__slab_class *class, unsigned int n, size_t want, void **out,
		      bool may_wait)
{
	struct sm__slab_node *node = &class->node[n];
	size_t got = 0;

	if (node_lock(node, may_wait)) {
		got = alloc_from_node(class, node, want, out);
		sm__spin_unlock(&node->lock);
	}
	while (got < want) {
		struct sm__slab *slab = make_slab(class, n, may_wait);

		if (!slab)
			break;
		got += take_objects(class, slab, want - got, out + got);
		if (!slab_has_free(class, slab)) {
			make_full(class, slab);
		} else if (node_lock(node, may_wait)) {
			list_partial(node, slab);
			sm__spin_unlock(&node->lock);
		} else {
			/* busy, and we may not wait: the stack takes it as if it had been full */
			set_state(slab, SM__SLAB_BACK);
			back_push(node, slab);
		}
	}
	/* Short of memory: what other nodes have lying about is better than nothing. */
	for (unsigned int i = 1; got < want && i < class->nodes; i++) {
		struct sm__slab_node *other = &class->node[(n + i) % class->nodes];

		if (!node_lock(other, false))
			continue;
		got += alloc_from_node(class, other, want - got, out + got);
		sm__spin_unlock(&other->lock);
	}
	return got;
}

/* A slab looked empty to the thread that freed its last object: keep it, or give the oldest back. */
static void retire_empty(struct sm__slab_class *class, struct sm__slab *slab)
{
	struct sm__slab_node *node = &class->node[slab->node];
	struct sm__slab *victim = NULL;

	if (!node_lock(node, false))
		return; /* the next free that empties a slab, or shrink, finds it */
	if (atomic_load_explicit(&slab->state, memory_order_relaxed) == SM__SLAB_PARTIAL &&
	    slab_is_empty(class, slab)) {
		unlist_partial(node, slab);
		sm__list_add(&node->empty, &slab->link);
		node->nr_empty++;
		set_state(slab, SM__SLAB_EMPTY);
	}
	if (node->nr_empty > class->keep_empty) {
		victim = sm__list_entry(node->empty.prev, struct sm__slab, link);
		sm__list_del(&victim->link);
		node->nr_empty--;
		set_state(victim, SM__SLAB_LOOSE);
	}
	sm__spin_unlock(&node->lock);
	if (victim)
		release(class, victim);
}

static void free_bits(struct sm__slab_class *class, struct sm__slab *slab, unsigned int w,
		      uint64_t bits)
{
	/* seq_cst: I3; and what the user wrote happens before the next user's acquire */
	uint64_t old = atomic_fetch_or_explicit(&slab->free[w], bits, memory_order_seq_cst);

	SM_ASSERT_MSG(!(old & bits), "objects %#llx of word %u freed twice in slab %p",
		      (unsigned long long)(old & bits), w, (void *)slab);
	sm__delay();
	if (sm__unlikely(atomic_load_explicit(&slab->state, memory_order_seq_cst) == SM__SLAB_FULL))
		full_to_back(class, slab);
	if (sm__unlikely((old | bits) == word_mask(class, w)) && slab_is_empty(class, slab))
		retire_empty(class, slab);
}

struct sm__slab *sm__slab_free_claim(struct sm__slab_class *class, void *object)
{
	struct sm__slab *slab = sm__slab_of(class, object);
	unsigned int index = sm__object_index(class, object);
	uint32_t full = SM__SLAB_FULL;

	/* Claimed first: then it is ours from the moment the object is in it. */
	if (atomic_load_explicit(&slab->state, memory_order_relaxed) == SM__SLAB_FULL &&
	    atomic_compare_exchange_strong_explicit(&slab->state, &full, SM__SLAB_FROZEN,
						    memory_order_seq_cst, memory_order_relaxed)) {
		free_bits(class, slab, index / 64, (uint64_t)1 << (index % 64));
		return slab;
	}
	free_bits(class, slab, index / 64, (uint64_t)1 << (index % 64));
	return NULL;
}

void sm__slab_free(struct sm__slab_class *class, size_t n, void *const *objects)
{
	size_t i = 0;

	while (i < n) {
		struct sm__slab *slab = sm__slab_of(class, objects[i]);
		unsigned int index = sm__object_index(class, objects[i]);
		unsigned int w = index / 64;
		uint64_t bits = (uint64_t)1 << (index % 64);

		/* Neighbours of one slab come in runs: one atomic for a run. */
		for (i++; i < n && sm__slab_of(class, objects[i]) == slab; i++) {
			index = sm__object_index(class, objects[i]);
			if (index / 64 != w || (bits & (uint64_t)1 << (index % 64)))
				break;
			bits |= (uint64_t)1 << (index % 64);
		}
		free_bits(class, slab, w, bits);
	}
}

/* I5. True when something waits now. The caller owns waiting[] (it holds rcu_queued). */
static bool pending_to_waiting(const struct sm__slab_class *class, struct sm__slab *slab)
{
	uint64_t any = 0;

	for (unsigned int w = 0; w < class->words; w++) {
		/* acquire: pairs with the OR of sm__slab_free_deferred */
		slab->waiting[w] =
			atomic_exchange_explicit(&slab->pending[w], 0, memory_order_acq_rel);
		any |= slab->waiting[w];
	}
	return any != 0;
}

static void deferred_callback(struct rcu_head *head);

/* Somebody set pending bits: whoever wins rcu_queued sees to it that they are freed. */
static void queue_deferred(struct sm__slab_class *class, struct sm__slab *slab)
{
	while (!atomic_exchange_explicit(&slab->rcu_queued, 1, memory_order_seq_cst)) {
		if (pending_to_waiting(class, slab)) {
			sm__call_rcu(&slab->rcu, deferred_callback);
			return;
		}
		/* another one took our bits along; leave, unless new ones came before we said so */
		atomic_store_explicit(&slab->rcu_queued, 0, memory_order_seq_cst);
		uint64_t any = 0;

		for (unsigned int w = 0; w < class->words; w++)
			any |= atomic_load_explicit(&slab->pending[w], memory_order_seq_cst);
		if (!any)
			return;
	}
}

/* Under the address sanitizer nobody may look at them any more. */
static void poison_objects(const struct sm__slab_class *class, struct sm__slab *slab,
			   unsigned int w, uint64_t bits)
{
	(void)class;
	(void)slab;
	(void)w;
	(void)bits;
#if SM_ASAN
	char *base = (char *)sm__slab_memory(class, slab) + w * 64 * class->slot;

	for (; bits && !class->type_stable; bits &= bits - 1)
		__asan_poison_memory_region(base + (size_t)__builtin_ctzll(bits) * class->slot,
					    class->slot);
#endif
}

static void deferred_callback(struct rcu_head *head)
{
	struct sm__slab *slab = sm__container_of(head, struct sm__slab, rcu);
	struct sm__slab_class *class = slab->class;
	uint64_t done[SM__SLAB_WORDS];
	uint64_t count = 0;

	memcpy(done, slab->waiting, sizeof(done));
	memset(slab->waiting, 0, sizeof(slab->waiting));
	/* Objects still have their bits cleared, so the slab cannot go while we go on with it. */
	atomic_store_explicit(&slab->rcu_queued, 0, memory_order_seq_cst);
	queue_deferred(class, slab);
	for (unsigned int w = 0; w < class->words; w++) {
		count += (unsigned int)__builtin_popcountll(done[w]);
		poison_objects(class, slab, w, done[w]);
		if (done[w])
			free_bits(class, slab, w, done[w]);
	}
	/* release: the last touch; pairs with the acquire in barrier and destroy */
	atomic_fetch_sub_explicit(&class->nr_deferred, count, memory_order_release);
}

void sm__slab_free_deferred(struct sm__slab_class *class, void *object)
{
	struct sm__slab *slab = sm__slab_of(class, object);
	unsigned int index = sm__object_index(class, object);

	atomic_fetch_add_explicit(&class->nr_deferred, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&class->nr_deferred_all, 1, memory_order_relaxed);
	atomic_fetch_or_explicit(&slab->pending[index / 64], (uint64_t)1 << (index % 64),
				 memory_order_seq_cst);
	if (!atomic_load_explicit(&slab->rcu_queued, memory_order_seq_cst))
		queue_deferred(class, slab);
}

enum { QUEUED = 1, SEEN_QUEUED = 2 }; /* rcu_queued; SEEN only inside the repair */

static void mark_seen(struct rcu_head *head)
{
	if (head->func == deferred_callback)
		atomic_store_explicit(&sm__container_of(head, struct sm__slab, rcu)->rcu_queued,
				      SEEN_QUEUED, memory_order_relaxed);
}

void sm__slab_fork_see_queue(void)
{
	sm__rcu_for_each_queued(mark_seen);
}

static void repair(struct sm__slab_class *class, struct sm__slab *slab, void *arg)
{
	uint64_t *deferred = arg;
	bool queued = atomic_load_explicit(&slab->rcu_queued, memory_order_relaxed) == SEEN_QUEUED;
	uint64_t lost = 0;

	for (unsigned int w = 0; w < class->words; w++) {
		if (!queued) /* its thread got no further than waiting[] */
			atomic_fetch_or_explicit(&slab->pending[w], slab->waiting[w],
						 memory_order_relaxed);
		lost |= atomic_load_explicit(&slab->pending[w], memory_order_relaxed);
		*deferred += (unsigned int)__builtin_popcountll(
			atomic_load_explicit(&slab->pending[w], memory_order_relaxed) |
			slab->waiting[w]);
		if (!queued)
			slab->waiting[w] = 0;
	}
	atomic_store_explicit(&slab->rcu_queued, queued ? QUEUED : 0, memory_order_relaxed);
	if (!queued && lost)
		queue_deferred(class, slab);
}

void sm__slab_fork_repair(struct sm__slab_class *class)
{
	uint64_t deferred = 0;

	sm__slab_for_each(class, true, repair, &deferred);
	atomic_store_explicit(&class->nr_deferred, deferred, memory_order_relaxed);
}

void sm__slab_shrink(struct sm__slab_class *class)
{
	for (unsigned int n = 0; n < class->nodes; n++) {
		struct sm__slab_node *node = &class->node[n];
		struct sm__list gone;
		struct sm__slab *slab;

		sm__list_init(&gone);
		node_lock(node, true);
		sm__list_for_each_safe (slab, &node->partial, link) {
			if (!slab_is_empty(class, slab))
				continue;
			unlist_partial(node, slab);
			sm__list_add(&gone, &slab->link);
			set_state(slab, SM__SLAB_LOOSE);
		}
		sm__list_for_each_safe (slab, &node->empty, link) {
			sm__list_del(&slab->link);
			node->nr_empty--;
			sm__list_add(&gone, &slab->link);
			set_state(slab, SM__SLAB_LOOSE);
		}
		sm__spin_unlock(&node->lock);
		sm__list_for_each_safe (slab, &gone, link) {
			sm__list_del(&slab->link);
			release(class, slab);
		}
	}
}

struct sm__slab *sm__slab_freeze(struct sm__slab_class *class, unsigned int n, bool may_wait)
{
	struct sm__slab_node *node = &class->node[n];
	struct sm__slab *slab = NULL;

	if (node_lock(node, may_wait)) {
		slab = next_slab(node);
		sm__spin_unlock(&node->lock);
	}
	if (!slab)
		slab = make_slab(class, n, may_wait);
	if (slab)
		set_state(slab, SM__SLAB_FROZEN);
	return slab;
}

unsigned int sm__slab_drain(struct sm__slab_class *class, struct sm__slab *slab, void **out)
{
	return (unsigned int)take_objects(class, slab, class->objects, out);
}

void sm__slab_thaw(struct sm__slab_class *class, struct sm__slab *slab)
{
	make_full(class, slab);
	if (slab_is_empty(class, slab))
		retire_empty(class, slab);
}

void sm__slab_lock_all(struct sm__slab_class *class)
{
	for (unsigned int n = 0; n < class->nodes; n++)
		sm__spin_lock(&class->node[n].lock);
}

void sm__slab_unlock_all(struct sm__slab_class *class)
{
	for (unsigned int n = class->nodes; n-- > 0;)
		sm__spin_unlock(&class->node[n].lock);
}
