/* SPDX-License-Identifier: MIT */
/* recording.c - loads a recording: events to calls, and who made whom (recording.h). */
#include "trace/recording.h"
#include "trace/extents.h"
#include "base/base.h"
#include "base/inject.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Between two reports of progress, in events. */
#define PROGRESS_EVERY 65536

int sm__grow(void *array, size_t n, size_t *room, size_t size)
{
	void **at = array, *grown;
	size_t want = *room ? *room * 2 : 64;

	if (n < *room)
		return 0;
	grown = sm__inject_fail() ? NULL : realloc(*at, want * size);
	if (!grown)
		return -ENOMEM;
	*at = grown;
	*room = want;
	return 0;
}

const char *sm__recording_string(const struct sm__recording *rec, uint32_t index)
{
	return index == SM__NONE ? "" : rec->strings[index];
}

static uint64_t string_hash(const char *text, size_t len)
{
	uint64_t h = 14695981039346656037ull;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)text[i]) * 1099511628211ull;
	return h ^ h >> 32;
}

/* Twice as many slots, all strings entered again. */
static int grow_strings(struct sm__recording *rec)
{
	size_t slots = rec->string_slots ? rec->string_slots * 2 : 256;
	uint32_t *table = sm__calloc(slots, sizeof(*table));

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < rec->nstrings; i++) {
		size_t k = string_hash(rec->strings[i], strlen(rec->strings[i])) & (slots - 1);

		while (table[k])
			k = (k + 1) & (slots - 1);
		table[k] = (uint32_t)i + 1;
	}
	free(rec->string_table);
	rec->string_table = table;
	rec->string_slots = slots;
	return 0;
}

/* Index of the string, added if new; SM__NONE on exhaustion. */
static uint32_t intern(struct sm__recording *rec, const char *text, size_t len)
{
	size_t k;
	char *copy;

	if (rec->nstrings * 2 >= rec->string_slots && grow_strings(rec))
		return SM__NONE;
	len = strnlen(text, len); /* what a damaged file has behind a NUL is no part of a name */
	k = string_hash(text, len) & (rec->string_slots - 1);
	for (; rec->string_table[k]; k = (k + 1) & (rec->string_slots - 1)) {
		const char *known = rec->strings[rec->string_table[k] - 1];

		if (!strncmp(known, text, len) && !known[len])
			return rec->string_table[k] - 1;
	}
	if (sm__grow(&rec->strings, rec->nstrings, &rec->strings_room, sizeof(char *)))
		return SM__NONE;
	copy = sm__inject_fail() ? NULL : strndup(text, len);
	if (!copy)
		return SM__NONE;
	rec->strings[rec->nstrings] = copy;
	rec->string_table[k] = (uint32_t)++rec->nstrings;
	return (uint32_t)rec->nstrings - 1;
}

/* ---- threads, by id: the latest of that id ---- */

struct loader {
	struct sm__recording *rec;
	const struct sm__load_options *options;
	uint32_t *tids; /* open addressing: index + 1 of the latest thread with that id */
	size_t slots, used;
	uint64_t done; /* bytes of the files before this one */
	uint16_t file;
};

static uint32_t *tid_slot(const struct loader *l, uint32_t tid)
{
	size_t k = tid * 2654435761u & (l->slots - 1);

	while (l->tids[k] && l->rec->threads[l->tids[k] - 1].tid != tid)
		k = (k + 1) & (l->slots - 1);
	return &l->tids[k];
}

static int grow_tids(struct loader *l)
{
	struct loader bigger = *l;

	bigger.slots = l->slots ? l->slots * 2 : 256;
	bigger.tids = sm__calloc(bigger.slots, sizeof(*bigger.tids));
	if (!bigger.tids)
		return -ENOMEM;
	for (size_t k = 0; k < l->slots; k++) {
		if (l->tids[k])
			*tid_slot(&bigger, l->rec->threads[l->tids[k] - 1].tid) = l->tids[k];
	}
	free(l->tids);
	*l = bigger;
	return 0;
}

