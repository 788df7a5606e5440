/* SPDX-License-Identifier: MIT */
/*
 * rcu_free.c - sm_cache_free_rcu: objects that wait for a grace period in whole sheaves.
 *
 *	slot: rcu_free [o o .] --full, aged, barrier--> in flight (one callback) --grace period-->
 *	    full, and the barn has room   -> barn, ready to allocate from
 *	    else                          -> flushed to the slabs; the empty sheaf to the barn
 *
 * Objects of another node, and those for which there is no sheaf or no slot, are deferred by their slabs
 * (slab.h I5): that needs no memory and waits for nothing, so free_rcu cannot fail.
 *
 * G1 A sheaf is handed to the grace period while its slot is held, and only then taken out of the slot's
 *    sight: who holds the slot afterwards and finds no rcu_free knows that everything pushed before is
 *    queued. That is what barrier relies on.
 * G2 Within rcu_age_ms (and the worker's promptness) a part-filled sheaf is submitted.
 * I1 rcu_in_flight counts the objects of submitted sheaves; its decrement is the callback's last touch of
 *    the cache.
 */
#include "base/fork.h"
#include "cache/sequence.h"

#include <pthread.h>
#include <time.h>

/* Beyond this many bytes in flight a cache's free_rcu waits for a batch, where it may. */
enum { IN_FLIGHT_BYTES = 64 << 20 };

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sm__list caches = { &caches, &caches }; /* list_lock */

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void grace_period_over(struct rcu_head *head)
{
	struct sm_sheaf *s = sm__container_of(head, struct sm_sheaf, rcu);
	struct sm_cache *c = s->cache;
	uint32_t n = sm__sheaf_size(s);
	unsigned int node = s->node;

	sm__cache_enter();
	for (uint32_t i = 0; i < n; i++)
		sm__object_dead(c, s->objects[i]);
	/* A part-filled sheaf does not go among the full ones. */
	if (n < s->capacity || c->barns_absent ||
	    !sm__barn_put_full(&c->barns[node], s, false, true)) {
		sm__sheaf_flush(c, s);
		sm__cache_put_empty(c, node, s, true);
	}
	sm__cache_leave();
	/* release: I1 */
	atomic_fetch_sub_explicit(&c->rcu_in_flight, n, memory_order_release);
}

void sm__rcu_sheaf_submit(struct sm_cache *c, struct sm__slot *slot)
{
	struct sm_sheaf *s = atomic_load_explicit(&slot->rcu_free, memory_order_relaxed);
	uint32_t n;

	if (!s)
		return;
	n = sm__sheaf_size(s);
	s->node = (uint16_t)slot->node;
	sm__count(c, SM__COUNT_sheaf_submit, 1);
	sm__count(c, SM__COUNT_free_rcu_sheaf, n);
	atomic_fetch_add_explicit(&c->rcu_in_flight, n, memory_order_relaxed);
	atomic_store_explicit(&slot->rcu_free, NULL,
			      memory_order_relaxed); /* the slot is ours: G1 */
	sm__call_rcu_nowait(&s->rcu, grace_period_over);
}

void sm__rcu_sheaf_submit_here(struct sm_cache *c)
{
	struct sm__held held;

	if (!sm__slot_trylock(c, &held))
		return;
	sm__rcu_sheaf_submit(c, held.slot);
	sm__slot_unlock(&held);
}

static void throttle(struct sm_cache *c)
{
	uint64_t bytes =
		atomic_load_explicit(&c->rcu_in_flight, memory_order_relaxed) * c->objects.slot;

	if (sm__unlikely(bytes > IN_FLIGHT_BYTES))
		sm__rcu_wait_batch();
	else if (sm__unlikely(sm__rcu_backlog() > SM__RCU_BACKLOG))
		sm__rcu_throttle();
}

static void defer(struct sm_cache *c, void *object)
{
	sm__slab_free_deferred(&c->objects, object);
	sm__count(c, SM__COUNT_free_rcu_sheaf_fail, 1);
}

