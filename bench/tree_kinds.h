/* SPDX-License-Identifier: MIT */
/* tree_kinds.h - the trees of the library as sides of `samara bench tree`. */
#ifndef BENCH_TREE_KINDS_H
#define BENCH_TREE_KINDS_H

#include <stddef.h>
#include <stdint.h>

/* One kind of tree; case ids and fills are those of peers/tree_cases.h. */
struct tree_kind {
	const char *name;
	const void *how;
	void *(*make)(size_t n, const void *how); /* filled with n ranges; NULL: exhausted */
	void (*free)(void *run);
	uint64_t (*measure)(void *run, unsigned int id, uint64_t n); /* nanoseconds */
	double (*bytes)(size_t n, unsigned int fill, const void *how);
};

extern const struct tree_kind bench_tree_maple, bench_tree_rb, bench_tree_avl;

/* Defines tree_kind functions from the static ones of peers/tree_cases.h. */
#define TREE_KIND_FUNCTIONS                                                         \
	static void *kind_make(size_t n, const void *how)                           \
	{                                                                           \
		struct tree_run *r = (struct tree_run *)malloc(sizeof(*r));         \
                                                                                    \
		if (r && !tree_run_make(r, n, how)) {                               \
			free(r);                                                    \
			r = NULL;                                                   \
		}                                                                   \
		return r;                                                           \
	}                                                                           \
	static void kind_free(void *run)                                            \
	{                                                                           \
		tree_run_free((struct tree_run *)run);                              \
		free(run);                                                          \
	}                                                                           \
	static uint64_t kind_measure(void *run, unsigned int id, uint64_t n)        \
	{                                                                           \
		return tree_case((struct tree_run *)run, (enum tree_case_id)id, n); \
	}                                                                           \
	static double kind_bytes(size_t n, unsigned int fill, const void *how)      \
	{                                                                           \
		return tree_bytes(n, (enum tree_fill)fill, how);                    \
	}

#endif
