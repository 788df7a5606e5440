/* SPDX-License-Identifier: MIT */
/* chart.c - the pictures of chart.h. Lengths are SVG user units: pixels until the page is narrower. */
#include "report/chart.h"
#include "report/html.h"
#include "report/text.h"

#include <math.h>
#include <string.h>

enum {
	LABEL = 190, /* room for labels at the left */
	VALUE = 90,  /* and for values at the right */
	BAR = 16,    /* height of a bar */
	BAR_STEP = 22,
	TRACK = 7, /* height of a track */
	TRACK_STEP = 10,
	FOOT = 18, /* room for the axis */
	LINE_HEIGHT = 180,
	WIDTH = LABEL + SM__CHART_COLUMNS + VALUE,
	TICKS = 4,
	LABEL_CHARS = 30,
};

/* I2 */
static double sane(double v)
{
	return isfinite(v) && v > 0 ? v : 0;
}

/* In user units with one digit, in every locale. */
static void put_length(FILE *out, const char *name, double v)
{
	long tenths = lround(v * 10);

	fprintf(out, " %s=\"%ld.%ld\"", name, tenths / 10, tenths % 10);
}

static void begin(FILE *out, unsigned height)
{
	fprintf(out, "<svg viewBox=\"0 0 %d %u\" width=\"%d\" height=\"%u\" role=\"img\">\n", WIDTH,
		height, WIDTH, height);
}

static void end(FILE *out)
{
	fputs("</svg>\n", out);
}

/* anchor: start, middle or end. */
static void put_text(FILE *out, double x, double y, const char *anchor, const char *text)
{
	fputs("<text", out);
	put_length(out, "x", x);
	put_length(out, "y", y);
	fprintf(out, " text-anchor=\"%s\">", anchor);
	sm__html_text(out, text);
	fputs("</text>\n", out);
}

/* The end of a long label tells more than its beginning: paths, designs with switches. */
static void put_label(FILE *out, double y, const char *label)
{
	char buf[4 * LABEL_CHARS + 8];
	size_t skip = sm__text_width(label);
	const char *from = label;

	if (skip <= LABEL_CHARS) {
		put_text(out, LABEL - 8, y, "end", label);
		return;
	}
	for (skip -= LABEL_CHARS - 1; skip && *from; skip--)
		sm__utf8_next(&from);
	snprintf(buf, sizeof(buf), "…%s", from);
	put_text(out, LABEL - 8, y, "end", buf);
}

/* ---- bars ---- */

static double sum_of(const struct sm__chart_row *row)
{
	double sum = 0;

	for (unsigned i = 0; i < row->n; i++)
		sum += sane(row->parts[i].value);
	return sum;
}

static void put_bar(FILE *out, const struct sm__chart_row *row, double y, double scale,
		    sm__chart_format *format)
{
	char text[SM__TEXT_NUMBER];
	double x = LABEL;

	put_label(out, y + BAR - 4, row->label);
	for (unsigned i = 0; i < row->n; i++) {
		const struct sm__chart_part *p = &row->parts[i];
		double width = sane(p->value) * scale;

		if (width < 0.05)
			continue;
		fprintf(out, "<rect class=\"c%u\"", p->colour % SM__CHART_COLOURS);
		put_length(out, "x", x);
		put_length(out, "y", y);
		put_length(out, "width", width);
		fprintf(out, " height=\"%d\"><title>", BAR);
		sm__html_text(out, p->name);
		fputs(": ", out);
		sm__html_text(out, format(p->value, text));
		fputs("</title></rect>\n", out);
		x += width;
	}
	put_text(out, x + 6, y + BAR - 4, "start", format(sum_of(row), text));
}

void sm__chart_bars(FILE *out, const struct sm__chart_row *rows, unsigned n,
		    sm__chart_format *format)
{
	double most = 0;

	for (unsigned i = 0; i < n; i++)
		most = fmax(most, sum_of(&rows[i]));
	begin(out, n * BAR_STEP + 2);
	for (unsigned i = 0; i < n; i++)
		put_bar(out, &rows[i], i * BAR_STEP + 1.0, most > 0 ? SM__CHART_COLUMNS / most : 0,
			format);
	end(out);
}

void sm__chart_legend(FILE *out, const char *const names[SM__CHART_COLOURS])
{
	fputs("<p>", out);
	for (unsigned i = 0; i < SM__CHART_COLOURS; i++) {
		if (!names[i])
			continue;
		fprintf(out, "<span class=\"key c%u\"></span>", i);
		sm__html_text(out, names[i]);
	}
	fputs("</p>\n", out);
}

/* ---- tracks ---- */