/* An empty sheaf from what the held slot and its barn have. */
static struct sm_sheaf *empty_at_hand(struct sm_cache *c, struct sm__slot *slot, bool may_wait)
{
	struct sm_sheaf *s = slot->spare;

	if (s && !sm__sheaf_size(s)) {
		slot->spare = NULL;
		return s;
	}
	return c->barns_absent ? NULL : sm__barn_get_empty(&c->barns[slot->node], may_wait);
}

/* The slot is held and its rcu_free has room, or there is none and s is to be it. Returns s if unused. */
static struct sm_sheaf *push_held(struct sm_cache *c, struct sm__slot *slot, struct sm_sheaf *s,
				  void *object)
{
	struct sm_sheaf *rcu = atomic_load_explicit(&slot->rcu_free, memory_order_relaxed);

	if (!rcu) {
		rcu = s;
		s = NULL;
		sm__sheaf_set_size(rcu, 0);
		atomic_store_explicit(&slot->rcu_since, now_ms(), memory_order_relaxed);
		atomic_store_explicit(&slot->rcu_free, rcu, memory_order_relaxed);
		sm__rcu_tick_in(c->rcu_age_ms);
	}
	sm__sheaf_push(rcu, object);
	if (sm__sheaf_is_full(rcu))
		sm__rcu_sheaf_submit(c, slot);
	return s;
}

static void push_slow(struct sm_cache *c, void *object, uint32_t node, bool may_wait)
{
	struct sm_sheaf *s = NULL, *rcu;
	struct sm__held held;

	for (int made = 0;; made++) {
		if (!sm__slot_trylock(c, &held))
			break;
		if (held.slot->node != node) {
			sm__slot_unlock(&held);
			break;
		}
		rcu = atomic_load_explicit(&held.slot->rcu_free, memory_order_relaxed);
		if (rcu &&
		    sm__sheaf_is_full(rcu)) { /* its pusher was preempted before submitting */
			sm__rcu_sheaf_submit(c, held.slot);
			rcu = NULL;
		}
		if (!rcu && !s)
			s = empty_at_hand(c, held.slot, may_wait);
		if (rcu || s) {
			s = push_held(c, held.slot, s, object);
			object = NULL;
		}
		sm__slot_unlock(&held);
		if (!object || made)
			break;
		s = sm__sheaf_new(c, may_wait);
		if (!s)
			break;
	}
	if (s)
		sm__cache_put_empty(c, node, s, may_wait);
	if (object)
		defer(c, object);
}

static SM__COLD void free_rcu_slow(struct sm_cache *c, void *object, uint32_t node)
{
	bool may_wait = sm__cache_enter();

	if (!c->rcu_sheaves || (c->nodes_matter && node != sm__cache_node_here(c)))
		defer(c, object);
	else
		push_slow(c, object, node, may_wait);
	if (may_wait)
		throttle(c);
	sm__cache_leave();
}

static SM__COLD void submit_full(struct sm_cache *c)
{
	bool may_wait = sm__cache_enter();
	struct sm_sheaf *rcu;
	struct sm__held held;

	/* Busy or moved: the next push there, the age limit or a barrier finds it. */
	if (sm__slot_trylock(c, &held)) {
		rcu = atomic_load_explicit(&held.slot->rcu_free, memory_order_relaxed);
		if (rcu && sm__sheaf_is_full(rcu))
			sm__rcu_sheaf_submit(c, held.slot);
		sm__slot_unlock(&held);
	}
	if (may_wait)
		throttle(c);
	sm__cache_leave();
}

void sm_cache_free_rcu(struct sm_cache *c, void *object)
{
	enum sm__push_rcu pushed = SM__PUSH_RCU_NO;
	uint32_t node = 0;

	if (sm__unlikely(!object))
		return;
	sm__object_back(c, object);
	if (sm__unlikely(c->nodes_matter))
		node = sm__slab_of(&c->objects, object)->node;
	if (sm__likely(c->rcu_sheaves))
		pushed = sm__rcu_push(c, object, node);
	if (sm__unlikely(pushed == SM__PUSH_RCU_NO))
		free_rcu_slow(c, object, node);
	else if (sm__unlikely(pushed == SM__PUSH_RCU_FULL))
		submit_full(c);
}

