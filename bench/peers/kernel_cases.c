/* SPDX-License-Identifier: MIT */
/* kernel_cases.c - the table of kernel.h, and what its files share. */
#include "kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const struct peer_case kernel_cases[] = {
	{ "syscall", kernel_syscall },
	{ "mmap-munmap", kernel_mmap_munmap },
	{ "mmap-munmap-among", kernel_mmap_among },
	{ "mprotect-flip", kernel_mprotect_flip },
	{ "mprotect-split-merge", kernel_mprotect_split },
	{ "mremap-move", kernel_mremap_move },
	{ "brk-step", kernel_brk_step },
	{ "anon-fault", kernel_anon_fault },
	{ "anon-read-fault", kernel_anon_read_fault },
	{ "file-read-fault", kernel_file_read_fault },
	{ "cow-fault", kernel_cow_fault },
	{ "fork", kernel_fork },
	{ "fault-quiet", kernel_fault_quiet },
	{ "fault-storm", kernel_fault_storm },
	{ "madvise", kernel_madvise },
	{ "mmap-stress", kernel_mmap_stress },
	{ "app-cycle", kernel_app_cycle },
	{ "page_fault1", kernel_page_fault1 },
	{ "page_fault2", kernel_page_fault2 },
	{ "page_fault3", kernel_page_fault3 },
	{ "mmap1", kernel_mmap1 },
	{ "mmap2", kernel_mmap2 },
	{ "brk1", kernel_brk1 },
	{ NULL, NULL },
};

char *kernel_map(size_t size, int prot)
{
	char *p = mmap(NULL, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED) {
		peer_fail("mmap of %zu bytes: %s", size, strerror(errno));
		return NULL;
	}
	return p;
}

int kernel_file(size_t size)
{
	static char block[64 * KERNEL_PAGE];
	char path[256];
	const char *base = getenv("TMPDIR");
	int fd;

	snprintf(path, sizeof(path), "%.200s/samara-peer-XXXXXX", base ? base : "/tmp");
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0) {
		peer_fail("%s: %s", path, strerror(errno));
		return -1;
	}
	unlink(path);
	memset(block, 'k', sizeof(block));
	for (size_t done = 0; done < size;) {
		size_t part = size - done < sizeof(block) ? size - done : sizeof(block);
		ssize_t wrote = write(fd, block, part);

		if (wrote <= 0) {
			peer_fail("write to %s: %s", path, strerror(errno));
			close(fd);
			return -1;
		}
		done += (size_t)wrote;
	}
	return fd;
}

uint64_t kernel_number(const char *text, uint64_t otherwise)
{
	char *end;
	unsigned long long value = strtoull(text, &end, 10);

	return end == text ? otherwise : value;
}
