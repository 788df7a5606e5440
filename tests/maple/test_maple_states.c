/* SPDX-License-Identifier: MIT */
/*
 * test_maple_states.c - the states of a cursor and where each kind of step leaves index and last:
 * the table above enum sm_cursor_state in samara/maple.h, line by line (I1, I2 of cursor.c).
 *
 * The tree:   [1000-1500] a   [2000-2500] b   [3000-3500] c     (hexadecimal)
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include "samara/maple.h"

static char a, b, c;
static struct sm_maple tree;

#define EXPECT(cur, step, value, first, end, st)               \
	do {                                                   \
		void *got = (step);                            \
		assert_ptr_equal(got, (value));                \
		assert_int_equal((cur).state, SM_CURSOR_##st); \
		assert_true((cur).index == (uint64_t)(first)); \
		assert_true((cur).last == (uint64_t)(end));    \
	} while (0)

static int setup(void **state)
{
	(void)state;
	assert_int_equal(sm_maple_init(&tree, NULL), 0);
	assert_int_equal(sm_maple_store_range(&tree, 0x1000, 0x1500, &a), 0);
	assert_int_equal(sm_maple_store_range(&tree, 0x2000, 0x2500, &b), 0);
	assert_int_equal(sm_maple_store_range(&tree, 0x3000, 0x3500, &c), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	sm_maple_destroy(&tree);
	return 0;
}

static void test_next(void **state)
{
	struct sm_cursor k;

	(void)state;
	sm_cursor_init(&k, &tree, 0, 0);
	EXPECT(k, sm_cursor_next(&k, UINT64_MAX), &a, 0x1000, 0x1500, ACTIVE);
	EXPECT(k, sm_cursor_next(&k, 0x2100), &b, 0x2000, 0x2500, ACTIVE);
	EXPECT(k, sm_cursor_next(&k, 0x2999), NULL, 0x2501, 0x2fff, OVERFLOW);
	EXPECT(k, sm_cursor_next(&k, 0x2999), NULL, 0x2501, 0x2fff, OVERFLOW);
	EXPECT(k, sm_cursor_next(&k, UINT64_MAX), &c, 0x3000, 0x3500, ACTIVE);
	EXPECT(k, sm_cursor_next(&k, UINT64_MAX), NULL, 0x3501, UINT64_MAX, OVERFLOW);
	EXPECT(k, sm_cursor_next(&k, UINT64_MAX), NULL, 0x3501, UINT64_MAX, OVERFLOW);
	EXPECT(k, sm_cursor_prev(&k, 0), &c, 0x3000, 0x3500, ACTIVE);
	/*
	 * A limit inside the current range: the position is kept, the other direction returns it.
	 */
	EXPECT(k, sm_cursor_next(&k, 0x3200), NULL, 0x3000, 0x3500, OVERFLOW);
	EXPECT(k, sm_cursor_prev(&k, 0), &c, 0x3000, 0x3500, ACTIVE);
	EXPECT(k, sm_cursor_prev(&k, 0), &b, 0x2000, 0x2500, ACTIVE);
	sm_cursor_pause(&k);
	EXPECT(k, sm_cursor_next(&k, UINT64_MAX), &c, 0x3000, 0x3500, ACTIVE);
	sm_cursor_set(&k, 0x1200);
	EXPECT(k, sm_cursor_next(&k, UINT64_MAX), &b, 0x2000, 0x2500, ACTIVE);
	sm_cursor_set(&k, 0x1800);
	EXPECT(k, sm_cursor_next(&k, 0x1fff), NULL, 0x1501, 0x1fff, OVERFLOW);
}

static void test_prev(void **state)
{
	struct sm_cursor k;

	(void)state;
	sm_cursor_init(&k, &tree, 0x2100, 0x2100);
	EXPECT(k, sm_cursor_prev(&k, 0), &a, 0x1000, 0x1500, ACTIVE);
	EXPECT(k, sm_cursor_prev(&k, 0), NULL, 0, 0x0fff, UNDERFLOW);
	EXPECT(k, sm_cursor_prev(&k, 0), NULL, 0, 0x0fff, UNDERFLOW);
	EXPECT(k, sm_cursor_next(&k, UINT64_MAX), &a, 0x1000, 0x1500, ACTIVE);
	EXPECT(k, sm_cursor_prev(&k, 0x1000), NULL, 0x1000, 0x1500, UNDERFLOW);
	EXPECT(k, sm_cursor_next(&k, UINT64_MAX), &a, 0x1000, 0x1500, ACTIVE);
	sm_cursor_set(&k, 0x3600);
	EXPECT(k, sm_cursor_prev(&k, 0), &c, 0x3000, 0x3500, ACTIVE);
	sm_cursor_pause(&k);
	EXPECT(k, sm_cursor_prev(&k, 0), &b, 0x2000, 0x2500, ACTIVE);
	EXPECT(k, sm_cursor_prev(&k, 0x1600), NULL, 0x1501, 0x1fff, UNDERFLOW);
	EXPECT(k, sm_cursor_prev(&k, 0), &a, 0x1000, 0x1500, ACTIVE);
}

