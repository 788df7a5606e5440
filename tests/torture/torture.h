/* SPDX-License-Identifier: MIT */
/*
 * torture.h - what every torture program has: its options, a time that ends, and a first failure that
 * is told and ends everything.
 *
 *     --seconds N   how long, 4
 *     --seed S      what choices and delays are drawn from; else the time. It is printed.
 *     --design D    one design only, where the program goes through several
 */
#ifndef TESTS_TORTURE_TORTURE_H
#define TESTS_TORTURE_TORTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct {
	const char *name, *design; /* design: NULL, all */
	double seconds;
	uint64_t seed;
	atomic_bool stop, failed;
} torture;

/* Tells the first failure of the program, and ends it. */
#define FAIL(...)                                                                              \
	do {                                                                                   \
		if (!atomic_exchange(&torture.failed, true)) {                                 \
			fprintf(stderr, "%s: ", torture.name);                                 \
			fprintf(stderr, __VA_ARGS__);                                          \
			fprintf(stderr, " (--seed %llu)\n", (unsigned long long)torture.seed); \
		}                                                                              \
		atomic_store(&torture.stop, true);                                             \
	} while (0)

static inline void torture_begin(const char *name, int argc, char **argv)
{
	torture.name = name;
	torture.seconds = 4;
	torture.seed = (uint64_t)time(NULL);
	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--seconds"))
			torture.seconds = atof(argv[i + 1]);
		else if (!strcmp(argv[i], "--seed"))
			torture.seed = strtoull(argv[i + 1], NULL, 0);
		else if (!strcmp(argv[i], "--design"))
			torture.design = argv[i + 1];
	}
	printf("%s: --seed %llu\n", name, (unsigned long long)torture.seed);
	fflush(stdout);
}

/* The designs to go through: the program's own n, or the one that was asked for. Return: how many. */
static inline size_t torture_designs(const char *const **designs, size_t n)
{
	if (!torture.design)
		return n;
	*designs = &torture.design;
	return 1;
}

/* relaxed: a flag that is only polled */
static inline bool going(void)
{
	return !atomic_load_explicit(&torture.stop, memory_order_relaxed);
}

/* Lets the others go on for a while, unless one fails; then nobody is going() any more. */
static inline void torture_for(double seconds)
{
	const struct timespec slice = { .tv_nsec = 10000000 };

	for (double left = seconds; left > 0 && going(); left -= 0.01)
		nanosleep(&slice, NULL);
	atomic_store(&torture.stop, true);
}

/* Before threads are started once more. */
static inline void torture_again(void)
{
	atomic_store(&torture.stop, false);
}

/* Seconds of a clock that only goes on. */
static inline double torture_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* What main returns. */
static inline int torture_end(void)
{
	return atomic_load(&torture.failed) ? 1 : 0;
}

#endif
