/* SPDX-License-Identifier: MIT */
/* The calls of samara/cache.h, one by one. */
#include <samara/cache.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { MANY = 5000 };

static void objects_are_distinct_and_aligned(void **state)
{
	struct sm_cache *c = sm_cache_create(
		&(struct sm_cache_options){ .name = "t", .size = 200, .align = 64 });
	static char *p[MANY];

	(void)state;
	assert_non_null(c);
	for (int i = 0; i < MANY; i++) {
		p[i] = sm_cache_alloc(c);
		assert_non_null(p[i]);
		assert_int_equal((uintptr_t)p[i] % 64, 0);
		memset(p[i], i, 200);
	}
	for (int i = 0; i < MANY; i++) {
		for (int j = 0; j < 200; j++)
			assert_int_equal((unsigned char)p[i][j], i & 0xff);
	}
	assert_int_equal(sm_cache_destroy(c), -EBUSY);
	for (int i = 0; i < MANY; i += 2)
		sm_cache_free(c, p[i]);
	for (int i = 1; i < MANY; i += 2)
		sm_cache_free_rcu(c, p[i]);
	assert_int_equal(sm_cache_destroy(c), 0);
}

static void borrowed_objects_are_promised(void **state)
{
	struct sm_cache *c = sm_cache_create(&(struct sm_cache_options){ .size = 256 });
	struct sm_sheaf *s = sm_cache_borrow(c, 100);
	void *p[150];

	(void)state;
	assert_non_null(s);
	for (int i = 0; i < 50; i++)
		assert_non_null(p[i] = sm_sheaf_take(s));
	assert_int_equal(sm_sheaf_refill(c, &s, 100), 0);
	for (int i = 50; i < 150; i++)
		assert_non_null(p[i] = sm_sheaf_take(s));
	sm_sheaf_return(c, s);
	sm_cache_free_bulk(c, 150, p);
	assert_int_equal(sm_cache_destroy(c), 0);
}

static void absurd_options_are_named(void **state)
{
	static const struct {
		struct sm_cache_options options;
		const char *names;
	} absurd[] = {
		{ { .size = 0 }, "size" },
		{ { .size = SM_CACHE_SIZE_MAX + 1 }, "size" },
		{ { .size = 8, .align = 48 }, "align" },
		{ { .size = 8, .align = 8192 }, "align" },
		{ { .size = 8, .capacity = SM_CACHE_CAPACITY_MAX + 1 }, "capacity" },
		{ { .size = 8, .barn_full = SM_CACHE_BARN_MAX + 1 }, "barn_full" },
		{ { .size = 8, .barn_empty = SM_CACHE_BARN_MAX + 1 }, "barn_empty" },
		{ { .size = 8, .rcu_age_ms = SM_CACHE_AGE_MAX + 1 }, "rcu_age_ms" },
		{ { .size = 8, .fake_nodes = SM_CACHE_FAKE_NODES_MAX + 1 }, "fake_nodes" },
		{ { .size = 8, .layer = (enum sm_cache_layer)7 }, "layer" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(absurd) / sizeof(absurd[0]); i++) {
		errno = 0;
		assert_null(sm_cache_create(&absurd[i].options));
		assert_int_equal(errno, EINVAL);
		assert_non_null(strstr(sm_cache_error(), absurd[i].names));
	}
	errno = 0;
	assert_null(sm_cache_create(NULL));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(sm_cache_destroy(NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_are_distinct_and_aligned),
		cmocka_unit_test(borrowed_objects_are_promised),
		cmocka_unit_test(absurd_options_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
