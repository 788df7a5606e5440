/* SPDX-License-Identifier: MIT */
/*
 * bulk.c - many objects at once: whole pieces of sheaves under one hold of the slot.
 *
 * Neither direction makes, refills or flushes a sheaf: where spare and barn are used up the rest goes
 * from or to the slabs directly, because through a sheaf it would be copied twice.
 */
#include "base/inject.h"
#include "cache/internal.h"

#include <string.h>

/* From main, spare and the barn. The slot is held. */
static size_t take_from_held(struct sm_cache *c, struct sm__held *held, size_t n, void **out,
			     bool may_wait)
{
	size_t got = 0;

	while (got < n) {
		struct sm_sheaf *main = held->main, *spare = held->slot->spare;
		uint32_t size = sm__sheaf_size(main);
		size_t piece = n - got < size ? n - got : size;

		if (piece) {
			memcpy(out + got, main->objects + size - piece, piece * sizeof(*out));
			sm__sheaf_set_size(main, size - (uint32_t)piece);
			got += piece;
		}
		if (got == n)
			break;
		if (spare && sm__sheaf_size(spare)) {
			held->slot->spare = main->capacity ? main : NULL;
			held->main = spare;
			continue;
		}
		spare = c->barns_absent
				? NULL
				: sm__barn_full_for_empty(&c->barns[held->slot->node],
							  main->capacity ? main : NULL, may_wait);
		sm__count(c, spare ? SM__COUNT_barn_get : SM__COUNT_barn_get_fail, 1);
		if (!spare)
			break;
		held->main = spare;
	}
	return got;
}

static size_t alloc_bulk(struct sm_cache *c, size_t n, void **out, bool may_wait)
{
	unsigned int node = sm__cache_node_here(c);
	struct sm__held held;
	size_t got = 0, more;

	if (!c->layer_slab && sm__slot_trylock(c, &held)) {
		node = held.slot->node;
		got = take_from_held(c, &held, n, out, may_wait);
		atomic_fetch_add_explicit(&held.slot->nr_alloc, got, memory_order_relaxed);
		sm__slot_unlock(&held);
	}
	if (got < n) {
		more = sm__slab_alloc(&c->objects, node, n - got, out + got, may_wait);
		sm__count(c, SM__COUNT_alloc_slowpath, more);
		got += more;
	}
	return got;
}

size_t sm_cache_alloc_bulk(struct sm_cache *c, size_t n, void **out)
{
	bool may_wait;
	size_t got;

	if (sm__inject_fail())
		return 0;
	may_wait = sm__cache_enter();
	got = alloc_bulk(c, n, out, may_wait);
	if (sm__unlikely(got < n) && sm__cache_wait_for_memory(c, may_wait))
		got += alloc_bulk(c, n - got, out + got, may_wait);
	sm__cache_leave();
	for (size_t i = 0; i < got; i++)
		sm__object_out(c, out[i]);
	return got;
}

/* Into main, spare and the barn. The slot is held. */
static size_t put_to_held(struct sm_cache *c, struct sm__held *held, size_t n, void *const *in,
			  bool may_wait)
{
	size_t done = 0;

	while (done < n) {
		struct sm_sheaf *main = held->main, *spare = held->slot->spare, *empty = NULL;
		uint32_t size = sm__sheaf_size(main), room = main->capacity - size;
		size_t piece = n - done < room ? n - done : room;

		if (piece) {
			memcpy(main->objects + size, in + done, piece * sizeof(*in));
			sm__sheaf_set_size(main, size + (uint32_t)piece);
			done += piece;
		}
		if (done == n)
			break;
		if (spare && !sm__sheaf_is_full(spare)) {
			held->slot->spare = main->capacity ? main : NULL;
			held->main = spare;
			continue;
		}
		if (c->barns_absent)
			break;
		if (!spare || !main->capacity) { /* room for one sheaf more */
			empty = sm__barn_get_empty(&c->barns[held->slot->node], may_wait);
			if (!empty)
				break;
			if (main->capacity)
				held->slot->spare = main;
		} else if (sm__barn_empty_for_full(&c->barns[held->slot->node], main, &empty,
						   may_wait) != SM__BARN_OK) {
			sm__count(c, SM__COUNT_barn_put_fail, 1);
			break;
		} else {
			sm__count(c, SM__COUNT_barn_put, 1);
		}
		sm__sheaf_set_size(empty, 0);
		held->main = empty;
	}
	return done;
}

static void free_run(struct sm_cache *c, size_t n, void *const *in, bool may_wait)
{
	struct sm__held held;
	size_t done = 0;

	if (!c->layer_slab && sm__slot_trylock(c, &held)) {
		if (!c->nodes_matter || held.slot->node == sm__slab_of(&c->objects, in[0])->node) {
			done = put_to_held(c, &held, n, in, may_wait);
			atomic_fetch_add_explicit(&held.slot->nr_free, done, memory_order_relaxed);
		} else {
			sm__count(c, SM__COUNT_free_remote, n);
		}
		sm__slot_unlock(&held);
	}
	if (done < n) {
		sm__slab_free(&c->objects, n - done, in + done);
		sm__count(c, SM__COUNT_free_slowpath, n - done);
	}
}

/* How many from in[0] on are objects of one node, without a NULL between them. */
static size_t run_length(const struct sm_cache *c, size_t n, void *const *in)
{
	size_t i = 0;

	while (i < n && in[i] &&
	       (!c->nodes_matter ||
		sm__slab_of(&c->objects, in[i])->node == sm__slab_of(&c->objects, in[0])->node))
		i++;
	return i;
}

void sm_cache_free_bulk(struct sm_cache *c, size_t n, void *const *in)
{
	bool may_wait;

	for (size_t i = 0; i < n; i++) {
		if (!in[i])
			continue;
		sm__object_back(c, in[i]);
		sm__object_dead(c, in[i]);
	}
	may_wait = sm__cache_enter();
	while (n) {
		size_t run = run_length(c, n, in);

		if (run)
			free_run(c, run, in, may_wait);
		else
			run = 1; /* a NULL */
		in += run;
		n -= run;
	}
	sm__cache_leave();
}
