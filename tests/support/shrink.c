/* SPDX-License-Identifier: MIT */
/*
 * shrink.c - delta debugging over a list of calls: remove chunks of halving size as long as the
 * rest still fails, to a list where no single call can go; then try simpler arguments.
 */
#include "support/ops.h"

#include <stdlib.h>
#include <string.h>

/* Removes chunks of `size` calls wherever the rest still fails. True if anything went. */
static bool drop_chunks(struct op *ops, size_t *n, size_t size, ops_fails fails, void *arg)
{
	struct op *trial = malloc(*n * sizeof(*ops));
	bool any = false;
	size_t at = *n;

	if (!trial)
		return false;
	while (at > 0) {
		size_t from = at > size ? at - size : 0;
		size_t rest = *n - (at - from);

		memcpy(trial, ops, from * sizeof(*ops));
		memcpy(trial + from, ops + at, (*n - at) * sizeof(*ops));
		if (rest && fails(arg, trial, rest)) {
			memcpy(ops, trial, rest * sizeof(*ops));
			*n = rest;
			any = true;
		}
		at = from;
	}
	free(trial);
	return any;
}

/* Lengths and offsets of one page, optional flags gone: keeps what still fails. */
static void simplify_arguments(struct op *ops, size_t n, ops_fails fails, void *arg)
{
	for (size_t i = 0; i < n; i++) {
		for (int a = 0; a < OPS_MAX_ARGS; a++) {
			uint64_t old = ops[i].arg[a];
			bool is_len = (a & 1) && ops[i].kind != OP_WRITE &&
				      !(a == 3 && ops[i].kind == OP_MMAP);

			if (is_len && old > OPS_PAGE && old < OPS_MAX_PAGES * OPS_PAGE) {
				ops[i].arg[a] = OPS_PAGE;
				if (!fails(arg, ops, n))
					ops[i].arg[a] = old;
			}
			for (int bit = 0; a == 3 && ops[i].kind == OP_MMAP && bit < 24; bit++) {
				if (!(ops[i].arg[a] & 1ULL << bit))
					continue;
				ops[i].arg[a] ^= 1ULL << bit;
				if (!fails(arg, ops, n))
					ops[i].arg[a] ^= 1ULL << bit;
			}
		}
	}
}

size_t ops_shrink(struct op *ops, size_t n, ops_fails fails, void *arg)
{
	bool any = true;

	while (any) {
		any = false;
		for (size_t size = n / 2; size >= 1; size /= 2)
			any |= drop_chunks(ops, &n, size, fails, arg);
	}
	simplify_arguments(ops, n, fails, arg);
	while (drop_chunks(ops, &n, 1, fails, arg))
		;
	return n;
}
