/* SPDX-License-Identifier: MIT */
/*
 * vma.c - the memory of VMAs and names, and identities.
 *
 * I1 A VMA whose memory may be reused under a reader's eyes (typesafe) never has its lock word written
 *    here: it is 0 when it comes back and 0 when it goes out.
 */
#include "space/space.h"
#include "base/inject.h"
#include "samara/file.h"
#include "space/vma_lock.h"

#include <stdlib.h>
#include <string.h>

static bool has_own_lock(const struct sm_space *s)
{
	return s->design.vma_lock == SM_VMA_LOCK_OWN;
}

struct sm__vma *sm__vma_new(struct sm_space *s)
{
	struct sm__vma *v = sm_cache_alloc(s->vma_cache);

	if (!v)
		return NULL;
	if (has_own_lock(s)) {
		v->own_lock = sm_cache_alloc(s->lock_cache);
		if (!v->own_lock) {
			sm_cache_free(s->vma_cache, v);
			return NULL;
		}
		atomic_store_explicit(&v->own_lock->word, 0, memory_order_relaxed);
	} else {
		v->own_lock = NULL;
	}
	v->start = v->end = v->flags = v->pgoff = v->tag = 0;
	v->file = NULL;
	v->name = NULL;
	v->shown = NULL;
	v->gone_next = NULL;
	v->layer = s->vma_layer;
	memset(&v->node, 0, sizeof(v->node));
	/* relaxed: a stale reader of typesafe memory may look, and is refused by the count of 0 */
	atomic_store_explicit(&v->anon, 0, memory_order_relaxed);
	atomic_store_explicit(&v->area.mapper, NULL, memory_order_relaxed);
	atomic_store_explicit(&v->space, s, memory_order_relaxed);
	atomic_store_explicit(&v->lock_seq, UINT64_MAX, memory_order_relaxed);
	atomic_store_explicit(&v->detached, 1, memory_order_relaxed);
	if (s->design.vma_lock == SM_VMA_LOCK_INLINE)
		atomic_store_explicit(&v->lock.rwsem, 0, memory_order_relaxed);
	return v;
}

struct sm__vma *sm__vma_copy(struct sm_space *s, const struct sm__vma *v)
{
	struct sm__vma *n = sm__vma_new(s);

	if (!n)
		return NULL;
	n->start = v->start;
	n->end = v->end;
	n->flags = v->flags;
	n->pgoff = v->pgoff;
	n->tag = v->tag;
	n->file = v->file ? sm_file_get(v->file) : NULL;
	n->name = sm__name_get(v->name);
	atomic_store_explicit(&n->anon, sm__anon_of(v), memory_order_relaxed);
	return n;
}

static void give_back(struct sm_space *s, struct sm__vma *v)
{
	if (v->own_lock)
		sm_cache_free(s->lock_cache, v->own_lock);
	sm_cache_free(s->vma_cache, v);
}

/* After the grace period: the space may be gone by then, the host is not. */
static void give_back_rcu(struct rcu_head *head)
{
	struct sm__vma *v = sm__container_of(head, struct sm__vma, rcu);
	struct sm_host *h = v->home;

	if (v->own_lock)
		sm_cache_free(sm__host_cache(h, SM__CACHE_VMA_LOCK, v->layer), v->own_lock);
	sm_cache_free(sm__host_cache(h, SM__CACHE_VMA, v->layer), v);
}

void sm__vma_free(struct sm_space *s, struct sm__vma *v, bool unreachable)
{
	SM_ASSERT(!v->shown);
	if (v->file) {
		if (s->backend->forget)
			s->backend->forget(v);
		sm_file_put(v->file);
	}
	sm__name_put(v->name);
	if (unreachable && s->design.exit_free == SM_EXIT_FREE_DIRECT) {
		give_back(s, v);
		return;
	}
	switch (s->design.vma_free) {
	case SM_VMA_FREE_NOW:
	case SM_VMA_FREE_TYPESAFE:
	case SM_VMA_FREE_TYPESAFE_SHEAF:
		give_back(s, v);
		break;
	case SM_VMA_FREE_CALL_RCU:
		v->home = s->host;
		sm__call_rcu(&v->rcu, give_back_rcu);
		break;
	case SM_VMA_FREE_SHEAF:
		if (v->own_lock)
			sm_cache_free_rcu(s->lock_cache, v->own_lock);
		sm_cache_free_rcu(s->vma_cache, v);
		break;
	}
}

uint64_t sm__anon_of(const struct sm__vma *v)
{
	return atomic_load_explicit(&((struct sm__vma *)v)->anon, memory_order_relaxed);
}

uint64_t sm__anon_new(struct sm_space *s)
{
	/* relaxed: a number, nothing is published by it */
	return atomic_fetch_add_explicit(&s->next_anon, 1, memory_order_relaxed) + 1;
}

struct sm__name *sm__name_get(struct sm__name *n)
{
	if (n)
		atomic_fetch_add_explicit(&n->refs, 1, memory_order_relaxed);
	return n;
}

static void name_free(struct rcu_head *head)
{
	free(sm__container_of(head, struct sm__name, rcu));
}

void sm__name_put(struct sm__name *n)
{
	/* acq_rel: the last one sees what the others did */
	if (n && atomic_fetch_sub_explicit(&n->refs, 1, memory_order_acq_rel) == 1)
		sm__call_rcu(&n->rcu, name_free);
}

bool sm__name_equal(const struct sm__name *a, const struct sm__name *b)
{
	return a == b || (a && b && strcmp(a->text, b->text) == 0);
}
