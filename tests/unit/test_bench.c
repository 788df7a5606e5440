/* SPDX-License-Identifier: MIT */
/* The benchmark harness: sampling, rows, peers, JSON and CSV, compare (compare.c I1 to I4). */
#include "base/base.h"
#include "harness_internal.h"
#include "peers/peer.h"
#include "peers/stress.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* ---- a benchmark with known figures ---- */

static uint64_t five_ns(void *arg, uint64_t n)
{
	++*(unsigned *)arg;
	return n * 5;
}

static uint64_t ten_ns(void *arg, uint64_t n)
{
	++*(unsigned *)arg;
	return n * 10;
}

static uint64_t broken(void *arg, uint64_t n)
{
	(void)arg, (void)n;
	return peer_fail("out of order");
}

static unsigned ours_calls, theirs_calls;

static int run_fake(struct bench *b)
{
	struct bench_case c = {
		.name = "five",
		.unit = BENCH_NS,
		.n = 100,
		.ours = { .name = "ours", .run = five_ns, .arg = &ours_calls },
		.theirs = { { .name = "ten", .run = ten_ns, .arg = &theirs_calls },
			    { .name = "none", .run = broken },
			    { .name = "ten again", .run = ten_ns, .arg = &theirs_calls } },
	};
	double own[] = { 3, 1, 2 };
	struct bench_row row = { .name = "own",
				 .unit = BENCH_SECONDS,
				 .ours = own,
				 .n_ours = 3,
				 .extra = { { "p99_ns", "p99", 1234, BENCH_NS } } };

	assert_int_equal(bench_measure(b, &c), 0);
	c.name = "rate";
	c.unit = BENCH_OPS;
	c.theirs[0].name = NULL;
	c.theirs[1].name = NULL;
	c.theirs[2].name = NULL;
	assert_int_equal(bench_measure(b, &c), 0);
	if (bench_wanted(b, "own"))
		bench_row(b, &row);
	return 0;
}

static const struct benchmark fake = { .name = "fake", .summary = "-", .run = run_fake };

static void samples_and_rows(void **state)
{
	struct bench_session s = { .options = { .runs = 4 } };

	(void)state;
	ours_calls = theirs_calls = 0;
	assert_int_equal(bench_run(&s, &fake), 0);
	assert_int_equal(s.n_records, 4); /* five x 2 peers, rate, own */
	assert_int_equal(ours_calls, 8);
	assert_int_equal(theirs_calls, 8);
	assert_string_equal(s.records[0].peer, "ten");
	assert_string_equal(s.records[1].peer, "ten again");
	assert_true(s.records[0].ours.median == 5 && s.records[0].theirs.median == 10);
	assert_null(s.records[2].peer);
	assert_true(s.records[2].ours.median == 2e8);
	assert_true(s.records[3].ours.median == 2 && s.records[3].n_extra == 1);
	assert_int_equal(s.n_notes, 1);
	assert_string_equal(s.notes[0], "five: none left out: out of order");
	bench_session_free(&s);
}

static void filter_picks_cases(void **state)
{
	struct bench_session s = { .options = { .runs = 2, .filter = "ow" } };

	(void)state;
	assert_int_equal(bench_run(&s, &fake), 0);
	assert_int_equal(s.n_records, 1);
	assert_string_equal(s.records[0].name, "own");
	bench_session_free(&s);
}

/* A microsecond each, by its own clock. */
static uint64_t slow(void *arg, uint64_t n)
{
	*(uint64_t *)arg = n;
	return n * 1000;
}

static uint64_t calibrated;

static int run_calibrated(struct bench *b)
{
	struct bench_case c = { .name = "slow",
				.ours = { .name = "ours", .run = slow, .arg = &calibrated } };

	return bench_measure(b, &c);
}

static void calibration_finds_a_count(void **state)
{
	static const struct benchmark what = { .name = "c", .run = run_calibrated };
	struct bench_session s = { .options = { .runs = 1, .quick = true } };

	(void)state;
	assert_int_equal(bench_run(&s, &what), 0);
	assert_in_range(calibrated, 500, 2000); /* a sample of --quick: half to two milliseconds */
	bench_session_free(&s);
}

/* ---- JSON and CSV ---- */

static void paths(char *a, char *b)
{
	strcpy(a, "/tmp/samara-test-XXXXXX");
	strcpy(b, "/tmp/samara-test-XXXXXX");
	close(mkstemp(a));
	close(mkstemp(b));
}

