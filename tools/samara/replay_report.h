/* SPDX-License-Identifier: MIT */
/* replay_report.h - what samara replay shows: text and pages for people, JSON for programs. */
#ifndef SAMARA_REPLAY_REPORT_H
#define SAMARA_REPLAY_REPORT_H

#include "report/json.h"
#include "trace/replay.h"

enum { DESIGNS_MAX = 16, DESIGN_TEXT = 128 }; /* designs side by side; bytes of one's text */

/* One design's runs over one recording. */
struct runs {
	char design[DESIGN_TEXT];
	struct sm__replay_result *best; /* the run with the middle wall time */
	unsigned n;
	double wall_min_ns, wall_max_ns;
	bool same_maps; /* every run ended with the same maps */
};

/* What was asked for, as far as it is shown. */
struct shown {
	const struct sm__recording *rec;
	const char *threads, *touch; /* as on the command line */
	unsigned differences;	     /* at most this many are listed */
	bool maps;		     /* the final maps too */
};

/* Description of the recording, table of calls, figures, differences. */
void report_text(FILE *out, const struct shown *s, const struct runs *runs, unsigned n);
/* One object, into an open array. */
void report_json(struct sm__json *j, const struct shown *s, const struct runs *runs, unsigned n);

/* A section of an HTML page (report/html.h): the tables, and pictures. Needs the time line. */
void report_html(FILE *out, const struct shown *s, const struct runs *runs, unsigned n);

/*
 * The runs on a time line, as trace events that Perfetto and other viewers open: a process for each
 * recorded one and design, a track for each thread with its calls and waits, the number of VMAs.
 * Events go into an open array.
 */
void report_timeline(struct sm__json *j, const struct shown *s, const struct runs *runs,
		     unsigned n);

/* "# process 123 /usr/bin/sort" and the map. */
void report_maps(FILE *out, const struct sm__recording *rec, const struct sm__replay_result *result,
		 uint32_t pid);

#endif
