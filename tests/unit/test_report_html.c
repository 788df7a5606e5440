/* SPDX-License-Identifier: MIT */
/* Pages and pictures: html.h I1 I2, chart.h I1 I2, and the HTML form of table.h. */
#include "base/random.h"
#include "report/chart.h"
#include "report/html.h"
#include "report/table.h"
#include "report/text.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static char *text;
static size_t size;

static FILE *open_page(void)
{
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	return f;
}

static void close_page(FILE *f)
{
	assert_int_equal(fclose(f), 0);
}

/* Every tag that is opened is closed, in order. Return: tags. */
static unsigned check_balance(const char *html)
{
	char stack[32][16];
	unsigned depth = 0, n = 0;

	for (const char *p = strchr(html, '<'); p; p = strchr(p + 1, '<')) {
		const char *end = strchr(p, '>');
		size_t len = strspn(p + 1, "abcdefghijklmnopqrstuvwxyz0123456789");

		assert_non_null(end);
		if (p[1] == '/') {
			assert_true(depth > 0);
			depth--;
			len = strlen(stack[depth]);
			assert_memory_equal(p + 2, stack[depth], len);
			assert_int_equal(p[2 + len], '>');
		} else if (p[1] != '!' && end[-1] != '/' && strncmp(p, "<meta", 5) != 0) {
			assert_true(depth < 32 && len > 0 && len < 16);
			memcpy(stack[depth], p + 1, len);
			stack[depth++][len] = '\0';
		}
		n++;
	}
	assert_int_equal(depth, 0);
	return n;
}

/* html.h I1: what came out is text, and nothing else. */
static void check_text(const char *html)
{
	for (const char *p = html; *p;) {
		const char *from = p;
		uint32_t c = sm__utf8_next(&p);

		assert_true(c != SM__UTF8_REPLACEMENT || !memcmp(from, "\xef\xbf\xbd", 3));
		assert_true(!sm__is_control(c) || c == '\n' || c == '\t');
		assert_null(c < 0x80 ? strchr("<>\"'", (int)c) : NULL);
		if (c == '&')
			assert_true(!strncmp(p, "amp;", 4) || !strncmp(p, "lt;", 3) ||
				    !strncmp(p, "gt;", 3) || !strncmp(p, "quot;", 5) ||
				    !strncmp(p, "#39;", 4));
	}
}

static void texts_stay_in_their_place(void **state)
{
	struct sm__random random = { 11 };
	char bytes[200];

	(void)state;
	for (int round = 0; round < 2000; round++) {
		size_t n = sm__random_below(&random, sizeof(bytes));
		FILE *f = open_page();

		for (size_t i = 0; i < n; i++)
			bytes[i] = round % 2 ? "<>&\"'/a \x1b\x7f\xe2\x80\xae"[sm__random_below(
						       &random, 13)]
					     : (char)(1 + sm__random_below(&random, 255));
		bytes[n] = '\0';
		sm__html_text(f, bytes);
		close_page(f);
		check_text(text);
		free(text);
	}
}

/* html.h I2 */
static void a_page_needs_nothing_else(void **state)
{
	FILE *f = open_page();

	(void)state;
	sm__html_begin(f, "a <title> & \"more\"");
	sm__html_element(f, "p", "</p><script>alert(1)</script>");
	assert_int_equal(sm__html_end(f), 0);
	close_page(f);
	assert_true(check_balance(text) > 10);
	assert_non_null(strstr(text, "default-src 'none'"));
	assert_null(strstr(text, "<script"));
	assert_null(strstr(text, "http:"));
	assert_null(strstr(text, "https:"));
	assert_null(strstr(text, "url("));
	free(text);
	f = fopen("/dev/full", "w");
	assert_non_null(f);
	sm__html_begin(f, "");
	assert_true(sm__html_end(f) < 0);
	fclose(f);
}

