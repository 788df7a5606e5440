/* SPDX-License-Identifier: MIT */
/*
 * harness.h - how a benchmark of samara is written.
 *
 * A benchmark is one file bench/NAME.c (found by itself) that defines one object, and one line in
 * bench/benchmarks.h that lists it:
 *
 *   #include "harness.h"
 *
 *   static uint64_t pair_ours(void *arg, uint64_t n)         // n operations; returns nanoseconds
 *   {
 *           uint64_t start = bench_now();
 *
 *           for (uint64_t i = 0; i < n; i++)
 *                   ...;
 *           return bench_now() - start;
 *   }
 *
 *   static int run(struct bench *b)
 *   {
 *           struct bench_peer *mimalloc = bench_peer_open(b, "mimalloc");   // samara-peer-mimalloc
 *           struct bench_case pair = {
 *                   .name = "pair", .unit = BENCH_NS,
 *                   .ours = { "samara", pair_ours, cache },
 *                   .theirs = { bench_peer_side(mimalloc, "pair"), bench_kernel_side(b, "x") },
 *           };
 *
 *           bench_measure(b, &pair);
 *           bench_peer_close(mimalloc);
 *           return 0;
 *   }
 *
 *   const struct benchmark bench_cache = {
 *           .name = "cache", .summary = "...", .seconds = 60, .run = run };
 *
 * What the harness does with a case
 *   - leaves it out if --filter does not match its name (substring),
 *   - pins the measuring thread, calibrates each side by itself so that a sample takes about 20 ms
 *     (1 ms with --quick), unless the case says n,
 *   - takes --runs samples of each side, sides interleaved (ours, theirs, theirs 2, ours, ...): a
 *     slow period of the machine then hits all of them,
 *   - writes one row per peer: median of ours, of theirs, the ratio ours/theirs, and the spread.
 *
 * Rows (JSON and CSV; the table for people shows the first ones):
 *   benchmark, case, ours, peer, theirs, unit, ratio, better ("lower" or "higher"), ours_min,
 *   ours_p25, ours_p75, ours_mean, ours_stdev, ours_runs, theirs_min, ... and the extra columns of
 *   the case.
 * A row without a peer has peer, theirs and ratio null. `ratio` is ours/theirs in every unit.
 *
 * What takes longer than a sample, or gives more than one figure at a time, collects its own
 * samples and hands them in: bench_row().
 *
 * Rules
 *   H1 Whatever a benchmark makes (files, memory, threads, processes) is gone when it returns.
 *   H2 With --quick every benchmark ends within a few seconds: bench_scale() shrinks counts.
 *   H3 Nothing is printed but through the harness: rows, bench_note(), bench_error().
 *   H4 A peer that is not there is a note, not an error.
 *   H5 The sum of all `seconds` stays below 13 minutes: `bench all` ends within 20 (bench_enough).
 */
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include "peers/measure.h"
#include "report/stats.h"
#include "report/table.h"

#include <stdio.h>

struct bench;
struct bench_peer;

/* An option of one benchmark, beside the common ones. */
enum bench_kind { BENCH_SWITCH, BENCH_NUMBER, BENCH_TIME, BENCH_TEXT };

struct bench_flag {
	const char *name; /* without the dashes */
	enum bench_kind kind;
	const char *help;
};

enum { BENCH_FLAGS = 12, BENCH_RUNS_MOST = 1000 /* --runs */ };

struct benchmark {
	const char *name;
	const char *summary;
	unsigned seconds;	     /* about how long it takes in `bench all`: for the time left */
	int (*run)(struct bench *b); /* 0, or -errno after bench_error() */
	struct bench_flag flags[BENCH_FLAGS];
};

struct bench_options {
	const char *json, *csv, *filter;
	unsigned runs;
	bool quick, markdown, all;
};

const struct bench_options *bench_options(const struct bench *b);

/* Values of the benchmark's own options; a malformed value has been refused before run() starts. */
bool bench_switch(const struct bench *b, const char *name);
uint64_t bench_number(const struct bench *b, const char *name, uint64_t otherwise);
uint64_t bench_time(const struct bench *b, const char *name, uint64_t otherwise_ns); /* "500us" */
const char *bench_text(const struct bench *b, const char *name, const char *otherwise);

