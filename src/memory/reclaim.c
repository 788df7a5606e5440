/* SPDX-License-Identifier: MIT */
/*
 * reclaim.c - pages leave memory: dropped, unmapped, or written to swap; and broken ones.
 *
 *      private page out:  lock   W away, TLBs told, +1 ref                 unlock
 *                         write the frame to a swap slot
 *                         lock   entry unchanged? -> swap entry, TLBs told  unlock
 *                         references dropped
 *      A write in between finds W gone, faults, and changes the entry: the page stays.
 *
 * I1 The TLBs are told before the table is unlocked, both times: a fault that finds W gone may copy
 *    the frame (mm.h I5), and one that finds the swap entry gives the page another (pagefault.c I2).
 */
#include "memory/gather.h"
#include "memory/memory.h"
#include "memory/pagecache.h"
#include "base/delay.h"

#include <errno.h>
#include <string.h>

enum verdict { KEEP, DROP, UNMAP, SWAP };

static enum verdict judge(struct sm__mm *mm, sm__pte e)
{
	struct sm__frame *f = sm__frame(mm->pool, sm__pte_pfn(e));
	uint32_t refs = atomic_load_explicit(&f->refs, memory_order_acquire);
	uint32_t flags = sm__frame_flags(f);

	if (e & SM__PTE_SPECIAL)
		return KEEP;
	if (!(e & SM__PTE_ANON))
		return f->file.pages->is_volatile ? KEEP : UNMAP;
	if (refs != 1 || (flags & SM__F_MERGED))
		return KEEP;
	if ((flags & SM__F_LAZYFREE) && !(e & SM__PTE_D))
		return DROP;
	return atomic_load_explicit(&mm->memory->swap, memory_order_relaxed) ? SWAP : KEEP;
}

/* Second half of a page out: the frame is frozen, referenced and written. */
static bool enter_slot(struct sm__mm *mm, sm_addr addr, sm__pte frozen, uint64_t to)
{
	struct sm__slot slot;
	bool done = false;

	if (sm__pt_lock(mm, addr, false, &slot))
		return false;
	if (!slot.level && atomic_load_explicit(slot.entry, memory_order_relaxed) == frozen) {
		sm__pt_set(mm, &slot, slot.entry, sm__pte_marker(SM__PTE_SWAP, to));
		sm__delay();
		sm__tlb_wait(&mm->tlb, sm__tlb_shoot(&mm->tlb, addr, addr + sm__pt_span(mm, 0)));
		done = true;
	}
	sm__pt_unlock(&slot);
	return done;
}

/* Takes over the locked slot. */
static bool swap_one(struct sm__mm *mm, struct sm__slot *slot, sm_addr addr, sm__pte e)
{
	uint32_t pfn = sm__pte_pfn(e);
	sm__pte frozen = sm__pt_freeze(mm, slot, addr, e);
	int64_t to;
	bool done;

	/* A second reference: a write fault now copies, and the entry then differs. */
	sm__frame_get(sm__frame(mm->pool, pfn));
	sm__pt_unlock(slot);
	sm__delay();
	to = sm__swap_out(mm->memory, pfn);
	done = to > 0 && enter_slot(mm, addr, frozen, (uint64_t)to);
	if (to > 0 && !done)
		sm__swap_free(mm->memory, (uint64_t)to);
	if (done) {
		sm__frame_put(mm->pool, pfn); /* the entry's */
		sm__mm_rss_add(mm, SM__RSS_ANON, -1);
		sm__mm_rss_add(mm, SM__RSS_SWAP, 1);
	}
	sm__frame_put(mm->pool, pfn);
	return done;
}

/* Lazily freed, or of an object: the entry goes. */
static void drop_one(struct sm__mm *mm, struct sm__slot *slot, sm_addr addr, sm__pte e,
		     struct sm__mmu_gather *g)
{
	sm__pt_set(mm, slot, slot->entry, 0);
	if (e & SM__PTE_ANON)
		sm__mmu_gather_frame(g, sm__pte_pfn(e));
	sm__mmu_gather_range(g, addr, addr + sm__pt_span(mm, 0));
	sm__pt_unlock(slot);
	sm__mm_rss_add(mm, e & SM__PTE_ANON ? SM__RSS_ANON : SM__RSS_FILE, -1);
}

