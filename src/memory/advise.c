/* SPDX-License-Identifier: MIT */
/*
 * advise.c - the page half of advice: marks on the entries and frames of a range.
 *
 * I1 As range.c I1. What only weakens an entry (clears A or D) is gathered too: a TLB that has a
 *    translation would go on using it unseen.
 */
#include "memory/gather.h"
#include "memory/memory.h"
#include "memory/pagefault.h"

#include <errno.h>
#include <string.h>

static sm_addr table_end(const struct sm__mm *mm, sm_addr addr, sm_addr end, unsigned level)
{
	sm_addr next = (addr | (sm__pt_span(mm, level) - 1)) + 1;

	return next && next < end ? next : end;
}

/* Calls visit for every present entry, table locked. */
static void each_present(struct sm__mm *mm, sm_addr start, sm_addr end,
			 void (*visit)(struct sm__mm *mm, struct sm__slot *slot, sm_addr addr,
				       struct sm__mmu_gather *g),
			 struct sm__mmu_gather *g)
{
	sm__mmu_gather_work(g, start, end);
	while (start < end) {
		struct sm__slot slot;
		sm_addr next;

		if (sm__pt_lock_near(mm, start, &g->near, &slot)) {
			start = table_end(mm, start, end, slot.level);
			continue;
		}
		next = table_end(mm, start, end, 1);
		if (slot.level) {
			/* A 2 MiB page is one entry: marked when the range covers it. */
			if (next - start == sm__pt_span(mm, 1))
				visit(mm, &slot, start, g);
			start = next;
		}
		for (; start < next; start += 1ull << mm->page_shift, slot.entry++)
			if (sm__pte_present(atomic_load_explicit(slot.entry, memory_order_relaxed)))
				visit(mm, &slot, start, g);
		sm__pt_unlock(&slot);
	}
}

static void weaken(struct sm__mm *mm, struct sm__slot *slot, sm_addr addr, uint64_t bits,
		   struct sm__mmu_gather *g)
{
	sm__pte e = atomic_load_explicit(slot->entry, memory_order_relaxed);

	if (!(e & bits))
		return;
	sm__pt_set(mm, slot, slot->entry, e & ~bits);
	sm__mmu_gather_range(g, addr, addr + sm__pt_span(mm, slot->level));
}

static void lazyfree_one(struct sm__mm *mm, struct sm__slot *slot, sm_addr addr,
			 struct sm__mmu_gather *g)
{
	sm__pte e = atomic_load_explicit(slot->entry, memory_order_relaxed);
	struct sm__frame *f = sm__frame(mm->pool, sm__pte_pfn(e));

	unsigned frames = slot->level ? SM__HUGE_FRAMES : 1;

	if (!(e & SM__PTE_ANON) || atomic_load_explicit(&f->refs, memory_order_acquire) != 1)
		return;
	/* Its only user, table locked: nobody else changes its flags (frame.h I5). */
	for (unsigned i = 0; i < frames; i++)
		atomic_store_explicit(&f[i].flags,
				      atomic_load_explicit(&f[i].flags, memory_order_relaxed) |
					      SM__F_LAZYFREE,
				      memory_order_release);
	weaken(mm, slot, addr, SM__PTE_D | SM__PTE_A, g);
}

/* Swapped pages have nothing worth keeping. */
static void drop_swapped(struct sm__mm *mm, sm_addr start, sm_addr end)
{
	/* relaxed: swap that comes on just now holds no page yet */
	if (!atomic_load_explicit(&mm->memory->swap, memory_order_relaxed))
		return;
	while (sm__mm_rss(mm, SM__RSS_SWAP) && start < end) {
		struct sm__slot slot;
		sm_addr next;

		if (sm__pt_lock(mm, start, false, &slot)) {
			start = table_end(mm, start, end, slot.level);
			continue;
		}
		next = table_end(mm, start, end, 1);
		for (; !slot.level && start < next; start += 1ull << mm->page_shift, slot.entry++) {
			sm__pte e = atomic_load_explicit(slot.entry, memory_order_relaxed);

			if (!e || sm__pte_present(e) || sm__pte_type(e) != SM__PTE_SWAP)
				continue;
			sm__pt_set(mm, &slot, slot.entry, 0);
			sm__swap_free(mm->memory, sm__pte_payload(e));
			sm__mm_rss_add(mm, SM__RSS_SWAP, -1);
		}
		sm__pt_unlock(&slot);
		start = next;
	}
}

void sm__mm_lazyfree(struct sm__mm *mm, sm_addr start, sm_addr end, struct sm__mmu_gather *g)
{
	drop_swapped(mm, start, end);
	each_present(mm, start, end, lazyfree_one, g);
}

static void age_one(struct sm__mm *mm, struct sm__slot *slot, sm_addr addr,
		    struct sm__mmu_gather *g)
{
	sm__pte e = atomic_load_explicit(slot->entry, memory_order_relaxed);
	struct sm__frame *f = sm__frame(mm->pool, sm__pte_pfn(e));

