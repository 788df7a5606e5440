/* SPDX-License-Identifier: MIT */
/* memory_world.h - a small space of pages without VMAs, for the tests of the memory room. */
#ifndef TESTS_MEMORY_WORLD_H
#define TESTS_MEMORY_WORLD_H

#include "base/thread.h"
#include "memory/gather.h"
#include "memory/memory.h"
#include "memory/pagefault.h"

#include <stdarg.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#define PAGE 4096ull
#define RW   (SM_PROT_READ | SM_PROT_WRITE)

/* One area, as a VMA would describe it. */
struct area {
	struct sm__mm *mm;
	sm_addr start, end;
	int prot;
	bool shared, huge;
	struct sm_file *file;
	uint64_t index; /* of start */
};

struct world {
	struct sm__memory *memory;
	struct area area[4]; /* what each_mapping of any mm in here walks */
	unsigned nr_areas;
	struct {
		struct sm__mm *mm;
		struct sm__pages *pages;
		struct sm__rmap_area rmap;
	} entered[16]; /* in the reverse map */
};

static inline void
world_each_mapping(struct sm__mm *mm, struct sm__pages *pages, uint64_t first, uint64_t last,
		   void (*visit)(struct sm__mm *, sm_addr, sm_addr, bool, void *), void *arg)
{
	struct world *w = mm->owner;

	for (unsigned i = 0; i < w->nr_areas; i++) {
		struct area *a = &w->area[i];
		uint64_t nr = (a->end - a->start) / PAGE;
		uint64_t from = first > a->index ? first - a->index : 0;
		uint64_t to = last - a->index < nr ? last - a->index + 1 : nr;

		if (a->mm != mm || !a->file || sm__pages_bound(a->file) != pages ||
		    last < a->index || from >= to)
			continue;
		visit(mm, a->start + from * PAGE, a->start + to * PAGE, a->shared, arg);
	}
}

/* One place in the reverse map for an mm and an object, however many areas. */
static inline int world_enter(struct world *w, struct sm__mm *mm, struct sm__pages *pages)
{
	unsigned i = 0;

	while (w->entered[i].rmap.mapper &&
	       (w->entered[i].mm != mm || w->entered[i].pages != pages))
		assert_true(++i < SM__ARRAY_SIZE(w->entered));
	w->entered[i].mm = mm;
	w->entered[i].pages = pages;
	return sm__rmap_enter(&w->entered[i].rmap, pages, mm);
}

/* What an mm, or NULL, or an object, or NULL, has entered leaves again. */
static inline void world_leave(struct world *w, struct sm__mm *mm, struct sm__pages *pages)
{
	for (unsigned i = 0; i < SM__ARRAY_SIZE(w->entered); i++)
		if (w->entered[i].mm == mm || w->entered[i].pages == pages) {
			sm__rmap_leave(&w->entered[i].rmap);
			sm__rmap_end(&w->entered[i].rmap);
		}
}

static inline void world_destroy_mm(struct sm__mm *mm)
{
	world_leave(mm->owner, mm, NULL);
	sm__mm_destroy(mm);
}

static inline void world_put_file(struct world *w, struct sm_file *file)
{
	if (sm__pages_bound(file) && sm__pages_bound(file)->files == 1)
		world_leave(w, NULL, sm__pages_bound(file));
	sm_file_put(file);
}

static const struct sm__mm_ops world_ops = { .each_mapping = world_each_mapping };

static inline void world_init(struct world *w, uint64_t mib)
{
	struct sm__memory_options o = { .bytes = mib << 20, .page_shift = 12 };

	memset(w, 0, sizeof(*w));
	sm__thread_enter();
	assert_int_equal(sm__memory_create(&o, &w->memory), 0);
}

/* Nothing may be in use any more. */
static inline void world_end(struct world *w)
{
	assert_int_equal(sm__memory_destroy(w->memory), 0);
}

static inline struct sm__mm *world_mm(struct world *w)
{
	struct sm__mm *mm;

	assert_int_equal(sm__mm_create(w->memory, &world_ops, w, &mm), 0);
	return mm;
}

static inline enum sm__page_outcome area_fault(struct area *a, sm_addr addr, enum sm_access access)
{
	struct sm__page_fault pf = {
		.mm = a->mm,
		.addr = addr,
		.access = access,
		.prot = a->prot,
		.shared = a->shared,
		.huge = a->huge,
		.start = a->start,
		.end = a->end,
		.index = a->index + (addr - a->start) / PAGE,
	};
	enum sm__page_outcome out;

	if (a->file)
		assert_int_equal(sm__pages_of(a->mm->memory, a->file, &pf.pages), 0);
	if (a->file)
		assert_int_equal(world_enter(a->mm->owner, a->mm, pf.pages), 0);
	while ((out = sm__mm_fault(&pf)) == SM__PAGE_FETCH) {
		pf.major = true;
		if (sm__pages_fetch(pf.pages, a->file, pf.index))
			return SM__PAGE_IO;
	}
	return out;
}

/* A host pointer as long as nobody else changes the space; NULL: the fault failed. */
static inline void *area_touch(struct area *a, sm_addr addr, enum sm_access access)
{
	struct sm__slot slot;
	void *p = sm__mm_hold(a->mm, addr, access, &slot);

	if (!p && area_fault(a, addr, access) == SM__PAGE_DONE)
		p = sm__mm_hold(a->mm, addr, access, &slot);
	if (p)
		sm__pt_unlock(&slot);
	return p;
}

static inline void put8(struct area *a, sm_addr addr, uint64_t v)
{
	uint64_t *p = area_touch(a, addr, SM_ACCESS_WRITE);

	assert_non_null(p);
	*p = v;
}

static inline uint64_t get8(struct area *a, sm_addr addr)
{
	uint64_t *p = area_touch(a, addr, SM_ACCESS_READ);

	assert_non_null(p);
	return *p;
}

static inline void area_zap(struct area *a, sm_addr start, sm_addr end, unsigned flags)
{
	struct sm__mmu_gather g;

	sm__mmu_gather_begin(&g, a->mm);
	sm__mm_zap(a->mm, start, end, flags, &g);
	sm__mmu_gather_finish(&g);
}

static inline void area_protect(struct area *a, sm_addr start, sm_addr end, int prot)
{
	struct sm__mmu_gather g;

	sm__mmu_gather_begin(&g, a->mm);
	sm__mm_protect(a->mm, start, end, prot, a->shared, &g);
	sm__mmu_gather_finish(&g);
	a->prot = prot;
}

static inline uint64_t frames_in_use(struct world *w)
{
	struct sm__pool_stats s;

	sm__pool_stats(w->memory->pool, &s);
	return s.in_use;
}

#endif
