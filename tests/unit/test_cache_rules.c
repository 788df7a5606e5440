/* SPDX-License-Identifier: MIT */
/*
 * What went wrong in caches of this design elsewhere, each as a test, with restartable sequences and with
 * the trylock; after every step the books are checked (internal.h I1). Grace periods, threads and wrong
 * frees have files of their own: test_cache_grace.c, test_cache_threads.c, test_cache_misuse.c.
 */
#include "cache_world.h"

/* The flush of rcu sheaves that find the barn full goes to the slabs and nowhere else (I4). */
static void flush_does_not_come_back(void **state)
{
	struct sm_cache *c = make((struct sm_cache_options){ .capacity = 4, .barn_full = 1 });
	struct sm_cache_stats before, after;
	static void *p[MANY];

	(void)state;
	alloc_n(c, p, MANY);
	check(c, MANY);
	before = stats(c);
	free_rcu_n(c, p, MANY);
	sm_cache_barrier(c);
	check(c, 0);
	after = stats(c);
	assert_int_equal(after.free_fastpath, before.free_fastpath);
	assert_true(after.sheaf_flush >= MANY - 100);
	assert_int_equal(after.rcu_in_flight, 0);
	before = after;
	sm_cache_shrink(c);
	check(c, 0);
	after = stats(c);
	assert_int_equal(after.free_fastpath, before.free_fastpath);
	assert_int_equal(after.objects_taken, 0);
	assert_int_equal(after.slabs, 0);
	assert_int_equal(sm_cache_destroy(c), 0);
}

/* A returned sheaf is kept: as spare, then in the barn; nothing is flushed. */
static void returned_sheaves_are_kept(void **state)
{
	struct sm_cache *c = make((struct sm_cache_options){ .capacity = 16 });
	struct sm_sheaf *a = sm_cache_borrow(c, 10), *b = sm_cache_borrow(c, 10);
	void *p;
	struct sm_cache_stats s;

	(void)state;
	check(c, sm_sheaf_size(a) + sm_sheaf_size(b));
	p = sm_sheaf_take(a);
	check(c, 1 + sm_sheaf_size(a) + sm_sheaf_size(b));
	sm_sheaf_return(c, a);
	check(c, 1 + sm_sheaf_size(b));
	sm_sheaf_return(c, b);
	check(c, 1);
	s = stats(c);
	assert_int_equal(s.sheaf_return_fast, 1);
	assert_int_equal(s.sheaf_return_slow, 1);
	assert_int_equal(s.sheaf_flush, 0);
	assert_int_equal(s.sheaves_full, 1);
	a = sm_cache_borrow(c, 10);
	s = stats(c);
	assert_int_equal(s.sheaf_prefill_fast, 1);
	assert_int_equal(sm_sheaf_size(a), 15);
	assert_int_equal(sm_cache_destroy(c), -EBUSY);
	sm_sheaf_return(c, a);
	assert_int_equal(sm_cache_destroy(c), -EBUSY); /* p is out */
	sm_cache_free(c, p);
	assert_int_equal(sm_cache_destroy(c), 0);
}

