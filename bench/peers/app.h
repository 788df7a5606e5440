/* SPDX-License-Identifier: MIT */
/*
 * app.h - what the start and the stop of an application with about a hundred threads does to its
 * address space: a generator, run on the kernel or on a space.
 *
 *   load     60 libraries: a reservation; text, constants and data mapped over it; relocated
 *            (written) pages made read-only; eight pages of text read, two of data written
 *   start    each thread: stack and signal stack with guard pages, reference table, thread arena
 *            (reserved, trimmed, grown page by page), a private map of a file read here and there,
 *            data pages of a file written
 *   stop     each thread: all of it unmapped; then the libraries
 *
 * The threads' work is done by a few workers, one per CPU, each for its share: what is measured is
 * the address space, not how a hundred threads are scheduled.
 */
#ifndef BENCH_APP_H
#define BENCH_APP_H

#include "measure.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { APP_FILE_BYTES = 4 << 20, APP_THREADS_MOST = 1024, APP_WORKERS = 8 };

struct app_system {
	/* addr non-zero: fixed. Without MAP_ANONYMOUS in flags: the file, from offset. */
	int64_t (*map)(void *arg, uint64_t addr, uint64_t length, int prot, int flags,
		       uint64_t offset);
	int (*unmap)(void *arg, uint64_t addr, uint64_t length);
	int (*protect)(void *arg, uint64_t addr, uint64_t length, int prot);
	int (*touch)(void *arg, unsigned worker, uint64_t addr, bool write);
	/* Around each worker's work; may be NULL. */
	void (*enter)(void *arg, unsigned worker);
	void (*leave)(void *arg, unsigned worker);
	void *arg;
};

struct app_result {
	uint64_t load_ns, start_ns, stop_ns;
	uint64_t calls, touches;
};

/*
 * One cycle. Return: 0, or -errno of the first call that failed (the space is then of no further
 * use).
 */
int app_cycle(const struct app_system *sys, unsigned threads, unsigned workers,
	      struct app_result *r);

#ifdef __cplusplus
}
#endif
#endif
