/* SPDX-License-Identifier: MIT */
/* stats.c - the figures of a space. Sums over slots are of about one moment, each exact in itself. */
#include "base/thread.h"
#include "space/soft.h"
#include "space/space.h"

#include <string.h>

static void copy_histogram(struct sm_histogram *out, struct sm__histogram *in)
{
	_Static_assert(SM__HISTOGRAM_BUCKETS == SM__ARRAY_SIZE(((struct sm_histogram *)0)->bucket),
		       "same buckets");
	out->count = atomic_load_explicit(&in->count, memory_order_relaxed);
	out->sum = atomic_load_explicit(&in->sum, memory_order_relaxed);
	out->max = atomic_load_explicit(&in->max, memory_order_relaxed);
	for (int i = 0; i < SM__HISTOGRAM_BUCKETS; i++)
		out->bucket[i] = atomic_load_explicit(&in->bucket[i], memory_order_relaxed);
}

static void copy_lock_stats(struct sm_lock_stats *out, struct sm__lock_stats *in)
{
	_Static_assert((int)SM_CALL_KINDS <= (int)SM__LOCK_KINDS, "every call has a histogram");
	for (int side = 0; side < SM_LOCK_SIDES; side++) {
		out->acquired[side] =
			atomic_load_explicit(&in->acquired[side], memory_order_relaxed);
		out->contended[side] =
			atomic_load_explicit(&in->contended[side], memory_order_relaxed);
		copy_histogram(&out->wait[side], &in->wait[side]);
		copy_histogram(&out->hold[side], &in->hold[side]);
	}
	for (int k = 0; k < SM_CALL_KINDS; k++) {
		copy_histogram(&out->wait_by_call[k], &in->wait_by_kind[k]);
		copy_histogram(&out->hold_by_call[k], &in->hold_by_kind[k]);
	}
}

static void sum_counts(struct sm_space *s, struct sm_space_stats *out)
{
	for (int i = 0; i < SM__STAT_SLOTS; i++) {
		struct sm__fault_counts *c = &s->counts[i];

		out->faults += atomic_load_explicit(&c->faults, memory_order_relaxed);
		out->vma_lock_success += atomic_load_explicit(&c->success, memory_order_relaxed);
		out->vma_lock_abort += atomic_load_explicit(&c->abort, memory_order_relaxed);
		out->vma_lock_retry += atomic_load_explicit(&c->retry, memory_order_relaxed);
		out->vma_lock_miss += atomic_load_explicit(&c->miss, memory_order_relaxed);
		for (int r = 0; r < SM_FALLBACKS; r++)
			out->fallback[r] +=
				atomic_load_explicit(&c->reason[r], memory_order_relaxed);
	}
}

void sm_space_stats(struct sm_space *s, struct sm_space_stats *out)
{
	uint64_t since;

	sm__thread_enter();
	memset(out, 0, sizeof(*out));
	sm__mmap_read_lock(&s->lock, SM_CALL_MAPS, false, &since);
	out->map_count = s->map_count;
	out->map_peak = s->map_peak;
	out->total_vm = s->total_vm;
	out->data_vm = s->data_vm;
	out->exec_vm = s->exec_vm;
	out->stack_vm = s->stack_vm;
	out->locked_vm = s->locked_vm;
	out->committed = s->charged;
	out->peak_vm = s->peak_vm;
	out->merges = s->merges;
	out->splits = s->splits;
	sm__mmap_read_unlock(&s->lock, since);
	sum_counts(s, out);
	if (sm__space_mm(s)) {
		out->rss_anon = (uint64_t)sm__mm_rss(sm__space_mm(s), SM__RSS_ANON);
		out->rss_file = (uint64_t)sm__mm_rss(sm__space_mm(s), SM__RSS_FILE);
		out->swapped = (uint64_t)sm__mm_rss(sm__space_mm(s), SM__RSS_SWAP);
	}
	out->has_lock_stats = s->lock.stats != NULL;
	if (s->lock.stats)
		copy_lock_stats(&out->lock, s->lock.stats);
}
