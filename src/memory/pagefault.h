/* SPDX-License-Identifier: MIT */
/*
 * pagefault.h - one access meets the entry of its page: what is brought in, copied, or refused.
 * The caller has found the area and checked that it allows the access; the area stays as it is
 * until the call returns.
 */
#ifndef SM_MEMORY_PAGEFAULT_H
#define SM_MEMORY_PAGEFAULT_H

#include "memory/mm.h"
#include "memory/pagecache.h"

enum sm__page_outcome {
	SM__PAGE_DONE,	 /* the entry allows the access */
	SM__PAGE_NOMEM,	 /* no frame or no table; sm__memory_reclaim may help; nothing changed */
	SM__PAGE_BUS,	 /* beyond the end of the object */
	SM__PAGE_GUARD,	 /* a guard marker */
	SM__PAGE_POISON, /* broken memory */
	SM__PAGE_LEAVES, /* on its way out of the object: let all locks go, then again */
	SM__PAGE_FETCH,	 /* sm__pages_fetch(pages, file, index) without locks, then again */
	SM__PAGE_IO,	 /* the swap file could not be read */
};

struct sm__page_fault {
	struct sm__mm *mm;
	sm_addr addr; /* any byte of the page */
	enum sm_access access;
	int prot;		 /* SM_PROT_* of the area */
	bool shared;		 /* writes reach the object */
	bool huge;		 /* private memory may come as 2 MiB */
	sm_addr start, end;	 /* of the area: fault-around stays inside */
	struct sm__pages *pages; /* NULL: private memory without an object */
	uint64_t index;		 /* page of the object at addr */

	bool major; /* out: had to read */
	/* out, with tlb: where the page is, when tlb has got it: it has run since before the fault */
	void *host;

	/*
	 * In, with peeked: the entry as the fill has just read it; out, when done: as it allows the
	 * access, 0 where the page is not a small one.
	 */
	bool peeked;
	sm__pte entry;
	struct sm_tlb *tlb; /* NULL, or the thread's own, for which the page is wanted */

	/* between prepare and install */
	struct sm__pt_near *near; /* the table at addr, if it is known */
	uint32_t fresh;		  /* a frame for a private copy */
	uint32_t source;	  /* of the object, to copy from */
	bool map_object;	  /* enter pages of the object */
	_Atomic uintptr_t *slot;  /* where the object has the page; with map_object */
	uint64_t size;		  /* of the object in pages; with map_object */
	bool must_copy;		  /* found shared under the lock */
};

/* Context: no lock of memory, no RCU section; may wait for TLBs with one table locked (COW). */
enum sm__page_outcome sm__mm_fault(struct sm__page_fault *pf);

/*
 * Fills a TLB from the entry as it is now, and free places of it from the entries beside that one.
 * seen: what the entry was. Return: the host address, or NULL when it takes a fault.
 * Context: tlb is running on this thread.
 */
void *sm__mm_fill(struct sm__mm *mm, struct sm_tlb *tlb, sm_addr addr, enum sm_access access,
		  sm__pte *seen);

/*
 * Host address of addr with the table locked, so that nobody can take the page away: for copies and
 * atomics inside one page. NULL: it takes a fault. Unlock with sm__pt_unlock(slot).
 */
void *sm__mm_hold(struct sm__mm *mm, sm_addr addr, enum sm_access access, struct sm__slot *slot);

#endif
