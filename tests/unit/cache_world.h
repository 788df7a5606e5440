/* SPDX-License-Identifier: MIT */
/*
 * cache_world.h - what the tests of the cache's insides share: a cache with its books checked, objects by
 * the hundred, and each test run with restartable sequences and with the trylock.
 */
#ifndef TESTS_CACHE_WORLD_H
#define TESTS_CACHE_WORLD_H

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

static inline void check(struct sm_cache *c, uint64_t outside)
{
	char why[200] = "";

	if (!sm__cache_is_valid(c, outside, why, sizeof(why)))
		fail_msg("%s", why);
}

static inline struct sm_cache *make(struct sm_cache_options o)
{
	struct sm_cache *c;

	o.size = o.size ? o.size : SIZE;
	c = sm_cache_create(&o);
	assert_non_null(c);
	return c;
}

static inline struct sm_cache_stats stats(struct sm_cache *c)
{
	struct sm_cache_stats s;

	sm_cache_stats(c, &s);
	return s;
}

/* All tests on one CPU: what they count is then exact. */
static inline void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
}

static inline int with_sequences(void **state)
{
	(void)state;
	pin(0);
	return sm__percpu_force(SM__PERCPU_RSEQ) ? 0 : sm__percpu_force(SM__PERCPU_LOCK) - 1;
}

static inline int with_trylock(void **state)
{
	(void)state;
	pin(0);
	return sm__percpu_force(SM__PERCPU_LOCK) ? 0 : -1;
}

static inline void alloc_n(struct sm_cache *c, void **p, int n)
{
	for (int i = 0; i < n; i++) {
		p[i] = sm_cache_alloc(c);
		assert_non_null(p[i]);
	}
}

static inline void free_n(struct sm_cache *c, void **p, int n)
{
	for (int i = 0; i < n; i++)
		sm_cache_free(c, p[i]);
}

static inline void free_rcu_n(struct sm_cache *c, void **p, int n)
{
	for (int i = 0; i < n; i++)
		sm_cache_free_rcu(c, p[i]);
}

/* Two tests: with sequences, which not every machine has, and with the trylock. */
#define BOTH(test)                                            \
	{ #test "/rseq", test, with_sequences, NULL, NULL },  \
	{                                                     \
#test "/lock", test, with_trylock, NULL, NULL \
	}

#endif
