/* SPDX-License-Identifier: MIT */
/*
 * pagefault.c - the page half of a fault.
 *
 *      peek at the entry    prepare: frames, contents      lock the table, entry unchanged?
 *      (no lock)            (no lock)                      install, unlock, else begin anew
 *
 *      entry        read                         write
 *      nothing      zero page, or the object's   a zeroed frame; a copy of the object's page;
 *                   pages around it              shared: the object's page, noticed dirty
 *      zero page    -                            a zeroed frame
 *      read-only    -                            private: taken over when this is its only user,
 *                                                else copied; shared: noticed dirty
 *      guard        SIGSEGV                      SIGSEGV
 *      poison       SIGBUS                       SIGBUS
 *      swap         read back                    read back
 *
 * I1 The table is locked only to compare and store, and to copy a page that is replaced (its
 *    contents and its reference are safe only there).
 * I2 A translation to another frame becomes visible only after every TLB has dropped the old one:
 *    the entry is 0 meanwhile, and who faults on it waits for the table's lock.
 * I3 A page of an object is entered from its slot as it is under the table's lock; a copy of one is
 *    entered only if, under the table's lock, it is not gone (pagecache.h I2).
 * I4 Nobody waits here for a page that is gone from its object to go from its entry: who drops it
 *    takes mmap_lock for that, perhaps behind a writer that waits for the lock the fault runs under.
 */
#include "memory/pagefault.h"
#include "memory/gather.h"
#include "base/delay.h"
#include "base/rcu.h"
#include "base/thread.h"

#include <string.h>

enum { GO = -1, AGAIN = -2 };

static sm_addr page_of(const struct sm__page_fault *pf)
{
	return SM__ALIGN_DOWN(pf->addr, 1ull << pf->mm->page_shift);
}

static struct sm__frame *frame_of(const struct sm__page_fault *pf, uint32_t pfn)
{
	return sm__frame(pf->mm->pool, pfn);
}

/* Whether a write through a shared mapping goes unnoticed: nothing is written back. */
static bool unnoticed(const struct sm__page_fault *pf)
{
	return pf->shared && pf->pages->is_volatile;
}

/* Pages that came in, or went: by the TLB where there is one, which costs a store. */
static void count(const struct sm__page_fault *pf, enum sm__rss kind, int64_t n)
{
	if (pf->tlb)
		sm__tlb_rss_add(pf->tlb, kind, n);
	else
		sm__mm_rss_add(pf->mm, kind, n);
}

/* ---------------------------------------------------------------- prepare */

static bool make_fresh(struct sm__page_fault *pf, enum sm__alloc_flags flags)
{
	pf->fresh = sm__frame_alloc(pf->mm->pool, flags);
	return pf->fresh;
}

/* Gives back what was prepared and not used. */
static void drop_prepared(struct sm__page_fault *pf)
{
	struct sm__pool *pool = pf->mm->pool;

	if (pf->fresh)
		sm__frame_put(pool, pf->fresh);
	if (pf->source)
		sm__frame_put(pool, pf->source);
	pf->fresh = pf->source = 0;
	pf->map_object = false;
}

/* The page of the object is there, or is made if that takes no waiting. */
static int find_page(struct sm__page_fault *pf)
{
	uint64_t size = pf->size = sm__pages_count(pf->pages);
	uintptr_t v = 0;
	uint32_t pfn;

	pf->slot = sm__pages_slot(pf->pages, pf->index);
	/* acquire: pairs with the release in sm__pages_mark_ready */
	if (pf->slot)
		v = atomic_load_explicit(pf->slot, memory_order_acquire);
	if (pf->index < size && (v & SM__SLOT_READY)) {
		/* What the guest is about to read comes in while the entries are made. */
		__builtin_prefetch((char *)sm__frame_ptr(pf->mm->pool, sm__slot_pfn(v)) +
				   (pf->addr & ((1ull << pf->mm->page_shift) - 1)));
		return GO;
	}
	if (pf->pages->is_volatile) {
		if (pf->index >= size)
			return SM__PAGE_BUS;
		pfn = sm__pages_make(pf->pages, pf->index);
		if (!pfn)
			return SM__PAGE_NOMEM;
		sm__frame_put(pf->mm->pool, pfn);
		pf->slot = sm__pages_slot(pf->pages, pf->index);
		return GO;
	}
	/* Beyond the end as far as we know: only the file itself can say that it has not grown. */
	if (pf->index >= size && pf->major)
		return SM__PAGE_BUS;
	return SM__PAGE_FETCH;
}

