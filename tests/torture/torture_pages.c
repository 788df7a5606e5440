/* SPDX-License-Identifier: MIT */
/*
 * torture_pages.c - guests with TLBs, mappers, protectors, forkers, advisers and a truncator on one
 * space (samara/tlb.h G1 to G3, backend_soft.c, pagecache.h I2).
 *
 * Every word that a guest writes is STAMP(its page) with a counter in the low bits, so that a frame
 * that a guest reached through a translation that was taken away shows as a wrong stamp: on the
 * page's own side, or, in validating builds, as a write to a free frame.
 *
 *   zone   what happens to it                                what is checked
 *   MAP    unmapped and mapped over                          stamps
 *   PROT   made read-only and writable again                 stands still while read-only
 *   FORK   shared with children, which write too             a child's copy stands still
 *   ADVICE every advice on pages, swap, large pages          stamps
 *   MEMORY shared in-memory file, truncated and grown,       stamps
 *          punched, unmapped and mapped again, advised
 *   DISK   the same of a file of the host                    stamps; at the end the file holds what
 *   OWN    the same of a file of an embedder, slow and at    the guests see, and the embedder's
 *          times failing                                     functions are called as promised
 *   COPY   private mapping of the file of DISK               stamps of this zone or of that
 * The truncator also reclaims and merges equal pages, of all spaces.
 */
#include "torture/embedder_file.h"
#include "torture/torture.h"
#include "base/delay.h"
#include "base/random.h"
#include "base/rcu.h"
#include "space/soft.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <samara/samara.h>

enum {
	ZONE_MAP,
	ZONE_PROT,
	ZONE_FORK,
	ZONE_ADVICE,
	ZONE_MEMORY,
	ZONE_DISK,
	ZONE_OWN,
	ZONE_COPY,
	ZONES
};
enum { PAGES = EMBEDDER_PAGES, GUESTS = 3 };

#define PAGE	     4096ull
#define RW	     (SM_PROT_READ | SM_PROT_WRITE)
#define FIXED	     (SM_MAP_PRIVATE | SM_MAP_ANONYMOUS | SM_MAP_FIXED)
#define ZONE_AT(z)   (0x200000000ull + (uint64_t)(z) * (1ull << 22))
#define STAMP(page)  (((page) >> 12) * 0x9e3779b97f4a7c15ull << 16)
#define COUNTER_MASK 0xffffull

static struct sm_host *host;
static struct sm_space *space;
static struct embedder_file own;
static struct sm_file *files[ZONES]; /* NULL: anonymous */
static int disk;
static _Atomic uint64_t accesses, faults_refused;

static void fail(const char *what, sm_addr at, uint64_t found)
{
	FAIL("%s at %llx: %llx, stamp %llx", what, (unsigned long long)at,
	     (unsigned long long)found, (unsigned long long)STAMP(at & ~(PAGE - 1)));
}

static void check_word(sm_addr at, uint64_t v)
{
	sm_addr page = at & ~(PAGE - 1);

	if (!v || (v & ~COUNTER_MASK) == STAMP(page))
		return;
	/* not copied yet, or dropped by a truncation: what the file has */
	if (page >= ZONE_AT(ZONE_COPY) &&
	    (v & ~COUNTER_MASK) == STAMP(page - ZONE_AT(ZONE_COPY) + ZONE_AT(ZONE_DISK)))
		return;
	fail("wrong word", at, v);
}

static unsigned random_file_zone(struct sm__random *rng)
{
	return ZONE_MEMORY + (unsigned)sm__random_below(rng, ZONES - ZONE_MEMORY);
}

static int64_t map_file(unsigned zone, uint64_t first, uint64_t n)
{
	int type = zone == ZONE_COPY ? SM_MAP_PRIVATE : SM_MAP_SHARED;

	return sm_mmap(space, ZONE_AT(zone) + first * PAGE, n * PAGE, RW, type | SM_MAP_FIXED,
		       files[zone], first * PAGE);
}

static sm_addr random_page(struct sm__random *rng)
{
	return ZONE_AT(sm__random_below(rng, ZONES)) + sm__random_below(rng, PAGES) * PAGE;
}

