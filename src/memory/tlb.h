/* SPDX-License-Identifier: MIT */
/*
 * tlb.h (private) - the shoot-down side of samara/tlb.h: a generation per address space.
 *
 *      who takes something away                     who runs guest code
 *      1 change the entries (table locked)          run:  state = running; look at generation;
 *      2 ring[g + 1] = range; generation = g + 1          drop what is new; seen = generation
 *      3 for each TLB that is running and           checkpoint: generation != seen: drop; seen =
 *        has seen < g + 1: wait                     park, stop: state = parked, idle
 *      4 free the frames
 *
 * I1 seen never decreases and never exceeds generation.
 * I2 A TLB with seen == g holds no translation that was taken away at or before generation g.
 * I3 Step 2 and 3, and the two halves of run, are sequentially consistent: either the runner sees
 *    the new generation, or the shooter sees it running. (Both miss each other: impossible.)
 * I4 ring[g % 64] names what generation g took away; a reader who may have been lapped drops all.
 * I5 Nobody waits for a lock, or for an acknowledgement, while its own TLB is running.
 * I6 A translation is inserted only if the TLB has been running, without a pause, since before the
 *    entry was read, lock-free or under its table's lock: who takes it away changes the entry
 *    later, so publishes a generation that this TLB has not seen, finds it running, and waits.
 *    This holds for any number of entries, not only for the one that was asked for.
 */
#ifndef SM_MEMORY_TLB_H
#define SM_MEMORY_TLB_H

#include "base/base.h"
#include "base/spin.h"

#include <samara/tlb.h>

enum sm__tlb_state { SM__TLB_IDLE, SM__TLB_RUNNING, SM__TLB_PARKED };
enum { SM__TLB_RING = 64 };

struct sm__tlb_domain {
	uint64_t generation __attribute__((aligned(SM__CACHELINE))); /* A */
	_Atomic uint32_t nr __attribute__((aligned(SM__CACHELINE))); /* A  TLBs there are */
	/* A  gathers that have taken something away under a shared lock and not told it (gather.h I3) */
	_Atomic uint32_t pending;
	struct sm__spin lock; /* the list, the ring */
	struct sm__list tlbs;
	struct {
		_Atomic uint64_t start, end;
	} ring[SM__TLB_RING];
	void (*kick)(void *arg, struct sm_tlb *tlb);
	void *kick_arg;
	int64_t rss[3]; /* what the faults of TLBs that are gone have brought in; lock */
	_Atomic uint64_t shots, waits; /* A  counters */
};

void sm__tlb_domain_init(struct sm__tlb_domain *d);

struct sm_tlb *sm__tlb_new(struct sm__tlb_domain *d, uint8_t page_shift, struct sm_space *space);
void sm__tlb_free(struct sm_tlb *tlb);

/* Publishes that [start, end) was taken away. Return: the generation to wait for, 0 when there is
 * no TLB. Context: any lock of memory may be held; never blocks. */
uint64_t sm__tlb_shoot(struct sm__tlb_domain *d, sm_addr start, sm_addr end);
/* Waits until no running TLB is older than generation. Context: the caller's own TLB is parked; a
 * table may be locked; kick may be called. */
void sm__tlb_wait(struct sm__tlb_domain *d, uint64_t generation);

/* Parks what runs on this thread (G3 of samara/tlb.h); every ordinary call begins with it. */
void sm__tlb_park_current(void);
/* Whether the TLB, of the calling thread, still runs: a call may have had to wait since it did. */
static inline bool sm__tlb_runs(const struct sm_tlb *tlb)
{
	/* relaxed: only its own thread changes it */
	return __atomic_load_n(&tlb->state, __ATOMIC_RELAXED) == SM__TLB_RUNNING;
}
bool sm__tlb_resume_slow(struct sm_tlb *tlb);
/* Back to running. False: the TLB was idle. */
static inline bool sm__tlb_resume(struct sm_tlb *tlb)
{
	return sm__likely(sm__tlb_runs(tlb)) || sm__tlb_resume_slow(tlb);
}

/*
 * Counts pages that a fault of the calling thread's TLB brought in: without an atomic instruction,
 * since nobody else writes there. sm__tlb_rss: over all TLBs that are and were.
 */
static inline void sm__tlb_rss_add(struct sm_tlb *tlb, unsigned kind, int64_t n)
{
	/* relaxed: a number */
	__atomic_store_n(&tlb->rss[kind], tlb->rss[kind] + n, __ATOMIC_RELAXED);
}
int64_t sm__tlb_rss(struct sm__tlb_domain *d, unsigned kind);

static inline struct sm_tlb_entry *sm__tlb_entry(struct sm_tlb *tlb, sm_addr addr)
{
	return &tlb->entries[(addr >> tlb->page_shift) & (SM_TLB_ENTRIES - 1)];
}

/* n pages from page on have come in. */
static inline void sm__tlb_note(struct sm_tlb *tlb, sm_addr page, unsigned n)
{
	tlb->ahead[1] = tlb->ahead[0];
	tlb->ahead[0] = page + ((sm_addr)n << tlb->page_shift);
}

/*
 * Whether the guest comes through in order: the page goes on where one of the last two fills ended
 * (two, because a copy reads one stream and writes another). Not if the two share their places in the
 * TLB: each would drive out what the other has just brought.
 */
static inline bool sm__tlb_is_stream(const struct sm_tlb *tlb, sm_addr page)
{
	enum { NEAR = 16 };
	sm_addr other = tlb->ahead[tlb->ahead[0] == page];
	uint64_t apart = (page - other) >> tlb->page_shift;
	uint64_t pages = UINT64_MAX >> tlb->page_shift;

	if (tlb->ahead[0] != page && tlb->ahead[1] != page)
		return false;
	if (((apart + SM_TLB_ENTRIES / 2) & pages) < SM_TLB_ENTRIES)
		return true; /* the same stream */
	return ((apart + NEAR) & (SM_TLB_ENTRIES - 1)) > 2 * NEAR;
}

static inline bool sm__tlb_is_free(struct sm_tlb *tlb, sm_addr page)
{
	const struct sm_tlb_entry *e = sm__tlb_entry(tlb, page);

	return (e->tag[0] & e->tag[1] & e->tag[2]) == UINT64_MAX;
}

/*
 * Remembers a translation. perms: sm_access bits, not 0.
 * Context: tlb has been running since before the page-table entry was read (I6).
 */
static inline void sm__tlb_insert(struct sm_tlb *tlb, sm_addr addr, void *host, unsigned perms)
{
	sm_addr page = addr & tlb->page_mask;
	struct sm_tlb_entry *e = sm__tlb_entry(tlb, page);

	for (unsigned k = 0; k < 3; k++)
		e->tag[k] = perms & (1u << k) ? page : UINT64_MAX;
	e->addend = ((uintptr_t)host & tlb->page_mask) - page;
}
/* No running TLB may be this thread's: for assertions. */
bool sm__tlb_is_quiet(void);

#endif
