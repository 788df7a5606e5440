/* SPDX-License-Identifier: MIT */
/* vma_lock.c - the writer's side: shut out the readers of a VMA, stamp it, attach, detach. */
#include "space/vma_lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPINS_MAX = 400 };

/* The last reader has left a VMA that a writer of s waits for. Inside the reader's RCU section. */
void sm__vma_wake_writer(struct sm_space *s)
{
	/* seq_cst: this add, then the look at vma_sleeper; the writer stores vma_sleeper, then reads
	 * the count. One of the two sees the other. */
	atomic_fetch_add_explicit(&s->vma_wake, 1, memory_order_seq_cst);
	if (atomic_load_explicit(&s->vma_sleeper, memory_order_seq_cst))
		syscall(SYS_futex, &s->vma_wake, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static bool interrupted(void)
{
	return sm__interrupt_flag &&
	       atomic_load_explicit(sm__interrupt_flag, memory_order_acquire) != 0;
}

/* Waits until *word is target. 0, or -EINTR (interruptible only). */
static int vma_wait(struct sm_space *s, _Atomic uint32_t *word, uint32_t target, bool interruptible)
{
	const struct timespec tick = { .tv_nsec = 10000000 };

	for (unsigned n = 0; n < SPINS_MAX; n++) {
		/* acquire: pairs with the readers' decrement (G2) */
		if (atomic_load_explicit(word, memory_order_acquire) == target)
			return 0;
#if defined(__x86_64__)
		__builtin_ia32_pause();
#endif
	}
	for (;;) {
		uint32_t ticket = atomic_load_explicit(&s->vma_wake, memory_order_seq_cst);

		atomic_store_explicit(&s->vma_sleeper, 1, memory_order_seq_cst);
		if (atomic_load_explicit(word, memory_order_seq_cst) == target)
			break;
		if (interruptible && interrupted()) {
			atomic_store_explicit(&s->vma_sleeper, 0, memory_order_relaxed);
			return -EINTR;
		}
		syscall(SYS_futex, &s->vma_wake, FUTEX_WAIT_PRIVATE, ticket,
			interruptible && sm__interrupt_flag ? &tick : NULL, NULL, 0);
	}
	atomic_store_explicit(&s->vma_sleeper, 0, memory_order_relaxed);
	return 0;
}

int sm__vma_start_write_slow(struct sm_space *s, struct sm__vma *v, bool interruptible)
{
	enum sm_design_vma_lock form = s->design.vma_lock;
	_Atomic uint32_t *word =
		form == SM_VMA_LOCK_REFCNT ? &v->lock.refcnt : sm__vma_word(v, form);
	uint32_t base = form == SM_VMA_LOCK_REFCNT ? 1 : 0, n;
	int err = 0;

	SM_ASSERT(sm__mmap_is_write_locked(&s->lock));
	n = atomic_load_explicit(word, memory_order_relaxed);
	if (n >= base) {
		/* seq_cst: before the loads of the wait; acquire part for a VMA without readers (G2) */
		n = atomic_fetch_add_explicit(word, SM__VMA_FLAG, memory_order_seq_cst);
		if (n != base)
			err = vma_wait(s, word, SM__VMA_FLAG + base, interruptible);
	} /* else detached: nobody can pin it */
	if (!err)
		/* relaxed: published by the sub below; readers that see neither are refused by FLAG */
		atomic_store_explicit(&v->lock_seq,
				      atomic_load_explicit(&s->lock.seq, memory_order_relaxed),
				      memory_order_relaxed);
	if (n >= base)
		/* release: a reader whose increment comes after it sees the stamp (its acquire) */
		atomic_fetch_sub_explicit(word, SM__VMA_FLAG, memory_order_release);
	return err;
}

void sm__vma_mark_attached(struct sm_space *s, struct sm__vma *v)
{
	if (s->design.vma_lock == SM_VMA_LOCK_NONE)
		return;
	SM_ASSERT(sm__vma_is_stamped(s, v));
	if (s->design.vma_lock == SM_VMA_LOCK_REFCNT) {
		SM_ASSERT(atomic_load_explicit(&v->lock.refcnt, memory_order_relaxed) == 0);
		/* release: the fields, before any reader's increment succeeds (G3) */
		atomic_store_explicit(&v->lock.refcnt, 1, memory_order_release);
	} else {
		atomic_store_explicit(&v->detached, 0, memory_order_relaxed);
	}
}

void sm__vma_mark_detached(struct sm_space *s, struct sm__vma *v)
{
	uint32_t n;

	if (s->design.vma_lock == SM_VMA_LOCK_NONE)
		return;
	SM_ASSERT(sm__vma_is_stamped(s, v));
	if (s->design.vma_lock != SM_VMA_LOCK_REFCNT) {
		/* relaxed: readers are refused by the stamp until seq_end, which publishes it */
		atomic_store_explicit(&v->detached, 1, memory_order_relaxed);
		return;
	}
	/* acq_rel: 1 -> 0 hands the VMA on to its next life (I2) */
	n = atomic_fetch_sub_explicit(&v->lock.refcnt, 1, memory_order_acq_rel) - 1;
	SM_ASSERT_MSG(n < SM__VMA_FLAG, "refcnt %#x", n);
	if (sm__likely(n == 0))
		return;
	/* readers that pinned it before they saw the stamp are backing out: add FLAG unless they have */
	do {
		if (n == 0)
			return;
	} while (!atomic_compare_exchange_weak_explicit(
		&v->lock.refcnt, &n, n + SM__VMA_FLAG, memory_order_seq_cst, memory_order_relaxed));
	(void)vma_wait(s, &v->lock.refcnt, SM__VMA_FLAG, false);
	atomic_fetch_sub_explicit(&v->lock.refcnt, SM__VMA_FLAG, memory_order_release);
}