/* One access through a TLB, of one word, as a guest instruction would make it. */
static void guest_access(struct sm_tlb *tlb, struct sm__random *rng)
{
	enum sm_access access = sm__random_below(rng, 2) ? SM_ACCESS_WRITE : SM_ACCESS_READ;
	sm_addr at = random_page(rng) + sm__random_below(rng, 4) * 8;
	uint64_t *p = sm_translate(tlb, at, access), v;
	void *host_address;

	if (!p) {
		struct sm_fault_result r = sm_tlb_fill(tlb, at, access, &host_address);

		if (r.error || r.signo) {
			atomic_fetch_add_explicit(&faults_refused, 1, memory_order_relaxed);
			return;
		}
		p = host_address;
	}
	v = __atomic_load_n(p, __ATOMIC_RELAXED);
	check_word(at, v);
	if (access == SM_ACCESS_WRITE)
		__atomic_store_n(p, STAMP(at & ~(PAGE - 1)) | ((v + 1) & COUNTER_MASK),
				 __ATOMIC_RELAXED);
}

static void *guest(void *arg)
{
	struct sm_tlb *tlb;
	struct sm__random rng;

	sm__random_seed(&rng, (uintptr_t)arg);
	if (sm_tlb_create(space, &tlb))
		return NULL;
	while (going()) {
		sm_tlb_run(tlb);
		for (int i = 0; i < 200; i++) {
			guest_access(tlb, &rng);
			if (i % 8 == 0)
				sm_tlb_checkpoint(tlb);
		}
		atomic_fetch_add_explicit(&accesses, 200, memory_order_relaxed);
		if (sm__random_below(&rng, 4) == 0)
			sm_tlb_stop(tlb);
	}
	sm_tlb_stop(tlb);
	sm_tlb_destroy(tlb);
	return NULL;
}

static uint64_t word(struct sm_space *s, sm_addr at)
{
	uint64_t v = 0, same;

	/* Atomic, as the guests' accesses are; a page that cannot be written answers 0. */
	do {
		same = v;
	} while (sm_cmpxchg(s, at, 8, &v, same) == 0);
	return v;
}

/* Unmaps and maps again: private memory, and files at the same offset. */
static void *mapper(void *arg)
{
	struct sm__random rng;

	sm__random_seed(&rng, (uintptr_t)arg);
	while (going()) {
		uint64_t first = sm__random_below(&rng, PAGES),
			 n = 1 + sm__random_below(&rng, PAGES - first);
		sm_addr at = ZONE_AT(ZONE_MAP) + first * PAGE;

		if (sm__random_below(&rng, 2)) {
			unsigned zone = random_file_zone(&rng);

			if (sm__random_below(&rng, 2))
				(void)sm_munmap(space, ZONE_AT(zone) + first * PAGE, n * PAGE);
			(void)map_file(zone, first, n);
			continue;
		}
		if (sm__random_below(&rng, 2))
			(void)sm_munmap(space, at, n * PAGE);
		(void)sm_mmap(space, at, n * PAGE, RW, FIXED, NULL, 0);
		(void)sm_cmpxchg(space, at, 8, &(uint64_t){ 0 }, STAMP(at));
		check_word(at, word(space, at));
	}
	return NULL;
}

/* Reads through a TLB of its own: permission to write is what others have lost. */
static void *protector(void *arg)
{
	struct sm__random rng;
	struct sm_tlb *tlb;

	sm__random_seed(&rng, (uintptr_t)arg);
	if (sm_tlb_create(space, &tlb))
		return NULL;
	while (going()) {
		sm_addr at = ZONE_AT(ZONE_PROT) + sm__random_below(&rng, PAGES) * PAGE;
		void *p;

		if (sm_mprotect(space, at, PAGE, SM_PROT_READ))
			continue;
		sm_tlb_run(tlb);
		if (!sm_tlb_fill(tlb, at, SM_ACCESS_READ, &p).signo && p) {
			uint64_t before = __atomic_load_n((uint64_t *)p, __ATOMIC_RELAXED);

			check_word(at, before);
			for (int i = 0; i < 50; i++)
				sm__cpu_relax();
			if (before != __atomic_load_n((uint64_t *)p, __ATOMIC_RELAXED))
				fail("read-only page changed", at, before);
		}
		sm_tlb_stop(tlb);
		(void)sm_mprotect(space, at, PAGE, RW);
	}
	sm_tlb_destroy(tlb);
	return NULL;
}

