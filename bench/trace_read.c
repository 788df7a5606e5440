/* SPDX-License-Identifier: MIT */
/*
 * trace_read.c - samara bench trace-read: how fast recordings are read, one thread.
 *
 *   verbose, raw, cut, perf    a form of the text each; "cut" has every call in two parts
 *   verbose.xz                 the same through the decompressor
 *
 * Peer of "verbose": what one writes first, getline() and sscanf(), which understands this form of one
 * call and nothing else. "memchr" finds the ends of the lines and does nothing else: the floor.
 * A sample reads the whole text from memory; figures are per line, and MB of plain text per second.
 */
#include "base/base.h"
#include "harness.h"

#include <samara/trace.h>

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 160000, RUNS_MOST = 1000 };

struct text {
	char *at;
	size_t len, room;
	uint64_t lines;
};

static void add(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct text *t, const char *format, ...)
{
	va_list ap;
	int n;

	if (t->len + 512 > t->room) {
		char *grown = realloc(t->at, t->room ? t->room * 2 : 1 << 20);

		if (!grown)
			return; /* the text is shorter then: n lines are counted, not hoped for */
		t->at = grown;
		t->room = t->room ? t->room * 2 : 1 << 20;
	}
	va_start(ap, format);
	n = vsnprintf(t->at + t->len, 512, format, ap);
	va_end(ap);
	t->len += (size_t)n;
	t->lines++;
}

/* What word counting leaves in a log: a new arena now and then, and mprotect page by page. */
static void verbose(struct text *t, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		unsigned tid = 9365 + i % 5;
		unsigned long at = 0x7f3398000000 + i * 4096;

		if (i % 64 == 0)
			add(t,
			    "%u  1796061262.%06u mmap(NULL, 134217728, 0 /* PROT_NONE */, 0x4022 "
			    "/* MAP_PRIVATE|MAP_ANONYMOUS|MAP_NORESERVE */, -1, 0) = 0x%lx "
			    "<0.000019>\n",
			    tid, (unsigned)(i % 1000000), at);
		else
			add(t,
			    "%u  1796061262.%06u mprotect(0x%lx, 4096, 0x3 /* PROT_READ|PROT_WRITE "
			    "*/) = 0 <0.000012>\n",
			    tid, (unsigned)(i % 1000000), at);
	}
}

static void raw(struct text *t, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		add(t, "[pid %5u] mprotect(0x%lx, 4096, 0x3) = 0\n", 9365 + (unsigned)(i % 5),
		    0x7f3398000000 + i * 4096);
}

static void cut(struct text *t, uint64_t n)
{
	for (uint64_t i = 0; i < n / 2; i++) {
		add(t,
		    "%u  1796061262.%06u mprotect(0x%lx, 4096, PROT_READ|PROT_WRITE <unfinished "
		    "...>\n",
		    9365 + (unsigned)(i % 100), (unsigned)(i % 1000000), 0x7f3398000000 + i * 4096);
		add(t, "%u  1796061262.%06u <... mprotect resumed>) = 0 <0.000020>\n",
		    9365 + (unsigned)(i % 100), (unsigned)(i % 1000000));
	}
}

static void perf(struct text *t, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		if (i % 2)
			add(t,
			    "%10.3f ( 0.000 ms): wordcount/%u minfault [count+0x17a] => "
			    "//anon@0x%lx (d.)\n",
			    (double)i / 1000, 9365 + (unsigned)(i % 5), 0x7f3398000000 + i * 4096);
		else
			add(t,
			    "%10.3f ( 0.012 ms): wordcount/%u mprotect(start: 0x%lx, len: 4096, "
			    "prot: READ|WRITE)          = 0\n",
			    (double)i / 1000, 9365 + (unsigned)(i % 5), 0x7f3398000000 + i * 4096);
	}
}

/* ---- sides: nanoseconds for the whole text, UINT64_MAX if it was not understood ---- */

static uint64_t read_ours(const struct text *t)
{
	struct sm_trace_event ev;
	struct sm_trace_stats stats;
	struct sm_trace *trace;
	uint64_t start = bench_now(), took;
	int r;

	if (sm_trace_open_memory(t->at, t->len, NULL, &trace))
		return UINT64_MAX;
	while ((r = sm_trace_next(trace, &ev)) > 0)
		;
	took = bench_now() - start;
	sm_trace_stats(trace, &stats);
	sm_trace_close(trace);
	return r || stats.bad || stats.lines != t->lines ? UINT64_MAX : took;
}

