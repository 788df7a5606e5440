/* SPDX-License-Identifier: MIT */
/*
 * replay_html.c - a replay as a section of an HTML page (replay_report.h): the tables of the text, and
 * pictures of where the time went, what held mmap_lock, what each thread did when, and how many VMAs
 * there were.
 */
#include "replay_tables.h"
#include "report/chart.h"
#include "report/html.h"
#include "report/text.h"
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

enum {
	KINDS = 8,	/* calls with a colour of their own: those that took the longest */
	OTHERS = KINDS, /* one colour for the rest */
	WAITING,	/* for order */
	TRACKS_MAX = 128,
};

/* Which colour a kind of call has, the same in all pictures of a recording. */
struct palette {
	unsigned colour[SM_SYS_COUNT];
	const char *names[SM__CHART_COLOURS];
};

static void print_table(struct sm__table *t, FILE *out)
{
	sm__table_print(t, out, SM__TABLE_HTML);
	sm__table_free(t);
}

/* What print writes as text, between <pre> and </pre>. */
static void preformatted(FILE *out, const struct shown *s, const struct runs *runs,
			 void (*print)(FILE *out, const struct shown *s, const struct runs *runs))
{
	char *text = NULL;
	size_t size = 0;
	FILE *buffer = open_memstream(&text, &size);

	if (buffer) {
		print(buffer, s, runs);
		if (!fclose(buffer))
			sm__html_element(out, "pre", text);
	}
	free(text);
}

/* ---- pictures ---- */

static double kind_total(const struct runs *runs, unsigned n, int kind)
{
	double sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += runs[i].best->kinds[kind].total_ns;
	return sum;
}

static struct palette make_palette(const struct runs *runs, unsigned n)
{
	struct palette p = { .names = { [WAITING] = "waiting for order" } };
	bool taken[SM_SYS_COUNT] = { false };

	for (int k = 0; k < SM_SYS_COUNT; k++)
		p.colour[k] = OTHERS;
	for (unsigned c = 0; c <= OTHERS; c++) {
		double most = 0;
		int best = -1;

		for (int k = 0; k < SM_SYS_COUNT; k++) {
			double total = taken[k] ? 0 : kind_total(runs, n, k);

			if (total > most) {
				most = total;
				best = k;
			}
		}
		if (best < 0)
			break;
		taken[best] = true;
		p.colour[best] = c;
		p.names[c] = c < OTHERS ? sm_trace_call_name((enum sm_trace_call)best) : "others";
	}
	return p;
}

static void draw_times(FILE *out, const struct palette *p, const struct runs *runs, unsigned n)
{
	struct sm__chart_row *rows = calloc(n, sizeof(*rows));

	for (unsigned i = 0; rows && i < n; i++) {
		rows[i].label = runs[i].design;
		rows[i].n = OTHERS + 1;
		for (unsigned c = 0; c <= OTHERS; c++)
			rows[i].parts[c] =
				(struct sm__chart_part){ p->names[c] ? p->names[c] : "", 0, c };
		for (int k = 0; k < SM_SYS_COUNT; k++)
			rows[i].parts[p->colour[k]].value += runs[i].best->kinds[k].total_ns;
	}
	sm__html_element(out, "h3", "Time in calls");
	sm__chart_legend(out, p->names);
	if (rows)
		sm__chart_bars(out, rows, n, sm__text_duration);
	free(rows);
}

static void draw_lock(FILE *out, const struct runs *runs, unsigned n)
{
	static const char *const names[SM__CHART_COLOURS] = { "held by readers", "held by writers",
							      "readers waited", "writers waited" };
	struct sm__chart_row *rows = calloc(n, sizeof(*rows));

	for (unsigned i = 0; rows && i < n; i++) {
		const struct sm_lock_stats *l = &runs[i].best->lock;
		const uint64_t ns[] = { l->hold[SM_LOCK_READ].sum, l->hold[SM_LOCK_WRITE].sum,
					l->wait[SM_LOCK_READ].sum, l->wait[SM_LOCK_WRITE].sum };

		rows[i].label = runs[i].design;
		rows[i].n = SM__ARRAY_SIZE(ns);
		for (unsigned c = 0; c < SM__ARRAY_SIZE(ns); c++)
			rows[i].parts[c] = (struct sm__chart_part){ names[c], (double)ns[c], c };
	}
	sm__html_element(out, "h3", "mmap_lock");
	sm__chart_legend(out, names);
	if (rows)
		sm__chart_bars(out, rows, n, sm__text_duration);
	free(rows);
}

/* Rows of the powers of two between the smallest and the largest value. */
static void draw_histogram(FILE *out, const char *title, const struct sm_histogram *sides)
{
	static const char *const names[SM__CHART_COLOURS] = { "readers", "writers" };
	enum { BUCKETS = SM__ARRAY_SIZE(((struct sm_histogram *)0)->bucket) };
	struct sm__chart_row rows[BUCKETS];
	char labels[BUCKETS][2 * SM__TEXT_NUMBER], low[SM__TEXT_NUMBER], high[SM__TEXT_NUMBER];
	unsigned first = BUCKETS, last = 0;

	for (unsigned b = 0; b < BUCKETS; b++) {
		rows[b] = (struct sm__chart_row){ .label = labels[b], .n = SM_LOCK_SIDES };
		snprintf(labels[b], sizeof(labels[b]), "%s to %s",
			 sm__text_duration(b ? (double)(1ull << b) : 0, low),
			 sm__text_duration((double)(2ull << b), high));
		for (unsigned s = 0; s < SM_LOCK_SIDES; s++) {
			rows[b].parts[s] =
				(struct sm__chart_part){ names[s], (double)sides[s].bucket[b], s };
			if (!sides[s].bucket[b])
				continue;
			first = b < first ? b : first;
			last = b;
		}
	}
	if (first == BUCKETS)
		return;
	sm__html_element(out, "h4", title);
	sm__chart_legend(out, names);
	sm__chart_bars(out, rows + first, last - first + 1, sm__text_count);
}

