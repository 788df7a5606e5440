/* SPDX-License-Identifier: MIT */
/* The report room: text.h I1 I2, json.h I1 I2, table.h I1 I2 I3, stats.h. */
#include "base/base.h"
#include "base/inject.h"
#include "base/random.h"
#include "report/json.h"
#include "report/stats.h"
#include "report/table.h"
#include "report/text.h"

#include <float.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

struct output {
	char *text;
	size_t size;
	FILE *file;
};

/* In place: the stream keeps the addresses. */
static void open_output(struct output *o)
{
	o->file = open_memstream(&o->text, &o->size);
	assert_non_null(o->file);
}

/* ---- text ---- */

static void utf8_never_fails(void **state)
{
	static const struct {
		const char *bytes;
		uint32_t first;
		unsigned used;
	} cases[] = {
		{ "a", 'a', 1 },
		{ "\xc3\xa9", 0xe9, 2 },
		{ "\xe2\x82\xac", 0x20ac, 3 },
		{ "\xf0\x9f\x8d\x81", 0x1f341, 4 },
		{ "\xc0\x80", 0xfffd, 1 },	   /* overlong */
		{ "\xe0\x80\x80", 0xfffd, 1 },	   /* overlong */
		{ "\xed\xa0\x80", 0xfffd, 1 },	   /* surrogate */
		{ "\xf4\x90\x80\x80", 0xfffd, 1 }, /* beyond U+10FFFF */
		{ "\xe2\x82", 0xfffd, 1 },	   /* cut off */
		{ "\xff", 0xfffd, 1 },
	};

	(void)state;
	for (unsigned i = 0; i < SM__ARRAY_SIZE(cases); i++) {
		const char *p = cases[i].bytes;

		assert_int_equal(sm__utf8_next(&p), cases[i].first);
		assert_int_equal(p - cases[i].bytes, cases[i].used);
	}
}

static void widths_and_padding(void **state)
{
	struct output o;

	(void)state;
	open_output(&o);
	assert_int_equal(sm__text_width("abc"), 3);
	assert_int_equal(sm__text_width("µs"), 2);
	assert_int_equal(sm__text_width("e\xcc\x81"), 1); /* e and a combining acute */
	assert_int_equal(sm__text_width("\xe6\xbc\xa2"), 2);
	sm__text_pad(o.file, "µ", 3, true);
	sm__text_pad(o.file, "µ", 3, false);
	sm__text_pad(o.file, "\033[2J", 0, false); /* I2 */
	fclose(o.file);
	assert_string_equal(o.text, "  µµ  \xef\xbf\xbd[2J");
	free(o.text);
}

static void numbers_for_people(void **state)
{
	char buf[SM__TEXT_NUMBER];

	(void)state;
	assert_string_equal(sm__text_duration(0, buf), "0 ns");
	assert_string_equal(sm__text_duration(6.2, buf), "6.20 ns");
	assert_string_equal(sm__text_duration(999.6, buf), "1.00 µs");
	assert_string_equal(sm__text_duration(1234567, buf), "1.23 ms");
	assert_string_equal(sm__text_duration(8.1e13, buf), "81000 s");
	assert_string_equal(sm__text_duration(NAN, buf), "n/a");
	assert_string_equal(sm__text_bytes(1536, buf), "1.50 KiB");
	assert_string_equal(sm__text_count(1234567, buf), "1 234 567");
	assert_string_equal(sm__text_count(-1000, buf), "-1 000");
	assert_string_equal(sm__text_count(1e300, buf), "n/a");
}

/* ---- json: jansson reads back what we wrote ---- */

static json_t *read_back(struct output *o)
{
	json_error_t error;
	json_t *root;

	fclose(o->file);
	root = json_loads(o->text, JSON_REJECT_DUPLICATES, &error);
	if (!root)
		fail_msg("line %d: %s in\n%s", error.line, error.text, o->text);
	free(o->text);
	return root;
}

