/* SPDX-License-Identifier: MIT */
/* test_frames.c - the frame pool (frame.h I1 to I4, buddy.c I1, I2). */
#include "base/inject.h"
#include "base/random.h"
#include "memory/frame.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static struct sm__pool *make(bool is_private, uint64_t mib)
{
	struct sm__pool_options o = { .bytes = mib << 20,
				      .page_shift = 12,
				      .is_private = is_private };
	struct sm__pool *pool;

	assert_int_equal(sm__pool_create(&o, &pool), 0);
	return pool;
}

static void assert_zero(struct sm__pool *pool, uint32_t pfn)
{
	const uint64_t *p = sm__frame_ptr(pool, pfn);

	for (size_t i = 0; i < sm__page_size(pool) / 8; i++)
		assert_int_equal(p[i], 0);
}

static void a_freed_frame_comes_back_first_and_zeroed(void **state)
{
	struct sm__pool *pool = make(false, 4);
	uint32_t a = sm__frame_alloc(pool, SM__ALLOC_ZERO), b;

	(void)state;
	assert_true(a > 0);
	assert_zero(pool, a);
	memset(sm__frame_ptr(pool, a), 0xaa, 4096);
	sm__frame_put(pool, a);
	b = sm__frame_alloc(pool, SM__ALLOC_ZERO);
	assert_zero(pool, b);
	sm__frame_put(pool, b);
	assert_true(sm__pool_is_valid(pool));
	assert_int_equal(sm__pool_destroy(pool), 0);
}

static void exhaustion_is_an_answer_and_nothing_is_lost(void **state)
{
	struct sm__pool *pool = make(true, 4);
	uint32_t got[1024], n = 0;

	(void)state;
	while ((got[n] = sm__frame_alloc(pool, 0)))
		n++;
	assert_int_equal(n, 1023);
	assert_int_equal(sm__frame_alloc_order(pool, 3, 0), 0);
	for (uint32_t i = 0; i < n; i++)
		sm__frame_put(pool, got[i]);
	assert_true(sm__pool_is_valid(pool));
	/* All of it forms blocks again: the upper 2 MiB whole. */
	got[0] = sm__frame_alloc_order(pool, SM__MAX_ORDER, SM__ALLOC_ZERO);
	assert_int_equal(got[0], 512);
	assert_zero(pool, 512 + 511);
	for (uint32_t i = 0; i < 512; i++)
		sm__frame_put(pool, 512 + i);
	assert_int_equal(sm__pool_destroy(pool), 0);
}

static void random_orders_keep_the_lists_whole(void **state)
{
	struct sm__pool *pool = make(false, 16);
	struct {
		uint32_t pfn;
		unsigned order;
	} held[200] = { { 0 } };
	struct sm__random rng;

	(void)state;
	sm__random_seed(&rng, 1);
	for (int step = 0; step < 4000; step++) {
		unsigned i = (unsigned)sm__random_below(&rng, SM__ARRAY_SIZE(held));

		if (held[i].pfn) {
			for (uint32_t k = 0; k < 1u << held[i].order; k++)
				sm__frame_put(pool, held[i].pfn + k);
			held[i].pfn = 0;
		} else {
			held[i].order = (unsigned)sm__random_below(&rng, 7);
			held[i].pfn = sm__frame_alloc_order(pool, held[i].order, SM__ALLOC_ZERO);
			if (held[i].pfn)
				assert_zero(pool, held[i].pfn);
			if (held[i].pfn)
				memset(sm__frame_ptr(pool, held[i].pfn), 1, 4096u << held[i].order);
		}
		if (step % 100 == 0)
			assert_true(sm__pool_is_valid(pool));
	}
	for (unsigned i = 0; i < SM__ARRAY_SIZE(held); i++)
		for (uint32_t k = 0; held[i].pfn && k < 1u << held[i].order; k++)
			sm__frame_put(pool, held[i].pfn + k);
	assert_true(sm__pool_is_valid(pool));
	assert_int_equal(sm__pool_destroy(pool), 0);
}