/* A new thread of that id, which takes the place of an older one. SM__NONE: no memory. */
static uint32_t add_thread(struct loader *l, uint32_t tid)
{
	struct sm__recording *rec = l->rec;
	uint32_t *slot;

	if (l->used * 2 >= l->slots && grow_tids(l))
		return SM__NONE;
	if (sm__grow(&rec->threads, rec->nthreads, &rec->threads_room, sizeof(*rec->threads)))
		return SM__NONE;
	slot = tid_slot(l, tid);
	l->used += !*slot;
	rec->threads[rec->nthreads] = (struct sm__thread){
		.tid = tid, .process = SM__NONE, .parent_call = SM__NONE, .first_entry = UINT64_MAX
	};
	*slot = (uint32_t)++rec->nthreads;
	return *slot - 1;
}

static uint32_t latest_thread(const struct loader *l, uint32_t tid)
{
	return l->slots ? *tid_slot(l, tid) - 1 : SM__NONE; /* 0 - 1 is SM__NONE */
}

/* The living thread of that id. nameless: it had no id at first. */
static uint32_t get_thread(struct loader *l, uint32_t tid, bool nameless)
{
	uint32_t t = latest_thread(l, tid), first = latest_thread(l, 0);

	if (t == SM__NONE && nameless && first != SM__NONE) {
		l->rec->threads[first].tid = tid; /* the slot of id 0 is dead from here on */
		if (l->used * 2 >= l->slots && grow_tids(l))
			return SM__NONE;
		*tid_slot(l, tid) = first + 1;
		l->used++;
		return first;
	}
	if (t == SM__NONE || l->rec->threads[t].dead)
		t = add_thread(l, tid);
	return t;
}

/* ---- events to calls ---- */

/* Nanoseconds that can be added and doubled; 0 where there are none. */
static uint64_t clock_value(uint64_t ns)
{
	return ns == UINT64_MAX ? 0 : ns & (UINT64_MAX >> 2);
}

static void set_positions(const struct sm__recording *rec, const struct sm_trace_event *ev,
			  struct sm__call *c)
{
	if (rec->stamped) {
		uint64_t start = clock_value(ev->start_ns), took = clock_value(ev->duration_ns);

		c->entry = start * 2;
		c->ret = (start + took) * 2 + 1;
	} else {
		c->entry = ev->entry_line * 2;
		c->ret = ev->return_line == UINT64_MAX ? UINT64_MAX : ev->return_line * 2 + 1;
	}
	if (!ev->returned)
		c->ret = UINT64_MAX;
}

/* Links the call with the thread it made, whose lines may have come before its own end. */
static int link_child(struct loader *l, struct sm__call *c, uint32_t index)
{
	uint32_t t = latest_thread(l, (uint32_t)c->result);
	struct sm__thread *child;

	if (t == SM__NONE || l->rec->threads[t].parent_call != SM__NONE || t == c->thread ||
	    (l->rec->threads[t].first_entry != UINT64_MAX &&
	     l->rec->threads[t].first_entry < c->entry))
		t = add_thread(l, (uint32_t)c->result);
	if (t == SM__NONE)
		return -ENOMEM;
	child = &l->rec->threads[t];
	child->parent_call = index;
	c->child = t;
	return 0;
}

/* Calls that the replay does something for. */
static bool is_wanted(const struct sm_trace_event *ev)
{
	if (ev->kind == SM_TRACE_MAP)
		return true;
	if (ev->call == SM_SYS_PRCTL)
		return ev->args[0] == 0x53564d41; /* PR_SET_VMA */
	return ev->call != SM_SYS_OTHER && ev->call != SM_SYS_EXIT && ev->call != SM_SYS_EXIT_GROUP;
}

static bool makes_thread(const struct sm__call *c)
{
	return c->call >= SM_SYS_CLONE && c->call <= SM_SYS_VFORK && sm__call_succeeded(c) &&
	       c->result > 0 && c->result < INT32_MAX;
}

static int add_ranges(struct sm__recording *rec, const struct sm_trace_event *ev,
		      struct sm__call *c)
{
	c->ranges = (uint32_t)rec->nranges;
	for (size_t i = 0; i < ev->nranges; i++) {
		if (sm__grow(&rec->ranges, rec->nranges, &rec->ranges_room, sizeof(*rec->ranges)))
			return -ENOMEM;
		rec->ranges[rec->nranges++] = ev->ranges[i];
	}
	c->nranges = (uint32_t)ev->nranges;
	return 0;
}

