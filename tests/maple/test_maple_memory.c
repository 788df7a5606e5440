/* SPDX-License-Identifier: MIT */
/*
 * test_maple_memory.c - every allocation fails in turn: the call says -ENOMEM, the tree is as it
 * was, and nothing is lost (I1 of write.c, rebuild.c and copy.c). What was put aside before does
 * not fail.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/inject.h"
#include "base/random.h"
#include "maple/check.h"

enum { PLACES = 2048 };

static struct sm_maple_pool *pool;

struct map {
	struct sm_maple tree;
	uintptr_t value[PLACES];
};

static void compare(struct sm_maple *t, const uintptr_t *value)
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
	for (; at < PLACES; at++)
		assert_int_equal(value[at], 0);
}

static void fill(struct map *m, unsigned int n, struct sm__random *r)
{
	assert_int_equal(sm_maple_init(&m->tree, pool), 0);
	memset(m->value, 0, sizeof(m->value));
	for (unsigned int i = 0; i < n; i++) {
		unsigned int at = (unsigned int)sm__random_below(r, PLACES);

		m->value[at] = 0x1000 + 8 * i;
		assert_int_equal(sm_maple_store(&m->tree, at, (void *)m->value[at]), 0);
	}
}

/* The store is tried with the first, second, ... allocation failing until it gets through. */
static unsigned int store_until_done(struct map *m, uint64_t first, uint64_t last, uintptr_t v)
{
	unsigned int failures = 0;

	for (;;) {
		struct sm_cursor c;
		int ret;

		sm_cursor_init(&c, &m->tree, first, last);
		sm__inject_arm(failures + 1);
		ret = sm_cursor_store(&c, (void *)v);
		sm__inject_disarm();
		if (!ret)
			break;
		assert_int_equal(ret, -ENOMEM);
		assert_true(sm_cursor_is_error(&c));
		assert_int_equal(c.error, -ENOMEM);
		assert_true(c.index == first && c.last == last);
		assert_null(sm_cursor_next(&c, UINT64_MAX));
		failures++;
		if (failures % 4 == 1)
			compare(&m->tree, m->value);
	}
	for (uint64_t i = first; i <= last; i++)
		m->value[i] = v;
	return failures;
}

static void test_stores(void **state)
{
	unsigned int failures = 0, most = 0, n;
	struct sm__random r;
	struct map m;

	(void)state;
	sm__random_seed(&r, 11);
	fill(&m, 900, &r);
	for (unsigned int i = 0; i < 1500; i++) {
		uint64_t first = sm__random_below(&r, PLACES);
		uint64_t length = sm__random_below(&r, i % 10 ? 4 : 200), last = first + length;

		if (last >= PLACES)
			last = PLACES - 1;
		n = store_until_done(&m, first, last, i % 3 ? 0x100000 + 8 * i : 0);
		failures += n;
		most = n > most ? n : most;
	}
	compare(&m.tree, m.value);
	print_message("%u failures, up to %u in one store\n", failures, most);
	assert_true(most >= 5);
	sm_maple_destroy(&m.tree);
}

static void test_erase(void **state)
{
	struct sm__random r;
	struct map m;

	(void)state;
	sm__random_seed(&r, 12);
	fill(&m, 1200, &r);
	for (unsigned int i = 0; i < 1000; i++) {
		uint64_t at = sm__random_below(&r, PLACES);
		unsigned int n = 0;
		void *old = &m;
		int ret;

		do {
			sm__inject_arm(++n);
			ret = sm_maple_erase(&m.tree, at, &old);
			sm__inject_disarm();
			if (ret) {
				assert_int_equal(ret, -ENOMEM);
				assert_null(old);
				assert_ptr_equal(sm_maple_load(&m.tree, at), m.value[at]);
			}
		} while (ret);
		assert_ptr_equal(old, m.value[at]);
		m.value[at] = 0;
		if (i % 50 == 0)
			compare(&m.tree, m.value);
	}
	compare(&m.tree, m.value);
	sm_maple_destroy(&m.tree);
}

/* After a successful preallocate or expect all allocations fail, and the stores do not. */
static void test_put_aside(void **state)
{
	struct sm__random r;
	struct sm_cursor c;
	struct map m;

	(void)state;
	sm__random_seed(&r, 13);
	fill(&m, 900, &r);
	for (unsigned int i = 0; i < 1500; i++) {
		uint64_t first = sm__random_below(&r, PLACES);
		uint64_t last = first + sm__random_below(&r, i % 10 ? 4 : 200);
		uintptr_t v = i % 3 ? 0x100000 + 8 * i : 0;
		unsigned int n = 0;

		if (last >= PLACES)
			last = PLACES - 1;
		sm_cursor_init_writer(&c, &m.tree, first, last);
		if (i % 2) {
			do {
				sm__inject_arm(++n);
			} while (sm_cursor_preallocate(&c, (void *)v));
			sm__inject_arm_from(1);
			sm_cursor_store_prealloc(&c, (void *)v);
			sm__inject_disarm();
		} else {
			do {
				sm__inject_arm(++n);
			} while (sm_cursor_expect(&c, 2));
			sm__inject_arm_from(1);
			assert_int_equal(sm_cursor_store(&c, &m), 0);
			sm_cursor_set_range(&c, first, last);
			assert_int_equal(sm_cursor_store(&c, (void *)v), 0);
			sm__inject_disarm();
			sm_cursor_release(&c);
		}
		assert_null(c.spare[0]);
		assert_null(c.spare[1]);
		for (uint64_t k = first; k <= last; k++)
			m.value[k] = v;
		if (i % 50 == 0)
			compare(&m.tree, m.value);
	}
	sm_maple_destroy(&m.tree);
}

