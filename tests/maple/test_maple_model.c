/* SPDX-License-Identifier: MIT */
/*
 * test_maple_model.c - the maple tree beside a map of integers to values: an array with one value
 * per key. Random operations, every result compared, the changed path validated after each, the
 * whole tree and the whole map every thousand.
 *
 * The array has `keys` places; place k stands for the keys [k * 2^64 / keys, (k + 1) * 2^64 /
 * keys), so that the first and the last of all 64-bit keys take part. Every store has a value of
 * its own, so that two neighbouring places are one range exactly when their values are equal.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/random.h"
#include "maple/check.h"

/* The thread sanitizer slows one thread down a hundredfold and finds nothing in it. */
#ifndef MODEL_OPERATIONS
#define MODEL_OPERATIONS (SM_TSAN ? 100000 : 2000000)
#endif

struct twin {
	struct sm_maple tree;
	struct sm_maple_pool *pool;
	struct sm__random random;
	uint64_t seed, step;
	unsigned int bits; /* 2^bits places */
	size_t keys;
	uintptr_t *value;
	uintptr_t next_value;
	unsigned int fill;   /* of 100 stores so many store a value */
	unsigned int length; /* typical length of a range, in places */
	unsigned int max_height;
};

static void fail_at(const struct twin *m, const char *what, uint64_t a, uint64_t b)
{
	fprintf(stderr, "%s: %" PRIx64 " %" PRIx64 " (bits %u seed %" PRIu64 " step %" PRIu64 ")\n",
		what, a, b, m->bits, m->seed, m->step);
	fail();
}

