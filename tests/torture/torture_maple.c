/* SPDX-License-Identifier: MIT */
/*
 * torture_maple.c - readers beside a writer, with seeded delays at every step where they can meet
 * badly.
 *
 * Keys 0 .. COVERED-1 always have a value: the writer overwrites, splits and merges there but never
 * takes out. Keys from COVERED on come and go. Every value is an object that says which keys it was
 * stored for and which store it was; objects are freed one grace period after their last key was
 * overwritten. Readers check, by the letters of the tree's files:
 *
 *   whole    walk.c G1, write.c G1, rebuild.c G1
 *            a covered key is never without a value, and the value covers the key
 *   instant  walk.c G2
 *            two look-ups of one key by one reader never go back in time, and a look-up that begins
 *            after a store returned sees it or a later one
 *   alive    walk.c G3, pool.c G2
 *            an object found is not freed; nodes and objects are under the address sanitizer
 *   step     walk.c G4, cursor.c G1, G2, G3
 *            walks over all covered keys, both ways, meet no hole and end; each step sees what had
 *            returned before it; the ranges of a walk leave nothing out
 *   signal   a handler on the writer's own thread looks up at full speed
 *   order    pool.c G1, write.c G2, rebuild.c G2
 *            a step that finds its leaf dead gets on: the readers make progress
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>
#include "torture/torture.h"
#include "base/delay.h"
#include "base/random.h"
#include "base/rcu.h"
#include "maple/check.h"
#include "samara/rcu.h"
#include "samara/thread.h"

enum {
	COVERED = 600,
	KEYS = 900,
	READERS = 3,
	MAGIC = 0x6d61706c,
	POISON = 0x64656164,
};

struct object {
	_Atomic uint32_t magic;
	uint64_t first, last; /* the store's range */
	uint64_t number;      /* of the store, ascending */
	unsigned int keys;    /* that still have it (writer) */
	struct rcu_head rcu;
};

static struct sm_maple tree;
static struct object *owner[KEYS];	/* writer */
static _Atomic uint64_t returned[KEYS]; /* number of the last store to the key that has returned */
static _Atomic uint64_t loads, steps, handled, stores;

static void free_object(struct rcu_head *head)
{
	struct object *o = sm__container_of(head, struct object, rcu);

	atomic_store_explicit(&o->magic, POISON, memory_order_relaxed);
	free(o);
}

/* Acquire: pairs with the writer's release after the store returned. */
static uint64_t must_see(uint64_t key)
{
	return atomic_load_explicit(&returned[key], memory_order_acquire);
}

static void check_object(const struct object *o, uint64_t key, uint64_t least, const char *who)
{
	if (atomic_load_explicit(&o->magic, memory_order_relaxed) != MAGIC)
		FAIL("%s: key %lu: freed object", who, (unsigned long)key);
	else if (o->first > key || o->last < key)
		FAIL("%s: key %lu: value of %lu-%lu", who, (unsigned long)key,
		     (unsigned long)o->first, (unsigned long)o->last);
	else if (o->number < least)
		FAIL("%s: key %lu: store %lu after store %lu had returned", who, (unsigned long)key,
		     (unsigned long)o->number, (unsigned long)least);
}

static void load_some(struct sm__random *r, uint64_t *seen)
{
	uint64_t key = sm__random_below(r, KEYS), least = must_see(key);
	const struct object *o;

	sm_rcu_read_lock();
	o = sm_maple_load(&tree, key);
	if (o) {
		check_object(o, key, least > seen[key] ? least : seen[key], "load");
		seen[key] = o->number;
	} else if (key < COVERED) {
		FAIL("load: hole at key %lu", (unsigned long)key);
	}
	sm_rcu_read_unlock();
	atomic_fetch_add_explicit(&loads, 1, memory_order_relaxed);
}

/* A walk over the covered keys, entries only. */
static void walk_up(void)
{
	struct sm_cursor c;
	uint64_t at = 0, least = must_see(0);
	const struct object *o;

	sm_rcu_read_lock();
	sm_cursor_init(&c, &tree, 0, 0);
	o = sm_cursor_find(&c, COVERED - 1);
	while (at < COVERED && going()) {
		if (!o || c.index > at) {
			FAIL("walk up: hole at key %lu", (unsigned long)at);
			break;
		}
		if (c.last < at) {
			FAIL("walk up: back from %lu to %lu", (unsigned long)at,
			     (unsigned long)c.last);
			break;
		}
		check_object(o, at, least, "walk up");
		at = c.last + 1;
		if (at >= COVERED)
			break;
		least = must_see(at);
		o = sm_cursor_next(&c, COVERED - 1);
		atomic_fetch_add_explicit(&steps, 1, memory_order_relaxed);
	}
	sm_rcu_read_unlock();
}