static void put_axis(FILE *out, double height, double total, sm__chart_format *format)
{
	char text[SM__TEXT_NUMBER];

	for (int i = 0; i <= TICKS; i++) {
		double x = LABEL + (double)SM__CHART_COLUMNS * i / TICKS;

		fputs("<line class=\"axis\"", out);
		put_length(out, "x1", x);
		put_length(out, "x2", x);
		put_length(out, "y1", 0);
		put_length(out, "y2", height);
		fputs("/>\n", out);
		put_text(out, x, height + FOOT - 5, "middle", format(total * i / TICKS, text));
	}
}

void sm__tracks_begin(struct sm__chart_tracks *t, FILE *out, unsigned n, double total_ns)
{
	memset(t, 0, sizeof(*t));
	t->out = out;
	t->scale = sane(total_ns) > 0 ? SM__CHART_COLUMNS / total_ns : 0;
	begin(out, n * TRACK_STEP + FOOT);
	put_axis(out, (double)n * TRACK_STEP, sane(total_ns), sm__text_duration);
}

void sm__tracks_span(struct sm__chart_tracks *t, double start_ns, double ns, unsigned colour)
{
	double from = fmin(sane(start_ns) * t->scale, SM__CHART_COLUMNS);
	double to = fmin(sane(start_ns + ns) * t->scale, SM__CHART_COLUMNS);

	for (unsigned c = (unsigned)from; c < SM__CHART_COLUMNS && c < to; c++)
		t->cover[c][colour % SM__CHART_COLOURS] +=
			(float)(fmin(to, c + 1.0) - fmax(from, c));
}

struct shade {
	unsigned colour, quarters; /* quarters 0: nothing there */
};

/* The colour that covers most of a column, and how much all do: quarters, seen from the first bit on. */
static struct shade shade_of(const float cover[SM__CHART_COLOURS])
{
	struct shade s = { 0 };
	float sum = 0;

	for (unsigned i = 0; i < SM__CHART_COLOURS; i++) {
		sum += cover[i];
		if (cover[i] > cover[s.colour])
			s.colour = i;
	}
	if (sum > 0)
		s.quarters = sum >= 1 ? 4 : (unsigned)ceilf(sum * 4);
	return s;
}

void sm__tracks_next(struct sm__chart_tracks *t, const char *label)
{
	double y = t->n++ * (double)TRACK_STEP + 1;
	unsigned from = 0;

	put_label(t->out, y + TRACK, label);
	while (from < SM__CHART_COLUMNS) {
		struct shade s = shade_of(t->cover[from]), next = s;
		unsigned to = from;

		while (next.colour == s.colour && next.quarters == s.quarters) {
			if (++to == SM__CHART_COLUMNS)
				break;
			next = shade_of(t->cover[to]);
		}
		if (s.quarters) {
			fprintf(t->out, "<rect class=\"c%u\" x=\"%u\"", s.colour, LABEL + from);
			put_length(t->out, "y", y);
			fprintf(t->out, " width=\"%u\" height=\"%d\"", to - from, TRACK);
			if (s.quarters < 4)
				fprintf(t->out, " opacity=\".%02u\"", 25 * s.quarters);
			fputs("/>\n", t->out);
		}
		from = to;
	}
	memset(t->cover, 0, sizeof(t->cover));
}

void sm__tracks_end(struct sm__chart_tracks *t)
{
	end(t->out);
}

/* ---- a line ---- */

void sm__chart_line(FILE *out, const struct sm__chart_point *points, unsigned n, const char *x_name,
		    const char *y_name)
{
	double top = 14, height = LINE_HEIGHT - top, most_x = 0, most_y = 0;
	char text[SM__TEXT_NUMBER];

	for (unsigned i = 0; i < n; i++) {
		most_x = fmax(most_x, sane(points[i].x));
		most_y = fmax(most_y, sane(points[i].y));
	}
	begin(out, LINE_HEIGHT + FOOT);
	put_axis(out, LINE_HEIGHT, most_x, sm__text_count);
	put_text(out, LABEL - 8, top + 4, "end", sm__text_count(most_y, text));
	put_text(out, LABEL - 8, LINE_HEIGHT, "end", "0");
	put_text(out, LABEL - 8, top + height / 2, "end", y_name);
	put_text(out, WIDTH - 4, LINE_HEIGHT + FOOT - 5, "end", x_name);
	fputs("<polyline points=\"", out);
	for (unsigned i = 0; i < n && most_x > 0 && most_y > 0; i++) {
		long x = lround(LABEL + sane(points[i].x) / most_x * SM__CHART_COLUMNS);
		long y = lround(LINE_HEIGHT - sane(points[i].y) / most_y * height);

		fprintf(out, "%s%ld,%ld", i ? " " : "", x, y);
	}
	fputs("\"/>\n", out);
	end(out);
}
