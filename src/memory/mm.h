/* SPDX-License-Identifier: MIT */
/*
 * mm.h - one address space as the memory room sees it: page tables, TLBs, counters. No VMA here:
 * who calls says what the VMA allows.
 *
 *      root (level 3) -> level 2 -> level 1 -> level 0 -> frame
 *                                     \-> frame of 2 MiB (PS)
 *
 * I1 A table is a frame with SM__F_TABLE; table.used is the number of its entries that are not 0,
 *    and entries and used change under table.lock.
 * I2 A table leaves its parent only when used == 0, under the parent's lock and its own, is marked
 *    dead, and is freed after a grace period: a walker in a read section may still read it, and one
 *    that locks it finds dead and walks again.
 * I3 Two tables are locked parent first; two of level 0 by frame number.
 * I4 A present entry with ANON (and not SPECIAL) holds one reference of its frame. One that maps a
 *    page of an object holds none: the object takes the page out of every mm before it lets go.
 * I5 While faults may run, an entry loses W only with its table locked until the TLBs have
 *    acknowledged (sm__pt_freeze): a fault that finds W gone may copy the frame, and nobody writes it
 *    any more. Who has shut faults out (the VMA write-locked) flushes before it lets them in.
 * G1 Entries are read without locks (acquire) and give a frame that stays valid as long as the
 *    reader runs a TLB of this mm that has not acknowledged, or holds the table's lock.
 */
#ifndef SM_MEMORY_MM_H
#define SM_MEMORY_MM_H

#include "base/delay.h"
#include "base/rcu.h"
#include "memory/frame.h"
#include "memory/pte.h"
#include "memory/tlb.h"

struct sm__memory;
struct sm__mm;
struct sm__mmu_gather;
struct sm_file;

enum { SM__PT_LEVELS = 4, SM__PT_ENTRIES = 512, SM__RSS_LANES = 8 };

enum sm__rss { SM__RSS_ANON, SM__RSS_FILE, SM__RSS_SWAP, SM__RSS_KINDS };

/* What memory asks of whoever owns the VMAs. Called without a lock of memory. */
struct sm__mm_ops {
	/*
	 * Calls visit on every place where pages [first, last] of the object behind pages may be
	 * mapped (sm__rmap_each_area). The implementation locks what keeps its VMAs in place.
	 */
	void (*each_mapping)(struct sm__mm *mm, struct sm__pages *pages, uint64_t first,
			     uint64_t last,
			     void (*visit)(struct sm__mm *mm, sm_addr start, sm_addr end,
					   bool shared, void *arg),
			     void *arg);
};

struct sm__mm {
	struct sm__memory *memory;
	struct sm__pool *pool;
	const struct sm__mm_ops *ops;
	void *owner;
	uint32_t root;
	uint8_t page_shift;

	_Atomic uint32_t users;	    /* A  walkers of the reverse map; destroy waits for 0 */
	_Atomic uint32_t nr_tables; /* A  without the root */
	_Atomic uint32_t nr_empty;  /* A  tables with used == 0, the root too */
	_Atomic uint64_t deaths;    /* A  tables that were unlinked; see sm__pt_lock_near */
	_Atomic bool had_huge;	    /* A  a 2 MiB page has been mapped here once */
	_Atomic bool shared_guards; /* A  a guard marker was put into a shared area once */

	struct sm__tlb_domain tlb;

	struct {
		_Atomic int64_t pages
			[SM__RSS_KINDS]; /* A  negative, too; the sum with those of TLBs is not */
	} __attribute__((aligned(SM__CACHELINE))) rss[SM__RSS_LANES];
};

/* 0 or -ENOMEM. ops and owner may be NULL where no file is mapped. */
int sm__mm_create(struct sm__memory *memory, const struct sm__mm_ops *ops, void *owner,
		  struct sm__mm **out);
/* No area of mm is in the reverse map any more: waits for who still walks there. Context: no lock. */
void sm__mm_leave(struct sm__mm *mm);
/* Frees every page and table. Context: nobody else uses mm, its TLBs are destroyed; may wait. */
void sm__mm_destroy(struct sm__mm *mm);
int64_t sm__mm_rss(struct sm__mm *mm, enum sm__rss kind);
void sm__mm_rss_add(struct sm__mm *mm, enum sm__rss kind, int64_t n);
/* I1, I4 over all tables. Context: nobody else uses mm. */
bool sm__mm_is_valid(struct sm__mm *mm);
/* Pages the four levels can address. */
static inline uint64_t sm__mm_limit(const struct sm__mm *mm)
{
	return 1ull << (mm->page_shift + 9 * SM__PT_LEVELS);
}

