/* SPDX-License-Identifier: MIT */
/*
 * cases.h - named cases written as text: calls in the form of ops.h with the results they must
 * have, and what the window must look like in between.
 *
 *     case mprotect-order        a new case, in a window of 64 pages
 *     since 6.17                 only a kernel from there on behaves so
 *     window 128 | brk 4 | as 10 | data 10 | maps 8 | kernel no
 *     mmap(W, 6P, PROT_NONE, MAP_PRIVATE|MAP_ANONYMOUS|MAP_FIXED, 999, 0) = W
 *     read(W+1P) = SIGSEGV
 *     read(W+1P) = 0 token 0x41
 *     map [0,1)---p [1,3)r--p file    after the last call; "map" alone: nothing
 *
 * A result is EINVAL and the like, SIGSEGV or SIGBUS (any code) or with /code, an address or a
 * number, or "any". "maps" is vm.max_map_count of the window; "kernel no" leaves the kernel out.
 */
#ifndef TESTS_SUPPORT_CASES_H
#define TESTS_SUPPORT_CASES_H

#include "support/ops.h"

#define CASE_MAX_OPS 64

struct case_expect {
	bool any;	  /* of the result */
	bool signal_only; /* the code does not matter */
	bool has_token;
	bool has_map;
	int64_t result;
	uint64_t token;
	char map[400]; /* as text, "" is an empty window */
	unsigned line;
};

struct test_case {
	char name[64];
	unsigned since; /* major * 1000 + minor */
	bool no_kernel;
	struct ops_config config;
	size_t n;
	struct op op[CASE_MAX_OPS];
	struct case_expect expect[CASE_MAX_OPS];
};

/* Reads a file of cases. Returns their number, or -1 with a reason on stderr. */
long cases_load(const char *path, uint64_t base, struct test_case **out);

/*
 * Compares what an executor saw with what is expected. Prints each difference; returns their number.
 * contents: the executor has pages, so tokens count.
 */
unsigned case_check(const struct test_case *c, const char *path, const char *who, bool contents,
		    const struct observation *log);

#endif