static int add_string(struct sm__recording *rec, const struct sm_trace_event *ev,
		      struct sm__call *c)
{
	const char *text = ev->path ? ev->path : ev->text;
	size_t len = ev->path ? ev->path_len : ev->text_len;
	char fd[32];

	c->string = SM__NONE;
	if (ev->kind == SM_TRACE_CALL && ev->call == SM_SYS_MMAP && !ev->path &&
	    (int)ev->args[4] >= 0 && !(ev->args[3] & SM_MAP_ANONYMOUS)) {
		len = (size_t)snprintf(fd, sizeof(fd), "fd:%d", (int)ev->args[4]);
		text = fd;
	}
	if (!text)
		return 0;
	c->string = intern(rec, text, len);
	return c->string == SM__NONE ? -ENOMEM : 0;
}

static int add_call(struct loader *l, const struct sm_trace_event *ev)
{
	struct sm__recording *rec = l->rec;
	struct sm__call *c;
	uint32_t t = get_thread(l, ev->tid, ev->nameless);
	int r;

	if (t == SM__NONE)
		return -ENOMEM;
	if (rec->ncalls >= SM__NONE - 1)
		return -EFBIG;
	if (sm__grow(&rec->calls, rec->ncalls, &rec->calls_room, sizeof(*rec->calls)))
		return -ENOMEM;
	c = &rec->calls[rec->ncalls];
	*c = (struct sm__call){ .thread = t,
				.mm = SM__NONE,
				.child = SM__NONE,
				.new_mm = SM__NONE,
				.result = ev->result,
				.error = ev->error,
				.returned = ev->returned,
				.line = ev->entry_line,
				.return_line = ev->return_line,
				.duration_ns = ev->duration_ns,
				.call = (uint8_t)ev->call,
				.nargs = (uint8_t)ev->nargs,
				.inferred = ev->inferred,
				.file = l->file };
	memcpy(c->args, ev->args, sizeof(c->args));
	set_positions(rec, ev, c);
	if (c->entry < rec->threads[t].first_entry)
		rec->threads[t].first_entry = c->entry;
	if (ev->kind == SM_TRACE_CALL)
		rec->counts[ev->call]++;
	if (!is_wanted(ev))
		return 0;
	if (!ev->returned) {
		rec->unreturned++;
		return 0;
	}
	r = add_string(rec, ev, c);
	if (!r)
		r = add_ranges(rec, ev, c);
	if (!r && makes_thread(c))
		r = link_child(l, c, (uint32_t)rec->ncalls);
	rec->ncalls++;
	return r;
}

static int add_event(struct loader *l, const struct sm_trace_event *ev)
{
	uint32_t t;

	switch (ev->kind) {
	case SM_TRACE_CALL:
	case SM_TRACE_MAP:
		return add_call(l, ev);
	case SM_TRACE_DEATH:
		t = latest_thread(l, ev->tid);
		if (t != SM__NONE && ev->result != -1)
			l->rec->threads[t].dead = true;
		return 0;
	case SM_TRACE_SIGNAL:
		return 0;
	}
	return 0;
}

static void add_stats(struct sm__recording *rec, const struct sm_trace *trace)
{
	struct sm_trace_stats one, *sum = &rec->stats;

	sm_trace_stats(trace, &one);
	sum->lines += one.lines;
	sum->bytes += one.bytes;
	sum->calls += one.calls;
	sum->bad += one.bad;
	sum->unfinished += one.unfinished;
	sum->inferred += one.inferred;
	sum->file_offset += one.file_offset;
	sum->truncated |= one.truncated;
}

/* OUT.PID: the PID, 0 if the name has none. */
static uint32_t name_tid(const char *file)
{
	const char *dot = strrchr(file, '.');
	char *end;
	unsigned long n = dot ? strtoul(dot + 1, &end, 10) : 0;

	return dot && dot[1] && !*end && n <= 1u << 22 ? (uint32_t)n : 0;
}

