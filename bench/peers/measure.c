/* SPDX-License-Identifier: MIT */
/* measure.c - clock, CPUs and pinned threads (measure.h). */
#include "measure.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct bench_cpus chosen;

uint64_t bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool bench_cpus_allowed(struct bench_cpus *cpus, int first)
{
	cpu_set_t set;
	unsigned at = 0;

	memset(cpus, 0, sizeof(*cpus));
	if (sched_getaffinity(0, sizeof(set), &set)) {
		cpus->n = 1;
		return first <= 0;
	}
	for (int c = 0; c < CPU_SETSIZE && cpus->n < BENCH_CPUS; c++) {
		if (!CPU_ISSET(c, &set))
			continue;
		if (first < 0 || c == first)
			at = cpus->n;
		cpus->cpu[cpus->n++] = c;
	}
	if (first >= 0 && cpus->cpu[at] != first)
		return false;
	/* Rotate downwards: the chosen one in front, then those below it, then the rest. */
	for (struct bench_cpus was = *cpus; was.n; was.n = 0) {
		for (unsigned i = 0; i < cpus->n; i++)
			cpus->cpu[i] = was.cpu[(at + cpus->n - i) % cpus->n];
	}
	return true;
}

void bench_cpus_set(const struct bench_cpus *cpus)
{
	chosen = *cpus;
}

const struct bench_cpus *bench_cpus(void)
{
	if (!chosen.n)
		bench_cpus_allowed(&chosen, -1);
	return &chosen;
}

void bench_pin(unsigned i)
{
	const struct bench_cpus *cpus = bench_cpus();
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpus->cpu[i % cpus->n], &set);
	sched_setaffinity(0, sizeof(set), &set); /* refused: it runs where it may */
}

struct team {
	pthread_barrier_t start;
	bench_body *body;
	void *arg;
	uint64_t n;
};

struct member {
	struct team *team;
	unsigned number;
	pthread_t thread;
	uint64_t begin, end;
};

static void *run_member(void *arg)
{
	struct member *m = arg;

	bench_pin(m->number);
	pthread_barrier_wait(&m->team->start);
	m->begin = bench_now();
	m->team->body(m->team->arg, m->number, m->team->n);
	m->end = bench_now();
	return NULL;
}

double bench_tick_ns(void)
{
	static double ns;

	if (ns == 0) {
		uint64_t from = bench_now(), ticks = bench_ticks(), to;

		do
			to = bench_now();
		while (to - from < 20 * 1000 * 1000);
		ns = (double)(to - from) / (double)(bench_ticks() - ticks);
	}
	return ns;
}

/* The middle of a bucket, in ticks. */
static double middle_of(unsigned b)
{
	unsigned power = b / BENCH_LATENCY_SUB + 4;
	uint64_t width = 1;

	if (b < BENCH_LATENCY_SUB)
		return b;
	width <<= power - 5;
	return (double)(width * (BENCH_LATENCY_SUB + b % BENCH_LATENCY_SUB)) +
	       (double)(width - 1) / 2;
}

double bench_latency_quantile(const struct bench_latency *l, double q)
{
	uint64_t want = (uint64_t)(q * (double)l->count), seen = 0;

	for (unsigned b = 0; b < BENCH_LATENCY_BUCKETS && l->count; b++) {
		seen += l->bucket[b];
		if (seen > want || seen == l->count)
			return middle_of(b) * bench_tick_ns();
	}
	return 0;
}

static bool start_members(struct member *members, unsigned threads)
{
	for (unsigned i = 1; i < threads; i++) {
		if (pthread_create(&members[i].thread, NULL, run_member, &members[i]))
			return false; /* the others wait at the barrier for ever: see the caller */
	}
	return true;
}

uint64_t bench_parallel(unsigned threads, bench_body *body, void *arg, uint64_t n,
			uint64_t *thread_ns)
{
	struct team team = { .body = body, .arg = arg, .n = n };
	struct member *members = calloc(threads, sizeof(*members));
	uint64_t first = UINT64_MAX, last = 0;

	if (!members)
		return 0;
	pthread_barrier_init(&team.start, NULL, threads);
	for (unsigned i = 0; i < threads; i++) {
		members[i].team = &team;
		members[i].number = i;
	}
	if (!start_members(members, threads))
		abort(); /* a benchmark without its threads measures nothing */
	run_member(&members[0]);
	for (unsigned i = 0; i < threads; i++) {
		if (i)
			pthread_join(members[i].thread, NULL);
		first = members[i].begin < first ? members[i].begin : first;
		last = members[i].end > last ? members[i].end : last;
		if (thread_ns)
			thread_ns[i] = members[i].end - members[i].begin;
	}
	pthread_barrier_destroy(&team.start);
	free(members);
	return last - first;
}

struct bench_beside {
	pthread_t thread;
	bench_beside_body *body;
	void *arg;
	bool running, stop;
};

static void *run_beside(void *arg)
{
	struct bench_beside *b = arg;

	bench_pin(1);
	__atomic_store_n(&b->running, true, __ATOMIC_RELEASE);
	b->body(b->arg, &b->stop);
	return NULL;
}

struct bench_beside *bench_beside_start(bench_beside_body *body, void *arg)
{
	struct bench_beside *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->body = body;
	b->arg = arg;
	if (pthread_create(&b->thread, NULL, run_beside, b)) {
		free(b);
		return NULL;
	}
	while (!__atomic_load_n(&b->running, __ATOMIC_ACQUIRE))
		sched_yield();
	return b;
}

void bench_beside_stop(struct bench_beside *b)
{
	if (!b)
		return;
	__atomic_store_n(&b->stop, true, __ATOMIC_RELAXED); /* join orders what follows */
	pthread_join(b->thread, NULL);
	free(b);
}
