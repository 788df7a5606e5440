/* SPDX-License-Identifier: MIT */
/* kernel_stress.c - the mmap stress test (stress.h) on the running kernel. */
#include "kernel.h"
#include "stress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int64_t stress_map(void *arg, unsigned i)
{
	void *p = mmap(NULL, KERNEL_PAGE, PROT_READ, MAP_PRIVATE, *(int *)arg,
		       (off_t)i * KERNEL_PAGE);

	return p == MAP_FAILED ? -errno : (int64_t)(uintptr_t)p;
}

static int stress_touch(void *arg, uint64_t addr)
{
	(void)arg;
	(void)*(volatile char *)(uintptr_t)addr;
	return 0;
}

static int stress_unmap(void *arg, uint64_t addr)
{
	(void)arg;
	return munmap((void *)(uintptr_t)addr, KERNEL_PAGE) ? -errno : 0;
}

uint64_t kernel_mmap_stress(const char *arg, uint64_t n)
{
	static int fd = -1;
	const char *comma = strchr(arg, ',');
	struct stress_system sys = { stress_map, stress_touch, stress_unmap, &fd };
	struct stress_options o = { .cycles = n, .delay_ns = kernel_number(arg, 0) };
	struct stress_result r;
	int error;

	o.delay_every = comma ? kernel_number(comma + 1, 0) : 0;
	if (fd < 0)
		fd = kernel_file(STRESS_AREAS * KERNEL_PAGE);
	if (fd < 0)
		return UINT64_MAX;
	error = stress_run(&sys, &o, &r);
	if (error)
		return peer_fail("%s", strerror(-error));
	peer_more(r.whole);
	peer_more(r.p50);
	peer_more(r.p99);
	peer_more(r.p999);
	peer_more(r.max);
	return (uint64_t)r.calls;
}
