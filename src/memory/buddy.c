/* SPDX-License-Identifier: MIT */
/*
 * buddy.c - the lists of free blocks of 1, 2, 4 … 512 frames.
 *
 * I1 A block of order k begins at a multiple of 2^k; its buddy is the block at pfn ^ 2^k.
 * I2 Only the head of a free block carries SM__F_FREE and the order.
 *
 *      alloc order 1 from a block of order 3:      free of the same:
 *      |--------3--------|                         |1|1|---2---|
 *      |1|1|---2---|     ->  lower half in use     |---2---|---2---| -> |--------3--------|
 */
#include "memory/frame.h"

static void push(struct sm__pool *pool, uint32_t pfn, unsigned order, uint32_t known)
{
	struct sm__frame *f = sm__frame(pool, pfn);
	uint32_t next = pool->head[order];
	uint32_t flags = SM__F_FREE | (known & SM__F_KNOWN) | order << SM__F_ORDER_SHIFT;

	atomic_store_explicit(&f->flags, flags, memory_order_relaxed);
	f->buddy.next = next;
	f->buddy.prev = 0;
	if (next)
		sm__frame(pool, next)->buddy.prev = pfn;
	pool->head[order] = pfn;
	pool->nr_free += 1u << order;
}

void sm__buddy_unlink(struct sm__pool *pool, uint32_t pfn, unsigned order)
{
	struct sm__frame *f = sm__frame(pool, pfn);

	if (f->buddy.prev)
		sm__frame(pool, f->buddy.prev)->buddy.next = f->buddy.next;
	else
		pool->head[order] = f->buddy.next;
	if (f->buddy.next)
		sm__frame(pool, f->buddy.next)->buddy.prev = f->buddy.prev;
	atomic_store_explicit(&f->flags, 0, memory_order_relaxed);
	pool->nr_free -= 1u << order;
}

void sm__buddy_free(struct sm__pool *pool, uint32_t pfn, unsigned order, uint32_t known)
{
	while (order < SM__MAX_ORDER) {
		uint32_t other = pfn ^ (1u << order);
		uint32_t flags =
			atomic_load_explicit(&sm__frame(pool, other)->flags, memory_order_relaxed);

		if (!(flags & SM__F_FREE) || flags >> SM__F_ORDER_SHIFT != order)
			break;
		sm__buddy_unlink(pool, other, order);
		known &= flags;
		pfn &= ~(1u << order);
		order++;
	}
	push(pool, pfn, order, known);
}

uint32_t sm__buddy_alloc(struct sm__pool *pool, unsigned order, uint32_t *known)
{
	unsigned have = order;
	uint32_t pfn;

	while (have <= SM__MAX_ORDER && !pool->head[have])
		have++;
	if (have > SM__MAX_ORDER)
		return 0;
	pfn = pool->head[have];
	*known = sm__frame_flags(sm__frame(pool, pfn)) & SM__F_KNOWN;
	sm__buddy_unlink(pool, pfn, have);
	while (have > order) {
		have--;
		push(pool, pfn + (1u << have), have, *known);
	}
	return pfn;
}

bool sm__buddy_is_valid(struct sm__pool *pool)
{
	uint64_t free = 0;

	for (unsigned order = 0; order <= SM__MAX_ORDER; order++) {
		uint32_t prev = 0;

		for (uint32_t p = pool->head[order]; p; p = sm__frame(pool, p)->buddy.next) {
			uint32_t flags = sm__frame_flags(sm__frame(pool, p));
			uint32_t other = p ^ (1u << order);

			if (!(flags & SM__F_FREE) || flags >> SM__F_ORDER_SHIFT != order)
				return false;
			if (p & ((1u << order) - 1) || sm__frame(pool, p)->buddy.prev != prev)
				return false;
			if (order < SM__MAX_ORDER &&
			    (sm__frame_flags(sm__frame(pool, other)) & SM__F_FREE) &&
			    sm__buddy_order(sm__frame(pool, other)) == order)
				return false;
			free += 1u << order;
			prev = p;
		}
	}
	return free == pool->nr_free;
}
