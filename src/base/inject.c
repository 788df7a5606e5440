/* SPDX-License-Identifier: MIT */
/* inject.c - the counter behind inject.h. */
#include "base/inject.h"

atomic_bool sm__inject_armed;
atomic_bool sm__inject_armed_below;
static _Atomic uint64_t inject_count; /* allocation points since arming */
static _Atomic uint64_t inject_at;    /* the first that fails */
static atomic_bool inject_sticky;     /* and all after it */

bool sm__inject_slow(void)
{
	uint64_t n = atomic_fetch_add_explicit(&inject_count, 1, memory_order_relaxed) + 1;
	uint64_t at = atomic_load_explicit(&inject_at, memory_order_relaxed);

	return n == at || (n > at && atomic_load_explicit(&inject_sticky, memory_order_relaxed));
}

static void arm(atomic_bool *armed, uint64_t nth, bool sticky)
{
	sm__inject_disarm();
	atomic_store_explicit(&inject_count, 0, memory_order_relaxed);
	atomic_store_explicit(&inject_at, nth, memory_order_relaxed);
	atomic_store_explicit(&inject_sticky, sticky, memory_order_relaxed);
	atomic_store_explicit(armed, true, memory_order_release);
}

void sm__inject_arm(uint64_t nth)
{
	arm(&sm__inject_armed, nth, false);
}

void sm__inject_arm_from(uint64_t nth)
{
	arm(&sm__inject_armed, nth, true);
}

void sm__inject_arm_below_from(uint64_t nth)
{
	arm(&sm__inject_armed_below, nth, true);
}

void sm__inject_disarm(void)
{
	atomic_store_explicit(&sm__inject_armed_below, false, memory_order_release);
	atomic_store_explicit(&sm__inject_armed, false, memory_order_release);
}

uint64_t sm__inject_seen(void)
{
	return atomic_load_explicit(&inject_count, memory_order_relaxed);
}
