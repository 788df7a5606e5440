/* SPDX-License-Identifier: MIT */
/*
 * reader.c - the reader of recordings (trace.h): one event per call, joined from the lines in which
 * strace or perf printed it.
 *
 *   100 munmap(0x7f.., 4096 <unfinished ...>        task 100: text = "munmap(0x7f.., 4096 "
 *   101 brk(NULL) = 0x55..                          -> event brk, lines 2 and 2
 *   100 <... munmap resumed>) = 0 <0.000020>        -> event munmap, lines 1 and 3
 *
 * I1 A task exists while its thread has begun a call that has not returned, or is known as the child
 *    of another: memory is bounded by the threads alive at one time, not by the recording.
 * I2 What an event points to lies in the source's line, in its task's text, or in self->gone; none
 *    of them changes before the next sm_trace_next.
 * I3 Every line is counted once: in an event, as bad, or as of no interest.
 */
#include "trace/line.h"
#include "trace/scan.h"
#include "trace/source.h"
#include "trace/symbols.h"
#include "base/base.h"
#include "base/inject.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TASK_BUCKETS   1024
/* This much text without one readable line is no recording. */
#define HOPELESS_BYTES (64u << 10)

struct task {
	struct task *next;
	uint32_t tid;
	bool child;   /* known to have been made by another thread */
	bool pending; /* text is the beginning of a call */
	bool perf;    /* begun in a perf trace: event holds what is known */
	char *text;
	size_t len, room;
	struct sm_trace_event event; /* of perf; else only entry_line and start_ns */
};

struct sm_trace {
	struct sm__source *source;
	char *file;
	struct sm_trace_options options;
	struct sm_trace_stats stats;
	struct sm__ranges ranges;
	struct task *tasks[TASK_BUCKETS];
	struct task *gone;	    /* the dead thread whose last call was just handed out */
	struct sm_trace_event next; /* handed out after it */
	bool has_next, ended, in_table, any_good, is_perf;
	bool in_maps; /* inside a "# maps" block, of this process */
	uint32_t maps_tid;
	int failed;
	int damage;	   /* why the text ended before its end; told after the open calls */
	uint64_t clock_ns; /* sum of relative times */
	uint32_t main_tid; /* of lines without "[pid N]"; 0: not known yet */
	bool main_dead;
	unsigned drain; /* bucket from which the end takes unfinished calls */
	char *glue;	/* a line that "strace: Process N attached" cut in two */
	size_t glue_len, glue_room;
	uint64_t glue_line;
	char error[512];
};

/* ---- tasks ---- */

static struct task **task_slot(struct sm_trace *self, uint32_t tid)
{
	struct task **slot = &self->tasks[tid % TASK_BUCKETS];

	while (*slot && (*slot)->tid != tid)
		slot = &(*slot)->next;
	return slot;
}

static struct task *task_get(struct sm_trace *self, uint32_t tid)
{
	struct task **slot = task_slot(self, tid);

	if (!*slot && !sm__inject_fail()) {
		*slot = calloc(1, sizeof(**slot));
		if (*slot)
			(*slot)->tid = tid;
	}
	return *slot;
}

static void task_free(struct task *task)
{
	if (task) {
		free(task->text);
		free(task);
	}
}

/* Out of the table: who calls frees it. */
static struct task *task_unlink(struct sm_trace *self, uint32_t tid)
{
	struct task **slot = task_slot(self, tid), *task = *slot;

	if (task)
		*slot = task->next;
	return task;
}

/* len bytes and a '\n' at *at + have; grows geometrically. */
static int append(char **at, size_t *have, size_t *room, const char *text, size_t len)
{
	if (len > SM__LINE_MAX || *have + len > SM__LINE_MAX)
		len = SM__LINE_MAX - *have;
	if (*have + len + 1 > *room) {
		size_t want = *room ? *room : 256;
		char *grown;

		while (want < *have + len + 1)
			want *= 2;
		grown = sm__inject_fail() ? NULL : realloc(*at, want);
		if (!grown)
			return -ENOMEM;
		*at = grown;
		*room = want;
	}
	memmove(*at + *have, text, len); /* a line that is cut twice is glued in place */
	*have += len;
	(*at)[*have] = '\n';
	return 0;
}