static void a_table_is_rows_of_cells(void **state)
{
	static const struct sm__column columns[] = { { "name", NULL, SM__LEFT, false },
						     { "ns", "<time>", SM__RIGHT, false },
						     { "hidden", NULL, SM__LEFT, true } };
	struct sm__table *t = sm__table_new(columns, 3);
	FILE *f = open_page();

	(void)state;
	sm__table_row(t);
	sm__table_text(t, "a&b");
	sm__table_duration(t, 1240);
	sm__table_text(t, "not shown");
	assert_int_equal(sm__table_print(t, f, SM__TABLE_HTML), 0);
	sm__table_free(t);
	close_page(f);
	check_balance(text);
	assert_non_null(strstr(text, "<th>name</th><th class=\"r\">&lt;time&gt;</th></tr>"));
	assert_non_null(strstr(text, "<td>a&amp;b</td><td class=\"r\">1.24 µs</td></tr>"));
	assert_null(strstr(text, "not shown"));
	free(text);
}

static double any_number(struct sm__random *random)
{
	static const double odd[] = { 0, -1, NAN, INFINITY, -INFINITY, 1e300, 1e-300 };
	uint64_t pick = sm__random_below(random, 14);

	return pick < 7 ? odd[pick] : (double)sm__random_below(random, 1000000);
}

/* chart.h I2: whatever the numbers and names, the picture is well-formed and says no nan or inf. */
static void pictures_are_well_formed(void **state)
{
	struct sm__random random = { 12 };

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct sm__chart_row rows[5] = { { 0 } };
		struct sm__chart_point points[20];
		FILE *f = open_page();

		for (unsigned r = 0; r < 5; r++) {
			rows[r].label =
				r ? "<a name that is too long to stand in front of it>" : "";
			rows[r].n = (unsigned)sm__random_below(&random, SM__CHART_PARTS + 1);
			for (unsigned i = 0; i < rows[r].n; i++)
				rows[r].parts[i] =
					(struct sm__chart_part){ "p&q", any_number(&random), i };
		}
		for (unsigned i = 0; i < 20; i++)
			points[i] = (struct sm__chart_point){ i, any_number(&random) };
		sm__chart_bars(f, rows, (unsigned)sm__random_below(&random, 6), sm__text_duration);
		sm__chart_line(f, points, (unsigned)sm__random_below(&random, 21), "x<", "y>");
		close_page(f);
		check_balance(text);
		assert_null(strstr(text, "nan\""));
		assert_null(strstr(text, "inf\""));
		assert_null(strstr(text, "=\"-"));
		free(text);
	}
}

/* chart.h I1, and that a short event among nothing is still seen. */
static void tracks_do_not_grow_with_events(void **state)
{
	struct sm__chart_tracks *t = malloc(sizeof(*t));
	struct sm__random random = { 13 };
	FILE *f = open_page();

	(void)state;
	assert_non_null(t);
	sm__tracks_begin(t, f, 3, 1e9);
	for (int i = 0; i < 300000; i++)
		sm__tracks_span(t, (double)sm__random_below(&random, 1000000000), 1000,
				(unsigned)sm__random_below(&random, SM__CHART_COLOURS));
	sm__tracks_next(t, "busy");
	sm__tracks_span(t, 5.005e8, 1, 7);
	sm__tracks_next(t, "quiet");
	sm__tracks_span(t, -5, NAN, 1);
	sm__tracks_span(t, 2e9, INFINITY, 1);
	sm__tracks_next(t, "odd");
	sm__tracks_end(t);
	close_page(f);
	check_balance(text);
	assert_true(size < (SM__CHART_COLUMNS + 50) * 100);
	assert_non_null(strstr(text, "class=\"c7\" x=\"670\"")); /* 190 + 960 / 2 */
	free(text);
	free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_stay_in_their_place),
		cmocka_unit_test(a_page_needs_nothing_else),
		cmocka_unit_test(a_table_is_rows_of_cells),
		cmocka_unit_test(pictures_are_well_formed),
		cmocka_unit_test(tracks_do_not_grow_with_events),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
