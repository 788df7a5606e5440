/* SPDX-License-Identifier: MIT */
/* kernel_calls.c - system calls that change the map (kernel.h). */
#include "kernel.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RW = PROT_READ | PROT_WRITE };

uint64_t kernel_syscall(const char *arg, uint64_t n)
{
	uint64_t start = bench_now();

	(void)arg;
	for (uint64_t i = 0; i < n; i++)
		syscall(SYS_getpid);
	return bench_now() - start;
}

static uint64_t map_unmap(bool touch, uint64_t n)
{
	uint64_t start = bench_now();

	for (uint64_t i = 0; i < n; i++) {
		char *p = mmap(NULL, KERNEL_PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			return peer_fail("mmap: %s", strerror(errno));
		if (touch)
			*(volatile char *)p = 1;
		munmap(p, KERNEL_PAGE);
	}
	return bench_now() - start;
}

uint64_t kernel_mmap_munmap(const char *arg, uint64_t n)
{
	return map_unmap(!strcmp(arg, "touch"), n);
}

/*
 * Every second page of a reserved range becomes an area, so none merges and each has a hole beside
 * it.
 */
uint64_t kernel_mmap_among(const char *arg, uint64_t n)
{
	uint64_t vmas = kernel_number(arg, 1000), made = 0, ns = UINT64_MAX;
	size_t size = 2 * vmas * KERNEL_PAGE;
	char *base = kernel_map(size, PROT_NONE);

	if (!base)
		return UINT64_MAX;
	munmap(base, size);
	for (; made < vmas; made++) {
		if (mmap(base + 2 * made * KERNEL_PAGE, KERNEL_PAGE, RW,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED)
			break;
	}
	if (made == vmas)
		ns = map_unmap(false, n);
	else
		peer_fail("%llu areas: %s after %llu (vm.max_map_count?)", (unsigned long long)vmas,
			  strerror(errno), (unsigned long long)made);
	munmap(base, size);
	return ns;
}

/* Flips one page at p between read-only and read-write. */
static uint64_t flip(char *p, bool present, uint64_t n)
{
	uint64_t start;

	if (present)
		*(volatile char *)p = 1;
	start = bench_now();
	for (uint64_t i = 0; i < n; i++) {
		if (mprotect(p, KERNEL_PAGE, i & 1 ? RW : PROT_READ))
			return peer_fail("mprotect: %s", strerror(errno));
	}
	return bench_now() - start;
}

/* One writable area of `pages` with unmapped neighbours; page `at` of it is flipped. */
static uint64_t flip_in(unsigned pages, unsigned at, bool present, uint64_t n)
{
	char *base = kernel_map((pages + 2) * KERNEL_PAGE, RW);
	uint64_t ns;

	if (!base)
		return UINT64_MAX;
	munmap(base, KERNEL_PAGE);
	munmap(base + (pages + 1) * KERNEL_PAGE, KERNEL_PAGE);
	ns = flip(base + (1 + at) * KERNEL_PAGE, present, n);
	munmap(base + KERNEL_PAGE, pages * KERNEL_PAGE);
	return ns;
}

uint64_t kernel_mprotect_flip(const char *arg, uint64_t n)
{
	return flip_in(1, 0, !strcmp(arg, "present"), n);
}

uint64_t kernel_mprotect_split(const char *arg, uint64_t n)
{
	return flip_in(3, 1, !strcmp(arg, "present"), n);
}

uint64_t kernel_mremap_move(const char *arg, uint64_t n)
{
	enum { SIZE = 16 * KERNEL_PAGE };
	char *base = kernel_map(4 * SIZE, PROT_NONE), *at = base, *other;
	uint64_t start, ns;

	(void)arg;
	if (!base)
		return UINT64_MAX;
	other = base + 2 * SIZE;
	mprotect(at, SIZE, RW);
	memset(at, 1, SIZE);
	start = bench_now();
	for (uint64_t i = 0; i < n; i++) {
		char *to = at == base ? other : base;

		if (mremap(at, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to) {
			munmap(base, 4 * SIZE);
			return peer_fail("mremap: %s", strerror(errno));
		}
		at = to;
	}
	ns = bench_now() - start;
	munmap(base, 4 * SIZE);
	return ns;
}

uint64_t kernel_brk_step(const char *arg, uint64_t n)
{
	char *end = (char *)syscall(SYS_brk, 0);
	uint64_t start = bench_now(), ns;

	(void)arg;
	for (uint64_t i = 0; i < n; i++)
		syscall(SYS_brk, i & 1 ? end : end + KERNEL_PAGE);
	ns = bench_now() - start;
	syscall(SYS_brk, end);
	return ns;
}
