/* SPDX-License-Identifier: MIT */
/* harness_internal.h - what the parts of the harness share; benchmarks include harness.h alone. */
#ifndef BENCH_HARNESS_INTERNAL_H
#define BENCH_HARNESS_INTERNAL_H

#include "harness.h"
#include "machine.h"

#include <limits.h>

/* A row as it is kept until the end of the run; texts are owned. */
struct bench_record {
	const char *benchmark;
	char *name, *peer;
	enum bench_unit unit;
	struct sm__stats ours, theirs;
	unsigned n_extra;
	struct bench_extra extra[BENCH_EXTRAS]; /* keys and titles are the benchmark's literals */
};

struct bench_value {
	const char *name;
	const char *text;
};

/* One run of the command: options, and what the benchmarks reported. */
struct bench_session {
	struct bench_options options;
	struct bench_value values[BENCH_FLAGS * 2];
	unsigned n_values;
	struct bench_machine machine;
	struct bench_record *records;
	unsigned n_records, room;
	char **notes;
	unsigned n_notes;
	uint64_t started; /* bench_now() at the start of the run */
	unsigned done,
		later; /* sums of `seconds` of finished benchmarks, and of those after this one */
};

struct bench {
	struct bench_session *session;
	const struct benchmark *what;
	struct bench_peer *kernel;
	bool kernel_asked;
	char directory[PATH_MAX - 64]; /* room for a name in it */
	unsigned first_record;
	uint64_t started;
};

/* Runs one benchmark. Return: its result. */
int bench_run(struct bench_session *s, const struct benchmark *what);
void bench_remove_directory(struct bench *b);
void bench_session_free(struct bench_session *s);
/* The rows since first, as tables. */
void bench_print_rows(const struct bench_session *s, unsigned first, FILE *out);
int bench_write_json(const struct bench_session *s, const char *benchmark, const char *path);
int bench_write_csv(const struct bench_session *s, const char *path);
extern volatile int bench_interrupt; /* set by the command's signal handler */

/* compare.c: `samara bench compare OLD NEW`, with csv and markdown. Return: exit status of the command. */
int bench_compare(const char *old_path, const char *new_path, FILE *out,
		  const struct bench_options *o);

#endif
