/* SPDX-License-Identifier: MIT */
/* spaces.c - the list of a host's spaces and who visits them (invariants: spaces.h). */
#include "space/spaces.h"

#include <sched.h>

void sm__spaces_enlist(struct sm_space *s)
{
	pthread_mutex_lock(&s->host->lock);
	sm__list_add_tail(&s->host->all, &s->in_host);
	pthread_mutex_unlock(&s->host->lock);
}

void sm__spaces_delist(struct sm_space *s)
{
	pthread_mutex_lock(&s->host->lock);
	/* relaxed: the lock orders it; a visitor comes only through the list */
	while (atomic_load_explicit(&s->visitors, memory_order_relaxed)) {
		pthread_mutex_unlock(&s->host->lock);
		sched_yield();
		pthread_mutex_lock(&s->host->lock);
	}
	sm__list_del(&s->in_host);
	pthread_mutex_unlock(&s->host->lock);
}

struct sm_space *sm__spaces_next(struct sm_host *h, struct sm_space *prev, bool keep)
{
	struct sm__list *next;
	struct sm_space *s = NULL;

	pthread_mutex_lock(&h->lock);
	next = prev ? prev->in_host.next : h->all.next;
	if (next != &h->all) {
		s = sm__list_entry(next, struct sm_space, in_host);
		atomic_fetch_add_explicit(&s->visitors, 1, memory_order_relaxed);
	}
	if (prev && !keep)
		atomic_fetch_sub_explicit(&prev->visitors, 1, memory_order_relaxed);
	pthread_mutex_unlock(&h->lock);
	return s;
}

void sm__spaces_leave(struct sm_space *s)
{
	pthread_mutex_lock(&s->host->lock);
	atomic_fetch_sub_explicit(&s->visitors, 1, memory_order_relaxed);
	pthread_mutex_unlock(&s->host->lock);
}
