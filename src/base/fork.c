/* SPDX-License-Identifier: MIT */
/* fork.c - the process's only pthread_atfork of this library, behind fork.h. */
#include "base/fork.h"

#include <pthread.h>

static _Atomic(const struct sm__fork_ops *) levels[SM__FORK_LEVELS];
/* What prepare ran: a level registered meanwhile must not be undone. Used between fork's two halves. */
static const struct sm__fork_ops *running[SM__FORK_LEVELS];

static void prepare(void)
{
	for (int i = 0; i < SM__FORK_LEVELS; i++) {
		running[i] = atomic_load_explicit(&levels[i], memory_order_acquire);
		if (running[i])
			running[i]->prepare();
	}
}

static void after(bool in_child)
{
	for (int i = SM__FORK_LEVELS; i-- > 0;) {
		if (running[i])
			running[i]->after(in_child);
	}
}

static void in_parent(void)
{
	after(false);
}

static void in_child(void)
{
	after(true);
}

static void install(void)
{
	(void)pthread_atfork(prepare, in_parent, in_child);
}

void sm__fork_register(enum sm__fork_level level, const struct sm__fork_ops *ops)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, install);
	atomic_store_explicit(&levels[level], ops, memory_order_release);
}