static void test_find(void **state)
{
	struct sm_cursor k;

	(void)state;
	sm_cursor_init(&k, &tree, 0, 0);
	EXPECT(k, sm_cursor_find(&k, UINT64_MAX), &a, 0x1000, 0x1500, ACTIVE);
	EXPECT(k, sm_cursor_find(&k, UINT64_MAX), &b, 0x2000, 0x2500, ACTIVE);
	EXPECT(k, sm_cursor_find(&k, 0x2700), NULL, 0x2501, 0x2fff, ACTIVE);
	sm_cursor_set(&k, 0x1200);
	EXPECT(k, sm_cursor_find(&k, UINT64_MAX), &a, 0x1000, 0x1500, ACTIVE);
	sm_cursor_pause(&k);
	EXPECT(k, sm_cursor_find(&k, UINT64_MAX), &b, 0x2000, 0x2500, ACTIVE);
	/*
	 * After an overflow find goes on upwards, after an underflow it returns the current range.
	 */
	EXPECT(k, sm_cursor_next(&k, 0x2200), NULL, 0x2000, 0x2500, OVERFLOW);
	EXPECT(k, sm_cursor_find(&k, UINT64_MAX), &c, 0x3000, 0x3500, ACTIVE);
	EXPECT(k, sm_cursor_prev(&k, 0x3000), NULL, 0x3000, 0x3500, UNDERFLOW);
	EXPECT(k, sm_cursor_find(&k, UINT64_MAX), &c, 0x3000, 0x3500, ACTIVE);
	sm_cursor_set(&k, 0x4000);
	EXPECT(k, sm_cursor_find(&k, UINT64_MAX), NULL, 0x3501, UINT64_MAX, ACTIVE);
}

static void test_find_rev(void **state)
{
	struct sm_cursor k;

	(void)state;
	sm_cursor_init(&k, &tree, 0x4000, 0x4000);
	EXPECT(k, sm_cursor_find_rev(&k, 0), &c, 0x3000, 0x3500, ACTIVE);
	EXPECT(k, sm_cursor_find_rev(&k, 0), &b, 0x2000, 0x2500, ACTIVE);
	EXPECT(k, sm_cursor_find_rev(&k, 0x1600), NULL, 0x1501, 0x1fff, ACTIVE);
	EXPECT(k, sm_cursor_find_rev(&k, 0), &a, 0x1000, 0x1500, ACTIVE);
	EXPECT(k, sm_cursor_find_rev(&k, 0), NULL, 0, 0xfff, ACTIVE);
	sm_cursor_set(&k, 0x2200);
	EXPECT(k, sm_cursor_find_rev(&k, 0), &b, 0x2000, 0x2500, ACTIVE);
	sm_cursor_pause(&k);
	EXPECT(k, sm_cursor_find_rev(&k, 0), &a, 0x1000, 0x1500, ACTIVE);
}

static void test_ranges(void **state)
{
	struct sm_cursor k;

	(void)state;
	sm_cursor_init(&k, &tree, 0, 0);
	EXPECT(k, sm_cursor_find_range(&k, UINT64_MAX), NULL, 0, 0xfff, ACTIVE);
	EXPECT(k, sm_cursor_find_range(&k, UINT64_MAX), &a, 0x1000, 0x1500, ACTIVE);
	EXPECT(k, sm_cursor_next_range(&k, UINT64_MAX), NULL, 0x1501, 0x1fff, ACTIVE);
	EXPECT(k, sm_cursor_next_range(&k, UINT64_MAX), &b, 0x2000, 0x2500, ACTIVE);
	EXPECT(k, sm_cursor_prev_range(&k, 0), NULL, 0x1501, 0x1fff, ACTIVE);
	EXPECT(k, sm_cursor_prev_range(&k, 0), &a, 0x1000, 0x1500, ACTIVE);
	EXPECT(k, sm_cursor_find_range_rev(&k, 0), NULL, 0, 0xfff, ACTIVE);
	sm_cursor_set(&k, 0x3300);
	EXPECT(k, sm_cursor_next_range(&k, UINT64_MAX), NULL, 0x3501, UINT64_MAX, ACTIVE);
	EXPECT(k, sm_cursor_next_range(&k, UINT64_MAX), NULL, 0x3501, UINT64_MAX, OVERFLOW);
}