/* All events of one reader. */
static int load_events(struct loader *l, struct sm_trace *trace)
{
	const struct sm__load_options *o = l->options;
	struct sm__recording *rec = l->rec;
	struct sm_trace_event ev;
	uint64_t n = 0;
	int r;

	while ((r = sm_trace_next(trace, &ev)) > 0) {
		if (!n && ev.stamped)
			rec->stamped = true;
		if (o->progress && n % PROGRESS_EVERY == 0) {
			struct sm_trace_stats s;

			sm_trace_stats(trace, &s);
			o->progress(o->arg, rec->stats.file_offset + s.file_offset);
		}
		n++;
		r = add_event(l, &ev);
		if (r)
			break;
	}
	if (r < 0)
		snprintf(rec->error, sizeof(rec->error), "%s",
			 r == -ENOMEM ? "out of memory" : sm_trace_error(trace));
	add_stats(rec, trace);
	if (r == -EIO && n && !o->strict) { /* damaged: what came before is as good as ever */
		rec->stats.truncated = true;
		r = 0;
	}
	return r;
}

static struct sm_trace_options reader_options(const struct sm__load_options *o)
{
	return (struct sm_trace_options){ .bad_line = o->bad_line,
					  .arg = o->arg,
					  .strict = o->strict };
}

static int load_file(struct loader *l, const char *file)
{
	struct sm_trace_options options = reader_options(l->options);
	struct sm_trace *trace;
	int r;

	if (l->rec->nfiles > 1)
		options.tid = name_tid(file);
	r = sm_trace_open(file, &options, &trace);
	if (r) {
		snprintf(l->rec->error, sizeof(l->rec->error), "%s: %s", l->rec->files[l->file],
			 r == -ENODATA ? "the file is empty" : strerror(-r));
		return r;
	}
	r = load_events(l, trace);
	sm_trace_close(trace);
	return r;
}

/* Under the name that messages and reports have. */
static int add_file(struct sm__recording *rec, const char *name)
{
	char *copy = sm__inject_fail() ? NULL : strdup(strcmp(name, "-") ? name : "standard input");

	if (copy)
		rec->files[rec->nfiles++] = copy;
	return copy ? 0 : -ENOMEM;
}

/* After the events; r is how they went. On exhaustion nothing is left. */
static int finish(struct loader *l, struct sm__recording **out, int r)
{
	free(l->tids);
	if (!r)
		r = sm__recording_processes(l->rec);
	if (!r)
		r = sm__recording_order(l->rec);
	if (r == -ENOMEM) {
		sm__recording_free(l->rec);
		*out = NULL;
	}
	return r;
}

static int start(struct loader *l, size_t files, struct sm__recording **out)
{
	struct sm__recording *rec = sm__calloc(1, sizeof(*rec));

	*out = l->rec = rec;
	if (!rec)
		return -ENOMEM;
	rec->files = sm__calloc(files, sizeof(*rec->files));
	return rec->files ? 0 : -ENOMEM;
}

int sm__recording_load(const char *const *files, size_t n, const struct sm__load_options *options,
		       struct sm__recording **out)
{
	struct loader l = { .options = options };
	int r = start(&l, n + 1, out);

	if (!l.rec)
		return r;
	for (size_t i = 0; !r && i < n; i++)
		r = add_file(l.rec, files[i]);
	l.rec->stamped = n > 1;
	for (size_t i = 0; !r && i < n; i++) {
		l.file = (uint16_t)i;
		r = load_file(&l, files[i]);
	}
	return finish(&l, out, r);
}

int sm__recording_load_memory(const void *data, size_t size, const struct sm__load_options *options,
			      struct sm__recording **out)
{
	struct sm_trace_options reader = reader_options(options);
	struct loader l = { .options = options };
	struct sm_trace *trace;
	int r = start(&l, 1, out);

	if (!l.rec)
		return r;
	if (!r)
		r = add_file(l.rec, "memory");
	if (!r)
		r = sm_trace_open_memory(data, size, &reader, &trace);
	if (!r) {
		r = load_events(&l, trace);
		sm_trace_close(trace);
	}
	return finish(&l, out, r);
}

void sm__recording_free(struct sm__recording *rec)
{
	if (!rec)
		return;
	for (size_t i = 0; i < rec->nfiles; i++)
		free(rec->files[i]);
	for (size_t i = 0; i < rec->nstrings; i++)
		free(rec->strings[i]);
	for (size_t i = 0; i < rec->nmms; i++)
		free(rec->mms[i].initial);
	free(rec->files);
	free(rec->calls);
	free(rec->order);
	free(rec->threads);
	free(rec->mms);
	free(rec->strings);
	free(rec->string_table);
	free(rec->ranges);
	free(rec);
}
