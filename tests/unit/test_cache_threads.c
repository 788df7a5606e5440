/* SPDX-License-Identifier: MIT */
/*
 * One call of the cache inside another or beside it: in a signal handler, under a held slot, on a thread
 * that is moved from CPU to CPU, in a forked child (internal.h I3, I6).
 */
#include "cache_world.h"

static struct sm_cache *handler_cache;
static void *handler_object;

static void allocate_in_handler(int sig)
{
	(void)sig;
	handler_object = sm_cache_alloc(handler_cache);
}

/* An allocation that interrupts nothing of the cache may refill a sheaf, in a handler too. */
static void handler_can_refill(void **state)
{
	struct sm_cache *c = make((struct sm_cache_options){ .capacity = 8 });

	(void)state;
	handler_cache = c;
	signal(SIGUSR1, allocate_in_handler);
	raise(SIGUSR1);
	assert_non_null(handler_object);
	assert_int_equal(stats(c).sheaf_refill, 8);
	sm_cache_free(c, handler_object);
	assert_int_equal(sm_cache_destroy(c), 0);
}

/* One that interrupted a call on its thread (I6) takes the slow way, and still gets its object. */
static void nested_call_does_not_wait(void **state)
{
	struct sm_cache *c = make((struct sm_cache_options){ .capacity = 8 });
	struct sm__held held;
	void *p, *q;

	(void)state;
	p = sm_cache_alloc(c);
	sm__cache_enter();
	assert_true(sm__slot_trylock(c, &held));
	sm__spin_lock(&c->barns[0].lock);
	q = sm_cache_alloc(c); /* no slot: from the slab */
	assert_non_null(q);
	sm_cache_free(c, q);
	sm_cache_free_rcu(c, p);
	sm__slab_lock_all(&c->objects);
	assert_null(sm_cache_alloc(c)); /* nothing can be had */
	sm__slab_unlock_all(&c->objects);
	sm__spin_unlock(&c->barns[0].lock);
	sm__slot_unlock(&held);
	sm__cache_leave();
	assert_true(stats(c).lock_busy >= 3);
	sm_cache_barrier(c);
	check(c, 0);
	assert_int_equal(sm_cache_destroy(c), 0);
}

static _Atomic bool holding;

static void *hold_a_slot(void *arg)
{
	struct sm_cache *c = arg;
	struct sm__held held;

	pin(0);
	while (!sm__slot_trylock(c, &held))
		sched_yield();
	atomic_store(&holding, true);
	usleep(30000);
	sm__slot_unlock(&held);
	return NULL;
}

/* A flush that must succeed waits for whoever holds the slot. */
static void flush_must_succeed(void **state)
{
	struct sm_cache *c = make((struct sm_cache_options){ .capacity = 8 });
	void *p[20];
	pthread_t t;

	(void)state;
	alloc_n(c, p, 20);
	free_n(c, p, 20);
	atomic_store(&holding, false);
	pthread_create(&t, NULL, hold_a_slot, c);
	while (!atomic_load(&holding))
		usleep(1000);
	sm_cache_shrink(c);
	assert_int_equal(stats(c).objects_taken, 0);
	pthread_join(t, NULL);
	check(c, 0);
	assert_int_equal(sm_cache_destroy(c), 0);
}

struct mover {
	struct sm_cache *cache;
	_Atomic pid_t tid;
	_Atomic bool stop;
};

static void *move_about(void *arg)
{
	struct mover *m = arg;
	cpu_set_t set;

	for (unsigned int i = 0; !atomic_load(&m->stop); i++) {
		CPU_ZERO(&set);
		CPU_SET(i % 2, &set);
		(void)sched_setaffinity(atomic_load(&m->tid), sizeof(set), &set);
		usleep(50);
	}
	return NULL;
}

/* I3: between release and re-lock the thread is on another CPU. */
static void migration_at_any_moment(void **state)
{
	struct sm_cache *c = make((struct sm_cache_options){ .capacity = 3, .fake_nodes = 2 });
	struct mover m = { .cache = c, .tid = gettid() };
	static void *p[64];
	pthread_t t;

	(void)state;
	pthread_create(&t, NULL, move_about, &m);
	for (int round = 0; round < (SM_TSAN ? 300 : 3000); round++) {
		int n = 1 + round % 64;

		alloc_n(c, p, n);
		if (round % 4)
			free_n(c, p, n);
		else
			free_rcu_n(c, p, n);
	}
	atomic_store(&m.stop, true);
	pthread_join(t, NULL);
	pin(0);
	sm_cache_barrier(c);
	check(c, 0);
	assert_int_equal(sm_cache_destroy(c), 0);
}

static void *churn(void *arg)
{
	struct mover *m = arg;
	void *p[40];

	while (!atomic_load(&m->stop)) {
		for (int i = 0; i < 40; i++)
			p[i] = sm_cache_alloc(m->cache);
		for (int i = 0; i < 20; i++)
			sm_cache_free(m->cache, p[i]);
		for (int i = 20; i < 40; i++)
			sm_cache_free_rcu(m->cache, p[i]);
	}
	return NULL;
}

/* A child forked while others are inside the cache can go on with it. */
static void forked_child_goes_on(void **state)
{
	struct sm_cache *c = make((struct sm_cache_options){ .capacity = 5 });
	struct mover m = { .cache = c };
	pthread_t t[2];
	int status;

	(void)state;
	if (SM_TSAN)
		skip(); /* the sanitizer's runtime makes no threads in a forked child */
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, churn, &m);
	for (int i = 0; i < 20; i++) {
		pid_t pid = fork();

		if (!pid) {
			void *p[100];

			alarm(20);
			alloc_n(c, p, 100);
			free_n(c, p, 50);
			free_rcu_n(c, p + 50, 50);
			sm_cache_barrier(c);
			sm_cache_shrink(c);
			_exit(stats(c).rcu_in_flight ? 1 : 0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		usleep(1000);
	}
	atomic_store(&m.stop, true);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	sm_cache_barrier(c);
	check(c, 0);
	assert_int_equal(sm_cache_destroy(c), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(handler_can_refill),   BOTH(nested_call_does_not_wait),
		BOTH(flush_must_succeed),   BOTH(migration_at_any_moment),
		BOTH(forked_child_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