/* ---- tables (pt.c) ---- */

/* An entry whose table is locked. level 1: a PS entry of 2 MiB, or (find_pmd) whatever is there. */
struct sm__slot {
	_Atomic uint64_t *entry;
	struct sm__frame *table;
	uint8_t level;
};

static inline unsigned sm__pt_shift(const struct sm__mm *mm, unsigned level)
{
	return mm->page_shift + 9 * level;
}

static inline uint64_t sm__pt_span(const struct sm__mm *mm, unsigned level)
{
	return 1ull << sm__pt_shift(mm, level);
}

static inline unsigned sm__pt_index(const struct sm__mm *mm, sm_addr addr, unsigned level)
{
	return addr >> sm__pt_shift(mm, level) & (SM__PT_ENTRIES - 1);
}

static inline _Atomic uint64_t *sm__pt_entries(struct sm__mm *mm, uint32_t pfn)
{
	return sm__frame_ptr(mm->pool, pfn);
}

/*
 * Walks to addr and locks the table that holds its entry: level 0, or level 1 when a 2 MiB page is
 * there. make: missing tables are made.
 * Return: 0 with the table locked; -ENOENT (not make): slot->level is the level of the empty entry;
 *         -ENOMEM. Context: no RCU section needed, no table locked.
 */
int sm__pt_lock(struct sm__mm *mm, sm_addr addr, bool make, struct sm__slot *slot);
/* The same for the entry of level 1, made where missing; the entry may be 0, a table or a 2 MiB
 * page. */
int sm__pt_lock_pmd(struct sm__mm *mm, sm_addr addr, bool make, struct sm__slot *slot);
/*
 * sm__pt_lock without make, for who locks places near each other one after the other: remembers the
 * last table of level 0. near->table is NULL at first.
 */
struct sm__pt_near {
	struct sm__frame *table;
	_Atomic uint64_t *entries;
	sm_addr base;
	uint64_t deaths; /* of the mm while the table was known to be linked */
};
int sm__pt_lock_near(struct sm__mm *mm, sm_addr addr, struct sm__pt_near *near,
		     struct sm__slot *slot);
static inline void sm__pt_unlock(struct sm__slot *slot)
{
	sm__spin_unlock(&slot->table->table.lock);
}
/* The table, locked, has been unlinked. It is freed after a grace period that begins later. */
static inline void sm__pt_died(struct sm__mm *mm, struct sm__frame *table)
{
	table->table.dead = 1;
	/* release: pairs with the acquire in sm__pt_lock_near */
	atomic_fetch_add_explicit(&mm->deaths, 1, memory_order_release);
}
/* Stores under the lock and keeps used (I1). */
void sm__pt_set(struct sm__mm *mm, struct sm__slot *slot, _Atomic uint64_t *entry, sm__pte value);
/*
 * Takes W away from e, the present entry of slot, and waits for the TLBs: the page's contents stand
 * still from here to the unlock, and afterwards for whoever finds the entry unchanged (I5).
 * Context: the table is locked, the caller's TLB parked. Return: what the entry is now.
 */
sm__pte sm__pt_freeze(struct sm__mm *mm, struct sm__slot *slot, sm_addr addr, sm__pte e);
/*
 * The table that is remembered, if it is at addr and still linked, is locked without a walk. If deaths
 * has not changed inside the read section, the table had not been freed when the section began, and
 * cannot be before it ends.
 */
static inline bool sm__pt_lock_known(struct sm__mm *mm, sm_addr addr, struct sm__pt_near *near,
				     struct sm__slot *slot)
{
	bool linked = false;

	if (!near->table || near->base != SM__ALIGN_DOWN(addr, sm__pt_span(mm, 1)))
		return false;
	sm__rcu_read_lock();
	/* acquire: pairs with the release in sm__pt_died */
	if (atomic_load_explicit(&mm->deaths, memory_order_acquire) == near->deaths) {
		sm__delay();
		sm__spin_lock(&near->table->table.lock);
		linked = !near->table->table.dead;
		if (!linked)
			sm__spin_unlock(&near->table->table.lock);
	}
	sm__rcu_read_unlock();
	slot->table = near->table;
	slot->entry = near->entries + sm__pt_index(mm, addr, 0);
	slot->level = 0;
	return linked;
}
/* n entries that were 0 have been stored (I1). */
static inline void sm__pt_filled(struct sm__mm *mm, struct sm__slot *slot, unsigned n)
{
	if (n && !slot->table->table.used)
		atomic_fetch_sub_explicit(&mm->nr_empty, 1, memory_order_relaxed);
	slot->table->table.used = (uint16_t)(slot->table->table.used + n);
}

