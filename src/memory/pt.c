/* SPDX-License-Identifier: MIT */
/*
 * pt.c - page tables: walking, making, splitting and freeing them (invariants: mm.h I1 to I4).
 *
 *      split of a 2 MiB page:     level 1: [ PS, frame f ]   ->   level 1: [ table ]
 *                                                                 level 0: [ f, f+1, ... f+511 ]
 *      The translation is the same before and after, so no TLB need know.
 */
#include "memory/gather.h"
#include "base/delay.h"
#include "base/rcu.h"

#include <errno.h>

static sm__pte load(_Atomic uint64_t *entry)
{
	/* acquire: pairs with the release store that linked the table or frame */
	return atomic_load_explicit(entry, memory_order_acquire);
}

static _Atomic uint64_t *entry_at(struct sm__mm *mm, uint32_t table, sm_addr addr, unsigned level)
{
	return &sm__pt_entries(mm, table)[sm__pt_index(mm, addr, level)];
}

static uint32_t new_table(struct sm__mm *mm, unsigned level)
{
	uint32_t pfn = sm__frame_alloc(mm->pool, SM__ALLOC_ZERO);
	struct sm__frame *f;

	if (!pfn)
		return 0;
	f = sm__frame(mm->pool, pfn);
	sm__spin_init(&f->table.lock);
	f->table.used = 0;
	f->table.level = (uint8_t)level;
	f->table.dead = 0;
	f->table.next = 0;
	atomic_store_explicit(&f->flags, SM__F_TABLE, memory_order_relaxed);
	atomic_fetch_add_explicit(&mm->nr_tables, 1, memory_order_relaxed);
	return pfn;
}

/* A table that nobody has seen goes straight back. */
static void discard_table(struct sm__mm *mm, uint32_t pfn)
{
	atomic_fetch_sub_explicit(&mm->nr_tables, 1, memory_order_relaxed);
	sm__frame_put(mm->pool, pfn);
}

void sm__pt_set(struct sm__mm *mm, struct sm__slot *slot, _Atomic uint64_t *entry, sm__pte value)
{
	sm__pte old = atomic_load_explicit(entry, memory_order_relaxed);

	if (!old && value && !slot->table->table.used++)
		atomic_fetch_sub_explicit(&mm->nr_empty, 1, memory_order_relaxed);
	if (old && !value && !--slot->table->table.used)
		atomic_fetch_add_explicit(&mm->nr_empty, 1, memory_order_relaxed);
	/* release: the frame's contents are there before the entry is; pairs with the walkers */
	atomic_store_explicit(entry, value, memory_order_release);
}

sm__pte sm__pt_freeze(struct sm__mm *mm, struct sm__slot *slot, sm_addr addr, sm__pte e)
{
	if (e & SM__PTE_W) {
		e &= ~SM__PTE_W;
		sm__pt_set(mm, slot, slot->entry, e);
		sm__delay();
		sm__tlb_wait(&mm->tlb, sm__tlb_shoot(&mm->tlb, addr, addr + sm__pt_span(mm, 0)));
	}
	return e;
}

/*
 * Walks down to the table of level want (or a PS entry above it) in one read section and locks it.
 * Return: 0, -ENOENT with slot->level where the entry is empty, -EAGAIN: found a dead table.
 */
static int lock_table(struct sm__mm *mm, sm_addr addr, unsigned want, struct sm__slot *slot)
{
	uint32_t table = mm->root;
	unsigned level = SM__PT_LEVELS - 1;
	int err = 0;

	sm__rcu_read_lock();
	for (; level > want; level--) {
		/* seq_cst (acquire: as load): who unmaps a page and finds no table here has emptied
		 * the page's slot before it looked (pagecache.h I2) */
		sm__pte e = atomic_load_explicit(entry_at(mm, table, addr, level),
						 memory_order_seq_cst);

		if (!e) {
			slot->level = (uint8_t)level;
			err = -ENOENT;
			goto out;
		}
		if (e & SM__PTE_PS)
			break;
		table = sm__pte_pfn(e);
	}
	sm__delay();
	slot->table = sm__frame(mm->pool, table);
	slot->entry = entry_at(mm, table, addr, level);
	slot->level = (uint8_t)level;
	sm__spin_lock(&slot->table->table.lock);
	/* Unlinked, or split or collapsed, between the walk and the lock: the walk was in vain. */
	if (slot->table->table.dead ||
	    (level > want &&
	     !(atomic_load_explicit(slot->entry, memory_order_relaxed) & SM__PTE_PS))) {
		sm__spin_unlock(&slot->table->table.lock);
		err = -EAGAIN;
	}
out:
	sm__rcu_read_unlock();
	return err;
}

