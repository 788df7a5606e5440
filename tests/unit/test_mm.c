/* SPDX-License-Identifier: MIT */
/* test_mm.c - page tables, private memory, fork, protection, moves (mm.h, range.c, pagefault.c). */
#include "unit/memory_world.h"
#include "base/inject.h"

#include <errno.h>

#define BASE 0x7f0000000000ull

static struct world w;
static struct area a;

static int setup(void **state)
{
	(void)state;
	world_init(&w, 32);
	a = (struct area){
		.mm = world_mm(&w), .start = BASE, .end = BASE + 1024 * PAGE, .prot = RW
	};
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_true(sm__mm_is_valid(a.mm));
	world_destroy_mm(a.mm);
	world_end(&w);
	return 0;
}

static void reading_costs_no_frame_and_writing_one(void **state)
{
	uint64_t before;

	(void)state;
	assert_int_equal(get8(&a, BASE), 0);
	before = frames_in_use(&w);
	assert_int_equal(get8(&a, BASE + PAGE), 0);
	assert_int_equal(frames_in_use(&w), before);
	assert_int_equal(sm__mm_rss(a.mm, SM__RSS_ANON), 0);
	put8(&a, BASE, 1);
	put8(&a, BASE + 2 * PAGE, 2);
	assert_int_equal(frames_in_use(&w), before + 2);
	assert_int_equal(get8(&a, BASE), 1);
	assert_int_equal(get8(&a, BASE + PAGE), 0);
	assert_int_equal(get8(&a, BASE + 2 * PAGE), 2);
	assert_int_equal(sm__mm_rss(a.mm, SM__RSS_ANON), 2);
}

static void unmapped_memory_is_zero_again(void **state)
{
	(void)state;
	for (sm_addr p = BASE; p < a.end; p += PAGE)
		put8(&a, p, p);
	area_zap(&a, BASE + PAGE, a.end - PAGE, 0);
	assert_int_equal(sm__mm_rss(a.mm, SM__RSS_ANON), 2);
	assert_int_equal(get8(&a, BASE), BASE);
	assert_int_equal(get8(&a, a.end - PAGE), a.end - PAGE);
	for (sm_addr p = BASE + PAGE; p < a.end - PAGE; p += PAGE)
		assert_int_equal(get8(&a, p), 0);
}

/* mm.h I2 */
static void emptied_tables_are_freed(void **state)
{
	uint64_t before = frames_in_use(&w);

	(void)state;
	put8(&a, BASE, 1);
	put8(&a, BASE + 600 * PAGE, 1);
	assert_int_equal(atomic_load(&a.mm->nr_tables), 4);
	area_zap(&a, BASE, a.end, SM__ZAP_TABLES | SM__ZAP_MARKERS);
	sm__rcu_barrier();
	assert_int_equal(atomic_load(&a.mm->nr_tables), 0);
	assert_int_equal(frames_in_use(&w), before);
	/* Scattered single pages leave empty tables, which a sweep takes when there are many. */
	for (int i = 0; i < 64; i++) {
		struct area one = a;

		one.start = BASE + i * (1ull << 30);
		one.end = one.start + PAGE;
		put8(&one, one.start, 1);
		area_zap(&one, one.start, one.end, SM__ZAP_TABLES);
	}
	assert_true(atomic_load(&a.mm->nr_tables) <= 3 * 32 + 2);
}

