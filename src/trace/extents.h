/* SPDX-License-Identifier: MIT */
/*
 * extents.h - what of a space a recorded call works on: where it must have found memory, where room,
 * and what it may have changed.
 */
#ifndef SM_TRACE_EXTENTS_H
#define SM_TRACE_EXTENTS_H

#include "trace/recording.h"
#include "base/base.h"

#define SM__TRACE_PAGE 4096ull
/* End of the addresses of a program, four levels of page tables: what lies above is not for spaces. */
#define SM__TRACE_TOP  0x7ffffffff000ull

struct sm__extent {
	sm_addr start, end;
};

static inline uint64_t sm__page_up(uint64_t x)
{
	return SM__ALIGN_UP(x, SM__TRACE_PAGE);
}

static inline bool sm__call_succeeded(const struct sm__call *c)
{
	return c->returned && !c->error;
}

/* The pages of len bytes at start; false: none, or the range wraps. */
bool sm__extent_of(struct sm__extent *e, sm_addr start, uint64_t len);

/* mmap or mremap chose the address. */
bool sm__call_is_placed(const struct sm__call *c);

/* The pages that the call works on; at most 2 extents; 0: none. */
unsigned sm__call_extents(const struct sm__mm *mm, const struct sm__call *c,
			  struct sm__extent out[2]);

/* The part of a destination that must have been free. */
bool sm__call_destination(const struct sm__call *c, struct sm__extent *e);

/* The part that must have been mapped. */
bool sm__call_source(const struct sm__call *c, struct sm__extent *e);

#endif
