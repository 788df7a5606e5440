/* SPDX-License-Identifier: MIT */
/*
 * stress.h - the mmap stress test: five one-page readable file areas mapped, faulted in, unmapped;
 * the mmap calls are timed one by one, and the whole. After the experiment published with the sheaf
 * patches (mm, February 2025).
 */
#ifndef BENCH_STRESS_H
#define BENCH_STRESS_H

#include "measure.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { STRESS_AREAS = 5 };

/* On what it runs: area i is page i of the file. */
struct stress_system {
	int64_t (*map)(void *arg, unsigned i); /* an address, or -errno */
	int (*touch)(void *arg, uint64_t addr);
	int (*unmap)(void *arg, uint64_t addr);
	void *arg;
};

struct stress_options {
	uint64_t cycles;
	/*
	 * The thread sleeps so long after every so many cycles (0: never): deferred frees get done.
	 * Sleep is not part of any time.
	 */
	uint64_t delay_ns, delay_every;
};

/* Nanoseconds. */
struct stress_result {
	double calls;		    /* sum of the mmap calls */
	double whole;		    /* all cycles */
	double p50, p99, p999, max; /* of one mmap call */
};

/* Return: 0, or -errno of the call that failed (nothing stays mapped). */
int stress_run(const struct stress_system *sys, const struct stress_options *o,
	       struct stress_result *r);

#ifdef __cplusplus
}
#endif
#endif
