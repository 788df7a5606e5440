/* SPDX-License-Identifier: MIT */
/*
 * Calls of the cache inside a signal handler that interrupted a call of the cache, at every step of it.
 *
 * The processor's trap flag interrupts after each single instruction of the interrupted call: the handler
 * allocates and frees every time. A sequence that is interrupted gives up, so stepping sees what comes after
 * that; a timer that interrupts some microsecond of many calls sees the rest.
 */
#include "base/percpu.h"
#include "cache/internal.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <cmocka.h>

enum { SIZE = 128, KEPT = 64 };

static struct sm_cache *cache;
static void *kept[KEPT]; /* held by the handler from one signal to a later one */
static _Atomic unsigned int handled, refused;

/* Allocates, checks that nobody else has the object, keeps it for a while, frees it one way or the other. */
static void use_the_cache(void)
{
	unsigned int n = atomic_fetch_add_explicit(&handled, 1, memory_order_relaxed);
	void **place = &kept[n % KEPT];
	uint64_t *p;

	if (*place) {
		if (*(uint64_t *)*place != (uint64_t)(uintptr_t)*place)
			abort();
		*(uint64_t *)*place = 0;
		if (n % 3)
			sm_cache_free(cache, *place);
		else
			sm_cache_free_rcu(cache, *place);
		*place = NULL;
	}
	if (n % 2)
		return;
	p = sm_cache_alloc(cache);
	if (!p) {
		atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
		return;
	}
	*p = (uint64_t)(uintptr_t)p;
	*place = p;
}

static void on_signal(int sig)
{
	int saved = errno;

	(void)sig;
	errno = 12345;
	use_the_cache();
	if (errno != 12345)
		abort(); /* calls in handlers save errno */
	errno = saved;
}

static void check(uint64_t outside)
{
	char why[200] = "";

	for (int i = 0; i < KEPT; i++)
		outside += kept[i] != NULL;
	sm_cache_barrier(cache);
	if (!sm__cache_is_valid(cache, outside, why, sizeof(why)))
		fail_msg("%s", why);
}

static void pin(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
}

static void make_cache(enum sm_cache_layer layer)
{
	cache = sm_cache_create(&(struct sm_cache_options){ .name = "signals",
							    .size = SIZE,
							    .capacity = 3,
							    .barn_full = 2,
							    .layer = layer,
							    .rcu_age_ms = 60000 });
	assert_non_null(cache);
	memset(kept, 0, sizeof(kept));
}

static void end_cache(void)
{
	for (int i = 0; i < KEPT; i++) {
		if (kept[i])
			sm_cache_free(cache, kept[i]);
		kept[i] = NULL;
	}
	check(0);
	assert_int_equal(sm_cache_destroy(cache), 0);
}

#if defined(__x86_64__)
#define STEP_ON	 __asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" : : : "memory", "cc")
#define STEP_OFF __asm__ volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" : : : "memory", "cc")

/* Each of the calls, with main, spare and barn in every state they meet. */
static void stepped_calls(void **p, int n)
{
	for (int i = 0; i < n; i++) {
		STEP_ON;
		p[i] = sm_cache_alloc(cache);
		STEP_OFF;
		assert_non_null(p[i]);
	}
	for (int i = 0; i < n; i++) {
		STEP_ON;
		if (i % 4 == 3)
			sm_cache_free_rcu(cache, p[i]);
		else
			sm_cache_free(cache, p[i]);
		STEP_OFF;
	}
}

static void every_step_of_a_call(void **state)
{
	struct sigaction sa = { .sa_handler = on_signal }, old;
	void *p[40];

	(void)state;
	if (SM_TSAN)
		skip(); /* its runtime delays signals to its own points */
	pin();
	sigaction(SIGTRAP, &sa, &old);
	for (int i = 0; i < 4; i++) {
		(void)sm__percpu_force(i / 2 ? SM__PERCPU_RSEQ : SM__PERCPU_LOCK);
		make_cache((enum sm_cache_layer)(i % 2));
		atomic_store(&handled, 0);
		for (int round = 1; round <= 4; round++) {
			stepped_calls(p, 6 * round);
			check(0);
		}
		assert_true(atomic_load(&handled) > 10000);
		end_cache();
	}
	sigaction(SIGTRAP, &old, NULL);
}
#endif

static void some_moment_of_many_calls(void **state)
{
	struct sigaction sa = { .sa_handler = on_signal };
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2 };
	struct itimerspec every = { { 0, 20000 }, { 0, 20000 } }, never = { { 0, 0 }, { 0, 0 } };
	struct timespec start, now;
	timer_t timer;
	void *p[40];

	(void)state;
	pin();
	sigaction(SIGUSR2, &sa, NULL);
	for (int i = 0; i < 4; i++) {
		(void)sm__percpu_force(i % 2 ? SM__PERCPU_LOCK : SM__PERCPU_RSEQ);
		make_cache((enum sm_cache_layer)(i / 2));
		assert_int_equal(timer_create(CLOCK_MONOTONIC, &ev, &timer), 0);
		timer_settime(timer, 0, &every, NULL);
		clock_gettime(CLOCK_MONOTONIC, &start);
		do {
			for (int j = 0; j < 40; j++) {
				p[j] = sm_cache_alloc(cache);
				assert_non_null(p[j]);
				*(uint64_t *)p[j] = 0;
			}
			for (int j = 0; j < 40; j++) {
				if (j % 4 == 3)
					sm_cache_free_rcu(cache, p[j]);
				else
					sm_cache_free(cache, p[j]);
			}
			clock_gettime(CLOCK_MONOTONIC, &now);
		} while (now.tv_sec - start.tv_sec < 1 &&
			 (now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec <
				 300000000L);
		timer_settime(timer, 0, &never, NULL);
		timer_delete(timer);
		check(0);
		end_cache();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#if defined(__x86_64__)
		cmocka_unit_test(every_step_of_a_call),
#endif
		cmocka_unit_test(some_moment_of_many_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
