/* SPDX-License-Identifier: MIT */
/*
 * rmap.h - the reverse map: where the pages of an object may be mapped.
 *
 *      sm__pages --mappers--> mapper (mm) --areas--> area, area, area
 *                                |
 *                             mapper (mm) --areas--> area
 *
 * I1 An area is in before its first entry maps a page of the object, and until it is no longer the one
 *    whose entries these are: another area has adopted them, or they are about to be unmapped, and who
 *    does that says so (sm_space.unmapping).
 * I2 There is one mapper for an object and an mm, as long as it has areas, or had one whose entries
 *    may not all be gone (leaving): a walk finds the mm and waits for who unmaps them.
 * I3 Areas go only under the mm's mmap_lock for write, so who has it for read can walk them. Mappers
 *    and areas come at the head: a walk does not meet those that come after it has begun, and need not
 *    (what it looks for had left its slot before, pagecache.h I2), so it ends.
 * I4 Who walks keeps its place among the mappers with a record of its own that has no mm, and counts
 *    itself among the users of the mm, which ends only after them.
 *
 * Lock order: a bucket's lock before the object's lock. Letters: A atomic; O the object's lock; B the
 * bucket's lock; both to write, one of them to read.
 */
#ifndef SM_MEMORY_RMAP_H
#define SM_MEMORY_RMAP_H

#include "base/base.h"
#include "base/spin.h"

enum { SM__RMAP_BUCKETS = 256 };

struct sm__memory;
struct sm__mm;
struct sm__pages;
struct sm__rmap_mapper;

struct sm__rmap_bucket {
	struct sm__spin lock;
	struct sm__list mappers; /* B */
};

/* What a VMA has of it. All zero: out. */
struct sm__rmap_area {
	_Atomic(struct sm__rmap_mapper *) mapper; /* A  NULL: out; written under O */
	struct sm__list link;			  /* O */
};

void sm__rmap_init(struct sm__memory *memory);
/* 0 or -ENOMEM. Context: keeps I1 by being called before a slot of the object is read. */
int sm__rmap_enter_slow(struct sm__rmap_area *area, struct sm__pages *pages, struct sm__mm *mm);
/* Cost: one load when the area is in. */
static inline int sm__rmap_enter(struct sm__rmap_area *area, struct sm__pages *pages,
				 struct sm__mm *mm)
{
	/* acquire: pairs with the release of who put it in; who has emptied a slot before that is seen */
	if (sm__likely(atomic_load_explicit(&area->mapper, memory_order_acquire) != NULL))
		return 0;
	return sm__rmap_enter_slow(area, pages, mm);
}
/* Entries of from may become entries of to. Context: the mm's mmap_lock for write. */
void sm__rmap_adopt(struct sm__rmap_area *to, const struct sm__rmap_area *from);
/* The area is out, its entries may be there yet. Context: the mm's mmap_lock for write. */
void sm__rmap_leave(struct sm__rmap_area *area);
/* The entries of an area that left, if it was ever in, are gone. Context: none of its locks needed. */
void sm__rmap_end(struct sm__rmap_area *area);
/* Calls visit for every area of the object in mm. Context: the mm's mmap_lock, all unmapping done. */
void sm__rmap_each_area(struct sm__pages *pages, struct sm__mm *mm,
			void (*visit)(struct sm__rmap_area *area, void *arg), void *arg);
/* Calls visit for every mm that has areas of the object, no lock held. */
void sm__rmap_each_mm(struct sm__pages *pages, void (*visit)(struct sm__mm *mm, void *arg),
		      void *arg);
/* How many areas the object has. Context: no walker may be at work. */
uint64_t sm__rmap_count(struct sm__pages *pages);
/* In the child of a fork of the host process: nobody walks the object's mappers, nobody ends an area. */
void sm__rmap_forget_others(struct sm__pages *pages);

#endif