static int task_append(struct task *task, const char *text, size_t len)
{
	return append(&task->text, &task->len, &task->room, text, len);
}

/* ---- reports ---- */

static int bad_line(struct sm_trace *self, uint64_t line, const char *reason)
{
	self->stats.bad++;
	snprintf(self->error, sizeof(self->error), "%s:%llu: %s", self->file,
		 (unsigned long long)line, reason);
	if (self->options.bad_line)
		self->options.bad_line(self->options.arg, self->file, line, reason);
	return self->options.strict ? -EBADMSG : 0;
}

/* The event is complete: 1. */
static int deliver(struct sm_trace *self, const struct sm_trace_event *ev)
{
	self->any_good = true;
	if (ev->kind == SM_TRACE_CALL) {
		self->stats.calls++;
		self->stats.unfinished +=
			!ev->returned && ev->call != SM_SYS_EXIT && ev->call != SM_SYS_EXIT_GROUP;
	}
	self->stats.inferred += ev->inferred != 0;
	return 1;
}

static void blank_event(struct sm_trace_event *ev, enum sm_trace_kind kind, uint32_t tid,
			uint64_t line)
{
	*ev = (struct sm_trace_event){ .kind = kind,
				       .tid = tid,
				       .entry_line = line,
				       .return_line = line,
				       .start_ns = UINT64_MAX,
				       .duration_ns = UINT64_MAX };
}

/* The call a task has begun, as one that never returned. 1, or 0 if there is none. */
static int give_unfinished(struct sm_trace *self, struct task *task, struct sm_trace_event *ev)
{
	const char *reason;
	int r;

	if (!task || !task->pending)
		return 0;
	task->pending = false;
	if (task->perf) {
		*ev = task->event;
		ev->name = task->text;
	} else {
		blank_event(ev, SM_TRACE_CALL, task->tid, task->event.entry_line);
		ev->start_ns = task->event.start_ns;
		r = sm__strace_call(task->text, false, ev, &self->ranges, &reason);
		if (r)
			return r;
	}
	ev->returned = false;
	ev->return_line = UINT64_MAX;
	return deliver(self, ev);
}

/* ---- which thread a line belongs to ---- */

static struct task *only_child(struct sm_trace *self)
{
	for (unsigned b = 0; b < TASK_BUCKETS; b++) {
		if (self->tasks[b] && self->tasks[b]->child)
			return self->tasks[b];
	}
	return NULL;
}

/* The first id that cannot be a child's is the name of the thread that had none so far. */
static void learn_main(struct sm_trace *self, uint32_t tid, const char *body)
{
	struct task *known = *task_slot(self, tid), *main_task;

	if (known && known->child)
		return;
	main_task = *task_slot(self, 0);
	if (main_task && main_task->pending) {
		size_t len = strcspn(main_task->text, "(\n");

		if (strncmp(body, "<... ", 5) || strncmp(body + 5, main_task->text, len) ||
		    strncmp(body + 5 + len, " resumed", 8))
			return;
	}
	self->main_tid = tid;
	main_task = task_unlink(self, 0);
	if (!main_task)
		return;
	if (known)
		task_free(task_unlink(self, tid));
	main_task->tid = tid;
	main_task->next = self->tasks[tid % TASK_BUCKETS];
	self->tasks[tid % TASK_BUCKETS] = main_task;
}

static uint32_t line_tid(struct sm_trace *self, const struct sm__leader *leader, const char *body)
{
	if (leader->stderr_form && !self->main_tid)
		learn_main(self, leader->tid, body);
	if (leader->tid)
		return leader->tid;
	if (self->options.tid)
		return self->options.tid;
	if (self->main_dead) {
		struct task *child = only_child(self);

		if (child)
			return child->tid;
	}
	return self->main_tid;
}

static int note_child(struct sm_trace *self, uint32_t tid)
{
	struct task *task;

	if (!tid)
		return 0;
	task = task_get(self, tid);
	if (!task)
		return -ENOMEM;
	task->child = true;
	return 0;
}

static bool makes_child(const struct sm_trace_event *ev)
{
	return ev->call >= SM_SYS_CLONE && ev->call <= SM_SYS_VFORK && ev->returned &&
	       ev->result > 0 && ev->result < INT32_MAX;
}

