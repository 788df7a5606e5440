/* SPDX-License-Identifier: MIT */
/*
 * test_cases.c - the named cases of *.cases: on the twin, on the running kernel, on the library.
 * Each must give what the case says, and the library what the kernel gives in every detail: all
 * results, all maps, all contents, flags too where the kernel was asked for them.
 */
#include "kernel/oracle.h"
#include "model/twin.h"
#include "support/cases.h"
#include "support/library.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <sys/mman.h>
#include <cmocka.h>

static const char *const files[] = { "tests/kernel/programs.cases", "tests/kernel/calls.cases" };
#define FILES (sizeof(files) / sizeof(files[0]))

static const char *const designs[] = { "samara", "linux-5.19", "linux-6.12", "linux-6.18" };
#define DESIGNS (sizeof(designs) / sizeof(designs[0]))

static struct oracle *oracle;
static struct library *library[DESIGNS];

struct bound_case {
	const struct test_case *c;
	const char *path;
};

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

static void same_as_kernel(const struct bound_case *b, const char *design,
			   const struct observation *kernel, const struct observation *ours)
{
	long at = differ_first(&b->c->config, kernel, ours, b->c->n);

	if (at < 0)
		return;
	fprintf(stderr, "%s:%u: case %s: ", b->path, b->c->expect[at].line, b->c->name);
	ops_print(stderr, &b->c->op[at], b->c->config.base);
	fprintf(stderr, "\n  kernel: ");
	obs_print(stderr, &b->c->config, &kernel[at]);
	fprintf(stderr, "  library, %s: ", design);
	obs_print(stderr, &b->c->config, &ours[at]);
	fail();
}

static void run_case(void **state)
{
	const struct bound_case *b = *state;
	const struct test_case *c = b->c;
	const struct observation *kernel = NULL;
	struct observation *twin = calloc(CASE_MAX_OPS, sizeof(*twin));

	assert_non_null(twin);
	twin_run(&c->config, c->op, c->n, twin);
	assert_int_equal(case_check(c, b->path, "twin", true, twin), 0);
	free(twin);
	if (kernel_can(c)) {
		kernel = oracle_run(oracle, &c->config, c->op, c->n);
		assert_non_null(kernel);
		assert_int_equal(case_check(c, b->path, "kernel", true, kernel), 0);
	} else if (!c->no_kernel) {
		print_message("case %s: not on this kernel\n", c->name);
	}
	for (size_t d = 0; d < DESIGNS; d++) {
		const struct observation *ours = library_run(library[d], &c->config, c->op, c->n);

		assert_non_null(ours);
		assert_int_equal(case_check(c, b->path, designs[d], true, ours), 0);
		if (kernel)
			same_as_kernel(b, designs[d], kernel, ours);
	}
}

/* Requests as programs make them, in a space that is not filled: what counts is granted or errno. */
static const struct {
	const char *who;
	uint64_t len;
	int prot, flags;
	int err; /* with vm.overcommit_memory 0 */
} requests[] = {
	{ "address sanitizer's shadow", 0xdfff0001000, PROT_READ | PROT_WRITE, MAP_NORESERVE, 0 },
	{ "8 GiB, inaccessible", 0x200000000, PROT_NONE, 0, 0 },
	{ "21 TB, writable", 21474836484096, PROT_READ | PROT_WRITE, 0, ENOMEM },
	{ "32 TiB, writable", 1ULL << 45, PROT_READ | PROT_WRITE, 0, ENOMEM },
	{ "32 TiB, inaccessible", 1ULL << 45, PROT_NONE, 0, 0 },
	{ "32 TiB, shared", 1ULL << 45, PROT_READ | PROT_WRITE, MAP_SHARED, ENOMEM },
	{ "32 TiB, shared, not reserved", 1ULL << 45, PROT_READ | PROT_WRITE,
	  MAP_SHARED | MAP_NORESERVE, 0 },
	{ "all of the address space", 0x7ffffffff000, PROT_NONE, 0, ENOMEM },
	{ "in the low 2 GiB", 1 << 20, PROT_READ | PROT_WRITE, MAP_32BIT, 0 },
	{ "more than the low 2 GiB have", 1ULL << 31, PROT_NONE, MAP_32BIT, ENOMEM },
};

