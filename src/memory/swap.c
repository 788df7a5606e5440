/* SPDX-License-Identifier: MIT */
/*
 * swap.c - one file of slots for private memory that was paged out.
 *
 * I1 count[slot] is the number of entries (and readers) that name the slot; 0 is free. Slot 0 is
 *    never used.
 * I2 A slot is written before anybody can name it, and never again while it is named.
 */
#include "memory/memory.h"
#include "base/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct sm__swap {
	int fd;
	uint64_t nr;
	struct sm__spin lock;
	uint64_t hint, used; /* guarded by lock */
	uint32_t count[];    /* guarded by lock */
};

int sm__swap_on(struct sm__memory *m, int fd, uint64_t bytes)
{
	uint64_t nr = bytes >> m->pool->page_shift;
	struct sm__swap *s, *none = NULL;

	if (nr < 2 || nr > UINT32_MAX)
		return -EINVAL;
	if (sm__inject_fail())
		return -ENOMEM;
	s = calloc(1, sizeof(*s) + nr * sizeof(s->count[0]));
	if (!s)
		return -ENOMEM;
	s->nr = nr;
	s->hint = 1;
	s->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (s->fd < 0) {
		free(s);
		return -errno;
	}
	if (atomic_compare_exchange_strong_explicit(&m->swap, &none, s, memory_order_acq_rel,
						    memory_order_relaxed))
		return 0;
	close(s->fd);
	free(s);
	return -EBUSY;
}

void sm__swap_off(struct sm__memory *m)
{
	struct sm__swap *s = atomic_exchange_explicit(&m->swap, NULL, memory_order_acq_rel);

	if (!s)
		return;
	SM_ASSERT_MSG(!s->used, "%lu slots in use", (unsigned long)s->used);
	close(s->fd);
	free(s);
}

static struct sm__swap *swap_of(struct sm__memory *m)
{
	return atomic_load_explicit(&m->swap, memory_order_acquire);
}

static uint64_t take_slot(struct sm__swap *s)
{
	uint64_t slot = 0;

	sm__spin_lock(&s->lock);
	for (uint64_t i = 0; i < s->nr && !slot; i++) {
		uint64_t at = (s->hint + i) % s->nr;

		if (at && !s->count[at])
			slot = at;
	}
	if (slot) {
		s->count[slot] = 1;
		s->hint = slot + 1;
		s->used++;
	}
	sm__spin_unlock(&s->lock);
	return slot;
}

int64_t sm__swap_out(struct sm__memory *m, uint32_t pfn)
{
	struct sm__swap *s = swap_of(m);
	size_t page = sm__page_size(m->pool);
	uint64_t slot = s ? take_slot(s) : 0;

	if (!slot)
		return -ENOSPC;
	if (pwrite(s->fd, sm__frame_ptr(m->pool, pfn), page, (off_t)(slot * page)) !=
	    (ssize_t)page) {
		sm__swap_free(m, slot);
		return -EIO;
	}
	return (int64_t)slot;
}

int sm__swap_in(struct sm__memory *m, uint64_t slot, uint32_t pfn)
{
	size_t page = sm__page_size(m->pool);
	ssize_t n = pread(swap_of(m)->fd, sm__frame_ptr(m->pool, pfn), page, (off_t)(slot * page));

	return n == (ssize_t)page ? 0 : -EIO;
}

void sm__swap_get(struct sm__memory *m, uint64_t slot)
{
	struct sm__swap *s = swap_of(m);

	sm__spin_lock(&s->lock);
	s->count[slot]++;
	sm__spin_unlock(&s->lock);
}

void sm__swap_free(struct sm__memory *m, uint64_t slot)
{
	struct sm__swap *s = swap_of(m);

	sm__spin_lock(&s->lock);
	if (!--s->count[slot])
		s->used--;
	sm__spin_unlock(&s->lock);
}

uint64_t sm__swap_used(struct sm__memory *m)
{
	struct sm__swap *s = swap_of(m);
	uint64_t used = 0;

	if (s) {
		sm__spin_lock(&s->lock);
		used = s->used;
		sm__spin_unlock(&s->lock);
	}
	return used;
}

void sm__swap_hold(struct sm__memory *m)
{
	if (swap_of(m))
		sm__spin_lock(&swap_of(m)->lock);
}

void sm__swap_release(struct sm__memory *m)
{
	if (swap_of(m))
		sm__spin_unlock(&swap_of(m)->lock);
}
