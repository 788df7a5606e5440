/* SPDX-License-Identifier: MIT */
/* test_pagecache.c - pages of objects: sharing, fault-around, COW, write-back, truncation,
 * punching, failures (pagecache.h I1 to I5). */
#include "unit/memory_world.h"
#include "base/inject.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define BASE 0x100000000ull

static struct world w;
static struct area *shared, *private;
static struct sm_file *file;
static int fd;

/* A host file of 40 pages and 100 bytes, byte i of page p holds p; one shared and one private area.
 * */
static int setup(void **state)
{
	char page[PAGE];

	(void)state;
	world_init(&w, 32);
	fd = memfd_create("test", 0);
	for (int p = 0; p < 41; p++) {
		memset(page, p, sizeof(page));
		assert_true(write(fd, page, p == 40 ? 100 : PAGE) > 0);
	}
	assert_int_equal(sm_file_open_fd(fd, "data", &file), 0);
	w.nr_areas = 2;
	shared = &w.area[0];
	private = &w.area[1];
	*shared = (struct area){ .mm = world_mm(&w),
				 .start = BASE,
				 .end = BASE + 64 * PAGE,
				 .prot = RW,
				 .shared = true,
				 .file = file };
	*private = *shared;
	private->mm = world_mm(&w);
	private->shared = false;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (sm__pages_bound(file))
		assert_true(sm__pages_is_valid(sm__pages_bound(file)));
	assert_true(sm__mm_is_valid(shared->mm));
	assert_true(sm__mm_is_valid(private->mm));
	world_destroy_mm(shared->mm);
	world_destroy_mm(private->mm);
	world_put_file(&w, file);
	world_end(&w);
	close(fd);
	return 0;
}

static unsigned char host_byte(off_t at)
{
	unsigned char c = 0;

	assert_int_equal(pread(fd, &c, 1, at), 1);
	return c;
}

/* A page of the object, read, with a reference. */
static uint32_t read_page(struct sm__pages *pages, uint64_t index)
{
	uint32_t pfn = sm__frame_alloc(w.memory->pool, 0);

	memset(sm__frame_ptr(w.memory->pool, pfn), (int)index, PAGE);
	atomic_store(&sm__frame(w.memory->pool, pfn)->flags, SM__F_FILE | SM__F_UPTODATE);
	assert_int_equal(sm__pages_insert(pages, index, pfn), 0);
	return pfn;
}

/* pagecache.h I7: a page that is being read is not mapped around; a reader that vanished after it had
 * read (in a fork of the host process) does not keep it out for ever. */
static void a_page_that_is_being_read_is_not_mapped(void **state)
{
	struct sm__pool *pool = w.memory->pool;
	struct sm__pages *pages;
	struct sm__frame *f;
	uint32_t pfn;

	(void)state;
	assert_int_equal(sm__pages_of(w.memory, file, &pages), 0);
	pfn = sm__frame_alloc(pool, 0);
	f = sm__frame(pool, pfn);
	memset(sm__frame_ptr(pool, pfn), 5, PAGE);
	atomic_store(&f->flags, SM__F_FILE | SM__F_BUSY);
	assert_int_equal(sm__pages_insert(pages, 5, pfn), 0);
	sm__frame_put(pool, pfn);
	for (uint64_t i = 0; i < 16; i++)
		if (i != 5)
			sm__frame_put(pool, read_page(pages, i));
	assert_int_equal(get8(private, BASE + 4 * PAGE), 0x0404040404040404ull);
	assert_int_equal(sm__mm_rss(private->mm, SM__RSS_FILE), 15);
	assert_false(sm__pages_is_ready(pages, 5));
	sm__frame_set(f, SM__F_UPTODATE);
	sm__frame_unlock(f);
	assert_int_equal(get8(private, BASE + 5 * PAGE), 0x0505050505050505ull);
	assert_true(sm__pages_is_ready(pages, 5));
	assert_int_equal(sm__mm_rss(private->mm, SM__RSS_FILE), 16);
}

static void a_read_maps_the_pages_around_it(void **state)
{
	(void)state;
	assert_int_equal(get8(private, BASE + 18 * PAGE), 0x1212121212121212ull);
	assert_int_equal(sm__mm_rss(private->mm, SM__RSS_FILE), 16);
	assert_int_equal(get8(private, BASE + 16 * PAGE), 0x1010101010101010ull);
	assert_int_equal(get8(private, BASE + 31 * PAGE), 0x1f1f1f1f1f1f1f1full);
	assert_int_equal(sm__mm_rss(private->mm, SM__RSS_FILE), 16);
	/* The neighbours are young, as on the kernel: a TLB has them without a fault. */
	for (int i = 15; i < 33; i++) {
		struct sm__slot slot;
		void *p = sm__mm_hold(private->mm, BASE + i * PAGE, SM_ACCESS_READ, &slot);

		assert_true(!!p == (i > 15 && i < 32));
		if (p)
			sm__pt_unlock(&slot);
	}
	/* The last group ends with the file. */
	assert_int_equal(get8(private, BASE + 40 * PAGE), 0x2828282828282828ull);
	assert_int_equal(sm__mm_rss(private->mm, SM__RSS_FILE), 16 + 9);
	assert_int_equal(get8(private, BASE + 40 * PAGE + 104), 0);
}

