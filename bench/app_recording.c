/* SPDX-License-Identifier: MIT */
/*
 * app_recording.c - rows recording/DESIGN of app-cycle: the calls of a real program that starts and
 * ends a hundred threads (traces/app-cycle-100.strace.xz, or --recording), made one after another
 * on a space of each design. The figure is the time in the calls; the first page of what each call
 * gives is touched.
 *
 * A recording has no faults of its own unless perf made it, and no peer: the kernel ran it under
 * strace.
 */
#include "app_recording.h"

#include "trace/replay.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char recording_name[] = "traces/app-cycle-100.strace.xz";

/* The given file, or the repository's: from here, or from the build tree of the command. */
static const char *find_recording(const struct bench *b, char *buf)
{
	static const char *const from[] = { "../../../../", "../share/samara/" };
	const char *given = bench_text(b, "recording", NULL);
	ssize_t n;

	if (given)
		return given;
	if (!access(recording_name, R_OK))
		return recording_name;
	for (unsigned i = 0; i < sizeof(from) / sizeof(from[0]); i++) {
		n = readlink("/proc/self/exe", buf, PATH_MAX - 80);
		if (n <= 0)
			return NULL;
		buf[n] = '\0';
		strcpy(strrchr(buf, '/') + 1, from[i]);
		strcat(buf, recording_name);
		if (!access(buf, R_OK))
			return buf;
	}
	return NULL;
}

static int replay_once(struct bench *b, const struct sm__recording *rec, const char *design,
		       struct sm__replay_result *r)
{
	struct sm__replay_options o = { .backend = SM_BACKEND_SOFT,
					.touch = SM__TOUCH_FIRST,
					.stop_after = UINT64_MAX };
	char why[160] = "";
	int error;

	if (sm_design_parse(design, &o.design, why, sizeof(why)))
		return bench_error(b, 0, "design %s: %s", design, why);
	bench_pin(0);
	error = sm__replay(rec, &o, r);
	return error ? bench_error(b, error, "%s: %s", design, r->error) : 0;
}

struct series {
	const char *design;
	double *seconds;
	double calls, touches, vma_lock_success;
};

static void case_name(const char *design, char *name, size_t size)
{
	snprintf(name, size, "recording/%s", design);
}

static void report(struct bench *b, const struct series *s, unsigned runs, double first)
{
	char name[96];
	struct bench_row row = {
		.name = name,
		.unit = BENCH_SECONDS,
		.ours = s->seconds,
		.n_ours = runs,
		.extra = { { "change", "to first", sm__stats_of(s->seconds, runs).mean / first - 1,
			     BENCH_CHANGE },
			   { "calls", "calls", s->calls, BENCH_COUNT },
			   { "touches", "touches", s->touches, BENCH_COUNT },
			   { "vma_lock_success", "VMA lock", s->vma_lock_success, BENCH_COUNT } },
	};

	case_name(s->design, name, sizeof(name));
	bench_row(b, &row);
}

static int sample(struct bench *b, const struct sm__recording *rec, struct series *s, unsigned run)
{
	struct sm__replay_result *r = calloc(1, sizeof(*r));
	int error = r ? replay_once(b, rec, s->design, r) : -ENOMEM;

	if (!error) {
		s->seconds[run] = r->busy_ns / 1e9;
		s->calls = (double)r->calls;
		s->touches = (double)r->touches;
		s->vma_lock_success = (double)r->vma_lock_success;
		sm__replay_result_free(r);
	}
	free(r);
	return error;
}

static int replay_designs(struct bench *b, const struct sm__recording *rec, struct series *s,
			  unsigned n)
{
	unsigned most = bench_options(b)->runs, runs = 0;
	int error = 0;

	for (unsigned i = 0; i < n && !error; i++) {
		s[i].seconds = calloc(most, sizeof(double));
		error = s[i].seconds ? 0 : -ENOMEM;
	}
	for (; runs < most && !bench_enough(b, runs) && !error; runs++) {
		for (unsigned i = 0; i < n && !error; i++) {
			bench_progress(b, s[i].design, runs, most);
			error = sample(b, rec, &s[i], runs);
		}
	}
	for (unsigned i = 0; i < n && runs && !error; i++)
		report(b, &s[i], runs, sm__stats_of(s[0].seconds, runs).mean);
	for (unsigned i = 0; i < n; i++)
		free(s[i].seconds);
	return error;
}

/* The designs whose rows are wanted. Return: how many. */
static unsigned wanted_designs(const struct bench *b, const struct guest_designs *d,
			       struct series s[GUEST_DESIGNS])
{
	unsigned n = 0;
	char name[96];

	for (unsigned i = 0; d->name[i]; i++) {
		case_name(d->name[i], name, sizeof(name));
		if (bench_wanted(b, name))
			s[n++].design = d->name[i];
	}
	return n;
}

int app_recording_run(struct bench *b, const struct guest_designs *designs)
{
	char path[PATH_MAX];
	const char *file = find_recording(b, path);
	struct sm__load_options o = { .strict = false };
	struct series s[GUEST_DESIGNS] = { { 0 } };
	unsigned n = wanted_designs(b, designs, s);
	struct sm__recording *rec = NULL;
	int error;

	if (!n)
		return 0;
	if (!file) {
		bench_note(b, "recording left out: %s is not here (--recording FILE)",
			   recording_name);
		return 0;
	}
	error = sm__recording_load(&file, 1, &o, &rec);
	if (error)
		bench_error(b, 0, "%s", rec ? rec->error : strerror(-error));
	else
		error = replay_designs(b, rec, s, n);
	if (rec)
		sm__recording_free(rec);
	return error;
}
