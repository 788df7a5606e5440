/* SPDX-License-Identifier: MIT */
/*
 * kernel_micro.c - the field's standard micro-benchmarks, written from their description, after the
 * tests of the same name in will-it-scale: a 128 MB area each time, mapped, used and unmapped.
 */
#include "kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RW = PROT_READ | PROT_WRITE, THREADS = 64 };
#define AREA	   ((size_t)128 << 20)
#define AREA_PAGES (AREA / KERNEL_PAGE)

struct micro {
	int flags;
	bool file, touch;
	int fd[THREADS];
	int error;
};

static void fail(struct micro *m, int error)
{
	__atomic_store_n(&m->error, error, __ATOMIC_RELAXED); /* read after the join */
}

/* n pages if they are touched, n pairs if not. */
static void work(void *arg, unsigned thread, uint64_t n)
{
	struct micro *m = arg;

	while (n) {
		uint64_t pages = n < AREA_PAGES ? n : AREA_PAGES;
		char *p = mmap(NULL, AREA, RW, m->flags, m->file ? m->fd[thread] : -1, 0);

		if (p == MAP_FAILED) {
			fail(m, errno);
			return;
		}
		for (uint64_t i = 0; m->touch && i < pages; i++)
			((volatile char *)p)[i * KERNEL_PAGE] = 1;
		munmap(p, AREA);
		n -= m->touch ? pages : 1;
	}
}

/* One file of 128 MB for each thread, kept: files are sparse until page_fault3 writes into them. */
static bool open_files(struct micro *m, unsigned threads)
{
	static int files[THREADS];

	for (unsigned t = 0; t < threads; t++) {
		if (!files[t]) {
			files[t] = kernel_file(KERNEL_PAGE);
			if (files[t] < 0 || ftruncate(files[t], (off_t)AREA)) {
				files[t] = 0;
				return false;
			}
		}
		m->fd[t] = files[t];
	}
	return true;
}

static uint64_t run(struct micro *m, const char *arg, uint64_t n)
{
	unsigned threads = (unsigned)kernel_number(arg, 1);
	uint64_t ns;

	if (!threads || threads > THREADS)
		return peer_fail("1 to %d threads, not '%s'", THREADS, arg);
	if (m->file && !open_files(m, threads))
		return peer_fail("no room for a file of 128 MB for each thread");
	ns = bench_parallel(threads, work, m, n, NULL);
	return m->error ? peer_fail("%s", strerror(m->error)) : ns;
}

uint64_t kernel_page_fault1(const char *arg, uint64_t n)
{
	struct micro m = { .flags = MAP_PRIVATE | MAP_ANONYMOUS, .touch = true };

	return run(&m, arg, n);
}

uint64_t kernel_page_fault2(const char *arg, uint64_t n)
{
	struct micro m = { .flags = MAP_PRIVATE, .file = true, .touch = true };

	return run(&m, arg, n);
}

uint64_t kernel_page_fault3(const char *arg, uint64_t n)
{
	struct micro m = { .flags = MAP_SHARED, .file = true, .touch = true };

	return run(&m, arg, n);
}

uint64_t kernel_mmap1(const char *arg, uint64_t n)
{
	struct micro m = { .flags = MAP_PRIVATE | MAP_ANONYMOUS };

	return run(&m, arg, n);
}

uint64_t kernel_mmap2(const char *arg, uint64_t n)
{
	struct micro m = { .flags = MAP_PRIVATE, .file = true };

	return run(&m, arg, n);
}

/* There is one break for all threads of a process: more than one would undo each other's steps. */
uint64_t kernel_brk1(const char *arg, uint64_t n)
{
	if (kernel_number(arg, 1) != 1)
		return peer_fail("brk1 is for one thread: a process has one break");
	return kernel_brk_step(arg, n);
}
