/* SPDX-License-Identifier: MIT */
/*
 * cache_readers.c - a table whose readers take no lock: entries come from a cache, and go back through RCU.
 *
 * A sheaf is borrowed before the lock is taken, so that under the lock nothing can fail and nothing waits
 * for memory.
 */
#include <samara/cache.h>
#include <samara/rcu.h>
#include <samara/thread.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { PLACES = 64, ROUNDS = 20000 };

struct entry {
	int key;
	int value;
};

static struct sm_cache *entries;
static _Atomic(struct entry *) table[PLACES];
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool done;
static atomic_int wrong;

/* Reads without a lock: what it finds stays an entry until it leaves the section. */
static void *reader(void *unused)
{
	(void)unused;
	sm_thread_attach();
	while (!atomic_load(&done)) {
		for (int key = 0; key < PLACES; key++) {
			sm_rcu_read_lock();
			struct entry *e = atomic_load_explicit(&table[key], memory_order_acquire);

			if (e && (e->key != key || e->value % PLACES != key))
				atomic_fetch_add(&wrong, 1);
			sm_rcu_read_unlock();
		}
	}
	return NULL;
}

/* Replaces two entries at once; fails before it has changed anything, or not at all. */
static int replace_two(int key, int value)
{
	struct sm_sheaf *reserve = sm_cache_borrow(entries, 2);

	if (!reserve)
		return -1;
	pthread_mutex_lock(&table_lock);
	for (int i = 0; i < 2; i++) {
		int at = (key + i) % PLACES;
		struct entry *e = sm_sheaf_take(reserve); /* cannot fail: two were promised */

		*e = (struct entry){ at, value * PLACES + at };
		sm_cache_free_rcu(entries,
				  atomic_exchange_explicit(&table[at], e, memory_order_acq_rel));
	}
	pthread_mutex_unlock(&table_lock);
	sm_sheaf_return(entries, reserve);
	return 0;
}

int main(void)
{
	struct sm_cache_options options = { .name = "entries", .size = sizeof(struct entry) };
	struct sm_cache_stats stats;
	pthread_t thread;
	int error = 0;

	entries = sm_cache_create(&options);
	if (!entries) {
		fprintf(stderr, "no cache: %s\n", sm_cache_error());
		return 1;
	}
	pthread_create(&thread, NULL, reader, NULL);
	for (int i = 0; i < ROUNDS && !error; i++)
		error = replace_two(i % PLACES, i);
	atomic_store(&done, true);
	pthread_join(thread, NULL);
	for (int key = 0; key < PLACES; key++)
		sm_cache_free_rcu(entries, atomic_load(&table[key]));
	sm_cache_barrier(entries);
	sm_cache_stats(entries, &stats);
	printf("%llu entries went through %llu grace-period callbacks; %llu slabs of %zu bytes "
	       "held them\n",
	       (unsigned long long)stats.free_rcu_sheaf, (unsigned long long)stats.sheaf_submit,
	       (unsigned long long)stats.slabs, stats.slab_size);
	error |= sm_cache_destroy(entries) | atomic_load(&wrong);
	return error ? 1 : 0;
}
