/* SPDX-License-Identifier: MIT */
/*
 * What went wrong in caches of this design elsewhere, each as a test, with restartable sequences and with
 * the trylock; after every step the books are checked (internal.h I1).
 */
#include "base/inject.h"
#include "base/percpu.h"
#include "base/thread.h"
#include "cache/internal.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { SIZE = 256, MANY = 4000 };

static void check(struct sm_cache *c, uint64_t outside)
{
	char why[200] = "";

	if (!sm__cache_is_valid(c, outside, why, sizeof(why)))
		fail_msg("%s", why);
}

static struct sm_cache *make(struct sm_cache_options o)
{
	struct sm_cache *c;

	o.size = o.size ? o.size : SIZE;
	c = sm_cache_create(&o);
	assert_non_null(c);
	return c;
}

static struct sm_cache_stats stats(struct sm_cache *c)
{
	struct sm_cache_stats s;

	sm_cache_stats(c, &s);
	return s;
}

/* All tests on one CPU: what they count is then exact. */
static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
}

static int with_sequences(void **state)
{
	(void)state;
	pin(0);
	return sm__percpu_force(SM__PERCPU_RSEQ) ? 0 : sm__percpu_force(SM__PERCPU_LOCK) - 1;
}

static int with_trylock(void **state)
{
	(void)state;
	pin(0);
	return sm__percpu_force(SM__PERCPU_LOCK) ? 0 : -1;
}

static void alloc_n(struct sm_cache *c, void **p, int n)
{
	for (int i = 0; i < n; i++) {
		p[i] = sm_cache_alloc(c);
		assert_non_null(p[i]);
	}
}

static void free_n(struct sm_cache *c, void **p, int n)
{
	for (int i = 0; i < n; i++)
		sm_cache_free(c, p[i]);
}

static void free_rcu_n(struct sm_cache *c, void **p, int n)
{
	for (int i = 0; i < n; i++)
		sm_cache_free_rcu(c, p[i]);
}

/* The flush of rcu sheaves that find the barn full goes to the slabs and nowhere else (I4). */
static void flush_does_not_come_back(void **state)
{
	struct sm_cache *c = make((struct sm_cache_options){ .capacity = 4, .barn_full = 1 });
	struct sm_cache_stats before, after;
	static void *p[MANY];

	(void)state;
	alloc_n(c, p, MANY);
	check(c, MANY);
	before = stats(c);
	free_rcu_n(c, p, MANY);
	sm_cache_barrier(c);
	check(c, 0);
	after = stats(c);
	assert_int_equal(after.free_fastpath, before.free_fastpath);
	assert_true(after.sheaf_flush >= MANY - 100);
	assert_int_equal(after.rcu_in_flight, 0);
	before = after;
	sm_cache_shrink(c);
	check(c, 0);
	after = stats(c);
	assert_int_equal(after.free_fastpath, before.free_fastpath);
	assert_int_equal(after.objects_taken, 0);
	assert_int_equal(after.slabs, 0);
	assert_int_equal(sm_cache_destroy(c), 0);
}

/* A returned sheaf is kept: as spare, then in the barn; nothing is flushed. */
static void returned_sheaves_are_kept(void **state)
{
	struct sm_cache *c = make((struct sm_cache_options){ .capacity = 16 });
	struct sm_sheaf *a = sm_cache_borrow(c, 10), *b = sm_cache_borrow(c, 10);
	void *p;
	struct sm_cache_stats s;

	(void)state;
	check(c, sm_sheaf_size(a) + sm_sheaf_size(b));
	p = sm_sheaf_take(a);
	check(c, 1 + sm_sheaf_size(a) + sm_sheaf_size(b));
	sm_sheaf_return(c, a);
	check(c, 1 + sm_sheaf_size(b));
	sm_sheaf_return(c, b);
	check(c, 1);
	s = stats(c);
	assert_int_equal(s.sheaf_return_fast, 1);
	assert_int_equal(s.sheaf_return_slow, 1);
	assert_int_equal(s.sheaf_flush, 0);
	assert_int_equal(s.sheaves_full, 1);
	a = sm_cache_borrow(c, 10);
	s = stats(c);
	assert_int_equal(s.sheaf_prefill_fast, 1);
	assert_int_equal(sm_sheaf_size(a), 15);
	assert_int_equal(sm_cache_destroy(c), -EBUSY);
	sm_sheaf_return(c, a);
	assert_int_equal(sm_cache_destroy(c), -EBUSY); /* p is out */
	sm_cache_free(c, p);
	assert_int_equal(sm_cache_destroy(c), 0);
}

