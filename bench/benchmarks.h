/* SPDX-License-Identifier: MIT */
/*
 * benchmarks.h - every benchmark, one line each, in the order of `samara bench all`: X(NAME) names
 * the object bench_NAME.
 */
#ifndef BENCH_BENCHMARKS_H
#define BENCH_BENCHMARKS_H

#define BENCHMARKS(X)  \
	X(floor)       \
	X(cache)       \
	X(tree)        \
	X(fault)       \
	X(calls)       \
	X(madvise)     \
	X(mmap_stress) \
	X(word_count)  \
	X(app_cycle)   \
	X(page_fault1) \
	X(page_fault2) \
	X(page_fault3) \
	X(mmap1)       \
	X(mmap2)       \
	X(brk1)        \
	X(trace_read)

#endif