/*
 * The entry that translates addr right now, without a lock; 0 where there is none. *level: 0 or 1.
 * Context: RCU read section. Cost: four dependent loads; inlined, because it is most of a fill.
 */
static inline sm__pte sm__pt_read(struct sm__mm *mm, sm_addr addr, _Atomic uint64_t **entry,
				  unsigned *level)
{
	unsigned shift = mm->page_shift;
	char *base = mm->pool->base;
	uint64_t page = addr >> shift;
	uint32_t table = mm->root;
	sm__pte e = 0;

#pragma GCC unroll 4
	for (unsigned l = SM__PT_LEVELS; l-- > 0;) {
		_Atomic uint64_t *at = (_Atomic uint64_t *)(base + ((uint64_t)table << shift)) +
				       (page >> 9 * l & (SM__PT_ENTRIES - 1));

		/* acquire: pairs with the release store that linked the table or frame */
		e = atomic_load_explicit(at, memory_order_acquire);
		*entry = at;
		*level = l;
		if (!e || (e & SM__PTE_PS))
			break;
		table = sm__pte_pfn(e);
	}
	return e;
}
/* Where a TLB keeps its own. */
static inline struct sm__pt_near *sm__tlb_near(struct sm_tlb *tlb)
{
	_Static_assert(sizeof(struct sm__pt_near) == sizeof(tlb->near), "near fits");
	return (struct sm__pt_near *)(void *)tlb->near;
}
/*
 * The same from the table that was used last, or else remembering the one it comes to. deaths is
 * read before the walk, so a table that is reached had not died when it was; as long as no table
 * dies, that one is linked. It may be unlinked just now, as in any walk: it is empty then, and
 * sm__pt_lock_known sees that it is dead.
 */
static inline sm__pte sm__pt_peek(struct sm__mm *mm, sm_addr addr, struct sm__pt_near *near,
				  unsigned *level)
{
	/* acquire: pairs with the release in sm__pt_died */
	uint64_t deaths = atomic_load_explicit(&mm->deaths, memory_order_acquire);
	_Atomic uint64_t *entry;
	sm__pte e;

	if (near->table && near->base == SM__ALIGN_DOWN(addr, sm__pt_span(mm, 1)) &&
	    near->deaths == deaths) {
		*level = 0;
		/* acquire: as in sm__pt_read */
		return atomic_load_explicit(near->entries + sm__pt_index(mm, addr, 0),
					    memory_order_acquire);
	}
	near->deaths = deaths;
	e = sm__pt_read(mm, addr, &entry, level);
	near->table = NULL;
	if (!*level) {
		near->base = SM__ALIGN_DOWN(addr, sm__pt_span(mm, 1));
		near->entries = entry - sm__pt_index(mm, addr, 0);
		near->table =
			sm__frame(mm->pool, (uint32_t)(((char *)near->entries - mm->pool->base) >>
						       mm->page_shift));
	}
	return e;
}
/* Unlinks the level-0 table at addr and its parents as far as they are empty; into the gather. */
void sm__pt_free_empty(struct sm__mm *mm, sm_addr addr, struct sm__mmu_gather *g);
/* Unlinks all empty tables when there are many of them. */
void sm__pt_reap(struct sm__mm *mm, struct sm__mmu_gather *g);
/* A 2 MiB page that addr lies inside of (not at its start) becomes 512 entries. 0 or -ENOMEM. */
int sm__pt_split_at(struct sm__mm *mm, sm_addr addr);
/* Splits the 2 MiB page that covers addr, if there is one. 0 or -ENOMEM. */
int sm__pt_split(struct sm__mm *mm, sm_addr addr);

/* ---- ranges (range.c) ---- */

enum sm__zap_flags {
	SM__ZAP_MARKERS = 1,   /* guard and poison markers go too (munmap, not DONTNEED) */
	SM__ZAP_TABLES = 2,    /* tables that become empty are freed when the range covers them */
	SM__ZAP_FILE_ONLY = 4, /* private copies stay (invalidation, not truncation) */
};

/* Unmaps [start, end) into the gather. Cannot fail where 2 MiB pages were split at the ends. */
void sm__mm_zap(struct sm__mm *mm, sm_addr start, sm_addr end, unsigned flags,
		struct sm__mmu_gather *g);
/* Entries of [start, end) take the permissions of prot; shared says whether they belong to a shared
 * mapping. */
void sm__mm_protect(struct sm__mm *mm, sm_addr start, sm_addr end, int prot, bool shared,
		    struct sm__mmu_gather *g);