static void walk_down(void)
{
	struct sm_cursor c;
	uint64_t at = COVERED - 1, least = must_see(at);
	const struct object *o;

	sm_rcu_read_lock();
	sm_cursor_init(&c, &tree, at, at);
	o = sm_cursor_find_rev(&c, 0);
	while (going()) {
		if (!o || c.last < at) {
			FAIL("walk down: hole at key %lu", (unsigned long)at);
			break;
		}
		if (c.index > at) {
			FAIL("walk down: back from %lu to %lu", (unsigned long)at,
			     (unsigned long)c.index);
			break;
		}
		check_object(o, at, least, "walk down");
		if (c.index == 0)
			break;
		at = c.index - 1;
		least = must_see(at);
		o = sm_cursor_prev(&c, 0);
		atomic_fetch_add_explicit(&steps, 1, memory_order_relaxed);
	}
	sm_rcu_read_unlock();
}

/* A walk over the keys that come and go, gaps included: ranges ascend and leave nothing out. */
static void walk_ranges(struct sm__random *r)
{
	uint64_t at = COVERED + sm__random_below(r, KEYS - COVERED);
	struct sm_cursor c;
	const struct object *o;

	sm_rcu_read_lock();
	sm_cursor_init(&c, &tree, at, at);
	o = sm_cursor_walk(&c);
	for (unsigned int i = 0; i < 40 && going(); i++) {
		if (c.index > at || c.last < at) {
			FAIL("ranges: at %lu, got %lu-%lu", (unsigned long)at,
			     (unsigned long)c.index, (unsigned long)c.last);
			break;
		}
		if (o && at < KEYS)
			check_object(o, at, 0, "ranges");
		if (c.last >= KEYS)
			break;
		at = c.last + 1;
		o = sm_cursor_next_range(&c, UINT64_MAX);
		atomic_fetch_add_explicit(&steps, 1, memory_order_relaxed);
	}
	sm_rcu_read_unlock();
}

static void *reader(void *arg)
{
	static _Thread_local uint64_t seen[KEYS];
	struct sm__random r;

	sm__random_seed(&r, (uint64_t)(uintptr_t)arg);
	while (going()) {
		for (unsigned int i = 0; i < 200; i++)
			load_some(&r, seen);
		walk_up();
		walk_down();
		walk_ranges(&r);
	}
	return NULL;
}

/* ------------------------------------------------------------------------------ writer ---- */

static struct object *new_object(uint64_t first, uint64_t last, uint64_t number)
{
	struct object *o = malloc(sizeof(*o));

	if (!o)
		abort();
	atomic_init(&o->magic, MAGIC);
	o->first = first;
	o->last = last;
	o->number = number;
	o->keys = 0;
	return o;
}

static void release_keys(uint64_t first, uint64_t last, struct object *o, uint64_t number)
{
	for (uint64_t k = first; k <= last; k++) {
		struct object *old = owner[k];

		owner[k] = o;
		if (o)
			o->keys++;
		/* Release: pairs with must_see(). */
		atomic_store_explicit(&returned[k], number, memory_order_release);
		if (old && --old->keys == 0)
			sm__call_rcu(&old->rcu, free_object);
	}
}

static void write_once(struct sm__random *r, uint64_t number)
{
	static const unsigned int lengths[] = { 1, 2, 4, 8, 40, 300 };
	uint64_t length = 1 + sm__random_below(r, lengths[sm__random_below(r, 6)]);
	bool covered = sm__random_below(r, 2);
	uint64_t low = covered ? 0 : COVERED, size = covered ? COVERED : KEYS - COVERED;
	uint64_t first = low + sm__random_below(r, size), last = first + length - 1;
	bool erase = !covered && sm__random_below(r, 2);
	struct object *o;
	struct sm_cursor c;
	int ret;

	if (last >= low + size)
		last = low + size - 1;
	o = erase ? NULL : new_object(first, last, number);
	sm_cursor_init_writer(&c, &tree, first, last);
	if (sm__random_below(r, 2)) {
		ret = sm_cursor_preallocate(&c, o);
		if (!ret)
			sm_cursor_store_prealloc(&c, o);
	} else {
		ret = sm_cursor_store(&c, o);
	}
	if (ret)
		FAIL("store: %d", ret);
	release_keys(first, last, o, number);
}