static void test_walk(void **state)
{
	struct sm_cursor k;

	(void)state;
	sm_cursor_init(&k, &tree, 0x1200, 0x1200);
	EXPECT(k, sm_cursor_walk(&k), &a, 0x1000, 0x1500, ACTIVE);
	sm_cursor_set(&k, 0x1600);
	EXPECT(k, sm_cursor_walk(&k), NULL, 0x1501, 0x1fff, ACTIVE);
	sm_cursor_set(&k, UINT64_MAX);
	EXPECT(k, sm_cursor_walk(&k), NULL, 0x3501, UINT64_MAX, ACTIVE);
}

static void test_empty(void **state)
{
	struct sm_maple empty;
	struct sm_cursor k;

	(void)state;
	assert_int_equal(sm_maple_init(&empty, NULL), 0);
	sm_cursor_init(&k, &empty, 5, 5);
	EXPECT(k, sm_cursor_walk(&k), NULL, 0, UINT64_MAX, NONE);
	sm_cursor_set(&k, 5);
	EXPECT(k, sm_cursor_next(&k, UINT64_MAX), NULL, 0, UINT64_MAX, NONE);
	EXPECT(k, sm_cursor_find(&k, UINT64_MAX), NULL, 0, UINT64_MAX, NONE);
	EXPECT(k, sm_cursor_prev(&k, 0), NULL, 0, UINT64_MAX, NONE);
	EXPECT(k, sm_cursor_find_rev(&k, 0), NULL, 0, UINT64_MAX, NONE);
	sm_maple_destroy(&empty);
}

/* A writer's cursor: stores keep the place; changes by others are noticed. */
static void test_store_keeps_place(void **state)
{
	struct sm_cursor k, other;
	char x;

	(void)state;
	sm_cursor_init_writer(&k, &tree, 0, 0);
	assert_ptr_equal(sm_cursor_find(&k, UINT64_MAX), &a);
	sm_cursor_retarget(&k, 0x1100, 0x11ff);
	assert_int_equal(sm_cursor_store(&k, &x), 0);
	assert_ptr_equal(k.replaced, &a);
	EXPECT(k, sm_cursor_next(&k, UINT64_MAX), &a, 0x1200, 0x1500, ACTIVE);
	EXPECT(k, sm_cursor_prev(&k, 0), &x, 0x1100, 0x11ff, ACTIVE);
	EXPECT(k, sm_cursor_prev(&k, 0), &a, 0x1000, 0x10ff, ACTIVE);
	sm_cursor_init_writer(&other, &tree, 0x1100, 0x11ff);
	assert_int_equal(sm_cursor_erase(&other), 0);
	assert_ptr_equal(other.replaced, &x);
	EXPECT(k, sm_cursor_next(&k, UINT64_MAX), &a, 0x1200, 0x1500, ACTIVE);
	sm_cursor_set(&k, 0x2000);
	assert_int_equal(sm_cursor_erase(&k), 0);
	assert_true(k.index == 0x2000 && k.last == 0x2500);
	EXPECT(k, sm_cursor_next(&k, UINT64_MAX), &c, 0x3000, 0x3500, ACTIVE);
	assert_int_equal(sm_maple_store_range(&tree, 0x1000, 0x1500, &a), 0);
	assert_int_equal(sm_maple_store_range(&tree, 0x2000, 0x2500, &b), 0);
}

static void test_arguments(void **state)
{
	struct sm_maple_window w = { 0x5000, 0x4fff };
	uint64_t key = 0, next = 0;
	struct sm_cursor k;

	(void)state;
	sm_cursor_init(&k, &tree, 5, 4);
	assert_int_equal(sm_cursor_store(&k, &a), -EINVAL);
	assert_int_equal(sm_maple_store_range(&tree, 5, 4, &a), -EINVAL);
	for (uintptr_t v = 2; v < 4096; v += 4)
		assert_int_equal(sm_maple_store(&tree, 0x9000, (void *)v), -EINVAL);
	assert_int_equal(sm_maple_store(&tree, 0x9000, (void *)4098), 0);
	assert_int_equal(sm_maple_store(&tree, 0x9000, (void *)1), 0);
	assert_int_equal(sm_maple_erase(&tree, 0x9000, NULL), 0);
	assert_int_equal(sm_maple_insert_range(&tree, 0x1400, 0x1600, &b), -EEXIST);
	assert_int_equal(sm_maple_insert_range(&tree, 0x1501, 0x1fff, &b), 0);
	assert_int_equal(sm_maple_erase(&tree, 0x1501, NULL), 0);
	assert_int_equal(sm_maple_alloc_lowest(&tree, &a, 1, w, &key), -EINVAL);
	w.max = 0x5000;
	assert_int_equal(sm_maple_alloc_lowest(&tree, &a, 2, w, &key), -EINVAL);
	assert_int_equal(sm_maple_alloc_highest(&tree, &a, 0, w, &key), -EINVAL);
	assert_int_equal(sm_maple_alloc_highest(&tree, NULL, 1, w, &key), -EINVAL);
	/* Taken, but reads as nothing. */
	sm_cursor_init(&k, &tree, 0x6000, 0x6000);
	assert_int_equal(sm_cursor_store(&k, SM_MAPLE_ZERO), 0);
	assert_null(sm_maple_load(&tree, 0x6000));
	key = 0x4000;
	assert_null(sm_maple_find(&tree, &key, UINT64_MAX));
	assert_ptr_equal(sm_cursor_walk(&k), SM_MAPLE_ZERO);
	assert_int_equal(sm_cursor_erase(&k), 0);
	/* Cyclic: from next on, then from the start. */
	w = (struct sm_maple_window){ 0x10, 0x12 };
	next = 0x12;
	assert_int_equal(sm_maple_alloc_cyclic(&tree, &a, w, &next, &key), 0);
	assert_true(key == 0x12);
	assert_int_equal(sm_maple_alloc_cyclic(&tree, &a, w, &next, &key), 1);
	assert_true(key == 0x10);
	assert_int_equal(sm_maple_alloc_cyclic(&tree, &a, w, &next, &key), 0);
	assert_true(key == 0x11 && next == 0x12);
	assert_int_equal(sm_maple_alloc_cyclic(&tree, &a, w, &next, &key), -EBUSY);
	assert_int_equal(sm_maple_store_range(&tree, 0x10, 0x12, NULL), 0);
}

