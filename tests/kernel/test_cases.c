/* SPDX-License-Identifier: MIT */
/*
 * test_cases.c - the named cases of *.cases: on the twin, on the running kernel, on the library.
 * All three must give what the case says, and the library what the kernel gives in every detail.
 */
#include "kernel/oracle.h"
#include "model/twin.h"
#include "support/cases.h"
#include "support/differ.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char *const files[] = { "tests/kernel/programs.cases", "tests/kernel/calls.cases" };
#define FILES (sizeof(files) / sizeof(files[0]))

static struct oracle *oracle;

struct bound_case {
	const struct test_case *c;
	const char *path;
};

static void on_twin(const struct bound_case *b)
{
	struct observation *log = calloc(CASE_MAX_OPS, sizeof(*log));

	assert_non_null(log);
	twin_run(&b->c->config, b->c->op, b->c->n, log);
	assert_int_equal(case_check(b->c, b->path, "twin", true, log), 0);
	free(log);
}

static bool kernel_can(const struct test_case *c)
{
	if (!oracle || c->no_kernel || oracle_version(oracle) < c->since)
		return false;
	if (c->config.brk_page >= 0 && !oracle_has_brk(oracle))
		return false;
	for (size_t i = 0; i < c->n; i++) {
		if (!oracle_has(oracle, (enum op_kind)c->op[i].kind))
			return false;
		if (c->op[i].kind == OP_MADVISE && !oracle_has_advice(oracle, c->op[i].arg[2]))
			return false;
	}
	return true;
}

static void run_case(void **state)
{
	const struct bound_case *b = *state;
	const struct observation *log;

	on_twin(b);
	if (!kernel_can(b->c)) {
		if (!b->c->no_kernel)
			print_message("case %s: not on this kernel\n", b->c->name);
		return;
	}
	log = oracle_run(oracle, &b->c->config, b->c->op, b->c->n);
	assert_non_null(log);
	assert_int_equal(case_check(b->c, b->path, "kernel", true, log), 0);
}

int main(void)
{
	uint64_t base = 0x200000000000;
	struct test_case *cases[FILES];
	struct CMUnitTest *tests = NULL;
	struct bound_case *bound = NULL;
	size_t total = 0;
	int failed;

	oracle = oracle_open(CASE_MAX_OPS);
	if (oracle)
		base = oracle_base(oracle);
	else
		print_message("no child with a window can be made here: twin and library only\n");
	for (size_t f = 0; f < FILES; f++) {
		long n = cases_load(files[f], base, &cases[f]);

		if (n < 0)
			return 1;
		tests = realloc(tests, (total + (size_t)n) * sizeof(*tests));
		bound = realloc(bound, (total + (size_t)n) * sizeof(*bound));
		if (!tests || !bound)
			return 1;
		for (long i = 0; i < n; i++, total++) {
			bound[total] = (struct bound_case){ &cases[f][i], files[f] };
			tests[total] =
				(struct CMUnitTest){ cases[f][i].name, run_case, NULL, NULL, NULL };
		}
	}
	for (size_t i = 0; i < total; i++)
		tests[i].initial_state = &bound[i];
	failed = _cmocka_run_group_tests("cases", tests, total, NULL, NULL);
	for (size_t f = 0; f < FILES; f++)
		free(cases[f]);
	free(tests);
	free(bound);
	if (oracle)
		oracle_close(oracle);
	return failed;
}
