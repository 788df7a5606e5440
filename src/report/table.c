/* SPDX-License-Identifier: MIT */
/* table.c - the table of table.h. */
#include "report/table.h"
#include "report/html.h"
#include "report/text.h"
#include "base/base.h"
#include "base/inject.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum cell_kind { NOTHING, TEXT, NUMBER, COUNT, DURATION, BYTES, PERCENT };

struct cell {
	enum cell_kind kind;
	unsigned digits;
	union {
		char *text;
		double number;
		uint64_t count;
	};
};

struct sm__table {
	struct sm__column *columns;
	unsigned n_columns;
	unsigned rows, room; /* rows in use and allocated */
	unsigned next;	     /* column of the next cell */
	struct cell *cells;
	int error;
};

static void *allocate(size_t n, size_t size)
{
	return sm__inject_fail() ? NULL : calloc(n ? n : 1, size);
}

static char *copy(const char *s)
{
	return sm__inject_fail() ? NULL : strdup(s);
}

struct sm__table *sm__table_new(const struct sm__column *columns, unsigned n)
{
	struct sm__table *t = allocate(1, sizeof(*t));

	if (!t)
		return NULL;
	t->columns = allocate(n, sizeof(*columns));
	if (!t->columns)
		goto fail;
	t->n_columns = n;
	for (unsigned i = 0; i < n; i++) {
		const char *title = columns[i].title ? columns[i].title : columns[i].key;

		t->columns[i] = columns[i];
		t->columns[i].key = copy(columns[i].key);
		t->columns[i].title = copy(title);
		if (!t->columns[i].key || !t->columns[i].title)
			goto fail;
	}
	return t;
fail:
	sm__table_free(t);
	return NULL;
}

void sm__table_free(struct sm__table *t)
{
	if (!t)
		return;
	for (unsigned i = 0; i < t->rows * t->n_columns; i++) {
		if (t->cells[i].kind == TEXT)
			free(t->cells[i].text);
	}
	for (unsigned i = 0; i < t->n_columns; i++) {
		free((char *)t->columns[i].key);
		free((char *)t->columns[i].title);
	}
	free(t->cells);
	free(t->columns);
	free(t);
}

void sm__table_row(struct sm__table *t)
{
	if (!t || t->error)
		return;
	if (t->rows == t->room) {
		unsigned room = t->room ? t->room * 2 : 16;
		struct cell *cells = allocate((size_t)room * t->n_columns, sizeof(*cells));

		if (!cells) {
			t->error = -ENOMEM;
			return;
		}
		if (t->rows)
			memcpy(cells, t->cells, sizeof(*cells) * t->rows * t->n_columns);
		free(t->cells);
		t->cells = cells;
		t->room = room;
	}
	memset(t->cells + (size_t)t->rows * t->n_columns, 0, sizeof(*t->cells) * t->n_columns);
	t->rows++;
	t->next = 0;
}

static void put(struct sm__table *t, struct cell c)
{
	if (!t || t->error || !t->rows || t->next >= t->n_columns) {
		if (c.kind == TEXT)
			free(c.text);
		return;
	}
	t->cells[(size_t)(t->rows - 1) * t->n_columns + t->next++] = c;
}

void sm__table_text(struct sm__table *t, const char *text)
{
	struct cell c = { .kind = text ? TEXT : NOTHING };

	if (t && text && !(c.text = copy(text))) {
		t->error = -ENOMEM;
		return;
	}
	put(t, c);
}

void sm__table_number(struct sm__table *t, double value, unsigned digits)
{
	put(t, (struct cell){ .kind = NUMBER, .digits = digits, .number = value });
}

void sm__table_count(struct sm__table *t, uint64_t value)
{
	put(t, (struct cell){ .kind = COUNT, .count = value });
}

void sm__table_duration(struct sm__table *t, double ns)
{
	put(t, (struct cell){ .kind = DURATION, .number = ns });
}

void sm__table_bytes(struct sm__table *t, double bytes)
{
	put(t, (struct cell){ .kind = BYTES, .number = bytes });
}