/* ---- lines of strace ---- */

static int finish_call(struct sm_trace *self, const char *text, struct sm_trace_event *ev)
{
	const char *reason = "";
	int r = sm__strace_call(text, true, ev, &self->ranges, &reason);

	if (r == -EBADMSG)
		return bad_line(self, ev->return_line, reason);
	/* Only the form without ids needs to know who is a child. */
	if (!r && makes_child(ev) && !self->main_tid && !self->options.tid)
		r = note_child(self, (uint32_t)ev->result);
	return r ? r : deliver(self, ev);
}

static int unfinished_line(struct sm_trace *self, uint32_t tid, const char *body, size_t len,
			   const struct sm_trace_event *ev)
{
	size_t name = 0;
	struct task *task;

	while (name < len && sm__is_word(body[name]))
		name++;
	if (!name || name == len || body[name] != '(')
		return bad_line(self, ev->entry_line, "no call is cut here");
	task = task_get(self, tid);
	if (!task)
		return -ENOMEM;
	task->len = 0;
	task->pending = true;
	task->perf = false;
	task->event = *ev;
	self->any_good = true;
	return task_append(task, body, len);
}

/* "<... mmap resumed>) = 0x7f.. <0.000020>" */
static int resumed_line(struct sm_trace *self, uint32_t tid, const char *body,
			struct sm_trace_event *ev)
{
	struct task *task = *task_slot(self, tid);
	const char *name = body + 5, *end = name + strcspn(name, "\n"), *rest;
	size_t len = strcspn(name, " \n");
	enum sm_trace_call call = sm__call_find(name, len);

	rest = memmem(name, (size_t)(end - name), "resumed>", 8);
	if (!rest)
		return bad_line(self, ev->entry_line, "no call is resumed here");
	rest += 8;
	if (!task || !task->pending || task->perf) {
		if (call >= SM_SYS_CLONE && call <= SM_SYS_VFORK)
			return 0; /* the child's own return */
		return bad_line(self, ev->entry_line,
				"resumed, but its beginning is not in the recording");
	}
	if (strncmp(task->text, name, len) || task->text[len] != '(')
		return bad_line(self, ev->entry_line, "another call was begun than is resumed");
	task->pending = false;
	if (task_append(task, rest, (size_t)(end - rest)))
		return -ENOMEM;
	ev->entry_line = task->event.entry_line;
	ev->start_ns = task->event.start_ns;
	return finish_call(self, task->text, ev);
}

/* "+++ exited with 0 +++", "+++ killed by SIGSEGV (core dumped) +++", "+++ superseded by execve in pid N +++" */
static int death_line(struct sm_trace *self, const char *body, struct sm_trace_event *ev)
{
	struct task *task, *other;
	uint64_t n = 0;
	int r;

	ev->kind = SM_TRACE_DEATH;
	ev->returned = true;
	if (!strncmp(body, "+++ exited with ", 16)) {
		sm__scan_decimal(body + 16, &n);
		ev->result = (int64_t)n;
	} else if (!strncmp(body, "+++ killed by ", 14)) {
		ev->result = 256 + sm__signal_find(body + 14, strcspn(body + 14, " \n"));
	} else if (!strncmp(body, "+++ superseded by execve in pid ", 32)) {
		sm__scan_decimal(body + 32, &n);
		ev->result = -1;
	} else {
		return bad_line(self, ev->entry_line, "a death nobody knows");
	}
	task = task_unlink(self, ev->tid);
	if (ev->result == -1) { /* the thread that called exec goes on under this id */
		other = task_unlink(self, (uint32_t)n);
		if (other) {
			other->tid = ev->tid;
			other->next = self->tasks[ev->tid % TASK_BUCKETS];
			self->tasks[ev->tid % TASK_BUCKETS] = other;
		}
	} else if (ev->tid == self->main_tid) {
		self->main_dead = true;
	}
	self->gone = task;
	self->next = *ev;
	r = give_unfinished(self, task, ev);
	if (r > 0)
		self->has_next = true;
	return r ? r : deliver(self, ev);
}

