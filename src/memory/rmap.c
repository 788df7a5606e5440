/* SPDX-License-Identifier: MIT */
/*
 * rmap.c - areas in and out of the reverse map, and the walk over it (invariants: rmap.h).
 *
 *      a walker                                    an mm that ends
 *      object's lock: next mapper, users + 1       its areas go, one after the other
 *      visit (takes the mm's mmap_lock)            waits for users == 0
 *      users - 1
 */
#include "memory/rmap.h"
#include "memory/pagecache.h"
#include "base/inject.h"
#include "base/thread.h"

#include <errno.h>
#include <stdlib.h>

struct sm__rmap_mapper {
	struct sm__list in_bucket; /* B */
	struct sm__list in_pages;  /* O */
	struct sm__list areas;	   /* O */
	uint32_t leaving;	   /* O  areas that left */
	struct sm__mm *mm;	   /* constant; NULL: a walker's place */
	struct sm__pages *pages;   /* constant */
};

void sm__rmap_init(struct sm__memory *m)
{
	for (unsigned i = 0; i < SM__RMAP_BUCKETS; i++) {
		sm__spin_init(&m->rmap[i].lock);
		sm__list_init(&m->rmap[i].mappers);
	}
}

static struct sm__rmap_bucket *bucket_of(const struct sm__pages *pages, const struct sm__mm *mm)
{
	uint64_t h = ((uintptr_t)pages >> 6 ^ (uint64_t)((uintptr_t)mm >> 6) << 29) *
		     0x9e3779b97f4a7c15ull;

	return &pages->memory->rmap[h >> 56 & (SM__RMAP_BUCKETS - 1)];
}

static struct sm__rmap_mapper *find(const struct sm__rmap_bucket *b, const struct sm__pages *pages,
				    const struct sm__mm *mm)
{
	struct sm__rmap_mapper *r;

	sm__list_for_each_entry (r, &b->mappers, in_bucket)
		if (r->pages == pages && r->mm == mm)
			return r;
	return NULL;
}

static void put_in(struct sm__rmap_mapper *r, struct sm__rmap_area *area)
{
	sm__spin_lock(&r->pages->lock);
	/* Another fault on the same area may have been faster. */
	if (!atomic_load_explicit(&area->mapper, memory_order_relaxed)) {
		sm__list_add(&r->areas, &area->link);
		/* release: pairs with sm__rmap_enter */
		atomic_store_explicit(&area->mapper, r, memory_order_release);
	}
	sm__spin_unlock(&r->pages->lock);
}

static void add_mapper(struct sm__rmap_bucket *b, struct sm__rmap_mapper *r)
{
	sm__list_add(&b->mappers, &r->in_bucket);
	sm__spin_lock(&r->pages->lock);
	sm__list_add(&r->pages->mappers, &r->in_pages);
	sm__spin_unlock(&r->pages->lock);
}

int sm__rmap_enter_slow(struct sm__rmap_area *area, struct sm__pages *pages, struct sm__mm *mm)
{
	struct sm__rmap_bucket *b = bucket_of(pages, mm);
	struct sm__rmap_mapper *r, *fresh = NULL;

	sm__thread_leave();
	sm__spin_lock(&b->lock);
	r = find(b, pages, mm);
	if (!r) {
		sm__spin_unlock(&b->lock);
		fresh = sm__inject_fail() ? NULL : malloc(sizeof(*fresh));
		if (!fresh)
			return -ENOMEM;
		*fresh = (struct sm__rmap_mapper){ .mm = mm, .pages = pages };
		sm__list_init(&fresh->areas);
		sm__spin_lock(&b->lock);
		r = find(b, pages, mm);
		if (!r) {
			r = fresh;
			fresh = NULL;
			add_mapper(b, r);
		}
	}
	/* Under the bucket's lock, so that the last area does not leave in between. */
	put_in(r, area);
	sm__spin_unlock(&b->lock);
	free(fresh);
	return 0;
}

void sm__rmap_adopt(struct sm__rmap_area *to, const struct sm__rmap_area *from)
{
	/* relaxed: whoever put it in held a lock that the writer has waited for */
	struct sm__rmap_mapper *r =
		atomic_load_explicit(&((struct sm__rmap_area *)from)->mapper, memory_order_relaxed);

	/* The mapper stays: from is in it, and can't leave while the caller has the mmap_lock. */
	if (r)
		put_in(r, to);
}

