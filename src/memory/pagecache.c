/* SPDX-License-Identifier: MIT */
/* pagecache.c - the tree of pages of one object, and its frames' life (invariants: pagecache.h). */
#include "memory/pagecache.h"
#include "base/delay.h"
#include "base/inject.h"
#include "base/thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---------------------------------------------------------------- BUSY */

void sm__frame_lock(struct sm__frame *f)
{
	uint32_t flags = sm__frame_flags(f);

	for (;;) {
		if (!(flags & SM__F_BUSY)) {
			/* acquire: pairs with the release in sm__frame_unlock */
			if (atomic_compare_exchange_weak_explicit(
				    &f->flags, &flags, flags | SM__F_BUSY, memory_order_acq_rel,
				    memory_order_relaxed))
				return;
			continue;
		}
		if (!(flags & SM__F_WAITERS) && !atomic_compare_exchange_weak_explicit(
							&f->flags, &flags, flags | SM__F_WAITERS,
							memory_order_relaxed, memory_order_relaxed))
			continue;
		syscall(SYS_futex, &f->flags, FUTEX_WAIT_PRIVATE, flags | SM__F_WAITERS, NULL, NULL,
			0);
		flags = sm__frame_flags(f);
	}
}

void sm__frame_unlock(struct sm__frame *f)
{
	uint32_t old = atomic_fetch_and_explicit(&f->flags, ~(uint32_t)(SM__F_BUSY | SM__F_WAITERS),
						 memory_order_acq_rel);

	if (old & SM__F_WAITERS)
		syscall(SYS_futex, &f->flags, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* ---------------------------------------------------------------- the tree */

static uint64_t node_last(const struct sm__pages_node *n)
{
	unsigned bits = n->shift + SM__NODE_BITS;

	return bits >= 64 ? UINT64_MAX : (1ull << bits) - 1;
}

static struct sm__pages_node *new_node(unsigned shift)
{
	struct sm__pages_node *n;

	if (sm__inject_fail())
		return NULL;
	n = aligned_alloc(_Alignof(struct sm__pages_node), sizeof(*n));
	if (!n)
		return NULL;
	memset(n, 0, sizeof(*n));
	n->shift = (uint8_t)shift;
	return n;
}

/* The slot of index, made. Context: pages->lock held. NULL: no memory. */
static _Atomic uintptr_t *make_slot(struct sm__pages *pages, uint64_t index)
{
	struct sm__pages_node *n =
		sm__root_node(atomic_load_explicit(&pages->root, memory_order_relaxed));

	while (!n || index > node_last(n)) {
		struct sm__pages_node *up = new_node(n ? n->shift + SM__NODE_BITS : 0);

		if (!up)
			return NULL;
		atomic_store_explicit(&up->slot[0], (uintptr_t)n, memory_order_relaxed);
		atomic_store_explicit(&pages->root, (uintptr_t)up | up->shift,
				      memory_order_release);
		n = up;
	}
	while (n->shift) {
		_Atomic uintptr_t *slot = &n->slot[index >> n->shift & (SM__NODE_SLOTS - 1)];
		uintptr_t down = atomic_load_explicit(slot, memory_order_relaxed);

		if (!down) {
			down = (uintptr_t)new_node(n->shift - SM__NODE_BITS);
			if (!down)
				return NULL;
			atomic_store_explicit(slot, down, memory_order_release);
		}
		n = (struct sm__pages_node *)down;
	}
	return &n->slot[index & (SM__NODE_SLOTS - 1)];
}

int sm__pages_insert(struct sm__pages *pages, uint64_t index, uint32_t pfn)
{
	struct sm__frame *f = sm__frame(pages->memory->pool, pfn);
	_Atomic uintptr_t *slot;
	bool ready;
	int err = 0;

	f->file.pages = pages;
	f->file.index = index;
	sm__spin_lock(&pages->lock);
	/* I9 */
	slot = index < sm__pages_count(pages) ? make_slot(pages, index) : NULL;
	ready = sm__frame_flags(f) & SM__F_UPTODATE;
	if (!slot) {
		err = index < sm__pages_count(pages) ? -ENOMEM : -ENXIO;
	} else if (atomic_load_explicit(slot, memory_order_relaxed)) {
		err = -EEXIST;
	} else {
		sm__frame_get(f);
		atomic_fetch_add_explicit(&pages->nr, 1, memory_order_relaxed);
		/* release: contents and descriptor before the number */
		atomic_store_explicit(slot, sm__slot_make(pfn, ready), memory_order_release);
	}
	sm__spin_unlock(&pages->lock);
	return err;
}

void sm__pages_mark_ready(struct sm__pages *pages, uint64_t index, uint32_t pfn)
{
	_Atomic uintptr_t *slot = sm__pages_slot(pages, index);
	uintptr_t unready = sm__slot_make(pfn, false);

	/* release: the contents come before the bit; pairs with who maps it */
	if (slot)
		atomic_compare_exchange_strong_explicit(slot, &unready, sm__slot_make(pfn, true),
							memory_order_release, memory_order_relaxed);
}

/* Context: pages->lock held. */
static bool slot_holds(_Atomic uintptr_t *slot, uint32_t pfn)
{
	return slot && sm__slot_pfn(atomic_load_explicit(slot, memory_order_relaxed)) == pfn;
}

/* Context: pages->lock held, the frame GONE. */
static void empty_slot(struct sm__pages *pages, _Atomic uintptr_t *slot)
{
	/* seq_cst: I2 */
	atomic_store_explicit(slot, 0, memory_order_seq_cst);
	atomic_fetch_sub_explicit(&pages->nr, 1, memory_order_relaxed);
}

/*
 * GONE is set before the flags are looked at. A write that is noticed sets DIRTY before it looks at GONE,
 * who works on a page takes BUSY before: one of the two sees the other.
 */
int sm__pages_remove(struct sm__pages *pages, uint64_t index, uint32_t pfn, uint32_t unless)
{
	struct sm__frame *f = sm__frame(pages->memory->pool, pfn);
	_Atomic uintptr_t *slot;
	int err = -ENOENT;

	sm__spin_lock(&pages->lock);
	slot = sm__pages_slot(pages, index);
	if (slot_holds(slot, pfn)) {
		sm__frame_set(f, SM__F_GONE);
		err = sm__frame_flags(f) & unless ? -EBUSY : 0;
		if (err)
			sm__frame_clear(f, SM__F_GONE);
		else
			empty_slot(pages, slot);
	}
	sm__spin_unlock(&pages->lock);
	return err;
}

bool sm__pages_is_gone(struct sm__pages *pages, const struct sm__frame *f)
{
	bool gone = sm__frame_flags(f) & SM__F_GONE;

	if (sm__unlikely(gone)) {
		sm__spin_lock(&pages->lock);
		gone = sm__frame_flags(f) & SM__F_GONE;
		sm__spin_unlock(&pages->lock);
	}
	return gone;
}

void sm__pages_mark_for_writing(struct sm__pages *pages, uint64_t index, uint32_t pfn)
{
	struct sm__frame *f = sm__frame(pages->memory->pool, pfn);

	sm__spin_lock(&pages->lock);
	/* In this order: whoever looks finds one of the two. */
	if (slot_holds(sm__pages_slot(pages, index), pfn) && (sm__frame_flags(f) & SM__F_DIRTY)) {
		sm__frame_set(f, SM__F_WRITEBACK);
		sm__frame_clear(f, SM__F_DIRTY);
	}
	sm__spin_unlock(&pages->lock);
}

uint32_t sm__pages_get(struct sm__pages *pages, uint64_t index)
{
	_Atomic uintptr_t *slot;
	uint32_t pfn;

	sm__spin_lock(&pages->lock);
	slot = sm__pages_slot(pages, index);
	pfn = slot ? sm__slot_pfn(atomic_load_explicit(slot, memory_order_relaxed)) : 0;
	if (pfn)
		sm__frame_get(sm__frame(pages->memory->pool, pfn));
	sm__spin_unlock(&pages->lock);
	return pfn;
}

bool sm__pages_is_ready(struct sm__pages *pages, uint64_t index)
{
	_Atomic uintptr_t *slot = sm__pages_slot(pages, index);

	return slot && (atomic_load_explicit(slot, memory_order_acquire) & SM__SLOT_READY);
}

uint32_t sm__pages_make(struct sm__pages *pages, uint64_t index)
{
	struct sm__pool *pool = pages->memory->pool;
	uint32_t pfn;
	int err;

	do {
		pfn = sm__pages_get(pages, index);
		if (pfn)
			return pfn;
		sm__thread_leave();
		pfn = sm__frame_alloc(pool, SM__ALLOC_ZERO);
		if (!pfn)
			return 0;
		atomic_store_explicit(&sm__frame(pool, pfn)->flags, SM__F_FILE | SM__F_UPTODATE,
				      memory_order_relaxed);
		err = sm__pages_insert(pages, index, pfn);
		if (err)
			sm__frame_put(pool, pfn);
	} while (err == -EEXIST);
	return err ? 0 : pfn;
}

static bool each_below(struct sm__pages *pages, struct sm__pages_node *n, uint64_t base,
		       const uint64_t range[2], sm__pages_visit visit, void *arg)
{
	uint64_t span = 1ull << n->shift;

	for (unsigned i = 0; i < SM__NODE_SLOTS; i++) {
		uint64_t at = base + i * span;
		uintptr_t v = atomic_load_explicit(&n->slot[i], memory_order_acquire);

		if (!v || at > range[1] || at + (span - 1) < range[0])
			continue;
		if (n->shift ? !each_below(pages, (struct sm__pages_node *)v, at, range, visit, arg)
			     : !visit(pages, at, sm__slot_pfn(v), arg))
			return false;
	}
	return true;
}

void sm__pages_each(struct sm__pages *pages, uint64_t first, uint64_t last, sm__pages_visit visit,
		    void *arg)
{
	struct sm__pages_node *root =
		sm__root_node(atomic_load_explicit(&pages->root, memory_order_acquire));
	uint64_t range[2] = { first, last };

	if (root)
		(void)each_below(pages, root, 0, range, visit, arg);
}

/* ---------------------------------------------------------------- proof */

static bool check_page(struct sm__pages *pages, uint64_t index, uint32_t pfn, void *arg)
{
	struct sm__frame *f = sm__frame(pages->memory->pool, pfn);
	int64_t *nr = arg;

	if (!(sm__frame_flags(f) & SM__F_FILE) || f->file.pages != pages ||
	    f->file.index != index || !atomic_load_explicit(&f->refs, memory_order_relaxed) ||
	    (sm__frame_flags(f) & SM__F_GONE))
		*nr = INT64_MIN / 2;
	++*nr;
	return true;
}

bool sm__pages_is_valid(struct sm__pages *pages)
{
	int64_t nr = 0;

	sm__pages_each(pages, 0, UINT64_MAX, check_page, &nr);
	return nr == (int64_t)atomic_load_explicit(&pages->nr, memory_order_relaxed);
}