static int prepare_missing(struct sm__page_fault *pf)
{
	bool write = pf->access == SM_ACCESS_WRITE;
	int out;

	if (!pf->pages)
		return !write || make_fresh(pf, SM__ALLOC_ZERO) ? GO : SM__PAGE_NOMEM;
	out = find_page(pf);
	if (out != GO)
		return out;
	if (!write || pf->shared) {
		pf->map_object = true;
		return GO;
	}
	/* A private copy at once: one fault instead of two. */
	pf->source = sm__pages_get(pf->pages, pf->index);
	if (!pf->source || !sm__page_is_ready(sm__frame_flags(frame_of(pf, pf->source))))
		return AGAIN;
	if (!make_fresh(pf, 0))
		return SM__PAGE_NOMEM;
	sm__copy_live(sm__frame_ptr(pf->mm->pool, pf->fresh),
		      sm__frame_ptr(pf->mm->pool, pf->source), sm__page_size(pf->mm->pool));
	return GO;
}

static int prepare_present(struct sm__page_fault *pf, sm__pte e)
{
	if (pf->access != SM_ACCESS_WRITE || pf->shared || (e & SM__PTE_W))
		return GO;
	if (e & SM__PTE_SPECIAL)
		return make_fresh(pf, SM__ALLOC_ZERO) ? GO : SM__PAGE_NOMEM;
	/* Only a guess until the table is locked. */
	if (!pf->must_copy && (e & SM__PTE_ANON) && !(e & SM__PTE_PS) &&
	    atomic_load_explicit(&frame_of(pf, sm__pte_pfn(e))->refs, memory_order_relaxed) == 1)
		return GO;
	return (e & SM__PTE_PS) || make_fresh(pf, 0) ? GO : SM__PAGE_NOMEM;
}

/* Reads a swapped page into a fresh frame; the slot is held by a reference taken under the lock. */
static int prepare_swapped(struct sm__page_fault *pf, sm__pte e)
{
	struct sm__memory *m = pf->mm->memory;
	struct sm__slot slot;
	int err;

	if (sm__pt_lock(pf->mm, pf->addr, false, &slot))
		return AGAIN;
	if (slot.level || atomic_load_explicit(slot.entry, memory_order_relaxed) != e) {
		sm__pt_unlock(&slot);
		return AGAIN;
	}
	sm__swap_get(m, sm__pte_payload(e));
	sm__pt_unlock(&slot);
	sm__thread_leave();
	err = make_fresh(pf, 0) ? sm__swap_in(m, sm__pte_payload(e), pf->fresh) : 0;
	sm__swap_free(m, sm__pte_payload(e));
	if (!pf->fresh)
		return SM__PAGE_NOMEM;
	pf->major = true;
	return err ? SM__PAGE_IO : GO;
}

static int prepare(struct sm__page_fault *pf, sm__pte e)
{
	if (!e)
		return prepare_missing(pf);
	if (sm__pte_present(e))
		return prepare_present(pf, e);
	switch (sm__pte_type(e)) {
	case SM__PTE_GUARD:
		return SM__PAGE_GUARD;
	case SM__PTE_POISON:
		return SM__PAGE_POISON;
	case SM__PTE_SWAP:
		return prepare_swapped(pf, e);
	}
	return SM__PAGE_POISON;
}

/* ---------------------------------------------------------------- install: table locked */

static uint64_t perms_of(const struct sm__page_fault *pf)
{
	return sm__pte_perms(pf->prot);
}

/* Whether entries of private frames may let writes through from the start. */
static sm__pte private_entry(const struct sm__page_fault *pf, uint32_t pfn)
{
	return sm__pte_make(pfn, perms_of(pf) | SM__PTE_A | SM__PTE_D | SM__PTE_ANON);
}

