/* SPDX-License-Identifier: MIT */
/*
 * inject.h - every allocation of the library passes this seam, so that a test can make each one
 * fail in turn.
 *
 * I1 An allocation point calls sm__inject_fail() once, before it has any effect; true means "report
 *    exhaustion now", exactly as if memory had run out.
 * I2 Off (the usual case) it costs one relaxed load of a line that nobody writes.
 *
 * I3 Points whose failure a caller may never see (a sheaf that could not be made: the object comes from
 *    a slab instead) call sm__inject_fail_below() and are armed apart, so that "the n-th failed and the
 *    call still succeeded" does not end a test that counts n up until a call succeeds.
 *
 * sm__inject_arm(n): the n-th allocation point from now on (1 = the next) fails, and only that one.
 * sm__inject_arm_from(n): the n-th and every later one fail until disarmed.
 * Counting is per process and exact when one thread allocates.
 */
#ifndef SM_BASE_INJECT_H
#define SM_BASE_INJECT_H

#include "base/base.h"

#include <stdlib.h>

extern atomic_bool sm__inject_armed;
extern atomic_bool sm__inject_armed_below;
bool sm__inject_slow(void);
void sm__inject_arm(uint64_t nth);
void sm__inject_arm_from(uint64_t nth);
/* As sm__inject_arm_from, for the points of I3. */
void sm__inject_arm_below_from(uint64_t nth);
void sm__inject_disarm(void);
/* Number of allocation points passed since the last arm. */
uint64_t sm__inject_seen(void);

static inline bool sm__inject_fail(void)
{
	return sm__unlikely(atomic_load_explicit(&sm__inject_armed, memory_order_relaxed)) &&
	       sm__inject_slow();
}

static inline bool sm__inject_fail_below(void)
{
	return sm__unlikely(atomic_load_explicit(&sm__inject_armed_below, memory_order_relaxed)) &&
	       sm__inject_slow();
}

/* n zeroed objects from the heap, or NULL: an allocation point. */
static inline void *sm__calloc(size_t n, size_t size)
{
	return sm__inject_fail() ? NULL : calloc(n, size);
}

#endif
