/* SPDX-License-Identifier: MIT */
/*
 * chart.h - pictures in SVG, to stand inside an HTML page (html.h has their colours).
 *
 * I1 The size of a picture does not grow with the number of events: what falls on one pixel is one.
 * I2 Numbers are finite and not negative; others are drawn as 0. Texts are escaped (html.h).
 *
 *   bars     linux-6.1   |████████▒▒▒▒░|  1.24 ms       parts in a row, one bar for each row
 *   tracks   9417        |█ ▒▒█  █     |                what a thread did, and when
 *   line     ╱‾‾╲╱                                      a value over the calls
 */
#ifndef SM_REPORT_CHART_H
#define SM_REPORT_CHART_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { SM__CHART_COLOURS = 10, SM__CHART_COLUMNS = 960, SM__CHART_PARTS = 16 };

/* ---- bars ---- */

struct sm__chart_part {
	const char *name; /* shown when pointed at */
	double value;
	unsigned colour; /* below SM__CHART_COLOURS */
};

struct sm__chart_row {
	const char *label;
	unsigned n;
	struct sm__chart_part parts[SM__CHART_PARTS];
};

/* A number for people, as sm__text_duration. */
typedef char *sm__chart_format(double value, char *buf);

/* All rows to one scale, from 0; behind each stands its sum. */
void sm__chart_bars(FILE *out, const struct sm__chart_row *rows, unsigned n,
		    sm__chart_format *format);

/* A legend: a square of each colour and its name. Names that are NULL are left out. */
void sm__chart_legend(FILE *out, const char *const names[SM__CHART_COLOURS]);

/* ---- tracks ---- */

struct sm__chart_tracks {
	FILE *out;
	unsigned n;   /* tracks so far */
	double scale; /* columns per nanosecond */
	/* Of the track at hand: how much of a column each colour covers, 1 being all. */
	float cover[SM__CHART_COLUMNS][SM__CHART_COLOURS];
};

/* n tracks over total_ns nanoseconds. */
void sm__tracks_begin(struct sm__chart_tracks *t, FILE *out, unsigned n, double total_ns);
/* Something on the track at hand; in any order. */
void sm__tracks_span(struct sm__chart_tracks *t, double start_ns, double ns, unsigned colour);
/* Draws the track at hand; the next begins. */
void sm__tracks_next(struct sm__chart_tracks *t, const char *label);
void sm__tracks_end(struct sm__chart_tracks *t);

/* ---- a line ---- */

struct sm__chart_point {
	double x, y;
};

/* Points by ascending x; both axes begin at 0. */
void sm__chart_line(FILE *out, const struct sm__chart_point *points, unsigned n, const char *x_name,
		    const char *y_name);

#endif
