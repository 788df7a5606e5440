/* SPDX-License-Identifier: MIT */
/*
 * vma_lock.h - the lock of one VMA in three forms behind one inline interface.
 *
 * A reader (a fault) only ever tries; when it fails it takes mmap_lock for read. A writer holds
 * mmap_lock for write, so there is one at most; it shuts out the readers of a VMA once, stamps it with
 * the sequence of mmap_lock, and the stamp holds until that sequence moves on: unlocking or
 * downgrading mmap_lock drops all stamps at once.
 *
 *   refcnt   0 detached | 1 attached | 1+n n readers | FLAG+1+n a writer waits for n readers
 *   rwsem    n readers | FLAG+n a writer waits for n readers    (forms inline and own)
 *
 * I1 Never unlocked for a reader while stamped. A reader may find a VMA locked that is not (it takes
 *    the slow path); it never finds one unlocked that is locked.
 * I2 Only attach leaves refcnt 0; only detach enters it.
 * I3 A stamp is an odd number that mmap_lock never has again (64 bits).
 * I4 What a writer sleeps on is the space's, and spaces are freed after a grace period: a reader's last
 *    touch of a VMA and its space is inside one RCU section.
 * I5 A VMA whose memory is type-stable may have become another, of another space, when a reader
 *    pins it: the reader compares the space, tests the stamp again, and checks the bounds.
 *
 * G1 What a writer changed under its stamp is seen by a reader that locks the VMA afterwards.
 * G2 A reader's loads are over when a writer that waited for it goes on.
 * G3 A reader that pins a freshly attached VMA sees its fields.
 */
#ifndef SM_SPACE_VMA_LOCK_H
#define SM_SPACE_VMA_LOCK_H

#include "base/delay.h"
#include "space/space.h"

#define SM__VMA_FLAG  0x40000000u
#define SM__VMA_LIMIT (SM__VMA_FLAG - 1)

struct sm__vma_rwlock {
	_Atomic uint32_t word;
} __attribute__((aligned(SM__CACHELINE)));

enum sm__vma_try {
	SM__VMA_LOCKED_BY_US,
	SM__VMA_STAMPED,  /* write-locked */
	SM__VMA_WAITED,	  /* a writer waits for readers, or there are too many of them */
	SM__VMA_DETACHED, /* look again */
	SM__VMA_RECYCLED, /* of another space */
};

void sm__vma_wake_writer(struct sm_space *s);

static inline _Atomic uint32_t *sm__vma_word(struct sm__vma *v, enum sm_design_vma_lock form)
{
	return form == SM_VMA_LOCK_OWN ? &v->own_lock->word : &v->lock.rwsem;
}

static inline bool sm__vma_is_stamped(const struct sm_space *s, const struct sm__vma *v)
{
	struct sm__vma *w = (struct sm__vma *)v;

	return atomic_load_explicit(&w->lock_seq, memory_order_relaxed) ==
	       atomic_load_explicit(&((struct sm_space *)s)->lock.seq, memory_order_relaxed);
}

/* The space of a VMA is read before the release: after it the VMA may be somebody else's. */
static inline void sm__vma_end_read(struct sm__vma *v, enum sm_design_vma_lock form)
{
	struct sm_space *s = atomic_load_explicit(&v->space, memory_order_relaxed);
	uint32_t left;

	sm__rcu_read_lock(); /* I4 */
	if (form == SM_VMA_LOCK_REFCNT) {
		/* seq_cst: pairs with the writer's add of FLAG and its loads; release part: G2 */
		left = atomic_fetch_sub_explicit(&v->lock.refcnt, 1, memory_order_seq_cst) - 1;
		if (sm__unlikely((left & SM__VMA_FLAG) && left <= SM__VMA_FLAG + 1))
			sm__vma_wake_writer(s);
	} else {
		left = atomic_fetch_sub_explicit(sm__vma_word(v, form), 1, memory_order_seq_cst) -
		       1;
		if (sm__unlikely(left == SM__VMA_FLAG))
			sm__vma_wake_writer(s);
	}
	sm__rcu_read_unlock();
}

