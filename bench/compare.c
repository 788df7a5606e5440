/* SPDX-License-Identifier: MIT */
/*
 * compare.c - samara bench compare OLD NEW: old, change, new, and whether the change means
 * anything.
 *
 * I1 Two files are comparable if they are results of the same benchmark with the same --quick, and
 *    rows of equal name, peer and unit are paired; a file without one common row is refused, rows
 *    of one file only are counted.
 * I2 The mark says how sure a change of `ours` is, by Welch's test on mean, deviation and count of
 *    the rows: *** p < 0.001, ** p < 0.01, * p < 0.05, ~ not. Within 1 % it is never marked. A row
 *    with fewer than two samples on a side has no mark but "?".
 * I3 Below the rows stands, per benchmark, how much its figures move: two runs of one build show
 *    which are stable on a machine.
 * I4 A file that is not what `--json` writes is refused with file, line and reason; it cannot
 *    crash.
 */
#include "harness_internal.h"
#include "base/base.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FINE = 0, UNUSABLE = 2 };

static int refuse(const char *path, const char *reason)
{
	fprintf(stderr, "samara bench compare: %s: %s\n", path, reason);
	return UNUSABLE;
}

/* jansson would call a directory bad JSON, and a missing file one with an error in line -1. */
static FILE *open_result(const char *path)
{
	FILE *f = fopen(path, "re");
	struct stat st;
	int error = !f || fstat(fileno(f), &st) ? errno : S_ISDIR(st.st_mode) ? EISDIR : 0;

	if (!error)
		return f;
	refuse(path, strerror(error));
	if (f)
		fclose(f);
	return NULL;
}

static json_t *load(const char *path)
{
	char reason[JSON_ERROR_TEXT_LENGTH + 32];
	json_error_t error;
	json_t *root;
	FILE *f = open_result(path);

	if (!f)
		return NULL;
	root = json_loadf(f, JSON_DECODE_INT_AS_REAL, &error);
	fclose(f);
	if (!root) {
		snprintf(reason, sizeof(reason), "line %d: %s", error.line, error.text);
		refuse(path, reason);
		return NULL;
	}
	if (!json_is_string(json_object_get(root, "benchmark")) ||
	    !json_is_array(json_object_get(root, "rows"))) {
		refuse(path, "not a result of samara bench --json (no benchmark, or no rows)");
		json_decref(root);
		return NULL;
	}
	return root;
}

static const char *text_of(const json_t *row, const char *key)
{
	const char *text = json_string_value(json_object_get(row, key));

	return text ? text : "";
}

static double number_of(const json_t *row, const char *key)
{
	const json_t *v = json_object_get(row, key);

	return json_is_number(v) ? json_number_value(v) : NAN;
}

static bool same_row(const json_t *a, const json_t *b)
{
	static const char *const keys[] = { "benchmark", "case", "peer", "unit" };

	for (unsigned i = 0; i < SM__ARRAY_SIZE(keys); i++) {
		if (strcmp(text_of(a, keys[i]), text_of(b, keys[i])))
			return false;
	}
	return true;
}

/* The rows of the new file, each of which is the partner of one row at the most. */
struct others {
	const json_t *rows;
	bool *taken;
	size_t from; /* rows come in one order in both files as a rule: where the search begins */
};

static const json_t *partner(struct others *o, const json_t *row)
{
	size_t n = json_array_size(o->rows);

	for (size_t i = 0; i < n; i++) {
		size_t at = (o->from + i) % n;
		const json_t *candidate = json_array_get(o->rows, at);

		if (!o->taken[at] && same_row(candidate, row)) {
			o->taken[at] = true;
			o->from = (at + 1) % n;
			return candidate;
		}
	}
	return NULL;
}

static struct sm__stats summary(const json_t *row)
{
	double runs = number_of(row, "ours_runs");

	return (struct sm__stats){
		.n = runs >= 1 && runs < 1e9 ? (unsigned)runs : 0,
		.median = number_of(row, "ours"),
		.mean = number_of(row, "ours_mean"),
		.stdev = number_of(row, "ours_stdev"),
	};
}

