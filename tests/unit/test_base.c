/* SPDX-License-Identifier: MIT */
/* The small parts of src/base: lists, the injection seam, the generator. */
#include "base/base.h"
#include "base/inject.h"
#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

struct item {
	int value;
	struct sm__list link;
};

static void list_keeps_order(void **state)
{
	struct sm__list head;
	struct item items[4], *pos;
	int expect = 0;

	(void)state;
	sm__list_init(&head);
	for (int i = 0; i < 4; i++) {
		items[i].value = i;
		sm__list_add_tail(&head, &items[i].link);
	}
	sm__list_for_each_entry (pos, &head, link)
		assert_int_equal(pos->value, expect++);
	sm__list_for_each_safe (pos, &head, link)
		sm__list_del(&pos->link);
	assert_true(sm__list_empty(&head));
}

/* inject.h I1: exactly the n-th point fails; the sticky form fails from there on. */
static void injection_counts(void **state)
{
	(void)state;
	sm__inject_arm(3);
	assert_false(sm__inject_fail());
	assert_false(sm__inject_fail());
	assert_true(sm__inject_fail());
	assert_false(sm__inject_fail());
	assert_int_equal(sm__inject_seen(), 4);
	sm__inject_arm_from(2);
	assert_false(sm__inject_fail());
	assert_true(sm__inject_fail());
	assert_true(sm__inject_fail());
	sm__inject_disarm();
	assert_false(sm__inject_fail());
}

static void random_is_seeded_and_bounded(void **state)
{
	struct sm__random a, b;

	(void)state;
	sm__random_seed(&a, 42);
	sm__random_seed(&b, 42);
	for (int i = 0; i < 1000; i++) {
		uint64_t x = sm__random_below(&a, 17);

		assert_true(x < 17);
		assert_true(x == sm__random_below(&b, 17));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(list_keeps_order),
		cmocka_unit_test(injection_counts),
		cmocka_unit_test(random_is_seeded_and_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
