/* SPDX-License-Identifier: MIT */
/*
 * cpuslab.c - layer=slab: a CPU owns a slab, as in Linux before sheaves.
 *
 * Main is then a view of the owned slab's free objects: all of them are of the slab that its tag names,
 * so a free of an object of that slab is a push, any other free goes to the object's slab (one atomic
 * OR). A full slab that gets its first object back goes to the partial list of the CPU that freed it.
 *
 * Allocation when the view is empty: objects that others freed into the owned slab; else the CPU's
 * partial list; else the node's; else a new slab.
 *
 * I1 The slab named by the tag, and those on the CPU's partial list, are FROZEN and owned by the slot.
 */
#include "base/delay.h"
#include "cache/internal.h"

/* The view becomes one of this slab. Returns how many objects it has. */
static unsigned int adopt(struct sm_cache *c, struct sm_sheaf *view, struct sm__slab *slab)
{
	unsigned int n = sm__slab_drain(&c->objects, slab, view->objects);

	view->tag = (uintptr_t)sm__slab_memory(&c->objects, slab);
	sm__sheaf_set_size(view, n);
	return n;
}

static void abandon(struct sm_cache *c, struct sm_sheaf *view)
{
	if (view->tag)
		sm__slab_thaw(&c->objects, sm__slab_of(&c->objects, (void *)view->tag));
	view->tag = 0;
}

/* The slot is held and has a view. */
static void *alloc_from_held(struct sm_cache *c, struct sm__held *held)
{
	struct sm_sheaf *view = held->main;

	if (sm__sheaf_size(view))
		return sm__sheaf_pop(view);
	if (view->tag && adopt(c, view, sm__slab_of(&c->objects, (void *)view->tag)))
		return sm__sheaf_pop(view);
	abandon(c, view);
	while (held->slot->nr_partial) {
		struct sm__slab *slab = sm__list_first(&held->slot->partial, struct sm__slab, link);

		sm__list_del(&slab->link);
		held->slot->nr_partial--;
		if (adopt(c, view, slab)) {
			sm__count(c, SM__COUNT_cpu_partial_alloc, 1);
			return sm__sheaf_pop(view);
		}
		abandon(c, view);
	}
	return NULL;
}

/* A slab we own goes to the slot's partial list where there is room. */
static void keep(struct sm_cache *c, struct sm__slot *slot, struct sm__slab *slab)
{
	if (slot->nr_partial >= c->cpu_partial) {
		sm__slab_thaw(&c->objects, slab);
		return;
	}
	sm__list_add(&slot->partial, &slab->link);
	slot->nr_partial++;
	sm__count(c, SM__COUNT_cpu_partial_free, 1);
}

/* With a slab, and a view if the slot may need one, made without holding anything. */
static void *alloc_with(struct sm_cache *c, struct sm__slab *slab, struct sm_sheaf **view)
{
	struct sm__held held;
	void *object;

	sm__delay();
	if (!sm__slot_trylock(c, &held))
		goto no_slot;
	if (!held.main->capacity) {
		if (!*view) {
			sm__slot_unlock(&held);
			goto no_slot;
		}
		held.main = *view;
		*view = NULL;
	}
	object = alloc_from_held(c, &held);
	if (object) {
		keep(c, held.slot, slab);
	} else {
		object = adopt(c, held.main, slab) ? sm__sheaf_pop(held.main) : NULL;
	}
	sm__slot_unlock(&held);
	return object;
no_slot:
	sm__slab_thaw(&c->objects, slab);
	return NULL;
}

void *sm__cpuslab_alloc(struct sm_cache *c, bool may_wait)
{
	struct sm_sheaf *view = NULL;
	struct sm__slab *slab;
	struct sm__held held;
	unsigned int node;
	void *object = NULL;
	bool no_view;

	if (!sm__slot_trylock(c, &held))
		return sm__cache_alloc_direct(c, may_wait);
	no_view = !held.main->capacity;
	if (!no_view)
		object = alloc_from_held(c, &held);
	node = held.slot->node;
	sm__slot_unlock(&held);
	if (object)
		return object;
	if (no_view)
		view = sm__sheaf_new(c, may_wait);
	slab = !no_view || view ? sm__slab_freeze(&c->objects, node, may_wait) : NULL;
	if (slab)
		object = alloc_with(c, slab, &view);
	if (view)
		sm__sheaf_free(c, view);
	return object ? object : sm__cache_alloc_direct(c, may_wait);
}

void sm__cpuslab_free(struct sm_cache *c, void *object)
{
	struct sm__slab *slab = sm__slab_free_claim(&c->objects, object);
	struct sm__held held;

	sm__count(c, SM__COUNT_free_slowpath, 1);
	if (!slab)
		return;
	if (!sm__slot_trylock(c, &held)) {
		sm__slab_thaw(&c->objects, slab);
		return;
	}
	keep(c, held.slot, slab);
	sm__slot_unlock(&held);
}