static int signal_line(struct sm_trace *self, const char *body, struct sm_trace_event *ev)
{
	ev->kind = SM_TRACE_SIGNAL;
	ev->returned = true;
	if (!strncmp(body, "--- stopped by ", 15))
		body += 15;
	else
		body += 4;
	ev->result = sm__signal_find(body, strcspn(body, " \n"));
	return deliver(self, ev);
}

static bool ends_with(const char *text, size_t len, const char *tail)
{
	size_t n = strlen(tail);

	return len >= n && !memcmp(text + len - n, tail, n);
}

static int call_line(struct sm_trace *self, const char *body, size_t len, struct sm_trace_event *ev)
{
	static const char *const cut[] = { "<unfinished ...>", "<detached ...>" };

	while (len && (body[len - 1] == ' ' || body[len - 1] == '\r'))
		len--;
	if (len && body[len - 1] == '>') {
		for (size_t i = 0; i < SM__ARRAY_SIZE(cut); i++) {
			if (ends_with(body, len, cut[i]))
				return unfinished_line(self, ev->tid, body, len - strlen(cut[i]),
						       ev);
		}
	}
	return finish_call(self, body, ev);
}

static int strace_line(struct sm_trace *self, const struct sm__line *line, uint64_t number,
		       struct sm_trace_event *ev)
{
	struct sm__leader leader;
	const char *body = sm__strace_leader(line->text, &leader);
	size_t len = (size_t)(line->text + line->len - body);

	if (leader.start_ns != UINT64_MAX && leader.relative) {
		self->clock_ns += leader.start_ns;
		leader.start_ns = self->clock_ns;
	}
	blank_event(ev, SM_TRACE_CALL, line_tid(self, &leader, body), number);
	ev->start_ns = leader.start_ns;
	ev->nameless = ev->tid && ev->tid == self->main_tid;
	switch (*body) {
	case '\n': /* nothing, or nothing but a leader */
		return len == line->len ? 0 : bad_line(self, number, "a line without a call");
	case '<':
		if (!strncmp(body, "<... ", 5))
			return resumed_line(self, ev->tid, body, ev);
		break;
	case '+':
		if (!strncmp(body, "+++ ", 4))
			return death_line(self, body, ev);
		break;
	case '-':
		if (!strncmp(body, "--- ", 4))
			return signal_line(self, body, ev);
		break;
	case '>': /* -k: a frame of the stack */
		if (body[1] == ' ')
			return 0;
		break;
	default:
		break;
	}
	return call_line(self, body, len, ev);
}

/* ---- lines of perf trace ---- */

static int perf_begun(struct sm_trace *self, const struct sm_trace_event *ev)
{
	struct task *task = task_get(self, ev->tid);

	if (!task)
		return -ENOMEM;
	task->pending = task->perf = true;
	task->event = *ev;
	task->event.path = NULL;
	task->event.path_len = 0;
	task->len = 0;
	self->any_good = true;
	return task_append(task, ev->name, ev->name_len);
}

static int perf_continued(struct sm_trace *self, struct sm_trace_event *ev)
{
	struct task *task = *task_slot(self, ev->tid);
	struct sm_trace_event whole;

	if (!task || !task->pending || !task->perf) {
		if (ev->call >= SM_SYS_CLONE && ev->call <= SM_SYS_VFORK)
			return 0; /* the child's own return */
		return bad_line(self, ev->entry_line,
				"continued, but its beginning is not in the recording");
	}
	if (task->len != ev->name_len || memcmp(task->text, ev->name, task->len))
		return bad_line(self, ev->entry_line, "another call was begun than is continued");
	task->pending = false;
	whole = task->event;
	whole.name = ev->name;
	whole.return_line = ev->return_line;
	whole.duration_ns = ev->duration_ns;
	whole.result = ev->result;
	whole.error = ev->error;
	whole.returned = ev->returned;
	*ev = whole;
	return deliver(self, ev);
}

/* *is_perf false: a line of strace after all. */
static int perf_line(struct sm_trace *self, const struct sm__line *line, uint64_t number,
		     struct sm_trace_event *ev, bool *is_perf)
{
	const char *reason = "";

