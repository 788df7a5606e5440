/* SPDX-License-Identifier: MIT */
/*
 * rcu.h - the one seam over liburcu (flavour memb). No other file includes a urcu header.
 *
 * G1 A pointer read by sm__rcu_dereference inside a read section stays valid until the section ends.
 * G2 A callback given to sm__call_rcu, and the return of sm__rcu_synchronize, come after every read
 *    section that was open when they were called.
 * G3 sm__rcu_barrier returns after every callback that was queued before it has run.
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

static inline void sm__rcu_read_lock(void)
{
	rcu_read_lock();
}

static inline void sm__rcu_read_unlock(void)
{
	rcu_read_unlock();
}

#define sm__rcu_dereference(p)	     rcu_dereference(p)
#define sm__rcu_assign_pointer(p, v) rcu_assign_pointer(p, v)

static inline void sm__rcu_synchronize(void)
{
	synchronize_rcu();
}

static inline void sm__call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *))
{
	call_rcu(head, func);
}

static inline void sm__rcu_barrier(void)
{
	rcu_barrier();
}

#endif
