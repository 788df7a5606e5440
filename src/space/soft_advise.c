/* SPDX-License-Identifier: MIT */
/*
 * soft_advise.c - the page half of an advice, for one range of one VMA.
 *
 * I1 The caller holds mmap_lock or the VMA's lock; what is taken away goes into its gather, which
 *    it finishes without a VMA lock. Reading a file (READ) and broken pages (POISON, OFFLINE) come
 *    without any lock: they call functions of files.
 * I2 The gather of what takes something away is announced (gather.h I3): the caller's lock is shared.
 * I3 2 MiB pages that reach over the ends of a range are split first, so that the rest of them
 *    stays; a space that never had one is not searched for them.
 */
#include "space/soft_advise.h"
#include "space/soft.h"

#include <errno.h>

static int split_ends(struct sm__mm *mm, const struct sm__advise *a)
{
	int err;

	/* relaxed: what is missed here zap splits itself, if there is memory */
	if (sm__likely(!atomic_load_explicit(&mm->had_huge, memory_order_relaxed)))
		return 0;
	err = sm__pt_split_at(mm, a->start);
	return err ? err : sm__pt_split_at(mm, a->end);
}

static struct sm__mmu_gather *announced(const struct sm__advise *a)
{
	struct sm__mmu_gather *g = sm__soft_gather(a->gather);

	sm__mmu_gather_announce(g);
	return g;
}

/* ---- pages that are looked at one by one ---- */

static void fill_fault(struct sm__page_fault *pf, const struct sm__advise *a, sm_addr addr)
{
	struct sm__mm *mm = a->space->backend_state;
	const struct sm__vma *v = a->vma;

	*pf = (struct sm__page_fault){ .mm = mm,
				       .addr = addr,
				       .prot = sm__prot_of(v->flags),
				       .start = v->start,
				       .end = v->end };
	if (v->file) {
		pf->pages = sm__pages_bound(v->file);
		pf->index = sm__index_of(v, addr, mm->page_shift);
	}
}

/* A page of its own at addr, whatever the protection. */
static int own(const struct sm__advise *a, sm_addr addr)
{
	struct sm__page_fault pf;

	fill_fault(&pf, a, addr);
	pf.access = SM_ACCESS_WRITE;
	return sm__mm_fault(&pf) == SM__PAGE_DONE ? 0 : -ENOMEM;
}

/* Calls use on every entry of the range that wants says yes to; the entry may have changed by then.
 * */
struct each {
	bool (*wants)(struct sm__mm *mm, sm__pte e);
	int (*use)(const struct sm__advise *a, sm_addr addr);
};

static int each_entry(const struct sm__advise *a, const struct each *each)
{
	struct sm__mm *mm = a->space->backend_state;
	sm_addr addr = a->start;

	while (addr < a->end) {
		struct sm__slot slot;
		sm_addr next;
		bool wanted;
		int err;

		if (sm__pt_lock(mm, addr, false, &slot)) {
			next = (addr | (sm__pt_span(mm, slot.level) - 1)) + 1;
			if (!next)
				break;
			addr = next;
			continue;
		}
		next = (addr | (sm__pt_span(mm, slot.level) - 1)) + 1;
		wanted = !slot.level &&
			 each->wants(mm, atomic_load_explicit(slot.entry, memory_order_relaxed));
		sm__pt_unlock(&slot);
		err = wanted ? each->use(a, addr) : 0;
		if (err)
			return err;
		addr = next;
	}
	return 0;
}

static bool is_swapped(struct sm__mm *mm, sm__pte e)
{
	(void)mm;
	return e && !sm__pte_present(e) && sm__pte_type(e) == SM__PTE_SWAP;
}

static int swap_in(const struct sm__advise *a, sm_addr addr)
{
	struct sm__page_fault pf;

	fill_fault(&pf, a, addr);
	pf.access = SM_ACCESS_READ;
	(void)sm__mm_fault(&pf); /* what cannot be read is told when it is needed */
	return 0;
}

static bool is_merged(struct sm__mm *mm, sm__pte e)
{
	return sm__pte_present(e) && (e & SM__PTE_ANON) && !(e & SM__PTE_SPECIAL) &&
	       (sm__frame_flags(sm__frame(mm->pool, sm__pte_pfn(e))) & SM__F_MERGED);
}

/* ---- collapse ---- */

static bool is_in_the_way(struct sm__mm *mm, sm__pte e)
{
	if (sm__pte_present(e))
		return (e & SM__PTE_ANON) && !(e & SM__PTE_SPECIAL) &&
		       atomic_load_explicit(&sm__frame(mm->pool, sm__pte_pfn(e))->refs,
					    memory_order_relaxed) != 1;
	return e != 0;
}

