/* SPDX-License-Identifier: MIT */
/*
 * alloc.c - sm_cache_alloc and its slow way.
 *
 * Main is empty (or the slot could not be had). In this order:
 *
 *	slot busy                     -> one object from the slabs
 *	main has an object after all  -> pop
 *	spare has one                 -> swap main and spare, pop
 *	the barn has a full sheaf     -> full becomes main, the empty main goes to the barn, pop
 *	else                          -> detach an empty sheaf (spare, barn, new), release the slot,
 *	                                 refill it, take one object off it for the caller, and offer the
 *	                                 rest to the slot of the CPU we are on by then:
 *	    slot busy                 -> barn
 *	    main empty                -> becomes main; old main: spare if there is none, else barn
 *	    no spare / spare empty    -> becomes spare
 *	    else                      -> barn, whatever its limit
 *
 * The object for the caller is taken before the slot is asked for again, so success never depends on
 * what happened to the slot meanwhile (I3 of internal.h).
 */
#include "base/delay.h"
#include "base/inject.h"
#include "cache/sequence.h"

void *sm__cache_alloc_direct(struct sm_cache *c, bool may_wait)
{
	void *object;

	if (!sm__slab_alloc(&c->objects, sm__cache_node_here(c), 1, &object, may_wait))
		return NULL;
	sm__count(c, SM__COUNT_alloc_slowpath, 1);
	return object;
}

bool sm__cache_wait_for_memory(struct sm_cache *c, bool may_wait)
{
	if (!may_wait || sm__rcu_read_ongoing())
		return false;
	if (!c->layer_slab)
		sm__rcu_sheaf_submit_here(c);
	if (!atomic_load_explicit(&c->rcu_in_flight, memory_order_relaxed) &&
	    !atomic_load_explicit(&c->objects.nr_deferred, memory_order_relaxed))
		return false;
	sm__rcu_wait_batch();
	return true;
}

/* The ways that need nothing but the slot and the barn. */
static void *alloc_from_held(struct sm_cache *c, struct sm__held *held, bool may_wait)
{
	struct sm_sheaf *spare = held->slot->spare, *full;

	if (sm__sheaf_size(held->main))
		return sm__sheaf_pop(held->main);
	if (spare && sm__sheaf_size(spare)) {
		held->slot->spare = held->main->capacity ? held->main : NULL;
		held->main = spare;
		return sm__sheaf_pop(spare);
	}
	if (c->barns_absent)
		return NULL;
	full = sm__barn_full_for_empty(&c->barns[held->slot->node],
				       held->main->capacity ? held->main : NULL, may_wait);
	sm__count(c, full ? SM__COUNT_barn_get : SM__COUNT_barn_get_fail, 1);
	if (!full)
		return NULL;
	held->main = full;
	return sm__sheaf_pop(full);
}

/* A sheaf with something in it, for whichever CPU we are on. */
static void offer_full(struct sm_cache *c, struct sm_sheaf *s, unsigned int node, bool may_wait)
{
	struct sm_sheaf *out = NULL;
	bool out_is_full = false;
	struct sm__held held;

	sm__delay();
	if (!sm__slot_trylock(c, &held)) {
		sm__cache_put_full(c, node, s, may_wait);
		return;
	}
	node = held.slot->node;
	if (!sm__sheaf_size(held.main)) {
		if (held.main->capacity && !held.slot->spare)
			held.slot->spare = held.main;
		else
			out = held.main;
		held.main = s;
	} else if (!held.slot->spare) {
		held.slot->spare = s;
	} else if (!sm__sheaf_size(held.slot->spare)) {
		out = held.slot->spare;
		held.slot->spare = s;
	} else {
		out = s;
		out_is_full = true;
	}
	sm__slot_unlock(&held);
	if (out_is_full)
		sm__cache_put_full(c, node, out, may_wait);
	else if (out)
		sm__cache_put_empty(c, node, out, may_wait);
}

/* The slot is held, and released here. */
static void *alloc_by_refill(struct sm_cache *c, struct sm__held *held, bool may_wait)
{
	unsigned int node = held->slot->node;
	struct sm_sheaf *s = held->slot->spare;
	void *object;

	held->slot->spare = NULL; /* it is empty, or was not there */
	sm__slot_unlock(held);
	if (!s && !c->barns_absent)
		s = sm__barn_get_empty(&c->barns[node], may_wait);
	if (!s)
		s = sm__sheaf_new(c, may_wait);
	if (!s)
		return sm__cache_alloc_direct(c, may_wait);
	if (!sm__sheaf_refill(c, s, 1, node, may_wait)) {
		sm__cache_put_empty(c, node, s, may_wait);
		return NULL;
	}
	object = sm__sheaf_pop(s);
	sm__sheaf_set_size(s, sm__sheaf_size(s)); /* this pop is not the slot's */
	sm__count(c, SM__COUNT_alloc_slowpath, 1);
	offer_full(c, s, node, may_wait);
	return object;
}

static void *alloc_once(struct sm_cache *c, bool may_wait)
{
	struct sm__held held;
	void *object;

	if (!sm__slot_trylock(c, &held))
		return sm__cache_alloc_direct(c, may_wait);
	object = alloc_from_held(c, &held, may_wait);
	if (!object)
		return alloc_by_refill(c, &held, may_wait);
	sm__slot_unlock(&held);
	return object;
}

static SM__COLD void *alloc_slow(struct sm_cache *c)
{
	bool may_wait = sm__cache_enter();
	void *object;

	if (c->layer_slab)
		object = sm__cpuslab_alloc(c, may_wait);
	else
		object = alloc_once(c, may_wait);
	if (sm__unlikely(!object) && sm__cache_wait_for_memory(c, may_wait))
		object = c->layer_slab ? sm__cpuslab_alloc(c, may_wait) : alloc_once(c, may_wait);
	sm__cache_leave();
	return object;
}

/* The sequence found nothing, or there are no sequences. */
static __attribute__((noinline)) void *alloc_other(struct sm_cache *c)
{
	void *object = NULL;

	if (!c->rseq)
		object = sm__main_pop(c);
	if (!object) {
		object = alloc_slow(c);
		if (!object)
			return NULL;
	}
	sm__object_out(c, object);
	return object;
}

SM__NO_FRAME void *sm_cache_alloc(struct sm_cache *c)
{
	void *object;

#if SM_VALIDATE || SM_TSAN || SM_ASAN
	/* An optimised build injects in the calls that are not counted in single nanoseconds. */
	if (sm__inject_fail())
		return NULL;
#endif
	object = sm__sequence_pop(c);
	if (sm__unlikely(!object))
		return alloc_other(c);
	sm__object_out(c, object);
	return object;
}
