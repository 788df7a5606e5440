/* SPDX-License-Identifier: MIT */
/*
 * measure.h - clock, CPUs and pinned threads: what both sides of a benchmark share, so that ours
 * and theirs are measured by the same code, in the same process or not. Usable from C++.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Monotonic nanoseconds (about 20 ns a call: never inside what is being measured per operation). */
uint64_t bench_now(void);

/*
 * A cheaper clock for single calls: the time-stamp counter where there is one (about 10 ns for a
 * pair of readings), bench_now() elsewhere. bench_tick_ns(): nanoseconds of one tick, measured
 * once.
 */
static inline uint64_t bench_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	return bench_now();
#endif
}
double bench_tick_ns(void);

/* Latencies by log-linear buckets: 32 a power of two, so a quantile is within 3 % of a sample. */
enum { BENCH_LATENCY_SUB = 32, BENCH_LATENCY_BUCKETS = 40 * BENCH_LATENCY_SUB };
struct bench_latency {
	uint64_t count, sum, max; /* ticks */
	uint32_t bucket[BENCH_LATENCY_BUCKETS];
};
static inline unsigned bench_latency_bucket(uint64_t ticks)
{
	unsigned power, b;

	if (ticks < BENCH_LATENCY_SUB)
		return (unsigned)ticks;
	power = 63 - (unsigned)__builtin_clzll(ticks);
	b = (power - 4) * BENCH_LATENCY_SUB + (unsigned)(ticks >> (power - 5)) - BENCH_LATENCY_SUB;
	return b < BENCH_LATENCY_BUCKETS ? b : BENCH_LATENCY_BUCKETS - 1;
}
static inline void bench_latency_add(struct bench_latency *l, uint64_t ticks)
{
	l->count++;
	l->sum += ticks;
	l->max = ticks > l->max ? ticks : l->max;
	l->bucket[bench_latency_bucket(ticks)]++;
}
/* Nanoseconds below which a part q of the samples lies; 0 without samples. */
double bench_latency_quantile(const struct bench_latency *l, double q);

/* Keeps the compiler from dropping a value, and from moving memory operations across. */
#define BENCH_KEEP(value) __asm__ volatile("" : : "g"(value) : "memory")

enum { BENCH_CPUS = 64 };

/*
 * The CPUs benchmarks may use, in the order in which threads are placed on them: thread i is pinned
 * to cpu[i % n]. The first is the one of --cpu (default: the last allowed one, since the first
 * tends to take interrupts), the second its neighbour.
 */
struct bench_cpus {
	int cpu[BENCH_CPUS];
	unsigned n;
};

/*
 * The CPUs this process may run on, first choice in front; first < 0: the default.
 * Return: false when first is not allowed.
 */
bool bench_cpus_allowed(struct bench_cpus *cpus, int first);
void bench_cpus_set(const struct bench_cpus *cpus);
const struct bench_cpus *bench_cpus(void);

/* Pins the calling thread as thread number i. */
void bench_pin(unsigned i);

/*
 * Runs body(arg, i, n) in `threads` pinned threads that start together; the calling thread is
 * number 0. Return: nanoseconds from the common start to the end of the last; 0 if a thread could
 * not be made. Each thread's own time is in thread_ns[i] when that is not NULL.
 */
typedef void bench_body(void *arg, unsigned thread, uint64_t n);
uint64_t bench_parallel(unsigned threads, bench_body *body, void *arg, uint64_t n,
			uint64_t *thread_ns);

/*
 * A thread that runs beside what is measured: body(arg, &stop) is called once on the second CPU and
 * returns soon after *stop becomes true. start returns when the thread runs.
 */
struct bench_beside;
typedef void bench_beside_body(void *arg, const bool *stop);
struct bench_beside *bench_beside_start(bench_beside_body *body, void *arg);
void bench_beside_stop(struct bench_beside *b);
/* How the body asks. */
static inline bool bench_stopped(const bool *stop)
{
	return __atomic_load_n(stop, __ATOMIC_RELAXED);
}

#ifdef __cplusplus
}
#endif
#endif
