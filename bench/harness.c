/* SPDX-License-Identifier: MIT */
/*
 * harness.c - options, samples and rows (rules: harness.h).
 *
 * A sample is one call of a side. Sides of a case take turns, so that what the machine does
 * meanwhile falls on all of them; the row keeps quantiles, never a single figure.
 */
#include "harness_internal.h"
#include "base/base.h"
#include "base/rcu.h"
#include "base/thread.h"
#include "peers/peer.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALL_SECONDS = 19 * 60, SAMPLE_NS = 20 * 1000 * 1000, QUICK_SAMPLE_NS = 1000 * 1000 };

volatile int bench_interrupt;

const struct bench_options *bench_options(const struct bench *b)
{
	return &b->session->options;
}

const char *bench_text(const struct bench *b, const char *name, const char *otherwise)
{
	for (unsigned i = 0; i < b->session->n_values; i++) {
		if (!strcmp(b->session->values[i].name, name))
			return b->session->values[i].text;
	}
	return otherwise;
}

bool bench_switch(const struct bench *b, const char *name)
{
	return bench_text(b, name, NULL) != NULL;
}

uint64_t bench_number(const struct bench *b, const char *name, uint64_t otherwise)
{
	const char *text = bench_text(b, name, NULL);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

uint64_t bench_time(const struct bench *b, const char *name, uint64_t otherwise_ns)
{
	const char *text = bench_text(b, name, NULL);
	char *unit;
	double value;

	if (!text)
		return otherwise_ns;
	value = strtod(text, &unit);
	if (!strcmp(unit, "us"))
		value *= 1e3;
	else if (!strcmp(unit, "ms"))
		value *= 1e6;
	else if (!strcmp(unit, "s"))
		value *= 1e9;
	return (uint64_t)value;
}

uint64_t bench_scale(const struct bench *b, uint64_t n)
{
	uint64_t by = b->session->options.quick ? 100 : b->session->options.all ? 4 : 1;

	return n / by ? n / by : 1;
}

static double seconds_since(uint64_t start)
{
	return (double)(bench_now() - start) / 1e9;
}

/* `bench all` ends within 20 minutes, whatever else the machine does. */
static bool time_is_up(const struct bench *b)
{
	return b->session->options.all && seconds_since(b->session->started) > ALL_SECONDS;
}

bool bench_wanted(const struct bench *b, const char *case_name)
{
	const char *filter = b->session->options.filter;

	return !bench_interrupt && !time_is_up(b) && (!filter || strstr(case_name, filter));
}

void bench_note(struct bench *b, const char *format, ...)
{
	struct bench_session *s = b->session;
	char **notes = realloc(s->notes, (s->n_notes + 1) * sizeof(*notes));
	va_list args;
	int got;

	if (!notes)
		return;
	s->notes = notes;
	va_start(args, format);
	got = vasprintf(&notes[s->n_notes], format, args);
	va_end(args);
	if (got >= 0)
		s->n_notes++;
}

int bench_error(struct bench *b, int error, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "samara bench %s: ", b->what->name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	if (error)
		fprintf(stderr, ": %s", strerror(abs(error)));
	fputc('\n', stderr);
	return error < 0 ? error : -EINVAL;
}

bool bench_enough(const struct bench *b, unsigned taken)
{
	if (bench_interrupt)
		return true;
	if (!b->session->options.all)
		return false;
	return (taken >= 3 && seconds_since(b->started) > 1.5 * b->what->seconds) ||
	       (taken >= 1 && time_is_up(b));
}

/* What is left by the benchmarks' own estimates, scaled by how right they have been so far. */
static unsigned seconds_left(const struct bench *b)
{
	const struct bench_session *s = b->session;
	double own = b->what->seconds - seconds_since(b->started), scale = 1;

	if (s->done >= 10)
		scale = (double)(b->started - s->started) / 1e9 / s->done;
	return (unsigned)((s->later + (own > 0 ? own : 0)) * scale);
}

void bench_progress(struct bench *b, const char *what, unsigned done, unsigned of)
{
	static int terminal = -1;
	struct bench_session *s = b->session;

	if (terminal < 0)
		terminal = isatty(STDERR_FILENO);
	if (!terminal)
		return;
	if (!what) {
		fputs("\r\033[K", stderr);
		return;
	}
	fprintf(stderr, "\r\033[K%s: %s  %u/%u", b->what->name, what, done, of);
	if (s->options.all) {
		unsigned left = seconds_left(b);

		fprintf(stderr, "  about %u min %02u s left", left / 60, left % 60);
	}
	fflush(stderr);
}

/* ---- samples ---- */

static uint64_t take(const struct bench_side *side, uint64_t n)
{
	bench_pin(0);
	return side->peer ? bench_peer_ask(side->peer, side->what, n) : side->run(side->arg, n);
}

/* A count of operations that takes about the target; 0 if the side cannot be measured. */
static uint64_t calibrate(const struct bench_side *side, uint64_t target)
{
	uint64_t n = 1;

	for (;;) {
		uint64_t wall = bench_now(), ns = take(side, n);

		wall = bench_now() - wall;
		if (ns == UINT64_MAX)
			return 0;
		if (ns >= target / 2 || wall > target * 20 || n > (1ULL << 32))
			break;
		n *= ns < target / 64 ? 8 : 2;
	}
	return n;
}

static double value_of(enum bench_unit unit, uint64_t ns, uint64_t n)
{
	if (unit == BENCH_SECONDS)
		return (double)ns / 1e9;
	if (unit == BENCH_OPS)
		return ns ? (double)n * 1e9 / (double)ns : NAN;
	return (double)ns / (double)n;
}

enum { SIDES = BENCH_PEERS + 1 };

struct sampling {
	const struct bench_case *c;
	struct bench_side sides[SIDES]; /* 0: ours */
	uint64_t n[SIDES];		/* operations a sample; 0: the side failed */
	double *values[SIDES];
	unsigned taken;
};

static void drop_side(struct bench *b, struct sampling *s, unsigned i)
{
	s->n[i] = 0;
	bench_note(b, "%s: %s left out: %s", s->c->name, s->sides[i].name,
		   peer_error()[0] ? peer_error() : "it failed");
}

static bool prepare(struct bench *b, struct sampling *s)
{
	uint64_t target = b->session->options.quick ? QUICK_SAMPLE_NS : SAMPLE_NS;

	s->sides[0] = s->c->ours;
	for (unsigned i = 0; i < BENCH_PEERS; i++)
		s->sides[i + 1] = s->c->theirs[i];
	for (unsigned i = 0; i < SIDES; i++) {
		if (!s->sides[i].name)
			continue;
		s->values[i] = calloc(b->session->options.runs, sizeof(double));
		if (!s->values[i])
			return false;
		s->n[i] = s->c->n ? s->c->n : calibrate(&s->sides[i], target);
		if (!s->n[i])
			drop_side(b, s, i);
	}
	return true;
}

static void sample_all(struct bench *b, struct sampling *s)
{
	for (unsigned r = 0; r < b->session->options.runs && !bench_enough(b, r); r++) {
		bench_progress(b, s->c->name, r, b->session->options.runs);
		for (unsigned i = 0; i < SIDES; i++) {
			uint64_t ns = s->n[i] ? take(&s->sides[i], s->n[i]) : 0;

			if (ns == UINT64_MAX)
				drop_side(b, s, i);
			else if (s->n[i])
				s->values[i][r] = value_of(s->c->unit, ns, s->n[i]);
		}
		s->taken = r + 1;
	}
}

int bench_measure(struct bench *b, const struct bench_case *c)
{
	struct sampling s = { .c = c };
	unsigned reported = 0;
	int error = -ENOMEM;

	if (!bench_wanted(b, c->name))
		return 0;
	if (!prepare(b, &s))
		goto out;
	error = 0;
	sample_all(b, &s);
	if (!s.n[0] || !s.taken)
		goto out;
	for (unsigned i = 1; i <= SIDES; i++) {
		bool alone = i == SIDES;
		struct bench_row row = {
			.name = c->name, .unit = c->unit, .ours = s.values[0], .n_ours = s.taken
		};

		if (alone ? reported > 0 : !s.n[i])
			continue;
		if (!alone) {
			row.peer = s.sides[i].name;
			row.theirs = s.values[i];
			row.n_theirs = s.taken;
		}
		bench_row(b, &row);
		reported++;
	}
out:
	for (unsigned i = 0; i < SIDES; i++)
		free(s.values[i]);
	return error ? bench_error(b, error, "%s", c->name) : 0;
}

/* ---- rows ---- */

void bench_row(struct bench *b, const struct bench_row *row)
{
	struct bench_session *s = b->session;
	struct bench_record *r;

	if (s->n_records == s->room) {
		unsigned room = s->room ? s->room * 2 : 32;
		struct bench_record *grown = realloc(s->records, room * sizeof(*grown));

		if (!grown) {
			bench_error(b, -ENOMEM, "%s", row->name);
			return;
		}
		s->records = grown;
		s->room = room;
	}
	r = &s->records[s->n_records++];
	memset(r, 0, sizeof(*r));
	r->benchmark = b->what->name;
	r->name = strdup(row->name);
	r->peer = row->peer ? strdup(row->peer) : NULL;
	r->unit = row->unit;
	r->ours = sm__stats_of(row->ours, row->n_ours);
	if (row->peer)
		r->theirs = sm__stats_of(row->theirs, row->n_theirs);
	while (r->n_extra < BENCH_EXTRAS && row->extra[r->n_extra].key) {
		r->extra[r->n_extra] = row->extra[r->n_extra];
		r->n_extra++;
	}
}

static void nothing(struct rcu_head *head)
{
	(void)head;
}

/*
 * The library's RCU worker inherits the CPUs of the thread that starts it: it must start before
 * that thread is pinned, or every deferred free would wait until the measuring thread sleeps.
 */
static void start_worker(void)
{
	static struct rcu_head head;
	static bool started;

	if (started)
		return;
	started = true;
	sm__thread_enter();
	sm__call_rcu(&head, nothing);
	sm__rcu_barrier();
}

int bench_run(struct bench_session *s, const struct benchmark *what)
{
	struct bench b = {
		.session = s, .what = what, .first_record = s->n_records, .started = bench_now()
	};
	int result;

	start_worker();
	result = what->run(&b);
	bench_progress(&b, NULL, 0, 0);
	bench_peer_close(b.kernel);
	bench_remove_directory(&b);
	if (bench_interrupt)
		return bench_error(&b, -EINTR, "stopped");
	if (time_is_up(&b))
		bench_note(&b, "%s: the time was up: rows are missing", what->name);
	else if (!result && s->n_records == b.first_record && s->options.filter == NULL)
		return bench_error(&b, 0, "no row was measured");
	return result;
}

void bench_session_free(struct bench_session *s)
{
	for (unsigned i = 0; i < s->n_records; i++) {
		free(s->records[i].name);
		free(s->records[i].peer);
	}
	for (unsigned i = 0; i < s->n_notes; i++)
		free(s->notes[i]);
	free(s->records);
	free(s->notes);
}