static void test_whole_tree_calls(void **state)
{
	uint64_t key = 0;
	unsigned int n = 0;
	void *v;

	(void)state;
	sm_maple_for_each (&tree, v, key, UINT64_MAX)
		n++;
	assert_int_equal(n, 3);
	assert_true(key == 0x3501);
	assert_ptr_equal(sm_maple_next(&tree, 0x1000, UINT64_MAX), &b);
	assert_ptr_equal(sm_maple_next(&tree, 0x3000, UINT64_MAX), NULL);
	assert_ptr_equal(sm_maple_prev(&tree, 0x3600, 0), &c);
	assert_ptr_equal(sm_maple_prev(&tree, 0x1000, 0), NULL);
	/* A range that ends at the last key: find_after knows that it came to the end. */
	assert_int_equal(sm_maple_store_range(&tree, UINT64_MAX - 1, UINT64_MAX, &a), 0);
	key = 0x4000;
	assert_ptr_equal(sm_maple_find(&tree, &key, UINT64_MAX), &a);
	assert_true(key == 0);
	assert_null(sm_maple_find_after(&tree, &key, UINT64_MAX));
	assert_ptr_equal(sm_maple_load(&tree, UINT64_MAX), &a);
	assert_int_equal(sm_maple_erase(&tree, UINT64_MAX, &v), 0);
	assert_ptr_equal(v, &a);
}

/* Both forms name every range; the picture has a box per node. */
static void test_dump(void **state)
{
	char text[4096];
	FILE *f;

	(void)state;
	f = fmemopen(text, sizeof(text), "w");
	sm_maple_dump(&tree, f, SM_MAPLE_DUMP_TEXT);
	fclose(f);
	assert_non_null(strstr(text, "height 1"));
	assert_non_null(strstr(text, "0000000000002000-0000000000002500"));
	f = fmemopen(text, sizeof(text), "w");
	sm_maple_dump(&tree, f, SM_MAPLE_DUMP_GRAPHVIZ);
	fclose(f);
	assert_non_null(strstr(text, "digraph"));
	assert_non_null(strstr(text, "1000\\l1500"));
}

static void test_reset(void **state)
{
	struct sm_cursor cur;

	(void)state;
	sm_cursor_init(&cur, &tree, 0x2100, 0x2100);
	assert_false(sm_cursor_is_active(&cur));
	EXPECT(cur, sm_cursor_walk(&cur), &b, 0x2000, 0x2500, ACTIVE);
	assert_true(sm_cursor_is_active(&cur));
	assert_false(sm_cursor_is_error(&cur));
	sm_cursor_reset(&cur); /* the range stays, the place does not */
	assert_false(sm_cursor_is_active(&cur));
	EXPECT(cur, sm_cursor_find(&cur, UINT64_MAX), &b, 0x2000, 0x2500, ACTIVE);
	EXPECT(cur, sm_cursor_find(&cur, UINT64_MAX), &c, 0x3000, 0x3500, ACTIVE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_next),	  cmocka_unit_test(test_prev),
		cmocka_unit_test(test_find),	  cmocka_unit_test(test_find_rev),
		cmocka_unit_test(test_ranges),	  cmocka_unit_test(test_walk),
		cmocka_unit_test(test_empty),	  cmocka_unit_test(test_store_keeps_place),
		cmocka_unit_test(test_arguments), cmocka_unit_test(test_whole_tree_calls),
		cmocka_unit_test(test_dump),	  cmocka_unit_test(test_reset),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
