/* SPDX-License-Identifier: MIT */
/*
 * reclaim.c - pages leave memory because somebody needs frames.
 *
 *      look 1   idle pages go; pages that were used since the last look are marked idle
 *      look 2   what is still idle goes
 *      last     pages of files: clean ones, then dirty ones, which are written first
 *
 *      active  --look-->  inactive  --look-->  gone (dropped, unmapped, or in the swap file)
 *         ^  a use            |
 *         +-------------------+      MADV_COLD makes inactive at once, MADV_PAGEOUT takes at once
 *
 * I1 Locked, device and huge-file areas are passed over; private pages go only where there is swap,
 *    but for lazily freed and droppable ones.
 */
#include "memory/pagecache.h"
#include "base/thread.h"
#include "space/advice.h"
#include "space/soft.h"
#include "space/spaces.h"

#include <errno.h>

static const uint64_t never = SM_VM_LOCKED | SM_VM_PFNMAP | SM_VM_IO | SM_VM_HUGETLB;

struct reclaim {
	uint64_t wanted, taken;
};

static void one_area(struct reclaim *r, struct sm__op *op, struct sm__vma *v)
{
	struct sm_space *s = op->space;
	uint64_t step = s->page_size << 9; /* a table's worth, so that it ends soon after enough */

	for (sm_addr at = v->start; at < v->end && r->taken < r->wanted; at += step) {
		struct sm__advise a = { .what = SM__PAGES_RECLAIM,
					.space = s,
					.vma = v,
					.start = at,
					.end = v->end - at < step ? v->end : at + step };

		a.gather = sm__op_gather(op);
		(void)s->backend->advise(&a);
		r->taken += a.count;
	}
}

static void one_space(struct reclaim *r, struct sm_space *s)
{
	struct sm__tree_cursor c;
	struct sm__op op;

	if (!s->backend->advise)
		return;
	sm__op_init(&op, s, SM_CALL_MADVISE);
	if (sm__op_lock(&op, SM__READ, 0, s->o.range_end))
		return;
	c = sm__cursor(&s->tree);
	for (struct sm__vma *v = sm__seek(&c, 0); v && r->taken < r->wanted; v = sm__next(&c))
		if (!(v->flags & never))
			one_area(r, &op, v);
	sm__op_unlock(&op);
}

uint64_t sm_reclaim(struct sm_host *host, uint64_t pages)
{
	struct reclaim r = { .wanted = pages };
	struct sm__memory *m;

	for (int look = 0; look < 2 && r.taken < r.wanted; look++) {
		struct sm_space *s = NULL;

		while ((s = sm__spaces_next(host, s, false)))
			one_space(&r, s);
	}
	sm__thread_enter();
	m = r.taken < r.wanted ? sm__host_memory(host) : NULL;
	if (m)
		r.taken += sm__pages_shrink(m, r.wanted - r.taken);
	return r.taken;
}

int sm_host_swap_on(struct sm_host *host, int fd, uint64_t bytes)
{
	struct sm__memory *m = sm__host_memory(host);

	return m ? sm__swap_on(m, fd, bytes) : -ENOMEM;
}
