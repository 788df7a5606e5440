/* SPDX-License-Identifier: MIT */
/*
 * occupancy.h - which parts of an address space a recording has shown to be mapped, which to be
 * free, and which it has said nothing about. The order of overlapping calls is judged by it.
 *
 *   |  unknown  |/// mapped ///|   free   |/// mapped ///|      unknown      |
 *
 * I1 Spans are sorted, do not touch when their states are equal, and do not overlap.
 * I2 What lies in no span is unknown.
 */
#ifndef SM_TRACE_OCCUPANCY_H
#define SM_TRACE_OCCUPANCY_H

#include <samara/types.h>

#include <stdbool.h>
#include <stddef.h>

enum sm__occupied { SM__UNKNOWN, SM__FREE, SM__MAPPED };

struct sm__span {
	sm_addr start, end;
	enum sm__occupied state;
};

struct sm__occupancy {
	struct sm__span *spans;
	size_t n, room;
	sm_addr base; /* top of the address search, 0: unknown */
};

/* What sm__occupy() replaced, so that it can be taken back: last in, first out. */
struct sm__undo {
	struct sm__span *spans;
	size_t n, room;
};

/*
 * [start, end) takes the state; what it was is pushed to undo unless that is NULL. An empty range
 * changes nothing and pushes nothing. 0, -ENOMEM.
 */
int sm__occupy(struct sm__occupancy *o, sm_addr start, sm_addr end, enum sm__occupied state,
	       struct sm__undo *undo);
/* Takes back the last sm__occupy() that pushed. Never fails: the room is there. */
void sm__occupy_undo(struct sm__occupancy *o, struct sm__undo *undo);
/* Whether any byte of the range has the state. */
bool sm__occupied_any(const struct sm__occupancy *o, sm_addr start, sm_addr end,
		      enum sm__occupied state);
/*
 * Where Linux would place len bytes: the highest gap below base that holds them; alignment: 0, or the
 * huge page size, for what is aligned to it (offset modulo it). 0: nowhere, or base is unknown.
 */
sm_addr sm__occupancy_place(const struct sm__occupancy *o, uint64_t len, uint64_t alignment,
			    uint64_t offset);
/* The first span that ends above addr. */
size_t sm__occupancy_find(const struct sm__occupancy *o, sm_addr addr);
int sm__occupancy_copy(struct sm__occupancy *to, const struct sm__occupancy *from);
void sm__occupancy_free(struct sm__occupancy *o);

#endif