static void enter_fresh(struct sm__page_fault *pf, struct sm__slot *slot)
{
	atomic_store_explicit(&frame_of(pf, pf->fresh)->flags, SM__F_ANON, memory_order_relaxed);
	sm__pt_set(pf->mm, slot, slot->entry, private_entry(pf, pf->fresh));
	pf->fresh = 0;
}

/* The old translation goes before the new one comes (I2). */
static void replace(struct sm__page_fault *pf, struct sm__slot *slot)
{
	sm_addr page = page_of(pf);

	/* Straight into the entry: used stays as it was, it is filled again before the unlock. */
	atomic_store_explicit(slot->entry, 0, memory_order_release);
	sm__delay();
	sm__thread_leave();
	sm__tlb_wait(&pf->mm->tlb,
		     sm__tlb_shoot(&pf->mm->tlb, page, page + (1ull << pf->mm->page_shift)));
	atomic_store_explicit(&frame_of(pf, pf->fresh)->flags, SM__F_ANON, memory_order_relaxed);
	/* release: pairs with the walkers; the copy comes first */
	atomic_store_explicit(slot->entry, private_entry(pf, pf->fresh), memory_order_release);
	pf->fresh = 0;
}

/* The pages of the 16 around addr that lie in the area, the table and the object: how far back, and
 * how many in all. */
static unsigned window(const struct sm__page_fault *pf, unsigned *nr)
{
	unsigned shift = pf->mm->page_shift, at = sm__pt_index(pf->mm, pf->addr, 0);
	uint64_t back = pf->index % SM__AROUND, ahead = SM__AROUND - back;
	uint64_t size = pf->size;
	sm_addr page = page_of(pf);

	if (back > (page - pf->start) >> shift)
		back = (page - pf->start) >> shift;
	if (back > at)
		back = at;
	if (ahead > (pf->end - page) >> shift)
		ahead = (pf->end - page) >> shift;
	if (ahead > SM__PT_ENTRIES - at)
		ahead = SM__PT_ENTRIES - at;
	if (ahead > size - pf->index)
		ahead = size - pf->index;
	*nr = (unsigned)(back + ahead);
	return (unsigned)back;
}

/*
 * What the entry of a page of the object allows from the start. A is set in the neighbours too, as
 * Linux does on x86-64: the first use of each then takes a walk, not a fault, and ageing
 * (MADV_COLD, reclaim) clears it where nobody comes.
 */
static uint64_t object_bits(const struct sm__page_fault *pf)
{
	if (unnoticed(pf))
		return perms_of(pf) | SM__PTE_A | SM__PTE_D;
	return (perms_of(pf) & ~SM__PTE_W) | SM__PTE_A;
}

/* A write to the page that was just mapped is noticed, unless the page is on its way out. */
static int notice(struct sm__page_fault *pf, struct sm__slot *slot, sm__pte e)
{
	/* DIRTY before the look at GONE, in one step: shrink_one does it the other way round */
	if (atomic_fetch_or_explicit(&frame_of(pf, sm__pte_pfn(e))->flags, SM__F_DIRTY,
				     memory_order_acq_rel) &
	    SM__F_GONE)
		return SM__PAGE_LEAVES;
	atomic_store_explicit(slot->entry, e | SM__PTE_W | SM__PTE_D, memory_order_release);
	return SM__PAGE_DONE;
}

/* Maps the object's pages around addr where nothing is. AGAIN: the one at addr has gone meanwhile.
 * The slots are read under the table's lock: pagecache.h I2. */
static int enter_around(struct sm__page_fault *pf, struct sm__slot *slot)
{
	uint64_t bits = object_bits(pf);
	unsigned nr, back = window(pf, &nr), mapped = nr;
	_Atomic uint64_t *entry = slot->entry - back;
	_Atomic uintptr_t *frames = pf->slot - back;
	sm__pte e;

	/* 16 times at most, in a fault of some 200 instructions: worth unrolling */
#pragma GCC unroll 4
	for (unsigned i = 0; i < nr; i++) {
		uintptr_t v = atomic_load_explicit(&frames[i], memory_order_seq_cst);

		/* release: pairs with the walkers; used is counted once, below */
		if (sm__likely((v & SM__SLOT_READY) &&
			       !atomic_load_explicit(&entry[i], memory_order_relaxed)))
			atomic_store_explicit(&entry[i], v | bits, memory_order_release);
		else
			mapped--;
	}
	sm__pt_filled(pf->mm, slot, mapped);
	count(pf, SM__RSS_FILE, mapped);
	e = atomic_load_explicit(slot->entry, memory_order_relaxed);
	if (!e)
		return AGAIN;
	if (pf->access == SM_ACCESS_WRITE && !unnoticed(pf))
		return notice(pf, slot, e);
	return SM__PAGE_DONE;
}

