/* SPDX-License-Identifier: MIT */
/*
 * opgen.h - a seeded stream of calls that leans to what goes wrong: ranges that touch borders of
 * existing VMAs, overlap several, or are off by one; now and then arguments no program would pass.
 */
#ifndef TESTS_SUPPORT_OPGEN_H
#define TESTS_SUPPORT_OPGEN_H

#include "base/random.h"
#include "support/ops.h"

struct opgen {
	struct sm__random random;
	const uint8_t *input; /* decisions come from these bytes instead; NULL: from random */
	size_t left;	      /* how many there are; then every decision is the first */
	struct ops_config config;
	unsigned weight[OP_KINDS]; /* share of each call; 0: never */
	uint64_t advices;	   /* bit per entry of the table in opgen.c that may be given */
	unsigned absurd;	   /* one call in this many is nonsense; 0: none */
	unsigned spaces;	   /* made so far */
	unsigned few_maps;	   /* one window in this many has a small map count; 0: none */
	uint64_t token;		   /* last one written */
};

enum opgen_profile {
	PROFILE_LAYOUT,	  /* mmap munmap mprotect mremap brk madvise and touches */
	PROFILE_LOCKS,	  /* and mlock, mseal, mincore, msync, process_madvise */
	PROFILE_CONTENTS, /* few, small, often touched mappings; truncation and fork too */
	PROFILES,
};

void opgen_init(struct opgen *g, const struct ops_config *config, enum opgen_profile profile,
		uint64_t seed);

/* The next call of a space, knowing what its window looks like. */
void opgen_next(struct opgen *g, const struct observation *seen, unsigned space, struct op *op);

/* Chooses whether this window has a small map count. */
void opgen_limit_maps(struct opgen *g);

/* Takes an advice out of the stream, unless it may stay. */
void opgen_without_advice(struct opgen *g, uint64_t advice, bool may_stay);

/* A window, limits and a heap, chosen by the seed. base: where the window may be. */
void opgen_config(struct ops_config *config, uint64_t base, uint64_t seed);

#endif
