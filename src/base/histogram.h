/* SPDX-License-Identifier: MIT */
/*
 * histogram.h - power-of-two histogram of nanoseconds that many threads add to.
 *
 * I1 bucket i counts values in [2^i, 2^(i+1)); bucket 0 also holds 0; the last takes what is above.
 * I2 Every member is added to with relaxed order: figures, they order nothing.
 */
#ifndef SM_BASE_HISTOGRAM_H
#define SM_BASE_HISTOGRAM_H

#include "base/base.h"

#include <time.h>

enum { SM__HISTOGRAM_BUCKETS = 48 };

struct sm__histogram {
	_Atomic uint64_t count, sum, max;
	_Atomic uint64_t bucket[SM__HISTOGRAM_BUCKETS];
};

static inline unsigned sm__histogram_index(uint64_t ns)
{
	unsigned i = ns > 1 ? 63u - (unsigned)__builtin_clzll(ns) : 0;

	return i < SM__HISTOGRAM_BUCKETS ? i : SM__HISTOGRAM_BUCKETS - 1;
}

static inline void sm__histogram_add(struct sm__histogram *h, uint64_t ns)
{
	uint64_t max = atomic_load_explicit(&h->max, memory_order_relaxed);

	atomic_fetch_add_explicit(&h->count, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&h->sum, ns, memory_order_relaxed);
	atomic_fetch_add_explicit(&h->bucket[sm__histogram_index(ns)], 1, memory_order_relaxed);
	while (ns > max && !atomic_compare_exchange_weak_explicit(
				   &h->max, &max, ns, memory_order_relaxed, memory_order_relaxed))
		;
}

/* CLOCK_MONOTONIC in nanoseconds. Signal-safe. Cost: about 20 ns through the vdso. */
static inline uint64_t sm__now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
