/* SPDX-License-Identifier: MIT */
/* The cache and grace periods: who waits for which, and what is there meanwhile (internal.h I1, I5). */
#include "cache_world.h"

static _Atomic int reader_state; /* 1 in its section, 2 may leave, 3 has left */

static void *slow_reader(void *unused)
{
	(void)unused;
	sm__thread_enter();
	sm__rcu_read_lock();
	atomic_store(&reader_state, 1);
	while (atomic_load(&reader_state) != 2)
		usleep(1000);
	usleep(20000);
	atomic_store(&reader_state, 3);
	sm__rcu_read_unlock();
	return NULL;
}

static pthread_t start_reader(void)
{
	pthread_t t;

	atomic_store(&reader_state, 0);
	pthread_create(&t, NULL, slow_reader, NULL);
	while (atomic_load(&reader_state) != 1)
		usleep(1000);
	return t;
}

/* Destruction while sheaves are in flight, and a part-filled one is still with its CPU. */
static void destroy_waits_for_readers(void **state)
{
	static const bool deferred[] = { false, true };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct sm_cache *c = make((struct sm_cache_options){
			.capacity = 8, .no_rcu_sheaf = deferred[i], .rcu_age_ms = 1000 });
		static void *p[100];
		pthread_t reader;

		alloc_n(c, p, 100);
		reader = start_reader();
		free_rcu_n(c, p, 100);
		assert_true(stats(c).rcu_in_flight >= 96);
		atomic_store(&reader_state, 2);
		assert_int_equal(sm_cache_destroy(c), 0);
		assert_int_equal(atomic_load(&reader_state), 3);
		pthread_join(reader, NULL);
	}
}

struct freer {
	struct sm_cache *cache;
	void *p[500];
	int cpu;
};

static void *free_all_rcu(void *arg)
{
	struct freer *f = arg;

	pin(f->cpu);
	free_rcu_n(f->cache, f->p, 500);
	return NULL;
}

/* After the barrier nothing that was freed before it is under way, whoever freed it. */
static void barrier_is_complete(void **state)
{
	static struct freer freers[8];

	(void)state;
	for (int round = 0; round < 10; round++) {
		struct sm_cache *c = make(
			(struct sm_cache_options){ .rcu_age_ms = 1000, .fake_nodes = round % 3 });
		pthread_t t[8];

		for (int i = 0; i < 8; i++) {
			freers[i].cache = c;
			freers[i].cpu = i % 2;
			alloc_n(c, freers[i].p, 500);
		}
		for (int i = 0; i < 8; i++)
			pthread_create(&t[i], NULL, free_all_rcu, &freers[i]);
		for (int i = 0; i < 8; i++)
			pthread_join(t[i], NULL);
		sm_cache_barrier(c);
		assert_int_equal(stats(c).rcu_in_flight, 0);
		check(c, 0);
		assert_int_equal(sm_cache_destroy(c), 0);
	}
}

static void old_sheaf_is_submitted(void **state)
{
	struct sm_cache *c = make((struct sm_cache_options){ .rcu_age_ms = 10 });
	void *p = sm_cache_alloc(c);
	int ms = 0;

	(void)state;
	sm_cache_free_rcu(c, p);
	while (stats(c).free_rcu_sheaf == 0 || stats(c).rcu_in_flight) {
		assert_true(ms++ < 5000);
		usleep(1000);
	}
	assert_int_equal(stats(c).sheaf_age, 1);
	check(c, 0);
	assert_int_equal(sm_cache_destroy(c), 0);
}

/* A free object of a type-stable cache keeps its contents as long as a reader may look at it. */
static void type_stable_memory_outlives_readers(void **state)
{
	struct sm_cache *c = make((struct sm_cache_options){ .type_stable = true });
	uint64_t *p = sm_cache_alloc(c);

	(void)state;
	*p = 0x5afe5afe5afe5afe;
	sm__thread_enter();
	sm__rcu_read_lock();
	sm_cache_free(c, p);
	sm_cache_shrink(c); /* the slab is empty now, and may not go yet */
	usleep(20000);
	assert_int_equal(*(volatile uint64_t *)p, 0x5afe5afe5afe5afe);
	sm__rcu_read_unlock();
	sm__rcu_barrier();
	sm__rcu_barrier();
	assert_int_equal(stats(c).slab_free, 1);
	assert_int_equal(*(volatile uint64_t *)p,
			 0); /* mapped until the cache goes, and given back */
	assert_int_equal(sm_cache_destroy(c), 0);
}

/* Memory that waits for a grace period is waited for before an allocation gives up. */
static void exhaustion_waits_for_a_grace_period(void **state)
{
	struct sm_cache *c = make((struct sm_cache_options){ .capacity = 8, .rcu_age_ms = 60000 });
	static void *p[MANY];
	int n = 0;

	(void)state;
	p[n++] = sm_cache_alloc(c);
	sm__inject_arm_below_from(1);
	while (n < MANY && (p[n] = sm_cache_alloc(c)))
		n++;
	assert_true(n < MANY);
	check(c, (uint64_t)n);
	free_rcu_n(c, p, 8);
	assert_non_null(p[0] = sm_cache_alloc(c));
	sm__inject_disarm();
	check(c, (uint64_t)n - 7);
	sm_cache_free(c, p[0]);
	free_n(c, p + 8, n - 8);
	assert_int_equal(sm_cache_destroy(c), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(destroy_waits_for_readers),
		BOTH(barrier_is_complete),
		BOTH(old_sheaf_is_submitted),
		BOTH(type_stable_memory_outlives_readers),
		BOTH(exhaustion_waits_for_a_grace_period),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