static void *forker(void *arg)
{
	struct sm__random rng;

	sm__random_seed(&rng, (uintptr_t)arg);
	while (going()) {
		struct sm_space *child = sm_fork(space);
		sm_addr at = ZONE_AT(ZONE_FORK) + sm__random_below(&rng, PAGES) * PAGE;
		uint64_t v = 0, again = 0;

		if (!child)
			continue;
		(void)sm_read(child, at, &v, 8, NULL);
		check_word(at, v);
		for (int i = 0; i < 5; i++) {
			sm_addr other = ZONE_AT(ZONE_FORK) + sm__random_below(&rng, PAGES) * PAGE;

			if (other != at)
				(void)sm_cmpxchg(child, other, 8, &(uint64_t){ 0 }, STAMP(other));
		}
		(void)sm_read(child, at, &again, 8, NULL);
		if (v != again)
			fail("a child's page changed", at, again);
		sm_space_destroy(child);
	}
	return NULL;
}

static void *adviser(void *arg)
{
	static const int advice[] = { SM_MADV_DONTNEED,	      SM_MADV_FREE,
				      SM_MADV_PAGEOUT,	      SM_MADV_COLD,
				      SM_MADV_GUARD_INSTALL,  SM_MADV_GUARD_REMOVE,
				      SM_MADV_POPULATE_WRITE, SM_MADV_COLLAPSE,
				      SM_MADV_HUGEPAGE,	      SM_MADV_NOHUGEPAGE,
				      SM_MADV_MERGEABLE };
	struct sm__random rng;

	sm__random_seed(&rng, (uintptr_t)arg);
	while (going()) {
		uint64_t first = sm__random_below(&rng, PAGES),
			 n = 1 + sm__random_below(&rng, PAGES - first);
		int which = advice[sm__random_below(&rng, SM__ARRAY_SIZE(advice))];

		/* Large pages come and go with the whole zone. */
		if (which == SM_MADV_COLLAPSE || which == SM_MADV_HUGEPAGE)
			(void)sm_madvise(space, ZONE_AT(ZONE_ADVICE), 2 << 20, which);
		else if (which == SM_MADV_NOHUGEPAGE)
			(void)sm_madvise(space, ZONE_AT(ZONE_ADVICE), 2 << 20, SM_MADV_DONTNEED);
		else
			(void)sm_madvise(space,
					 ZONE_AT(sm__random_below(&rng, 4)
							 ? ZONE_ADVICE
							 : random_file_zone(&rng)) +
						 first * PAGE,
					 n * PAGE, which);
	}
	return NULL;
}

static void *truncator(void *arg)
{
	struct sm__random rng;

	sm__random_seed(&rng, (uintptr_t)arg);
	while (going()) {
		struct sm_file *file = files[random_file_zone(&rng)];
		uint64_t at = sm__random_below(&rng, PAGES) * PAGE;

		switch (sm__random_below(&rng, 5)) {
		case 0:
			(void)sm_file_truncate(file, at);
			(void)sm_file_truncate(file, PAGES * PAGE);
			break;
		case 1:
			(void)sm_file_punch(file, at, 2 * PAGE);
			break;
		case 2:
			(void)sm_reclaim(host, 8);
			break;
		case 3:
			(void)sm_merge_pass(host);
			break;
		default:
			(void)sm_file_sync(file, at, 4 * PAGE, false);
		}
	}
	return NULL;
}

static bool make_space(const char *design)
{
	struct sm_space_options o;

	sm_space_options_init(&o);
	o.backend = SM_BACKEND_SOFT;
	if (sm_design_parse(design, &o.design, NULL, 0))
		return false;
	space = sm_space_create(host, &o, NULL);
	disk = memfd_create("disk", 0);
	if (!space || disk < 0 || ftruncate(disk, PAGES * PAGE))
		return false;
	if (sm_file_create_memory("torture", PAGES * PAGE, &files[ZONE_MEMORY]) ||
	    sm_file_open_fd(disk, "disk", &files[ZONE_DISK]) || embedder_file_make(&own))
		return false;
	files[ZONE_OWN] = own.file;
	files[ZONE_COPY] = sm_file_get(files[ZONE_DISK]);
	for (unsigned z = 0; z < ZONE_MEMORY; z++)
		(void)sm_mmap(space, ZONE_AT(z), z == ZONE_ADVICE ? 2 << 20 : PAGES * PAGE, RW,
			      FIXED, NULL, 0);
	for (unsigned z = ZONE_MEMORY; z < ZONES; z++)
		if (map_file(z, 0, PAGES) < 0)
			return false;
	return true;
}

