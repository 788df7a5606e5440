/* SPDX-License-Identifier: MIT */
/*
 * footprint.c - which calls of other threads a call must wait for (footprint.h).
 *
 * Per space, pages carry the list of those who touched them last: one that changed the map, and
 * before it in the list the faults since. A change takes the place of the whole list.
 *
 *   pages    |------ a ------|- b -|------ c ------|
 *   list      W3              F9 F8 W7    W5
 *
 * I1 Segments are sorted, do not overlap, and cover what was ever touched.
 * I2 Lists are never changed, only added to at the front, so segments that were one may share them.
 */
#include "trace/footprint.h"
#include "trace/extents.h"
#include "base/base.h"
#include "base/inject.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Beyond this many faults in a row on one page, the next counts as a change: lists stay short. */
#define FAULTS_MAX 64

struct touch {
	uint32_t thread, calls; /* the thread's calls up to and including this one */
	uint32_t next;		/* older, or SM__NONE */
	uint16_t faults;	/* in a row, from here on */
	bool change;
};

struct segment {
	sm_addr start, end;
	uint32_t list;
};

struct pages {
	struct segment *segments;
	size_t n, room;
};

struct work {
	const struct sm__recording *rec;
	struct sm__footprints *out;
	struct pages *pages; /* by mm */
	struct touch *touches;
	size_t ntouches, touches_room;
	uint32_t *seen;	   /* by thread: the wait this call already has for it, index + 1 */
	size_t call_first; /* its first wait */
};

static int add_wait(struct work *w, const struct sm__call *c, const struct touch *t)
{
	struct sm__footprints *out = w->out;
	uint32_t *seen = &w->seen[t->thread];

	if (t->thread == c->thread)
		return 0;
	if (*seen > w->call_first) {
		struct sm__wait *known = &out->waits[*seen - 1];

		if (known->calls < t->calls)
			known->calls = t->calls;
		return 0;
	}
	if (sm__grow(&out->waits, out->nwaits, &out->waits_room, sizeof(*out->waits)))
		return -ENOMEM;
	out->waits[out->nwaits++] = (struct sm__wait){ t->thread, t->calls };
	*seen = (uint32_t)out->nwaits;
	return 0;
}

static uint32_t add_touch(struct work *w, struct touch t)
{
	if (sm__grow(&w->touches, w->ntouches, &w->touches_room, sizeof(*w->touches)))
		return SM__NONE;
	w->touches[w->ntouches] = t;
	return (uint32_t)w->ntouches++;
}

static int wait_for_list(struct work *w, const struct sm__call *c, uint32_t list, bool change)
{
	for (; list != SM__NONE; list = w->touches[list].next) {
		const struct touch *t = &w->touches[list];

		if ((change || t->change) && add_wait(w, c, t))
			return -ENOMEM;
	}
	return 0;
}

