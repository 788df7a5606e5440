/* SPDX-License-Identifier: MIT */
/*
 * delay.h - seeded delays: a call sits where two threads can meet badly, and in validating builds
 * that asked for it a torture test makes it spin or yield there with a probability it chose.
 * Elsewhere it is nothing.
 */
#ifndef SM_BASE_DELAY_H
#define SM_BASE_DELAY_H

#include "base/base.h"

#if SM_VALIDATE || SM_TSAN
extern _Atomic uint32_t sm__delay_one_in; /* 0 = off; else about one call in this many delays */
void sm__delay_slow(void);
void sm__delay_seed(uint64_t seed, uint32_t one_in);

static inline void sm__delay(void)
{
	if (sm__unlikely(atomic_load_explicit(&sm__delay_one_in, memory_order_relaxed)))
		sm__delay_slow();
}
#else
static inline void sm__delay(void)
{
}

static inline void sm__delay_seed(uint64_t seed, uint32_t one_in)
{
	(void)seed;
	(void)one_in;
}
#endif

#endif
