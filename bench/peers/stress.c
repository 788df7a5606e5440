/* SPDX-License-Identifier: MIT */
/* stress.c - see stress.h. */
#include "stress.h"

#include <string.h>
#include <time.h>

struct areas {
	uint64_t addr[STRESS_AREAS];
	unsigned mapped;
};

static int map_all(const struct stress_system *sys, struct areas *a, struct bench_latency *l)
{
	for (a->mapped = 0; a->mapped < STRESS_AREAS; a->mapped++) {
		uint64_t start = bench_ticks();
		int64_t got = sys->map(sys->arg, a->mapped);

		bench_latency_add(l, bench_ticks() - start);
		if (got < 0)
			return (int)got;
		a->addr[a->mapped] = (uint64_t)got;
	}
	return 0;
}

static int unmap_all(const struct stress_system *sys, struct areas *a)
{
	int error = 0;

	while (a->mapped) {
		int got = sys->unmap(sys->arg, a->addr[--a->mapped]);

		error = error ? error : got;
	}
	return error;
}

static int cycle(const struct stress_system *sys, struct bench_latency *l)
{
	struct areas a;
	int error = map_all(sys, &a, l), end;

	for (unsigned i = 0; i < STRESS_AREAS && !error; i++)
		error = sys->touch(sys->arg, a.addr[i]);
	end = unmap_all(sys, &a);
	return error ? error : end;
}

int stress_run(const struct stress_system *sys, const struct stress_options *o,
	       struct stress_result *r)
{
	struct bench_latency latency;
	struct timespec pause = { .tv_sec = (time_t)(o->delay_ns / 1000000000),
				  .tv_nsec = (long)(o->delay_ns % 1000000000) };
	uint64_t slept = 0, start;
	int error = 0;

	memset(&latency, 0, sizeof(latency));
	bench_tick_ns();
	start = bench_now();
	for (uint64_t c = 1; c <= o->cycles && !error; c++) {
		error = cycle(sys, &latency);
		if (o->delay_every && c % o->delay_every == 0) {
			uint64_t from = bench_now();

			nanosleep(&pause, NULL);
			slept += bench_now() - from;
		}
	}
	r->whole = (double)(bench_now() - start - slept);
	r->calls = (double)latency.sum * bench_tick_ns();
	r->p50 = bench_latency_quantile(&latency, 0.5);
	r->p99 = bench_latency_quantile(&latency, 0.99);
	r->p999 = bench_latency_quantile(&latency, 0.999);
	r->max = (double)latency.max * bench_tick_ns();
	return error;
}