static void protection_is_taken_and_given_back(void **state)
{
	(void)state;
	put8(&a, BASE, 42);
	(void)get8(&a, BASE + PAGE);
	area_protect(&a, BASE, a.end, SM_PROT_NONE);
	struct sm__slot slot;

	assert_null(sm__mm_hold(a.mm, BASE, SM_ACCESS_READ, &slot));
	area_protect(&a, BASE, a.end, SM_PROT_READ);
	assert_int_equal(get8(&a, BASE), 42);
	assert_null(sm__mm_hold(a.mm, BASE, SM_ACCESS_WRITE, &slot));
	assert_null(sm__mm_hold(a.mm, BASE, SM_ACCESS_EXEC, &slot));
	area_protect(&a, BASE, a.end, RW | SM_PROT_EXEC);
	assert_int_equal(get8(&a, BASE), 42);
	/* The only user of its page needs no fault to write it again. */
	assert_non_null(sm__mm_hold(a.mm, BASE, SM_ACCESS_WRITE, &slot));
	sm__pt_unlock(&slot);
	assert_null(sm__mm_hold(a.mm, BASE + PAGE, SM_ACCESS_WRITE, &slot));
	put8(&a, BASE + PAGE, 43);
	assert_non_null(area_touch(&a, BASE + PAGE, SM_ACCESS_EXEC));
}

static void fork_copies_on_write_and_the_last_takes_over(void **state)
{
	struct area child = a;
	struct sm__mmu_gather g;
	uint64_t before;
	void *mine;

	(void)state;
	for (int i = 0; i < 700; i += 7)
		put8(&a, BASE + i * PAGE, 1000 + i);
	mine = area_touch(&a, BASE, SM_ACCESS_READ);
	child.mm = world_mm(&w);
	sm__mmu_gather_begin(&g, a.mm);
	assert_int_equal(sm__mm_fork(child.mm, a.mm, a.start, a.end, &g), 0);
	sm__mmu_gather_finish(&g);
	before = frames_in_use(&w);
	put8(&child, BASE, 5);
	assert_int_equal(frames_in_use(&w), before + 1);
	assert_int_equal(get8(&a, BASE), 1000);
	/* The parent is alone with its page now. */
	put8(&a, BASE, 6);
	assert_int_equal(frames_in_use(&w), before + 1);
	assert_ptr_equal(area_touch(&a, BASE, SM_ACCESS_WRITE), mine);
	assert_int_equal(get8(&child, BASE), 5);
	put8(&a, BASE + 7 * PAGE, 8);
	assert_int_equal(get8(&child, BASE + 7 * PAGE), 1007);
	for (int i = 14; i < 700; i += 7)
		assert_int_equal(get8(&child, BASE + i * PAGE), 1000 + i);
	assert_true(sm__mm_is_valid(child.mm));
	world_destroy_mm(child.mm);
}

static void pages_move_with_their_contents(void **state)
{
	sm_addr to = BASE + (5ull << 30) + 300 * PAGE;
	struct sm__mmu_gather g;
	struct area moved = a;

	(void)state;
	for (int i = 0; i < 1024; i += 3)
		put8(&a, BASE + i * PAGE, 7000 + i);
	assert_int_equal(sm__mm_hold_tables(a.mm, to, to + 1024 * PAGE), 0);
	sm__mmu_gather_begin(&g, a.mm);
	sm__mm_move(a.mm, BASE, to, 1024 * PAGE, &g);
	sm__mmu_gather_finish(&g);
	sm__mm_release_tables(a.mm, to, to + 1024 * PAGE);
	moved.start = to;
	moved.end = to + 1024 * PAGE;
	for (int i = 0; i < 1024; i++)
		assert_int_equal(get8(&moved, to + i * PAGE), i % 3 ? 0 : 7000 + i);
	assert_int_equal(get8(&a, BASE), 0);
}