static int install_missing(struct sm__page_fault *pf, struct sm__slot *slot)
{
	if (pf->map_object)
		return enter_around(pf, slot);
	if (pf->source && (sm__frame_flags(frame_of(pf, pf->source)) & SM__F_GONE))
		return AGAIN;
	if (pf->fresh) {
		enter_fresh(pf, slot);
		count(pf, SM__RSS_ANON, 1);
		return SM__PAGE_DONE;
	}
	sm__pt_set(pf->mm, slot, slot->entry,
		   sm__pte_make(0, (perms_of(pf) & ~SM__PTE_W) | SM__PTE_A | SM__PTE_SPECIAL));
	return SM__PAGE_DONE;
}

/* A write to a private page that is mapped read-only. */
static int install_copy(struct sm__page_fault *pf, struct sm__slot *slot, sm__pte e)
{
	struct sm__pool *pool = pf->mm->pool;
	uint32_t old = sm__pte_pfn(e);
	struct sm__frame *f = frame_of(pf, old);

	if (e & SM__PTE_SPECIAL) {
		replace(pf, slot);
		count(pf, SM__RSS_ANON, 1);
		return SM__PAGE_DONE;
	}
	if ((e & SM__PTE_PS) || ((e & SM__PTE_ANON) && !(sm__frame_flags(f) & SM__F_MERGED) &&
				 atomic_load_explicit(&f->refs, memory_order_acquire) == 1)) {
		/* Its only user (frame.h I5). */
		if (sm__unlikely(sm__frame_flags(f) & SM__F_LAZYFREE))
			sm__frame_clear(f, SM__F_LAZYFREE);
		sm__pt_set(pf->mm, slot, slot->entry, e | SM__PTE_W | SM__PTE_A | SM__PTE_D);
		return SM__PAGE_DONE;
	}
	if (!pf->fresh) {
		pf->must_copy = true;
		return AGAIN;
	}
	if (e & SM__PTE_ANON)
		memcpy(sm__frame_ptr(pool, pf->fresh), sm__frame_ptr(pool, old),
		       sm__page_size(pool));
	else
		sm__copy_live(sm__frame_ptr(pool, pf->fresh), sm__frame_ptr(pool, old),
			      sm__page_size(pool));
	replace(pf, slot);
	if (!(e & SM__PTE_ANON)) {
		count(pf, SM__RSS_FILE, -1);
		count(pf, SM__RSS_ANON, 1);
	}
	/* The TLBs have dropped it. */
	if (e & SM__PTE_ANON)
		pf->source = old;
	return SM__PAGE_DONE;
}

static int install_present(struct sm__page_fault *pf, struct sm__slot *slot, sm__pte e)
{
	struct sm__frame *f = frame_of(pf, sm__pte_pfn(e));
	uint64_t add = SM__PTE_A;

	/* The area allows it and the entry lags behind: permissions were given since (mprotect). */
	if (!(e & SM__PTE_U))
		e = (e & ~(SM__PTE_U | SM__PTE_NX)) | (perms_of(pf) & (SM__PTE_U | SM__PTE_NX));
	if (pf->access == SM_ACCESS_WRITE) {
		if (!(e & SM__PTE_W) && !pf->shared)
			return install_copy(pf, slot, e);
		if (pf->shared && !unnoticed(pf)) {
			sm__frame_set(f, SM__F_DIRTY);
			if (sm__frame_flags(f) & SM__F_GONE)
				return SM__PAGE_LEAVES;
		} else if ((e & SM__PTE_ANON) && (sm__frame_flags(f) & SM__F_LAZYFREE)) {
			sm__frame_clear(f, SM__F_LAZYFREE);
		}
		add |= SM__PTE_W | SM__PTE_D;
	}
	if ((e | add) != atomic_load_explicit(slot->entry, memory_order_relaxed))
		sm__pt_set(pf->mm, slot, slot->entry, e | add);
	return SM__PAGE_DONE;
}

