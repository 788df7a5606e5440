/* SPDX-License-Identifier: MIT */
/*
 * prefill.c - borrowed sheaves: n objects now, so that nothing can fail later.
 *
 * Where one comes from: the CPU's spare if it holds enough (fast); a full one of the barn; else the
 * spare or an empty one of the barn or a new one, refilled to its capacity. Where it goes: the spare
 * if there is none, as it is, however full (fast); else topped up and put into the barn; else flushed.
 *
 * I1 capacity, oversize and bytes of a borrowed sheaf are set when it is borrowed, not before (they share
 *    memory with what it was used for; I5 of internal.h).
 * I2 A failed borrow or refill leaves no object behind and the caller's sheaf alone.
 */
#include "base/inject.h"
#include "base/osmem.h"
#include "cache/sequence.h"

#include <errno.h>

/* The sheaf of borrow_one_by_one goes back where its objects came from. */
static void return_one_by_one(struct sm_cache *c, struct sm_sheaf *s)
{
	while (sm__sheaf_size(s)) {
		void *object = sm__sheaf_pop(s);

		if (!sm__view_push(c, object))
			sm__cpuslab_free(c, object);
	}
	sm__sheaf_free(c, s);
}

static struct sm_sheaf *borrow_oversize(struct sm_cache *c, size_t n, bool may_wait)
{
	size_t bytes = sizeof(struct sm_sheaf) + n * sizeof(void *);
	unsigned int node = sm__cache_node_here(c);
	struct sm_sheaf *s;
	size_t got;

	/* A sheaf counts in 16 bits; a bigger request is no request for a tree. */
	if (n > UINT16_MAX)
		return NULL;
	s = sm__os_map(bytes);
	if (!s)
		return NULL;
	s->capacity = (uint32_t)n;
	s->cache = c;
	s->bytes = bytes;
	s->oversize = true;
	got = sm__slab_alloc(&c->objects, node, n, s->objects, may_wait);
	sm__sheaf_set_size(s, (uint32_t)got);
	sm__count(c, SM__COUNT_sheaf_alloc, 1);
	sm__count(c, SM__COUNT_sheaf_prefill_oversize, 1);
	if (got == n) {
		atomic_fetch_add_explicit(&c->oversize, 1, memory_order_relaxed);
		return s;
	}
	sm__sheaf_flush(c, s);
	sm__sheaf_free(c, s);
	return NULL;
}

/* layer=slab: a sheaf that only holds what the caller will take, filled from the CPU's slab. */
static struct sm_sheaf *borrow_one_by_one(struct sm_cache *c, size_t n, bool may_wait)
{
	struct sm_sheaf *s = sm__sheaf_new(c, may_wait);
	uint32_t got = 0;

	if (!s)
		return NULL;
	for (; got < n; got++) {
		void *object = sm__main_pop(c);

		if (!object)
			object = sm__cpuslab_alloc(c, may_wait);
		if (!object)
			break;
		s->objects[got] = object;
	}
	sm__sheaf_set_size(s, got);
	sm__count(c, SM__COUNT_sheaf_prefill_slow, 1);
	if (got == n)
		return s;
	return_one_by_one(c, s);
	return NULL;
}

/* Some sheaf, from the nearest place; it may be short of n. */
static struct sm_sheaf *find_sheaf(struct sm_cache *c, size_t n, unsigned int *node, bool may_wait)
{
	struct sm_sheaf *s = NULL, *spare;
	struct sm__held held;

	*node = sm__cache_node_here(c);
	s = c->rseq ? sm__sequence_take_spare(c, (uint32_t)n) : NULL;
	if (s) {
		sm__count(c, SM__COUNT_sheaf_prefill_fast, 1);
		return s;
	}
	if (sm__slot_trylock(c, &held)) {
		*node = held.slot->node;
		spare = held.slot->spare;
		if (spare && sm__sheaf_size(spare) >= n) {
			held.slot->spare = NULL;
			sm__slot_unlock(&held);
			sm__count(c, SM__COUNT_sheaf_prefill_fast, 1);
			return spare;
		}
		if (!c->barns_absent) {
			s = sm__barn_full_for_empty(&c->barns[*node], NULL, may_wait);
			sm__count(c, s ? SM__COUNT_barn_get : SM__COUNT_barn_get_fail, 1);
		}
		if (!s && spare) {
			held.slot->spare = NULL;
			s = spare;
		}
		sm__slot_unlock(&held);
	}
	sm__count(c, SM__COUNT_sheaf_prefill_slow, 1);
	if (!s && !c->barns_absent)
		s = sm__barn_get_empty(&c->barns[*node], may_wait);
	return s ? s : sm__sheaf_new(c, may_wait);
}

