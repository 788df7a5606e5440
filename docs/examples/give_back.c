/* SPDX-License-Identifier: MIT */
/*
 * give_back.c - an allocator gives scattered free pages back: one vector, one lock, one flush; then memory
 * gets short, and what was not used lately goes to a swap file.
 */
#include <samara/samara.h>

#include <assert.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 256 };

static unsigned resident(struct sm_space *space, sm_addr heap)
{
	unsigned char vec[PAGES];
	unsigned n = 0;

	sm_mincore(space, heap, PAGES * PAGE, vec);
	for (int i = 0; i < PAGES; i++)
		n += vec[i] & 1;
	return n;
}

int main(void)
{
	struct sm_host *host = sm_host_create(NULL, NULL);
	struct sm_space_options options;
	struct sm_space *space;
	struct sm_range free_pages[PAGES / 4];
	int swap = memfd_create("swap", 0);
	int64_t heap, given;

	sm_space_options_init(&options);
	options.backend = SM_BACKEND_SOFT;
	space = sm_space_create(host, &options, NULL);
	heap = sm_mmap(space, 0, PAGES * PAGE, SM_PROT_READ | SM_PROT_WRITE,
		       SM_MAP_PRIVATE | SM_MAP_ANONYMOUS, NULL, 0);
	for (int64_t i = 0; i < PAGES; i++)
		sm_write(space, (sm_addr)heap + i * PAGE, &i, sizeof(i), NULL);
	printf("touched: %u pages resident\n", resident(space, heap));

	/* every fourth page is free: one call for all of them */
	for (int i = 0; i < PAGES / 4; i++)
		free_pages[i] = (struct sm_range){ heap + 4 * i * PAGE, PAGE };
	given = sm_process_madvise(space, space, free_pages, PAGES / 4, SM_MADV_DONTNEED, 0);
	printf("gave back %lld bytes: %u pages resident\n", (long long)given,
	       resident(space, heap));
	assert(given == PAGES / 4 * PAGE && resident(space, heap) == PAGES - PAGES / 4);

	/* the upper half will not be needed soon: it is what goes first */
	if (ftruncate(swap, PAGES * PAGE) || sm_host_swap_on(host, swap, PAGES * PAGE))
		return 1;
	sm_madvise(space, heap + PAGES / 2 * PAGE, PAGES / 2 * PAGE, SM_MADV_COLD);
	printf("reclaimed %llu pages: ", (unsigned long long)sm_reclaim(host, PAGES / 2 * 3 / 4));
	printf("%u pages resident\n", resident(space, heap));
	assert(resident(space, heap) == PAGES / 2 * 3 / 4);

	/* and comes back when it is read */
	for (int64_t i = 0; i < PAGES; i++) {
		int64_t word = -1;

		sm_read(space, (sm_addr)heap + i * PAGE, &word, sizeof(word), NULL);
		assert(word == (i % 4 ? i : 0));
	}
	sm_space_destroy(space);
	close(swap);
	return sm_host_destroy(host);
}
