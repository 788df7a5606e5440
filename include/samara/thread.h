/* SPDX-License-Identifier: MIT */
/*
 * thread.h - threads and the library: a thread is attached (known to RCU) before it reads shared
 * structures without a lock.
 */
#ifndef SAMARA_THREAD_H
#define SAMARA_THREAD_H

#include <samara/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * sm_thread_attach - makes the calling thread known to the library.
 *
 * Every ordinary call does this by itself the first time; a program calls it when a thread must be
 * ready before its first signal handler asks something (a handler never attaches: on a thread that
 * is not attached the calls that are allowed in handlers answer -EAGAIN). Attaching twice is
 * harmless. The thread is detached when it ends.
 *
 * Context: any thread, not in a signal handler. Takes a lock of the RCU registry for a moment.
 * Return: 0; -EAGAIN when the process has no key left for the destructor (PTHREAD_KEYS_MAX), so that
 *         the thread would stay registered after its end. It is not attached then.
 */
SM_API int sm_thread_attach(void);

/*
 * sm_thread_detach - takes the calling thread off again, as its end would.
 *
 * A thread that will not call the library for long may do so; the next call attaches it again.
 *
 * Context: any thread outside a read section (not inside a callback of an iteration), not in a
 *          signal handler. Detaching a thread that is not attached is harmless.
 */
SM_API void sm_thread_detach(void);

#ifdef __cplusplus
}
#endif
#endif
