/* SPDX-License-Identifier: MIT */
/*
 * thread.h - a thread is attached (registered with RCU) before it enters a read section.
 *
 * I1 Every ordinary public call starts with sm__thread_enter(); it costs two thread-local loads of one
 *    line. Guest code that runs on the thread (a room above registered how to leave it) is left: no
 *    call of the library waits while others wait for the thread's guest. A call that does not leave it
 *    at the start does so before it waits: sm__thread_leave(); a spin lock does when it is not free.
 * I2 A signal handler never attaches: it asks sm__thread_attached() and answers -EAGAIN if not. On an
 *    attached thread it may read under RCU, on a sigaltstack too: attachment is by thread, not by stack.
 * I3 The flag is set last when attaching and cleared first when detaching, so a handler that
 *    interrupts either never reads with half a registration.
 */
#ifndef SM_BASE_THREAD_H
#define SM_BASE_THREAD_H

#include "base/base.h"

/* Initial-exec: reading it must never allocate, a handler reads it. */
extern _Thread_local bool sm__thread_is_attached __attribute__((tls_model("initial-exec")));
/* Set while guest code runs on this thread: leaves it. */
extern _Thread_local void (*sm__thread_leave_guest)(void)
	__attribute__((tls_model("initial-exec")));
int sm__thread_attach_slow(void);

/* Before anything that may wait, in the one call that lets the guest run on meanwhile (sm_tlb_fill). */
static inline void sm__thread_leave(void)
{
	if (sm__unlikely(sm__thread_leave_guest))
		sm__thread_leave_guest();
}

static inline void sm__thread_enter(void)
{
	if (sm__unlikely(!sm__thread_is_attached))
		(void)sm__thread_attach_slow();
	sm__thread_leave();
}

static inline bool sm__thread_attached(void)
{
	return sm__thread_is_attached;
}

/* Fork: no thread attaches or detaches between the two; the child forgets all threads but its own. */
void sm__thread_fork_prepare(void);
void sm__thread_fork_after(bool in_child);

#endif