static void beyond_the_end_is_a_bus_error(void **state)
{
	(void)state;
	assert_int_equal(area_fault(private, BASE + 41 * PAGE, SM_ACCESS_READ), SM__PAGE_BUS);
	assert_int_equal(area_fault(shared, BASE + 41 * PAGE, SM_ACCESS_WRITE), SM__PAGE_BUS);
	assert_int_equal(ftruncate(fd, 60 * PAGE), 0);
	/* The file has grown by other means: a fault there asks it. */
	assert_int_equal(area_fault(private, BASE + 41 * PAGE, SM_ACCESS_READ), SM__PAGE_DONE);
	assert_int_equal(area_fault(private, BASE + 60 * PAGE, SM_ACCESS_READ), SM__PAGE_BUS);
}

static void private_writes_stay_private_and_shared_ones_do_not(void **state)
{
	(void)state;
	put8(private, BASE, 1);
	assert_int_equal(get8(shared, BASE), 0);
	put8(shared, BASE + PAGE, 2);
	assert_int_equal(get8(private, BASE + PAGE), 2);
	put8(private, BASE + PAGE, 3);
	assert_int_equal(get8(shared, BASE + PAGE), 2);
	assert_int_equal(sm__mm_rss(private->mm, SM__RSS_ANON), 2);
	assert_int_equal(host_byte(PAGE), 1);
	assert_int_equal(sm_file_sync(file, 0, UINT64_MAX, true), 0);
	assert_int_equal(host_byte(PAGE), 2);
	assert_int_equal(host_byte(0), 0);
}

/* I3: after a write-back the next write is noticed again. */
static void written_pages_are_written_back_once(void **state)
{
	struct sm__slot slot;

	(void)state;
	put8(shared, BASE + 2 * PAGE, 7);
	assert_non_null(sm__mm_hold(shared->mm, BASE + 2 * PAGE, SM_ACCESS_WRITE, &slot));
	sm__pt_unlock(&slot);
	assert_int_equal(sm_file_sync(file, 0, UINT64_MAX, false), 0);
	assert_int_equal(host_byte(2 * PAGE), 7);
	assert_null(sm__mm_hold(shared->mm, BASE + 2 * PAGE, SM_ACCESS_WRITE, &slot));
	assert_int_equal(get8(shared, BASE + 2 * PAGE), 7);
	put8(shared, BASE + 2 * PAGE, 9);
	assert_int_equal(sm_file_sync(file, 0, PAGE, false), 0);
	assert_int_equal(host_byte(2 * PAGE), 7);
	assert_int_equal(sm_file_sync(file, 2 * PAGE, 1, false), 0);
	assert_int_equal(host_byte(2 * PAGE), 9);
	/* The tail of the last page does not make the file longer. */
	put8(shared, BASE + 40 * PAGE, 1);
	assert_int_equal(sm_file_sync(file, 0, UINT64_MAX, false), 0);
	assert_int_equal(sm_file_size(file), 40 * PAGE + 100);
}

static void what_was_written_survives_the_last_close(void **state)
{
	struct sm_file *again;
	struct sm__pages *pages;

	(void)state;
	put8(shared, BASE + 3 * PAGE, 33);
	/* A second file of the same inode shares the pages. */
	assert_int_equal(sm_file_open_fd(fd, "data", &again), 0);
	assert_int_equal(sm__pages_of(w.memory, again, &pages), 0);
	assert_ptr_equal(pages, sm__pages_bound(file));
	world_put_file(&w, again);
	assert_int_equal(host_byte(3 * PAGE), 33);
	assert_int_equal(get8(shared, BASE + 3 * PAGE), 33);
}

/* I2, I5: every mapping, private copies too. */
static void truncation_takes_pages_from_every_mapping(void **state)
{
	(void)state;
	put8(private, BASE + 20 * PAGE, 1);
	put8(shared, BASE + 21 * PAGE, 2);
	(void)get8(private, BASE + 5 * PAGE);
	assert_int_equal(sm_file_truncate(file, 5 * PAGE + 10), 0);
	assert_int_equal(area_fault(private, BASE + 20 * PAGE, SM_ACCESS_READ), SM__PAGE_BUS);
	assert_int_equal(area_fault(shared, BASE + 21 * PAGE, SM_ACCESS_READ), SM__PAGE_BUS);
	assert_int_equal(get8(private, BASE + 5 * PAGE), 0x0505050505050505ull);
	assert_int_equal(get8(private, BASE + 5 * PAGE + 8) & 0xffff, 0x0505);
	assert_int_equal(get8(private, BASE + 5 * PAGE + 16), 0);
	assert_int_equal(sm_file_truncate(file, 64 * PAGE), 0);
	assert_int_equal(get8(private, BASE + 20 * PAGE), 0);
	assert_int_equal(get8(shared, BASE + 21 * PAGE), 0);
}