	/* As Linux: of private pages only those that this space alone has. */
	if ((e & SM__PTE_SPECIAL) ||
	    ((e & SM__PTE_ANON) && atomic_load_explicit(&f->refs, memory_order_relaxed) > 1))
		return;
	if (sm__frame_flags(f) & (SM__F_ACTIVE | SM__F_REFERENCED))
		sm__frame_clear(f, SM__F_ACTIVE | SM__F_REFERENCED);
	weaken(mm, slot, addr, SM__PTE_A, g);
}

void sm__mm_age(struct sm__mm *mm, sm_addr start, sm_addr end, struct sm__mmu_gather *g)
{
	each_present(mm, start, end, age_one, g);
}

/* ---------------------------------------------------------------- guard pages */

int sm__mm_guard_install(struct sm__mm *mm, sm_addr start, sm_addr end, struct sm__mmu_gather *g)
{
	while (start < end) {
		struct sm__slot slot;
		sm_addr next = table_end(mm, start, end, 1), at = start;
		int err;

		sm__mm_zap(mm, start, next, SM__ZAP_MARKERS, g);
		err = sm__pt_lock(mm, start, true, &slot);
		if (err)
			return err;
		for (; !slot.level && at < next; at += 1ull << mm->page_shift, slot.entry++) {
			/* A fault was faster than the lock: once more from here. */
			if (sm__pte_present(atomic_load_explicit(slot.entry, memory_order_relaxed)))
				break;
			sm__pt_set(mm, &slot, slot.entry, sm__pte_marker(SM__PTE_GUARD, 0));
		}
		sm__pt_unlock(&slot);
		start = at;
	}
	return 0;
}

void sm__mm_guard_remove(struct sm__mm *mm, sm_addr start, sm_addr end)
{
	while (start < end) {
		struct sm__slot slot;
		sm_addr next;

		if (sm__pt_lock(mm, start, false, &slot)) {
			start = table_end(mm, start, end, slot.level);
			continue;
		}
		next = table_end(mm, start, end, 1);
		for (; !slot.level && start < next; start += 1ull << mm->page_shift, slot.entry++)
			if (atomic_load_explicit(slot.entry, memory_order_relaxed) ==
			    sm__pte_marker(SM__PTE_GUARD, 0))
				sm__pt_set(mm, &slot, slot.entry, 0);
		sm__pt_unlock(&slot);
		start = next;
	}
}

/* ---------------------------------------------------------------- what is there */

void sm__mm_present(struct sm__mm *mm, sm_addr start, sm_addr end, unsigned char *vec)
{
	while (start < end) {
		struct sm__slot slot;
		sm_addr next;
		bool there = !sm__pt_lock(mm, start, false, &slot);

		next = table_end(mm, start, end, there ? 1 : slot.level);
		for (; start < next; start += 1ull << mm->page_shift, vec++) {
			*vec = there && sm__pte_present(atomic_load_explicit(slot.entry,
									     memory_order_relaxed));
			if (there && !slot.level)
				slot.entry++;
		}
		if (there)
			sm__pt_unlock(&slot);
	}
}

/* ---------------------------------------------------------------- merging equal pages */

/* A private page that only this entry maps, table locked; 0 where there is none. */
static sm__pte own_page(struct sm__mm *mm, sm_addr addr, struct sm__slot *slot)
{
	sm__pte e;

	if (sm__pt_lock(mm, addr, false, slot))
		return 0;
	e = atomic_load_explicit(slot->entry, memory_order_relaxed);
	if (!slot->level && sm__pte_present(e) && (e & SM__PTE_ANON) && !(e & SM__PTE_SPECIAL))
		return e;
	sm__pt_unlock(slot);
	return 0;
}

uint32_t sm__mm_merge_stable(struct sm__mm *mm, sm_addr addr)
{
	struct sm__slot slot;
	sm__pte e = own_page(mm, addr, &slot);

	if (!e)
		return 0;
	e = sm__pt_freeze(mm, &slot, addr, e);
	sm__frame_set(sm__frame(mm->pool, sm__pte_pfn(e)), SM__F_MERGED);
	/* here, where the entry's own reference stands (frame.h I5) */
	sm__frame_get(sm__frame(mm->pool, sm__pte_pfn(e)));
	sm__pt_unlock(&slot);
	return sm__pte_pfn(e);
}

bool sm__mm_merge(struct sm__mm *mm, sm_addr addr, uint32_t pfn, struct sm__mmu_gather *g)
{
	struct sm__slot slot;
	sm__pte e = own_page(mm, addr, &slot);
	bool merged = false;

	if (!e)
		return false;
	if (sm__pte_pfn(e) != pfn && sm__mmu_gather_has_room(g)) {
		e = sm__pt_freeze(mm, &slot, addr, e);
		if (!memcmp(sm__frame_ptr(mm->pool, sm__pte_pfn(e)), sm__frame_ptr(mm->pool, pfn),
			    sm__page_size(mm->pool))) {
			/* The caller keeps pfn alive with a reference of its own. */
			sm__frame_get(sm__frame(mm->pool, pfn));
			sm__pt_set(mm, &slot, slot.entry, sm__pte_make(pfn, e & ~SM__PTE_FRAME));
			sm__mmu_gather_frame(g, sm__pte_pfn(e));
			sm__mmu_gather_range(g, addr, addr + sm__pt_span(mm, 0));
			merged = true;
		}
	}
	sm__pt_unlock(&slot);
	return merged;
}