static void empty_borrowed_sheaf_holds_the_cache(void **state)
{
	struct sm_cache *c = make((struct sm_cache_options){ .capacity = 4 });
	struct sm_sheaf *s = sm_cache_borrow(c, 4);
	void *p[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		p[i] = sm_sheaf_take(s);
	assert_null(sm_sheaf_take(s));
	free_n(c, p, 4);
	assert_int_equal(sm_cache_destroy(c), -EBUSY);
	sm_sheaf_return(c, s);
	assert_int_equal(sm_cache_destroy(c), 0);
}

/* A refill that fails half way loses nothing: every point below fails in turn. */
static void half_a_refill_leaks_nothing(void **state)
{
	(void)state;
	for (int layer = 0; layer < 2; layer++) {
		for (uint64_t nth = 1; nth < 12; nth++) {
			/* 16 objects of 4 KiB in a slab: 40 need three slabs */
			struct sm_cache *c = make(
				(struct sm_cache_options){ .size = 4096,
							   .capacity = 40,
							   .layer = (enum sm_cache_layer)layer });
			struct sm_sheaf *s;

			sm__inject_arm_below_from(nth);
			s = sm_cache_borrow(c, 40);
			sm__inject_disarm();
			check(c, s ? sm_sheaf_size(s) : 0);
			if (s)
				assert_true(sm_sheaf_size(s) >= 40);
			sm_sheaf_return(c, s);
			check(c, 0);
			assert_int_equal(sm_cache_destroy(c), 0);
		}
	}
}

static void failed_refill_keeps_the_sheaf(void **state)
{
	struct sm_cache *c = make((struct sm_cache_options){ .capacity = 8 });
	struct sm_sheaf *s = sm_cache_borrow(c, 3), *old = s;
	void *p = sm_sheaf_take(s);
	size_t left = sm_sheaf_size(s);

	(void)state;
	sm__inject_arm_from(1);
	assert_int_equal(sm_sheaf_refill(c, &s, left), 0); /* enough already */
	assert_int_equal(sm_sheaf_refill(c, &s, 8), -ENOMEM);
	assert_ptr_equal(s, old);
	assert_int_equal(sm_sheaf_size(s), left);
	assert_int_equal(sm_sheaf_refill(c, &s, 100), -ENOMEM);
	assert_ptr_equal(s, old);
	assert_int_equal(sm_sheaf_size(s), left);
	sm__inject_disarm();
	assert_int_equal(sm_sheaf_refill(c, &s, 100), 0);
	assert_true(sm_sheaf_size(s) >= 100);
	check(c, 1 + sm_sheaf_size(s));
	sm_sheaf_return(c, s);
	sm_cache_free(c, p);
	check(c, 0);
	assert_int_equal(sm_cache_destroy(c), 0);
}

static void oversize_gives_exactly_what_was_asked(void **state)
{
	struct sm_cache *c = make((struct sm_cache_options){ .capacity = 8 });
	struct sm_sheaf *s = sm_cache_borrow(c, 100);
	void *p[100];

	(void)state;
	for (int i = 0; i < 100; i++)
		assert_non_null(p[i] = sm_sheaf_take(s));
	assert_null(sm_sheaf_take(s));
	check(c, 100);
	assert_int_equal(stats(c).sheaf_prefill_oversize, 1);
	sm_sheaf_return(c, s);
	free_n(c, p, 100);
	assert_null(sm_cache_borrow(c, (size_t)1 << 40));
	check(c, 0);
	assert_int_equal(sm_cache_destroy(c), 0);
}

static void works_without_barns(void **state)
{
	struct sm_cache *c = make((struct sm_cache_options){ .capacity = 8, .no_barn = true });
	static void *p[MANY];
	struct sm_sheaf *s;

	(void)state;
	for (int round = 0; round < 3; round++) {
		alloc_n(c, p, MANY);
		check(c, MANY);
		free_n(c, p, MANY / 2);
		check(c, MANY / 2);
		free_rcu_n(c, p + MANY / 2, MANY / 2);
		sm_cache_barrier(c);
		check(c, 0);
		s = sm_cache_borrow(c, 8);
		assert_non_null(s);
		check(c, sm_sheaf_size(s));
		sm_sheaf_return(c, s);
		check(c, 0);
	}
	assert_int_equal(stats(c).barn_get, 0);
	assert_int_equal(stats(c).barn_put, 0);
	assert_int_equal(sm_cache_destroy(c), 0);
}

/* I5: the same sheaves are borrowed, in the barn, in flight, and borrowed again. */
static void one_sheaf_in_all_places(void **state)
{
	struct sm_cache *c =
		make((struct sm_cache_options){ .capacity = 4, .barn_full = 2, .barn_empty = 2 });
	struct sm_sheaf *s[3];
	void *p[12];

	(void)state;
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 3; i++) {
			s[i] = sm_cache_borrow(c, i == 2 ? 6 : 4);
			for (int j = 0; j < 4; j++)
				p[4 * i + j] = sm_sheaf_take(s[i]);
		}
		check(c, 12 + sm_sheaf_size(s[0]) + sm_sheaf_size(s[1]) + sm_sheaf_size(s[2]));
		for (int i = 0; i < 3; i++)
			sm_sheaf_return(c, s[i]);
		check(c, 12);
		free_rcu_n(c, p, 12);
		if (round % 3 == 0)
			sm_cache_barrier(c);
	}
	sm_cache_barrier(c);
	check(c, 0);
	assert_true(stats(c).sheaf_alloc - stats(c).sheaf_free <= 12);
	assert_int_equal(sm_cache_destroy(c), 0);
}

static int constructed;

static void construct(void *object)
{
	memset(object, 0x42, SIZE);
	constructed++;
}

static void constructor_runs_once_per_object(void **state)
{
	struct sm_cache *c =
		make((struct sm_cache_options){ .type_stable = true, .ctor = construct });
	unsigned char *p = sm_cache_alloc(c);
	int before = constructed;

	(void)state;
	assert_int_equal(p[100], 0x42);
	p[100] = 7;
	sm_cache_free(c, p);
	assert_ptr_equal(sm_cache_alloc(c), p);
	assert_int_equal(p[100], 7);
	assert_int_equal(constructed, before);
	sm_cache_free(c, p);
	assert_int_equal(sm_cache_destroy(c), 0);
}

