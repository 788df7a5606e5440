/* SPDX-License-Identifier: MIT */
/*
 * free.c - sm_cache_free and its slow way.
 *
 * An object of another node goes to its slab. Otherwise main is full (or the slot could not be had):
 *
 *	slot busy                     -> slab
 *	main has room after all       -> push
 *	no spare, barn has an empty   -> main becomes spare, the empty becomes main, push
 *	spare has room                -> swap main and spare, push
 *	spare full, barn has room
 *	         and an empty         -> main goes to the barn, the empty becomes main, push
 *	spare full, barn has no room  -> detach the spare, release the slot, flush it: a new empty
 *	else                          -> release the slot, make an empty
 *	    no memory for one         -> 32 objects of main to the slabs, push
 *	then offer the empty, with the object, to the slot of the CPU we are on by then:
 *	    slot busy                 -> barn; the object to its slab
 *	    no spare                  -> main becomes spare, the empty becomes main, push
 *	    main has room             -> push; the empty goes to the barn
 *	    spare has room            -> swap, push; the empty goes to the barn
 *	    both full                 -> main to the barn, whatever its limit; the empty becomes main, push
 */
#include "base/delay.h"
#include "cache/sequence.h"

#include <string.h>

enum { FLUSH_BATCH = 32 };

static void free_direct(struct sm_cache *c, void *object)
{
	sm__slab_free(&c->objects, 1, &object);
	sm__count(c, SM__COUNT_free_slowpath, 1);
}

static void swap_main_and_spare(struct sm__held *held)
{
	struct sm_sheaf *spare = held->slot->spare;

	held->slot->spare = held->main->capacity ? held->main : NULL;
	held->main = spare;
}

static void new_main(struct sm__held *held, struct sm_sheaf *empty, void *object)
{
	held->main = empty;
	sm__sheaf_push(empty, object);
}

/* An empty sheaf and an object, for whichever CPU we are on. */
static void offer_empty(struct sm_cache *c, struct sm_sheaf *s, void *object, bool may_wait)
{
	unsigned int node = sm__cache_node_here(c);
	struct sm_sheaf *full = NULL, *empty = NULL;
	struct sm__held held;

	sm__delay();
	if (!sm__slot_trylock(c, &held)) {
		sm__cache_put_empty(c, node, s, may_wait);
		free_direct(c, object);
		return;
	}
	node = held.slot->node;
	if (!held.main->capacity) {
		new_main(&held, s, object);
	} else if (!held.slot->spare) {
		held.slot->spare = held.main;
		new_main(&held, s, object);
	} else if (!sm__sheaf_is_full(held.main)) {
		sm__sheaf_push(held.main, object);
		empty = s;
	} else if (!sm__sheaf_is_full(held.slot->spare)) {
		swap_main_and_spare(&held);
		sm__sheaf_push(held.main, object);
		empty = s;
	} else {
		full = held.main;
		new_main(&held, s, object);
	}
	sm__slot_unlock(&held);
	if (full)
		sm__cache_put_full(c, node, full, may_wait);
	if (empty)
		sm__cache_put_empty(c, node, empty, may_wait);
}

/* No memory for a sheaf: makes room in main by hand. The slot is held, and released here. */
static void free_by_flushing_main(struct sm_cache *c, void *object)
{
	void *batch[FLUSH_BATCH];
	uint32_t n = 0;
	struct sm__held held;

	if (!sm__slot_trylock(c, &held)) {
		free_direct(c, object);
		return;
	}
	if (!held.main->capacity) {
		sm__slot_unlock(&held);
		free_direct(c, object);
		return;
	}
	if (sm__sheaf_is_full(held.main)) {
		uint32_t size = sm__sheaf_size(held.main);

		n = size < FLUSH_BATCH ? size : FLUSH_BATCH;
		memcpy(batch, held.main->objects + size - n, n * sizeof(*batch));
		sm__sheaf_set_size(held.main, size - n);
	}
	sm__sheaf_push(held.main, object);
	sm__slot_unlock(&held);
	if (n) {
		sm__slab_free(&c->objects, n, batch);
		sm__count(c, SM__COUNT_sheaf_flush, n);
	}
}

