/* SPDX-License-Identifier: MIT */
/* random.h - a small seeded generator (SplitMix64) for tests, delays and benchmarks: not for secrets. */
#ifndef SM_BASE_RANDOM_H
#define SM_BASE_RANDOM_H

#include <stdint.h>

struct sm__random {
	uint64_t state;
};

static inline void sm__random_seed(struct sm__random *r, uint64_t seed)
{
	r->state = seed;
}

static inline uint64_t sm__random_next(struct sm__random *r)
{
	uint64_t z = (r->state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* Uniform in [0, n), n > 0 (bias below 2^-32 for n < 2^32). */
static inline uint64_t sm__random_below(struct sm__random *r, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)sm__random_next(r) * n) >> 64);
}

#endif