/* Objects of another node go home, one by one, in bulk and through RCU. */
static void remote_frees_go_home(void **state)
{
	struct sm_cache *c = make((struct sm_cache_options){ .fake_nodes = 2, .rcu_age_ms = 1000 });
	static void *p[300];

	(void)state;
	if (sm__percpu_cpu() != 0 || sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip();
	alloc_n(c, p, 300);
	check(c, 300);
	pin(1);
	free_n(c, p, 100);
	assert_int_equal(stats(c).free_remote, 100);
	check(c, 200);
	sm_cache_free_bulk(c, 100, p + 100);
	assert_int_equal(stats(c).free_remote, 200);
	check(c, 100);
	free_rcu_n(c, p + 200, 100);
	assert_int_equal(stats(c).free_rcu_sheaf_fail, 100);
	sm_cache_barrier(c);
	check(c, 0);
	pin(0);
	assert_int_equal(sm_cache_destroy(c), 0);
}

static void bulk_takes_and_gives(void **state)
{
	static void *p[1000];

	(void)state;
	for (int layer = 0; layer < 2; layer++) {
		struct sm_cache *c = make((struct sm_cache_options){
			.capacity = 16, .layer = (enum sm_cache_layer)layer });

		for (size_t n = 1; n <= 1000; n = n * 3 + 1) {
			assert_int_equal(sm_cache_alloc_bulk(c, n, p), n);
			check(c, n);
			for (size_t i = 0; i < n; i++)
				*(size_t *)p[i] = i;
			for (size_t i = 0; i < n; i++)
				assert_int_equal(*(size_t *)p[i], i);
			if (n > 5) {
				sm_cache_free(c, p[3]);
				p[3] = NULL; /* is skipped */
			}
			sm_cache_free_bulk(c, n, p);
			check(c, 0);
		}
		assert_int_equal(sm_cache_destroy(c), 0);
	}
}

/* Every point below fails in turn, in a sequence that uses all calls; nothing is lost, nothing hangs. */
static void every_point_below_fails_in_turn(void **state)
{
	static void *p[200];

	(void)state;
	for (uint64_t nth = 1; nth < 60; nth++) {
		struct sm_cache *c = make((struct sm_cache_options){
			.capacity = 4,
			.layer = nth % 3 ? SM_CACHE_LAYER_SHEAF : SM_CACHE_LAYER_SLAB });
		struct sm_sheaf *s;
		size_t n = 0, outside;

		sm__inject_arm_below_from(nth);
		for (int i = 0; i < 100; i++) {
			p[n] = sm_cache_alloc(c);
			n += p[n] != NULL;
		}
		n += sm_cache_alloc_bulk(c, 50, p + n);
		s = sm_cache_borrow(c, 20);
		outside = s ? sm_sheaf_size(s) : 0;
		check(c, n + outside);
		while (n > 100)
			sm_cache_free(c, p[--n]);
		while (n > 50)
			sm_cache_free_rcu(c, p[--n]);
		sm_cache_barrier(c);
		check(c, n + outside);
		sm_sheaf_return(c, s);
		sm_cache_free_bulk(c, n, p);
		sm__inject_disarm();
		check(c, 0);
		assert_int_equal(sm_cache_destroy(c), 0);
	}
}

static void shapes(void **state)
{
	static const size_t sizes[] = { 1, 8, 16, 24, 100, 256, 1000, 4096, 70000, 131072 };

	(void)state;
	for (size_t i = 0; i < SM__ARRAY_SIZE(sizes); i++) {
		for (size_t align = 0; align <= 4096; align = align ? align * 16 : 1) {
			struct sm_cache *c =
				make((struct sm_cache_options){ .size = sizes[i], .align = align });
			static char *p[300];

			for (int j = 0; j < 300; j++) {
				p[j] = sm_cache_alloc(c);
				assert_non_null(p[j]);
				if (align)
					assert_int_equal((uintptr_t)p[j] % align, 0);
				memset(p[j], j, sizes[i]);
			}
			for (int j = 0; j < 300; j++) {
				assert_int_equal((unsigned char)p[j][0], j & 0xff);
				assert_int_equal((unsigned char)p[j][sizes[i] - 1], j & 0xff);
			}
			check(c, 300);
			free_n(c, (void **)p, 300);
			check(c, 0);
			assert_int_equal(sm_cache_destroy(c), 0);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(flush_does_not_come_back),
		BOTH(returned_sheaves_are_kept),
		BOTH(empty_borrowed_sheaf_holds_the_cache),
		BOTH(half_a_refill_leaks_nothing),
		BOTH(failed_refill_keeps_the_sheaf),
		BOTH(oversize_gives_exactly_what_was_asked),
		BOTH(works_without_barns),
		BOTH(one_sheaf_in_all_places),
		BOTH(constructor_runs_once_per_object),
		BOTH(remote_frees_go_home),
		BOTH(bulk_takes_and_gives),
		BOTH(every_point_below_fails_in_turn),
		BOTH(shapes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