static bool pageout_one(struct sm__mm *mm, sm_addr addr, bool idle_only, struct sm__mmu_gather *g)
{
	struct sm__slot slot;
	sm__pte e;

	if (!sm__mmu_gather_has_room(g))
		sm__mmu_gather_flush(g);
	if (sm__pt_lock(mm, addr, false, &slot))
		return false;
	e = atomic_load_explicit(slot.entry, memory_order_relaxed);
	if (!sm__pte_present(e) || slot.level)
		goto keep;
	if (idle_only && (e & SM__PTE_A)) {
		sm__pt_set(mm, &slot, slot.entry, e & ~SM__PTE_A);
		sm__mmu_gather_range(g, addr, addr + sm__pt_span(mm, 0));
		goto keep;
	}
	switch (judge(mm, e)) {
	case SWAP:
		return swap_one(mm, &slot, addr, e);
	case DROP:
		drop_one(mm, &slot, addr, e, g);
		return true;
	case UNMAP:
		/* Its frame stays with the object. */
		drop_one(mm, &slot, addr, e, g);
		return false;
	case KEEP:
		break;
	}
keep:
	sm__pt_unlock(&slot);
	return false;
}

uint64_t sm__mm_pageout(struct sm__mm *mm, sm_addr start, sm_addr end, bool idle_only)
{
	struct sm__mmu_gather g;
	uint64_t taken = 0;

	sm__mmu_gather_begin(&g, mm);
	sm__mmu_gather_announce(&g);
	sm__mmu_gather_work(&g, start, end);
	while (start < end) {
		struct sm__slot slot;
		bool huge;

		if (sm__pt_lock(mm, start, false, &slot)) {
			sm_addr next = (start | (sm__pt_span(mm, slot.level) - 1)) + 1;

			start = next && next < end ? next : end;
			continue;
		}
		huge = slot.level;
		sm__pt_unlock(&slot);
		if (huge && sm__pt_split(mm, start))
			break;
		taken += pageout_one(mm, start, idle_only, &g);
		start += 1ull << mm->page_shift;
	}
	sm__mmu_gather_finish(&g);
	return taken;
}

/* ---------------------------------------------------------------- broken memory */

/* The frame leaves addr for another with the same contents; table locked. 0 or -ENOMEM. */
static int move_away(struct sm__mm *mm, struct sm__slot *slot, sm_addr addr, sm__pte e)
{
	uint32_t fresh = sm__frame_alloc(mm->pool, 0);

	if (!fresh)
		return -ENOMEM;
	atomic_store_explicit(slot->entry, 0, memory_order_release);
	sm__tlb_wait(&mm->tlb, sm__tlb_shoot(&mm->tlb, addr, addr + sm__pt_span(mm, 0)));
	memcpy(sm__frame_ptr(mm->pool, fresh), sm__frame_ptr(mm->pool, sm__pte_pfn(e)),
	       sm__page_size(mm->pool));
	atomic_store_explicit(&sm__frame(mm->pool, fresh)->flags, SM__F_ANON, memory_order_relaxed);
	atomic_store_explicit(slot->entry, sm__pte_make(fresh, e & ~SM__PTE_FRAME),
			      memory_order_release);
	return 0;
}

int sm__mm_poison(struct sm__mm *mm, sm_addr addr, bool soft)
{
	struct sm__mmu_gather g;
	struct sm__slot slot;
	struct sm__pages *pages = NULL;
	struct sm__frame *f;
	uint64_t index = 0;
	int err = 0;
	sm__pte e;

	if (sm__pt_split_at(mm, addr | (1ull << mm->page_shift)))
		return -ENOMEM;
	if (sm__pt_lock(mm, addr, false, &slot))
		return -ENOENT;
	e = atomic_load_explicit(slot.entry, memory_order_relaxed);
	if (slot.level || !sm__pte_present(e) || (e & SM__PTE_SPECIAL)) {
		sm__pt_unlock(&slot);
		return -ENOENT;
	}
	f = sm__frame(mm->pool, sm__pte_pfn(e));
	sm__mmu_gather_begin(&g, mm);
	if (!(e & SM__PTE_ANON)) {
		/* Of an object: it leaves every mm; a soft one is simply read again. */
		pages = f->file.pages;
		index = f->file.index;
		sm__frame_set(f, SM__F_POISON);
	} else if (soft) {
		err = move_away(mm, &slot, addr, e);
	}
	if (!soft) {
		sm__pt_set(mm, &slot, slot.entry, sm__pte_marker(SM__PTE_POISON, 0));
		sm__mm_rss_add(mm, e & SM__PTE_ANON ? SM__RSS_ANON : SM__RSS_FILE, -1);
	}
	if (!err && !pages) {
		sm__frame_set(f, SM__F_POISON);
		sm__mmu_gather_frame(&g, sm__pte_pfn(e));
	}
	sm__mmu_gather_range(&g, addr, addr + sm__pt_span(mm, 0));
	sm__pt_unlock(&slot);
	sm__mmu_gather_finish(&g);
	if (pages)
		sm__pages_lose(pages, index, sm__pte_pfn(e));
	return err;
}
