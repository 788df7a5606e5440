/* SPDX-License-Identifier: MIT */
/* gather.c - flush once, then free (invariants: gather.h). */
#include "memory/gather.h"
#include "base/inject.h"
#include "base/rcu.h"

#include <stdlib.h>

enum { MAX_BATCHES = 5 }; /* about 10 000 frames a flush, as Linux bounds it */

/* Dead tables on their way through a grace period. */
struct dead_tables {
	struct rcu_head rcu;
	struct sm__pool *pool;
	uint32_t first;
};

void sm__mmu_gather_begin(struct sm__mmu_gather *g, struct sm__mm *mm)
{
	g->mm = mm;
	g->start = g->work_start = UINT64_MAX;
	g->end = g->work_end = 0;
	g->announced = false;
	g->batches = NULL;
	g->nr_batches = 0;
	g->tables = 0;
	g->nr = 0;
	g->near.table = g->copy.table = NULL;
	for (unsigned k = 0; k < SM__RSS_KINDS; k++)
		g->rss[k] = 0;
}

bool sm__mmu_gather_more(struct sm__mmu_gather *g)
{
	struct sm__mmu_gather_batch *b;

	if (g->nr_batches == MAX_BATCHES || sm__inject_fail())
		return false;
	b = malloc(sizeof(*b));
	if (!b)
		return false;
	b->nr = 0;
	b->next = g->batches;
	g->batches = b;
	g->nr_batches++;
	return true;
}

static void free_tables_now(struct sm__pool *pool, uint32_t pfn)
{
	while (pfn) {
		uint32_t next = sm__frame(pool, pfn)->table.next;

		/* What leaves its parent is empty (mm.h I2), so the next table need not be zeroed. */
		sm__frame_put_clean(pool, pfn);
		pfn = next;
	}
}

static void free_tables_rcu(struct rcu_head *head)
{
	struct dead_tables *d = sm__container_of(head, struct dead_tables, rcu);

	free_tables_now(d->pool, d->first);
	free(d);
}

static void free_tables(struct sm__mmu_gather *g)
{
	struct dead_tables *d = sm__inject_fail() ? NULL : malloc(sizeof(*d));

	if (d) {
		d->pool = g->mm->pool;
		d->first = g->tables;
		sm__call_rcu(&d->rcu, free_tables_rcu);
	} else {
		sm__rcu_synchronize();
		free_tables_now(g->mm->pool, g->tables);
	}
	g->tables = 0;
}

/* Drops the references; what nobody else holds goes back in one piece. */
static void drop_frames(struct sm__pool *pool, uint32_t *pfns, uint32_t n)
{
	uint32_t gone = 0;

	for (uint32_t i = 0; i < n; i++)
		if (sm__frame_drop(sm__frame(pool, pfns[i])))
			pfns[gone++] = pfns[i];
	if (gone)
		sm__frame_free_many(pool, pfns, gone);
}

/* Whether somebody else has taken entries away and not told the TLBs (I3). */
static bool others_pending(struct sm__mmu_gather *g)
{
	/* acquire: pairs with the release in finish; who is no longer counted has told them */
	return atomic_load_explicit(&g->mm->tlb.pending, memory_order_acquire) > g->announced;
}

void sm__mmu_gather_finish(struct sm__mmu_gather *g)
{
	sm__mmu_gather_flush(g);
	if (!g->announced)
		return;
	g->announced = false;
	/* release: after the acknowledgements; pairs with others_pending */
	atomic_fetch_sub_explicit(&g->mm->tlb.pending, 1, memory_order_release);
}

void sm__mmu_gather_flush(struct sm__mmu_gather *g)
{
	struct sm__pool *pool = g->mm->pool;

	for (unsigned k = 0; k < SM__RSS_KINDS; k++) {
		if (g->rss[k])
			sm__mm_rss_add(g->mm, (enum sm__rss)k, g->rss[k]);
		g->rss[k] = 0;
	}
	if (sm__unlikely(g->work_start < g->work_end && others_pending(g)))
		sm__mmu_gather_range(g, g->work_start, g->work_end);
	if (g->start < g->end)
		sm__tlb_wait(&g->mm->tlb, sm__tlb_shoot(&g->mm->tlb, g->start, g->end));
	g->start = UINT64_MAX;
	g->end = 0;
	if (g->nr)
		drop_frames(pool, g->pfn, g->nr);
	g->nr = 0;
	while (g->batches) {
		struct sm__mmu_gather_batch *b = g->batches;

		g->batches = b->next;
		drop_frames(pool, b->pfn, b->nr);
		free(b);
	}
	g->nr_batches = 0;
	if (sm__unlikely(g->tables))
		free_tables(g);
}
