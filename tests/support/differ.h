/* SPDX-License-Identifier: MIT */
/*
 * differ.h - random lists of calls on two executors, compared call by call; a difference is shrunk
 * and printed with the seed, the list and what each of the two saw.
 */
#ifndef TESTS_SUPPORT_DIFFER_H
#define TESTS_SUPPORT_DIFFER_H

#include "support/opgen.h"

#define DIFFER_MAX_OPS 1000 /* longest list */

/* Somebody who runs a list. The observations are valid until the next run. NULL: it could not. */
struct executor {
	const char *name;
	const struct observation *(*run)(void *arg, const struct ops_config *config,
					 const struct op *ops, size_t n);
	void *arg;
};

struct differ {
	struct executor subject; /* compared with the twin, which also guides the generator */
	struct executor second;	 /* compared with the subject; no run: nobody */
	uint64_t base;
	uint64_t calls;	  /* in all */
	unsigned length;  /* of one list */
	uint64_t seed;	  /* of the first list; the next ones follow from it */
	int profile;	  /* enum opgen_profile, -1: each in turn */
	const char *file; /* a list to run instead */
	/* Takes away what the subject cannot do. May be NULL. */
	void (*restrict_to)(void *arg, struct opgen *g);
	void *restrict_arg;
};

/* Reads --calls --seed --profile --length --ops. 0, or -1 on an unknown argument. */
int differ_arguments(struct differ *d, int argc, char **argv);

/* Runs until the calls are done or a difference was found. Returns 0 or 1, -1 if it could not run. */
int differ_run(struct differ *d);

/* Index of the first observation that differs, or -1. */
long differ_first(const struct ops_config *c, const struct observation *a,
		  const struct observation *b, size_t n);

#endif
