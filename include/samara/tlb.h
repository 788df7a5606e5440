/* SPDX-License-Identifier: MIT */
/*
 * tlb.h - how a program touches the memory of a space: a software TLB per thread that runs guest
 * code, and calls that copy to, from and between spaces. Spaces with the soft backend only.
 *
 *            sm_tlb_run                    any library call on the thread
 *      idle -----------> running ---------------------------------------> parked
 *        ^                 |  ^                                              |
 *        +--- sm_tlb_stop -+  +---- sm_tlb_fill, sm_tlb_run (sees the news) -+
 *
 * G1 When a call that takes a mapping or a permission away (munmap, mprotect, madvise, fork,
 *    mremap, a copy on write) returns, no TLB translates with what was taken, and only then are
 *    frames freed.
 * G2 Such a call waits for running TLBs: each acknowledges at sm_tlb_checkpoint or sm_tlb_fill, or
 *    leaves running. It never waits for idle or parked ones. Guest code that can run long without
 *    either needs the space's kick.
 * G3 Every call into the library parks the TLB that runs on the calling thread, so no thread waits
 *    for a lock while others wait for its TLB; sm_tlb_fill parks it only if it has to wait. Host
 *    pointers got before the call are void after it; sm_translate knows (it misses), and sm_tlb_fill
 *    resumes. A fill that ends in a signal or an error leaves the TLB as it is then: running, unless
 *    it had to wait. A thread that ends leaves running.
 * G4 Guest code itself must not wait for another thread in a way the other's library call could
 *    depend on: leave running (sm_tlb_stop) before blocking.
 *
 * One thread at a time uses a TLB, and one TLB at a time runs on a thread.
 */
#ifndef SAMARA_TLB_H
#define SAMARA_TLB_H

#include <samara/space.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SM_TLB_ENTRIES 256

/* Guest page addresses per kind of access (all ones: none), and what to add to get to the host. */
struct sm_tlb_entry {
	uint64_t tag[3]; /* read, write, execute */
	uint64_t addend;
};

struct sm__tlb_domain;

/* Only the inline functions below touch the members. */
struct sm_tlb {
	const struct sm_tlb_entry *table; /* entries while running, else one where nothing hits */
	uint64_t page_mask;
	uint32_t page_shift;
	uint32_t state;		    /* atomic */
	const uint64_t *generation; /* of the space; atomic */
	uint64_t seen;		    /* the last one acknowledged; atomic */
	struct sm__tlb_domain *domain;
	struct sm_space *space;

	uint32_t waiters __attribute__((aligned(64))); /* atomic */
	uint32_t wake;				       /* atomic, futex */
	uint32_t pins;				       /* atomic: shoot-downs that look at it */
	uint64_t fills, flushes, drops;		       /* counters of the owner */
	void *link[2];
	uint64_t near[4]; /* the last page table that was used */
	sm_addr ahead[2]; /* behind the pages of the last two fills: where a stream goes on */
	int64_t rss[3];	  /* atomic: pages its faults have brought in, by kind */

	struct sm_tlb_entry entries[SM_TLB_ENTRIES] __attribute__((aligned(64)));
};

/*
 * Makes a TLB for a space; idle. Context: any thread; allocates about 8 KiB.
 * Return: 0, -ENOMEM, -EOPNOTSUPP (the space's backend has no pages).
 */
SM_API int sm_tlb_create(struct sm_space *space, struct sm_tlb **out);
/* Context: the TLB is not running, and no call uses it; before its space is destroyed. */
SM_API void sm_tlb_destroy(struct sm_tlb *tlb);

/*
 * From here on the calling thread may translate. Parks whatever else ran on the thread.
 * Cost: one locked store, and what was invalidated since the TLB last ran.
 */
SM_API void sm_tlb_run(struct sm_tlb *tlb);
/* The thread stops translating; nobody waits for it. Context: the thread that runs it. */
SM_API void sm_tlb_stop(struct sm_tlb *tlb);

SM_API void sm__tlb_checkpoint(struct sm_tlb *tlb);

/*
 * Acknowledges what was invalidated: host pointers got before are void after it. Guest code calls
 * it between instructions, at least once per loop. Context: the thread that runs the TLB.
 * Cost: one load when there is nothing.
 */
