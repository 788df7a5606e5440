/* SPDX-License-Identifier: MIT */
/* thread.c - registers a thread with RCU on its first call and takes it off when it ends. */
#include "base/thread.h"
#include "base/rcu.h"

#include <samara/thread.h>

#include <errno.h>
#include <pthread.h>

/* A thread's entry in our own list, which the child of a fork walks. */
struct attached {
	struct sm__list link; /* L: list_lock */
	void *reader;	      /* its entry in liburcu's registry */
	bool registered;      /* own thread only */
};

_Thread_local bool sm__thread_is_attached __attribute__((tls_model("initial-exec")));
_Thread_local void (*sm__thread_leave_guest)(void) __attribute__((tls_model("initial-exec")));
static _Thread_local struct attached self __attribute__((tls_model("initial-exec")));

static pthread_mutex_t list_lock =
	PTHREAD_MUTEX_INITIALIZER; /* also held around liburcu's registry */
static struct sm__list list = { &list, &list };
static pthread_key_t detach_key;
static bool have_key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

static void detach(void)
{
	/* A guest that ends with its thread, or goes on without the library, would be waited for. */
	sm__thread_leave();
	sm__thread_is_attached = false;
	if (!self.registered)
		return;
	pthread_mutex_lock(&list_lock);
	sm__list_del(&self.link);
	rcu_unregister_thread();
	pthread_mutex_unlock(&list_lock);
	self.registered = false;
}

static void thread_ends(void *unused)
{
	(void)unused;
	detach();
}

static void make_key(void)
{
	have_key = pthread_key_create(&detach_key, thread_ends) == 0;
}

int sm__thread_attach_slow(void)
{
	pthread_once(&key_once, make_key);
	if (!self.registered) {
		if (!have_key || pthread_setspecific(detach_key, &self))
			return -EAGAIN;
		self.reader = sm__rcu_reader_self();
		pthread_mutex_lock(&list_lock);
		rcu_register_thread();
		sm__list_add(&list, &self.link);
		pthread_mutex_unlock(&list_lock);
		self.registered = true;
	}
	sm__rcu_start();
	sm__thread_is_attached = true;
	return 0;
}

void sm__thread_fork_prepare(void)
{
	pthread_mutex_lock(&list_lock);
}

void sm__thread_fork_after(bool in_child)
{
	if (in_child) {
		struct attached *pos;

		sm__list_for_each_safe (pos, &list, link) {
			if (pos != &self)
				sm__rcu_reader_forget(pos->reader);
		}
		sm__list_init(&list);
		if (self.registered)
			sm__list_add(&list, &self.link);
		/* The next ordinary call attaches again, which also starts the child's worker. */
		sm__thread_is_attached = false;
	}
	pthread_mutex_unlock(&list_lock);
}

int sm_thread_attach(void)
{
	return sm__thread_is_attached ? 0 : sm__thread_attach_slow();
}

void sm_thread_detach(void)
{
	detach();
}