static uint64_t read_sscanf(const struct text *t)
{
	uint64_t start = bench_now(), calls = 0;
	FILE *in = fmemopen(t->at, t->len, "r");
	char *line = NULL;
	size_t room = 0;

	if (!in)
		return UINT64_MAX;
	while (getline(&line, &room, in) > 0) {
		unsigned tid;
		double at;
		unsigned long addr, len, prot;

		calls += sscanf(line, "%u %lf mprotect(0x%lx, %lu, 0x%lx", &tid, &at, &addr, &len,
				&prot) == 5;
	}
	free(line);
	fclose(in);
	__asm__ volatile("" : : "r"(calls));
	return bench_now() - start;
}

static uint64_t read_memchr(const struct text *t)
{
	uint64_t start = bench_now(), lines = 0;
	const char *end = t->at + t->len;

	for (const char *p = t->at; p < end && (p = memchr(p, '\n', (size_t)(end - p))); p++)
		lines++;
	return lines == t->lines ? bench_now() - start : UINT64_MAX;
}

/* ---- rows ---- */

struct side {
	const char *name;
	uint64_t (*read)(const struct text *t);
};

static const struct side peers[] = { { "memchr", read_memchr }, { "getline+sscanf", read_sscanf } };

static int measure(struct bench *b, const char *name, const struct text *plain,
		   const struct text *ours)
{
	double samples[1 + SM__ARRAY_SIZE(peers)][RUNS_MOST], best;
	unsigned runs = bench_options(b)->runs, n = 0, npeers = strcmp(name, "verbose") ? 1 : 2;

	if (!bench_wanted(b, name))
		return 0;
	for (; n < runs && n < RUNS_MOST && !bench_enough(b, n); n++) {
		uint64_t took = read_ours(ours);

		if (took == UINT64_MAX)
			return bench_error(b, EBADMSG, "%s: the text was not understood", name);
		samples[0][n] = (double)took / (double)plain->lines;
		for (unsigned p = 0; p < npeers; p++)
			samples[p + 1][n] = (double)peers[p].read(plain) / (double)plain->lines;
		bench_progress(b, name, n + 1, runs);
	}
	for (unsigned p = 0; p < npeers; p++) {
		struct bench_row row = { .name = name,
					 .unit = BENCH_NS,
					 .ours = samples[0],
					 .n_ours = n,
					 .peer = peers[p].name,
					 .theirs = samples[p + 1],
					 .n_theirs = n };

		best = sm__stats_of(samples[0], n).median * (double)plain->lines;
		row.extra[0] = (struct bench_extra){ "mb_per_s", "MB/s",
						     (double)plain->len * 1e3 / best, BENCH_COUNT };
		bench_row(b, &row);
	}
	return 0;
}

/* The text through libarchive's xz filter, into memory. */
static int pack(const struct text *plain, struct text *packed)
{
	struct archive *a = archive_write_new();
	struct archive_entry *entry = archive_entry_new();
	int r = a && entry ? 0 : -ENOMEM;

	packed->room = plain->len + (1 << 20);
	packed->at = malloc(packed->room);
	if (!packed->at)
		r = -ENOMEM;
	if (!r) {
		archive_write_add_filter_xz(a);
		archive_write_set_format_raw(a);
		archive_entry_set_filetype(entry, AE_IFREG);
		if (archive_write_open_memory(a, packed->at, packed->room, &packed->len) ||
		    archive_write_header(a, entry) ||
		    archive_write_data(a, plain->at, plain->len) != (la_ssize_t)plain->len ||
		    archive_write_close(a))
			r = -EIO;
	}
	packed->lines = plain->lines;
	if (entry)
		archive_entry_free(entry);
	if (a)
		archive_write_free(a);
	return r;
}

static int run(struct bench *b)
{
	static const struct {
		const char *name;
		void (*make)(struct text *t, uint64_t lines);
	} forms[] = { { "verbose", verbose }, { "raw", raw }, { "cut", cut }, { "perf", perf } };
	uint64_t lines = bench_scale(b, LINES) & ~1ull;
	int r = 0;

	for (unsigned i = 0; !r && i < SM__ARRAY_SIZE(forms); i++) {
		struct text plain = { 0 }, packed = { 0 };

		forms[i].make(&plain, lines);
		r = measure(b, forms[i].name, &plain, &plain);
		if (!r && !i && bench_wanted(b, "verbose.xz")) {
			r = pack(&plain, &packed);
			r = r ? bench_error(b, -r, "cannot pack the text")
			      : measure(b, "verbose.xz", &plain, &packed);
		}
		free(plain.at);
		free(packed.at);
	}
	return r;
}

const struct benchmark bench_trace_read = {
	.name = "trace-read",
	.summary = "reading recordings: nanoseconds a line, MB a second",
	.seconds = 12,
	.run = run,
};
