/* SPDX-License-Identifier: MIT */
/*
 * mmap_lock.h - the reader-writer lock of a space, with the sequence that VMA locks are built on.
 *
 *      state    bit 0 WRITER   held for write
 *               bit 1 WAITERS  the queue is not empty: no new reader comes in
 *               bit 2 HANDOFF  the head of the queue has been passed over too often: nobody but it
 *                              may take the lock
 *               bit 3 PENDING_R, bit 4 PENDING_W   a reader (writer) spins for the lock and is next: who
 *                              comes after it keeps off for a moment
 *               bits 8..       readers
 *      sequence even: not write-locked; odd: write-locked. 64 bits: it never wraps.
 *
 * I1 WRITER excludes readers and other writers.
 * I2 WAITERS is set exactly while the queue is not empty (both change under queue_lock).
 * I3 Waiters are served in the order of arrival, adjacent readers at the head together, and each takes the
 *    lock when it runs. A running thread may overtake sleeping ones while the lock is free, at most
 *    STEALS_MAX times: a wake-up costs a hundred times a typical hold, and strict hand-over would leave the
 *    lock idle that long. A reader does not join readers while somebody waits.
 *    Among those that run, the one that has said so first (PENDING) goes first; else a thread that takes
 *    the lock in a loop, with its line in its cache, would leave nothing to one that polls. PENDING is a
 *    courtesy: nobody sleeps because of it, and it is passed over when its thread does not come.
 * I4 The sequence becomes odd after the lock is taken for write and even before it is given up.
 *
 * G1 What a writer stored before it released is seen by whoever takes the lock afterwards.
 * G2 A thread that reads an even sequence with acquire sees everything that the writer which made it
 *    even had stored; one that reads an odd sequence, what the writers before that section had stored.
 * G3 If a thread saw (acquire) any release store that a writer made inside its write section, a later
 *    load of the sequence by that thread is not older than the odd value of that section.
 */
#ifndef SM_BASE_MMAP_LOCK_H
#define SM_BASE_MMAP_LOCK_H

#include "base/base.h"
#include "base/histogram.h"

#define SM__LOCK_WRITER	   1ull
#define SM__LOCK_WAITERS   2ull
#define SM__LOCK_HANDOFF   4ull
#define SM__LOCK_PENDING_R 8ull
#define SM__LOCK_PENDING_W 16ull
#define SM__LOCK_READER	   256ull
#define SM__LOCK_READERS   (~(SM__LOCK_READER - 1))
/* What keeps a reader off that has not waited. */
#define SM__LOCK_BARS_READERS \
	(SM__LOCK_WRITER | SM__LOCK_WAITERS | SM__LOCK_HANDOFF | SM__LOCK_PENDING_W)

enum { SM__LOCK_KINDS = 16 }; /* who takes it; at least SM_CALL_KINDS */

/* Filled only where the lock was made with statistics. */
struct sm__lock_stats {
	_Atomic uint64_t acquired[2], contended[2];
	struct sm__histogram wait[2], hold[2];
	struct sm__histogram wait_by_kind[SM__LOCK_KINDS], hold_by_kind[SM__LOCK_KINDS];
};

struct sm__lock_waiter;

struct sm__mmap_lock {
	_Atomic uint64_t state;
	struct sm__lock_stats *stats; /* fixed; NULL = off */
	uint64_t write_since;	      /* W  the writer's ticket (sm__lock_note_write), if stats */

	_Atomic uint32_t queue_lock;	     /* guards the queue; held for a few instructions */
	_Atomic uint32_t steals;	     /* how often the head was overtaken */
	struct sm__lock_waiter *head, *tail; /* queue_lock */

	/* Read by every fault under a VMA lock, which has no business with the line above. */
	_Atomic uint64_t seq __attribute__((aligned(SM__CACHELINE)));
} __attribute__((aligned(SM__CACHELINE)));

/* A flag that ends this thread's interruptible waits when it is non-zero; NULL = none. */
extern _Thread_local const _Atomic uint32_t *sm__interrupt_flag;

int sm__mmap_lock_init(struct sm__mmap_lock *l, bool stats);
void sm__mmap_lock_destroy(struct sm__mmap_lock *l);
/* In the child of a fork, held for write: who waited does not exist here. */
void sm__mmap_lock_forget_waiters(struct sm__mmap_lock *l);

int sm__lock_read_slow(struct sm__mmap_lock *l, unsigned kind, bool interruptible);
int sm__lock_write_slow(struct sm__mmap_lock *l, unsigned kind, bool interruptible);
void sm__lock_wake(struct sm__mmap_lock *l);
/*
 * With statistics a holder has a ticket, `since`: who got the lock and when. Without, it is 0.
 * note_released counts the hold by side and kind and returns the kind.
 */
void sm__lock_note_write(struct sm__mmap_lock *l, unsigned kind);
uint64_t sm__lock_note_read(struct sm__mmap_lock *l, unsigned kind);
unsigned sm__lock_note_released(struct sm__mmap_lock *l, unsigned side, uint64_t since);

