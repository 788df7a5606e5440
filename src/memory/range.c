/* SPDX-License-Identifier: MIT */
/*
 * range.c - operations on the entries of a range: unmap, protect, clean, move, share with a child.
 *
 * Each visits the tables that exist, one locked at a time; an empty part of the tree costs one
 * look at the entry that is empty, however large it is.
 *
 * I1 Before a table is unlocked the gather covers every entry in it that lost something, and holds
 *    every frame it lost (gather.h I1).
 */
#include "memory/gather.h"
#include "memory/memory.h"
#include "base/delay.h"

#include <errno.h>

/* The end of the part of [addr, end) that one entry of level `level` spans. */
static sm_addr part_end(const struct sm__mm *mm, sm_addr addr, sm_addr end, unsigned level)
{
	sm_addr next = (addr | (sm__pt_span(mm, level) - 1)) + 1;

	return next && next < end ? next : end;
}

static unsigned entries_in(const struct sm__mm *mm, sm_addr addr, sm_addr next)
{
	return (unsigned)((next - addr) >> mm->page_shift);
}

/* ---------------------------------------------------------------- unmap */

struct zap {
	struct sm__mm *mm;
	struct sm__mmu_gather *g;
	unsigned flags;
};

/* One non-zero entry. False: no room in the gather, nothing done. */
static bool zap_one(struct zap *z, struct sm__slot *slot, _Atomic uint64_t *entry, sm__pte e)
{
	if (sm__pte_present(e)) {
		if ((z->flags & SM__ZAP_FILE_ONLY) && (e & SM__PTE_ANON))
			return true;
		if ((e & SM__PTE_SPECIAL) || !(e & SM__PTE_ANON)) {
			sm__pt_set(z->mm, slot, entry, 0);
			z->g->rss[SM__RSS_FILE] -= !(e & SM__PTE_SPECIAL);
			return true;
		}
		if (!sm__mmu_gather_has_room(z->g))
			return false;
		sm__pt_set(z->mm, slot, entry, 0);
		sm__mmu_gather_frame(z->g, sm__pte_pfn(e));
		z->g->rss[SM__RSS_ANON]--;
		return true;
	}
	if (sm__pte_type(e) == SM__PTE_SWAP) {
		if (z->flags & SM__ZAP_FILE_ONLY)
			return true;
		sm__pt_set(z->mm, slot, entry, 0);
		sm__swap_free(z->mm->memory, sm__pte_payload(e));
		z->g->rss[SM__RSS_SWAP]--;
	} else if (z->flags & SM__ZAP_MARKERS) {
		sm__pt_set(z->mm, slot, entry, 0);
	}
	return true;
}

/* Entries of one level-0 table. Return: the address where it stopped for lack of room, or next. */
static sm_addr zap_table(struct zap *z, struct sm__slot *slot, sm_addr addr, sm_addr next)
{
	_Atomic uint64_t *entry = slot->entry;
	sm_addr lo = UINT64_MAX, hi = 0;
	size_t page = 1ull << z->mm->page_shift;

	for (; addr < next && slot->table->table.used; addr += page, entry++) {
		sm__pte e = atomic_load_explicit(entry, memory_order_relaxed);

		if (!e)
			continue;
		if (!zap_one(z, slot, entry, e))
			break;
		if (lo == UINT64_MAX)
			lo = addr;
		hi = addr + page;
	}
	if (lo < hi)
		sm__mmu_gather_range(z->g, lo, hi);
	return slot->table->table.used ? addr : next;
}

/* A whole 2 MiB page: its frames are gathered one by one, as they are counted. */
static void zap_huge(struct zap *z, struct sm__slot *slot, sm_addr addr)
{
	sm__pte e = atomic_load_explicit(slot->entry, memory_order_relaxed);
	uint32_t first = sm__pte_pfn(e);

	sm__pt_set(z->mm, slot, slot->entry, 0);
	sm__mmu_gather_range(z->g, addr, addr + sm__pt_span(z->mm, 1));
	z->g->rss[SM__RSS_ANON] -= SM__HUGE_FRAMES;
	sm__pt_unlock(slot);
	for (uint32_t i = 0; i < SM__HUGE_FRAMES; i++) {
		if (!sm__mmu_gather_has_room(z->g))
			sm__mmu_gather_flush(z->g);
		sm__mmu_gather_frame(z->g, first + i);
	}
}

