/* SPDX-License-Identifier: MIT */
/*
 * pages_io.c - the page cache meets its file: reading, writing back, and the size.
 *
 * I1 No lock of the library is held over a function of the file, save BUSY of the page itself
 *    (samara/file.h G2, G3).
 */
#include "memory/gather.h"
#include "memory/pagecache.h"
#include "base/inject.h"

#include <errno.h>

static void frame_put(struct sm__pages *pages, uint32_t pfn)
{
	sm__frame_put(pages->memory->pool, pfn);
}

void sm__pages_refresh(struct sm__pages *pages, struct sm_file *file)
{
	uint64_t size = sm_file_size(file);

	if (size != atomic_load_explicit(&pages->size, memory_order_relaxed))
		sm__pages_truncate(pages, size);
}

/* Reads a new page into its slot. -EEXIST: somebody else has put one there. */
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
		if (err && sm__pages_remove(pages, index, pfn))
			frame_put(pages, pfn);
		sm__frame_unlock(f);
	}
	frame_put(pages, pfn);
	return err;
}

/* A page whose reader vanished in a fork of the host process is still in its slot: out with it. */
static bool drop_failed(struct sm__pages *pages, uint64_t index, uint32_t pfn, uint32_t flags)
{
	if ((flags & SM__F_GONE) || !sm__pages_remove(pages, index, pfn))
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
	return err;
}

int sm__pages_fetch(struct sm__pages *pages, struct sm_file *file, uint64_t index)
{
	uint64_t first = SM__ALIGN_DOWN(index, SM__AROUND), nr;
	int err;

	sm__pages_refresh(pages, file);
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

static bool has_dirty(struct sm__pages *pages, uint64_t index, uint32_t pfn, void *arg)
{
	struct write_back *w = arg;

	(void)index;
	w->found = w->found || (sm__frame_flags(sm__frame(pages->memory->pool, pfn)) & SM__F_DIRTY);
	return !w->found;
}

/* Turns DIRTY into "to be written". */
static bool mark_for_writing(struct sm__pages *pages, uint64_t index, uint32_t pfn, void *arg)
{
	struct sm__frame *f = sm__frame(pages->memory->pool, pfn);

	(void)index;
	(void)arg;
	if (sm__frame_flags(f) & SM__F_DIRTY) {
		sm__frame_set(f, SM__F_WRITEBACK);
		sm__frame_clear(f, SM__F_DIRTY);
	}
	return true;
}

static bool write_one(struct sm__pages *pages, uint64_t index, uint32_t pfn, void *arg)
{
	struct sm__pool *pool = pages->memory->pool;
	struct sm__frame *f = sm__frame(pool, pfn);
	struct write_back *w = arg;
	uint64_t offset = index << pages->page_shift, size;
	int err = 0;

	if (!(sm__frame_flags(f) & SM__F_WRITEBACK))
		return true;
	pfn = sm__pages_get(pages, index);
	if (!pfn)
		return true;
	f = sm__frame(pool, pfn);
	sm__frame_lock(f);
	size = atomic_load_explicit(&pages->size, memory_order_acquire);
	/* It may have been written by another, or truncated, while this thread waited. */
	if ((sm__frame_flags(f) & (SM__F_WRITEBACK | SM__F_GONE)) == SM__F_WRITEBACK &&
	    offset < size) {
		size_t len =
			size - offset < sm__page_size(pool) ? size - offset : sm__page_size(pool);

		sm__frame_clear(f, SM__F_WRITEBACK);
		err = w->file->ops->write_page
			      ? w->file->ops->write_page(w->file->arg, offset,
							 sm__frame_ptr(pool, pfn), len)
			      : -EBADF;
		if (err)
			sm__frame_set(f, SM__F_DIRTY);
	}
	sm__frame_unlock(f);
	sm__frame_put(pool, pfn);
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
	sm__pages_each(pages, first, last, has_dirty, &w);
	if (!w.found)
		return 0;
	/* In this order: a write after the mark is either in what is written, or dirty again (I3).
	 * */
	sm__pages_each(pages, first, last, mark_for_writing, &w);
	sm__pages_clean(pages, first, last);
	sm__pages_each(pages, first, last, write_one, &w);
	return w.err;
}

/* ---------------------------------------------------------------- the file's own calls */

int sm_file_truncate(struct sm_file *file, uint64_t size)
{
	struct sm__pages *pages = sm__pages_bound(file);
	int err = file->ops->truncate ? file->ops->truncate(file->arg, size) : -EOPNOTSUPP;

	if (!err && pages)
		sm__pages_truncate(pages, size);
	return err;
}

int sm_file_punch(struct sm_file *file, uint64_t offset, uint64_t length)
{
	struct sm__pages *pages = sm__pages_bound(file);
	int err;

	if (offset + length < offset || !length)
		return -EINVAL;
	err = file->ops->punch ? file->ops->punch(file->arg, offset, length) : -EOPNOTSUPP;
	if (!err && pages)
		sm__pages_punch(pages, offset, length);
	return err;
}

int sm_file_sync(struct sm_file *file, uint64_t offset, uint64_t length, bool durable)
{
	struct sm__pages *pages = sm__pages_bound(file);
	uint64_t end = offset + length;
	int err = 0;

	if (end < offset)
		end = UINT64_MAX;
	if (pages && length)
		err = sm__pages_write_back(pages, file, offset >> pages->page_shift,
					   (end - 1) >> pages->page_shift);
	if (!err && durable && file->ops->sync)
		err = file->ops->sync(file->arg);
	return err;
}

void sm_file_refresh(struct sm_file *file)
{
	struct sm__pages *pages = sm__pages_bound(file);

	if (pages)
		sm__pages_refresh(pages, file);
}