static void a_hole_reads_as_zero_and_spares_private_copies(void **state)
{
	(void)state;
	put8(private, BASE + 6 * PAGE, 1);
	put8(shared, BASE + 7 * PAGE, 2);
	(void)get8(private, BASE + 8 * PAGE);
	assert_int_equal(sm_file_punch(file, 5 * PAGE + 8, 4 * PAGE), 0);
	assert_int_equal(get8(private, BASE + 6 * PAGE), 1);
	assert_int_equal(get8(shared, BASE + 7 * PAGE), 0);
	assert_int_equal(get8(private, BASE + 8 * PAGE), 0);
	assert_int_equal(get8(private, BASE + 5 * PAGE), 0x0505050505050505ull);
	assert_int_equal(get8(private, BASE + 5 * PAGE + 8), 0);
	assert_int_equal(get8(private, BASE + 9 * PAGE), 0);
	assert_int_equal(get8(private, BASE + 9 * PAGE + 8), 0x0909090909090909ull);
	assert_int_equal(sm_file_punch(file, 0, 0), -EINVAL);
}

static void memory_files_are_born_zero_and_shared(void **state)
{
	struct sm_file *mem;
	struct area a = *shared, b = *private;

	(void)state;
	assert_int_equal(sm_file_create_memory(NULL, 10 * PAGE, &mem), 0);
	a.file = b.file = mem;
	b.shared = true;
	a.start = b.start = BASE + (1 << 30);
	a.end = b.end = a.start + 12 * PAGE;
	put8(&a, a.start, 5);
	assert_int_equal(get8(&b, b.start), 5);
	assert_int_equal(get8(&b, b.start + 9 * PAGE), 0);
	assert_int_equal(area_fault(&b, b.start + 10 * PAGE, SM_ACCESS_READ), SM__PAGE_BUS);
	assert_int_equal(sm__pages_shrink(w.memory, 100), 0);
	area_zap(&a, a.start, a.end, 0);
	area_zap(&b, b.start, b.end, 0);
	assert_int_equal(get8(&b, b.start), 5);
	area_zap(&b, b.start, b.end, 0);
	world_put_file(&w, mem);
}

static void clean_pages_are_dropped_when_memory_is_short(void **state)
{
	(void)state;
	put8(shared, BASE, 1);
	(void)get8(private, BASE + 20 * PAGE);
	assert_int_equal(sm__mm_rss(shared->mm, SM__RSS_FILE), 16);
	assert_int_equal(sm__pages_shrink(w.memory, 10), 10);
	/* Page 0 is dirty: it goes last, by way of the file. */
	assert_int_equal(host_byte(0), 0);
	assert_int_equal(sm__pages_shrink(w.memory, 21), 21);
	assert_int_equal(host_byte(0), 0);
	assert_int_equal(sm__pages_shrink(w.memory, 100), 1);
	assert_int_equal(host_byte(0), 1);
	assert_int_equal(sm__mm_rss(private->mm, SM__RSS_FILE), 0);
	assert_int_equal(get8(private, BASE), 1);
	assert_int_equal(get8(private, BASE + 20 * PAGE), 0x1414141414141414ull);
}

static int broken_read(void *arg, uint64_t offset, void *page, size_t len)
{
	(void)arg;
	(void)page;
	(void)len;
	return offset == 2 * PAGE ? -EIO : 0;
}

static uint64_t four_pages(void *arg)
{
	(void)arg;
	return 4 * PAGE;
}

static void an_unreadable_page_fails_alone_and_may_come_back(void **state)
{
	static const struct sm_file_ops ops = { .size = four_pages, .read_page = broken_read };
	struct sm_file_info info = { .name = "broken", .mode = SM_FILE_READ };
	struct area a = *private;

	(void)state;
	assert_int_equal(sm_file_create(&info, &ops, NULL, &a.file), 0);
	a.start += 1 << 30;
	a.end = a.start + 4 * PAGE;
	assert_int_equal(get8(&a, a.start), 0);
	assert_int_equal(area_fault(&a, a.start + 2 * PAGE, SM_ACCESS_READ), SM__PAGE_IO);
	assert_int_equal(area_fault(&a, a.start + 2 * PAGE, SM_ACCESS_READ), SM__PAGE_IO);
	assert_int_equal(get8(&a, a.start + 3 * PAGE), 0);
	area_zap(&a, a.start, a.end, 0);
	world_put_file(&w, a.file);
}

