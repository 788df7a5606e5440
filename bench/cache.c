/* SPDX-License-Identifier: MIT */
/*
 * cache.c - samara bench cache: objects of 256 bytes from a cache, against malloc of glibc, mimalloc, jemalloc
 * and tcmalloc, and against malloc + call_rcu + free.
 *
 * Cases: pair (alloc, free), batch32 and batch1024 (so many out, then back), producer-consumer (one CPU
 * allocates, the other frees), alloc-free_rcu (with a barrier at the end of each sample), borrow (eight
 * promised, three used, the rest returned). A suffix names a variant of ours: /capacity=120, /lock (the
 * trylock in place of restartable sequences), /no-rcu-sheaf (deferred by slab), /slab (layer=slab).
 */
#include "base/percpu.h"

#include <samara/cache.h>

#define WORK_ALLOC(heap)   sm_cache_alloc(heap)
#define WORK_FREE(heap, p) sm_cache_free(heap, p)

#include "harness.h"
#include "peers/cache_work.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static uint64_t pair(void *cache, uint64_t n)
{
	return work_pair(cache, n);
}

static uint64_t batch32(void *cache, uint64_t n)
{
	return work_batch(cache, n, 32);
}

static uint64_t batch1024(void *cache, uint64_t n)
{
	return work_batch(cache, n, 1024);
}

static uint64_t producer_consumer(void *cache, uint64_t n)
{
	return work_producer_consumer(cache, n);
}

static uint64_t alloc_free_rcu(void *cache, uint64_t n)
{
	uint64_t start = bench_now();

	for (uint64_t i = 0; i < n; i++)
		sm_cache_free_rcu(cache, work_alloc(cache));
	sm_cache_barrier(cache);
	return bench_now() - start;
}

static uint64_t borrow(void *cache, uint64_t n)
{
	uint64_t start = bench_now();

	for (uint64_t i = 0; i < n; i++) {
		struct sm_sheaf *s = sm_cache_borrow(cache, WORK_WORST);
		uint64_t *p[WORK_USED];

		for (int j = 0; j < WORK_USED; j++) {
			p[j] = sm_sheaf_take(s);
			*p[j] = 1;
			BENCH_KEEP(p[j]);
		}
		sm_sheaf_return(cache, s);
		for (int j = 0; j < WORK_USED; j++)
			sm_cache_free(cache, p[j]);
	}
	return bench_now() - start;
}

/* batch1024 by the bulk calls: no peer has them. */
static uint64_t bulk1024(void *cache, uint64_t n)
{
	void *p[1024];
	uint64_t start = bench_now();

	for (uint64_t done = 0; done < n; done += 1024) {
		size_t got = sm_cache_alloc_bulk(cache, 1024, p);

		for (size_t i = 0; i < got; i++)
			*(uint64_t *)p[i] = 1;
		BENCH_KEEP(p);
		sm_cache_free_bulk(cache, got, p);
	}
	return (bench_now() - start) * n / ((n + 1023) / 1024 * 1024);
}

static const struct {
	const char *name;
	uint64_t (*run)(void *cache, uint64_t n);
	const char *theirs; /* what the allocators are asked */
	const char *urcu;   /* what the call_rcu peers are asked */
} works[] = {
	{ "pair", pair, "pair", NULL },
	{ "batch32", batch32, "batch/32", NULL },
	{ "batch1024", batch1024, "batch/1024", NULL },
	{ "bulk1024", bulk1024, "batch/1024", NULL },
	{ "producer-consumer", producer_consumer, "producer-consumer", NULL },
	{ "alloc-free_rcu", alloc_free_rcu, NULL, "alloc-free_rcu" },
	{ "borrow", borrow, "borrow", NULL },
};

static const struct variant {
	const char *suffix;
	bool lock;
	struct sm_cache_options options;
} variants[] = {
	{ "", false, { .size = WORK_SIZE } },
	{ "/capacity=32", false, { .size = WORK_SIZE, .capacity = 32 } },
	{ "/capacity=120", false, { .size = WORK_SIZE, .capacity = 120 } },
	{ "/lock", true, { .size = WORK_SIZE } },
	{ "/no-rcu-sheaf", false, { .size = WORK_SIZE, .no_rcu_sheaf = true } },
	{ "/slab", false, { .size = WORK_SIZE, .layer = SM_CACHE_LAYER_SLAB } },
};