void sm__table_percent(struct sm__table *t, double fraction)
{
	put(t, (struct cell){ .kind = PERCENT, .number = fraction });
}

void sm__table_null(struct sm__table *t)
{
	put(t, (struct cell){ .kind = NOTHING });
}

int sm__table_error(const struct sm__table *t)
{
	return t ? t->error : -ENOMEM;
}

/* What a person reads. buf holds SM__TEXT_NUMBER bytes; texts are returned as they are. */
static const char *shown(const struct cell *c, char *buf)
{
	if (c->kind == NOTHING)
		return "-";
	if (c->kind == TEXT)
		return c->text;
	if (c->kind == COUNT)
		return sm__text_count((double)c->count, buf);
	if (!isfinite(c->number))
		return "-";
	if (c->kind == DURATION)
		return sm__text_duration(c->number, buf);
	if (c->kind == BYTES)
		return sm__text_bytes(c->number, buf);
	if (c->kind == PERCENT)
		snprintf(buf, SM__TEXT_NUMBER, "%+.1f%%", c->number * 100);
	else if (fabs(c->number) >= 1e15)
		snprintf(buf, SM__TEXT_NUMBER, "%.3g", c->number);
	else
		snprintf(buf, SM__TEXT_NUMBER, "%.*f", (int)(c->digits < 12 ? c->digits : 12),
			 c->number);
	return buf;
}

static const struct cell *cell_at(const struct sm__table *t, unsigned row, unsigned column)
{
	return &t->cells[(size_t)row * t->n_columns + column];
}

static unsigned width_of(const struct sm__table *t, unsigned column)
{
	unsigned width = sm__text_width(t->columns[column].title);
	char buf[SM__TEXT_NUMBER];

	for (unsigned r = 0; r < t->rows; r++) {
		unsigned w = sm__text_width(shown(cell_at(t, r, column), buf));

		width = w > width ? w : width;
	}
	return width;
}

/*
 * One line of a text table; row == t->rows is the heading. The last column gets no trailing blanks.
 */
static void text_line(const struct sm__table *t, FILE *out, unsigned row, const unsigned *widths)
{
	char buf[SM__TEXT_NUMBER];
	const char *gap = "";

	for (unsigned c = 0; c < t->n_columns; c++) {
		const struct sm__column *column = &t->columns[c];
		bool last = c + 1 == t->n_columns && column->align == SM__LEFT;

		if (column->data_only)
			continue;
		fputs(gap, out);
		sm__text_pad(out, row == t->rows ? column->title : shown(cell_at(t, row, c), buf),
			     last ? 0 : widths[c], column->align == SM__RIGHT);
		gap = "  ";
	}
	fputc('\n', out);
}

static void print_text(const struct sm__table *t, FILE *out, const unsigned *widths)
{
	text_line(t, out, t->rows, widths);
	for (unsigned r = 0; r < t->rows; r++)
		text_line(t, out, r, widths);
}

static void markdown_cell(FILE *out, const char *s)
{
	fputs("| ", out);
	for (; *s; s++) {
		if (*s == '|')
			fputs("\\|", out);
		else
			fputc((unsigned char)*s < 0x20 ? ' ' : *s, out);
	}
	fputc(' ', out);
}

static void print_markdown(const struct sm__table *t, FILE *out)
{
	char buf[SM__TEXT_NUMBER];

	for (unsigned c = 0; c < t->n_columns; c++) {
		if (!t->columns[c].data_only)
			markdown_cell(out, t->columns[c].title);
	}
	fputs("|\n", out);
	for (unsigned c = 0; c < t->n_columns; c++) {
		if (!t->columns[c].data_only)
			fputs(t->columns[c].align == SM__RIGHT ? "|--:" : "|---", out);
	}
	fputs("|\n", out);
	for (unsigned r = 0; r < t->rows; r++) {
		for (unsigned c = 0; c < t->n_columns; c++) {
			if (!t->columns[c].data_only)
				markdown_cell(out, shown(cell_at(t, r, c), buf));
		}
		fputs("|\n", out);
	}
}

