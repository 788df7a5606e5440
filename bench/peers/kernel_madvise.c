/* SPDX-License-Identifier: MIT */
/*
 * kernel_madvise.c - a touched buffer advised page by page (kernel.h): the published experiment of
 * the madvise batching series. As there, filling the vector is part of the timed loop.
 */
#include "kernel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BUFFER_PAGES = 65536, BATCH_MOST = 1024 };

static const struct {
	const char *name;
	int advice;
} advices[] = { { "DONTNEED", MADV_DONTNEED },
		{ "FREE", MADV_FREE },
		{ "COLD", MADV_COLD },
		{ "WILLNEED", MADV_WILLNEED },
		{ "PAGEOUT", MADV_PAGEOUT } };

static int advice_of(const char *text)
{
	size_t length = strcspn(text, "/");

	for (unsigned i = 0; i < sizeof(advices) / sizeof(advices[0]); i++) {
		if (strlen(advices[i].name) == length && !strncmp(advices[i].name, text, length))
			return advices[i].advice;
	}
	return -1;
}

static void spin(void *arg, const bool *stop)
{
	(void)arg;
	while (!bench_stopped(stop))
		__builtin_ia32_pause();
}

static int advise_singly(char *p, uint64_t pages, int advice)
{
	for (uint64_t i = 0; i < pages; i++) {
		if (madvise(p + i * KERNEL_PAGE, KERNEL_PAGE, advice))
			return -errno;
	}
	return 0;
}

static int advise_batches(char *p, uint64_t pages, int advice, unsigned batch)
{
	struct iovec ranges[BATCH_MOST];
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0), error = fd < 0 ? -errno : 0;

	for (uint64_t i = 0; i < pages && !error; i += batch) {
		unsigned n = pages - i < batch ? (unsigned)(pages - i) : batch;

		for (unsigned r = 0; r < n; r++) {
			ranges[r].iov_base = p + (i + r) * KERNEL_PAGE;
			ranges[r].iov_len = KERNEL_PAGE;
		}
		if (syscall(SYS_process_madvise, fd, ranges, n, advice, 0) != (long)n * KERNEL_PAGE)
			error = errno ? -errno : -EIO;
	}
	if (fd >= 0)
		close(fd);
	return error;
}

/* One buffer, passes until n pages are done; each pass touches it first, untimed. */
static uint64_t passes(int advice, unsigned batch, uint64_t n)
{
	uint64_t size = n < BUFFER_PAGES ? n : BUFFER_PAGES, ns = 0;
	char *p = kernel_map(size * KERNEL_PAGE, PROT_READ | PROT_WRITE);
	int error = 0;

	if (!p)
		return UINT64_MAX;
	madvise(p, size * KERNEL_PAGE, MADV_NOHUGEPAGE);
	while (n && !error) {
		uint64_t pages = n < size ? n : size, start;

		memset(p, 1, pages * KERNEL_PAGE);
		start = bench_now();
		error = batch ? advise_batches(p, pages, advice, batch)
			      : advise_singly(p, pages, advice);
		ns += bench_now() - start;
		n -= pages;
	}
	munmap(p, size * KERNEL_PAGE);
	return error ? peer_fail("advice %d, batch %u: %s", advice, batch, strerror(-error)) : ns;
}

uint64_t kernel_madvise(const char *arg, uint64_t n)
{
	const char *slash = strchr(arg, '/');
	int advice = advice_of(arg);
	uint64_t batch = slash ? kernel_number(slash + 1, 0) : 0, ns;
	bool tlb = slash && strstr(slash, "/tlb");
	struct bench_beside *beside = NULL;

	if (advice < 0 || batch > BATCH_MOST)
		return peer_fail("madvise/ADVICE/BATCH[/tlb], batch up to 1024, not '%s'", arg);
	if (tlb)
		beside = bench_beside_start(spin, NULL);
	ns = passes(advice, (unsigned)batch, n);
	bench_beside_stop(beside);
	return ns;
}