/* n, or with --quick n / 100 (at least 1); `bench all` keeps n / 4. */
uint64_t bench_scale(const struct bench *b, uint64_t n);
/*
 * True if the case is wanted: --filter, and `bench all` has time left. For benchmarks that collect their
 * own samples.
 */
bool bench_wanted(const struct bench *b, const char *case_name);
/*
 * True when a benchmark that collects its own samples should take no more: the run was interrupted,
 * or `bench all` has spent half as much again as the benchmark's seconds and three samples are
 * there.
 */
bool bench_enough(const struct bench *b, unsigned taken);
/* A temporary directory of this run, removed with all in it when the benchmark ends. */
const char *bench_directory(struct bench *b);

/* One line beside the table (printed after it, and into JSON): what a reader must know. */
void bench_note(struct bench *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A reason to fail, with the benchmark's name in front. Return: error. */
int bench_error(struct bench *b, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The line on the terminal: what is going on. Nothing when stderr is no terminal. */
void bench_progress(struct bench *b, const char *what, unsigned done, unsigned of);

/* ---- sides, cases ---- */

struct bench_side {
	const char *name; /* NULL: no such side */
	/*
	 * Nanoseconds that n operations took; UINT64_MAX after peer_fail(): the side is left out.
	 */
	uint64_t (*run)(void *arg, uint64_t n);
	void *arg;
	struct bench_peer *peer; /* a side in another process: what is asked of it */
	const char *what;
};

enum bench_unit {
	BENCH_NS,      /* nanoseconds per operation: lower is better */
	BENCH_OPS,     /* operations per second and thread: higher is better */
	BENCH_SECONDS, /* the sample as it is, in seconds: lower is better */
	BENCH_BYTES,   /* hand in by bench_row() only: lower is better */
	BENCH_COUNT,
	BENCH_CHANGE, /* extra columns only: a part, shown as "+12.3%" */
};

enum { BENCH_PEERS = 8, BENCH_EXTRAS = 16 };

struct bench_extra {
	const char *key;   /* JSON and CSV: "p99_ns" */
	const char *title; /* heading: "p99"; NULL: only in JSON and CSV */
	double value;
	enum bench_unit unit;
};

struct bench_case {
	const char *name;
	enum bench_unit unit;
	uint64_t n; /* operations in a sample; 0: calibrated */
	struct bench_side ours;
	struct bench_side theirs[BENCH_PEERS];
};

/*
 * Return: 0; what fails becomes a note and leaves its row out. Medians are stored in ours/theirs.
 */
int bench_measure(struct bench *b, const struct bench_case *c);

/* Samples a benchmark has taken itself, in the row's unit (ns, operations/s, s, bytes). */
struct bench_row {
	const char *name;
	enum bench_unit unit;
	double *ours; /* sorted by the call */
	unsigned n_ours;
	const char *peer; /* NULL: no peer */
	double *theirs;
	unsigned n_theirs;
	struct bench_extra extra[BENCH_EXTRAS];
};

void bench_row(struct bench *b, const struct bench_row *row);

/* ---- peers ---- */

/*
 * Starts samara-peer-NAME (found beside the command, in the build tree, or in libexec).
 * Return: NULL with a note if it is not there (sides made of NULL are left out).
 */
struct bench_peer *bench_peer_open(struct bench *b, const char *name);
void bench_peer_close(struct bench_peer *p);
struct bench_side bench_peer_side(struct bench_peer *p, const char *what);
uint64_t bench_peer_ask(struct bench_peer *p, const char *what, uint64_t n);
/* The same; more[] receives up to n_more numbers of peer_more(), NaN where there are fewer. */
uint64_t bench_peer_ask_more(struct bench_peer *p, const char *what, uint64_t n, double *more,
			     unsigned n_more);

/*
 * The running kernel's side, by the cases of peers/kernel.h; its process is shared by the
 * benchmark.
 */
struct bench_side bench_kernel_side(struct bench *b, const char *what);
#endif
