/* SPDX-License-Identifier: MIT */
/*
 * rcu.h - read sections for callers: inside one, what a reader's call returned is not reclaimed by
 * the library, and a cursor keeps its place.
 */
#ifndef SAMARA_RCU_H
#define SAMARA_RCU_H

#include <samara/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * sm_rcu_read_lock, sm_rcu_read_unlock - a read section of the calling thread. Sections nest; a
 * thread may not wait for a grace period (sm_rcu_synchronize, anything that destroys) inside one.
 *
 * Context: any thread, attached by the first call; signal handlers on attached threads.
 * Cost: two stores to memory of the thread. Never waits.
 */
SM_API void sm_rcu_read_lock(void);
SM_API void sm_rcu_read_unlock(void);

/*
 * sm_rcu_synchronize - returns after every read section that was open at the call has ended.
 * Context: sleeps. Not in a read section, not in a signal handler.
 */
SM_API void sm_rcu_synchronize(void);

#ifdef __cplusplus
}
#endif
#endif