static int clear_the_way(const struct sm__advise *a, sm_addr addr)
{
	struct sm__mm *mm = a->space->backend_state;
	struct sm__slot slot;
	bool marker = false;

	if (!sm__pt_lock(mm, addr, false, &slot)) {
		sm__pte e = atomic_load_explicit(slot.entry, memory_order_relaxed);

		marker = e && !sm__pte_present(e) && !is_swapped(mm, e);
		sm__pt_unlock(&slot);
	}
	return marker ? -EINVAL : own(a, addr);
}

enum { COLLAPSE_TRIES = 3 };

/* Shared and swapped pages become own ones first; markers are no pages. */
static int collapse(const struct sm__advise *a)
{
	static const struct each way = { is_in_the_way, clear_the_way };
	struct sm__mm *mm = a->space->backend_state;
	int err = -EAGAIN;

	for (int i = 0; i < COLLAPSE_TRIES && err == -EAGAIN; i++) {
		err = sm__mm_collapse(mm, a->start, sm__prot_of(a->vma->flags));
		if (err == -EAGAIN) {
			int cleared = each_entry(a, &way);

			if (cleared)
				return cleared;
		}
	}
	return err;
}

/* ---- files ---- */

static int read_ahead(struct sm__advise *a)
{
	struct sm__memory *m = sm__host_memory(a->space->host);
	struct sm__pages *pages;
	uint64_t nr;

	if (!m || sm__pages_of(m, a->file, &pages) || pages->is_volatile)
		return 0;
	if (sm__pages_refresh(pages, a->file))
		return 0;
	nr = sm__pages_count(pages);
	for (uint64_t i = a->first; i <= a->last && i < nr; i++)
		if (!sm__pages_is_ready(pages, i) && sm__pages_fetch(pages, a->file, i))
			break;
	return 0;
}

static int know(struct sm__advise *a)
{
	struct sm__memory *m = sm__host_memory(a->space->host);
	struct sm__pages *pages;

	return m ? sm__pages_of(m, a->file, &pages) : 0;
}

static void present(struct sm__mm *mm, struct sm__advise *a)
{
	struct sm__pages *pages = a->vma->file ? sm__pages_bound(a->vma->file) : NULL;
	uint64_t n = (a->end - a->start) >> mm->page_shift;
	uint64_t index = sm__index_of(a->vma, a->start, mm->page_shift);

	sm__mm_present(mm, a->start, a->end, a->vec);
	for (uint64_t i = 0; pages && i < n; i++)
		if (!a->vec[i])
			a->vec[i] = sm__pages_is_ready(pages, index + i);
}

int sm__soft_advise(struct sm__advise *a)
{
	static const struct each swapped = { is_swapped, swap_in }, merged = { is_merged, own };
	struct sm__mm *mm = a->space->backend_state;
	int err;

	switch (a->what) {
	case SM__PAGES_DISCARD:
		err = split_ends(mm, a);
		if (!err)
			sm__mm_zap(mm, a->start, a->end, 0, announced(a));
		return err;
	case SM__PAGES_LAZYFREE:
		sm__mm_lazyfree(mm, a->start, a->end, announced(a));
		return 0;
	case SM__PAGES_AGE:
		sm__mm_age(mm, a->start, a->end, announced(a));
		return 0;
	case SM__PAGES_OUT:
	case SM__PAGES_RECLAIM:
		/* droppable memory needs no swap: it may be gone at any time */
		if (a->vma->flags & SM_VM_DROPPABLE)
			sm__mm_lazyfree(mm, a->start, a->end, announced(a));
		err = split_ends(mm, a);
		if (!err)
			a->count =
				sm__mm_pageout(mm, a->start, a->end, a->what == SM__PAGES_RECLAIM);
		return 0;
	case SM__PAGES_WANT:
		/* relaxed: swap that comes on just now holds no page yet */
		return atomic_load_explicit(&mm->memory->swap, memory_order_relaxed) &&
				       sm__mm_rss(mm, SM__RSS_SWAP)
			       ? each_entry(a, &swapped)
			       : 0;
	case SM__PAGES_READ:
		return read_ahead(a);
	case SM__PAGES_KNOW:
		return know(a);
	case SM__PAGES_GUARD:
		if (!sm__flags_private(a->vma->flags))
			/* relaxed: a fork reads it under mmap_lock, later */
			atomic_store_explicit(&mm->shared_guards, true, memory_order_relaxed);
		err = split_ends(mm, a);
		return err ? err : sm__mm_guard_install(mm, a->start, a->end, announced(a));
	case SM__PAGES_UNGUARD:
		sm__mm_guard_remove(mm, a->start, a->end);
		return 0;
	case SM__PAGES_COLLAPSE:
		return collapse(a);
	case SM__PAGES_UNMERGE:
		return each_entry(a, &merged);
	case SM__PAGES_POISON:
	case SM__PAGES_OFFLINE:
		return sm__mm_poison(mm, a->start, a->what == SM__PAGES_OFFLINE);
	case SM__PAGES_PRESENT:
		present(mm, a);
		return 0;
	}
	return 0;
}
