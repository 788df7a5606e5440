/* SPDX-License-Identifier: MIT */
/* delay.c - the random choice behind delay.h: per-thread generator, seeded once per run. */
#include "base/delay.h"

#if SM_VALIDATE || SM_TSAN
#include "base/random.h"

#include <sched.h>

_Atomic uint32_t sm__delay_one_in;
static _Atomic uint64_t delay_seed;
static _Atomic uint64_t delay_threads;

void sm__delay_seed(uint64_t seed, uint32_t one_in)
{
	atomic_store_explicit(&delay_seed, seed, memory_order_relaxed);
	atomic_store_explicit(&sm__delay_one_in, one_in, memory_order_relaxed);
}

void sm__delay_slow(void)
{
	static _Thread_local struct sm__random rng;
	static _Thread_local bool seeded;
	uint32_t one_in = atomic_load_explicit(&sm__delay_one_in, memory_order_relaxed);

	if (!seeded) {
		uint64_t nr = atomic_fetch_add_explicit(&delay_threads, 1, memory_order_relaxed);

		sm__random_seed(&rng, atomic_load_explicit(&delay_seed, memory_order_relaxed) +
					      nr * 0x9e3779b97f4a7c15ULL);
		seeded = true;
	}
	if (!one_in || sm__random_below(&rng, one_in))
		return;
	if (sm__random_below(&rng, 4) == 0) {
		sched_yield();
		return;
	}
	for (uint64_t n = sm__random_below(&rng, 400); n; n--)
		atomic_signal_fence(memory_order_seq_cst);
}
#endif