static size_t find(const struct pages *p, sm_addr addr)
{
	size_t low = 0, high = p->n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (p->segments[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* n segments take the place of [from, to). */
static int splice(struct pages *p, size_t from, size_t to, const struct segment *with, size_t n)
{
	while (p->n + n > p->room) {
		if (sm__grow(&p->segments, p->room, &p->room, sizeof(*p->segments)))
			return -ENOMEM;
	}
	memmove(p->segments + from + n, p->segments + to, (p->n - to) * sizeof(*p->segments));
	memcpy(p->segments + from, with, n * sizeof(*with));
	p->n += n - (to - from);
	return 0;
}

/* A change of [e.start, e.end): waits for all that is there and takes its place. */
static int change(struct work *w, const struct sm__call *c, uint32_t calls, struct sm__extent e)
{
	struct pages *p = &w->pages[c->mm];
	size_t from = find(p, e.start), to, n = 0;
	struct segment with[3];
	uint32_t list = add_touch(w, (struct touch){ c->thread, calls, SM__NONE, 0, true });

	if (list == SM__NONE)
		return -ENOMEM;
	for (to = from; to < p->n && p->segments[to].start < e.end; to++) {
		if (wait_for_list(w, c, p->segments[to].list, true))
			return -ENOMEM;
	}
	if (to > from && p->segments[from].start < e.start)
		with[n++] = (struct segment){ p->segments[from].start, e.start,
					      p->segments[from].list };
	with[n++] = (struct segment){ e.start, e.end, list };
	if (to > from && p->segments[to - 1].end > e.end)
		with[n++] = (struct segment){ e.end, p->segments[to - 1].end,
					      p->segments[to - 1].list };
	return splice(p, from, to, with, n);
}

/* A fault on one page: waits for the last change there, and is added to its list. */
static int fault(struct work *w, const struct sm__call *c, uint32_t calls, struct sm__extent e)
{
	struct pages *p = &w->pages[c->mm];
	size_t i = find(p, e.start);
	const struct segment *s = i < p->n && p->segments[i].start < e.end ? &p->segments[i] : NULL;
	const struct touch *newest = s ? &w->touches[s->list] : NULL;
	uint16_t faults = newest ? (uint16_t)(newest->faults + 1) : 1;

	if (newest && newest->faults >= FAULTS_MAX)
		return change(w, c, calls, e);
	if (s) {
		struct segment with[3], old = *s;
		size_t n = 0;
		uint32_t list;

		if (wait_for_list(w, c, old.list, false))
			return -ENOMEM;
		list = add_touch(w, (struct touch){ c->thread, calls, old.list, faults, false });
		if (list == SM__NONE)
			return -ENOMEM;
		if (old.start < e.start)
			with[n++] = (struct segment){ old.start, e.start, old.list };
		with[n++] = (struct segment){ e.start, e.end, list };
		if (old.end > e.end)
			with[n++] = (struct segment){ e.end, old.end, old.list };
		return splice(p, i, i + 1, with, n);
	}
	return change(w, c, calls, e);
}

static bool is_barrier(const struct sm__call *c)
{
	return c->new_mm != SM__NONE || c->call == SM_SYS_MLOCKALL || c->call == SM_SYS_MUNLOCKALL;
}

static int one_call(struct work *w, const struct sm__call *c, uint32_t calls)
{
	struct sm__extent e[2] = { { 0, UINT64_MAX } };
	unsigned n = 1;

	w->call_first = w->out->nwaits;
	if (is_barrier(c))
		return change(w, c, calls, e[0]);
	if (c->call == SM_SYS_PROCESS_MADVISE) {
		for (uint32_t i = 0; i < c->nranges; i++) {
			const struct sm_trace_range *r = &w->rec->ranges[c->ranges + i];
			struct sm__extent one = { r->start, r->start + r->len };

			if (one.end > one.start && change(w, c, calls, one))
				return -ENOMEM;
		}
		return 0;
	}
	n = sm__call_extents(&w->rec->mms[c->mm], c, e);
	for (unsigned i = 0; i < n; i++) {
		int r;

		if (c->call == SM_SYS_PAGE_FAULT) {
			r = fault(w, c, calls, e[i]);
		} else {
			e[i].start -= e[i].start ? SM__TRACE_PAGE : 0;
			e[i].end += e[i].end + SM__TRACE_PAGE ? SM__TRACE_PAGE : 0;
			r = change(w, c, calls, e[i]);
		}
		if (r)
			return r;
	}
	return 0;
}

/* Calls by thread, in order. */
static void sort_by_thread(const struct sm__recording *rec, struct sm__footprints *out,
			   uint32_t *next)
{
	uint32_t sum = 0;

	for (size_t t = 0; t < rec->nthreads; t++) {
		out->thread_first[t] = next[t] = sum;
		sum += rec->threads[t].ncalls;
	}
	out->thread_first[rec->nthreads] = sum;
	for (size_t i = 0; i < rec->ncalls; i++)
		out->thread_calls[next[rec->calls[rec->order[i]].thread]++] = rec->order[i];
}

static int find_waits(struct work *w, uint32_t *done, uint64_t *first)
{
	const struct sm__recording *rec = w->rec;
	struct sm__footprints *out = w->out;
	uint64_t *count = out->wait_first;
	int r = 0;

	memset(done, 0, rec->nthreads * sizeof(*done));
	for (size_t i = 0; !r && i < rec->ncalls; i++) {
		uint32_t index = rec->order[i];
		const struct sm__call *c = &rec->calls[index];

		first[index] = out->nwaits;
		r = one_call(w, c, ++done[c->thread]);
		count[index] = out->nwaits - first[index];
	}
	return r;
}

/* Waits were made in the order of the calls' effects; by call they are found faster. */
static int sort_waits(const struct sm__recording *rec, struct sm__footprints *out,
		      const uint64_t *first)
{
	struct sm__wait *sorted = NULL;
	uint64_t at = 0;

	if (out->nwaits) {
		sorted = sm__inject_fail() ? NULL : malloc(out->nwaits * sizeof(*sorted));
		if (!sorted)
			return -ENOMEM;
	}
	for (size_t i = 0; i < rec->ncalls; i++) {
		uint64_t n = out->wait_first[i];

		if (n)
			memcpy(sorted + at, out->waits + first[i], n * sizeof(*sorted));
		out->wait_first[i] = at;
		at += n;
	}
	out->wait_first[rec->ncalls] = at;
	free(out->waits);
	out->waits = sorted;
	return 0;
}

int sm__footprints_make(const struct sm__recording *rec, struct sm__footprints *out)
{
	struct work w = { .rec = rec, .out = out };
	uint32_t *next = NULL;
	uint64_t *first = NULL;
	int r = -ENOMEM;

	*out = (struct sm__footprints){ 0 };
	out->thread_first = sm__calloc(rec->nthreads + 1, sizeof(*out->thread_first));
	out->thread_calls = sm__calloc(rec->ncalls + 1, sizeof(*out->thread_calls));
	out->wait_first = sm__calloc(rec->ncalls + 1, sizeof(*out->wait_first));
	next = sm__calloc(rec->nthreads + 1, sizeof(*next));
	first = sm__calloc(rec->ncalls + 1, sizeof(*first));
	w.pages = sm__calloc(rec->nmms + 1, sizeof(*w.pages));
	w.seen = sm__calloc(rec->nthreads + 1, sizeof(*w.seen));
	if (out->thread_first && out->thread_calls && out->wait_first && next && first && w.pages &&
	    w.seen) {
		sort_by_thread(rec, out, next);
		r = find_waits(&w, next, first);
		if (!r)
			r = sort_waits(rec, out, first);
	}
	for (size_t i = 0; w.pages && i < rec->nmms; i++)
		free(w.pages[i].segments);
	free(w.pages);
	free(w.touches);
	free(w.seen);
	free(next);
	free(first);
	if (r)
		sm__footprints_free(out);
	return r;
}

void sm__footprints_free(struct sm__footprints *f)
{
	free(f->thread_first);
	free(f->thread_calls);
	free(f->wait_first);
	free(f->waits);
	*f = (struct sm__footprints){ 0 };
}