/* I2 */
static const char *mark(const struct sm__stats *a, const struct sm__stats *b)
{
	double p = sm__welch_p(a, b);

	if (!isfinite(p))
		return "?";
	if (fabs(b->median / a->median - 1) < 0.01 || p >= 0.05)
		return "~";
	return p < 0.001 ? "***" : p < 0.01 ? "**" : "*";
}

/* I3: the changes of one benchmark's rows. */
struct movement {
	const char *benchmark;
	double *changes, *ratio_changes; /* absolute; room for every row */
	unsigned n, n_ratios, marked;
};

static struct movement *movement_of(struct movement *all, unsigned *n, const char *benchmark,
				    size_t rows)
{
	struct movement *m;

	for (unsigned i = 0; i < *n; i++) {
		if (!strcmp(all[i].benchmark, benchmark))
			return &all[i];
	}
	m = &all[*n];
	m->benchmark = benchmark;
	m->changes = calloc(rows, sizeof(double));
	m->ratio_changes = calloc(rows, sizeof(double));
	if (!m->changes || !m->ratio_changes)
		return NULL;
	++*n;
	return m;
}

static void note_movement(struct movement *m, const json_t *old, const json_t *new)
{
	struct sm__stats a = summary(old), b = summary(new);
	double change = fabs(b.median / a.median - 1);
	double ratios = fabs(number_of(new, "ratio") / number_of(old, "ratio") - 1);

	if (isfinite(change))
		m->changes[m->n++] = change;
	if (isfinite(ratios))
		m->ratio_changes[m->n_ratios++] = ratios;
	m->marked += mark(&a, &b)[0] == '*';
}

static int print_movement(struct movement *all, unsigned n, FILE *out, bool markdown)
{
	static const struct sm__column columns[] = {
		{ .key = "benchmark" },
		{ .key = "rows", .align = SM__RIGHT },
		{ .key = "marked", .align = SM__RIGHT },
		{ .key = "change", .title = "median change", .align = SM__RIGHT },
		{ .key = "worst", .title = "largest", .align = SM__RIGHT },
		{ .key = "ratio_change", .title = "of the ratio", .align = SM__RIGHT },
		{ .key = "ratio_worst", .title = "largest", .align = SM__RIGHT },
	};
	struct sm__table *t = sm__table_new(columns, SM__ARRAY_SIZE(columns));
	int error;

	for (unsigned i = 0; i < n; i++) {
		struct sm__stats c = sm__stats_of(all[i].changes, all[i].n);
		struct sm__stats r = sm__stats_of(all[i].ratio_changes, all[i].n_ratios);

		sm__table_row(t);
		sm__table_text(t, all[i].benchmark);
		sm__table_count(t, all[i].n);
		sm__table_count(t, all[i].marked);
		sm__table_percent(t, c.median);
		sm__table_percent(t, c.max);
		sm__table_percent(t, r.median);
		sm__table_percent(t, r.max);
	}
	fputc('\n', out);
	error = sm__table_print(t, out, markdown ? SM__TABLE_MARKDOWN : SM__TABLE_TEXT);
	sm__table_free(t);
	return error;
}

static void free_movement(struct movement *all, size_t n)
{
	for (size_t i = 0; all && i < n; i++) {
		free(all[i].changes);
		free(all[i].ratio_changes);
	}
	free(all);
}

static void compare_row(struct sm__table *t, const json_t *old, const json_t *new)
{
	struct sm__stats a = summary(old), b = summary(new);
	const char *unit = text_of(old, "unit");
	bool higher = !strcmp(text_of(old, "better"), "higher");
	double change = b.median / a.median - 1;
	const char *sign = mark(&a, &b);

	sm__table_row(t);
	sm__table_text(t, text_of(old, "benchmark"));
	sm__table_text(t, text_of(old, "case"));
	sm__table_text(t, text_of(old, "peer"));
	sm__table_number(t, a.median, 3);
	sm__table_percent(t, change);
	sm__table_number(t, b.median, 3);
	sm__table_text(t, unit);
	sm__table_text(t, sign);
	sm__table_text(t, sign[0] != '*' ? "" : (change > 0) == higher ? "better" : "worse");
	sm__table_number(t, number_of(old, "ratio"), 3);
	sm__table_number(t, number_of(new, "ratio"), 3);
}

