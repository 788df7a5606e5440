/* SPDX-License-Identifier: MIT */
/*
 * arena.h - an allocator that asks for memory exactly as an arena of glibc's malloc does in a
 * thread that is not the first: what it does to the address space is the subject, not its speed.
 *
 *   heap    mmap(128 MiB, PROT_NONE, NORESERVE), the ends unmapped so that 64 MiB stay, aligned so
 *   start   mprotect of the first 132 KiB
 *   growth  one mprotect for the pages a request lacks: for small requests 4096 bytes each time
 *   large   requests of 128 KiB and more have a mapping of their own
 *
 * (Seen with strace under glibc 2.36: 21 720 of 21 731 mprotect calls of a thread that calls
 * malloc(24) 699 050 times are of 4096 bytes.)
 *
 * Included by a program that has defined wc_at() and a struct wc_mem with a member `sys`: addresses
 * are those of the memory that the program works on, which need not be its own. Freed chunks keep
 * their link in that memory.
 *
 * I1 top <= usable <= end; everything below usable is readable and writable.
 * I2 Chunks are multiples of 16 with 8 bytes before them (as malloc's header): sizes never change
 *    the count of pages.
 */
#ifndef BENCH_ARENA_H
#define BENCH_ARENA_H

#include <stdint.h>
#include <sys/mman.h>

/* The memory calls, on whatever address space: results as of the system calls. */
struct wc_system {
	int64_t (*map)(void *arg, uint64_t length, int prot, int flags);
	int (*unmap)(void *arg, uint64_t addr, uint64_t length);
	int (*protect)(void *arg, uint64_t addr, uint64_t length, int prot);
	void *arg;
};

#define ARENA_HEAP ((uint64_t)64 << 20)
enum {
	ARENA_PAGE = 4096,
	ARENA_FIRST = 132 << 10,
	ARENA_LARGE = 128 << 10,
	ARENA_BINS = 64,
	ARENA_HEAPS = 32
};

struct arena {
	uint64_t top, usable, end;
	uint64_t heaps[ARENA_HEAPS];
	unsigned n_heaps;
	uint64_t bins[ARENA_BINS]; /* heads of the lists of freed chunks, by size / 16 */
	uint64_t protects;	   /* growth steps */
};

static inline uint64_t arena_chunk(uint64_t size)
{
	uint64_t chunk = (size + 8 + 15) & ~(uint64_t)15;

	return chunk < 32 ? 32 : chunk;
}

static inline int arena_new_heap(struct arena *a, const struct wc_system *sys)
{
	int64_t got = sys->map(sys->arg, 2 * ARENA_HEAP, PROT_NONE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
	uint64_t base, head;

	if (got < 0 || a->n_heaps == ARENA_HEAPS)
		return -12;
	base = ((uint64_t)got + ARENA_HEAP - 1) & ~(ARENA_HEAP - 1);
	head = base - (uint64_t)got;
	if (head)
		sys->unmap(sys->arg, (uint64_t)got, head);
	sys->unmap(sys->arg, base + ARENA_HEAP, ARENA_HEAP - head);
	if (sys->protect(sys->arg, base, ARENA_FIRST, PROT_READ | PROT_WRITE))
		return -12;
	a->heaps[a->n_heaps++] = base;
	a->top = base + 16; /* chunks end up 16-byte aligned behind their header */
	a->usable = base + ARENA_FIRST;
	a->end = base + ARENA_HEAP;
	return 0;
}

/* Return: the address of size bytes, 16-byte aligned, or 0. */
static inline uint64_t arena_alloc(struct arena *a, struct wc_mem *m, uint64_t size)
{
	const struct wc_system *sys = m->sys;
	uint64_t chunk = arena_chunk(size), addr;

	if (size >= ARENA_LARGE) {
		int64_t got =
			sys->map(sys->arg, (size + ARENA_PAGE - 1) & ~(uint64_t)(ARENA_PAGE - 1),
				 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);

		return got < 0 ? 0 : (uint64_t)got;
	}
	if (chunk / 16 < ARENA_BINS && a->bins[chunk / 16]) {
		addr = a->bins[chunk / 16];
		a->bins[chunk / 16] = *(uint64_t *)wc_at(m, addr, false);
		return addr;
	}
	if (a->top + chunk > a->end && arena_new_heap(a, sys))
		return 0;
	if (a->top + chunk > a->usable) {
		uint64_t lack = a->top + chunk - a->usable;

		lack = (lack + ARENA_PAGE - 1) & ~(uint64_t)(ARENA_PAGE - 1);
		if (sys->protect(sys->arg, a->usable, lack, PROT_READ | PROT_WRITE))
			return 0;
		a->usable += lack;
		a->protects++;
	}
	addr = a->top;
	a->top += chunk;
	return addr;
}

static inline void arena_free(struct arena *a, struct wc_mem *m, uint64_t addr, uint64_t size)
{
	uint64_t chunk = arena_chunk(size);

	if (!addr)
		return;
	if (size >= ARENA_LARGE) {
		m->sys->unmap(m->sys->arg, addr,
			      (size + ARENA_PAGE - 1) & ~(uint64_t)(ARENA_PAGE - 1));
	} else if (chunk / 16 < ARENA_BINS) {
		*(uint64_t *)wc_at(m, addr, true) = a->bins[chunk / 16];
		a->bins[chunk / 16] = addr;
	} /* rarer sizes stay with the arena until it ends */
}

static inline void arena_end(struct arena *a, const struct wc_system *sys)
{
	for (unsigned i = 0; i < a->n_heaps; i++)
		sys->unmap(sys->arg, a->heaps[i], ARENA_HEAP);
}

#endif
