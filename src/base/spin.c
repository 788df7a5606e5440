/* SPDX-License-Identifier: MIT */
/* spin.c - the waiting half of spin.h. */
#include "base/spin.h"
#include "base/thread.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A section is tens of nanoseconds; 100 pauses are a few microseconds: longer means preempted. */
enum { SPIN_LIMIT = 100 };

void sm__spin_lock_slow(struct sm__spin *lock)
{
	int saved = errno;

	sm__thread_leave();
	for (int i = 0; i < SPIN_LIMIT; i++) {
		if (!atomic_load_explicit(&lock->word, memory_order_relaxed) &&
		    sm__spin_trylock(lock))
			return;
		sm__cpu_relax();
	}
	/* acquire: as trylock. From here on the word says 2: others may sleep beside us. */
	while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
		syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
	errno = saved;
}

void sm__spin_wake(struct sm__spin *lock)
{
	int saved = errno;

	syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	errno = saved;
}
