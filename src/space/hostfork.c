/* SPDX-License-Identifier: MIT */
/*
 * hostfork.c - the host process forks: every space is held still meanwhile, and the child's spaces are
 * free of threads that do not exist there.
 *
 * I1 prepare write-locks each space and each of its VMAs, in the order of making: who forks a space
 *    (sm_fork) holds the parent, which is older than the child, so the two cannot wait for each other.
 * I2 The lists of hosts and spaces are locked last, and only when no space is missing.
 */
#include "space/spaces.h"
#include "base/fork.h"
#include "base/thread.h"
#include "space/vma_lock.h"

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sm__list hosts = { &hosts, &hosts }; /* guarded by list_lock */

static void hold_space(struct sm_space *s)
{
	struct sm__tree_cursor c;

	(void)sm__mmap_write_lock(&s->lock, SM_CALL_FORK, false);
	c = sm__cursor(&s->tree);
	for (struct sm__vma *v = sm__seek(&c, 0); v; v = sm__next(&c))
		sm__vma_start_write(s, v);
}

/* Locks all spaces of a host, then its list. */
static void hold_host(struct sm_host *h)
{
	struct sm_space *last = NULL, *s;

	for (;;) {
		while ((s = sm__spaces_next(h, last, true))) {
			hold_space(s);
			last = s;
		}
		pthread_mutex_lock(&h->lock);
		if ((last ? last->in_host.next : h->all.next) == &h->all)
			return;
		pthread_mutex_unlock(&h->lock);
	}
}

static void release_host(struct sm_host *h, bool in_child)
{
	struct sm_space *s;

	if (in_child)
		atomic_store_explicit(&h->merging, false, memory_order_relaxed);
	sm__list_for_each_entry (s, &h->all, in_host) {
		if (in_child) {
			atomic_store_explicit(&s->visitors, 0, memory_order_relaxed);
			atomic_store_explicit(&s->vma_sleeper, 0, memory_order_relaxed);
			sm__mmap_lock_forget_waiters(&s->lock);
		} else {
			atomic_fetch_sub_explicit(&s->visitors, 1, memory_order_relaxed);
		}
		sm__mmap_write_unlock(&s->lock);
	}
	pthread_mutex_unlock(&h->lock);
}

static void prepare(void)
{
	struct sm_host *h;

	/* A guest on this thread must not be waited for by who holds a space. */
	sm__thread_enter();
	pthread_mutex_lock(&list_lock);
	sm__list_for_each_entry (h, &hosts, link)
		hold_host(h);
}

static void after(bool in_child)
{
	struct sm_host *h;

	sm__list_for_each_entry (h, &hosts, link)
		release_host(h, in_child);
	pthread_mutex_unlock(&list_lock);
}

void sm__host_enlist(struct sm_host *h)
{
	static const struct sm__fork_ops ops = { prepare, after };

	sm__fork_register(SM__FORK_SPACE, &ops);
	pthread_mutex_lock(&list_lock);
	sm__list_add_tail(&hosts, &h->link);
	pthread_mutex_unlock(&list_lock);
}

void sm__host_delist(struct sm_host *h)
{
	pthread_mutex_lock(&list_lock);
	sm__list_del(&h->link);
	pthread_mutex_unlock(&list_lock);
}
