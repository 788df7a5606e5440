/* SPDX-License-Identifier: MIT */
/*
 * pages_drop.c - pages leave the page cache: out of the slot, out of every mm, back to the pool
 * (pagecache.h I2).
 */
#include "memory/pagecache.h"
#include "base/delay.h"

#include <errno.h>

/* Pages that have left their slots and are still mapped: a list through frame.link. */
struct leaving {
	uint32_t first;
	uint64_t nr, limit;
	uint64_t lo, hi; /* indexes */
};

static void leave(struct sm__pages *pages, struct leaving *l, uint64_t index, uint32_t pfn)
{
	sm__frame(pages->memory->pool, pfn)->link = l->first;
	l->first = pfn;
	if (!l->nr++ || index < l->lo)
		l->lo = index;
	if (index > l->hi)
		l->hi = index;
}

/* After they were unmapped everywhere (I2). Return: frames that became free. */
static uint64_t let_go(struct sm__pages *pages, struct leaving *l)
{
	struct sm__pool *pool = pages->memory->pool;
	uint64_t freed = 0;

	while (l->first) {
		uint32_t pfn = l->first;

		l->first = (uint32_t)sm__frame(pool, pfn)->link;
		if (sm__frame_drop(sm__frame(pool, pfn))) {
			sm__frame_free(pool, pfn);
			freed++;
		}
	}
	return freed;
}

/* Who is reading or writing the page is waited for (pagecache.h I4). */
static bool drop_page(struct sm__pages *pages, uint64_t index, uint32_t pfn, void *arg)
{
	int err;

	while ((err = sm__pages_remove(pages, index, pfn, SM__F_BUSY)) == -EBUSY)
		sm__pages_settle(pages, index);
	if (!err)
		leave(pages, arg, index, pfn);
	return true;
}

void sm__pages_drop(struct sm__pages *pages, uint64_t first, uint64_t last, unsigned zap_flags)
{
	struct leaving l = { 0 };

	sm__pages_each(pages, first, last, drop_page, &l);
	sm__delay();
	sm__pages_unmap(pages, first, last, zap_flags);
	(void)let_go(pages, &l);
}

void sm__pages_lose(struct sm__pages *pages, uint64_t index, uint32_t pfn)
{
	struct leaving l = { 0 };

	drop_page(pages, index, pfn, &l);
	sm__pages_unmap(pages, index, index, SM__ZAP_FILE_ONLY);
	(void)let_go(pages, &l);
}

/* ---------------------------------------------------------------- memory is short */

/* Context: no lock. */
static bool shrink_one(struct sm__pages *pages, uint64_t index, uint32_t pfn, void *arg)
{
	struct leaving *l = arg;

	if (!sm__pages_remove(pages, index, pfn,
			      SM__F_DIRTY | SM__F_BUSY | SM__F_WRITEBACK | SM__F_POISON))
		leave(pages, l, index, pfn);
	return l->nr < l->limit;
}

/* Drops up to limit clean pages of [first, last]. Return: frames that became free. */
static uint64_t drop_clean(struct sm__pages *pages, uint64_t first, uint64_t last, uint64_t limit)
{
	struct leaving l = { .limit = limit };

	sm__pages_each(pages, first, last, shrink_one, &l);
	if (l.nr)
		sm__pages_unmap(pages, l.lo, l.hi, SM__ZAP_FILE_ONLY);
	return let_go(pages, &l);
}

struct search {
	uint64_t index;
	bool found;
};

static bool find_dirty(struct sm__pages *pages, uint64_t index, uint32_t pfn, void *arg)
{
	struct search *s = arg;

	s->found = sm__frame_flags(sm__frame(pages->memory->pool, pfn)) & SM__F_DIRTY;
	s->index = index;
	return !s->found;
}

/* The same after writing what is dirty, a stretch at a time, while the file takes it. */
static uint64_t drop_written(struct sm__pages *pages, struct sm_file *file, uint64_t limit)
{
	enum { STRETCH = 1024 };
	uint64_t at = 0, end, freed = 0;

	while (freed < limit) {
		struct search s = { 0 };

		sm__pages_each(pages, at, UINT64_MAX, find_dirty, &s);
		if (!s.found)
			break;
		end = s.index + (STRETCH - 1);
		if (sm__pages_write_back(pages, file, s.index, end))
			break;
		freed += drop_clean(pages, s.index, end, limit - freed);
		at = end + 1;
	}
	return freed;
}

/* Set while the thread writes to make room: what its file's functions allocate makes no more. */
static _Thread_local bool makes_room;

static uint64_t shrink_object(struct sm__pages *pages, uint64_t limit, bool may_write)
{
	struct sm_file *file;
	uint64_t freed;

	if (pages->is_volatile)
		return 0;
	if (!may_write)
		return drop_clean(pages, 0, UINT64_MAX, limit);
	file = sm__pages_writer(pages);
	if (!file)
		return 0;
	makes_room = true;
	freed = drop_written(pages, file, limit);
	makes_room = false;
	sm_file_put(file);
	return freed;
}

/* An object of a bucket, kept alive by a file count of its own; NULL at the end. */
static struct sm__pages *next_object(struct sm__memory *m, unsigned bucket, unsigned nr)
{
	struct sm__pages *p, *found = NULL;

	sm__spin_lock(&m->lock);
	sm__list_for_each_entry (p, &m->objects[bucket], bucket) {
		if (!nr--) {
			found = p;
			found->files++;
			break;
		}
	}
	sm__spin_unlock(&m->lock);
	return found;
}

static uint64_t shrink_all(struct sm__memory *m, uint64_t wanted, bool may_write)
{
	uint64_t freed = 0;

	for (unsigned b = 0; b < SM__PAGES_BUCKETS && freed < wanted; b++) {
		struct sm__pages *p;

		for (unsigned i = 0; freed < wanted && (p = next_object(m, b, i)); i++) {
			freed += shrink_object(p, wanted - freed, may_write);
			sm__pages_detach_file(p, NULL);
		}
	}
	return freed;
}

uint64_t sm__pages_shrink(struct sm__memory *m, uint64_t wanted)
{
	uint64_t freed = shrink_all(m, wanted, false);

	if (freed < wanted && !makes_room)
		freed += shrink_all(m, wanted - freed, true);
	return freed;
}