enum {
	ALLOCATORS = 4,
	RCU_OPERATIONS = 400000,
	URCUS = 2,
	WORKS = sizeof(works) / sizeof(works[0]),
	VARIANTS = sizeof(variants) / sizeof(variants[0]),
};

struct peers {
	struct bench_peer *allocators[ALLOCATORS];
	struct bench_peer *urcus[URCUS];
};

/* The rcu sheaf matters where something is freed through RCU, and nowhere else. */
static bool variant_matters(const struct variant *v, unsigned work)
{
	return !v->options.no_rcu_sheaf || works[work].urcu;
}

static int run_variant(struct bench *b, const struct variant *v, struct peers *peers)
{
	struct sm_cache_stats stats;
	struct sm_cache *cache;
	int error = 0;

	if (!sm__percpu_force(v->lock ? SM__PERCPU_LOCK : SM__PERCPU_RSEQ))
		bench_note(b, "no restartable sequences here: %s uses the trylock",
			   *v->suffix ? v->suffix : "ours");
	cache = sm_cache_create(&v->options);
	if (!cache)
		return bench_error(b, -errno, "sm_cache_create: %s", sm_cache_error());
	for (unsigned i = 0; i < WORKS && !error; i++) {
		char name[64];
		struct bench_case c = {
			.name = name,
			.unit = BENCH_NS,
			.ours = { .name = "samara", .run = works[i].run, .arg = cache }
		};
		unsigned n = works[i].theirs ? ALLOCATORS : *v->suffix ? 1 : URCUS;

		if (!variant_matters(v, i))
			continue;
		/* liburcu's barrier waits 10 ms whatever there is to do: not to be measured by itself. */
		c.n = works[i].urcu ? bench_scale(b, RCU_OPERATIONS) : 0;
		snprintf(name, sizeof(name), "%s%s", works[i].name, v->suffix);
		for (unsigned j = 0; j < n; j++)
			c.theirs[j] =
				works[i].theirs
					? bench_peer_side(peers->allocators[j], works[i].theirs)
					: bench_peer_side(peers->urcus[j], works[i].urcu);
		error = bench_measure(b, &c);
	}
	sm_cache_stats(cache, &stats);
	bench_note(b, "%s: capacity %u, barn %u/%u, %s, %llu slabs, %llu KiB",
		   *v->suffix ? v->suffix : "ours", stats.capacity, stats.barn_full,
		   stats.barn_empty, stats.rseq ? "rseq" : "lock", (unsigned long long)stats.slabs,
		   (unsigned long long)stats.bytes_committed >> 10);
	(void)sm_cache_destroy(cache);
	return error;
}

static int run(struct bench *b)
{
	static const char *const allocators[ALLOCATORS] = { "glibc", "mimalloc", "jemalloc",
							    "tcmalloc" };
	static const char *const urcus[URCUS] = { "liburcu", "liburcu-mimalloc" };
	enum sm__percpu_mode mode = sm__percpu_mode();
	struct peers peers;
	int error = 0;

	for (int i = 0; i < ALLOCATORS; i++)
		peers.allocators[i] = bench_peer_open(b, allocators[i]);
	for (int i = 0; i < URCUS; i++)
		peers.urcus[i] = bench_peer_open(b, urcus[i]);
	for (unsigned i = 0; i < VARIANTS && !error; i++)
		error = run_variant(b, &variants[i], &peers);
	(void)sm__percpu_force(mode);
	for (int i = 0; i < URCUS; i++)
		bench_peer_close(peers.urcus[i]);
	for (int i = 0; i < ALLOCATORS; i++)
		bench_peer_close(peers.allocators[i]);
	return error;
}

const struct benchmark bench_cache = {
	.name = "cache",
	.summary = "object caches against malloc, and free_rcu against call_rcu",
	.seconds = 60,
	.run = run,
};