/* One step of a range: the table at addr. Return: where to go on. */
static sm_addr zap_step(struct zap *z, sm_addr addr, sm_addr end)
{
	struct sm__slot slot;
	sm_addr next, at;

	if (sm__pt_lock_near(z->mm, addr, &z->g->near, &slot))
		return part_end(z->mm, addr, end, slot.level);
	next = part_end(z->mm, addr, end, 1);
	if (slot.level == 1) {
		if (next - addr == sm__pt_span(z->mm, 1)) {
			zap_huge(z, &slot, addr);
			return next;
		}
		sm__pt_unlock(&slot);
		/* Split before by who plans; here only an advice may have to skip. */
		return sm__pt_split(z->mm, addr) ? next : addr;
	}
	at = zap_table(z, &slot, addr, next);
	if (at == next && (z->flags & SM__ZAP_TABLES) && !slot.table->table.used &&
	    next - addr == sm__pt_span(z->mm, 1)) {
		sm__pt_unlock(&slot);
		sm__pt_free_empty(z->mm, addr, z->g);
		return next;
	}
	sm__pt_unlock(&slot);
	if (at != next)
		sm__mmu_gather_flush(z->g);
	return at;
}

void sm__mm_zap(struct sm__mm *mm, sm_addr start, sm_addr end, unsigned flags,
		struct sm__mmu_gather *g)
{
	struct zap z = { .mm = mm, .g = g, .flags = flags };

	sm__mmu_gather_work(g, start, end);
	while (start < end) {
		start = zap_step(&z, start, end);
		sm__delay();
	}
	if (flags & SM__ZAP_TABLES)
		sm__pt_reap(mm, g);
}

/* ---------------------------------------------------------------- protect, clean */

/* What an entry becomes under new permissions; W only where no write need be noticed. */
static sm__pte protected(struct sm__mm *mm, sm__pte e, uint64_t perms, bool shared)
{
	sm__pte n = (e & ~SM__PTE_PERMS) | perms;

	if (!(n & SM__PTE_W) || (e & SM__PTE_W))
		return n;
	if (shared)
		return e & SM__PTE_D ? n : n & ~SM__PTE_W;
	/* Private: writable at once when nobody else has the page. */
	if ((e & SM__PTE_ANON) && (e & SM__PTE_D) && !(e & SM__PTE_SPECIAL)) {
		struct sm__frame *f = sm__frame(mm->pool, sm__pte_pfn(e));

		if (atomic_load_explicit(&f->refs, memory_order_acquire) == 1 &&
		    !(sm__frame_flags(f) & SM__F_MERGED))
			return n;
	}
	return n & ~SM__PTE_W;
}

/* Whether going from a to b takes something away that a TLB may have. */
static bool loses(sm__pte a, sm__pte b)
{
	return (a & ~b & (SM__PTE_W | SM__PTE_U | SM__PTE_D)) || (~a & b & SM__PTE_NX);
}

void sm__mm_protect(struct sm__mm *mm, sm_addr start, sm_addr end, int prot, bool shared,
		    struct sm__mmu_gather *g)
{
	uint64_t perms = sm__pte_perms(prot);

	sm__mmu_gather_work(g, start, end);
	while (start < end) {
		struct sm__slot slot;
		sm_addr next = start;

		if (sm__pt_lock(mm, start, false, &slot)) {
			start = part_end(mm, start, end, slot.level);
			continue;
		}
		next = part_end(mm, start, end, 1);
		unsigned n = slot.level ? 1 : entries_in(mm, start, next);

		for (unsigned i = 0; i < n; i++) {
			sm__pte e = atomic_load_explicit(slot.entry + i, memory_order_relaxed);
			sm__pte to;

			if (!sm__pte_present(e))
				continue;
			to = protected(mm, e, perms, shared);
			if (to == e)
				continue;
			sm__pt_set(mm, &slot, slot.entry + i, to);
			if (loses(e, to))
				sm__mmu_gather_range(
					g, start + ((uint64_t)i << mm->page_shift),
					slot.level ? next
						   : start + ((uint64_t)(i + 1) << mm->page_shift));
		}
		sm__pt_unlock(&slot);
		start = next;
	}
}

void sm__mm_clean(struct sm__mm *mm, sm_addr start, sm_addr end, struct sm__mmu_gather *g)
{
	sm__mmu_gather_work(g, start, end);
	while (start < end) {
		struct sm__slot slot;
		sm_addr next;

		if (sm__pt_lock(mm, start, false, &slot)) {
			start = part_end(mm, start, end, slot.level);
			continue;
		}
		next = part_end(mm, start, end, 1);
		for (unsigned i = 0, n = slot.level ? 0 : entries_in(mm, start, next); i < n; i++) {
			sm__pte e = atomic_load_explicit(slot.entry + i, memory_order_relaxed);

			if (!sm__pte_present(e) || (e & SM__PTE_ANON) ||
			    !(e & (SM__PTE_W | SM__PTE_D)))
				continue;
			sm__pt_set(mm, &slot, slot.entry + i, e & ~(SM__PTE_W | SM__PTE_D));
			sm__mmu_gather_range(g, start + ((uint64_t)i << mm->page_shift),
					     start + ((uint64_t)(i + 1) << mm->page_shift));
		}
		sm__pt_unlock(&slot);
		start = next;
	}
}

