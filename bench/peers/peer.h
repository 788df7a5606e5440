/* SPDX-License-Identifier: MIT */
/*
 * peer.h - a peer that must be a process of its own: another malloc, a C++ container, the kernel
 * seen from a process without our mappings.
 *
 * The program is one table of things it can measure and a main that hands it over:
 *
 *   static uint64_t pair(const char *arg, uint64_t n) { ... return nanoseconds of n operations; }
 *   static const struct peer_case cases[] = { { "pair", pair }, { NULL, NULL } };
 *   int main(int argc, char **argv) { return peer_main(argc, argv, cases); }
 *
 * Protocol, line by line over stdin and stdout: "NAME[/ARG] N" is answered by the nanoseconds that
 * N operations took (and by the numbers of peer_more(), on the same line), or "error TEXT". It ends
 * when stdin does, so it never outlives the benchmark. By hand: `samara-peer-X NAME N` prints one
 * measurement, `samara-peer-X` without input lists its cases with --list.
 *
 * CPUs: environment BENCH_CPUS_ORDER ("1,0"), set by the harness; the main thread is pinned to the
 * first.
 */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include "measure.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Nanoseconds that n operations took, or UINT64_MAX after peer_fail(). arg: what followed the '/'
 * or "".
 */
typedef uint64_t peer_run(const char *arg, uint64_t n);

struct peer_case {
	const char *name;
	peer_run *run;
};

/* Says why a measurement is not possible. Return: UINT64_MAX. */
uint64_t peer_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* One more number of this measurement, behind the nanoseconds: at most PEER_MORE. */
enum { PEER_MORE = 16 };
void peer_more(double value);
/* The text of the last peer_fail() of this thread, or "". */
const char *peer_error(void);
int peer_main(int argc, char **argv, const struct peer_case *cases);

#ifdef __cplusplus
}
#endif
#endif
