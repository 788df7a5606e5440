/* SPDX-License-Identifier: MIT */
/* harness_rows.c - the rows of a run as a table for people, as CSV, and as JSON. */
#include "harness_internal.h"
#include "base/base.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *unit_name(enum bench_unit unit)
{
	static const char *const names[] = {
		[BENCH_NS] = "ns",	 [BENCH_OPS] = "ops/s/thread", [BENCH_SECONDS] = "s",
		[BENCH_BYTES] = "bytes", [BENCH_COUNT] = "count",      [BENCH_CHANGE] = "part",
	};

	return names[unit];
}

static bool higher_is_better(enum bench_unit unit)
{
	return unit == BENCH_OPS;
}

static double ratio_of(const struct bench_record *r)
{
	return r->peer && r->theirs.median != 0 ? r->ours.median / r->theirs.median : NAN;
}

static void value_cell(struct sm__table *t, enum bench_unit unit, double v)
{
	if (!isfinite(v))
		sm__table_null(t);
	else if (unit == BENCH_NS)
		sm__table_duration(t, v);
	else if (unit == BENCH_SECONDS)
		sm__table_duration(t, v * 1e9);
	else if (unit == BENCH_BYTES)
		sm__table_bytes(t, v);
	else if (unit == BENCH_CHANGE)
		sm__table_percent(t, v);
	else
		sm__table_count(t, v > 0 ? (uint64_t)(v + 0.5) : 0);
}

/* Half the distance between the quartiles, as a part of the median: "±2.1%". */
static void spread_cell(struct sm__table *t, const struct sm__stats *s)
{
	char buf[32];

	if (s->n < 2 || s->median == 0) {
		sm__table_null(t);
		return;
	}
	snprintf(buf, sizeof(buf), "±%.1f%%", (s->p75 - s->p25) / 2 / s->median * 100);
	sm__table_text(t, buf);
}

enum { PEER_COLUMN = 3, FIXED_COLUMNS = 7, KEYS = 64 };

/* The extra columns of some rows, each key once, in order of appearance. */
struct keys {
	const struct bench_extra *key[KEYS];
	unsigned n;
};

static void collect_keys(const struct bench_record *r, struct keys *keys, bool titled)
{
	for (unsigned e = 0; e < r->n_extra; e++) {
		unsigned k = 0;

		while (k < keys->n && strcmp(keys->key[k]->key, r->extra[e].key))
			k++;
		if (k == keys->n && k < KEYS && (r->extra[e].title || !titled))
			keys->key[keys->n++] = &r->extra[e];
	}
}

static const struct bench_extra *extra_of(const struct bench_record *r, const char *key)
{
	for (unsigned e = 0; e < r->n_extra; e++) {
		if (!strcmp(r->extra[e].key, key))
			return &r->extra[e];
	}
	return NULL;
}

static void text_row(struct sm__table *t, const struct bench_record *r, const struct keys *keys)
{
	sm__table_row(t);
	sm__table_text(t, r->name);
	value_cell(t, r->unit, r->ours.median);
	spread_cell(t, &r->ours);
	sm__table_text(t, r->peer);
	if (r->peer) {
		value_cell(t, r->unit, r->theirs.median);
		spread_cell(t, &r->theirs);
		sm__table_number(t, ratio_of(r), 3);
	} else {
		for (unsigned i = 0; i < 3; i++)
			sm__table_null(t);
	}
	for (unsigned k = 0; k < keys->n; k++) {
		const struct bench_extra *e = extra_of(r, keys->key[k]->key);

		if (e)
			value_cell(t, e->unit, e->value);
		else
			sm__table_null(t);
	}
}

void bench_print_rows(const struct bench_session *s, unsigned first, FILE *out)
{
	struct sm__column columns[FIXED_COLUMNS + KEYS] = {
		{ .key = "case" },
		{ .key = "ours", .align = SM__RIGHT },
		{ .key = "ours_spread", .title = "±", .align = SM__RIGHT },
		{ .key = "peer" },
		{ .key = "theirs", .align = SM__RIGHT },
		{ .key = "theirs_spread", .title = "±", .align = SM__RIGHT },
		{ .key = "ratio", .align = SM__RIGHT },
	};
	struct keys keys = { .n = 0 };
	struct sm__table *t;
	bool peers = false;

	for (unsigned i = first; i < s->n_records; i++) {
		collect_keys(&s->records[i], &keys, true);
		peers |= s->records[i].peer != NULL;
	}
	for (unsigned c = PEER_COLUMN; c < FIXED_COLUMNS; c++)
		columns[c].data_only = !peers;
	for (unsigned k = 0; k < keys.n; k++)
		columns[FIXED_COLUMNS + k] = (struct sm__column){ .key = keys.key[k]->key,
								  .title = keys.key[k]->title,
								  .align = SM__RIGHT };
	t = sm__table_new(columns, FIXED_COLUMNS + keys.n);
	for (unsigned i = first; i < s->n_records; i++)
		text_row(t, &s->records[i], &keys);
	sm__table_print(t, out, s->options.markdown ? SM__TABLE_MARKDOWN : SM__TABLE_TEXT);
	sm__table_free(t);
}

/* ---- for programs ---- */

static void json_stats(struct sm__json *j, const char *side, const struct sm__stats *s)
{
	const struct {
		const char *name;
		double value;
	} parts[] = { { "min", s->min }, { "p25", s->p25 },   { "p75", s->p75 },
		      { "max", s->max }, { "mean", s->mean }, { "stdev", s->stdev },
		      { "runs", s->n } };
	char key[32];

	for (unsigned i = 0; i < SM__ARRAY_SIZE(parts); i++) {
		snprintf(key, sizeof(key), "%s_%s", side, parts[i].name);
		sm__json_number(j, key, parts[i].value);
	}
}