/* Links a new table under the empty entry of addr at level. 0 (also when another was faster) or
 * -ENOMEM. */
static int add_table(struct sm__mm *mm, sm_addr addr, unsigned level)
{
	uint32_t pfn = new_table(mm, level - 1);
	struct sm__slot slot;
	int err;

	if (!pfn)
		return -ENOMEM;
	err = lock_table(mm, addr, level, &slot);
	if (!err && slot.level == level &&
	    !atomic_load_explicit(slot.entry, memory_order_relaxed)) {
		sm__pte link = sm__pte_make(pfn, SM__PTE_W | SM__PTE_U | SM__PTE_A);

		atomic_fetch_add_explicit(&mm->nr_empty, 1, memory_order_relaxed);
		sm__pt_set(mm, &slot, slot.entry, link);
		/* seq_cst: before anybody reads a slot under the new table's lock (pagecache.h I2);
		 * sm__pt_set releases only */
		atomic_store_explicit(slot.entry, link, memory_order_seq_cst);
		pfn = 0;
	}
	if (!err)
		sm__pt_unlock(&slot);
	if (pfn)
		discard_table(mm, pfn);
	return 0;
}

static int lock_level(struct sm__mm *mm, sm_addr addr, unsigned want, bool make,
		      struct sm__slot *slot)
{
	for (;;) {
		int err = lock_table(mm, addr, want, slot);

		if (!err)
			return 0;
		if (err == -ENOENT) {
			if (!make)
				return -ENOENT;
			err = add_table(mm, addr, slot->level);
			if (err)
				return err;
		}
	}
}

int sm__pt_lock(struct sm__mm *mm, sm_addr addr, bool make, struct sm__slot *slot)
{
	return lock_level(mm, addr, 0, make, slot);
}

int sm__pt_lock_near(struct sm__mm *mm, sm_addr addr, struct sm__pt_near *near,
		     struct sm__slot *slot)
{
	int err;

	if (sm__pt_lock_known(mm, addr, near, slot))
		return 0;
	err = sm__pt_lock(mm, addr, false, slot);
	near->table = NULL;
	if (!err && !slot->level) {
		near->table = slot->table;
		near->entries = slot->entry - sm__pt_index(mm, addr, 0);
		near->base = SM__ALIGN_DOWN(addr, sm__pt_span(mm, 1));
		/* relaxed: the table is locked and linked, its death comes later */
		near->deaths = atomic_load_explicit(&mm->deaths, memory_order_relaxed);
	}
	return err;
}

int sm__pt_lock_pmd(struct sm__mm *mm, sm_addr addr, bool make, struct sm__slot *slot)
{
	return lock_level(mm, addr, 1, make, slot);
}

/* Unlinks the table of level `level` at addr if it is empty. True: its parent may be empty now. */
static bool unlink_empty(struct sm__mm *mm, sm_addr addr, unsigned level, struct sm__mmu_gather *g)
{
	struct sm__slot parent;
	struct sm__frame *table;
	bool unlinked = false, parent_empty = false;
	sm__pte e;

	if (lock_level(mm, addr, level + 1, false, &parent))
		return false;
	e = atomic_load_explicit(parent.entry, memory_order_relaxed);
	if (parent.level != level + 1 || !e || (e & SM__PTE_PS))
		goto out;
	table = sm__frame(mm->pool, sm__pte_pfn(e));
	sm__spin_lock(&table->table.lock);
	if (!table->table.used) {
		sm__pt_set(mm, &parent, parent.entry, 0);
		sm__pt_died(mm, table);
		unlinked = true;
	}
	sm__spin_unlock(&table->table.lock);
	parent_empty = unlinked && !parent.table->table.used;
out:
	sm__pt_unlock(&parent);
	if (unlinked) {
		atomic_fetch_sub_explicit(&mm->nr_empty, 1, memory_order_relaxed);
		atomic_fetch_sub_explicit(&mm->nr_tables, 1, memory_order_relaxed);
		table->table.next = g->tables;
		g->tables = sm__frame_pfn(mm->pool, table);
	}
	return parent_empty;
}