static void taken_again_it_is_zero(struct sm__pool *pool, uint32_t *got, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		got[i] = sm__frame_alloc(pool, SM__ALLOC_ZERO);
		assert_zero(pool, got[i]);
	}
	for (uint32_t i = 0; i < n; i++)
		sm__frame_put(pool, got[i]);
}

static void trim_gives_memory_back_as_zero(void **state)
{
	for (int kind = 0; kind < 2; kind++) {
		struct sm__pool *pool = make(kind, 8);
		uint32_t got[1500], n = 0;

		(void)state;
		for (; n < 1500; n++) {
			got[n] = sm__frame_alloc(pool, 0);
			memset(sm__frame_ptr(pool, got[n]), 7, 4096);
		}
		sm__frame_free(pool, (sm__frame_drop(sm__frame(pool, got[0])), got[0]));
		for (uint32_t i = 1; i < n; i++)
			sm__frame_put(pool, got[i]);
		assert_true(sm__pool_trim(pool) >= 4u << 20);
		assert_int_equal(sm__pool_trim(pool), 0);
		assert_true(sm__pool_is_valid(pool));
		taken_again_it_is_zero(pool, got, n);
		assert_int_equal(sm__pool_destroy(pool), 0);
	}
}

static void a_poisoned_frame_never_returns(void **state)
{
	struct sm__pool *pool = make(false, 2);
	uint32_t got[600], n = 0, bad = sm__frame_alloc(pool, 0);

	(void)state;
	sm__frame_set(sm__frame(pool, bad), SM__F_POISON);
	sm__frame_put(pool, bad);
	while ((got[n] = sm__frame_alloc(pool, 0)))
		assert_true(got[n++] != bad);
	assert_int_equal(n, 510);
	for (uint32_t i = 0; i < n; i++)
		sm__frame_put(pool, got[i]);
	assert_true(sm__pool_is_valid(pool));
	assert_int_equal(sm__pool_destroy(pool), 0);
}

static void creation_may_fail(void **state)
{
	struct sm__pool_options o = { .bytes = 0, .page_shift = 12 };
	struct sm__pool *pool;

	(void)state;
	assert_int_equal(sm__pool_create(&o, &pool), -EINVAL);
	o.bytes = UINT64_MAX;
	assert_int_equal(sm__pool_create(&o, &pool), -EINVAL);
	o.bytes = 1 << 20;
	sm__inject_arm(1);
	assert_int_equal(sm__pool_create(&o, &pool), -ENOMEM);
	sm__inject_disarm();
	assert_null(pool);
}

/* As freed page tables are: zero, but not without memory. */
static void trim_gives_zeroed_memory_back_too(void **state)
{
	(void)state;
	for (int kind = 0; kind < 2; kind++) {
		struct sm__pool *pool = make(kind, 8);
		uint32_t got[1500], n = 0;

		(void)sm__pool_trim(pool);
		for (; n < 1500; n++) {
			got[n] = sm__frame_alloc(pool, SM__ALLOC_ZERO);
			memset(sm__frame_ptr(pool, got[n]), 7, 4096);
			memset(sm__frame_ptr(pool, got[n]), 0, 4096);
		}
		for (uint32_t i = 0; i < n; i++)
			sm__frame_put_clean(pool, got[i]);
		assert_true(sm__pool_trim(pool) >= 4u << 20);
		assert_int_equal(sm__pool_trim(pool), 0);
		assert_true(sm__pool_is_valid(pool));
		taken_again_it_is_zero(pool, got, n);
		assert_int_equal(sm__pool_destroy(pool), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_freed_frame_comes_back_first_and_zeroed),
		cmocka_unit_test(exhaustion_is_an_answer_and_nothing_is_lost),
		cmocka_unit_test(random_orders_keep_the_lists_whole),
		cmocka_unit_test(trim_gives_memory_back_as_zero),
		cmocka_unit_test(trim_gives_zeroed_memory_back_too),
		cmocka_unit_test(a_poisoned_frame_never_returns),
		cmocka_unit_test(creation_may_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