static int install(struct sm__page_fault *pf, struct sm__slot *slot, sm__pte e)
{
	if (!e)
		return install_missing(pf, slot);
	if (sm__pte_present(e))
		return install_present(pf, slot, e);
	/* Swapped, and read back. */
	sm__swap_free(pf->mm->memory, sm__pte_payload(e));
	enter_fresh(pf, slot);
	count(pf, SM__RSS_SWAP, -1);
	count(pf, SM__RSS_ANON, 1);
	return SM__PAGE_DONE;
}

/* ---------------------------------------------------------------- translations */

/* What an entry lets a TLB do: a write only with D set, anything only with A. */
static unsigned tlb_perms(sm__pte e)
{
	unsigned perms = 0;

	if ((e & (SM__PTE_P | SM__PTE_U | SM__PTE_A)) != (SM__PTE_P | SM__PTE_U | SM__PTE_A))
		return 0;
	perms = SM_ACCESS_READ;
	if ((e & (SM__PTE_W | SM__PTE_D)) == (SM__PTE_W | SM__PTE_D))
		perms |= SM_ACCESS_WRITE;
	if (!(e & SM__PTE_NX))
		perms |= SM_ACCESS_EXEC;
	return perms;
}

static char *host_of(struct sm__mm *mm, sm__pte e, unsigned level, sm_addr addr)
{
	return (char *)sm__frame_ptr(mm->pool, sm__pte_pfn(e)) +
	       (addr & (sm__pt_span(mm, level) - 1));
}

/* ---------------------------------------------------------------- the fault */

/* The entry without a lock; the first time the caller may have looked already. */
static sm__pte peek(struct sm__page_fault *pf)
{
	unsigned level;

	if (!pf->peeked) {
		sm__rcu_read_lock();
		pf->entry = sm__pt_peek(pf->mm, pf->addr, pf->near, &level);
		sm__rcu_read_unlock();
	}
	pf->peeked = false;
	return pf->entry;
}

static int lock_entry(struct sm__page_fault *pf, struct sm__slot *slot)
{
	if (sm__pt_lock_known(pf->mm, pf->addr, pf->near, slot))
		return 0;
	return sm__pt_lock(pf->mm, pf->addr, true, slot);
}

/* The table is locked: installs if the entry is still what was prepared for. */
static int install_locked(struct sm__page_fault *pf, struct sm__slot *slot)
{
	int out = AGAIN;

	if (atomic_load_explicit(slot->entry, memory_order_relaxed) == pf->entry)
		out = install(pf, slot, pf->entry);
	pf->entry = slot->level ? 0 : atomic_load_explicit(slot->entry, memory_order_relaxed);
	sm__pt_unlock(slot);
	return out;
}

static bool map_huge(struct sm__page_fault *pf)
{
	if (!pf->huge || pf->access != SM_ACCESS_WRITE)
		return false;
	/* 2 MiB are zeroed: nobody should wait that long for the guest. */
	sm__thread_leave();
	return sm__mm_map_huge(pf);
}

static int perform(struct sm__page_fault *pf)
{
	int out;

	pf->fresh = pf->source = 0;
	pf->map_object = pf->must_copy = false;
	do {
		struct sm__slot slot;
		sm__pte e = peek(pf);

		if (!e && map_huge(pf))
			return SM__PAGE_DONE;
		out = prepare(pf, e);
		if (out == GO) {
			sm__delay();
			out = lock_entry(pf, &slot) ? SM__PAGE_NOMEM : install_locked(pf, &slot);
		}
		drop_prepared(pf);
	} while (out == AGAIN);
	return out;
}

/*
 * The page goes into the TLB, unless the fault had to wait: what the entry said may have been taken
 * away since, and the TLB, which was parked, not asked.
 */