static void html_row(const struct sm__table *t, FILE *out, unsigned row, const char *tag)
{
	char buf[SM__TEXT_NUMBER];

	fputs("<tr>", out);
	for (unsigned c = 0; c < t->n_columns; c++) {
		const struct sm__column *column = &t->columns[c];

		if (column->data_only)
			continue;
		fprintf(out, "<%s%s>", tag, column->align == SM__RIGHT ? " class=\"r\"" : "");
		sm__html_text(out, row == t->rows ? column->title : shown(cell_at(t, row, c), buf));
		fprintf(out, "</%s>", tag);
	}
	fputs("</tr>\n", out);
}

static void print_html(const struct sm__table *t, FILE *out)
{
	fputs("<div class=\"scroll\"><table>\n", out);
	html_row(t, out, t->rows, "th");
	for (unsigned r = 0; r < t->rows; r++)
		html_row(t, out, r, "td");
	fputs("</table></div>\n", out);
}

/* I2 */
static void csv_text(FILE *out, const char *s)
{
	size_t n = strlen(s);

	if (!strpbrk(s, "\",\r\n") && (!n || (s[0] != ' ' && s[n - 1] != ' '))) {
		fputs(s, out);
		return;
	}
	fputc('"', out);
	for (; *s; s++) {
		if (*s == '"')
			fputc('"', out);
		fputc(*s, out);
	}
	fputc('"', out);
}

static void csv_cell(FILE *out, const struct cell *c)
{
	char buf[32];

	if (c->kind == TEXT)
		csv_text(out, c->text);
	else if (c->kind == COUNT)
		fprintf(out, "%" PRIu64, c->count);
	else if (c->kind != NOTHING && isfinite(c->number))
		fputs(sm__json_format(c->number, buf), out);
}

static void print_csv(const struct sm__table *t, FILE *out)
{
	for (unsigned c = 0; c < t->n_columns; c++) {
		fputs(c ? "," : "", out);
		csv_text(out, t->columns[c].key);
	}
	fputs("\r\n", out);
	for (unsigned r = 0; r < t->rows; r++) {
		for (unsigned c = 0; c < t->n_columns; c++) {
			fputs(c ? "," : "", out);
			csv_cell(out, cell_at(t, r, c));
		}
		fputs("\r\n", out);
	}
}

int sm__table_print(const struct sm__table *t, FILE *out, enum sm__table_form form)
{
	unsigned *widths;

	if (sm__table_error(t))
		return sm__table_error(t);
	if (form == SM__TABLE_CSV) {
		print_csv(t, out);
	} else if (form == SM__TABLE_MARKDOWN) {
		print_markdown(t, out);
	} else if (form == SM__TABLE_HTML) {
		print_html(t, out);
	} else {
		widths = allocate(t->n_columns, sizeof(*widths));
		if (!widths)
			return -ENOMEM;
		for (unsigned c = 0; c < t->n_columns; c++)
			widths[c] = width_of(t, c);
		print_text(t, out, widths);
		free(widths);
	}
	return ferror(out) ? -EIO : 0;
}

void sm__table_json(const struct sm__table *t, struct sm__json *j, const char *key)
{
	sm__json_open(j, key, '[');
	for (unsigned r = 0; t && r < t->rows; r++) {
		sm__json_open(j, NULL, '{');
		for (unsigned c = 0; c < t->n_columns; c++) {
			const struct cell *cell = cell_at(t, r, c);
			const char *name = t->columns[c].key;

			if (cell->kind == NOTHING)
				sm__json_null(j, name);
			else if (cell->kind == TEXT)
				sm__json_text(j, name, cell->text);
			else if (cell->kind == COUNT)
				sm__json_uint(j, name, cell->count);
			else
				sm__json_number(j, name, cell->number);
		}
		sm__json_close(j);
	}
	sm__json_close(j);
}
