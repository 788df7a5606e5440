/* SPDX-License-Identifier: MIT */
/*
 * pages_resize.c - the object and its file change together: truncate, punch, a size that was changed
 * by other means (model: tests/proof/page_resize.pml).
 *
 *      hold      nobody else resizes; pages from here on are not written to the file (pagecache.h I8)
 *      settle    wait for those that are just being read or written
 *      file      truncate or punch, which may fail: nothing has changed then
 *      apply     size; rest of a page zeroed; pages out of their slots, then out of every mm
 *      release
 *
 * I1 The pages go after the file has changed: what a fault reads between the two is new, and a failure
 *    loses nothing that was written.
 * I2 A size that was asked for is applied only if no resize has ended or begun since.
 */
#include "memory/pagecache.h"
#include "base/delay.h"
#include "base/thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---------------------------------------------------------------- holding */

static uint64_t size_of(struct sm__pages *pages)
{
	return atomic_load_explicit(&pages->size, memory_order_acquire);
}

bool sm__pages_is_held(struct sm__pages *pages, uint64_t index)
{
	bool held;

	/* acquire, after the caller's RMW for BUSY: if that came after settle_page's, it sees the hold */
	if (sm__likely(!(atomic_load_explicit(&pages->resize, memory_order_acquire) &
			 SM__RESIZE_HELD)))
		return false;
	sm__spin_lock(&pages->lock);
	held = (atomic_load_explicit(&pages->resize, memory_order_relaxed) & SM__RESIZE_HELD) &&
	       index >= pages->held_first && index <= pages->held_last;
	sm__spin_unlock(&pages->lock);
	return held;
}

void sm__pages_wait_for_resize(struct sm__pages *pages)
{
	uint32_t word = atomic_load_explicit(&pages->resize, memory_order_acquire);

	while (word & SM__RESIZE_HELD) {
		uint32_t asleep = word | SM__RESIZE_SLEEPERS;

		if (word != asleep && !atomic_compare_exchange_weak_explicit(
					      &pages->resize, &word, asleep, memory_order_acquire,
					      memory_order_acquire))
			continue;
		syscall(SYS_futex, &pages->resize, FUTEX_WAIT_PRIVATE, asleep, NULL, NULL, 0);
		word = atomic_load_explicit(&pages->resize, memory_order_acquire);
	}
}

void sm__pages_settle(struct sm__pages *pages, uint64_t index)
{
	struct sm__pool *pool = pages->memory->pool;
	uint32_t pfn = sm__pages_get(pages, index);

	if (!pfn)
		return;
	sm__frame_lock(sm__frame(pool, pfn));
	sm__frame_unlock(sm__frame(pool, pfn));
	sm__frame_put(pool, pfn);
}

static bool settle_page(struct sm__pages *pages, uint64_t index, uint32_t pfn, void *arg)
{
	struct sm__pool *pool = pages->memory->pool;

	(void)arg;
	/* RMW: of this and the one that takes BUSY, the later sees the earlier (I8 of pagecache.h) */
	if (atomic_fetch_or_explicit(&sm__frame(pool, pfn)->flags, 0, memory_order_acq_rel) &
	    SM__F_BUSY)
		sm__pages_settle(pages, index);
	return true;
}

/*
 * Holds pages [first, last]; first may be lowered to the page with the end of the object. seen: NULL,
 * or what pages->resize was: false if it is something else now.
 */
static bool hold(struct sm__pages *pages, uint64_t first, uint64_t last, bool with_end,
		 const uint32_t *seen)
{
	uint64_t end_page;
	uint32_t word;

	for (;;) {
		sm__spin_lock(&pages->lock);
		word = atomic_load_explicit(&pages->resize, memory_order_relaxed);
		if (seen && word != *seen) {
			sm__spin_unlock(&pages->lock);
			return false;
		}
		if (!(word & SM__RESIZE_HELD))
			break;
		sm__spin_unlock(&pages->lock);
		sm__pages_wait_for_resize(pages);
	}
	end_page = size_of(pages) >> pages->page_shift;
	pages->held_first = with_end && end_page < first ? end_page : first;
	pages->held_last = last;
	/* RMW: a sleeper may be setting its bit */
	atomic_fetch_or_explicit(&pages->resize, SM__RESIZE_HELD, memory_order_acq_rel);
	sm__spin_unlock(&pages->lock);
	sm__delay();
	sm__pages_each(pages, pages->held_first, last, settle_page, NULL);
	return true;
}

