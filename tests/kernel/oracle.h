/* SPDX-License-Identifier: MIT */
/*
 * oracle.h - the running kernel as an executor of calls.
 *
 * Every list runs in a child process whose address space is filled up but for the window, so that
 * the kernel's own search for a free place has to answer with one in the window:
 *
 *     low | filled | strip | window (empty) | strip | filled | libraries | filled | stack | filled
 *
 * The filling is inaccessible and reserves nothing; the strips are shared memory, which nothing in
 * the window can merge with.
 */
#ifndef TESTS_KERNEL_ORACLE_H
#define TESTS_KERNEL_ORACLE_H

#include "support/ops.h"

struct oracle;

/* Room for lists of max_ops. NULL with a reason on stderr: the kernel or the sandbox lacks something. */
struct oracle *oracle_open(size_t max_ops);
void oracle_close(struct oracle *o);

/* An address where a window of OPS_MAX_PAGES is free here and in children. */
uint64_t oracle_base(const struct oracle *o);

/* True if a list may contain this call with the kernel that runs (mseal since 6.10 ...). */
bool oracle_has(const struct oracle *o, enum op_kind kind);
bool oracle_has_advice(const struct oracle *o, uint64_t advice);
/* The window may hold the heap: the child may move its break. */
bool oracle_has_brk(const struct oracle *o);
/* major * 1000 + minor of the running kernel. */
unsigned oracle_version(const struct oracle *o);

/*
 * Runs the list and returns one observation per call, in memory of the oracle that the next run
 * overwrites. NULL with a reason on stderr if the child could not be set up or died.
 */
const struct observation *oracle_run(struct oracle *o, const struct ops_config *config,
				     const struct op *ops, size_t n);

#endif