static void test_copy(void **state)
{
	unsigned int failures = 0;
	struct sm__random r;
	struct sm_maple copy;
	struct map m;
	int ret;

	(void)state;
	sm__random_seed(&r, 14);
	fill(&m, 1500, &r);
	assert_int_equal(sm_maple_init(&copy, pool), 0);
	do {
		sm__inject_arm(++failures);
		ret = sm_maple_copy(&copy, &m.tree);
		sm__inject_disarm();
		assert_true(ret == 0 || ret == -ENOMEM);
		assert_true(ret == 0 || sm_maple_empty(&copy));
	} while (ret);
	assert_true(failures > 100);
	compare(&copy, m.value);
	assert_int_equal(sm_maple_copy(&copy, &m.tree), -EEXIST);
	/* Each goes its own way. */
	assert_int_equal(sm_maple_store_range(&copy, 0, PLACES - 1, NULL), 0);
	compare(&m.tree, m.value);
	sm_maple_destroy(&copy);
	sm_maple_destroy(&m.tree);
}

static void test_load_sorted(void **state)
{
	static struct sm_maple_range ranges[1000];
	unsigned int failures = 0;
	struct sm_maple t;
	int ret;

	(void)state;
	for (size_t i = 0; i < 1000; i++)
		ranges[i] = (struct sm_maple_range){ 2 * i, 2 * i, &ranges[i] };
	assert_int_equal(sm_maple_init(&t, pool), 0);
	do {
		sm__inject_arm(++failures);
		ret = sm_maple_load_sorted(&t, ranges, 1000);
		sm__inject_disarm();
		assert_true(ret == 0 || (ret == -ENOMEM && sm_maple_empty(&t)));
	} while (ret);
	assert_true(failures > 100);
	assert_null(sm_maple_validate(&t));
	sm_maple_destroy(&t);
}

static void test_pool(void **state)
{
	struct sm_maple_pool_options o = { .node_free = (enum sm_maple_node_free)7 };
	struct sm_maple_pool *p = NULL;
	struct sm_maple t;

	(void)state;
	assert_null(sm_maple_pool_create(&o));
	assert_int_equal(errno, EINVAL);
	for (unsigned int n = 1; !p; n++) {
		sm__inject_arm(n);
		p = sm_maple_pool_create(NULL);
		sm__inject_disarm();
		assert_true(p || errno == ENOMEM);
	}
	assert_int_equal(sm_maple_init(&t, p), 0);
	assert_int_equal(sm_maple_store(&t, 1, &t), 0);
	assert_int_equal(sm_maple_pool_destroy(p), -EBUSY);
	sm_maple_destroy(&t);
	assert_int_equal(sm_maple_pool_destroy(p), 0);
	assert_int_equal(sm_maple_pool_destroy(NULL), 0);
	/* Each way to free nodes, and a tree with a pool of its own. */
	for (int f = SM_MAPLE_FREE_SHEAF; f <= SM_MAPLE_FREE_NOW; f++) {
		for (int slab = 0; slab < 2; slab++) {
			o = (struct sm_maple_pool_options){ .node_free = (enum sm_maple_node_free)f,
							    .slab_layer = slab };
			p = sm_maple_pool_create(&o);
			assert_non_null(p);
			assert_int_equal(sm_maple_init(&t, p), 0);
			for (uint64_t i = 0; i < 3000; i++)
				assert_int_equal(sm_maple_store(&t, (i * 7919) % 2000, &t), 0);
			for (uint64_t i = 0; i < 1000; i++)
				assert_int_equal(sm_maple_erase(&t, 2 * i, NULL), 0);
			assert_null(sm_maple_validate(&t));
			sm_maple_pool_barrier(p);
			sm_maple_destroy(&t);
			assert_int_equal(sm_maple_pool_destroy(p), 0);
		}
	}
	assert_int_equal(sm_maple_init(&t, NULL), 0);
	assert_int_equal(sm_maple_store(&t, 1, &t), 0);
	sm_maple_destroy(&t);
}

static int setup(void **state)
{
	(void)state;
	pool = sm_maple_pool_create(NULL);
	return pool ? 0 : -1;
}

/* The caches are destroyed only if every node came back: nothing leaked. */
static int teardown(void **state)
{
	(void)state;
	return sm_maple_pool_destroy(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stores),	    cmocka_unit_test(test_erase),
		cmocka_unit_test(test_put_aside),   cmocka_unit_test(test_copy),
		cmocka_unit_test(test_load_sorted), cmocka_unit_test(test_pool),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