static void json_has_the_shape(void **state)
{
	struct bench_session s = { .options = { .runs = 2 } };
	char path[32], other[32];
	json_t *root, *row;

	(void)state;
	paths(path, other);
	bench_machine_read(&s.machine);
	assert_int_equal(bench_run(&s, &fake), 0);
	assert_int_equal(bench_write_json(&s, "fake", path), 0);
	assert_int_equal(bench_write_csv(&s, other), 0);
	root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(root);
	assert_string_equal(json_string_value(json_object_get(root, "benchmark")), "fake");
	assert_true(json_is_string(json_object_get(json_object_get(root, "machine"), "kernel")));
	row = json_array_get(json_object_get(root, "rows"), 0);
	assert_string_equal(json_string_value(json_object_get(row, "case")), "five");
	assert_true(json_number_value(json_object_get(row, "ours")) == 5);
	assert_string_equal(json_string_value(json_object_get(row, "peer")), "ten");
	assert_true(json_number_value(json_object_get(row, "theirs")) == 10);
	assert_string_equal(json_string_value(json_object_get(row, "unit")), "ns");
	assert_true(json_number_value(json_object_get(row, "ratio")) == 0.5);
	assert_true(json_number_value(json_object_get(row, "theirs_p75")) == 10);
	row = json_array_get(json_object_get(root, "rows"), 3);
	assert_true(json_is_null(json_object_get(row, "peer")));
	assert_true(json_is_null(json_object_get(row, "ratio")));
	assert_true(json_number_value(json_object_get(row, "p99_ns")) == 1234);
	json_decref(root);
	bench_session_free(&s);
	unlink(path);
	unlink(other);
}

static void unwritable_output_is_an_error(void **state)
{
	struct bench_session s = { .options = { .runs = 2 } };

	(void)state;
	assert_int_equal(bench_write_json(&s, "x", "/nowhere/x"), -2);
	assert_int_equal(bench_write_csv(&s, "/nowhere/x"), -2);
}

/* ---- compare ---- */

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* Compares two texts. Return: exit status; the output in *out, to be freed. */
static int compared(const char *a, const char *b, char **out)
{
	char path[32], other[32];
	size_t size;
	FILE *f = open_memstream(out, &size);
	int status;

	paths(path, other);
	put(path, a);
	put(other, b);
	status = bench_compare(path, other, f, &(struct bench_options){ 0 });
	fclose(f);
	unlink(path);
	unlink(other);
	return status;
}

#define FILE_OF(name, rows) "{\"benchmark\":\"" name "\",\"rows\":[" rows "]}"
#define ROW(name, better, value, stdev)                                                   \
	"{\"benchmark\":\"x\",\"case\":\"" name "\",\"unit\":\"ns\",\"better\":\"" better \
	"\",\"peer\":null,\"ratio\":null,\"ours\":" value ",\"ours_mean\":" value         \
	",\"ours_stdev\":" stdev ",\"ours_runs\":10}"

static void compare_marks_changes(void **state)
{
	char *out;

	(void)state;
	assert_int_equal(compared(FILE_OF("x", ROW("a", "lower", "100", "1") "," ROW(
						       "b", "higher", "100",
						       "50") "," ROW("c", "higher", "100", "0.1")),
				  FILE_OF("x", ROW("b", "higher", "110", "50") "," ROW(
						       "a", "lower", "120",
						       "1") "," ROW("c", "higher", "150", "0.1")),
				  &out),
			 0);
	assert_non_null(strstr(out, "a           100.000  +20.0%  120.000  ns    ***   worse"));
	assert_non_null(strstr(out, "b           100.000  +10.0%  110.000  ns    ~"));
	assert_non_null(strstr(out, "c           100.000  +50.0%  150.000  ns    ***   better"));
	/* I3 */
	assert_non_null(strstr(out, "x             3       2         +20.0%   +50.0%"));
	assert_non_null(strstr(out, "3 rows compared, 0 only in the old file, 0 only in the new"));
	free(out);
	/* a row of the new file is the partner of one row only */
	assert_int_equal(
		compared(FILE_OF("x", ROW("a", "lower", "1", "1") "," ROW("a", "lower", "2", "1")),
			 FILE_OF("x", ROW("a", "lower", "1", "1")), &out),
		0);
	assert_non_null(strstr(out, "1 row compared, 1 only in the old file, 0 only in the new"));
	free(out);
}

/* I1, I4 */
static void compare_refuses(void **state)
{
	static const char *const good = FILE_OF("x", ROW("a", "lower", "1", "1"));
	static const char *const bad[] = {
		"",
		"{",
		"[]",
		"{}",
		"{\"benchmark\":1,\"rows\":[]}",
		"{\"benchmark\":\"x\"}",
		FILE_OF("y", ROW("a", "lower", "1", "1")),
		FILE_OF("x", ROW("z", "lower", "1", "1")),
		FILE_OF("x", ""),
		FILE_OF("x", "1,null,[],{}"),
		"{\"benchmark\":\"x\",\"options\":{\"quick\":true},\"rows\":[" ROW("a", "lower",
										   "1", "1") "]}",
	};
	char *out;

	(void)state;
	for (unsigned i = 0; i < SM__ARRAY_SIZE(bad); i++) {
		assert_int_equal(compared(good, bad[i], &out), 2);
		free(out);
		assert_int_equal(compared(bad[i], good, &out), 2);
		free(out);
	}
	/* Strange but readable rows: no crash, no mark. */
	assert_int_equal(compared(FILE_OF("x", "{\"case\":\"a\",\"ours\":null}"),
				  FILE_OF("x", "{\"case\":\"a\",\"ours\":\"1\"}"), &out),
			 0);
	free(out);
}

