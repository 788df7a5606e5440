/* SPDX-License-Identifier: MIT */
/*
 * cache_work.h - the work of `samara bench cache`: the same code for every allocator. The including file
 * defines, before it includes this,
 *
 *	WORK_ALLOC(heap)	an object of WORK_SIZE bytes, or NULL
 *	WORK_FREE(heap, p)
 *
 * heap is a void *, which malloc's peers ignore. Every object's first word is written once, as by any
 * user: an allocator that keeps its lists inside free objects has brought that line in already, one
 * that does not pays for it here.
 *
 * Each function returns the nanoseconds that n operations took; an operation is one object's way out and
 * back.
 */
#ifndef BENCH_CACHE_WORK_H
#define BENCH_CACHE_WORK_H

#include "peer.h"

#include <stddef.h>

enum {
	WORK_SIZE = 256,
	WORK_BATCH_MAX = 1024,
	WORK_WORST = 8, /* borrow: objects asked for in advance ... */
	WORK_USED = 3,	/* ... and used */
	WORK_RING = 512,
	WORK_BURST = 32, /* the producer tells the consumer of so many at once */
};

static inline void *work_alloc(void *heap)
{
	uint64_t *p = WORK_ALLOC(heap);

	if (!p)
		return NULL;
	*p = 1;
	BENCH_KEEP(p);
	return p;
}

static inline uint64_t work_pair(void *heap, uint64_t n)
{
	uint64_t start = bench_now();

	for (uint64_t i = 0; i < n; i++)
		WORK_FREE(heap, work_alloc(heap));
	return bench_now() - start;
}

/*
 * A batch out, then back in the order it came. Where the array lies changes from sample to sample: an
 * array that happens to agree with an allocator's own in the low 12 bits of its address makes the
 * processor see dependencies that are not there, three times the time for as long as the process lives.
 */
static inline uint64_t work_batch(void *heap, uint64_t n, unsigned batch)
{
	enum { STEP = 40, PLACES = 13 }; /* 320 bytes on, around a page and a bit */
	static void *room[WORK_BATCH_MAX + STEP * PLACES];
	static unsigned turn;
	void **p = room + turn++ % PLACES * STEP;
	uint64_t start = bench_now();

	for (uint64_t done = 0; done < n; done += batch) {
		for (unsigned i = 0; i < batch; i++)
			p[i] = work_alloc(heap);
		for (unsigned i = 0; i < batch; i++)
			WORK_FREE(heap, p[i]);
	}
	/* n is rounded up to whole batches: tell the time of n. */
	return (bench_now() - start) * n / ((n + batch - 1) / batch * batch);
}

/* One CPU allocates, the other frees; between them a ring for one writer and one reader. */
struct work_ring {
	void *heap;
	uint64_t head __attribute__((aligned(128))); /* written by the producer */
	uint64_t tail __attribute__((aligned(128))); /* written by the consumer */
	void *slot[WORK_RING] __attribute__((aligned(128)));
};

static inline void work_produce(struct work_ring *r, uint64_t n)
{
	uint64_t at = 0, room = WORK_RING;

	while (at < n) {
		uint64_t end = at + WORK_BURST < n ? at + WORK_BURST : n;

		while (end > room)
			room = __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE) + WORK_RING;
		for (; at < end; at++)
			r->slot[at % WORK_RING] = work_alloc(r->heap);
		__atomic_store_n(&r->head, at, __ATOMIC_RELEASE);
	}
}

static inline void work_consume(struct work_ring *r, uint64_t n)
{
	uint64_t at = 0;

	while (at < n) {
		uint64_t end = __atomic_load_n(&r->head, __ATOMIC_ACQUIRE);

		if (at == end)
			continue;
		for (; at < end; at++)
			WORK_FREE(r->heap, r->slot[at % WORK_RING]);
		__atomic_store_n(&r->tail, at, __ATOMIC_RELEASE);
	}
}

static inline void work_either(void *arg, unsigned thread, uint64_t n)
{
	if (thread == 0)
		work_produce(arg, n);
	else
		work_consume(arg, n);
}

static inline uint64_t work_producer_consumer(void *heap, uint64_t n)
{
	static struct work_ring ring;

	if (bench_cpus()->n < 2)
		return peer_fail("only one CPU is allowed");
	ring.heap = heap;
	ring.head = ring.tail = 0;
	return bench_parallel(2, work_either, &ring, n, NULL);
}

#endif
