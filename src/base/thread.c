/* SPDX-License-Identifier: MIT */
/* thread.c - registers a thread with RCU on its first call and takes it off when it ends. */
#include "base/thread.h"
#include "base/rcu.h"

#include <samara/thread.h>

#include <pthread.h>

_Thread_local bool sm__thread_is_attached;
static pthread_key_t detach_key;
static pthread_once_t detach_once = PTHREAD_ONCE_INIT;

static void detach(void *unused)
{
	(void)unused;
	if (!sm__thread_is_attached)
		return;
	rcu_unregister_thread();
	sm__thread_is_attached = false;
}

static void make_key(void)
{
	(void)pthread_key_create(&detach_key, detach);
}

void sm__thread_attach_slow(void)
{
	pthread_once(&detach_once, make_key);
	rcu_register_thread();
	(void)pthread_setspecific(detach_key, &sm__thread_is_attached);
	sm__thread_is_attached = true;
}

int sm_thread_attach(void)
{
	sm__thread_enter();
	return 0;
}

void sm_thread_detach(void)
{
	detach(NULL);
}
