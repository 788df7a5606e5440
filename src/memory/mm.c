/* SPDX-License-Identifier: MIT */
/* mm.c - an address space's pages: birth, death, counters, proof (invariants: mm.h). */
#include "memory/mm.h"
#include "memory/gather.h"
#include "memory/memory.h"
#include "memory/pagecache.h"
#include "base/inject.h"
#include "base/percpu.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

int sm__mm_create(struct sm__memory *memory, const struct sm__mm_ops *ops, void *owner,
		  struct sm__mm **out)
{
	struct sm__frame *root;
	struct sm__mm *mm;

	*out = NULL;
	if (sm__inject_fail())
		return -ENOMEM;
	mm = aligned_alloc(SM__CACHELINE, sizeof(*mm));
	if (!mm)
		return -ENOMEM;
	memset(mm, 0, sizeof(*mm));
	mm->memory = memory;
	mm->pool = memory->pool;
	mm->ops = ops;
	mm->owner = owner;
	mm->page_shift = mm->pool->page_shift;
	atomic_init(&mm->nr_empty, 1); /* the root */
	sm__tlb_domain_init(&mm->tlb);
	mm->root = sm__frame_alloc(mm->pool, SM__ALLOC_ZERO);
	if (!mm->root) {
		free(mm);
		return -ENOMEM;
	}
	root = sm__frame(mm->pool, mm->root);
	sm__spin_init(&root->table.lock);
	root->table.used = 0;
	root->table.level = SM__PT_LEVELS - 1;
	root->table.dead = 0;
	atomic_store_explicit(&root->flags, SM__F_TABLE, memory_order_relaxed);
	*out = mm;
	return 0;
}

/* What is left of the tables, none of which anybody walks any more. */
static void free_tables(struct sm__mm *mm, uint32_t pfn, unsigned level)
{
	_Atomic uint64_t *entries = sm__pt_entries(mm, pfn);

	for (unsigned i = 0; level && i < SM__PT_ENTRIES; i++) {
		sm__pte e = atomic_load_explicit(&entries[i], memory_order_relaxed);

		if (e)
			free_tables(mm, sm__pte_pfn(e), level - 1);
	}
	sm__frame_put(mm->pool, pfn);
}

void sm__mm_leave(struct sm__mm *mm)
{
	/* acquire: pairs with the release of a walker that leaves */
	while (atomic_load_explicit(&mm->users, memory_order_acquire))
		sched_yield();
}

void sm__mm_destroy(struct sm__mm *mm)
{
	struct sm__mmu_gather g;

	sm__mm_leave(mm);
	sm__mmu_gather_begin(&g, mm);
	sm__mm_zap(mm, 0, sm__mm_limit(mm), SM__ZAP_MARKERS, &g);
	sm__mmu_gather_finish(&g);
	/* A detached pool (hostfork.c) reads as zero: there was nothing to find. */
	for (unsigned k = 0; k < SM__RSS_KINDS; k++)
		SM_ASSERT_MSG(atomic_load_explicit(&mm->pool->detached, memory_order_relaxed) ||
				      sm__mm_rss(mm, k) == 0,
			      "kind %u: %ld", k, (long)sm__mm_rss(mm, k));
	free_tables(mm, mm->root, SM__PT_LEVELS - 1);
	free(mm);
}

void sm__mm_rss_add(struct sm__mm *mm, enum sm__rss kind, int64_t n)
{
	unsigned lane = sm__percpu_cpu() % SM__RSS_LANES;

	atomic_fetch_add_explicit(&mm->rss[lane].pages[kind], n, memory_order_relaxed);
}

int64_t sm__mm_rss(struct sm__mm *mm, enum sm__rss kind)
{
	int64_t sum = sm__tlb_rss(&mm->tlb, kind);

	for (unsigned i = 0; i < SM__RSS_LANES; i++)
		sum += atomic_load_explicit(&mm->rss[i].pages[kind], memory_order_relaxed);
	return sum;
}

struct census {
	struct sm__mm *mm;
	int64_t rss[SM__RSS_KINDS];
	uint32_t tables, empty;
	bool ok;
};

static void count_entry(struct census *c, sm__pte e, unsigned level)
{
	int64_t n = level ? SM__HUGE_FRAMES : 1;

	if (!sm__pte_present(e)) {
		c->rss[SM__RSS_SWAP] += sm__pte_type(e) == SM__PTE_SWAP;
		return;
	}
	if (e & SM__PTE_SPECIAL) {
		c->ok = c->ok && !(e & SM__PTE_W) && !sm__pte_pfn(e);
		return;
	}
	c->rss[e & SM__PTE_ANON ? SM__RSS_ANON : SM__RSS_FILE] += n;
	if (!atomic_load_explicit(&sm__frame(c->mm->pool, sm__pte_pfn(e))->refs,
				  memory_order_relaxed))
		c->ok = false;
	/* pte.h I5: writable without D is only what MADV_FREE left. */
	if ((e & (SM__PTE_W | SM__PTE_D | SM__PTE_ANON)) == (SM__PTE_W | SM__PTE_ANON) &&
	    !(sm__frame_flags(sm__frame(c->mm->pool, sm__pte_pfn(e))) & SM__F_LAZYFREE))
		c->ok = false;
}

static void count_table(struct census *c, uint32_t pfn, unsigned level)
{
	_Atomic uint64_t *entries = sm__pt_entries(c->mm, pfn);
	struct sm__frame *f = sm__frame(c->mm->pool, pfn);
	unsigned used = 0;

	for (unsigned i = 0; i < SM__PT_ENTRIES; i++) {
		sm__pte e = atomic_load_explicit(&entries[i], memory_order_relaxed);

		if (!e)
			continue;
		used++;
		if (level && !(e & SM__PTE_PS))
			count_table(c, sm__pte_pfn(e), level - 1);
		else
			count_entry(c, e, level);
	}
	if (f->table.used != used || f->table.level != level || f->table.dead)
		c->ok = false;
	if (level < SM__PT_LEVELS - 1) {
		c->tables++;
		c->empty += !used;
	}
}

bool sm__mm_is_valid(struct sm__mm *mm)
{
	struct census c = { .mm = mm, .ok = true };

	count_table(&c, mm->root, SM__PT_LEVELS - 1);
	for (unsigned k = 0; k < SM__RSS_KINDS; k++)
		if (c.rss[k] != sm__mm_rss(mm, k))
			c.ok = false;
	return c.ok && c.tables == atomic_load_explicit(&mm->nr_tables, memory_order_relaxed) &&
	       c.empty + !sm__frame(mm->pool, mm->root)->table.used ==
		       atomic_load_explicit(&mm->nr_empty, memory_order_relaxed);
}