static void guard_pages_refuse_and_survive_dontneed(void **state)
{
	struct sm__mmu_gather g;

	(void)state;
	put8(&a, BASE, 1);
	sm__mmu_gather_begin(&g, a.mm);
	assert_int_equal(sm__mm_guard_install(a.mm, BASE, BASE + 3 * PAGE, &g), 0);
	sm__mmu_gather_finish(&g);
	assert_int_equal(area_fault(&a, BASE, SM_ACCESS_READ), SM__PAGE_GUARD);
	area_zap(&a, BASE, BASE + PAGE, 0);
	assert_int_equal(area_fault(&a, BASE, SM_ACCESS_WRITE), SM__PAGE_GUARD);
	sm__mm_guard_remove(a.mm, BASE, BASE + PAGE);
	assert_int_equal(get8(&a, BASE), 0);
	assert_int_equal(area_fault(&a, BASE + PAGE, SM_ACCESS_READ), SM__PAGE_GUARD);
	area_zap(&a, BASE, a.end, SM__ZAP_MARKERS);
	assert_int_equal(get8(&a, BASE + PAGE), 0);
}

static void lazily_freed_pages_live_until_reclaim_or_a_write(void **state)
{
	struct sm__mmu_gather g;

	(void)state;
	put8(&a, BASE, 1);
	put8(&a, BASE + PAGE, 2);
	sm__mmu_gather_begin(&g, a.mm);
	sm__mm_lazyfree(a.mm, BASE, BASE + 2 * PAGE, &g);
	sm__mmu_gather_finish(&g);
	assert_true(sm__mm_is_valid(a.mm));
	put8(&a, BASE, 3);
	assert_int_equal(sm__mm_pageout(a.mm, BASE, BASE + 2 * PAGE, false), 1);
	assert_int_equal(get8(&a, BASE), 3);
	assert_int_equal(get8(&a, BASE + PAGE), 0);
}

static void huge_pages_come_split_and_collapse(void **state)
{
	sm_addr base = SM__ALIGN_UP(BASE, 2ull << 20);
	struct area child;

	(void)state;
	a.huge = true;
	put8(&a, base + 5 * PAGE, 9);
	assert_int_equal(sm__mm_rss(a.mm, SM__RSS_ANON), 512);
	assert_int_equal(atomic_load(&a.mm->nr_tables), 2);
	area_protect(&a, base, base + (2 << 20), SM_PROT_READ);
	area_protect(&a, base, base + (2 << 20), RW);
	put8(&a, base + 6 * PAGE, 10);
	assert_int_equal(sm__pt_split_at(a.mm, base + PAGE), 0);
	area_zap(&a, base, base + PAGE, 0);
	assert_int_equal(sm__mm_rss(a.mm, SM__RSS_ANON), 511);
	assert_int_equal(get8(&a, base + 5 * PAGE), 9);
	assert_int_equal(sm__mm_collapse(a.mm, base, RW), 0);
	assert_int_equal(sm__mm_rss(a.mm, SM__RSS_ANON), 512);
	assert_int_equal(get8(&a, base + 5 * PAGE), 9);
	assert_int_equal(get8(&a, base + 6 * PAGE), 10);
	assert_true(sm__mm_is_valid(a.mm));
	child = a;
	child.mm = world_mm(&w);
	struct sm__mmu_gather g;

	sm__mmu_gather_begin(&g, a.mm);
	assert_int_equal(sm__mm_fork(child.mm, a.mm, a.start, a.end, &g), 0);
	sm__mmu_gather_finish(&g);
	put8(&child, base + 5 * PAGE, 11);
	assert_int_equal(get8(&a, base + 5 * PAGE), 9);
	world_destroy_mm(child.mm);
	area_zap(&a, a.start, a.end, SM__ZAP_TABLES);
	assert_int_equal(sm__mm_rss(a.mm, SM__RSS_ANON), 0);
}