/* ---------------------------------------------------------------- move */

/* One more, or one less, reason to keep the table of addr though it may be empty. */
static void hold(struct sm__mm *mm, struct sm__slot *slot, int by)
{
	if (by > 0 && !slot->table->table.used++)
		atomic_fetch_sub_explicit(&mm->nr_empty, 1, memory_order_relaxed);
	if (by < 0 && !--slot->table->table.used)
		atomic_fetch_add_explicit(&mm->nr_empty, 1, memory_order_relaxed);
}

void sm__mm_release_tables(struct sm__mm *mm, sm_addr start, sm_addr end)
{
	while (start < end) {
		struct sm__slot slot;

		/* Held, so it is there. */
		if (!sm__pt_lock(mm, start, false, &slot)) {
			hold(mm, &slot, -1);
			sm__pt_unlock(&slot);
		}
		start = part_end(mm, start, end, 1);
	}
}

int sm__mm_hold_tables(struct sm__mm *mm, sm_addr start, sm_addr end)
{
	for (sm_addr at = start; at < end; at = part_end(mm, at, end, 1)) {
		struct sm__slot slot;
		int err;

		do {
			err = sm__pt_lock(mm, at, true, &slot);
			if (!err && slot.level) {
				/* A 2 MiB page in the way: it has to go through a table. */
				sm__pt_unlock(&slot);
				err = sm__pt_split(mm, at);
				slot.level = 1;
			}
		} while (!err && slot.level);
		if (err) {
			sm__mm_release_tables(mm, start, at);
			return err;
		}
		hold(mm, &slot, 1);
		sm__pt_unlock(&slot);
	}
	return 0;
}

int sm__mm_split_range(struct sm__mm *mm, sm_addr start, sm_addr end)
{
	while (start < end) {
		struct sm__slot slot;

		if (sm__pt_lock(mm, start, false, &slot)) {
			start = part_end(mm, start, end, slot.level);
			continue;
		}
		sm__pt_unlock(&slot);
		if (slot.level && sm__pt_split(mm, start))
			return -ENOMEM;
		start = part_end(mm, start, end, 1);
	}
	return 0;
}

/* Locks two level-0 tables by number (mm.h I3); they may be the same. */
static void lock_both(struct sm__frame *a, struct sm__frame *b)
{
	if (a > b) {
		struct sm__frame *t = a;

		a = b;
		b = t;
	}
	sm__spin_lock(&a->table.lock);
	if (a != b)
		sm__spin_lock(&b->table.lock);
}

static void unlock_both(struct sm__frame *a, struct sm__frame *b)
{
	sm__spin_unlock(&a->table.lock);
	if (a != b)
		sm__spin_unlock(&b->table.lock);
}

/* Finds the level-0 table of addr. Both ranges are the mover's own, and the target's table is held.
 * */
static bool find_table(struct sm__mm *mm, sm_addr addr, struct sm__slot *slot)
{
	if (sm__pt_lock(mm, addr, false, slot))
		return false;
	sm__pt_unlock(slot);
	return true;
}

static void move_entries(struct sm__mm *mm, struct sm__slot *from, struct sm__slot *to, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		sm__pte e = atomic_load_explicit(from->entry + i, memory_order_relaxed);

		if (!e)
			continue;
		SM_ASSERT(!atomic_load_explicit(to->entry + i, memory_order_relaxed));
		sm__pt_set(mm, from, from->entry + i, 0);
		sm__pt_set(mm, to, to->entry + i, e);
	}
}

void sm__mm_move(struct sm__mm *mm, sm_addr from, sm_addr to, uint64_t len,
		 struct sm__mmu_gather *g)
{
	sm_addr end = from + len;

	sm__mmu_gather_range(g, from, end);
	while (from < end) {
		struct sm__slot a, b;
		sm_addr next = part_end(mm, from, end, 1);
		sm_addr to_next = part_end(mm, to, to + (next - from), 1);

		if (to_next - to < next - from)
			next = from + (to_next - to);
		if (!find_table(mm, from, &a) || a.level || !find_table(mm, to, &b)) {
			to += next - from;
			from = next;
			continue;
		}
		lock_both(a.table, b.table);
		if (a.table->table.dead || b.table->table.dead) {
			/* Emptied and unlinked by a sweep meanwhile. */
			unlock_both(a.table, b.table);
			continue;
		}
		move_entries(mm, &a, &b, entries_in(mm, from, next));
		unlock_both(a.table, b.table);
		to += next - from;
		from = next;
	}
}

