/* SPDX-License-Identifier: MIT */
/* kernel_faults.c - page faults and fork (kernel.h). Only the touches are timed. */
#include "kernel.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RW = PROT_READ | PROT_WRITE, CHUNK_PAGES = 16384, THREADS = 64, AROUND = 16 };

static void touch_pages(char *p, uint64_t pages, unsigned stride)
{
	for (uint64_t i = 0; i < pages; i++)
		((volatile char *)p)[i * stride * KERNEL_PAGE] = 1;
}

static void read_pages(const char *p, uint64_t pages, unsigned stride)
{
	for (uint64_t i = 0; i < pages; i++)
		(void)((const volatile char *)p)[i * stride * KERNEL_PAGE];
}

/* Where the areas of the first thread are, if nothing else is, and how far from the next's. */
static const uintptr_t AREAS = 1ull << 44, AREAS_APART = 1ull << 30;

struct areas {
	uint64_t pages; /* of one area */
	uint64_t ns[THREADS];
};

/* n pages, an area after the other: map, touch, unmap. Threads are far apart: no VMA, no table in common. */
static void touch_areas(void *arg, unsigned thread, uint64_t n)
{
	struct areas *a = arg;
	uint64_t ns = 0;

	while (n) {
		uint64_t pages = n < a->pages ? n : a->pages, start;
		char *p = mmap((char *)AREAS + thread * AREAS_APART, a->pages * KERNEL_PAGE, RW,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (p == MAP_FAILED) {
			ns = peer_fail("mmap: %s", strerror(errno));
			break;
		}
		madvise(p, a->pages * KERNEL_PAGE, MADV_NOHUGEPAGE);
		start = bench_now();
		touch_pages(p, pages, 1);
		ns += bench_now() - start;
		munmap(p, a->pages * KERNEL_PAGE);
		n -= pages;
	}
	a->ns[thread] = ns;
}

/* n pages for each thread; the time of the slowest. */
uint64_t kernel_anon_fault(const char *arg, uint64_t n)
{
	unsigned threads = (unsigned)kernel_number(arg, 1);
	const char *comma = strchr(arg, ',');
	struct areas areas = { .pages = comma ? kernel_number(comma + 1, 0) : CHUNK_PAGES };
	uint64_t ns = 0;

	if (!threads || threads > THREADS || !areas.pages || areas.pages > CHUNK_PAGES)
		return peer_fail("1 to %d threads, 1 to %d pages, not '%s'", THREADS, CHUNK_PAGES,
				 arg);
	(void)bench_parallel(threads, touch_areas, &areas, n, NULL);
	for (unsigned t = 0; t < threads; t++)
		ns = areas.ns[t] > ns ? areas.ns[t] : ns;
	return ns;
}

uint64_t kernel_anon_read_fault(const char *arg, uint64_t n)
{
	uint64_t ns = 0;

	(void)arg;
	while (n) {
		uint64_t pages = n < CHUNK_PAGES ? n : CHUNK_PAGES, start;
		char *p = kernel_map(CHUNK_PAGES * KERNEL_PAGE, RW);

		if (!p)
			return UINT64_MAX;
		madvise(p, CHUNK_PAGES * KERNEL_PAGE, MADV_NOHUGEPAGE);
		start = bench_now();
		read_pages(p, pages, 1);
		ns += bench_now() - start;
		munmap(p, CHUNK_PAGES * KERNEL_PAGE);
		n -= pages;
	}
	return ns;
}

/* A cached file, made once: the cost of filling the page cache is not the subject. */
static int cached_file(void)
{
	static int fd = -1;

	if (fd < 0)
		fd = kernel_file(CHUNK_PAGES * KERNEL_PAGE);
	return fd;
}

/* Maps the cached file privately, runs the timed part on it, unmaps; until n pages are done. */
static uint64_t on_file(uint64_t n, unsigned stride, bool write)
{
	uint64_t ns = 0;
	int fd = cached_file();

	while (n && fd >= 0) {
		uint64_t most = CHUNK_PAGES / stride, pages = n < most ? n : most, start;
		char *p = mmap(NULL, CHUNK_PAGES * KERNEL_PAGE, RW, MAP_PRIVATE, fd, 0);

		if (p == MAP_FAILED)
			return peer_fail("mmap: %s", strerror(errno));
		if (write)
			read_pages(p, pages, stride);
		start = bench_now();
		if (write)
			touch_pages(p, pages, stride);
		else
			read_pages(p, pages, stride);
		ns += bench_now() - start;
		munmap(p, CHUNK_PAGES * KERNEL_PAGE);
		n -= pages;
	}
	return fd < 0 ? UINT64_MAX : ns;
}

uint64_t kernel_file_read_fault(const char *arg, uint64_t n)
{
	return on_file(n, strcmp(arg, "page") ? AROUND : 1, false);
}

/* A child that shares our pages until it is told to go. */
static pid_t share_pages(void)
{
	pid_t child = fork();

	if (!child) {
		pause();
		_exit(0);
	}
	return child;
}

static void end_child(pid_t child)
{
	kill(child, SIGKILL);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
}

static uint64_t cow_anon(uint64_t n)
{
	uint64_t ns = 0;

	while (n) {
		uint64_t pages = n < CHUNK_PAGES ? n : CHUNK_PAGES, start;
		char *p = kernel_map(pages * KERNEL_PAGE, RW);
		pid_t child;

		if (!p)
			return UINT64_MAX;
		touch_pages(p, pages, 1);
		child = share_pages();
		if (child < 0)
			return peer_fail("fork: %s", strerror(errno));
		start = bench_now();
		touch_pages(p, pages, 1);
		ns += bench_now() - start;
		end_child(child);
		munmap(p, pages * KERNEL_PAGE);
		n -= pages;
	}
	return ns;
}

uint64_t kernel_cow_fault(const char *arg, uint64_t n)
{
	return strcmp(arg, "anon") ? on_file(n, 1, true) : cow_anon(n);
}

/* Areas of equal size with a one-page hole after each. */
static char *make_areas(uint64_t vmas, uint64_t bytes, size_t *size)
{
	uint64_t each = bytes / vmas / KERNEL_PAGE;
	size_t step = (each + 1) * KERNEL_PAGE;
	char *base;

	if (!each)
		return NULL;
	*size = vmas * step;
	base = kernel_map(*size, RW);
	for (uint64_t i = 0; base && i < vmas; i++) {
		touch_pages(base + i * step, each, 1);
		munmap(base + i * step + each * KERNEL_PAGE, KERNEL_PAGE);
	}
	return base;
}

uint64_t kernel_fork(const char *arg, uint64_t n)
{
	const char *comma = strchr(arg, ',');
	uint64_t vmas = kernel_number(arg, 1000);
	uint64_t mib = comma ? kernel_number(comma + 1, 64) : 64, ns = 0;
	size_t size;
	char *base = vmas ? make_areas(vmas, mib << 20, &size) : NULL;

	if (!base)
		return peer_fail("fork/VMAS,MIB: at least a page for each area");
	for (uint64_t i = 0; i < n; i++) {
		uint64_t start = bench_now();
		pid_t child = fork();

		if (!child)
			_exit(0);
		ns += bench_now() - start;
		if (child < 0) {
			munmap(base, size);
			return peer_fail("fork: %s", strerror(errno));
		}
		while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
			;
	}
	munmap(base, size);
	return ns;
}

struct storm {
	char *page;
	uint64_t flips;
};

static void flip_beside(void *arg, const bool *stop)
{
	struct storm *s = arg;

	for (; !bench_stopped(stop); s->flips++)
		mprotect(s->page, KERNEL_PAGE, s->flips & 1 ? RW : PROT_READ);
}

uint64_t kernel_fault_quiet(const char *arg, uint64_t n)
{
	return kernel_anon_fault(arg, n);
}

uint64_t kernel_fault_storm(const char *arg, uint64_t n)
{
	char *area = kernel_map(3 * KERNEL_PAGE, PROT_NONE);
	struct storm storm = { .page = area + KERNEL_PAGE };
	struct bench_beside *beside;
	uint64_t ns;

	if (!area)
		return UINT64_MAX;
	mprotect(storm.page, KERNEL_PAGE, RW);
	if (!strcmp(arg, "present"))
		*(volatile char *)storm.page = 1;
	beside = bench_beside_start(flip_beside, &storm);
	ns = kernel_anon_fault("1", n);
	bench_beside_stop(beside);
	munmap(area, 3 * KERNEL_PAGE);
	return beside ? ns : peer_fail("no second thread");
}