static void equal_pages_merge_and_part_on_write(void **state)
{
	struct sm__mmu_gather g;
	uint64_t before;
	uint32_t stable;

	(void)state;
	put8(&a, BASE, 77);
	put8(&a, BASE + PAGE, 77);
	put8(&a, BASE + 2 * PAGE, 78);
	before = frames_in_use(&w);
	stable = sm__mm_merge_stable(a.mm, BASE);
	assert_true(stable > 0);
	sm__mmu_gather_begin(&g, a.mm);
	assert_true(sm__mm_merge(a.mm, BASE + PAGE, stable, &g));
	assert_false(sm__mm_merge(a.mm, BASE + 2 * PAGE, stable, &g));
	sm__mmu_gather_finish(&g);
	sm__frame_put(a.mm->pool, stable);
	assert_int_equal(frames_in_use(&w), before - 1);
	put8(&a, BASE + PAGE, 79);
	assert_int_equal(get8(&a, BASE), 77);
	put8(&a, BASE, 80);
	assert_int_equal(get8(&a, BASE + PAGE), 79);
}

static void poisoned_pages_raise_and_soft_ones_move(void **state)
{
	void *before;

	(void)state;
	put8(&a, BASE, 1);
	put8(&a, BASE + PAGE, 2);
	before = area_touch(&a, BASE + PAGE, SM_ACCESS_READ);
	assert_int_equal(sm__mm_poison(a.mm, BASE, false), 0);
	assert_int_equal(area_fault(&a, BASE, SM_ACCESS_READ), SM__PAGE_POISON);
	assert_int_equal(sm__mm_poison(a.mm, BASE + PAGE, true), 0);
	assert_int_equal(get8(&a, BASE + PAGE), 2);
	assert_ptr_not_equal(area_touch(&a, BASE + PAGE, SM_ACCESS_READ), before);
	assert_int_equal(sm__mm_poison(a.mm, BASE + 9 * PAGE, false), -ENOENT);
}

/* Every allocation of a sequence fails in turn: nothing is lost, nothing changes. */
static void every_allocation_may_fail(void **state)
{
	uint64_t at = 1, seen;

	(void)state;
	do {
		struct world v;
		struct area b;
		struct sm__mm *mm = NULL, *child = NULL;
		struct sm__mmu_gather g;

		world_init(&v, 8);
		sm__inject_arm(at);
		if (!sm__mm_create(v.memory, &world_ops, &v, &mm)) {
			b = (struct area){
				.mm = mm, .start = BASE, .end = BASE + 600 * PAGE, .prot = RW
			};
			for (int i = 0; i < 600; i += 100)
				(void)area_fault(&b, BASE + i * PAGE,
						 i & 1 ? SM_ACCESS_READ : SM_ACCESS_WRITE);
			sm__mmu_gather_begin(&g, mm);
			if (!sm__mm_create(v.memory, &world_ops, &v, &child))
				(void)sm__mm_fork(child, mm, b.start, b.end, &g);
			sm__mmu_gather_finish(&g);
			(void)area_fault(&b, BASE, SM_ACCESS_WRITE);
			if (!sm__mm_hold_tables(mm, BASE + (1ull << 40),
						BASE + (1ull << 40) + 600 * PAGE))
				sm__mm_release_tables(mm, BASE + (1ull << 40),
						      BASE + (1ull << 40) + 600 * PAGE);
			area_zap(&b, b.start, b.end, SM__ZAP_TABLES);
		}
		seen = sm__inject_seen();
		sm__inject_disarm();
		if (mm) {
			assert_true(sm__mm_is_valid(mm));
			world_destroy_mm(mm);
		}
		if (child) {
			assert_true(sm__mm_is_valid(child));
			world_destroy_mm(child);
		}
		world_end(&v);
	} while (at++ < seen);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(reading_costs_no_frame_and_writing_one),
		T(unmapped_memory_is_zero_again),
		T(emptied_tables_are_freed),
		T(protection_is_taken_and_given_back),
		T(fork_copies_on_write_and_the_last_takes_over),
		T(pages_move_with_their_contents),
		T(guard_pages_refuse_and_survive_dontneed),
		T(lazily_freed_pages_live_until_reclaim_or_a_write),
		T(huge_pages_come_split_and_collapse),
		T(equal_pages_merge_and_part_on_write),
		T(poisoned_pages_raise_and_soft_ones_move),
		T(every_allocation_may_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
