/* SPDX-License-Identifier: MIT */
/*
 * replay_timeline.c - the runs of a replay as trace events (replay_report.h): the JSON that Perfetto
 * and chrome://tracing open. Times are microseconds.
 *
 *   process  "linux-6.18 java 9417"
 *     thread 9417   |mmap|mprotect|      |munmap|
 *     thread 9418         |wait for order|mmap|
 *     VMAs          ▁▂▃▅▅▆
 */
#include "replay_report.h"

#include <string.h>

/* Processes of different designs get numbers that cannot meet: Linux has 22 bits. */
enum { PIDS = 1 << 22 };

struct track {
	struct sm__json *j;
	const struct shown *s;
	const struct runs *runs;
	unsigned design;
};

static uint32_t pid_of(const struct track *t, const struct sm__call *c)
{
	return t->s->rec->mms[c->mm].pid + t->design * PIDS;
}

static void open_event(const struct track *t, const char *name, const char *kind, uint32_t pid)
{
	sm__json_open(t->j, NULL, '{');
	sm__json_text(t->j, "name", name);
	sm__json_text(t->j, "ph", kind);
	sm__json_uint(t->j, "pid", pid);
}

static void process_names(const struct track *t)
{
	const struct sm__recording *rec = t->s->rec;
	char name[512];

	for (size_t m = 0; m < rec->nmms; m++) {
		const char *path = sm__recording_string(rec, rec->mms[m].string);
		const char *slash = strrchr(path, '/');

		snprintf(name, sizeof(name), "%s %s %u", t->runs->design, slash ? slash + 1 : path,
			 rec->mms[m].pid);
		open_event(t, "process_name", "M", rec->mms[m].pid + t->design * PIDS);
		sm__json_open(t->j, "args", '{');
		sm__json_text(t->j, "name", name);
		sm__json_close(t->j);
		sm__json_close(t->j);
	}
}

static void slice(const struct track *t, const struct sm__call *c, const char *name, double start,
		  double took)
{
	open_event(t, name, "X", pid_of(t, c));
	sm__json_uint(t->j, "tid", t->s->rec->threads[c->thread].tid);
	sm__json_number(t->j, "ts", start / 1e3);
	sm__json_number(t->j, "dur", took / 1e3);
}

static void call_event(const struct track *t, const struct sm__call *c, const struct sm__moment *m)
{
	char text[32];

	if (m->took == UINT32_MAX)
		return;
	if (m->waited) {
		slice(t, c, "wait for order", (double)m->start - m->waited, m->waited);
		sm__json_text(t->j, "cat", "order");
		sm__json_close(t->j);
	}
	slice(t, c, sm_trace_call_name((enum sm_trace_call)c->call), (double)m->start, m->took);
	sm__json_text(t->j, "cat", "call");
	sm__json_open(t->j, "args", '{');
	for (int i = 0; i < c->nargs && i < 4; i++) {
		static const char *const keys[] = { "arg1", "arg2", "arg3", "arg4" };

		snprintf(text, sizeof(text), "0x%llx", (unsigned long long)c->args[i]);
		sm__json_text(t->j, keys[i], text);
	}
	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)c->result);
	sm__json_text(t->j, "result", c->error ? strerrorname_np(c->error) : text);
	sm__json_uint(t->j, "line", c->line);
	sm__json_close(t->j);
	sm__json_close(t->j);
}

/* The number of VMAs of all spaces, at the calls where it was sampled. */
static void counters(const struct track *t)
{
	const struct sm__replay_result *r = t->runs->best;

	for (size_t i = 0; i < r->nsamples; i++) {
		const struct sm__recording *rec = t->s->rec;
		uint32_t index = rec->order[r->samples[i].call - 1];

		open_event(t, "VMAs", "C", rec->mms[0].pid + t->design * PIDS);
		sm__json_number(t->j, "ts", (double)r->timeline[index].start / 1e3);
		sm__json_open(t->j, "args", '{');
		sm__json_uint(t->j, "VMAs", r->samples[i].vmas);
		sm__json_close(t->j);
		sm__json_close(t->j);
	}
}

void report_timeline(struct sm__json *j, const struct shown *s, const struct runs *runs, unsigned n)
{
	for (unsigned d = 0; d < n; d++) {
		struct track t = { j, s, &runs[d], d };

		if (!runs[d].best->timeline)
			continue;
		process_names(&t);
		for (size_t i = 0; i < s->rec->ncalls; i++)
			call_event(&t, &s->rec->calls[i], &runs[d].best->timeline[i]);
		counters(&t);
	}
}