/* ---------------------------------------------------------------- fork */

/* One entry for the child; *e is what the parent keeps. */
static sm__pte share(struct sm__mm *mm, sm__pte *e)
{
	struct sm__frame *f;

	if (!sm__pte_present(*e)) {
		if (sm__pte_type(*e) == SM__PTE_SWAP)
			sm__swap_get(mm->memory, sm__pte_payload(*e));
		return *e;
	}
	/* The zero page and file pages come back by a fault. */
	if (!(*e & SM__PTE_ANON))
		return 0;
	f = sm__frame(mm->pool, sm__pte_pfn(*e));
	/* With one reference, ours under the table's lock, nobody can add another (frame.h I5). */
	if (atomic_load_explicit(&f->refs, memory_order_acquire) == 1)
		atomic_store_explicit(&f->refs, 2, memory_order_relaxed);
	else
		sm__frame_get(f);
	*e &= ~SM__PTE_W;
	return *e;
}

static void fork_table(struct sm__mm *child, struct sm__slot *to, struct sm__mm *parent,
		       struct sm__slot *from, unsigned n, struct sm__mmu_gather *g, sm_addr addr)
{
	int64_t rss[SM__RSS_KINDS] = { 0 };
	unsigned filled = 0;

	for (unsigned i = 0; i < n && from->table->table.used; i++) {
		sm__pte e = atomic_load_explicit(from->entry + i, memory_order_relaxed);
		sm__pte old = e, copy;

		if (!e)
			continue;
		copy = share(parent, &e);
		if (!copy)
			continue;
		if (e != old) {
			atomic_store_explicit(from->entry + i, e, memory_order_release);
			sm__mmu_gather_range(g, addr + ((uint64_t)i << parent->page_shift),
					     addr + ((uint64_t)(i + 1) << parent->page_shift));
		}
		/* The child has nothing there. release: as sm__pt_set */
		atomic_store_explicit(to->entry + i, copy, memory_order_release);
		filled++;
		if (sm__pte_present(copy))
			rss[SM__RSS_ANON]++;
		else if (sm__pte_type(copy) == SM__PTE_SWAP)
			rss[SM__RSS_SWAP]++;
	}
	sm__pt_filled(child, to, filled);
	for (unsigned k = 0; k < SM__RSS_KINDS; k++)
		if (rss[k])
			sm__mm_rss_add(child, (enum sm__rss)k, rss[k]);
}

/* The child gets a table where the parent has one. *next: what is to be copied next. 0 or -ENOMEM. */
static int fork_make_table(struct sm__mm *child, struct sm__mm *parent, sm_addr start, sm_addr end,
			   struct sm__mmu_gather *g, sm_addr *next)
{
	struct sm__slot from, to;
	int err;

	*next = start;
	if (sm__pt_lock_near(parent, start, &g->near, &from)) {
		*next = part_end(parent, start, end, from.level);
		return 0;
	}
	sm__pt_unlock(&from);
	/* 2 MiB pages are never shared whole. */
	if (from.level)
		return sm__pt_split(parent, start);
	err = sm__pt_lock(child, start, true, &to);
	if (!err)
		sm__pt_unlock(&to);
	return err;
}

int sm__mm_fork(struct sm__mm *child, struct sm__mm *parent, sm_addr start, sm_addr end,
		struct sm__mmu_gather *g)
{
	while (start < end) {
		sm_addr next = part_end(parent, start, end, 1);
		struct sm__slot from, to;
		int err;

		/* The child's table first: nobody else knows it, so two locks cannot cross. */
		if (sm__pt_lock_near(child, start, &g->copy, &to)) {
			err = fork_make_table(child, parent, start, end, g, &start);
			if (err)
				return err;
			continue;
		}
		if (sm__pt_lock_near(parent, start, &g->near, &from)) {
			start = part_end(parent, start, end, from.level);
		} else if (from.level) { /* made since the child's table was */
			sm__pt_unlock(&from);
			sm__pt_unlock(&to);
			err = sm__pt_split(parent, start);
			if (err)
				return err;
			continue;
		} else {
			fork_table(child, &to, parent, &from, entries_in(parent, start, next), g,
				   start);
			start = next;
			sm__pt_unlock(&from);
		}
		sm__pt_unlock(&to);
	}
	return 0;
}