static void storm(uint64_t seed, double seconds)
{
	void *(*const roles[])(void *) = { mapper, protector, forker, adviser, truncator };
	pthread_t threads[GUESTS + SM__ARRAY_SIZE(roles)];
	unsigned n = 0;

	torture_again();
	for (int i = 0; i < GUESTS; i++, n++)
		pthread_create(&threads[n], NULL, guest, (void *)(uintptr_t)(seed + n));
	for (unsigned i = 0; i < SM__ARRAY_SIZE(roles); i++, n++)
		pthread_create(&threads[n], NULL, roles[i], (void *)(uintptr_t)(seed + n));
	torture_for(seconds);
	while (n)
		pthread_join(threads[--n], NULL);
}

static uint64_t behind(unsigned zone, uint64_t offset)
{
	uint64_t v = ~0ull;

	if (zone == ZONE_OWN)
		return atomic_load(&own.word[offset / 8]);
	if (pread(disk, &v, sizeof(v), (off_t)offset) != sizeof(v))
		fail("a short file", ZONE_AT(zone) + offset, 0);
	return v;
}

/* What guests see is what the file holds, now that everything is written. */
static void compare(unsigned zone)
{
	uint64_t page[PAGE / 8];

	if (sm_file_truncate(files[zone], PAGES * PAGE) ||
	    sm_file_sync(files[zone], 0, PAGES * PAGE, true) || map_file(zone, 0, PAGES) < 0)
		fail("not written", ZONE_AT(zone), 0);
	for (uint64_t at = 0; at < PAGES * PAGE && !torture.failed; at += PAGE) {
		if (sm_read(space, ZONE_AT(zone) + at, page, PAGE, NULL) != (int64_t)PAGE)
			fail("not readable", ZONE_AT(zone) + at, 0);
		for (unsigned i = 0; i < PAGE / 8; i++) {
			check_word(ZONE_AT(zone) + at + 8ull * i, page[i]);
			if (page[i] != behind(zone, at + 8ull * i))
				fail("not what the file holds", ZONE_AT(zone) + at + 8ull * i,
				     page[i]);
		}
	}
}

/* Every frame has come back. */
static void account(void)
{
	struct sm__pool *pool = sm__host_memory(host)->pool;
	struct sm__pool_stats st;

	if (!sm__mm_is_valid(sm__space_mm(space)))
		fail("tables are not valid", 0, 0);
	sm_space_destroy(space);
	for (unsigned z = ZONE_MEMORY; z < ZONES; z++)
		sm_file_put(files[z]);
	close(disk);
	sm__rcu_barrier();
	sm__pool_stats(pool, &st);
	if (st.in_use || !sm__pool_is_valid(pool))
		fail("frames lost", st.in_use, 0);
}

int main(int argc, char **argv)
{
	static const char *const all[] = { "linux-5.19", "linux-6.4", "samara" };
	const char *const *designs = all;
	struct sm_host_options o;
	size_t n;
	int swap;

	torture_begin("torture_pages", argc, argv);
	sm__delay_seed(torture.seed, 50);
	sm_host_options_init(&o);
	o.frame_bytes = 32 << 20;
	host = sm_host_create(&o, NULL);
	swap = memfd_create("swap", 0);
	if (!host || swap < 0 || ftruncate(swap, 64 * PAGE) ||
	    sm_host_swap_on(host, swap, 64 * PAGE))
		return 1;
	n = torture_designs(&designs, SM__ARRAY_SIZE(all));
	for (size_t i = 0; i < n && !torture.failed; i++) {
		if (!make_space(designs[i]))
			return 1;
		storm(torture.seed + 100 * i, torture.seconds / (double)n);
		atomic_store(&own.fails, false);
		compare(ZONE_DISK);
		compare(ZONE_OWN);
		account();
	}
	printf("%llu accesses, %llu refused\n", (unsigned long long)accesses,
	       (unsigned long long)faults_refused);
	if (!accesses)
		FAIL("nobody got anywhere");
	if (sm_host_destroy(host))
		FAIL("the host could not be destroyed");
	return torture_end();
}