static int overcommit_mode(void)
{
	FILE *f = fopen("/proc/sys/vm/overcommit_memory", "r");
	int mode = -1;

	if (f && fscanf(f, "%d", &mode) != 1)
		mode = -1;
	if (f)
		fclose(f);
	return mode;
}

static int ask_kernel(uint64_t len, int prot, int flags)
{
	void *at = mmap(NULL, len, prot, flags, -1, 0);

	if (at == MAP_FAILED)
		return errno;
	assert_true(!(flags & MAP_32BIT) || (uint64_t)at + len <= 1ULL << 31);
	munmap(at, len);
	return 0;
}

static int ask_library(struct sm_space *space, uint64_t len, int prot, int flags)
{
	int64_t at = sm_mmap(space, 0, len, prot, flags, NULL, 0);

	if (at < 0)
		return (int)-at;
	assert_true(!(flags & MAP_32BIT) || (uint64_t)at + len <= 1ULL << 31);
	assert_int_equal(sm_munmap(space, (sm_addr)at, len), 0);
	return 0;
}

static void big_requests(void **state)
{
	struct sm_host *host = sm_host_create(NULL, NULL);
	struct sm_space *space = host ? sm_space_create(host, NULL, NULL) : NULL;
	bool kernel = overcommit_mode() == 0;

	(void)state;
	assert_non_null(space);
	if (!kernel)
		print_message("vm.overcommit_memory is not 0: the library only\n");
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		int flags = requests[i].flags | MAP_ANONYMOUS;

		flags |= flags & MAP_SHARED ? 0 : MAP_PRIVATE;
		print_message("%s\n", requests[i].who);
		if (kernel)
			assert_int_equal(ask_kernel(requests[i].len, requests[i].prot, flags),
					 requests[i].err);
		assert_int_equal(ask_library(space, requests[i].len, requests[i].prot, flags),
				 requests[i].err);
	}
	sm_space_destroy(space);
	assert_int_equal(sm_host_destroy(host), 0);
}

static size_t load(struct test_case **cases, uint64_t base, struct CMUnitTest **tests,
		   struct bound_case **bound)
{
	size_t total = 0;

	for (size_t f = 0; f < FILES; f++) {
		long n = cases_load(files[f], base, &cases[f]);

		if (n < 0)
			exit(1);
		*tests = realloc(*tests, (total + (size_t)n) * sizeof(**tests));
		*bound = realloc(*bound, (total + (size_t)n) * sizeof(**bound));
		if (!*tests || !*bound)
			exit(1);
		for (long i = 0; i < n; i++, total++) {
			(*bound)[total] = (struct bound_case){ &cases[f][i], files[f] };
			(*tests)[total] =
				(struct CMUnitTest){ cases[f][i].name, run_case, NULL, NULL, NULL };
		}
	}
	for (size_t i = 0; i < total; i++)
		(*tests)[i].initial_state = &(*bound)[i];
	return total;
}

int main(void)
{
	const struct CMUnitTest big[] = { cmocka_unit_test(big_requests) };
	struct test_case *cases[FILES];
	struct CMUnitTest *tests = NULL;
	struct bound_case *bound = NULL;
	size_t total;
	int failed;

	oracle = oracle_open(CASE_MAX_OPS);
	if (!oracle)
		print_message("no child with a window can be made here: twin and library only\n");
	for (size_t d = 0; d < DESIGNS; d++) {
		library[d] = library_open(CASE_MAX_OPS, designs[d], SM_BACKEND_SOFT);
		if (!library[d])
			return 1;
	}
	total = load(cases, oracle ? oracle_base(oracle) : 0x200000000000, &tests, &bound);
	failed = cmocka_run_group_tests_name("requests", big, NULL, NULL);
	failed += _cmocka_run_group_tests("cases", tests, total, NULL, NULL);
	for (size_t f = 0; f < FILES; f++)
		free(cases[f]);
	free(tests);
	free(bound);
	for (size_t d = 0; d < DESIGNS; d++)
		library_close(library[d]);
	if (oracle)
		oracle_close(oracle);
	return failed;
}