static void empty_borrowed_sheaf_holds_the_cache(void **state)
{
	struct sm_cache *c = make((struct sm_cache_options){ .capacity = 4 });
	struct sm_sheaf *s = sm_cache_borrow(c, 4);
	void *p[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		p[i] = sm_sheaf_take(s);
	assert_null(sm_sheaf_take(s));
	free_n(c, p, 4);
	assert_int_equal(sm_cache_destroy(c), -EBUSY);
	sm_sheaf_return(c, s);
	assert_int_equal(sm_cache_destroy(c), 0);
}

/* A refill that fails half way loses nothing: every point below fails in turn. */
static void half_a_refill_leaks_nothing(void **state)
{
	(void)state;
	for (int layer = 0; layer < 2; layer++) {
		for (uint64_t nth = 1; nth < 12; nth++) {
			/* 16 objects of 4 KiB in a slab: 40 need three slabs */
			struct sm_cache *c = make(
				(struct sm_cache_options){ .size = 4096,
							   .capacity = 40,
							   .layer = (enum sm_cache_layer)layer });
			struct sm_sheaf *s;

			sm__inject_arm_below_from(nth);
			s = sm_cache_borrow(c, 40);
			sm__inject_disarm();
			check(c, s ? sm_sheaf_size(s) : 0);
			if (s)
				assert_true(sm_sheaf_size(s) >= 40);
			sm_sheaf_return(c, s);
			check(c, 0);
			assert_int_equal(sm_cache_destroy(c), 0);
		}
	}
}

static void failed_refill_keeps_the_sheaf(void **state)
{
	struct sm_cache *c = make((struct sm_cache_options){ .capacity = 8 });
	struct sm_sheaf *s = sm_cache_borrow(c, 3), *old = s;
	void *p = sm_sheaf_take(s);
	size_t left = sm_sheaf_size(s);

	(void)state;
	sm__inject_arm_from(1);
	assert_int_equal(sm_sheaf_refill(c, &s, left), 0); /* enough already */
	assert_int_equal(sm_sheaf_refill(c, &s, 8), -ENOMEM);
	assert_ptr_equal(s, old);
	assert_int_equal(sm_sheaf_size(s), left);
	assert_int_equal(sm_sheaf_refill(c, &s, 100), -ENOMEM);
	assert_ptr_equal(s, old);
	assert_int_equal(sm_sheaf_size(s), left);
	sm__inject_disarm();
	assert_int_equal(sm_sheaf_refill(c, &s, 100), 0);
	assert_true(sm_sheaf_size(s) >= 100);
	check(c, 1 + sm_sheaf_size(s));
	sm_sheaf_return(c, s);
	sm_cache_free(c, p);
	check(c, 0);
	assert_int_equal(sm_cache_destroy(c), 0);
}

static void oversize_gives_exactly_what_was_asked(void **state)
{
	struct sm_cache *c = make((struct sm_cache_options){ .capacity = 8 });
	struct sm_sheaf *s = sm_cache_borrow(c, 100);
	void *p[100];

	(void)state;
	for (int i = 0; i < 100; i++)
		assert_non_null(p[i] = sm_sheaf_take(s));
	assert_null(sm_sheaf_take(s));
	check(c, 100);
	assert_int_equal(stats(c).sheaf_prefill_oversize, 1);
	sm_sheaf_return(c, s);
	free_n(c, p, 100);
	assert_null(sm_cache_borrow(c, (size_t)1 << 40));
	check(c, 0);
	assert_int_equal(sm_cache_destroy(c), 0);
}

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

static void *hold_a_slot(void *arg)
{
	struct sm_cache *c = arg;
	struct sm__held held;

	pin(0);
	while (!sm__slot_trylock(c, &held))
		sched_yield();
	atomic_store(&reader_state, 1);
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
	atomic_store(&reader_state, 0);
	pthread_create(&t, NULL, hold_a_slot, c);
	while (!atomic_load(&reader_state))
		usleep(1000);
	sm_cache_shrink(c);
	assert_int_equal(stats(c).objects_taken, 0);
	pthread_join(t, NULL);
	check(c, 0);
	assert_int_equal(sm_cache_destroy(c), 0);
}

static void works_without_barns(void **state)
{
	struct sm_cache *c = make((struct sm_cache_options){ .capacity = 8, .no_barn = true });
	static void *p[MANY];
	struct sm_sheaf *s;

	(void)state;
	for (int round = 0; round < 3; round++) {
		alloc_n(c, p, MANY);
		check(c, MANY);
		free_n(c, p, MANY / 2);
		check(c, MANY / 2);
		free_rcu_n(c, p + MANY / 2, MANY / 2);
		sm_cache_barrier(c);
		check(c, 0);
		s = sm_cache_borrow(c, 8);
		assert_non_null(s);
		check(c, sm_sheaf_size(s));
		sm_sheaf_return(c, s);
		check(c, 0);
	}
	assert_int_equal(stats(c).barn_get, 0);
	assert_int_equal(stats(c).barn_put, 0);
	assert_int_equal(sm_cache_destroy(c), 0);
}

/* I5: the same sheaves are borrowed, in the barn, in flight, and borrowed again. */
static void one_sheaf_in_all_places(void **state)
{
	struct sm_cache *c =
		make((struct sm_cache_options){ .capacity = 4, .barn_full = 2, .barn_empty = 2 });
	struct sm_sheaf *s[3];
	void *p[12];

	(void)state;
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 3; i++) {
			s[i] = sm_cache_borrow(c, i == 2 ? 6 : 4);
			for (int j = 0; j < 4; j++)
				p[4 * i + j] = sm_sheaf_take(s[i]);
		}
		check(c, 12 + sm_sheaf_size(s[0]) + sm_sheaf_size(s[1]) + sm_sheaf_size(s[2]));
		for (int i = 0; i < 3; i++)
			sm_sheaf_return(c, s[i]);
		check(c, 12);
		free_rcu_n(c, p, 12);
		if (round % 3 == 0)
			sm_cache_barrier(c);
	}
	sm_cache_barrier(c);
	check(c, 0);
	assert_true(stats(c).sheaf_alloc - stats(c).sheaf_free <= 12);
	assert_int_equal(sm_cache_destroy(c), 0);
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

