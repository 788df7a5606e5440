/* SPDX-License-Identifier: MIT */
/*
 * torture_cache.c - eight threads do everything at once to one cache, over and over: layers, faked
 * nodes, both kinds of exclusion, pinned to two CPUs and not, with seeded delays.
 *
 * Checked: an object has one owner (stamps); a reader never sees an object that was freed through RCU
 * and handed out again (internal.h, rcu_free.c); after each round, all threads at rest, the books
 * balance (internal.h I1) and the slabs are in order.
 */
#include "torture/torture.h"
#include "base/delay.h"
#include "base/percpu.h"
#include "base/random.h"
#include "base/thread.h"
#include "cache/internal.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 8, OWN = 400, MAILBOX = 64, SHARED = 16 };

struct object {
	uint64_t owner; /* who holds it; 0 while it is nobody's */
	uint64_t live;	/* LIVE while published */
	char rest[240];
};

enum { LIVE = 0x11fe11fe, FRESH = 0xf4e54 };

struct round {
	struct sm_cache *cache;
	bool pinned;
	bool readers;
	uint64_t seed;
	uint64_t operations;
	_Atomic(struct object *) mailbox[MAILBOX];
	struct object *shared[SHARED];
	pthread_mutex_t shared_lock[SHARED];
	_Atomic uint64_t held;
};

struct worker {
	struct round *round;
	unsigned int id;
	struct sm__random random;
	struct object *own[OWN];
	unsigned int owned;
	struct sm_sheaf *sheaf;
};

static void die(const char *what, const void *p)
{
	fprintf(stderr, "torture_cache: %s (object %p)\n", what, p);
	abort();
}

static void acquire(struct worker *w, struct object *o)
{
	if (o->owner)
		die("an object was handed out that somebody holds", o);
	o->owner = w->id + 1;
	o->live = FRESH;
	w->own[w->owned++] = o;
}

static struct object *drop(struct worker *w)
{
	unsigned int i = (unsigned int)sm__random_below(&w->random, w->owned);
	struct object *o = w->own[i];

	w->own[i] = w->own[--w->owned];
	if (o->owner != w->id + 1)
		die("an object changed its owner", o);
	return o;
}

static void do_alloc(struct worker *w, unsigned int n)
{
	while (n-- && w->owned < OWN) {
		struct object *o = sm_cache_alloc(w->round->cache);

		if (o)
			acquire(w, o);
	}
}

static void do_free(struct worker *w, unsigned int n, bool rcu)
{
	while (n-- && w->owned) {
		struct object *o = drop(w);

		o->owner = 0;
		if (rcu)
			sm_cache_free_rcu(w->round->cache, o);
		else
			sm_cache_free(w->round->cache, o);
	}
}

static void do_bulk(struct worker *w)
{
	void *p[100];
	size_t n = 1 + sm__random_below(&w->random, 100), got;

	if (w->owned + n > OWN) {
		n = n < w->owned ? n : w->owned;
		for (size_t i = 0; i < n; i++) {
			struct object *o = drop(w);

			o->owner = 0;
			p[i] = o;
		}
		sm_cache_free_bulk(w->round->cache, n, p);
		return;
	}
	got = sm_cache_alloc_bulk(w->round->cache, n, p);
	for (size_t i = 0; i < got; i++)
		acquire(w, p[i]);
}

static void do_borrow(struct worker *w)
{
	size_t n = sm__random_below(&w->random, 90);
	struct object *o;

	if (!w->sheaf) {
		w->sheaf = sm_cache_borrow(w->round->cache, n);
	} else if (sm__random_below(&w->random, 3) == 0) {
		(void)sm_sheaf_refill(w->round->cache, &w->sheaf, n);
	} else if (sm__random_below(&w->random, 2)) {
		while (n-- && w->owned < OWN && (o = sm_sheaf_take(w->sheaf)))
			acquire(w, o);
	} else {
		sm_sheaf_return(w->round->cache, w->sheaf);
		w->sheaf = NULL;
	}
}

/* Hands an object to whoever comes by next: frees on other CPUs. */
static void do_mail(struct worker *w)
{
	_Atomic(struct object *) *box = &w->round->mailbox[sm__random_below(&w->random, MAILBOX)];
	struct object *out = NULL, *in;

	if (w->owned) {
		out = drop(w);
		out->owner = 0;
	}
	in = atomic_exchange_explicit(box, out, memory_order_acq_rel);
	if (in)
		acquire(w, in);
}

static void do_publish(struct worker *w)
{
	unsigned int i = (unsigned int)sm__random_below(&w->random, SHARED);
	struct object *o, *old;

	if (!w->round->readers || !w->owned)
		return;
	o = drop(w);
	o->owner = 0;
	o->live = LIVE;
	pthread_mutex_lock(&w->round->shared_lock[i]);
	old = w->round->shared[i];
	sm__rcu_assign_pointer(w->round->shared[i], o);
	pthread_mutex_unlock(&w->round->shared_lock[i]);
	sm_cache_free_rcu(w->round->cache, old);
}

static void do_read(struct worker *w)
{
	struct object *o;

	if (!w->round->readers)
		return;
	sm__rcu_read_lock();
	o = sm__rcu_dereference(w->round->shared[sm__random_below(&w->random, SHARED)]);
	for (int i = 0; o && i < 3; i++) {
		if (o->live != LIVE)
			die("a reader sees an object that was handed out again", o);
		sm__delay();
	}
	sm__rcu_read_unlock();
}