static void pages_go_to_swap_and_come_back(void **state)
{
	struct area a = {
		.mm = private->mm, .start = 1ull << 40, .end = (1ull << 40) + 50 * PAGE, .prot = RW
	};
	struct area child = a;
	struct sm__mmu_gather g;
	int swap = memfd_create("swap", 0);

	(void)state;
	assert_int_equal(ftruncate(swap, 40 * PAGE), 0);
	assert_int_equal(sm__swap_on(w.memory, swap, 40 * PAGE), 0);
	assert_int_equal(sm__swap_on(w.memory, swap, 40 * PAGE), -EBUSY);
	for (int i = 0; i < 50; i++)
		put8(&a, a.start + i * PAGE, 100 + i);
	/* A first look takes the mark of use away, the second the page; 39 slots there are. */
	assert_int_equal(sm__mm_pageout(a.mm, a.start, a.end, true), 0);
	assert_int_equal(sm__mm_pageout(a.mm, a.start, a.end, true), 39);
	assert_int_equal(sm__mm_rss(a.mm, SM__RSS_SWAP), 39);
	assert_int_equal(sm__swap_used(w.memory), 39);
	child.mm = shared->mm;
	sm__mmu_gather_begin(&g, a.mm);
	assert_int_equal(sm__mm_fork(child.mm, a.mm, a.start, a.end, &g), 0);
	sm__mmu_gather_finish(&g);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(get8(&a, a.start + i * PAGE), 100 + i);
		put8(&a, a.start + i * PAGE, 1);
		assert_int_equal(get8(&child, a.start + i * PAGE), 100 + i);
	}
	assert_int_equal(sm__swap_used(w.memory), 0);
	assert_int_equal(sm__mm_pageout(a.mm, a.start, a.start + 20 * PAGE, false), 20);
	sm__mmu_gather_begin(&g, a.mm);
	sm__mm_lazyfree(a.mm, a.start, a.start + 10 * PAGE, &g);
	sm__mmu_gather_finish(&g);
	assert_int_equal(sm__swap_used(w.memory), 10);
	area_zap(&a, a.start, a.end, 0);
	assert_int_equal(sm__swap_used(w.memory), 0);
	area_zap(&child, a.start, a.end, 0);
	close(swap);
}

static void every_allocation_may_fail(void **state)
{
	uint64_t at = 1, seen;

	(void)state;
	do {
		struct world v;
		struct area b;
		struct sm_file *f = NULL;
		struct sm__pages *pages;

		world_init(&v, 8);
		b = (struct area){
			.mm = world_mm(&v), .start = BASE, .end = BASE + 64 * PAGE, .prot = RW
		};
		v.area[0] = b;
		v.nr_areas = 1;
		sm__inject_arm(at);
		if (!sm_file_open_fd(fd, "x", &f) && !sm__pages_of(v.memory, f, &pages) &&
		    !world_enter(&v, b.mm, pages)) {
			for (uint64_t i = 0; i < 40; i += 13) {
				struct sm__page_fault pf = { .mm = b.mm,
							     .addr = BASE + i * PAGE,
							     .access = i ? SM_ACCESS_READ
									 : SM_ACCESS_WRITE,
							     .prot = RW,
							     .shared = i == 13,
							     .start = b.start,
							     .end = b.end,
							     .pages = pages,
							     .index = i };

				if (sm__mm_fault(&pf) == SM__PAGE_FETCH &&
				    !sm__pages_fetch(pages, f, i))
					(void)sm__mm_fault(&pf);
			}
		}
		seen = sm__inject_seen();
		sm__inject_disarm();
		assert_true(sm__mm_is_valid(b.mm));
		if (f && sm__pages_bound(f))
			assert_true(sm__pages_is_valid(sm__pages_bound(f)));
		world_destroy_mm(b.mm);
		if (f)
			world_put_file(&v, f);
		world_end(&v);
	} while (at++ < seen);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_page_that_is_being_read_is_not_mapped),
		T(a_read_maps_the_pages_around_it),
		T(beyond_the_end_is_a_bus_error),
		T(private_writes_stay_private_and_shared_ones_do_not),
		T(written_pages_are_written_back_once),
		T(what_was_written_survives_the_last_close),
		T(truncation_takes_pages_from_every_mapping),
		T(a_hole_reads_as_zero_and_spares_private_copies),
		T(memory_files_are_born_zero_and_shared),
		T(clean_pages_are_dropped_when_memory_is_short),
		T(an_unreadable_page_fails_alone_and_may_come_back),
		T(pages_go_to_swap_and_come_back),
		T(every_allocation_may_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
