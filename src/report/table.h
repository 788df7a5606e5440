/* SPDX-License-Identifier: MIT */
/*
 * table.h - one table, filled once, written as text, Markdown, HTML, CSV or JSON.
 *
 * A column has a key (JSON member, CSV heading: stable, for programs) and a title (for people). A
 * cell keeps its value; only the text forms round and scale it: a duration is nanoseconds in JSON
 * and CSV and "1.24 ms" in a table.
 *
 * I1 Every row has as many cells as there are columns: missing ones are null.
 * I2 CSV is RFC 4180: a cell with a quote, a comma, a line break or an edge space is quoted.
 * I3 Exhaustion is remembered: after it nothing more is added and sm__table_error() says -ENOMEM.
 *
 *   static const struct sm__column columns[] = {
 *           { "design", "design", SM__LEFT }, { "time_ns", "time", SM__RIGHT } };
 *   struct sm__table *t = sm__table_new(columns, 2);
 *   sm__table_row(t);
 *   sm__table_text(t, "linux-6.1");
 *   sm__table_duration(t, 1234567);
 *   sm__table_print(t, stdout, SM__TABLE_TEXT);
 *   sm__table_free(t);
 */
#ifndef SM_REPORT_TABLE_H
#define SM_REPORT_TABLE_H

#include "report/json.h"

enum sm__align { SM__LEFT, SM__RIGHT };

struct sm__column {
	const char *key;
	const char *title; /* NULL: the key */
	enum sm__align align;
	bool data_only; /* in JSON and CSV, not in the text forms */
};

enum sm__table_form { SM__TABLE_TEXT, SM__TABLE_MARKDOWN, SM__TABLE_HTML, SM__TABLE_CSV };

struct sm__table;

/*
 * Copies the columns (strings included). Return: NULL on exhaustion; every call below accepts NULL.
 */
struct sm__table *sm__table_new(const struct sm__column *columns, unsigned n);
void sm__table_free(struct sm__table *t);

/*
 * Begins a row; then one call per cell, from left to right. Cells beyond the last column are
 * ignored.
 */
void sm__table_row(struct sm__table *t);
void sm__table_text(struct sm__table *t, const char *text); /* copied; NULL: null */
void sm__table_number(struct sm__table *t, double value, unsigned digits);
void sm__table_count(struct sm__table *t, uint64_t value);    /* text: "1 234 567" */
void sm__table_duration(struct sm__table *t, double ns);      /* text: "1.24 ms" */
void sm__table_bytes(struct sm__table *t, double bytes);      /* text: "1.5 MiB" */
void sm__table_percent(struct sm__table *t, double fraction); /* text: "+12.3%" of +0.123 */
void sm__table_null(struct sm__table *t);		      /* text: "-" */

int sm__table_error(const struct sm__table *t);

/* The whole table. Return: 0, -EIO (stream), -ENOMEM (I3). */
int sm__table_print(const struct sm__table *t, FILE *out, enum sm__table_form form);
/* The rows as an array of objects under key, into an open JSON level; null cells are written. */
void sm__table_json(const struct sm__table *t, struct sm__json *j, const char *key);

#endif