static int constructed;

static void construct(void *object)
{
	memset(object, 0x42, SIZE);
	constructed++;
}

static void constructor_runs_once_per_object(void **state)
{
	struct sm_cache *c =
		make((struct sm_cache_options){ .type_stable = true, .ctor = construct });
	unsigned char *p = sm_cache_alloc(c);
	int before = constructed;

	(void)state;
	assert_int_equal(p[100], 0x42);
	p[100] = 7;
	sm_cache_free(c, p);
	assert_ptr_equal(sm_cache_alloc(c), p);
	assert_int_equal(p[100], 7);
	assert_int_equal(constructed, before);
	sm_cache_free(c, p);
	assert_int_equal(sm_cache_destroy(c), 0);
}

/* Objects of another node go home, one by one, in bulk and through RCU. */
static void remote_frees_go_home(void **state)
{
	struct sm_cache *c = make((struct sm_cache_options){ .fake_nodes = 2, .rcu_age_ms = 1000 });
	static void *p[300];

	(void)state;
	if (sm__percpu_cpu() != 0 || sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip();
	alloc_n(c, p, 300);
	check(c, 300);
	pin(1);
	free_n(c, p, 100);
	assert_int_equal(stats(c).free_remote, 100);
	check(c, 200);
	sm_cache_free_bulk(c, 100, p + 100);
	assert_int_equal(stats(c).free_remote, 200);
	check(c, 100);
	free_rcu_n(c, p + 200, 100);
	assert_int_equal(stats(c).free_rcu_sheaf_fail, 100);
	sm_cache_barrier(c);
	check(c, 0);
	pin(0);
	assert_int_equal(sm_cache_destroy(c), 0);
}

static void bulk_takes_and_gives(void **state)
{
	static void *p[1000];

	(void)state;
	for (int layer = 0; layer < 2; layer++) {
		struct sm_cache *c = make((struct sm_cache_options){
			.capacity = 16, .layer = (enum sm_cache_layer)layer });

		for (size_t n = 1; n <= 1000; n = n * 3 + 1) {
			assert_int_equal(sm_cache_alloc_bulk(c, n, p), n);
			check(c, n);
			for (size_t i = 0; i < n; i++)
				*(size_t *)p[i] = i;
			for (size_t i = 0; i < n; i++)
				assert_int_equal(*(size_t *)p[i], i);
			if (n > 5) {
				sm_cache_free(c, p[3]);
				p[3] = NULL; /* is skipped */
			}
			sm_cache_free_bulk(c, n, p);
			check(c, 0);
		}
		assert_int_equal(sm_cache_destroy(c), 0);
	}
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

/* Every point below fails in turn, in a sequence that uses all calls; nothing is lost, nothing hangs. */
static void every_point_below_fails_in_turn(void **state)
{
	static void *p[200];

	(void)state;
	for (uint64_t nth = 1; nth < 60; nth++) {
		struct sm_cache *c = make((struct sm_cache_options){
			.capacity = 4,
			.layer = nth % 3 ? SM_CACHE_LAYER_SHEAF : SM_CACHE_LAYER_SLAB });
		struct sm_sheaf *s;
		size_t n = 0, outside;

		sm__inject_arm_below_from(nth);
		for (int i = 0; i < 100; i++) {
			p[n] = sm_cache_alloc(c);
			n += p[n] != NULL;
		}
		n += sm_cache_alloc_bulk(c, 50, p + n);
		s = sm_cache_borrow(c, 20);
		outside = s ? sm_sheaf_size(s) : 0;
		check(c, n + outside);
		while (n > 100)
			sm_cache_free(c, p[--n]);
		while (n > 50)
			sm_cache_free_rcu(c, p[--n]);
		sm_cache_barrier(c);
		check(c, n + outside);
		sm_sheaf_return(c, s);
		sm_cache_free_bulk(c, n, p);
		sm__inject_disarm();
		check(c, 0);
		assert_int_equal(sm_cache_destroy(c), 0);
	}
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

#if SM_VALIDATE
/* Runs fn in a child that must abort; its message must hold both texts. */
static void dies_with(void (*fn)(struct sm_cache *), const char *what)
{
	struct sm_cache *c = make((struct sm_cache_options){ .name = "victim" });
	char text[4096] = "";
	size_t got = 0;
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		signal(SIGABRT, SIG_DFL);
		dup2(fds[1], STDERR_FILENO);
		fn(c);
		_exit(0);
	}
	close(fds[1]);
	while (got < sizeof(text) - 1 && (n = read(fds[0], text + got, sizeof(text) - 1 - got)) > 0)
		got += (size_t)n;
	close(fds[0]);
	waitpid(pid, &status, 0);
	assert_true(WIFSIGNALED(status));
	assert_non_null(strstr(text, "victim"));
	assert_non_null(strstr(text, what));
	assert_int_equal(sm_cache_destroy(c), 0);
}

static void free_twice(struct sm_cache *c)
{
	void *p = sm_cache_alloc(c);

	sm_cache_free(c, p);
	sm_cache_free(c, p);
}

static void free_twice_rcu(struct sm_cache *c)
{
	void *p = sm_cache_alloc(c);

	sm_cache_free_rcu(c, p);
	sm_cache_free(c, p);
}

static void free_foreign(struct sm_cache *c)
{
	static char mine[SIZE];

	free_twice(make((struct sm_cache_options){ .name = "victim" }) == c ? c : c);
	sm_cache_free(c, mine);
}

static void free_stack(struct sm_cache *c)
{
	char mine[SIZE];

	sm_cache_free(c, mine);
}

static void free_of_another_cache(struct sm_cache *c)
{
	sm_cache_free(c, sm_cache_alloc(make((struct sm_cache_options){ .name = "other" })));
}

static void free_inside(struct sm_cache *c)
{
	sm_cache_free(c, (char *)sm_cache_alloc(c) + 16);
}

static void wrong_frees_are_named(void **state)
{
	(void)state;
	dies_with(free_twice, "double free");
	dies_with(free_twice_rcu, "double free");
	dies_with(free_foreign, "free");
	dies_with(free_stack, "foreign pointer");
	dies_with(free_of_another_cache, "another cache");
	dies_with(free_inside, "start of an object");
}
#endif

static void shapes(void **state)
{
	static const size_t sizes[] = { 1, 8, 16, 24, 100, 256, 1000, 4096, 70000, 131072 };

	(void)state;
	for (size_t i = 0; i < SM__ARRAY_SIZE(sizes); i++) {
		for (size_t align = 0; align <= 4096; align = align ? align * 16 : 1) {
			struct sm_cache *c =
				make((struct sm_cache_options){ .size = sizes[i], .align = align });
			static char *p[300];

			for (int j = 0; j < 300; j++) {
				p[j] = sm_cache_alloc(c);
				assert_non_null(p[j]);
				if (align)
					assert_int_equal((uintptr_t)p[j] % align, 0);
				memset(p[j], j, sizes[i]);
			}
			for (int j = 0; j < 300; j++) {
				assert_int_equal((unsigned char)p[j][0], j & 0xff);
				assert_int_equal((unsigned char)p[j][sizes[i] - 1], j & 0xff);
			}
			check(c, 300);
			free_n(c, (void **)p, 300);
			check(c, 0);
			assert_int_equal(sm_cache_destroy(c), 0);
		}
	}
}

#define BOTH(test)                                            \
	{ #test "/rseq", test, with_sequences, NULL, NULL },  \
	{                                                     \
#test "/lock", test, with_trylock, NULL, NULL \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(flush_does_not_come_back),
		BOTH(returned_sheaves_are_kept),
		BOTH(empty_borrowed_sheaf_holds_the_cache),
		BOTH(half_a_refill_leaks_nothing),
		BOTH(failed_refill_keeps_the_sheaf),
		BOTH(oversize_gives_exactly_what_was_asked),
		BOTH(destroy_waits_for_readers),
		BOTH(barrier_is_complete),
		BOTH(handler_can_refill),
		BOTH(nested_call_does_not_wait),
		BOTH(flush_must_succeed),
		BOTH(works_without_barns),
		BOTH(one_sheaf_in_all_places),
		BOTH(old_sheaf_is_submitted),
		BOTH(type_stable_memory_outlives_readers),
		BOTH(constructor_runs_once_per_object),
		BOTH(remote_frees_go_home),
		BOTH(bulk_takes_and_gives),
		BOTH(exhaustion_waits_for_a_grace_period),
		BOTH(every_point_below_fails_in_turn),
		BOTH(migration_at_any_moment),
		BOTH(forked_child_goes_on),
		BOTH(shapes),
#if SM_VALIDATE
		BOTH(wrong_frees_are_named),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