static struct sm_sheaf *borrow(struct sm_cache *c, size_t n, bool may_wait)
{
	struct sm_sheaf *s;
	unsigned int node;

	if (n > c->capacity)
		return borrow_oversize(c, n, may_wait);
	if (c->layer_slab)
		return borrow_one_by_one(c, n, may_wait);
	s = find_sheaf(c, n, &node, may_wait);
	if (!s)
		return NULL;
	s->oversize = false;
	sm__sheaf_set_size(s, sm__sheaf_size(s));
	if (sm__sheaf_size(s) >= n || sm__sheaf_refill(c, s, (uint32_t)n, node, may_wait))
		return s;
	sm__sheaf_flush(c, s);
	sm__cache_put_empty(c, node, s, may_wait);
	return NULL;
}

struct sm_sheaf *sm_cache_borrow(struct sm_cache *c, size_t n)
{
	struct sm_sheaf *s;
	bool may_wait;

	if (sm__inject_fail())
		return NULL;
	may_wait = sm__cache_enter();
	s = borrow(c, n, may_wait);
	if (sm__unlikely(!s) && sm__cache_wait_for_memory(c, may_wait))
		s = borrow(c, n, may_wait);
	sm__cache_leave();
	return s;
}

void *sm_sheaf_take(struct sm_sheaf *s)
{
	void *object;

	if (!sm__sheaf_size(s))
		return NULL;
	object = sm__sheaf_pop(s);
	sm__object_out(s->cache, object);
	return object;
}

size_t sm_sheaf_size(const struct sm_sheaf *s)
{
	return sm__sheaf_size(s);
}

/* Gives a sheaf that nobody else knows to the slot, the barn or the slabs. */
static void give_away(struct sm_cache *c, struct sm_sheaf *s, bool may_wait)
{
	struct sm__held held;
	unsigned int node;

	sm__sheaf_set_size(s, sm__sheaf_size(s));
	if (c->rseq && !s->oversize && !c->layer_slab && sm__sequence_give_spare(c, s)) {
		sm__count(c, SM__COUNT_sheaf_return_fast, 1);
		return;
	}
	node = sm__cache_node_here(c);
	sm__delay();
	if (c->layer_slab && !s->oversize) {
		return_one_by_one(c, s);
		return;
	}
	if (!s->oversize && sm__slot_trylock(c, &held)) {
		node = held.slot->node;
		if (!held.slot->spare) {
			held.slot->spare = s;
			sm__slot_unlock(&held);
			sm__count(c, SM__COUNT_sheaf_return_fast, 1);
			return;
		}
		sm__slot_unlock(&held);
	}
	sm__count(c, SM__COUNT_sheaf_return_slow, 1);
	/* Worth topping up only where the barn will take it. */
	if (!s->oversize && !c->barns_absent &&
	    atomic_load_explicit(&c->barns[node].nr_full, memory_order_relaxed) <
		    c->barns[node].max_full &&
	    sm__sheaf_refill(c, s, s->capacity, node, may_wait) &&
	    sm__barn_put_full(&c->barns[node], s, false, may_wait))
		return;
	sm__sheaf_flush(c, s);
	if (s->oversize)
		sm__sheaf_free(c, s);
	else
		sm__cache_put_empty(c, node, s, may_wait);
}

void sm_sheaf_return(struct sm_cache *c, struct sm_sheaf *s)
{
	bool may_wait;

	if (!s)
		return;
	may_wait = sm__cache_enter();
	if (s->oversize)
		atomic_fetch_sub_explicit(&c->oversize, 1, memory_order_relaxed);
	give_away(c, s, may_wait);
	sm__cache_leave();
}

int sm_sheaf_refill(struct sm_cache *c, struct sm_sheaf **s, size_t n)
{
	struct sm_sheaf *bigger;
	bool may_wait, enough = false;

	if (sm__sheaf_size(*s) >= n)
		return 0;
	if (n <= (*s)->capacity) {
		if (sm__inject_fail())
			return -ENOMEM;
		may_wait = sm__cache_enter();
		sm__sheaf_set_size(*s, sm__sheaf_size(*s));
		for (int tries = 0; tries < 2 && !enough; tries++) {
			enough = sm__sheaf_refill(c, *s, (uint32_t)n, sm__cache_node_here(c),
						  may_wait);
			if (!enough && !sm__cache_wait_for_memory(c, may_wait))
				break;
		}
		sm__cache_leave();
		return enough ? 0 : -ENOMEM;
	}
	bigger = sm_cache_borrow(c, n);
	if (!bigger)
		return -ENOMEM;
	sm_sheaf_return(c, *s);
	*s = bigger;
	return 0;
}
