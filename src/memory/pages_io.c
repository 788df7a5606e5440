/* SPDX-License-Identifier: MIT */
/*
 * pages_io.c - the page cache meets its file: reading and writing back.
 *
 * I1 No lock of the library is held over a function of the file, save BUSY of the page itself and,
 *    over truncate and punch, the object (pages_resize.c; samara/file.h G2, G3).
 * I2 A page is on its way to the file from the moment DIRTY goes until the write has succeeded, or has
 *    failed and DIRTY is back: WRITEBACK, BUSY, or both say so meanwhile.
 */
#include "memory/gather.h"
#include "memory/pagecache.h"
#include "base/delay.h"
#include "base/inject.h"
#include "base/thread.h"

#include <errno.h>

static void frame_put(struct sm__pages *pages, uint32_t pfn)
{
	sm__frame_put(pages->memory->pool, pfn);
}

/* Reads a new page into its slot. -EEXIST: somebody else has put one there; -ENXIO: beyond the end. */
static int read_new(struct sm__pages *pages, struct sm_file *file, uint64_t index)
{
	struct sm__pool *pool = pages->memory->pool;
	uint32_t pfn = sm__frame_alloc(pool, SM__ALLOC_ZERO);
	struct sm__frame *f;
	int err;

	if (!pfn)
		return -ENOMEM;
	f = sm__frame(pool, pfn);
	atomic_store_explicit(&f->flags, SM__F_FILE | SM__F_BUSY, memory_order_relaxed);
	err = sm__pages_insert(pages, index, pfn);
	if (!err) {
		if (file->ops->read_page)
			err = file->ops->read_page(file->arg, index << pages->page_shift,
						   sm__frame_ptr(pool, pfn), sm__page_size(pool));
		if (err)
			sm__frame_set(f, SM__F_ERROR);
		else
			sm__frame_set(f, SM__F_UPTODATE);
		if (!err)
			sm__pages_mark_ready(pages, index, pfn);
		/* A page that could not be read does not stay: the next fault tries again. */
		if (err && !sm__pages_remove(pages, index, pfn, 0))
			frame_put(pages, pfn);
		sm__frame_unlock(f);
	}
	frame_put(pages, pfn);
	return err;
}

/* A page whose reader vanished in a fork of the host process is still in its slot: out with it. */
static bool drop_failed(struct sm__pages *pages, uint64_t index, uint32_t pfn, uint32_t flags)
{
	if ((flags & SM__F_GONE) || sm__pages_remove(pages, index, pfn, 0))
		return false;
	frame_put(pages, pfn);
	return true;
}

/* One page: 0 when there is nothing more to do for it. */
static int fetch_one(struct sm__pages *pages, struct sm_file *file, uint64_t index)
{
	uint32_t pfn, flags;
	int err;

	do {
		pfn = sm__pages_get(pages, index);
		if (!pfn) {
			err = read_new(pages, file, index);
			continue;
		}
		/* Whoever reads it holds BUSY until it has. */
		if (!(sm__frame_flags(sm__frame(pages->memory->pool, pfn)) & SM__F_UPTODATE)) {
			sm__frame_lock(sm__frame(pages->memory->pool, pfn));
			sm__frame_unlock(sm__frame(pages->memory->pool, pfn));
		}
		flags = sm__frame_flags(sm__frame(pages->memory->pool, pfn));
		err = flags & SM__F_GONE ? -EEXIST : 0;
		/* Its reader is about to say so, or vanished in a fork of the host process before. */
		if (!err && (flags & SM__F_UPTODATE))
			sm__pages_mark_ready(pages, index, pfn);
		if (flags & SM__F_ERROR)
			err = drop_failed(pages, index, pfn, flags) ? -EEXIST : -EIO;
		frame_put(pages, pfn);
	} while (err == -EEXIST);
	return err == -ENXIO ? 0 : err;
}

int sm__pages_fetch(struct sm__pages *pages, struct sm_file *file, uint64_t index)
{
	uint64_t first = SM__ALIGN_DOWN(index, SM__AROUND), nr;
	int err;

	err = sm__pages_refresh(pages, file);
	if (err)
		return err;
	nr = sm__pages_count(pages);
	if (index >= nr)
		return 0;
	err = fetch_one(pages, file, index);
	/* The neighbours make fault-around worth it; what fails there is reported when it is
	 * wanted. */
	for (uint64_t i = first; !err && i < first + SM__AROUND && i < nr; i++)
		if (i != index && fetch_one(pages, file, i))
			break;
	return err;
}

/* ---------------------------------------------------------------- write-back */

struct write_back {
	struct sm_file *file;
	int err;
	bool found;
};