	blank_event(ev, SM_TRACE_CALL, 0, number);
	*is_perf = true;
	switch (sm__perf_line(line->text, ev, &reason)) {
	case SM__PERF_WHOLE:
		return deliver(self, ev);
	case SM__PERF_BEGUN:
		return perf_begun(self, ev);
	case SM__PERF_CONTINUED:
		return perf_continued(self, ev);
	case SM__PERF_BAD:
		return bad_line(self, number, reason);
	case SM__PERF_OTHER:
		self->any_good = true;
		return 0;
	case SM__PERF_NO:
		break;
	}
	*is_perf = false;
	return 0;
}

/* ---- lines of neither ---- */

/* "# maps [PID]" opens a block of lines of /proc/PID/maps; any other # line is a comment. */
static bool comment_line(struct sm_trace *self, const struct sm__line *line, uint64_t number,
			 struct sm_trace_event *ev, int *result)
{
	const char *p = line->text;
	uint64_t tid = 0;

	*result = 0;
	if (!strncmp(p, "# maps", 6)) {
		const char *q = sm__skip_blanks(p + 6);

		if (*q == '\n' || sm__scan_decimal(q, &tid)) {
			self->in_maps = true;
			self->maps_tid = (uint32_t)tid;
			return true;
		}
	}
	if (self->in_maps) {
		blank_event(ev, SM_TRACE_MAP, self->maps_tid, number);
		ev->returned = true;
		if (sm__maps_line(*p == '#' ? p + 1 : p, ev)) {
			*result = deliver(self, ev);
			return true;
		}
		self->in_maps = *p == '#'; /* a remark does not end the block */
	}
	return *p == '#';
}

/* The table of strace -c, from its first line to the one that ends in "total". */
static bool table_line(struct sm_trace *self, const struct sm__line *line)
{
	if (!self->in_table && !strncmp(line->text, "% time ", 7))
		self->in_table = self->any_good = true;
	else if (!self->in_table)
		return false;
	else if (ends_with(line->text, line->len, " total"))
		self->in_table = false;
	return true;
}

/* "strace: Process 11355 attached": whole, or behind the beginning of a call, whose rest follows. */
static int attached_line(struct sm_trace *self, const struct sm__line *line, uint64_t number,
			 bool *taken)
{
	const char *end = line->text + line->len, *at;
	uint64_t tid;
	size_t before;

	*taken = false;
	if (!ends_with(line->text, line->len, "tached") || line->len < 18)
		return 0;
	at = end - (line->len < 48 ? line->len : 48);
	at = memmem(at, (size_t)(end - at), "Process ", 8);
	if (!at || !sm__scan_decimal(at + 8, &tid))
		return 0;
	*taken = true;
	self->any_good = true;
	if (at - line->text >= 8 && !memcmp(at - 8, "strace: ", 8))
		at -= 8;
	before = (size_t)(at - line->text);
	if (before) {
		self->glue_line = number;
		self->glue_len = 0;
		if (append(&self->glue, &self->glue_len, &self->glue_room, line->text, before))
			return -ENOMEM;
	}
	return note_child(self, (uint32_t)tid);
}

/* The line behind one that was cut. */
static int glue_lines(struct sm_trace *self, struct sm__line *line, uint64_t *number)
{
	if (!self->glue_len)
		return 0;
	if (append(&self->glue, &self->glue_len, &self->glue_room, line->text, line->len))
		return -ENOMEM;
	line->text = self->glue;
	line->len = self->glue_len;
	*number = self->glue_line;
	self->glue_len = 0;
	return 0;
}

/* One line: 1 and *ev, 0 if it gave no event, -errno. */
static int take_line(struct sm_trace *self, struct sm__line *line, struct sm_trace_event *ev)
{
	uint64_t number = ++self->stats.lines;
	bool taken;
	int r;

	if (line->overlong)
		return bad_line(self, number, "longer than any line strace writes");
	r = glue_lines(self, line, &number);
	if (r)
		return r;
	if ((*line->text == '#' || self->in_maps) && comment_line(self, line, number, ev, &r))
		return r;
	if ((*line->text == '%' || self->in_table) && table_line(self, line))
		return 0;
	r = attached_line(self, line, number, &taken);
	if (taken || r)
		return r;
	if (!strncmp(line->text, "strace: ", 8))
		return 0;
	if (*line->text == ' ' || self->is_perf) {
		r = perf_line(self, line, number, ev, &taken);
		self->is_perf |= taken;
		if (taken)
			return r;
	}
	return strace_line(self, line, number, ev);
}

