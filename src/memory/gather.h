/* SPDX-License-Identifier: MIT */
/*
 * gather.h - what an operation took away: the range to flush, the frames and tables to free.
 *
 *      gather_begin ... entries go, frames are gathered ... gather_finish
 *                                                             1 shoot the range down, once
 *                                                             2 drop the frames
 *                                                             3 tables after a grace period
 *
 * I1 A gathered frame keeps the reference of the entry that went until the TLBs have acknowledged.
 * I2 When there is no room for one more frame the owner lets go of its table lock and flushes
 *    early.
 * I3 An operation that shares its entries with others of its kind (it has no mmap_lock for write)
 *    announces its gather before it changes the first. Whoever flushes while another is announced
 *    tells the TLBs its whole range: an entry that it found gone may have been taken by the other,
 *    who has not told it yet (model: tests/proof/pending_flush.pml).
 */
#ifndef SM_MEMORY_GATHER_H
#define SM_MEMORY_GATHER_H

#include "memory/mm.h"

enum { SM__GATHER_INLINE = 256, SM__GATHER_BATCH = 2040 };

struct sm__mmu_gather_batch {
	struct sm__mmu_gather_batch *next;
	uint32_t nr;
	uint32_t pfn[SM__GATHER_BATCH];
};

struct sm__mmu_gather {
	struct sm__mm *mm;
	sm_addr start, end;		      /* to flush; start >= end: nothing */
	sm_addr work_start, work_end;	      /* what was looked at (I3) */
	struct sm__mmu_gather_batch *batches; /* newest first */
	uint32_t nr_batches;
	bool announced;		    /* I3 */
	uint32_t tables;	    /* list of dead tables through table.next */
	struct sm__pt_near near;    /* the last table this operation worked on */
	struct sm__pt_near copy;    /* of the child, in a fork */
	int32_t rss[SM__RSS_KINDS]; /* what mm is to be told, at the latest by the flush */
	uint32_t nr;
	uint32_t pfn[SM__GATHER_INLINE];
};

void sm__mmu_gather_begin(struct sm__mmu_gather *g, struct sm__mm *mm);
/* Waits for acknowledgements, frees. The gather can be used on. Context: no table lock, no RCU
 * section. */
void sm__mmu_gather_flush(struct sm__mmu_gather *g);
/* The last flush. The gather ends, or begins anew. Context: as flush. */
void sm__mmu_gather_finish(struct sm__mmu_gather *g);
/* Gets another batch; false: flush before going on. */
bool sm__mmu_gather_more(struct sm__mmu_gather *g);

static inline void sm__mmu_gather_range(struct sm__mmu_gather *g, sm_addr start, sm_addr end)
{
	if (start < g->start)
		g->start = start;
	if (end > g->end)
		g->end = end;
}

/* I3. Before the first entry changes; until finish. Context: any. */
static inline void sm__mmu_gather_announce(struct sm__mmu_gather *g)
{
	if (g->announced)
		return;
	g->announced = true;
	/* relaxed: the unlock of the first table that changes publishes it */
	atomic_fetch_add_explicit(&g->mm->tlb.pending, 1, memory_order_relaxed);
}

/* I3. The operation looks at the entries of [start, end). */
static inline void sm__mmu_gather_work(struct sm__mmu_gather *g, sm_addr start, sm_addr end)
{
	if (start < g->work_start)
		g->work_start = start;
	if (end > g->work_end)
		g->work_end = end;
}

/* Room for one frame? Ask before an entry is cleared. */
static inline bool sm__mmu_gather_has_room(struct sm__mmu_gather *g)
{
	return g->nr < SM__GATHER_INLINE || (g->batches && g->batches->nr < SM__GATHER_BATCH) ||
	       sm__mmu_gather_more(g);
}

static inline void sm__mmu_gather_frame(struct sm__mmu_gather *g, uint32_t pfn)
{
	if (g->nr < SM__GATHER_INLINE)
		g->pfn[g->nr++] = pfn;
	else
		g->batches->pfn[g->batches->nr++] = pfn;
}

#endif