/*
 * Makes the tables that a move to [start, end) needs, and keeps them until they are released (each
 * counts one more used entry meanwhile). 0 or -ENOMEM, nothing held then.
 */
int sm__mm_hold_tables(struct sm__mm *mm, sm_addr start, sm_addr end);
void sm__mm_release_tables(struct sm__mm *mm, sm_addr start, sm_addr end);
/* Splits every 2 MiB page in the range. 0 or -ENOMEM (some may be split). */
int sm__mm_split_range(struct sm__mm *mm, sm_addr start, sm_addr end);
/* Moves entries to where tables are held and nothing is mapped; 2 MiB pages were split. */
void sm__mm_move(struct sm__mm *mm, sm_addr from, sm_addr to, uint64_t len,
		 struct sm__mmu_gather *g);
/* Shares private pages of [start, end) with child, copy on write; markers and swap entries too.
 * 0 or -ENOMEM (the child's part done so far stays: destroy it). */
int sm__mm_fork(struct sm__mm *child, struct sm__mm *parent, sm_addr start, sm_addr end,
		struct sm__mmu_gather *g);
/* Takes W and D of shared pages, so that the next write is noticed (msync). */
void sm__mm_clean(struct sm__mm *mm, sm_addr start, sm_addr end, struct sm__mmu_gather *g);

/* ---- what advice needs (advise.c, huge.c, reclaim.c) ----
 * All: page-aligned range, one area whose lock the caller holds. Private memory is never shared
 * with an object: entries of object pages are left alone where a comment says "private". */

/* MADV_FREE: private pages that only this mm has may be dropped until they are written again. */
void sm__mm_lazyfree(struct sm__mm *mm, sm_addr start, sm_addr end, struct sm__mmu_gather *g);
/* MADV_COLD: forgets that pages were used: clears A, ACTIVE and REFERENCED. */
void sm__mm_age(struct sm__mm *mm, sm_addr start, sm_addr end, struct sm__mmu_gather *g);
/*
 * MADV_GUARD_INSTALL: whatever is in the range goes, markers take its place. 0 or -ENOMEM (a part
 * may be done: install is idempotent, as Linux restarts it).
 */
int sm__mm_guard_install(struct sm__mm *mm, sm_addr start, sm_addr end, struct sm__mmu_gather *g);
/* MADV_GUARD_REMOVE: markers become nothing, the rest stays. */
void sm__mm_guard_remove(struct sm__mm *mm, sm_addr start, sm_addr end);

/*
 * Takes pages out of the range: lazily freed ones are dropped, clean object pages unmapped, private
 * ones written to swap. idle_only: only pages whose A is clear; a page that was used loses A
 * instead (a second look takes it). Shared private pages (fork) are skipped.
 * Context: system calls; no table locked, no RCU section. Return: frames that it frees.
 */
uint64_t sm__mm_pageout(struct sm__mm *mm, sm_addr start, sm_addr end, bool idle_only);

/* mincore: vec[i] = 1 for each page that a look would find; pages may be NULL. */
void sm__mm_present(struct sm__mm *mm, sm_addr start, sm_addr end, unsigned char *vec);

/*
 * MADV_COLLAPSE: the 2 MiB block at addr (aligned) becomes one huge frame. 0, -EINVAL (nothing
 * there or not private), -ENOMEM (no huge frame), -EAGAIN (shared pages, markers or swap in the
 * way).
 */
int sm__mm_collapse(struct sm__mm *mm, sm_addr addr, int prot);
/* A write fault on an empty 2 MiB block of private memory gets a huge frame. False: it does not. */
struct sm__page_fault;
bool sm__mm_map_huge(struct sm__page_fault *pf);

/*
 * Merging equal pages: makes addr map the frame pfn (contents equal, MERGED or about to be),
 * read-only, if it still maps a private page of its own with the same contents. The old frame goes
 * into g. merge_stable write-protects addr's page and marks it MERGED: its frame number, with a
 * reference for the caller, or 0.
 */
uint32_t sm__mm_merge_stable(struct sm__mm *mm, sm_addr addr);
bool sm__mm_merge(struct sm__mm *mm, sm_addr addr, uint32_t pfn, struct sm__mmu_gather *g);

/* MADV_HWPOISON: the page at addr is lost: its entry becomes a poison marker, its frame is never
 * handed out again. soft: the contents move to another frame. 0, -ENOENT, -ENOMEM. Context: no lock
 * of a space (a page of an object leaves every space). */
int sm__mm_poison(struct sm__mm *mm, sm_addr addr, bool soft);

#endif
