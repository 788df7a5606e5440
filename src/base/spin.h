/* SPDX-License-Identifier: MIT */
/*
 * spin.h - a lock of four bytes for sections of some tens of instructions: spins a little, then
 * sleeps on a futex, because the holder may have been preempted.
 *
 * I1 0 free, 1 held, 2 held and somebody may sleep.
 * I2 Who has to wait leaves the guest that runs on its thread first (thread.h I1).
 * G1 What was written under the lock is seen by its next holder.
 */
#ifndef SM_BASE_SPIN_H
#define SM_BASE_SPIN_H

#include "base/base.h"

#if defined(__x86_64__)
#define sm__cpu_relax() __builtin_ia32_pause()
#else
#define sm__cpu_relax() atomic_signal_fence(memory_order_seq_cst)
#endif

struct sm__spin {
	_Atomic uint32_t word;
};

void sm__spin_lock_slow(struct sm__spin *lock);
void sm__spin_wake(struct sm__spin *lock);

static inline void sm__spin_init(struct sm__spin *lock)
{
	atomic_init(&lock->word, 0);
}

static inline bool sm__spin_trylock(struct sm__spin *lock)
{
	uint32_t free = 0;

	/* acquire: pairs with the release in unlock */
	return atomic_compare_exchange_strong_explicit(&lock->word, &free, 1, memory_order_acquire,
						       memory_order_relaxed);
}

static inline void sm__spin_lock(struct sm__spin *lock)
{
	if (sm__unlikely(!sm__spin_trylock(lock)))
		sm__spin_lock_slow(lock);
}

static inline void sm__spin_unlock(struct sm__spin *lock)
{
	/* release: pairs with the acquire of the next holder */
	if (sm__unlikely(atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2))
		sm__spin_wake(lock);
}

#endif