/* Whether the page may differ from the file, or is on its way there (I2). */
static bool is_unwritten(uint32_t flags)
{
	return (flags & (SM__F_DIRTY | SM__F_WRITEBACK)) ||
	       (flags & (SM__F_BUSY | SM__F_UPTODATE)) == (SM__F_BUSY | SM__F_UPTODATE);
}

static bool find_unwritten(struct sm__pages *pages, uint64_t index, uint32_t pfn, void *arg)
{
	struct write_back *w = arg;

	(void)index;
	w->found = is_unwritten(sm__frame_flags(sm__frame(pages->memory->pool, pfn)));
	return !w->found;
}

static bool mark_for_writing(struct sm__pages *pages, uint64_t index, uint32_t pfn, void *arg)
{
	(void)arg;
	if (sm__frame_flags(sm__frame(pages->memory->pool, pfn)) & SM__F_DIRTY)
		sm__pages_mark_for_writing(pages, index, pfn);
	return true;
}

/*
 * Writes the page as it is now. Context: BUSY is ours. One that was marked is clean then. If another
 * has just tried and failed, it is DIRTY: written too, so that this caller hears of it as well, and
 * stays DIRTY, because writes to it may go unnoticed.
 */
static int write_page(struct sm__pages *pages, struct sm_file *file, uint64_t index, uint32_t pfn)
{
	struct sm__pool *pool = pages->memory->pool;
	struct sm__frame *f = sm__frame(pool, pfn);
	uint64_t offset = index << pages->page_shift, size, len = sm__page_size(pool);
	uint32_t flags = sm__frame_flags(f);
	int err;

	/* It may have been written by another, or truncated, while this thread waited. */
	size = atomic_load_explicit(&pages->size, memory_order_acquire);
	if (!(flags & (SM__F_WRITEBACK | SM__F_DIRTY)) || offset >= size ||
	    sm__pages_is_gone(pages, f))
		return 0;
	if (len > size - offset)
		len = size - offset;
	sm__frame_clear(f, SM__F_WRITEBACK);
	sm__delay();
	err = file->ops->write_page
		      ? file->ops->write_page(file->arg, offset, sm__frame_ptr(pool, pfn), len)
		      : -EBADF;
	if (err)
		sm__frame_set(f, SM__F_DIRTY);
	return err;
}

static bool write_one(struct sm__pages *pages, uint64_t index, uint32_t pfn, void *arg)
{
	struct sm__pool *pool = pages->memory->pool;
	struct write_back *w = arg;
	bool held;
	int err = 0;

	/* DIRTY alone: since the mark, by somebody else's write. */
	if (!is_unwritten(sm__frame_flags(sm__frame(pool, pfn)) & ~(uint32_t)SM__F_DIRTY))
		return true;
	do {
		pfn = sm__pages_get(pages, index);
		if (!pfn)
			break;
		sm__frame_lock(sm__frame(pool, pfn));
		held = sm__pages_is_held(pages, index);
		if (!held)
			err = write_page(pages, w->file, index, pfn);
		sm__frame_unlock(sm__frame(pool, pfn));
		sm__frame_put(pool, pfn);
		if (held)
			sm__pages_wait_for_resize(pages);
	} while (held);
	if (err && !w->err)
		w->err = err;
	return true;
}

int sm__pages_write_back(struct sm__pages *pages, struct sm_file *file, uint64_t first,
			 uint64_t last)
{
	struct write_back w = { .file = file };

	/* Detached (hostfork.c): what is dirty is the parent's to write. */
	if (pages->is_volatile ||
	    atomic_load_explicit(&pages->memory->pool->detached, memory_order_relaxed))
		return 0;
	sm__thread_leave();
	sm__pages_each(pages, first, last, find_unwritten, &w);
	if (!w.found)
		return 0;
	/* In this order: a write after the mark is either in what is written, or dirty again (pagecache.h
	 * I3). */
	sm__pages_each(pages, first, last, mark_for_writing, &w);
	sm__pages_clean(pages, first, last);
	sm__pages_each(pages, first, last, write_one, &w);
	return w.err;
}

int sm_file_sync(struct sm_file *file, uint64_t offset, uint64_t length, bool durable)
{
	struct sm__pages *pages = sm__pages_bound(file);
	uint64_t end = offset + length;
	int err = 0;

	sm__thread_enter();
	if (end < offset)
		end = UINT64_MAX;
	if (pages && length)
		err = sm__pages_write_back(pages, file, offset >> pages->page_shift,
					   (end - 1) >> pages->page_shift);
	if (!err && durable && file->ops->sync)
		err = file->ops->sync(file->arg);
	return err;
}
