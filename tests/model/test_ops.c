/* SPDX-License-Identifier: MIT */
/* test_ops.c - lists of calls: text and back, shrinking, comparison. */
#include "support/differ.h"

#include "model/twin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define BASE 0x200000000000ULL

static void random_list(uint64_t seed, struct ops_config *config, struct op *ops, size_t n)
{
	static const struct observation nothing;
	struct opgen g;

	opgen_config(config, BASE, seed);
	opgen_init(&g, config, (enum opgen_profile)(seed % PROFILES), seed);
	for (size_t i = 0; i < n; i++)
		opgen_next(&g, &nothing, 0, &ops[i]);
}

/* ops.h I2: printing and parsing are inverse. */
static void text_round_trip(void **state)
{
	struct ops_config config;
	struct op ops[500], back;
	char line[512];

	(void)state;
	for (uint64_t seed = 0; seed < 60; seed++) {
		random_list(seed, &config, ops, 500);
		for (int i = 0; i < 500; i++) {
			FILE *out = fmemopen(line, sizeof(line), "w");

			ops_print(out, &ops[i], BASE);
			fclose(out);
			assert_int_equal(ops_parse(line, BASE, &back), 0);
			assert_memory_equal(&back, &ops[i], sizeof(back));
		}
	}
}

static void refuses_what_is_no_call(void **state)
{
	static const char *const lines[] = { "",
					     "0: ",
					     "0: mmap",
					     "0: mmap(",
					     "0: nosuch(1)",
					     "9: munmap(0x0, 0x0)",
					     "munmap(0x0, 0x0)",
					     "0: munmap(0x0)",
					     "0: munmap(0x0, NOSUCH_NAME)",
					     "0: munmap(0x0, 0x0" };
	struct op op;

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_int_equal(ops_parse(lines[i], BASE, &op), -1);
}

static bool has_three_maps(void *arg, const struct op *ops, size_t n)
{
	int maps = 0;

	(void)arg;
	for (size_t i = 0; i < n; i++)
		maps += ops[i].kind == OP_MMAP;
	return maps >= 3;
}

static void shrinks_to_the_minimum(void **state)
{
	struct ops_config config;
	struct op ops[500];
	size_t n;

	(void)state;
	random_list(3, &config, ops, 500);
	n = ops_shrink(ops, 500, has_three_maps, NULL);
	assert_int_equal(n, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(ops[i].kind, OP_MMAP);
}

/* The twin keeps its invariants whatever it is asked, and answers the same twice. */
static void twin_is_deterministic(void **state)
{
	struct observation *a = calloc(DIFFER_MAX_OPS, sizeof(*a));
	struct observation *b = calloc(DIFFER_MAX_OPS, sizeof(*b));
	struct op ops[500];

	(void)state;
	assert_true(a && b);
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct ops_config config;

		random_list(seed, &config, ops, 500);
		config.contents = true;
		twin_run(&config, ops, 500, a);
		twin_run(&config, ops, 500, b);
		assert_int_equal(differ_first(&config, a, b, 500), -1);
		b[250].result ^= 1;
		assert_int_equal(differ_first(&config, a, b, 500), 250);
	}
	free(a);
	free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_round_trip),
		cmocka_unit_test(refuses_what_is_no_call),
		cmocka_unit_test(shrinks_to_the_minimum),
		cmocka_unit_test(twin_is_deterministic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