/* The last moment of any run: all are drawn to one scale. */
static double longest(const struct shown *s, const struct runs *runs, unsigned n)
{
	double end = 0;

	for (unsigned d = 0; d < n; d++) {
		const struct sm__moment *timeline = runs[d].best->timeline;

		for (size_t i = 0; timeline && i < s->rec->ncalls; i++) {
			double stop = (double)timeline[i].start + timeline[i].took;

			if (timeline[i].took != UINT32_MAX && stop > end)
				end = stop;
		}
	}
	return end;
}

static void draw_track(struct sm__chart_tracks *t, const struct palette *p, const struct shown *s,
		       const struct runs *runs, uint32_t thread)
{
	char label[32];

	for (size_t i = 0; i < s->rec->ncalls; i++) {
		const struct sm__call *c = &s->rec->calls[i];
		const struct sm__moment *m = &runs->best->timeline[i];

		if (c->thread != thread || m->took == UINT32_MAX)
			continue;
		sm__tracks_span(t, (double)m->start, m->took, p->colour[c->call]);
		sm__tracks_span(t, (double)m->start - m->waited, m->waited, WAITING);
	}
	snprintf(label, sizeof(label), "%u", s->rec->threads[thread].tid);
	sm__tracks_next(t, label);
}

static void draw_tracks(FILE *out, const struct palette *p, const struct shown *s,
			const struct runs *runs, unsigned n)
{
	struct sm__chart_tracks *t = malloc(sizeof(*t));
	size_t threads = s->rec->nthreads < TRACKS_MAX ? s->rec->nthreads : TRACKS_MAX;
	double end = longest(s, runs, n);

	sm__html_element(out, "h3", "Threads over time");
	sm__chart_legend(out, p->names);
	if (threads < s->rec->nthreads)
		fprintf(out, "<p class=\"faint\">The first %zu threads of %zu.</p>\n", threads,
			s->rec->nthreads);
	for (unsigned d = 0; t && d < n; d++) {
		if (!runs[d].best->timeline)
			continue;
		sm__html_element(out, "h4", runs[d].design);
		sm__tracks_begin(t, out, (unsigned)threads, end);
		for (uint32_t i = 0; i < threads; i++)
			draw_track(t, p, s, &runs[d], i);
		sm__tracks_end(t);
	}
	free(t);
}

/* The same for every design: their maps are. */
static void draw_vmas(FILE *out, const struct sm__replay_result *r)
{
	struct sm__chart_point points[SM__SAMPLES_MAX];

	if (!r->nsamples)
		return;
	for (size_t i = 0; i < r->nsamples; i++)
		points[i] = (struct sm__chart_point){ (double)r->samples[i].call,
						      (double)r->samples[i].vmas };
	sm__html_element(out, "h3", "VMAs of all processes");
	sm__chart_line(out, points, (unsigned)r->nsamples, "calls", "VMAs");
}

/* ---- the section ---- */

static void put_design(FILE *out, const struct shown *s, const struct runs *runs, bool open)
{
	const struct sm__replay_result *r = runs->best;

	fprintf(out, "<details%s>", open ? " open" : "");
	sm__html_element(out, "summary", runs->design);
	preformatted(out, s, runs, report_figures);
	print_table(call_table(r, true), out);
	sm__html_element(out, "h4", "mmap_lock by the call that took it");
	print_table(lock_table(&r->lock), out);
	draw_histogram(out, "How long it was held", r->lock.hold);
	draw_histogram(out, "How long was waited for it", r->lock.wait);
	sm__html_element(out, "h4", "Object caches");
	print_table(cache_table(r), out);
	if (r->ndifferences) {
		sm__html_element(out, "h4", "Differences");
		print_table(difference_table(s, r), out);
	}
	fputs("</details>\n", out);
}

static void put_maps(FILE *out, const struct shown *s, const struct runs *runs)
{
	report_maps(out, s->rec, runs->best, 0);
}

static void put_description(FILE *out, const struct shown *s, const struct runs *runs)
{
	(void)runs;
	report_description(out, s);
}

void report_html(FILE *out, const struct shown *s, const struct runs *runs, unsigned n)
{
	struct palette p = make_palette(runs, n);

	sm__html_element(out, "h2", s->rec->files[0]);
	preformatted(out, s, runs, put_description);
	fputs("<p>Threads: ", out);
	sm__html_text(out, s->threads);
	fputs("</p>\n", out);
	if (n > 1)
		print_table(compare_table(runs, n), out);
	draw_times(out, &p, runs, n);
	draw_lock(out, runs, n);
	draw_tracks(out, &p, s, runs, n);
	draw_vmas(out, runs->best);
	sm__html_element(out, "h3", "Designs");
	for (unsigned i = 0; i < n; i++)
		put_design(out, s, &runs[i], n == 1);
	fputs("<details>", out);
	sm__html_element(out, "summary", "Final maps");
	preformatted(out, s, runs, put_maps);
	fputs("</details>\n", out);
}
