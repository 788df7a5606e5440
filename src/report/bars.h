/* SPDX-License-Identifier: MIT */
/* bars.h - a log-linear histogram on a terminal, in the form bpftrace made familiar. */
#ifndef SM_REPORT_BARS_H
#define SM_REPORT_BARS_H

#include <stdint.h>
#include <stdio.h>

struct sm__bar {
	uint64_t low, high; /* values in [low, high), nanoseconds */
	uint64_t count;
};

/*
 * Buckets ascending and not overlapping. Those inside one power of two are added up, empty powers
 * between filled ones are shown, those outside are not:
 *
 *   [256 ns, 512 ns)     1 204  |@@@@@@@@@@@@@@@@@@@@                    |
 */
void sm__bars_print(FILE *out, const struct sm__bar *bars, unsigned n);

#endif