static void release(struct sm__pages *pages)
{
	uint32_t word;

	sm__spin_lock(&pages->lock);
	word = atomic_load_explicit(&pages->resize, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(
		&pages->resize, &word,
		(word & ~(uint32_t)(SM__RESIZE_HELD | SM__RESIZE_SLEEPERS)) + SM__RESIZE_COUNT,
		memory_order_acq_rel, memory_order_relaxed))
		;
	sm__spin_unlock(&pages->lock);
	if (word & SM__RESIZE_SLEEPERS)
		syscall(SYS_futex, &pages->resize, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void set_size(struct sm__pages *pages, uint64_t size)
{
	sm__spin_lock(&pages->lock);
	/* release: a fault that sees the old size is unmapped afterwards (pagecache.h I2, I9) */
	atomic_store_explicit(&pages->size, size, memory_order_release);
	sm__spin_unlock(&pages->lock);
}

/* ---------------------------------------------------------------- applying: the object is held */

/* Zeroes part of a cached page. */
static void zero_part(struct sm__pages *pages, uint64_t from, uint64_t to)
{
	struct sm__pool *pool = pages->memory->pool;
	uint32_t pfn = from < to ? sm__pages_get(pages, from >> pages->page_shift) : 0;
	size_t page = sm__page_size(pool);

	if (!pfn)
		return;
	sm__frame_lock(sm__frame(pool, pfn));
	__builtin_memset((char *)sm__frame_ptr(pool, pfn) + (from & (page - 1)), 0, to - from);
	sm__frame_unlock(sm__frame(pool, pfn));
	sm__frame_put(pool, pfn);
}

static uint64_t page_end(struct sm__pages *pages, uint64_t offset)
{
	uint64_t page = 1ull << pages->page_shift;

	/* The last page of all has no end that fits: no file has a byte there. */
	return offset > UINT64_MAX - page ? offset : SM__ALIGN_UP(offset, page);
}

static void shrink(struct sm__pages *pages, uint64_t size)
{
	set_size(pages, size);
	zero_part(pages, size, page_end(pages, size));
	sm__pages_drop(pages, sm__pages_count(pages), UINT64_MAX, 0);
}

/*
 * What guests wrote behind the end of the last page is not what the file now has there; save that an
 * in-memory file keeps it, as tmpfs does.
 */
static void grow(struct sm__pages *pages, uint64_t old, uint64_t size)
{
	uint64_t end = page_end(pages, old);

	if (!pages->is_volatile)
		zero_part(pages, old, end);
	set_size(pages, size);
}

/* The file has grown by other means: the rest of its last page has come from there. */
static int grow_learnt(struct sm__pages *pages, struct sm_file *file, uint64_t old, uint64_t size)
{
	struct sm__pool *pool = pages->memory->pool;
	size_t page = sm__page_size(pool), at = old & (page - 1);
	uint32_t pfn = at ? sm__pages_get(pages, old >> pages->page_shift) : 0, fresh;
	int err = 0;

	if (pfn && file->ops->read_page) {
		fresh = sm__frame_alloc(pool, SM__ALLOC_ZERO);
		sm__frame_lock(sm__frame(pool, pfn));
		err = fresh ? file->ops->read_page(file->arg, old - at, sm__frame_ptr(pool, fresh),
						   page)
			    : -ENOMEM;
		if (!err)
			memcpy((char *)sm__frame_ptr(pool, pfn) + at,
			       (char *)sm__frame_ptr(pool, fresh) + at, page - at);
		sm__frame_unlock(sm__frame(pool, pfn));
		if (fresh)
			sm__frame_put(pool, fresh);
	}
	if (pfn)
		sm__frame_put(pool, pfn);
	if (!err)
		set_size(pages, size);
	return err;
}

static void punch(struct sm__pages *pages, uint64_t offset, uint64_t end)
{
	uint64_t page = 1ull << pages->page_shift, first, last;

	/* In the last page below 2^64 no file has a byte, and rounding up would come out at 0. */
	if (offset > UINT64_MAX - page)
		return;
	first = SM__ALIGN_UP(offset, page);
	last = SM__ALIGN_DOWN(end, page);
	if (first > last) {
		zero_part(pages, offset, end);
		return;
	}
	zero_part(pages, offset, first);
	zero_part(pages, last, end);
	if (first < last)
		sm__pages_drop(pages, first >> pages->page_shift, (last >> pages->page_shift) - 1,
			       SM__ZAP_FILE_ONLY);
}

/* ---------------------------------------------------------------- the calls */

int sm__pages_refresh(struct sm__pages *pages, struct sm_file *file)
{
	for (;;) {
		/* acquire: the count before the question (I2) */
		uint32_t seen = atomic_load_explicit(&pages->resize, memory_order_acquire);
		uint64_t size = sm_file_size(file), old;
		int err = 0;

		if (size == size_of(pages))
			return 0;
		if (seen & SM__RESIZE_HELD) {
			sm__thread_leave();
			sm__pages_wait_for_resize(pages);
			continue;
		}
		if (!hold(pages, size >> pages->page_shift, UINT64_MAX, true, &seen))
			continue;
		old = size_of(pages);
		if (size < old)
			shrink(pages, size);
		else if (pages->is_volatile)
			grow(pages, old, size);
		else
			err = grow_learnt(pages, file, old, size);
		release(pages);
		return err;
	}
}

int sm_file_truncate(struct sm_file *file, uint64_t size)
{
	struct sm__pages *pages = sm__pages_bound(file);
	uint64_t old;
	int err;

	if (!file->ops->truncate)
		return -EOPNOTSUPP;
	sm__thread_enter();
	if (!pages) {
		err = file->ops->truncate(file->arg, size);
		/* It may have been mapped meanwhile: whoever comes second sees the other. */
		pages = sm__pages_bound_since(file);
		return err || !pages ? err : sm__pages_refresh(pages, file);
	}
	(void)hold(pages, size >> pages->page_shift, UINT64_MAX, true, NULL);
	old = size_of(pages);
	err = file->ops->truncate(file->arg, size);
	sm__delay();
	if (!err && size < old)
		shrink(pages, size);
	else if (!err && size > old)
		grow(pages, old, size);
	release(pages);
	return err;
}

int sm_file_punch(struct sm_file *file, uint64_t offset, uint64_t length)
{
	struct sm__pages *pages = sm__pages_bound(file);
	uint64_t end = offset + length;
	int err;

	if (end < offset || !length)
		return -EINVAL;
	if (!file->ops->punch)
		return -EOPNOTSUPP;
	sm__thread_enter();
	if (!pages) {
		err = file->ops->punch(file->arg, offset, length);
		/* Mapped meanwhile, pages may have been read before: once more, and out with them. */
		pages = sm__pages_bound_since(file);
		if (err || !pages)
			return err;
	}
	(void)hold(pages, offset >> pages->page_shift, (end - 1) >> pages->page_shift, false, NULL);
	err = file->ops->punch(file->arg, offset, length);
	sm__delay();
	if (!err)
		punch(pages, offset, end);
	release(pages);
	return err;
}

void sm_file_refresh(struct sm_file *file)
{
	struct sm__pages *pages = sm__pages_bound(file);

	sm__thread_enter();
	if (pages)
		(void)sm__pages_refresh(pages, file);
}