#define CHECK(m, x, a, b)                                                                     \
	do {                                                                                  \
		if (!(x))                                                                     \
			fail_at((m), #x, (uint64_t)(uintptr_t)(a), (uint64_t)(uintptr_t)(b)); \
	} while (0)

static uint64_t first_key(const struct twin *m, size_t place)
{
	return (uint64_t)place << (64 - m->bits);
}

static uint64_t last_key(const struct twin *m, size_t place)
{
	return first_key(m, place) + ((UINT64_C(1) << (64 - m->bits)) - 1);
}

static size_t place_of(const struct twin *m, uint64_t key)
{
	return key >> (64 - m->bits);
}

static void *pointer(uintptr_t value)
{
	return (void *)value;
}

static uintptr_t new_value(struct twin *m)
{
	m->next_value += 8;
	return m->next_value;
}

/* The places of the range that contains `place`. */
static size_t range_begin(const struct twin *m, size_t place)
{
	while (place && m->value[place - 1] == m->value[place])
		place--;
	return place;
}

static size_t range_end(const struct twin *m, size_t place)
{
	while (place + 1 < m->keys && m->value[place + 1] == m->value[place])
		place++;
	return place;
}

static void validate_path(struct twin *m, const struct sm_cursor *c)
{
	const char *text = sm__path_validate(c);

	if (text)
		fail_at(m, text, c->index, c->last);
}

static void pick_range(struct twin *m, size_t *from, size_t *to)
{
	uint64_t length = 1 + sm__random_below(&m->random, 2 * m->length);

	if (sm__random_below(&m->random, 64) == 0)
		length = 1 + sm__random_below(&m->random, m->keys / 8 + 1);
	if (sm__random_below(&m->random, 20000) == 0)
		length = 1 + sm__random_below(&m->random, m->keys);
	*from = sm__random_below(&m->random, m->keys);
	*to = *from + length - 1 < m->keys ? *from + length - 1 : m->keys - 1;
}

static void fill_places(struct twin *m, size_t from, size_t to, uintptr_t value)
{
	for (size_t i = from; i <= to; i++)
		m->value[i] = value;
}

static uintptr_t first_value(const struct twin *m, size_t from, size_t to)
{
	for (size_t i = from; i <= to; i++)
		if (m->value[i])
			return m->value[i];
	return 0;
}

/* -------------------------------------------------------------------------- operations ---- */

static void do_store(struct twin *m)
{
	uintptr_t value = sm__random_below(&m->random, 100) < m->fill ? new_value(m) : 0;
	struct sm_cursor c;
	size_t from, to;

	pick_range(m, &from, &to);
	sm_cursor_init(&c, &m->tree, first_key(m, from), last_key(m, to));
	if (sm__random_below(&m->random, 4) == 0) {
		assert_int_equal(sm_cursor_preallocate(&c, pointer(value)), 0);
		sm_cursor_store_prealloc(&c, pointer(value));
	} else {
		assert_int_equal(sm_cursor_store(&c, pointer(value)), 0);
	}
	CHECK(m, c.replaced == pointer(first_value(m, from, to)), c.replaced, from);
	validate_path(m, &c);
	fill_places(m, from, to, value);
}

static void do_erase(struct twin *m)
{
	size_t place = sm__random_below(&m->random, m->keys);
	struct sm_cursor c;

	sm_cursor_init(&c, &m->tree, first_key(m, place), first_key(m, place));
	assert_int_equal(sm_cursor_erase(&c), 0);
	CHECK(m, c.replaced == pointer(m->value[place]), c.replaced, place);
	if (!c.replaced)
		return;
	validate_path(m, &c);
	CHECK(m, c.index == first_key(m, range_begin(m, place)), c.index, place);
	CHECK(m, c.last == last_key(m, range_end(m, place)), c.last, place);
	fill_places(m, range_begin(m, place), range_end(m, place), 0);
}

static void do_insert(struct twin *m)
{
	uintptr_t value = new_value(m);
	size_t from, to;
	bool free;
	int ret;

	pick_range(m, &from, &to);
	free = !first_value(m, from, to);
	ret = sm_maple_insert_range(&m->tree, first_key(m, from), last_key(m, to), pointer(value));
	CHECK(m, ret == (free ? 0 : -17), ret, from);
	if (free)
		fill_places(m, from, to, value);
}

/* Gaps: the window and the size are in places; brute force is the judge. */
static void do_gap(struct twin *m, bool highest)
{
	size_t low, high, n = 1 + sm__random_below(&m->random, 2 * m->length), run = 0, at = 0;
	uint64_t unit = (UINT64_C(1) << (64 - m->bits)), start = 0;
	struct sm_maple_window w;
	bool exists = false;
	int ret;

	if (n >= m->keys)
		n = m->keys - 1;
	pick_range(m, &low, &high);
	if (sm__random_below(&m->random, 2))
		high = m->keys - 1;
	if (sm__random_below(&m->random, 2))
		low = 0;
	w.min = first_key(m, low);
	w.max = last_key(m, high);
	for (size_t i = 0; i <= high - low && !exists; i++) {
		size_t place = highest ? high - i : low + i;

		run = m->value[place] ? 0 : run + 1;
		exists = run == n;
		at = highest ? place : place - n + 1;
	}
	ret = highest ? sm_maple_alloc_highest(&m->tree, pointer(new_value(m)), n * unit, w, &start)
		      : sm_maple_alloc_lowest(&m->tree, pointer(new_value(m)), n * unit, w, &start);
	if (n > high - low + 1) {
		CHECK(m, ret == -22, ret, n);
		return;
	}
	CHECK(m, ret == (exists ? 0 : -16), ret, n);
	if (exists) {
		CHECK(m, start == first_key(m, at), start, first_key(m, at));
		fill_places(m, at, at + n - 1, m->next_value);
	}
}

/* A few steps of every kind from a random key, against the array. */
static void do_steps(struct twin *m)
{
	size_t place = sm__random_below(&m->random, m->keys), p;
	bool up = sm__random_below(&m->random, 2), ranges = sm__random_below(&m->random, 2);
	struct sm_cursor c;
	void *v;

	sm_cursor_init(&c, &m->tree, first_key(m, place), last_key(m, place));
	c.writer = sm__random_below(&m->random, 2);
	v = sm_cursor_walk(&c);
	CHECK(m, v == pointer(m->value[place]), v, place);
	if (sm_maple_empty(&m->tree))
		return;
	p = place;
	for (unsigned int i = 0; i < 24; i++) {
		CHECK(m, c.index == first_key(m, range_begin(m, p)), c.index, p);
		CHECK(m, c.last == last_key(m, range_end(m, p)), c.last, p);
		if (sm__random_below(&m->random, 8) == 0)
			up = !up;
		do {
			if (up ? range_end(m, p) + 1 == m->keys : range_begin(m, p) == 0)
				goto end;
			p = up ? range_end(m, p) + 1 : range_begin(m, p) - 1;
		} while (!ranges && !m->value[p]);
		v = up ? (ranges ? sm_cursor_next_range(&c, UINT64_MAX)
				 : sm_cursor_next(&c, UINT64_MAX))
		       : (ranges ? sm_cursor_prev_range(&c, 0) : sm_cursor_prev(&c, 0));
		CHECK(m, v == pointer(m->value[p]), v, p);
	}
	return;
end:
	v = up ? sm_cursor_next(&c, UINT64_MAX) : sm_cursor_prev(&c, 0);
	CHECK(m, !v, v, p);
	CHECK(m, c.state == (up ? SM_CURSOR_OVERFLOW : SM_CURSOR_UNDERFLOW), c.state, p);
}

static void do_load(struct twin *m)
{
	uint64_t key = sm__random_next(&m->random);

	CHECK(m, sm_maple_load(&m->tree, key) == pointer(m->value[place_of(m, key)]), key, 0);
}

static void compare_map(struct twin *m, struct sm_maple *tree)
{
	const char *text = sm_maple_validate(tree);
	struct sm_cursor c;
	size_t place = 0;
	void *v;

	if (text)
		fail_at(m, text, 0, 0);
	sm_cursor_init(&c, tree, 0, 0);
	for (v = sm_cursor_find(&c, UINT64_MAX); v; v = sm_cursor_next(&c, UINT64_MAX)) {
		size_t first = place_of(m, c.index), last = place_of(m, c.last);

		for (; place < first; place++)
			CHECK(m, !m->value[place], place, first);
		CHECK(m, c.index == first_key(m, first) && c.last == last_key(m, last), c.index,
		      c.last);
		for (; place <= last; place++)
			CHECK(m, pointer(m->value[place]) == v, place, last);
		CHECK(m, place == m->keys || m->value[place] != (uintptr_t)v, place, last);
	}
	for (; place < m->keys; place++)
		CHECK(m, !m->value[place], place, 0);
}

static void compare_copy(struct twin *m)
{
	struct sm_maple copy;

	assert_int_equal(sm_maple_init(&copy, m->pool), 0);
	assert_int_equal(sm_maple_copy(&copy, &m->tree), 0);
	compare_map(m, &copy);
	sm_maple_destroy(&copy);
}

static void one_step(struct twin *m)
{
	uint64_t dice = sm__random_below(&m->random, 100);

	if (dice < 40)
		do_store(m);
	else if (dice < 60)
		do_erase(m);
	else if (dice < 70)
		do_insert(m);
	else if (dice < 85)
		do_steps(m);
	else if (dice < 99)
		do_load(m);
	else if (m->bits <= 12 || sm__random_below(&m->random, 64) == 0)
		do_gap(m, sm__random_below(&m->random, 2));
}

static void run(unsigned int bits, uint64_t steps, uint64_t seed)
{
	struct twin m = { .bits = bits, .keys = (size_t)1 << bits, .seed = seed };
	uint64_t every = bits > 16 ? 20000 : 1000;

	m.value = calloc(m.keys, sizeof(*m.value));
	assert_non_null(m.value);
	m.pool = sm_maple_pool_create(NULL);
	assert_non_null(m.pool);
	assert_int_equal(sm_maple_init(&m.tree, m.pool), 0);
	sm__random_seed(&m.random, seed);
	for (m.step = 0; m.step < steps; m.step++) {
		if (m.step % 4096 == 0) {
			/* Phases of growth and of decay, of short ranges and of long ones. */
			m.fill = m.step % 16384 < 8192 || bits > 16 ? 92 : 35;
			m.length = 1 + (unsigned int)sm__random_below(&m.random, 6);
		}
		one_step(&m);
		if (sm_maple_height(&m.tree) > m.max_height)
			m.max_height = sm_maple_height(&m.tree);
		if (m.step % every == 0)
			compare_map(&m, &m.tree);
		if (m.step % (50 * every) == 0)
			compare_copy(&m);
	}
	compare_map(&m, &m.tree);
	printf("2^%u places, %" PRIu64 " operations, seed %" PRIu64 ": height up to %u\n", bits,
	       steps, seed, m.max_height);
	sm_maple_destroy(&m.tree);
	assert_int_equal(sm_maple_pool_destroy(m.pool), 0);
	free(m.value);
}

/* Height 5 needs a hundred thousand ranges: loaded at once, then worked on. */
static void run_tall(uint64_t steps, uint64_t seed)
{
	struct twin m = {
		.bits = 19, .keys = (size_t)1 << 19, .seed = seed, .fill = 60, .length = 2
	};
	struct sm_maple_range *ranges = calloc(m.keys / 2, sizeof(*ranges));

	m.value = calloc(m.keys, sizeof(*m.value));
	assert_non_null(m.value);
	assert_non_null(ranges);
	m.pool = sm_maple_pool_create(NULL);
	assert_int_equal(sm_maple_init(&m.tree, m.pool), 0);
	sm__random_seed(&m.random, seed);
	for (size_t i = 0; i < m.keys / 2; i++) {
		m.value[2 * i] = new_value(&m);
		ranges[i] = (struct sm_maple_range){ first_key(&m, 2 * i), last_key(&m, 2 * i),
						     pointer(m.next_value) };
	}
	assert_int_equal(sm_maple_load_sorted(&m.tree, ranges, m.keys / 2), 0);
	free(ranges);
	compare_map(&m, &m.tree);
	m.max_height = sm_maple_height(&m.tree);
	for (m.step = 0; m.step < steps; m.step++) {
		one_step(&m);
		if (sm_maple_height(&m.tree) > m.max_height)
			m.max_height = sm_maple_height(&m.tree);
		if (m.step % 20000 == 0)
			compare_map(&m, &m.tree);
	}
	compare_map(&m, &m.tree);
	compare_copy(&m);
	printf("loaded 2^18 ranges, %" PRIu64 " operations: height up to %u\n", steps,
	       m.max_height);
	assert_int_equal(m.max_height, 5);
	sm_maple_destroy(&m.tree);
	assert_int_equal(sm_maple_pool_destroy(m.pool), 0);
	free(m.value);
}

static uint64_t seed(void)
{
	const char *s = getenv("MAPLE_SEED");

	return s ? strtoull(s, NULL, 0) : 1;
}

#define MODEL_TEST(name, bits, share)                                                  \
	static void name(void **state)                                                 \
	{                                                                              \
		(void)state;                                                           \
		run(bits, (uint64_t)MODEL_OPERATIONS *(share) / 100, seed() + (bits)); \
	}

MODEL_TEST(test_tiny, 3, 5)
MODEL_TEST(test_one_leaf, 5, 10)
MODEL_TEST(test_small, 8, 25)
MODEL_TEST(test_medium, 11, 25)
MODEL_TEST(test_large, 14, 20)
MODEL_TEST(test_huge, 17, 10)

static void test_tall(void **state)
{
	(void)state;
	run_tall((uint64_t)MODEL_OPERATIONS * 5 / 100, seed());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tiny),  cmocka_unit_test(test_one_leaf),
		cmocka_unit_test(test_small), cmocka_unit_test(test_medium),
		cmocka_unit_test(test_large), cmocka_unit_test(test_huge),
		cmocka_unit_test(test_tall),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
