/* SPDX-License-Identifier: MIT */
/*
 * test_maple_bounds.c - every store there is: prepared trees of two and three levels, and for each
 * pair of bounds a store of a value and of nothing, on a copy, against an array. Among them are all
 * that begin or end at the edge of a leaf, that span leaves and subtrees, and the one that consumes
 * the whole right leaf which is the last child of its parent (CVE-2024-50200 in the original).
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>
#include <stdlib.h>
#include "base/random.h"
#include "maple/check.h"

enum { PLACES = 1024 };

static struct sm_maple_pool *pool;

struct map {
	struct sm_maple tree;
	unsigned int places;
	uintptr_t value[PLACES];
};

/* Some maps: dense, with gaps, with long ranges. Place k is key `base + k`. */
static void make(struct map *m, unsigned int places, unsigned int kind, uint64_t seed)
{
	struct sm__random r;
	uintptr_t v = 0x1000;

	sm__random_seed(&r, seed);
	assert_int_equal(sm_maple_init(&m->tree, pool), 0);
	m->places = places;
	memset(m->value, 0, sizeof(m->value));
	for (unsigned int at = 0; at < places;) {
		unsigned int length = kind == 2 ? 1 + (unsigned int)sm__random_below(&r, 4) : 1;
		unsigned int gap = kind == 0 ? 0 : (unsigned int)sm__random_below(&r, 3);

		at += gap;
		if (at + length > places)
			break;
		v += 8;
		assert_int_equal(sm_maple_store_range(&m->tree, at, at + length - 1, (void *)v), 0);
		for (unsigned int i = 0; i < length; i++)
			m->value[at++] = v;
	}
}

static void compare(struct sm_maple *t, const uintptr_t *value, unsigned int places)
{
	struct sm_cursor c;
	unsigned int at = 0;
	void *v;

	assert_null(sm_maple_validate(t));
	sm_cursor_init(&c, t, 0, 0);
	sm_cursor_for_each (&c, v, UINT64_MAX) {
		for (; at < c.index; at++)
			assert_int_equal(value[at], 0);
		for (; at <= c.last; at++)
			assert_int_equal(value[at], (uintptr_t)v);
	}
	for (; at < places; at++)
		assert_int_equal(value[at], 0);
}

static void store_on_copy(struct map *m, unsigned int first, unsigned int last, uintptr_t v)
{
	uintptr_t value[PLACES];
	struct sm_maple copy;
	struct sm_cursor c;

	memcpy(value, m->value, sizeof(value));
	for (unsigned int i = first; i <= last; i++)
		value[i] = v;
	assert_int_equal(sm_maple_init(&copy, pool), 0);
	assert_int_equal(sm_maple_copy(&copy, &m->tree), 0);
	sm_cursor_init(&c, &copy, first, last);
	assert_int_equal(sm_cursor_store(&c, (void *)v), 0);
	assert_null(sm__path_validate(&c));
	compare(&copy, value, m->places);
	/* The original is not touched by what happens to its copy. */
	sm_maple_destroy(&copy);
}

static void all_stores(unsigned int places, unsigned int kind, unsigned int height)
{
	struct map m;

	make(&m, places, kind, places + kind);
	assert_int_equal(sm_maple_height(&m.tree), height);
	for (unsigned int first = 0; first < places; first++) {
		for (unsigned int last = first; last < places; last++) {
			store_on_copy(&m, first, last, 0x888888);
			store_on_copy(&m, first, last, 0);
		}
	}
	compare(&m.tree, m.value, places);
	sm_maple_destroy(&m.tree);
}

static void test_one_leaf(void **state)
{
	(void)state;
	all_stores(10, 0, 1);
	all_stores(14, 1, 1);
}

static void test_two_levels(void **state)
{
	(void)state;
	all_stores(60, 0, 2);
	all_stores(64, 1, 2);
	all_stores(100, 2, 2);
}

/* Three levels: too many pairs; every pair of leaf edges and their neighbours, and random ones. */
static void test_three_levels(void **state)
{
	unsigned int edge[PLACES], n = 0;
	struct sm__random r;
	struct sm_cursor c;
	struct map m;

	(void)state;
	make(&m, 420, 0, 7);
	assert_int_equal(sm_maple_height(&m.tree), 3);
	sm_cursor_init_writer(&c, &m.tree, 0, 0);
	sm_cursor_walk(&c);
	do {
		const struct sm__leaf *l = sm__path_leaf(&c.path);

		edge[n++] = (unsigned int)l->entry[0].first;
		edge[n++] = (unsigned int)l->last[l->n - 1];
	} while (sm__path_right(&c.path, 0) == SM__PATH_MOVED);
	for (unsigned int i = 0; i < n; i++)
		for (unsigned int j = i; j < n; j++) {
			store_on_copy(&m, edge[i], edge[j], 0x888888);
			store_on_copy(&m, edge[i], edge[j], 0);
		}
	sm__random_seed(&r, 3);
	for (unsigned int i = 0; i < 4000; i++) {
		unsigned int first = (unsigned int)sm__random_below(&r, m.places);
		unsigned int last = first + (unsigned int)sm__random_below(&r, m.places - first);

		store_on_copy(&m, first, last, i & 1 ? 0x888888 : 0);
	}
	sm_maple_destroy(&m.tree);
}