static void json_row(struct sm__json *j, const struct bench_record *r)
{
	sm__json_open(j, NULL, '{');
	sm__json_text(j, "benchmark", r->benchmark);
	sm__json_text(j, "case", r->name);
	sm__json_number(j, "ours", r->ours.median);
	sm__json_text(j, "peer", r->peer);
	sm__json_number(j, "theirs", r->peer ? r->theirs.median : NAN);
	sm__json_text(j, "unit", unit_name(r->unit));
	sm__json_number(j, "ratio", ratio_of(r));
	sm__json_text(j, "better", higher_is_better(r->unit) ? "higher" : "lower");
	json_stats(j, "ours", &r->ours);
	if (r->peer)
		json_stats(j, "theirs", &r->theirs);
	for (unsigned e = 0; e < r->n_extra; e++)
		sm__json_number(j, r->extra[e].key, r->extra[e].value);
	sm__json_close(j);
}

static FILE *open_output(const char *path)
{
	return strcmp(path, "-") ? fopen(path, "we") : stdout;
}

static int close_output(FILE *f, const char *path, int error)
{
	if (f != stdout && fclose(f))
		error = -errno;
	if (error)
		fprintf(stderr, "samara bench: %s: %s\n", path, strerror(-error));
	return error;
}

int bench_write_json(const struct bench_session *s, const char *benchmark, const char *path)
{
	FILE *f = open_output(path);
	struct sm__json j;

	if (!f)
		return close_output(stdout, path, -errno);
	sm__json_init(&j, f);
	sm__json_open(&j, NULL, '{');
	sm__json_text(&j, "benchmark", benchmark);
	bench_machine_json(&s->machine, &j, "machine");
	sm__json_open(&j, "options", '{');
	sm__json_uint(&j, "runs", s->options.runs);
	sm__json_bool(&j, "quick", s->options.quick);
	sm__json_text(&j, "filter", s->options.filter);
	for (unsigned i = 0; i < s->n_values; i++)
		sm__json_text(&j, s->values[i].name, s->values[i].text);
	sm__json_close(&j);
	sm__json_open(&j, "rows", '[');
	for (unsigned i = 0; i < s->n_records; i++)
		json_row(&j, &s->records[i]);
	sm__json_close(&j);
	sm__json_open(&j, "notes", '[');
	for (unsigned i = 0; i < s->n_notes; i++)
		sm__json_text(&j, NULL, s->notes[i]);
	sm__json_close(&j);
	sm__json_close(&j);
	return close_output(f, path, sm__json_finish(&j));
}

enum { CSV_COLUMNS = 8, CSV_STATS = 5 };

static void csv_side(struct sm__table *t, const struct sm__stats *s, bool there)
{
	const double parts[CSV_STATS] = { s->min, s->p25, s->p75, s->mean, s->stdev };

	for (unsigned i = 0; i < CSV_STATS; i++) {
		if (there)
			sm__table_number(t, parts[i], 3);
		else
			sm__table_null(t);
	}
}

static void csv_row(struct sm__table *t, const struct bench_record *r, const struct keys *keys)
{
	sm__table_row(t);
	sm__table_text(t, r->benchmark);
	sm__table_text(t, r->name);
	sm__table_number(t, r->ours.median, 3);
	sm__table_text(t, r->peer);
	sm__table_number(t, r->peer ? r->theirs.median : NAN, 3);
	sm__table_text(t, unit_name(r->unit));
	sm__table_number(t, ratio_of(r), 4);
	sm__table_count(t, r->ours.n);
	csv_side(t, &r->ours, true);
	csv_side(t, &r->theirs, r->peer != NULL);
	for (unsigned k = 0; k < keys->n; k++) {
		const struct bench_extra *e = extra_of(r, keys->key[k]->key);

		sm__table_number(t, e ? e->value : NAN, 3);
	}
}

int bench_write_csv(const struct bench_session *s, const char *path)
{
	struct sm__column columns[CSV_COLUMNS + 2 * CSV_STATS + KEYS] = {
		{ .key = "benchmark" },	 { .key = "case" },	   { .key = "ours" },
		{ .key = "peer" },	 { .key = "theirs" },	   { .key = "unit" },
		{ .key = "ratio" },	 { .key = "runs" },	   { .key = "ours_min" },
		{ .key = "ours_p25" },	 { .key = "ours_p75" },	   { .key = "ours_mean" },
		{ .key = "ours_stdev" }, { .key = "theirs_min" },  { .key = "theirs_p25" },
		{ .key = "theirs_p75" }, { .key = "theirs_mean" }, { .key = "theirs_stdev" },
	};
	struct keys keys = { .n = 0 };
	struct sm__table *t;
	FILE *f = open_output(path);
	int error;

	if (!f)
		return close_output(stdout, path, -errno);
	for (unsigned i = 0; i < s->n_records; i++)
		collect_keys(&s->records[i], &keys, false);
	for (unsigned k = 0; k < keys.n; k++)
		columns[CSV_COLUMNS + 2 * CSV_STATS + k] =
			(struct sm__column){ .key = keys.key[k]->key };
	t = sm__table_new(columns, CSV_COLUMNS + 2 * CSV_STATS + keys.n);
	for (unsigned i = 0; i < s->n_records; i++)
		csv_row(t, &s->records[i], &keys);
	error = sm__table_print(t, f, SM__TABLE_CSV);
	sm__table_free(t);
	return close_output(f, path, error);
}
