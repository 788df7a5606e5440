/* SPDX-License-Identifier: MIT */
/*
 * soft_advise.c - the page half of an advice, for one range of one VMA.
 *
 * I1 The caller holds mmap_lock or the VMA's lock; what is taken away goes into its gather, which it
 *    finishes without a VMA lock.
 */
#include "space/soft.h"
#include "space/soft_advise.h"

#include <errno.h>

/* 2 MiB pages that reach over the ends are split first, so that the rest of them stays. */
static int split_ends(struct sm__mm *mm, const struct sm__advise *a)
{
	int err = sm__pt_split_at(mm, a->start);

	return err ? err : sm__pt_split_at(mm, a->end);
}

static int collapse(struct sm__mm *mm, const struct sm__advise *a)
{
	uint64_t span = sm__pt_span(mm, 1);
	int prot = sm__prot_of(a->vma->flags), last = 0;

	for (sm_addr at = SM__ALIGN_UP(a->start, span); at < a->end && a->end - at >= span;
	     at += span) {
		int err = sm__mm_collapse(mm, at, prot);

		if (err)
			last = err;
	}
	return last;
}

static int advise(struct sm__mm *mm, struct sm__advise *a, struct sm__mmu_gather *g)
{
	int err = split_ends(mm, a);

	if (err)
		return err;
	switch (a->advice) {
	case SM_MADV_DONTNEED:
	case SM_MADV_DONTNEED_LOCKED:
		sm__mm_zap(mm, a->start, a->end, 0, g);
		return 0;
	case SM_MADV_FREE:
		sm__mm_lazyfree(mm, a->start, a->end, g);
		return 0;
	case SM_MADV_COLD:
		sm__mm_age(mm, a->start, a->end, g);
		return 0;
	case SM_MADV_PAGEOUT:
		(void)sm__mm_pageout(mm, a->start, a->end, false);
		return 0;
	case SM_MADV_GUARD_INSTALL:
		return sm__mm_guard_install(mm, a->start, a->end, g);
	case SM_MADV_GUARD_REMOVE:
		sm__mm_guard_remove(mm, a->start, a->end);
		return 0;
	case SM_MADV_COLLAPSE:
		return collapse(mm, a);
	default:
		return 0;
	}
}

int sm__soft_advise(struct sm__advise *a)
{
	struct sm__gather *g = a->gather ? a->gather : sm__op_gather(a->op);

	return advise(a->space->backend_state, a, sm__soft_gather(g));
}
