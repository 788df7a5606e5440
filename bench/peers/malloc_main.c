/* SPDX-License-Identifier: MIT */
/*
 * malloc_main.c - malloc as a peer of the cache: one program per allocator, each linked with its own, so that
 * each is itself in a process of its own.
 */
#define WORK_ALLOC(heap)   ((void)(heap), malloc(WORK_SIZE))
#define WORK_FREE(heap, p) ((void)(heap), free(p))

#include <stdlib.h>

#include "cache_work.h"

static uint64_t pair(const char *arg, uint64_t n)
{
	(void)arg;
	return work_pair(NULL, n);
}

/* batch/32 */
static uint64_t batch(const char *arg, uint64_t n)
{
	unsigned long size = strtoul(arg, NULL, 10);

	if (!size || size > WORK_BATCH_MAX)
		return peer_fail("batch/SIZE with 1 to %d", WORK_BATCH_MAX);
	return work_batch(NULL, n, (unsigned)size);
}

static uint64_t producer_consumer(const char *arg, uint64_t n)
{
	(void)arg;
	return work_producer_consumer(NULL, n);
}

/*
 * What a program without borrowed sheaves does before it may not fail any more: it allocates the worst
 * case, uses what it needs, and gives the rest back.
 */
static uint64_t borrow(const char *arg, uint64_t n)
{
	uint64_t start = bench_now();

	(void)arg;
	for (uint64_t i = 0; i < n; i++) {
		void *p[WORK_WORST];

		for (int j = 0; j < WORK_WORST; j++)
			p[j] = malloc(WORK_SIZE);
		for (int j = 0; j < WORK_USED; j++) {
			*(uint64_t *)p[j] = 1;
			BENCH_KEEP(p[j]);
		}
		for (int j = WORK_USED; j < WORK_WORST; j++)
			free(p[j]);
		for (int j = 0; j < WORK_USED; j++)
			free(p[j]);
	}
	return bench_now() - start;
}

int main(int argc, char **argv)
{
	static const struct peer_case cases[] = {
		{ "pair", pair },
		{ "batch", batch },
		{ "producer-consumer", producer_consumer },
		{ "borrow", borrow },
		{ NULL, NULL },
	};

	return peer_main(argc, argv, cases);
}