static void json_reads_back(void **state)
{
	static const char nasty[] = "\"\\/\b\f\n\r\t\x01\x7f\xff\xc3(é漢🍁";
	static const double numbers[] = { 0.1,	     1e300,   -DBL_MIN, 5e-324, 1.0 / 3,
					  123456789, DBL_MAX, -0.0,	1e22,	2.5 };
	struct output o;
	struct sm__json j;
	json_t *root, *list;

	(void)state;
	open_output(&o);
	sm__json_init(&j, o.file);
	sm__json_open(&j, NULL, '{');
	sm__json_text(&j, nasty, nasty);
	sm__json_text(&j, "nothing", NULL);
	sm__json_uint(&j, "most", INT64_MAX);
	sm__json_number(&j, "infinite", INFINITY);
	sm__json_bool(&j, "yes", true);
	sm__json_open(&j, "numbers", '[');
	for (unsigned i = 0; i < SM__ARRAY_SIZE(numbers); i++)
		sm__json_number(&j, NULL, numbers[i]);
	sm__json_close(&j);
	sm__json_open(&j, "empty", '{');
	sm__json_close(&j);
	sm__json_close(&j);
	assert_int_equal(sm__json_finish(&j), 0);
	root = read_back(&o);
	assert_string_equal(json_string_value(json_object_get(
				    root, "\"\\/\b\f\n\r\t\x01\x7f\xef\xbf\xbd\xef\xbf\xbd(é漢🍁")),
			    "\"\\/\b\f\n\r\t\x01\x7f\xef\xbf\xbd\xef\xbf\xbd(é漢🍁");
	assert_true(json_is_null(json_object_get(root, "nothing")));
	assert_true(json_is_null(json_object_get(root, "infinite")));
	assert_true(json_integer_value(json_object_get(root, "most")) == INT64_MAX);
	assert_true(json_is_true(json_object_get(root, "yes")));
	list = json_object_get(root, "numbers");
	for (unsigned i = 0; i < SM__ARRAY_SIZE(numbers); i++)
		assert_true(json_number_value(json_array_get(list, i)) == numbers[i]);
	json_decref(root);
}

/* I1 over random bytes, I2 over random doubles. */
static void json_random(void **state)
{
	struct sm__random r;

	(void)state;
	sm__random_seed(&r, 2026);
	for (int round = 0; round < 2000; round++) {
		struct output o;
		struct sm__json j;
		char text[24];
		uint64_t bits = sm__random_next(&r);
		double value;
		json_t *root, *back;

		open_output(&o);
		for (unsigned i = 0; i + 1 < sizeof(text); i++)
			text[i] = (char)(1 + sm__random_below(&r, 255));
		text[sizeof(text) - 1] = '\0';
		memcpy(&value, &bits, sizeof(value));
		sm__json_init(&j, o.file);
		sm__json_open(&j, NULL, '[');
		sm__json_text(&j, NULL, text);
		sm__json_number(&j, NULL, value);
		sm__json_close(&j);
		assert_int_equal(sm__json_finish(&j), 0);
		root = read_back(&o);
		back = json_array_get(root, 1);
		assert_true(isfinite(value) ? json_number_value(back) == value
					    : json_is_null(back));
		json_decref(root);
	}
}

/* ---- table ---- */

static const struct sm__column columns[] = {
	{ .key = "name" },
	{ .key = "time_ns", .title = "time", .align = SM__RIGHT },
	{ .key = "raw", .data_only = true },
	{ .key = "ratio", .align = SM__RIGHT },
};

static struct sm__table *sample(void)
{
	struct sm__table *t = sm__table_new(columns, SM__ARRAY_SIZE(columns));

	sm__table_row(t);
	sm__table_text(t, "a, \"b\"");
	sm__table_duration(t, 1500);
	sm__table_count(t, INT64_MAX);
	sm__table_number(t, 0.123456, 3);
	sm__table_number(t, 1, 0); /* beyond the last column */
	sm__table_row(t);
	sm__table_text(t, "é|");
	sm__table_duration(t, NAN);
	return t;
}

static void check_form(enum sm__table_form form, const char *expect)
{
	struct output o;
	struct sm__table *t = sample();

	open_output(&o);
	assert_int_equal(sm__table_print(t, o.file, form), 0);
	fclose(o.file);
	assert_string_equal(o.text, expect);
	free(o.text);
	sm__table_free(t);
}