static void enter(struct sm__page_fault *pf, struct sm_tlb *tlb)
{
	unsigned perms = tlb_perms(pf->entry);

	pf->host = NULL;
	if (!sm__tlb_runs(tlb) || !(perms & pf->access))
		return;
	pf->host = host_of(pf->mm, pf->entry, 0, pf->addr);
	sm__tlb_insert(tlb, pf->addr, pf->host, perms);
	sm__tlb_note(tlb, pf->addr & tlb->page_mask, 1);
	tlb->fills++;
}

enum sm__page_outcome sm__mm_fault(struct sm__page_fault *pf)
{
	struct sm__pt_near none = { .table = NULL };
	int out;

	pf->near = pf->tlb ? sm__tlb_near(pf->tlb) : &none;
	out = perform(pf);
	if (pf->tlb && out == SM__PAGE_DONE)
		enter(pf, pf->tlb);
	return (enum sm__page_outcome)out;
}

/* ---------------------------------------------------------------- use */

/*
 * Up to n pages beside page in one direction, as far as their entries translate: these lie in one or
 * two lines that the walk has just read. The first place that is taken ends it, so a guest that jumps
 * about pays two looks, unless other translations are to give way. Return: how many.
 */
static unsigned fill_run(const struct sm__mm *mm, struct sm_tlb *tlb, sm_addr page,
			 _Atomic uint64_t *entry, int n, bool is_stream)
{
	int step = n < 0 ? -1 : 1, i;

	for (i = step; i != n + step; i += step) {
		sm_addr at = page + ((sm_addr)(int64_t)i << mm->page_shift);
		/* acquire: as in sm__pt_read */
		sm__pte e = atomic_load_explicit(entry + i, memory_order_acquire);
		unsigned perms = tlb_perms(e);

		if (!perms || (!is_stream && !sm__tlb_is_free(tlb, at)))
			break;
		sm__tlb_insert(tlb, at, sm__frame_ptr(mm->pool, sm__pte_pfn(e)), perms);
	}
	return (unsigned)(i * step - 1);
}

/* The pages around addr, within the aligned 16. */
static void fill_around(struct sm__mm *mm, struct sm_tlb *tlb, sm_addr addr,
			_Atomic uint64_t *entry)
{
	sm_addr page = addr & tlb->page_mask;
	int at = (int)(page >> mm->page_shift & (SM__AROUND - 1));
	bool is_stream = sm__tlb_is_stream(tlb, page);
	unsigned n = fill_run(mm, tlb, page, entry, SM__AROUND - 1 - at, is_stream);

	sm__tlb_note(tlb, page, n + 1);
	fill_run(mm, tlb, page, entry, -at, false);
}

void *sm__mm_fill(struct sm__mm *mm, struct sm_tlb *tlb, sm_addr addr, enum sm_access access,
		  sm__pte *seen)
{
	struct sm__pt_near *near = sm__tlb_near(tlb);
	void *host = NULL;
	unsigned level, perms;
	sm__pte e;

	*seen = 0;
	if (addr >= sm__mm_limit(mm))
		return NULL;
	/* The section spans all reads: the table may be unlinked meanwhile. */
	sm__rcu_read_lock();
	e = *seen = sm__pt_peek(mm, addr, near, &level);
	perms = tlb_perms(e);
	if (perms & access) {
		host = host_of(mm, e, level, addr);
		sm__tlb_insert(tlb, addr, host, perms);
		if (!level)
			fill_around(mm, tlb, addr, near->entries + sm__pt_index(mm, addr, 0));
		tlb->fills++;
	}
	sm__rcu_read_unlock();
	return host;
}

void *sm__mm_hold(struct sm__mm *mm, sm_addr addr, enum sm_access access, struct sm__slot *slot)
{
	sm__pte e;

	if (addr >= sm__mm_limit(mm) || sm__pt_lock(mm, addr, false, slot))
		return NULL;
	e = atomic_load_explicit(slot->entry, memory_order_relaxed);
	if (tlb_perms(e) & access)
		return host_of(mm, e, slot->level, addr);
	sm__pt_unlock(slot);
	return NULL;
}