/*
 * Tries to lock v, found in the tree of s, for reading. Inside an RCU section, which stays open.
 * After success the caller checks that the address still lies in the VMA.
 */
static inline enum sm__vma_try sm__vma_start_read(struct sm_space *s, struct sm__vma *v,
						  enum sm_design_vma_lock form)
{
	_Atomic uint32_t *word =
		form == SM_VMA_LOCK_REFCNT ? &v->lock.refcnt : sm__vma_word(v, form);
	uint32_t least = form == SM_VMA_LOCK_REFCNT ? 1 : 0, n;
	/*
	 * Linux tests the stamp here too, before the pin. It saves the pin of a VMA that is write-locked and
	 * costs every fault a look at the sequence, a line that each writer of the space takes away.
	 */
	n = atomic_load_explicit(word, memory_order_relaxed);
	do {
		if (n < least)
			return SM__VMA_DETACHED;
		if (n >= SM__VMA_LIMIT)
			return SM__VMA_WAITED;
		/* acquire: pairs with the release store of attach (G3) and of the writer's sub FLAG */
	} while (!atomic_compare_exchange_weak_explicit(word, &n, n + 1, memory_order_acquire,
							memory_order_relaxed));
	sm__delay();
	if (atomic_load_explicit(&v->space, memory_order_relaxed) != s) {
		sm__vma_end_read(v, form);
		return SM__VMA_RECYCLED;
	}
	/* acquire on the sequence: pairs with seq_end (G1). The stamp is stable while pinned. */
	if (atomic_load_explicit(&s->lock.seq, memory_order_acquire) ==
	    atomic_load_explicit(&v->lock_seq, memory_order_relaxed)) {
		sm__vma_end_read(v, form);
		return SM__VMA_STAMPED;
	}
	if (form != SM_VMA_LOCK_REFCNT &&
	    atomic_load_explicit(&v->detached, memory_order_relaxed)) {
		sm__vma_end_read(v, form);
		return SM__VMA_DETACHED;
	}
	return SM__VMA_LOCKED_BY_US;
}

/* With mmap_lock held for read nobody can stamp: only an overflow of readers makes it fail. */
static inline bool sm__vma_start_read_locked(struct sm__vma *v, enum sm_design_vma_lock form)
{
	_Atomic uint32_t *word =
		form == SM_VMA_LOCK_REFCNT ? &v->lock.refcnt : sm__vma_word(v, form);
	uint32_t n = atomic_load_explicit(word, memory_order_relaxed);

	do {
		if (n >= SM__VMA_LIMIT)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(word, &n, n + 1, memory_order_acquire,
							memory_order_relaxed));
	return true;
}

int sm__vma_start_write_slow(struct sm_space *s, struct sm__vma *v, bool interruptible);

/* mmap_lock is held for write. Stamps v; waits for its readers. Repeating it costs two loads. */
static inline void sm__vma_start_write(struct sm_space *s, struct sm__vma *v)
{
	if (s->design.vma_lock != SM_VMA_LOCK_NONE && !sm__vma_is_stamped(s, v))
		(void)sm__vma_start_write_slow(s, v, false);
}

/* The same, given up with -EINTR when the thread's interrupt flag is raised; earlier stamps stay. */
static inline int sm__vma_start_write_interruptible(struct sm_space *s, struct sm__vma *v)
{
	if (s->design.vma_lock == SM_VMA_LOCK_NONE || sm__vma_is_stamped(s, v))
		return 0;
	return sm__vma_start_write_slow(s, v, true);
}

/* Before the tree store that makes v visible. v is stamped and detached. */
void sm__vma_mark_attached(struct sm_space *s, struct sm__vma *v);
/* After the tree store that removed v. v is stamped; waits for readers that are backing out. */
void sm__vma_mark_detached(struct sm_space *s, struct sm__vma *v);

#endif