void sm_cache_barrier(struct sm_cache *c)
{
	sm__slot_lock_all(c);
	for (unsigned int i = 0; i < c->cpus; i++)
		sm__rcu_sheaf_submit(c, &c->slots[i]);
	sm__slot_unlock_all(c);
	sm__rcu_barrier();
	/*
	 * A bit that was pending while its slab's callback was in flight is freed by the next one, which
	 * that callback queued: one barrier more.
	 */
	if (atomic_load_explicit(&c->objects.nr_deferred, memory_order_acquire))
		sm__rcu_barrier();
}

/* --- the age limit: runs in the RCU worker --- */

/* Submits what is too old in a cache; returns ms until the next is, 0 for none. */
static unsigned int age_cache(struct sm_cache *c, int64_t now)
{
	unsigned int next = 0;

	for (unsigned int i = 0; i < c->cpus; i++) {
		struct sm__slot *slot = &c->slots[i];
		struct sm__held held;
		unsigned int left;
		int64_t age;

		if (!atomic_load_explicit(&slot->rcu_free, memory_order_relaxed))
			continue;
		age = now - atomic_load_explicit(&slot->rcu_since, memory_order_relaxed);
		if (age >= (int64_t)c->rcu_age_ms) {
			sm__slot_lock(c, i, &held);
			sm__rcu_sheaf_submit(c, slot);
			sm__slot_unlock(&held);
			sm__count(c, SM__COUNT_sheaf_age, 1);
			continue;
		}
		/* The coarse clock may lag by a tick of 4 ms. */
		left = (unsigned int)((int64_t)c->rcu_age_ms - age) + 4;
		next = next && next < left ? next : left;
	}
	return next;
}

static unsigned int age_caches(void)
{
	int64_t now = now_ms();
	unsigned int next = 0;
	struct sm_cache *c;

	pthread_mutex_lock(&list_lock);
	sm__list_for_each_entry (c, &caches, link) {
		unsigned int ms = age_cache(c, now);

		if (ms && (!next || ms < next))
			next = ms;
	}
	pthread_mutex_unlock(&list_lock);
	return next;
}

/* --- the list of caches, and fork --- */

static void fork_prepare(void)
{
	struct sm_cache *c;

	pthread_mutex_lock(&list_lock);
	sm__list_for_each_entry (c, &caches, link) {
		sm__slot_lock_all(c);
		for (unsigned int n = 0; n < c->nodes; n++)
			sm__spin_lock(&c->barns[n].lock);
		sm__slab_lock_all(&c->objects);
		sm__slab_lock_all(&c->sheaves);
	}
}

static void fork_after(bool in_child)
{
	struct sm_cache *c;

	if (in_child)
		sm__slab_fork_see_queue();
	sm__list_for_each_entry (c, &caches, link) {
		if (in_child)
			sm__slab_fork_repair(&c->objects);
		sm__slab_unlock_all(&c->sheaves);
		sm__slab_unlock_all(&c->objects);
		for (unsigned int n = c->nodes; n-- > 0;)
			sm__spin_unlock(&c->barns[n].lock);
		sm__slot_unlock_all(c);
	}
	pthread_mutex_unlock(&list_lock);
}

void sm__cache_list_add(struct sm_cache *c)
{
	static const struct sm__fork_ops fork_ops = { fork_prepare, fork_after };

	sm__fork_register(SM__FORK_CACHE, &fork_ops);
	sm__rcu_set_tick(age_caches);
	pthread_mutex_lock(&list_lock);
	sm__list_add(&caches, &c->link);
	pthread_mutex_unlock(&list_lock);
}

void sm__cache_list_del(struct sm_cache *c)
{
	pthread_mutex_lock(&list_lock);
	sm__list_del(&c->link);
	pthread_mutex_unlock(&list_lock);
}