/* ---- what both sides measure with ---- */

static void latency_quantiles(void **state)
{
	struct bench_latency l;
	double tick = bench_tick_ns();

	(void)state;
	memset(&l, 0, sizeof(l));
	assert_true(bench_latency_quantile(&l, 0.5) == 0);
	for (uint64_t i = 1; i <= 100000; i++)
		bench_latency_add(&l, i);
	assert_true(fabs(bench_latency_quantile(&l, 0.5) / tick - 50000) < 1600);
	assert_true(fabs(bench_latency_quantile(&l, 0.99) / tick - 99000) < 3100);
	for (uint64_t v = 1, last = 0; v < 1ULL << 50; v += 1 + v / 7) {
		unsigned b = bench_latency_bucket(v);

		assert_true(b >= last);
		last = b;
	}
	bench_latency_add(&l, UINT64_MAX);
	assert_true(l.max == UINT64_MAX);
}

static void count_up(void *arg, unsigned thread, uint64_t n)
{
	(void)thread;
	for (uint64_t i = 0; i < n; i++)
		__atomic_add_fetch((uint64_t *)arg, 1, __ATOMIC_RELAXED);
}

static void until_stopped(void *arg, const bool *stop)
{
	while (!bench_stopped(stop))
		__atomic_store_n((bool *)arg, true, __ATOMIC_RELAXED);
}

static void threads_start_and_end(void **state)
{
	uint64_t sum = 0, each[4];
	bool ran = false;
	struct bench_beside *beside;

	(void)state;
	assert_true(bench_parallel(4, count_up, &sum, 1000, each) > 0);
	assert_int_equal(sum, 4000);
	beside = bench_beside_start(until_stopped, &ran);
	assert_non_null(beside);
	while (!__atomic_load_n(&ran, __ATOMIC_RELAXED))
		;
	bench_beside_stop(beside);
}

static void cpus_in_order(void **state)
{
	struct bench_cpus all, first;

	(void)state;
	assert_true(bench_cpus_allowed(&all, -1));
	assert_true(all.n >= 1);
	assert_true(bench_cpus_allowed(&first, all.cpu[all.n - 1]));
	assert_int_equal(first.cpu[0], all.cpu[all.n - 1]);
	assert_int_equal(first.n, all.n);
	assert_false(bench_cpus_allowed(&first, 4095));
}

/* A failing call ends the stress test and leaves nothing mapped. */
struct counted {
	unsigned maps, unmaps, fail_at;
};

static int64_t counted_map(void *arg, unsigned i)
{
	struct counted *c = arg;

	(void)i;
	return ++c->maps == c->fail_at ? -12 : 4096;
}

static int counted_touch(void *arg, uint64_t addr)
{
	(void)arg, (void)addr;
	return 0;
}

static int counted_unmap(void *arg, uint64_t addr)
{
	(void)addr;
	((struct counted *)arg)->unmaps++;
	return 0;
}

static void stress_counts(void **state)
{
	struct counted c = { 0 };
	struct stress_system sys = { counted_map, counted_touch, counted_unmap, &c };
	struct stress_options o = { .cycles = 10, .delay_ns = 1000, .delay_every = 3 };
	struct stress_result r;

	(void)state;
	assert_int_equal(stress_run(&sys, &o, &r), 0);
	assert_int_equal(c.maps, 50);
	assert_int_equal(c.unmaps, 50);
	assert_true(r.p50 <= r.p99 && r.p99 <= r.p999);
	c = (struct counted){ .fail_at = 13 };
	assert_int_equal(stress_run(&sys, &o, &r), -12);
	assert_int_equal(c.maps, 13);
	assert_int_equal(c.unmaps, 12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_and_rows),
		cmocka_unit_test(filter_picks_cases),
		cmocka_unit_test(calibration_finds_a_count),
		cmocka_unit_test(json_has_the_shape),
		cmocka_unit_test(unwritable_output_is_an_error),
		cmocka_unit_test(compare_marks_changes),
		cmocka_unit_test(compare_refuses),
		cmocka_unit_test(latency_quantiles),
		cmocka_unit_test(threads_start_and_end),
		cmocka_unit_test(cpus_in_order),
		cmocka_unit_test(stress_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