void sm__pt_free_empty(struct sm__mm *mm, sm_addr addr, struct sm__mmu_gather *g)
{
	for (unsigned level = 0; level < SM__PT_LEVELS - 1; level++)
		if (!unlink_empty(mm, addr, level, g))
			break;
}

/* Visits every table of level 0 and 1 below addr's part of the tree and frees the empty ones. */
static void reap_below(struct sm__mm *mm, uint32_t pfn, unsigned level, sm_addr base,
		       struct sm__mmu_gather *g)
{
	_Atomic uint64_t *entries = sm__pt_entries(mm, pfn);

	for (unsigned i = 0; i < SM__PT_ENTRIES; i++) {
		sm_addr addr = base + i * sm__pt_span(mm, level);
		sm__pte e = load(&entries[i]);

		if (!e || (e & SM__PTE_PS))
			continue;
		if (level > 1)
			reap_below(mm, sm__pte_pfn(e), level - 1, addr, g);
		unlink_empty(mm, addr, level - 1, g);
	}
}

void sm__pt_reap(struct sm__mm *mm, struct sm__mmu_gather *g)
{
	uint32_t empty = atomic_load_explicit(&mm->nr_empty, memory_order_relaxed);
	uint32_t all = atomic_load_explicit(&mm->nr_tables, memory_order_relaxed);

	/* A walk costs 512 loads a table: worth it when it frees at least one in four. */
	if (empty < 32 || empty < all / 4)
		return;
	/* Dead tables are freed a grace period after the section ends, so the walk is safe. */
	sm__rcu_read_lock();
	reap_below(mm, mm->root, SM__PT_LEVELS - 1, 0, g);
	sm__rcu_read_unlock();
}

int sm__pt_split(struct sm__mm *mm, sm_addr addr)
{
	uint32_t pfn = new_table(mm, 0);
	struct sm__slot slot;
	sm__pte e;

	if (!pfn)
		return -ENOMEM;
	if (lock_level(mm, addr, 1, false, &slot)) {
		discard_table(mm, pfn);
		return 0;
	}
	e = atomic_load_explicit(slot.entry, memory_order_relaxed);
	if (slot.level == 1 && (e & SM__PTE_PS) && (e & SM__PTE_P)) {
		_Atomic uint64_t *entries = sm__pt_entries(mm, pfn);
		uint32_t first = sm__pte_pfn(e);

		for (uint32_t i = 0; i < SM__PT_ENTRIES; i++)
			atomic_store_explicit(
				&entries[i],
				sm__pte_make(first + i, e & ~(SM__PTE_FRAME | SM__PTE_PS)),
				memory_order_relaxed);
		sm__frame(mm->pool, pfn)->table.used = SM__PT_ENTRIES;
		sm__frame_clear(sm__frame(mm->pool, first), SM__F_HUGE);
		sm__pt_set(mm, &slot, slot.entry,
			   sm__pte_make(pfn, SM__PTE_W | SM__PTE_U | SM__PTE_A));
		pfn = 0;
	}
	sm__pt_unlock(&slot);
	if (pfn)
		discard_table(mm, pfn);
	return 0;
}

int sm__pt_split_at(struct sm__mm *mm, sm_addr addr)
{
	_Atomic uint64_t *entry;
	unsigned level;
	sm__pte e;

	if (SM__IS_ALIGNED(addr, sm__pt_span(mm, 1)))
		return 0;
	sm__rcu_read_lock();
	e = sm__pt_read(mm, addr, &entry, &level);
	sm__rcu_read_unlock();
	return level == 1 && (e & SM__PTE_PS) ? sm__pt_split(mm, addr) : 0;
}