/* True: held for read. Never waits. since: for sm__mmap_read_unlock. */
static inline bool sm__mmap_read_trylock(struct sm__mmap_lock *l, unsigned kind, uint64_t *since)
{
	uint64_t s = atomic_load_explicit(&l->state, memory_order_relaxed);

	do {
		if (s & SM__LOCK_BARS_READERS)
			return false;
		/* acquire: pairs with the release in write_unlock and downgrade (G1) */
	} while (!atomic_compare_exchange_weak_explicit(
		&l->state, &s, s + SM__LOCK_READER, memory_order_acquire, memory_order_relaxed));
	*since = sm__unlikely(l->stats != NULL) ? sm__lock_note_read(l, kind) : 0;
	return true;
}

/* 0, or -EINTR (interruptible only). */
static inline int sm__mmap_read_lock(struct sm__mmap_lock *l, unsigned kind, bool interruptible,
				     uint64_t *since)
{
	int err;

	if (sm__likely(sm__mmap_read_trylock(l, kind, since)))
		return 0;
	err = sm__lock_read_slow(l, kind, interruptible);
	*since = !err && l->stats ? sm__lock_note_read(l, kind) : 0;
	return err;
}

static inline void sm__mmap_read_unlock(struct sm__mmap_lock *l, uint64_t since)
{
	uint64_t s;

	if (sm__unlikely(l->stats != NULL))
		sm__lock_note_released(l, 0, since);
	/* release: the reader's loads end before a writer's stores begin; pairs with write_lock */
	s = atomic_fetch_sub_explicit(&l->state, SM__LOCK_READER, memory_order_release);
	if (sm__unlikely((s & SM__LOCK_WAITERS) && (s & SM__LOCK_READERS) == SM__LOCK_READER))
		sm__lock_wake(l);
}

static inline int sm__mmap_write_lock(struct sm__mmap_lock *l, unsigned kind, bool interruptible)
{
	uint64_t s = 0;

	/* acquire: pairs with the releases of read_unlock and write_unlock (G1) */
	if (sm__unlikely(!atomic_compare_exchange_strong_explicit(
		    &l->state, &s, SM__LOCK_WRITER, memory_order_acquire, memory_order_relaxed))) {
		int err = sm__lock_write_slow(l, kind, interruptible);

		if (err)
			return err;
	}
	/*
	 * release: a VMA reader whose second test finds the odd value of a writer that is after another
	 * VMA must see what the sections before it did, as if it had read their even value (G2).
	 */
	atomic_store_explicit(&l->seq, atomic_load_explicit(&l->seq, memory_order_relaxed) + 1,
			      memory_order_release);
	if (sm__unlikely(l->stats != NULL))
		sm__lock_note_write(l, kind);
	return 0;
}

static inline void sm__mmap_seq_end(struct sm__mmap_lock *l)
{
	/* release: drops every VMA stamp at once; pairs with the acquire of a VMA reader's second test */
	atomic_store_explicit(&l->seq, atomic_load_explicit(&l->seq, memory_order_relaxed) + 1,
			      memory_order_release);
}

static inline void sm__mmap_write_unlock(struct sm__mmap_lock *l)
{
	uint64_t s;

	if (sm__unlikely(l->stats != NULL))
		sm__lock_note_released(l, 1, l->write_since);
	sm__mmap_seq_end(l);
	s = atomic_fetch_sub_explicit(&l->state, SM__LOCK_WRITER, memory_order_release);
	if (sm__unlikely(s & SM__LOCK_WAITERS))
		sm__lock_wake(l);
}

/* From write to read in one step: VMA stamps fall, waiting readers at the head come in. */
static inline uint64_t sm__mmap_downgrade(struct sm__mmap_lock *l)
{
	unsigned kind = 0;
	uint64_t s;

	if (sm__unlikely(l->stats != NULL))
		kind = sm__lock_note_released(l, 1, l->write_since);
	sm__mmap_seq_end(l);
	s = atomic_fetch_add_explicit(&l->state, SM__LOCK_READER - SM__LOCK_WRITER,
				      memory_order_release);
	if (sm__unlikely(s & SM__LOCK_WAITERS))
		sm__lock_wake(l);
	return sm__unlikely(l->stats != NULL) ? sm__lock_note_read(l, kind) : 0;
}

static inline bool sm__mmap_is_write_locked(const struct sm__mmap_lock *l)
{
	return atomic_load_explicit(&((struct sm__mmap_lock *)l)->state, memory_order_relaxed) &
	       SM__LOCK_WRITER;
}

static inline bool sm__mmap_is_locked(const struct sm__mmap_lock *l)
{
	return atomic_load_explicit(&((struct sm__mmap_lock *)l)->state, memory_order_relaxed) &
	       (SM__LOCK_WRITER | SM__LOCK_READERS);
}

/*
 * Speculation: begin gives a sequence, false while a writer is inside; what was then read with acquire
 * loads was of one moment if the sequence has not changed (G3).
 */
static inline bool sm__mmap_speculate_begin(struct sm__mmap_lock *l, uint64_t *seq)
{
	*seq = atomic_load_explicit(&l->seq, memory_order_acquire); /* pairs with seq_end (G2) */
	return !(*seq & 1);
}

static inline bool sm__mmap_speculate_retry(struct sm__mmap_lock *l, uint64_t seq)
{
	/* relaxed: ordered after the acquire loads of the section (G3) */
	return atomic_load_explicit(&l->seq, memory_order_relaxed) != seq;
}

#endif
