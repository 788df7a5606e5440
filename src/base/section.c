/* SPDX-License-Identifier: MIT */
/* section.c - read sections for users of the library (samara/rcu.h). */
#include "base/rcu.h"
#include "base/thread.h"
#include "samara/rcu.h"

void sm_rcu_read_lock(void)
{
	sm__thread_enter();
	sm__rcu_read_lock();
}

void sm_rcu_read_unlock(void)
{
	sm__rcu_read_unlock();
}

void sm_rcu_synchronize(void)
{
	sm__thread_enter();
	sm__rcu_synchronize();
}