static void step(struct worker *w)
{
	unsigned int n = 1 + (unsigned int)sm__random_below(&w->random, 40);

	switch (sm__random_below(&w->random, 16)) {
	case 0 ... 3:
		do_alloc(w, n);
		break;
	case 4 ... 6:
		do_free(w, n, false);
		break;
	case 7 ... 8:
		do_free(w, n, true);
		break;
	case 9:
		do_bulk(w);
		break;
	case 10:
		do_borrow(w);
		break;
	case 11:
		do_mail(w);
		break;
	case 12:
		do_publish(w);
		break;
	case 13 ... 14:
		do_read(w);
		break;
	default:
		if (sm__random_below(&w->random, 64) == 0)
			sm_cache_barrier(w->round->cache);
		else if (sm__random_below(&w->random, 64) == 0)
			sm_cache_shrink(w->round->cache);
	}
}

static void *run_worker(void *arg)
{
	struct worker *w = arg;
	cpu_set_t set;

	sm__thread_enter();
	if (w->round->pinned) {
		CPU_ZERO(&set);
		CPU_SET(w->id % 2, &set);
		(void)sched_setaffinity(0, sizeof(set), &set);
	}
	for (uint64_t i = 0; i < w->round->operations; i++)
		step(w);
	atomic_fetch_add(&w->round->held, w->owned);
	if (w->sheaf)
		atomic_fetch_add(&w->round->held, sm_sheaf_size(w->sheaf));
	return NULL;
}

static void check(struct round *r, uint64_t outside)
{
	char why[200];

	if (!sm__cache_is_valid(r->cache, outside, why, sizeof(why))) {
		fprintf(stderr, "torture_cache: seed %llu, %llu outside: %s\n",
			(unsigned long long)r->seed, (unsigned long long)outside, why);
		abort();
	}
}

static void release_all(struct round *r, struct worker *workers)
{
	for (int i = 0; i < THREADS; i++) {
		do_free(&workers[i], OWN, i % 2);
		sm_sheaf_return(r->cache, workers[i].sheaf);
	}
	for (int i = 0; i < MAILBOX; i++)
		sm_cache_free(r->cache, atomic_load(&r->mailbox[i]));
	for (int i = 0; i < SHARED; i++)
		sm_cache_free(r->cache, r->shared[i]);
}

static void run_round(struct sm_cache_options *o, struct round *r)
{
	static struct worker workers[THREADS];
	pthread_t threads[THREADS];

	r->cache = sm_cache_create(o);
	if (!r->cache)
		die("no cache", NULL);
	memset(workers, 0, sizeof(workers));
	for (int i = 0; i < SHARED; i++)
		pthread_mutex_init(&r->shared_lock[i], NULL);
	for (unsigned int i = 0; i < THREADS; i++) {
		workers[i].round = r;
		workers[i].id = i;
		sm__random_seed(&workers[i].random, r->seed * THREADS + i);
		if (pthread_create(&threads[i], NULL, run_worker, &workers[i]))
			die("no thread", NULL);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < MAILBOX; i++)
		atomic_fetch_add(&r->held, atomic_load(&r->mailbox[i]) != NULL);
	for (int i = 0; i < SHARED; i++)
		atomic_fetch_add(&r->held, r->shared[i] != NULL);
	sm_cache_barrier(r->cache);
	check(r, atomic_load(&r->held));
	release_all(r, workers);
	sm_cache_barrier(r->cache);
	check(r, 0);
	if (sm_cache_destroy(r->cache))
		die("the cache would not go", NULL);
}

int main(int argc, char **argv)
{
	uint64_t seed, rounds = 0;
	double end;

	torture_begin("torture_cache", argc, argv);
	end = torture_now() + torture.seconds;
	for (seed = torture.seed; torture_now() < end; rounds++, seed++) {
		static const unsigned int nodes[] = { 0, 2, 4 };
		uint64_t kind = seed; /* another seed begins with other kinds */
		struct sm_cache_options o = {
			.name = "torture",
			.size = sizeof(struct object),
			.fake_nodes = nodes[kind % 3],
			.capacity = kind % 5 == 4 ? 5 : 0,
			.layer = kind % 4 == 3 ? SM_CACHE_LAYER_SLAB : SM_CACHE_LAYER_SHEAF,
			.no_barn = kind % 7 == 6,
			.no_rcu_sheaf = kind % 6 == 5,
			.type_stable = kind % 8 == 7,
			.rcu_age_ms = 1 + (unsigned int)(kind % 3),
		};
		static struct round r;

		memset(&r, 0, sizeof(r));
		r.seed = seed;
		r.pinned = kind % 2;
		r.readers = !o.type_stable;
		r.operations = SM_TSAN ? 1000 : 3000;
		(void)sm__percpu_force(kind / 2 % 2 ? SM__PERCPU_LOCK : SM__PERCPU_RSEQ);
		sm__delay_seed(seed, kind % 3 ? 50 : 0);
		run_round(&o, &r);
	}
	printf("torture_cache: %llu rounds\n", (unsigned long long)rounds);
	return 0;
}