static struct sm__table *new_table(void)
{
	static const struct sm__column columns[] = {
		{ .key = "benchmark" },
		{ .key = "case" },
		{ .key = "peer" },
		{ .key = "old", .align = SM__RIGHT },
		{ .key = "change", .align = SM__RIGHT },
		{ .key = "new", .align = SM__RIGHT },
		{ .key = "unit" },
		{ .key = "mark" },
		{ .key = "verdict" },
		{ .key = "old_ratio", .title = "old ratio", .align = SM__RIGHT },
		{ .key = "new_ratio", .title = "new ratio", .align = SM__RIGHT },
	};

	return sm__table_new(columns, SM__ARRAY_SIZE(columns));
}

static void warn_of_machines(const json_t *a, const json_t *b, FILE *out)
{
	static const char *const facts[] = { "cpu", "kernel", "cores", "governor", "build" };
	const json_t *ma = json_object_get(a, "machine"), *mb = json_object_get(b, "machine");

	for (unsigned i = 0; i < SM__ARRAY_SIZE(facts); i++) {
		if (!json_equal(json_object_get(ma, facts[i]), json_object_get(mb, facts[i])))
			fprintf(out, "note: the machines differ in '%s'\n", facts[i]);
	}
}

static int write_csv(const struct sm__table *t, const char *path)
{
	FILE *f = fopen(path, "we");
	int error = f ? sm__table_print(t, f, SM__TABLE_CSV) : -errno;

	if (f && fclose(f) && !error)
		error = -errno;
	return error ? refuse(path, strerror(-error)) : FINE;
}

static int compare_files(json_t *a, json_t *b, FILE *out, const struct bench_options *o)
{
	const json_t *rows = json_object_get(a, "rows");
	struct others others = { .rows = json_object_get(b, "rows") };
	struct sm__table *t = new_table();
	size_t n = json_array_size(rows), n_others = json_array_size(others.rows), i, paired = 0;
	struct movement *moved = calloc(n + 1, sizeof(*moved)), *m;
	unsigned n_moved = 0;
	int error, result = FINE;
	json_t *row;

	others.taken = calloc(n_others + 1, sizeof(*others.taken));
	error = moved && others.taken ? 0 : -ENOMEM;
	json_array_foreach(rows, i, row)
	{
		const json_t *other = error ? NULL : partner(&others, row);

		if (!other)
			continue;
		compare_row(t, row, other);
		paired++;
		m = movement_of(moved, &n_moved, text_of(row, "benchmark"), n);
		if (m)
			note_movement(m, row, other);
		else
			error = -ENOMEM;
	}
	if (paired && !error)
		error = sm__table_print(t, out, o->markdown ? SM__TABLE_MARKDOWN : SM__TABLE_TEXT);
	if (paired && !error)
		error = print_movement(moved, n_moved, out, o->markdown);
	if (paired && !error && o->csv)
		result = write_csv(t, o->csv);
	sm__table_free(t);
	free(others.taken);
	free_movement(moved, n + 1);
	if (error)
		return refuse("the comparison", strerror(-error));
	if (!paired)
		return refuse("the files", "no row is in both");
	fprintf(out, "%zu row%s compared, %zu only in the old file, %zu only in the new\n", paired,
		paired == 1 ? "" : "s", n - paired, n_others - paired);
	warn_of_machines(a, b, out);
	return result;
}

int bench_compare(const char *old_path, const char *new_path, FILE *out,
		  const struct bench_options *o)
{
	json_t *a = load(old_path), *b = load(new_path);
	int result = UNUSABLE;

	if (!a || !b)
		goto out;
	if (strcmp(text_of(a, "benchmark"), text_of(b, "benchmark"))) {
		fprintf(stderr, "samara bench compare: %s is of benchmark '%s', %s of '%s'\n",
			old_path, text_of(a, "benchmark"), new_path, text_of(b, "benchmark"));
		goto out;
	}
	if (json_is_true(json_object_get(json_object_get(a, "options"), "quick")) !=
	    json_is_true(json_object_get(json_object_get(b, "options"), "quick"))) {
		refuse(new_path, "one run was --quick, the other not");
		goto out;
	}
	result = compare_files(a, b, out, o);
out:
	json_decref(a);
	json_decref(b);
	return result;
}