static inline void sm_tlb_checkpoint(struct sm_tlb *tlb)
{
	/* acquire: pairs with the release of whoever invalidates */
	if (__builtin_expect(__atomic_load_n(tlb->generation, __ATOMIC_ACQUIRE) !=
				     __atomic_load_n(&tlb->seen, __ATOMIC_RELAXED),
			     0))
		sm__tlb_checkpoint(tlb);
}

/*
 * The host address of a guest address, valid to the end of its page and until the next checkpoint
 * or library call; NULL when the TLB does not know: call sm_tlb_fill. access: one of the three.
 * Context: the thread of the TLB. Cost: two loads from cache.
 */
static inline void *sm_translate(const struct sm_tlb *tlb, sm_addr addr, enum sm_access access)
{
	const struct sm_tlb_entry *e =
		&tlb->table[(addr >> tlb->page_shift) & (SM_TLB_ENTRIES - 1)];
	unsigned kind = access & SM_ACCESS_EXEC ? 2 : access >> 1 & 1;

	if (__builtin_expect(e->tag[kind] != (addr & tlb->page_mask), 0))
		return NULL;
	return (void *)(uintptr_t)(addr + e->addend);
}

/*
 * Brings a translation in, with a page fault where it takes one, and resumes a parked TLB. Pages
 * beside it come along where that costs next to nothing.
 * out: the host address as of sm_translate, when the result says so (error 0, signo 0).
 * Return: as sm_fault; error -EINVAL when the TLB is idle, or access is not one of the three.
 * Context: the thread of the TLB; may sleep (parked meanwhile).
 * Cost: 10 to 20 ns when the page is there; a fault that waits for nothing, some 80 ns and the page.
 */
SM_API struct sm_fault_result sm_tlb_fill(struct sm_tlb *tlb, sm_addr addr, enum sm_access access,
					  void **out);

/*
 * Copies guest memory out, or in, faulting pages as an access by the guest would.
 * why: receives the fault that ended a short copy; may be NULL.
 * Return: bytes copied, less than length when a later page is not there; -EFAULT when the first is
 *         not; -ENOMEM; -EOPNOTSUPP (no pages).
 * Context: may sleep. No pointer of the caller's lies in the frames of the space.
 */
SM_API int64_t sm_read(struct sm_space *space, sm_addr addr, void *buf, uint64_t length,
		       struct sm_fault_result *why);
SM_API int64_t sm_write(struct sm_space *space, sm_addr addr, const void *buf, uint64_t length,
			struct sm_fault_result *why);
/* From one space to another, or within one (an overlap is copied upwards). Return: as sm_read. */
SM_API int64_t sm_copy(struct sm_space *to, sm_addr to_addr, struct sm_space *from,
		       sm_addr from_addr, uint64_t length);
/*
 * Atomic compare-and-swap of 1, 2, 4 or 8 naturally aligned bytes, atomic also against guest code
 * that uses host atomics through a TLB. expected: what was found, when it was different.
 * Return: 1 swapped, 0 not, -EINVAL (size, alignment), -EFAULT, -ENOMEM, -EOPNOTSUPP.
 */
SM_API int sm_cmpxchg(struct sm_space *space, sm_addr addr, unsigned size, uint64_t *expected,
		      uint64_t desired);

/* What two waiters must have in common to mean the same futex word. */
struct sm_futex_key {
	uint64_t object; /* the space, or the file behind a shared mapping */
	uint64_t offset; /* bytes: the address, or the place in the file */
	bool shared;
};

/*
 * The key of a futex word. shared: the word may be in a shared mapping and be waited for from
 * another space (no FUTEX_PRIVATE_FLAG); the page is brought in, for writing where that is allowed.
 * As on Linux a word that may only be read has a shared key in a file mapping, none in other memory.
 * A read-only private mapping of a file is keyed by the file, also where the page is a copy by now.
 * Context: shared: as a fault (may sleep, functions of files may run). Otherwise any, signal-safe.
 * Return: 0, -EINVAL (not aligned to 4), -EFAULT (outside the address range; shared: not accessible,
 *         beyond the end of the file, device memory), shared: -ENOMEM, -EINTR.
 * Source: FUTEX_WAKE on Linux 6.18, on each kind of mapping.
 */
SM_API int sm_futex_key(struct sm_space *space, sm_addr addr, bool shared,
			struct sm_futex_key *out);

#ifdef __cplusplus
}
#endif
#endif