/* True when the object is in the slot; else *detached may be a full spare to flush. */
static bool free_to_held(struct sm_cache *c, struct sm__held *held, void *object,
			 struct sm_sheaf **detached, bool may_wait)
{
	struct sm__slot *slot = held->slot;
	struct sm__barn *barn = c->barns_absent ? NULL : &c->barns[slot->node];
	struct sm_sheaf *empty = NULL;
	enum sm__barn_result result;

	if (!sm__sheaf_is_full(held->main)) {
		sm__sheaf_push(held->main, object);
		return true;
	}
	if (slot->spare && !sm__sheaf_is_full(slot->spare)) {
		swap_main_and_spare(held);
		sm__sheaf_push(held->main, object);
		return true;
	}
	if (!slot->spare || !held->main->capacity) { /* room for one sheaf more */
		empty = barn ? sm__barn_get_empty(barn, may_wait) : NULL;
		if (!empty)
			return false;
		if (held->main->capacity)
			slot->spare = held->main;
		new_main(held, empty, object);
		return true;
	}
	result = barn ? sm__barn_empty_for_full(barn, held->main, &empty, may_wait)
		      : SM__BARN_TOO_MANY;
	if (result == SM__BARN_OK) {
		sm__count(c, SM__COUNT_barn_put, 1);
		new_main(held, empty, object);
		return true;
	}
	if (result == SM__BARN_TOO_MANY) {
		sm__count(c, SM__COUNT_barn_put_fail, 1);
		*detached = slot->spare;
		slot->spare = NULL;
	}
	return false;
}

static void free_to_sheaf_slow(struct sm_cache *c, void *object, bool may_wait)
{
	struct sm_sheaf *s = NULL;
	struct sm__held held;

	if (!sm__slot_trylock(c, &held)) {
		free_direct(c, object);
		return;
	}
	if (free_to_held(c, &held, object, &s, may_wait)) {
		sm__slot_unlock(&held);
		return;
	}
	sm__slot_unlock(&held);
	if (s)
		sm__sheaf_flush(c, s);
	else
		s = sm__sheaf_new(c, may_wait);
	if (s)
		offer_empty(c, s, object, may_wait);
	else
		free_by_flushing_main(c, object);
}

static SM__COLD void free_slow(struct sm_cache *c, void *object, uint32_t node)
{
	bool may_wait = sm__cache_enter();

	if (c->nodes_matter && node != sm__cache_node_here(c)) {
		free_direct(c, object);
		sm__count(c, SM__COUNT_free_remote, 1);
	} else {
		free_to_sheaf_slow(c, object, may_wait);
	}
	sm__cache_leave();
}

/* Main is full, or it takes more than a push to free this object. */
static __attribute__((noinline)) void free_other(struct sm_cache *c, void *object)
{
	uint32_t node = 0;

	if (c->nodes_matter)
		node = sm__slab_of(&c->objects, object)->node;
	if (!c->push_cpus && sm__main_push(c, object, node))
		return;
	free_slow(c, object, node);
}

/* layer=slab: the object's slab is not the CPU's. */
static __attribute__((noinline)) void free_slab_other(struct sm_cache *c, void *object)
{
	if (!c->rseq && sm__view_push(c, object))
		return;
	sm__cache_enter();
	sm__cpuslab_free(c, object);
	sm__cache_leave();
}

SM__NO_FRAME void sm_cache_free(struct sm_cache *c, void *object)
{
	if (sm__unlikely(!object))
		return;
	sm__object_back(c, object);
	sm__object_dead(c, object);
	if (c->layer_slab) {
		if (!sm__sequence_push_tagged(c, object))
			free_slab_other(c, object);
	} else if (sm__unlikely(!sm__sequence_push(c, object))) {
		free_other(c, object);
	}
}