/* What never returned, one by one; then the verdict over the whole. */
static int drain(struct sm_trace *self, struct sm_trace_event *ev)
{
	for (; self->drain < TASK_BUCKETS; self->drain++) {
		for (struct task *t = self->tasks[self->drain]; t; t = t->next) {
			int r = give_unfinished(self, t, ev);

			if (r)
				return r;
		}
	}
	return 0;
}

static int end_of_text(struct sm_trace *self, struct sm_trace_event *ev)
{
	self->ended = true;
	if (self->stats.bad && !self->any_good) {
		snprintf(self->error, sizeof(self->error), "%s: not a recording", self->file);
		return -EILSEQ;
	}
	return drain(self, ev);
}

static int read_on(struct sm_trace *self, struct sm_trace_event *ev)
{
	struct sm__line line;
	int r;

	do {
		uint64_t bad = self->stats.bad;

		r = sm__source_next(self->source, &line);
		if (r == -EIO) {
			self->ended = true;
			self->damage = r;
			return drain(self, ev);
		}
		if (r <= 0)
			return r ? r : end_of_text(self, ev);
		r = take_line(self, &line, ev);
		if (line.open && self->stats.bad > bad)
			self->stats.truncated = true;
		if (!r && !self->any_good && self->stats.bad &&
		    sm__source_bytes(self->source) > HOPELESS_BYTES)
			return end_of_text(self, ev);
	} while (!r);
	return r;
}

int sm_trace_next(struct sm_trace *self, struct sm_trace_event *ev)
{
	int r;

	if (self->failed)
		return self->failed;
	if (self->has_next) {
		self->has_next = false;
		*ev = self->next;
		return deliver(self, ev);
	}
	task_free(self->gone);
	self->gone = NULL;
	r = self->ended ? drain(self, ev) : read_on(self, ev);
	if (!r && self->damage) {
		snprintf(self->error, sizeof(self->error), "%s: %s", self->file,
			 sm__source_error(self->source));
		r = self->damage;
	}
	if (r < 0)
		self->failed = r;
	return r;
}

/* ---- life ---- */

static int make(const char *path, const void *data, size_t size,
		const struct sm_trace_options *options, struct sm_trace **out)
{
	const char *shown_as;
	struct sm_trace *self;
	int r;

	*out = NULL;
	self = sm__calloc(1, sizeof(*self));
	if (!self)
		return -ENOMEM;
	if (options)
		self->options = *options;
	shown_as = !path ? "memory" : strcmp(path, "-") ? path : "standard input";
	self->file = sm__inject_fail() ? NULL : strdup(shown_as);
	r = self->file ? sm__source_open(path, data, size, &self->source) : -ENOMEM;
	if (r) {
		sm_trace_close(self);
		return r;
	}
	*out = self;
	return 0;
}

int sm_trace_open(const char *path, const struct sm_trace_options *options, struct sm_trace **out)
{
	return make(path, NULL, 0, options, out);
}

int sm_trace_open_memory(const void *data, size_t size, const struct sm_trace_options *options,
			 struct sm_trace **out)
{
	return make(NULL, data, size, options, out);
}

void sm_trace_close(struct sm_trace *self)
{
	if (!self)
		return;
	for (unsigned b = 0; b < TASK_BUCKETS; b++) {
		while (self->tasks[b]) {
			struct task *task = self->tasks[b];

			self->tasks[b] = task->next;
			task_free(task);
		}
	}
	task_free(self->gone);
	sm__source_close(self->source);
	free(self->ranges.at);
	free(self->glue);
	free(self->file);
	free(self);
}

const char *sm_trace_error(const struct sm_trace *self)
{
	return self->error;
}

void sm_trace_stats(const struct sm_trace *self, struct sm_trace_stats *out)
{
	*out = self->stats;
	out->bytes = sm__source_bytes(self->source);
	out->file_offset = sm__source_offset(self->source);
}