/* Erasing from both ends and from the middle takes the tree down to nothing, level by level. */
static void test_shrink(void **state)
{
	(void)state;
	for (unsigned int way = 0; way < 3; way++) {
		struct map m;
		uint64_t key;

		make(&m, 900, 1, way);
		for (unsigned int left = 900; left--;) {
			key = way == 0 ? 899 - left : way == 1 ? left : (left * 7919u) % 900;
			assert_int_equal(sm_maple_erase(&m.tree, key, NULL), 0);
			m.value[key] = 0;
			if (left % 16 == 0)
				compare(&m.tree, m.value, 900);
		}
		assert_true(sm_maple_empty(&m.tree));
		assert_int_equal(sm_maple_height(&m.tree), 0);
		sm_maple_destroy(&m.tree);
	}
}

/* The bounds of the key space: first and last key, everything, everything but one. */
static void test_whole_key_space(void **state)
{
	struct sm_maple t;
	struct sm_cursor c;
	char x, y;

	(void)state;
	assert_int_equal(sm_maple_init(&t, pool), 0);
	assert_int_equal(sm_maple_store_range(&t, 0, UINT64_MAX, &x), 0);
	assert_ptr_equal(sm_maple_load(&t, 0), &x);
	assert_ptr_equal(sm_maple_load(&t, UINT64_MAX), &x);
	for (uint64_t k = 1; k < 64; k++)
		assert_int_equal(sm_maple_store(&t, k << 57, &y), 0);
	assert_null(sm_maple_validate(&t));
	assert_ptr_equal(sm_maple_load(&t, (UINT64_C(5) << 57) + 1), &x);
	assert_ptr_equal(sm_maple_load(&t, UINT64_C(5) << 57), &y);
	assert_int_equal(sm_maple_store_range(&t, 1, UINT64_MAX - 1, NULL), 0);
	assert_null(sm_maple_validate(&t));
	assert_ptr_equal(sm_maple_load(&t, 0), &x);
	assert_null(sm_maple_load(&t, 1));
	assert_null(sm_maple_load(&t, UINT64_MAX - 1));
	sm_cursor_init(&c, &t, 7, 7);
	assert_null(sm_cursor_walk(&c));
	assert_true(c.index == 1 && c.last == UINT64_MAX - 1);
	assert_int_equal(sm_maple_store_range(&t, 0, UINT64_MAX, NULL), 0);
	assert_true(sm_maple_empty(&t));
	sm_maple_destroy(&t);
}

/*
 * Ascending stores leave full leaves behind; so does load_sorted, at every size around the node's.
 */
static void test_fill(void **state)
{
	static struct sm_maple_range ranges[2000];
	struct sm_maple_memory mem;
	struct sm_maple t;

	(void)state;
	for (size_t i = 0; i < 2000; i++)
		ranges[i] = (struct sm_maple_range){ 3 * i, 3 * i + 1, &ranges[i] };
	assert_int_equal(sm_maple_init(&t, pool), 0);
	for (size_t i = 0; i < 2000; i++)
		assert_int_equal(sm_maple_store_range(&t, 3 * i, 3 * i + 1, &ranges[i]), 0);
	sm_maple_memory(&t, &mem);
	assert_int_equal(mem.entries, 2000);
	assert_int_equal(mem.leaves, 200);
	sm_maple_clear(&t);
	for (size_t n = 0; n <= 2000; n = n < 400 ? n + 1 : n + 97) {
		assert_int_equal(sm_maple_load_sorted(&t, ranges, n), 0);
		assert_null(sm_maple_validate(&t));
		sm_maple_memory(&t, &mem);
		assert_int_equal(mem.entries, n);
		assert_int_equal(mem.leaves, (n + 9) / 10);
		for (size_t i = 0; i < n; i++)
			assert_ptr_equal(sm_maple_load(&t, 3 * i + 1), &ranges[i]);
		sm_maple_clear(&t);
	}
	ranges[5].first = ranges[4].last;
	assert_int_equal(sm_maple_load_sorted(&t, ranges, 10), -22);
	assert_true(sm_maple_empty(&t));
	sm_maple_destroy(&t);
}

static int setup(void **state)
{
	(void)state;
	pool = sm_maple_pool_create(NULL);
	return pool ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return sm_maple_pool_destroy(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_leaf),	cmocka_unit_test(test_two_levels),
		cmocka_unit_test(test_three_levels),	cmocka_unit_test(test_shrink),
		cmocka_unit_test(test_whole_key_space), cmocka_unit_test(test_fill),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
