/* SPDX-License-Identifier: MIT */
/*
 * thread.h - a thread is attached (registered with RCU) before it enters a read section.
 *
 * I1 Every ordinary public call starts with sm__thread_enter(); it costs one thread-local load.
 * I2 A signal handler never attaches: it asks sm__thread_attached() and answers -EAGAIN if not.
 */
#ifndef SM_BASE_THREAD_H
#define SM_BASE_THREAD_H

#include "base/base.h"

extern _Thread_local bool sm__thread_is_attached;
void sm__thread_attach_slow(void);

static inline void sm__thread_enter(void)
{
	if (sm__unlikely(!sm__thread_is_attached))
		sm__thread_attach_slow();
}

static inline bool sm__thread_attached(void)
{
	return sm__thread_is_attached;
}

#endif
