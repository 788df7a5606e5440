/* SPDX-License-Identifier: MIT */
/*
 * floor.c - samara bench floor: what this machine charges for the things every other figure is made
 * of. No peers: a table to read the others by, and the first thing to look at when two machines
 * disagree.
 */
#include "harness.h"
#include "peers/kernel.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ZERO_COLD_BYTES = 64 << 20 };

static uint64_t clock_reading(void *arg, uint64_t n)
{
	uint64_t start = bench_now();

	(void)arg;
	for (uint64_t i = 0; i < n; i++)
		BENCH_KEEP(bench_now());
	return bench_now() - start;
}

static uint64_t tick_reading(void *arg, uint64_t n)
{
	uint64_t start = bench_now();

	(void)arg;
	for (uint64_t i = 0; i < n; i++)
		BENCH_KEEP(bench_ticks());
	return bench_now() - start;
}

static uint64_t system_call(void *arg, uint64_t n)
{
	(void)arg;
	return kernel_syscall("", n);
}

static uint64_t atomic_exchange_pair(void *arg, uint64_t n)
{
	uint32_t word = 0;
	uint64_t start = bench_now();

	(void)arg;
	for (uint64_t i = 0; i < n; i++) {
		BENCH_KEEP(__atomic_exchange_n(&word, 1, __ATOMIC_ACQUIRE));
		__atomic_store_n(&word, 0, __ATOMIC_RELEASE);
	}
	return bench_now() - start;
}

static uint64_t mutex_pair(void *arg, uint64_t n)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	uint64_t start = bench_now();

	(void)arg;
	for (uint64_t i = 0; i < n; i++) {
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
	}
	return bench_now() - start;
}

/* A page zeroed: always the same one, or the next of 64 MiB. */
static uint64_t zero_pages(char *memory, uint64_t pages, uint64_t n)
{
	uint64_t start = bench_now();

	for (uint64_t i = 0; i < n; i++) {
		memset(memory + i % pages * KERNEL_PAGE, 0, KERNEL_PAGE);
		BENCH_KEEP(memory);
	}
	return bench_now() - start;
}

static uint64_t zero_hot(void *arg, uint64_t n)
{
	return zero_pages(arg, 1, n);
}

static uint64_t zero_cold(void *arg, uint64_t n)
{
	return zero_pages(arg, ZERO_COLD_BYTES / KERNEL_PAGE, n);
}

/* A dependent load from somewhere in 64 MiB: a cache miss, and mostly a TLB miss. */
static uint64_t random_load(void *arg, uint64_t n)
{
	const char *memory = arg;
	uint64_t at = 1, start = bench_now();

	for (uint64_t i = 0; i < n; i++)
		at = at * 6364136223846793005ULL + 1442695040888963407ULL +
		     (uint64_t)memory[(at >> 32) % ZERO_COLD_BYTES];
	BENCH_KEEP(at);
	return bench_now() - start;
}

struct ball {
	uint32_t at __attribute__((aligned(64)));
};

static void throw_back(void *arg, const bool *stop)
{
	struct ball *ball = arg;

	while (!bench_stopped(stop)) {
		if (__atomic_load_n(&ball->at, __ATOMIC_ACQUIRE) == 1)
			__atomic_store_n(&ball->at, 0, __ATOMIC_RELEASE);
	}
}

/*
 * A cache line to the other CPU and back. On one CPU it would take time slices: not measured there.
 */
static uint64_t line_round_trip(void *arg, uint64_t n)
{
	struct ball ball = { 0 };
	struct bench_beside *beside;
	uint64_t start;

	(void)arg;
	if (bench_cpus()->n < 2)
		return peer_fail("only one CPU is allowed");
	beside = bench_beside_start(throw_back, &ball);
	start = bench_now();
	for (uint64_t i = 0; i < n && beside; i++) {
		__atomic_store_n(&ball.at, 1, __ATOMIC_RELEASE);
		while (__atomic_load_n(&ball.at, __ATOMIC_ACQUIRE) == 1)
			;
	}
	start = bench_now() - start;
	bench_beside_stop(beside);
	return beside ? start : peer_fail("no second thread");
}

static int run(struct bench *b)
{
	char *memory = aligned_alloc(KERNEL_PAGE, ZERO_COLD_BYTES);
	const struct bench_side sides[] = {
		{ .name = "clock", .run = clock_reading },
		{ .name = "ticks", .run = tick_reading },
		{ .name = "system-call", .run = system_call },
		{ .name = "exchange-lock-pair", .run = atomic_exchange_pair },
		{ .name = "mutex-pair", .run = mutex_pair },
		{ .name = "random-load-64MiB", .run = random_load, .arg = memory },
		{ .name = "zero-page-hot", .run = zero_hot, .arg = memory },
		{ .name = "zero-page-cold", .run = zero_cold, .arg = memory },
		{ .name = "line-round-trip", .run = line_round_trip },
	};
	int error = memory ? 0 : bench_error(b, -12, "64 MiB");

	if (memory)
		memset(memory, 0, ZERO_COLD_BYTES);
	for (unsigned i = 0; i < sizeof(sides) / sizeof(sides[0]) && !error; i++) {
		struct bench_case c = { .name = sides[i].name, .unit = BENCH_NS, .ours = sides[i] };

		error = bench_measure(b, &c);
	}
	free(memory);
	return error;
}

const struct benchmark bench_floor = {
	.name = "floor",
	.summary = "what this machine charges: clock, call, lock, page, cache line",
	.seconds = 5,
	.run = run,
};
