/* SPDX-License-Identifier: MIT */
/*
 * rcu.h - the one seam over liburcu (flavour memb). No other file of the library reads urcu headers.
 *
 * The read side is inlined: a pair of sm__rcu_read_lock and unlock is two plain stores, where the
 * function calls of the shared library cost ten times as much. Under the thread sanitizer, which
 * does not see into liburcu, they are function calls with annotations: every end of a read section
 * releases one key, every end of a grace period acquires it. One key stands for all grace periods,
 * so that build cannot see a section that was missed; the address-sanitizer build has a test that can.
 *
 * G1 A pointer read by sm__rcu_dereference inside a read section stays valid until the section ends.
 * G2 A callback given to sm__call_rcu, and the return of sm__rcu_synchronize, come after every read
 *    section that was open when they were called.
 * G3 sm__rcu_barrier returns after every callback that was queued before it has run. Callbacks run
 *    one at a time, in the order in which they were queued, with all signals blocked.
 * G4 The backlog is bounded: beyond SM__RCU_BACKLOG callbacks sm__call_rcu waits for the worker,
 *    outside read sections, 100 ms at most.
 * G5 After fork the child has what the parent had: threads that do not exist there hold up no grace
 *    period, callbacks that were queued run. fork must not be called inside a read section.
 */
#ifndef SM_BASE_RCU_H
#define SM_BASE_RCU_H

#include "base/base.h"

#define RCU_MEMBARRIER 1
#if !SM_TSAN
#define URCU_INLINE_SMALL_FUNCTIONS 1
#define _LGPL_SOURCE		    1
#endif
#include <urcu.h>
#include <urcu-call-rcu.h>

enum { SM__RCU_BACKLOG = 1 << 16 };

#if SM_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
extern char sm__rcu_key;
#define sm__rcu_section_ends() __tsan_release(&sm__rcu_key)
#define sm__rcu_grace_ends()   __tsan_acquire(&sm__rcu_key)
#else
#define sm__rcu_section_ends() ((void)0)
#define sm__rcu_grace_ends()   ((void)0)
#endif

static inline void sm__rcu_read_lock(void)
{
	rcu_read_lock();
}

static inline void sm__rcu_read_unlock(void)
{
	sm__rcu_section_ends();
	rcu_read_unlock();
}

/* Is the calling thread inside a read section? */
static inline bool sm__rcu_read_ongoing(void)
{
	return rcu_read_ongoing();
}

/* Plain pointers. acquire is what consume is in every compiler today; pairs with assign's release. */
#define sm__rcu_dereference(p)	     __atomic_load_n(&(p), __ATOMIC_ACQUIRE)
#define sm__rcu_assign_pointer(p, v) __atomic_store_n(&(p), (v), __ATOMIC_RELEASE)

/* Waits for a grace period. Not inside a read section. */
void sm__rcu_synchronize(void);

/* Any context, signal handlers included. The callback must not wait for a lock held by a caller. */
void sm__call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *));

/* Not inside a read section, not in a callback. */
void sm__rcu_barrier(void);

/* The same without a wait for the backlog: for callers that ask sm__rcu_throttle later themselves. */
void sm__call_rcu_nowait(struct rcu_head *head, void (*func)(struct rcu_head *));
void sm__rcu_throttle(void);

/* Hurries the worker and waits until it has finished a batch, outside read sections, 100 ms at most. */
void sm__rcu_wait_batch(void);

/* Makes sure that the worker runs; ordinary context. Without one, barriers do its work. */
void sm__rcu_start(void);

/*
 * The worker's clock: tick is called in the worker once the time asked for has come; it returns the
 * milliseconds until it wants the next call, 0 for none. One user: the cache's age limit.
 */
void sm__rcu_set_tick(unsigned int (*tick)(void));
void sm__rcu_tick_in(unsigned int ms);

/* In the child of a fork, before anything else runs there: calls fn for each queued callback. */
void sm__rcu_for_each_queued(void (*fn)(struct rcu_head *head));

/* Callbacks that wait. */
uint64_t sm__rcu_backlog(void);

/* rcu_registry.c: the calling thread's entry in liburcu's list of readers; and its removal in a child. */
void *sm__rcu_reader_self(void);
void sm__rcu_reader_forget(void *reader);

#endif