void sm__rmap_leave(struct sm__rmap_area *area)
{
	/* relaxed: as in adopt */
	struct sm__rmap_mapper *r = atomic_load_explicit(&area->mapper, memory_order_relaxed);

	if (!r)
		return;
	sm__spin_lock(&r->pages->lock);
	sm__list_del(&area->link);
	r->leaving++;
	sm__spin_unlock(&r->pages->lock);
}

void sm__rmap_end(struct sm__rmap_area *area)
{
	/* relaxed: the caller's own by now */
	struct sm__rmap_mapper *r = atomic_load_explicit(&area->mapper, memory_order_relaxed);
	struct sm__rmap_bucket *b;
	bool last;

	if (!r)
		return;
	atomic_store_explicit(&area->mapper, NULL, memory_order_relaxed);
	b = bucket_of(r->pages, r->mm);
	sm__spin_lock(&b->lock);
	sm__spin_lock(&r->pages->lock);
	last = !--r->leaving && sm__list_empty(&r->areas);
	if (last)
		sm__list_del(&r->in_pages);
	sm__spin_unlock(&r->pages->lock);
	if (last)
		sm__list_del(&r->in_bucket);
	sm__spin_unlock(&b->lock);
	if (last)
		free(r);
}

void sm__rmap_each_area(struct sm__pages *pages, struct sm__mm *mm,
			void (*visit)(struct sm__rmap_area *area, void *arg), void *arg)
{
	struct sm__rmap_bucket *b = bucket_of(pages, mm);
	struct sm__rmap_mapper *r;
	struct sm__list *at = NULL, *end = NULL;

	sm__spin_lock(&b->lock);
	r = find(b, pages, mm);
	if (r) {
		sm__spin_lock(&pages->lock);
		at = r->areas.next;
		end = &r->areas;
		sm__spin_unlock(&pages->lock);
	}
	sm__spin_unlock(&b->lock);
	/* If it has areas, neither they nor it go from here on, and no area's next changes (I3). */
	for (; at != end; at = at->next)
		visit(sm__list_entry(at, struct sm__rmap_area, link), arg);
}

/* The mm after the walker's place, with one more user, the place behind it; NULL at the end. */
static struct sm__mm *next_mm(struct sm__pages *pages, struct sm__rmap_mapper *place)
{
	struct sm__mm *mm = NULL;

	sm__spin_lock(&pages->lock);
	do {
		struct sm__list *next = place->in_pages.next;

		sm__list_del(&place->in_pages);
		if (next == &pages->mappers)
			break;
		sm__list_add(next, &place->in_pages);
		mm = sm__list_entry(next, struct sm__rmap_mapper, in_pages)->mm;
	} while (!mm);
	if (mm)
		/* relaxed: the lock orders it before the mm's wait, which comes after its areas went */
		atomic_fetch_add_explicit(&mm->users, 1, memory_order_relaxed);
	sm__spin_unlock(&pages->lock);
	return mm;
}

void sm__rmap_each_mm(struct sm__pages *pages, void (*visit)(struct sm__mm *mm, void *arg),
		      void *arg)
{
	struct sm__rmap_mapper place = { .mm = NULL };
	struct sm__mm *mm;

	sm__spin_lock(&pages->lock);
	sm__list_add(&pages->mappers, &place.in_pages);
	sm__spin_unlock(&pages->lock);
	while ((mm = next_mm(pages, &place))) {
		visit(mm, arg);
		/* release: pairs with the acquire in sm__mm_leave */
		atomic_fetch_sub_explicit(&mm->users, 1, memory_order_release);
	}
}

uint64_t sm__rmap_count(struct sm__pages *pages)
{
	struct sm__rmap_mapper *r;
	uint64_t n = 0;

	sm__spin_lock(&pages->lock);
	sm__list_for_each_entry (r, &pages->mappers, in_pages)
		for (struct sm__list *at = r->areas.next; at != &r->areas; at = at->next)
			n++;
	sm__spin_unlock(&pages->lock);
	return n;
}

void sm__rmap_forget_others(struct sm__pages *pages)
{
	struct sm__rmap_mapper *r;

	sm__list_for_each_safe (r, &pages->mappers, in_pages) {
		/* The place of a thread that is not here lies on its stack. */
		if (!r->mm) {
			sm__list_del(&r->in_pages);
			continue;
		}
		atomic_store_explicit(&r->mm->users, 0, memory_order_relaxed);
		/* Nor are those here who would end what has left: it was unmapped before they let the
		 * space go. */
		r->leaving = 0;
		if (sm__list_empty(&r->areas)) {
			sm__list_del(&r->in_pages);
			sm__list_del(&r->in_bucket);
			free(r);
		}
	}
}
