/* SPDX-License-Identifier: MIT */
/*
 * footprint.h - which calls of other threads a call must wait for when each recorded thread is a
 * thread of its own.
 *
 * G1 A call waits for every call that comes before it in the recording's order and touches its
 *    footprint: its pages and one page to either side, where a VMA it may merge with begins or ends.
 *    Two faults do not wait for each other.
 * G2 fork, exec and mlockall wait for everything on their space, and everything waits for them.
 * G3 Dependencies point backwards in the order, and a thread makes its calls in that order: no
 *    cycle, so no deadlock.
 */
#ifndef SM_TRACE_FOOTPRINT_H
#define SM_TRACE_FOOTPRINT_H

#include "trace/recording.h"

/* Wait until that thread has finished its first `calls` calls. */
struct sm__wait {
	uint32_t thread;
	uint32_t calls;
};

struct sm__footprints {
	uint32_t *thread_first; /* nthreads + 1: where a thread's calls begin in thread_calls */
	uint32_t *thread_calls; /* calls by thread, each in order */
	uint64_t *wait_first;	/* ncalls + 1, by call: where its waits begin */
	struct sm__wait *waits;
	size_t nwaits, waits_room;
};

/* 0, -ENOMEM. */
int sm__footprints_make(const struct sm__recording *rec, struct sm__footprints *out);
void sm__footprints_free(struct sm__footprints *f);

#endif