static void table_forms(void **state)
{
	(void)state;
	check_form(SM__TABLE_TEXT, "name       time  ratio\n"
				   "a, \"b\"  1.50 µs  0.123\n"
				   "é|            -      -\n");
	check_form(SM__TABLE_MARKDOWN, "| name | time | ratio |\n"
				       "|---|--:|--:|\n"
				       "| a, \"b\" | 1.50 µs | 0.123 |\n"
				       "| é\\| | - | - |\n");
	check_form(SM__TABLE_CSV, "name,time_ns,raw,ratio\r\n"
				  "\"a, \"\"b\"\"\",1500,9223372036854775807,0.123456\r\n"
				  "é|,,,\r\n");
}

static void table_as_json(void **state)
{
	struct output o;
	struct sm__table *t = sample();
	struct sm__json j;
	json_t *root, *row;

	(void)state;
	open_output(&o);
	sm__json_init(&j, o.file);
	sm__table_json(t, &j, NULL);
	assert_int_equal(sm__json_finish(&j), 0);
	sm__table_free(t);
	root = read_back(&o);
	assert_int_equal(json_array_size(root), 2);
	row = json_array_get(root, 0);
	assert_true(json_number_value(json_object_get(row, "time_ns")) == 1500);
	assert_true(json_number_value(json_object_get(row, "ratio")) == 0.123456);
	row = json_array_get(root, 1);
	assert_true(json_is_null(json_object_get(row, "ratio")));
	json_decref(root);
}

/* I3: every allocation fails in turn; nothing leaks (asan), nothing is half written. */
static void table_exhaustion(void **state)
{
	(void)state;
	for (unsigned nth = 1;; nth++) {
		struct sm__table *t;
		bool passed;

		sm__inject_arm(nth);
		t = sample();
		passed = sm__inject_seen() < nth;
		sm__inject_disarm();
		assert_int_equal(sm__table_error(t), passed ? 0 : -12);
		sm__table_free(t);
		if (passed)
			break;
	}
}

/* ---- statistics ---- */

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-9 + 1e-6 * fabs(b);
}

static void stats_known(void **state)
{
	double v[] = { 4, 1, 3, 2 }, one[] = { 7 };
	struct sm__stats s = sm__stats_of(v, 4);

	(void)state;
	assert_true(near(s.min, 1) && near(s.p25, 1.75) && near(s.median, 2.5));
	assert_true(near(s.p75, 3.25) && near(s.max, 4) && near(s.mean, 2.5));
	assert_true(near(s.stdev, 1.2909944487));
	s = sm__stats_of(one, 1);
	assert_true(s.median == 7 && s.stdev == 0 && s.p75 == 7);
	s = sm__stats_of(one, 0);
	assert_true(isnan(s.median) && isnan(s.mean));
	assert_true(near(sm__quantile(v, 4, 0.99), 3.97));
}

/* Reference values from R: t.test(a, b) on summaries. */
static void welch_known(void **state)
{
	struct sm__stats a = { .n = 10, .mean = 20, .stdev = 2 };
	struct sm__stats b = { .n = 10, .mean = 22, .stdev = 3 };
	struct sm__stats constant = { .n = 5, .mean = 1 }, single = { .n = 1, .mean = 1 };

	(void)state;
	/* t = -1.754116, 15.68 degrees of freedom */
	assert_true(fabs(sm__welch_p(&a, &b) - 0.0990) < 5e-4);
	b.mean = 30;
	assert_true(sm__welch_p(&a, &b) < 1e-6);
	b = a;
	assert_true(near(sm__welch_p(&a, &b), 1));
	assert_true(isnan(sm__welch_p(&a, &single)));
	assert_true(sm__welch_p(&constant, &constant) == 1);
	b = constant;
	b.mean = 2;
	assert_true(sm__welch_p(&constant, &b) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(utf8_never_fails),   cmocka_unit_test(widths_and_padding),
		cmocka_unit_test(numbers_for_people), cmocka_unit_test(json_reads_back),
		cmocka_unit_test(json_random),	      cmocka_unit_test(table_forms),
		cmocka_unit_test(table_as_json),      cmocka_unit_test(table_exhaustion),
		cmocka_unit_test(stats_known),	      cmocka_unit_test(welch_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
