/* SPDX-License-Identifier: MIT */
/* osmem.c - mmap behind osmem.h. */
#include "base/osmem.h"
#include "base/inject.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

/* Page size of the running system in bytes. */
static size_t page_size(void)
{
	static _Atomic size_t size; /* every thread computes the same value */
	size_t s = atomic_load_explicit(&size, memory_order_relaxed);

	if (sm__unlikely(!s)) {
		long n = sysconf(_SC_PAGESIZE);

		s = n > 0 ? (size_t)n : 4096;
		atomic_store_explicit(&size, s, memory_order_relaxed);
	}
	return s;
}

static void *map(size_t bytes)
{
	int saved = errno;
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	errno = saved;
	return p == MAP_FAILED ? NULL : p;
}

void *sm__os_map(size_t bytes)
{
	if (sm__inject_fail_below())
		return NULL;
	return map(SM__ALIGN_UP(bytes, page_size()));
}

void *sm__os_map_aligned(size_t bytes, size_t align)
{
	char *base, *aligned;

	bytes = SM__ALIGN_UP(bytes, page_size());
	if (sm__inject_fail_below())
		return NULL;
	base = map(bytes);
	if (!base || SM__IS_ALIGNED((uintptr_t)base, align))
		return base;
	sm__os_unmap(base, bytes);
	/* Whatever mmap gives, align bytes more contain an aligned stretch. */
	base = map(bytes + align);
	if (!base)
		return NULL;
	aligned = (char *)SM__ALIGN_UP((uintptr_t)base, align);
	if (aligned > base)
		sm__os_unmap(base, (size_t)(aligned - base));
	if (base + align > aligned)
		sm__os_unmap(aligned + bytes, (size_t)(base + align - aligned));
	return aligned;
}

void sm__os_unmap(void *p, size_t bytes)
{
	int saved = errno;

	(void)munmap(p, SM__ALIGN_UP(bytes, page_size()));
	errno = saved;
}

void sm__os_discard(void *p, size_t bytes)
{
	int saved = errno;

	(void)madvise(p, bytes, MADV_DONTNEED);
	errno = saved;
}

void sm__os_advise_huge(void *p, size_t bytes)
{
	int saved = errno;

	(void)madvise(p, bytes, MADV_HUGEPAGE);
	errno = saved;
}