/* The same range with another value: changed in place. */
static void replace_once(struct sm__random *r, uint64_t number)
{
	uint64_t key = sm__random_below(r, KEYS);
	struct sm_cursor c;
	struct object *o;

	sm_cursor_init_writer(&c, &tree, key, key);
	if (!sm_cursor_walk(&c))
		return;
	o = new_object(c.index, c.last, number);
	if (sm_cursor_store(&c, o))
		FAIL("replace");
	release_keys(c.index, c.last, o, number);
}

static void on_timer(int signal)
{
	static uint64_t state;
	int saved = errno;
	uint64_t key = (state = state * 6364136223846793005ULL + 1442695040888963407ULL) >> 33;
	const struct object *o;

	(void)signal;
	key %= COVERED;
	sm_rcu_read_lock();
	o = sm_maple_load(&tree, key);
	if (!o || atomic_load_explicit(&o->magic, memory_order_relaxed) != MAGIC ||
	    o->first > key || o->last < key) {
		atomic_store(&torture.failed, true);
		atomic_store(&torture.stop, true);
	}
	sm_rcu_read_unlock();
	atomic_fetch_add_explicit(&handled, 1, memory_order_relaxed);
	errno = saved;
}

static timer_t start_timer(void)
{
	struct sigaction sa = { .sa_handler = on_timer };
	struct sigevent ev = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN };
	/* Under the thread sanitizer a handler takes longer than the short period. */
	const long ns = SM_TSAN ? 200000 : 20000;
	struct itimerspec every = { { 0, ns }, { 0, ns } };
	timer_t timer;

	ev._sigev_un._tid = (int)syscall(SYS_gettid);
	sigaction(SIGRTMIN, &sa, NULL);
	if (timer_create(CLOCK_MONOTONIC, &ev, &timer) || timer_settime(timer, 0, &every, NULL)) {
		perror("timer");
		exit(1);
	}
	return timer;
}

static void writer(uint64_t seed, double until)
{
	uint64_t number = 1;
	struct sm__random r;
	const char *text;
	timer_t timer;

	sm__random_seed(&r, seed);
	timer = start_timer();
	while (going() && torture_now() < until) {
		for (unsigned int i = 0; i < 500; i++) {
			if (sm__random_below(&r, 4) == 0)
				replace_once(&r, ++number);
			else
				write_once(&r, ++number);
		}
		text = sm_maple_validate(&tree);
		if (text)
			FAIL("%s", text);
	}
	timer_delete(timer);
	atomic_store(&stores, number);
	torture_for(0);
}

static void run(enum sm_maple_node_free node_free, uint64_t seed, double seconds)
{
	const struct sm_maple_pool_options o = { .node_free = node_free };
	struct sm_maple_pool *pool = sm_maple_pool_create(&o);
	pthread_t thread[READERS];

	torture_again();
	if (!pool || sm_maple_init(&tree, pool))
		exit(1);
	sm__delay_seed(seed, 64);
	/* The writer's first store must be there before anybody looks. */
	release_keys(0, COVERED - 1, new_object(0, COVERED - 1, 0), 0);
	if (sm_maple_store_range(&tree, 0, COVERED - 1, owner[0]))
		exit(1);
	for (uintptr_t i = 0; i < READERS; i++)
		if (pthread_create(&thread[i], NULL, reader, (void *)(seed * 100 + i)))
			exit(1);
	writer(seed, torture_now() + seconds);
	for (unsigned int i = 0; i < READERS; i++)
		pthread_join(thread[i], NULL);
	sm__delay_seed(seed, 0);
	sm_maple_destroy(&tree);
	release_keys(0, KEYS - 1, NULL, 0);
	sm__rcu_barrier();
	if (sm_maple_pool_destroy(pool))
		FAIL("nodes were lost");
	printf("node_free %d: %lu stores, %lu loads, %lu steps, %lu loads in handlers\n", node_free,
	       (unsigned long)stores, (unsigned long)loads, (unsigned long)steps,
	       (unsigned long)handled);
	if (!loads || !steps || !handled)
		FAIL("nobody got anywhere");
}

int main(int argc, char **argv)
{
	torture_begin("torture_maple", argc, argv);
	if (sm_thread_attach())
		return 1;
	run(SM_MAPLE_FREE_SHEAF, torture.seed, torture.seconds / 2);
	if (!torture.failed)
		run(SM_MAPLE_FREE_CALL_RCU, torture.seed + 1, torture.seconds / 2);
	return torture_end();
}
