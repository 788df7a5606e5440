/* SPDX-License-Identifier: MIT */
/* kernel_app.c - the application cycle (app.h) on the running kernel. */
#include "app.h"
#include "kernel.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static int64_t app_map(void *arg, uint64_t addr, uint64_t length, int prot, int flags,
		       uint64_t offset)
{
	void *p = mmap((void *)(uintptr_t)addr, length, prot, flags,
		       flags & MAP_ANONYMOUS ? -1 : *(int *)arg, (off_t)offset);

	return p == MAP_FAILED ? -errno : (int64_t)(uintptr_t)p;
}

static int app_unmap(void *arg, uint64_t addr, uint64_t length)
{
	(void)arg;
	return munmap((void *)(uintptr_t)addr, length) ? -errno : 0;
}

static int app_protect(void *arg, uint64_t addr, uint64_t length, int prot)
{
	(void)arg;
	return mprotect((void *)(uintptr_t)addr, length, prot) ? -errno : 0;
}

static int app_touch(void *arg, unsigned worker, uint64_t addr, bool write)
{
	volatile char *p = (volatile char *)(uintptr_t)addr;

	(void)arg, (void)worker;
	if (write)
		*p = 1;
	else
		(void)*p;
	return 0;
}

uint64_t kernel_app_cycle(const char *arg, uint64_t n)
{
	static int fd = -1;
	struct app_system sys = { app_map, app_unmap, app_protect, app_touch, NULL, NULL, &fd };
	unsigned workers = bench_cpus()->n < 2 ? 1 : 2;
	uint64_t ns = 0;
	struct app_result r;

	if (fd < 0)
		fd = kernel_file(APP_FILE_BYTES);
	if (fd < 0)
		return UINT64_MAX;
	for (uint64_t i = 0; i < n; i++) {
		int error = app_cycle(&sys, (unsigned)kernel_number(arg, 100), workers, &r);

		if (error)
			return peer_fail("%s", strerror(-error));
		ns += r.load_ns + r.start_ns + r.stop_ns;
	}
	peer_more((double)r.load_ns);
	peer_more((double)r.start_ns);
	peer_more((double)r.stop_ns);
	return ns;
}
