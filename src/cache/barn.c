/* SPDX-License-Identifier: MIT */
/*
 * barn.c - the full and the empty sheaves of a node.
 *
 * I1 Both lists are last in, first out: the sheaf that was used last is the one in the caches.
 * I2 The lock is held for the move of a pointer or two, never for more.
 * I3 nr_full and nr_empty are the lengths of the lists; they are read without the lock only to save it
 *    where there is nothing to gain. nr_full may exceed its limit by races, by a sheaf per CPU.
 */
#include "base/delay.h"
#include "cache/internal.h"

void sm__barn_init(struct sm__barn *barn, uint32_t max_full, uint32_t max_empty)
{
	sm__spin_init(&barn->lock);
	barn->max_full = max_full;
	barn->max_empty = max_empty;
}

static bool barn_lock(struct sm__barn *barn, bool may_wait)
{
	sm__delay();
	if (!may_wait)
		return sm__spin_trylock(&barn->lock);
	sm__spin_lock(&barn->lock);
	return true;
}

static uint32_t load(_Atomic uint32_t *n)
{
	return atomic_load_explicit(n, memory_order_relaxed);
}

static void add(_Atomic uint32_t *n, uint32_t by)
{
	atomic_store_explicit(n, load(n) + by, memory_order_relaxed); /* under the lock */
}

static void push(struct sm_sheaf **list, _Atomic uint32_t *n, struct sm_sheaf *s)
{
	SM_ASSERT_MSG(s->capacity && !s->oversize, "sheaf %p does not belong into a barn",
		      (void *)s);
	s->next = *list;
	*list = s;
	add(n, 1);
}

static struct sm_sheaf *pop(struct sm_sheaf **list, _Atomic uint32_t *n)
{
	struct sm_sheaf *s = *list;

	if (s) {
		*list = s->next;
		add(n, -1u);
	}
	return s;
}

struct sm_sheaf *sm__barn_full_for_empty(struct sm__barn *barn, struct sm_sheaf *empty,
					 bool may_wait)
{
	struct sm_sheaf *full;

	if (!load(&barn->nr_full) || !barn_lock(barn, may_wait))
		return NULL;
	full = pop(&barn->full, &barn->nr_full);
	if (full && empty)
		push(&barn->empty, &barn->nr_empty, empty);
	sm__spin_unlock(&barn->lock);
	return full;
}

enum sm__barn_result sm__barn_empty_for_full(struct sm__barn *barn, struct sm_sheaf *full,
					     struct sm_sheaf **empty, bool may_wait)
{
	if (load(&barn->nr_full) >= barn->max_full)
		return SM__BARN_TOO_MANY;
	if (!load(&barn->nr_empty))
		return SM__BARN_NONE;
	if (!barn_lock(barn, may_wait))
		return SM__BARN_BUSY;
	*empty = pop(&barn->empty, &barn->nr_empty);
	if (*empty)
		push(&barn->full, &barn->nr_full, full);
	sm__spin_unlock(&barn->lock);
	return *empty ? SM__BARN_OK : SM__BARN_NONE;
}

struct sm_sheaf *sm__barn_get_empty(struct sm__barn *barn, bool may_wait)
{
	struct sm_sheaf *s;

	if (!load(&barn->nr_empty) || !barn_lock(barn, may_wait))
		return NULL;
	s = pop(&barn->empty, &barn->nr_empty);
	sm__spin_unlock(&barn->lock);
	return s;
}

bool sm__barn_put_full(struct sm__barn *barn, struct sm_sheaf *s, bool ignore_limit, bool may_wait)
{
	if ((!ignore_limit && load(&barn->nr_full) >= barn->max_full) || !barn_lock(barn, may_wait))
		return false;
	push(&barn->full, &barn->nr_full, s);
	sm__spin_unlock(&barn->lock);
	return true;
}

bool sm__barn_put_empty(struct sm__barn *barn, struct sm_sheaf *s, bool may_wait)
{
	if (load(&barn->nr_empty) >= barn->max_empty || !barn_lock(barn, may_wait))
		return false;
	push(&barn->empty, &barn->nr_empty, s);
	sm__spin_unlock(&barn->lock);
	return true;
}

void sm__barn_empty_out(struct sm__barn *barn, struct sm_sheaf **full, struct sm_sheaf **empty)
{
	sm__spin_lock(&barn->lock);
	*full = barn->full;
	*empty = barn->empty;
	barn->full = barn->empty = NULL;
	atomic_store_explicit(&barn->nr_full, 0, memory_order_relaxed);
	atomic_store_explicit(&barn->nr_empty, 0, memory_order_relaxed);
	sm__spin_unlock(&barn->lock);
}
