/* SPDX-License-Identifier: MIT */
/*
 * huge.c - 2 MiB frames: given by a fault, or made of what is there (split: pt.c).
 *
 *      collapse:  level 1: [ table ]                      level 1: [ PS, frame h ]
 *                 level 0: [ a, b, nothing, c ... ]  ->   h = copy of a | b | zero | c ...
 *
 * I1 A huge frame is mapped by one entry of one mm: fork splits it first. Its 512 descriptors have
 *    one reference each, so that a split need not touch them.
 * I2 Collapse holds the level-1 table and the level-0 table; the entry is 0 while the TLBs drop
 *    what they have, and nobody can fill it.
 */
#include "memory/gather.h"
#include "memory/pagefault.h"
#include "base/rcu.h"

#include <errno.h>
#include <string.h>

static uint64_t huge_bits(int prot)
{
	return sm__pte_perms(prot) | SM__PTE_A | SM__PTE_D | SM__PTE_ANON | SM__PTE_PS;
}

static void mark_huge(struct sm__pool *pool, uint32_t first)
{
	for (uint32_t i = 0; i < SM__HUGE_FRAMES; i++)
		atomic_store_explicit(&sm__frame(pool, first + i)->flags,
				      SM__F_ANON | (i ? 0 : SM__F_HUGE), memory_order_relaxed);
}

static void put_huge(struct sm__pool *pool, uint32_t first)
{
	for (uint32_t i = 0; i < SM__HUGE_FRAMES; i++)
		sm__frame_put(pool, first + i);
}

bool sm__mm_map_huge(struct sm__page_fault *pf)
{
	uint64_t span = sm__pt_span(pf->mm, 1);
	sm_addr base = SM__ALIGN_DOWN(pf->addr, span);
	struct sm__slot slot;
	uint32_t first;
	bool done = false;

	if (base < pf->start || base + span > pf->end || pf->pages)
		return false;
	first = sm__frame_alloc_order(pf->mm->pool, SM__MAX_ORDER, SM__ALLOC_ZERO);
	if (!first)
		return false;
	atomic_store_explicit(&pf->mm->had_huge, true, memory_order_relaxed);
	if (!sm__pt_lock_pmd(pf->mm, base, true, &slot)) {
		if (slot.level == 1 && !atomic_load_explicit(slot.entry, memory_order_relaxed)) {
			mark_huge(pf->mm->pool, first);
			sm__pt_set(pf->mm, &slot, slot.entry,
				   sm__pte_make(first, huge_bits(pf->prot)));
			done = true;
		}
		sm__pt_unlock(&slot);
	}
	if (done)
		sm__mm_rss_add(pf->mm, SM__RSS_ANON, SM__HUGE_FRAMES);
	else
		put_huge(pf->mm->pool, first);
	return done;
}

/* Whether the table can become one frame. 0, -EINVAL, -EAGAIN. *pages: private pages in it. */
static int may_collapse(struct sm__mm *mm, _Atomic uint64_t *entries, int64_t *pages)
{
	*pages = 0;
	for (unsigned i = 0; i < SM__PT_ENTRIES; i++) {
		sm__pte e = atomic_load_explicit(&entries[i], memory_order_relaxed);

		if (!e || (e & SM__PTE_SPECIAL))
			continue;
		if (!sm__pte_present(e))
			return -EAGAIN;
		if (!(e & SM__PTE_ANON))
			return -EINVAL;
		if (atomic_load_explicit(&sm__frame(mm->pool, sm__pte_pfn(e))->refs,
					 memory_order_acquire) != 1)
			return -EAGAIN;
		++*pages;
	}
	return *pages ? 0 : -EINVAL;
}

/* Copies what the table maps; its frames go into the gather's place: the caller frees them. */
static void copy_table(struct sm__mm *mm, _Atomic uint64_t *entries, uint32_t first)
{
	size_t page = sm__page_size(mm->pool);

	for (unsigned i = 0; i < SM__PT_ENTRIES; i++) {
		sm__pte e = atomic_load_explicit(&entries[i], memory_order_relaxed);

		if (e && !(e & SM__PTE_SPECIAL))
			memcpy(sm__frame_ptr(mm->pool, first + i),
			       sm__frame_ptr(mm->pool, sm__pte_pfn(e)), page);
		else
			memset(sm__frame_ptr(mm->pool, first + i), 0, page);
	}
}

static void drop_table(struct sm__mm *mm, struct sm__frame *table, _Atomic uint64_t *entries)
{
	for (unsigned i = 0; i < SM__PT_ENTRIES; i++) {
		sm__pte e = atomic_load_explicit(&entries[i], memory_order_relaxed);

		if (e && !(e & SM__PTE_SPECIAL))
			sm__frame_put(mm->pool, sm__pte_pfn(e));
		atomic_store_explicit(&entries[i], 0, memory_order_release);
	}
	table->table.used = 0;
	sm__pt_died(mm, table);
}

static int collapse_locked(struct sm__mm *mm, sm_addr addr, int prot, struct sm__slot *pmd,
			   uint32_t first, struct sm__mmu_gather *g)
{
	sm__pte e = atomic_load_explicit(pmd->entry, memory_order_relaxed);
	struct sm__frame *table;
	_Atomic uint64_t *entries;
	int64_t pages;
	int err;

	if (pmd->level != 1 || !e)
		return -EINVAL;
	if (e & SM__PTE_PS)
		return -EEXIST;
	table = sm__frame(mm->pool, sm__pte_pfn(e));
	entries = sm__pt_entries(mm, sm__pte_pfn(e));
	sm__spin_lock(&table->table.lock);
	err = may_collapse(mm, entries, &pages);
	if (!err) {
		atomic_store_explicit(pmd->entry, 0, memory_order_release);
		sm__tlb_wait(&mm->tlb, sm__tlb_shoot(&mm->tlb, addr, addr + sm__pt_span(mm, 1)));
		copy_table(mm, entries, first);
		drop_table(mm, table, entries);
		mark_huge(mm->pool, first);
		atomic_store_explicit(pmd->entry, sm__pte_make(first, huge_bits(prot)),
				      memory_order_release);
	}
	sm__spin_unlock(&table->table.lock);
	if (err)
		return err;
	atomic_fetch_sub_explicit(&mm->nr_tables, 1, memory_order_relaxed);
	table->table.next = g->tables;
	g->tables = sm__frame_pfn(mm->pool, table);
	sm__mm_rss_add(mm, SM__RSS_ANON, SM__HUGE_FRAMES - pages);
	return 0;
}

int sm__mm_collapse(struct sm__mm *mm, sm_addr addr, int prot)
{
	uint32_t first = sm__frame_alloc_order(mm->pool, SM__MAX_ORDER, 0);
	struct sm__mmu_gather g;
	struct sm__slot pmd;
	int err = -EINVAL;

	if (!first)
		return -ENOMEM;
	atomic_store_explicit(&mm->had_huge, true, memory_order_relaxed);
	sm__mmu_gather_begin(&g, mm);
	if (!sm__pt_lock_pmd(mm, addr, false, &pmd)) {
		err = collapse_locked(mm, addr, prot, &pmd, first, &g);
		sm__pt_unlock(&pmd);
	}
	if (err)
		put_huge(mm->pool, first);
	sm__mmu_gather_finish(&g);
	return err == -EEXIST ? 0 : err;
}
