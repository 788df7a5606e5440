/* SPDX-License-Identifier: MIT */
/* occupancy.c - mapped, free and unknown parts of a recorded address space (occupancy.h). */
#include "trace/occupancy.h"
#include "trace/recording.h"
#include "base/base.h"
#include "base/inject.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

size_t sm__occupancy_find(const struct sm__occupancy *o, sm_addr addr)
{
	size_t low = 0, high = o->n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (o->spans[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int reserve(struct sm__occupancy *o, size_t more)
{
	while (o->n + more > o->room) {
		int r = sm__grow(&o->spans, o->room, &o->room, sizeof(*o->spans));

		if (r)
			return r;
	}
	return 0;
}

/* Replaces spans [from, to) by the n at with. */
static void splice(struct sm__occupancy *o, size_t from, size_t to, const struct sm__span *with,
		   size_t n)
{
	memmove(o->spans + from + n, o->spans + to, (o->n - to) * sizeof(*o->spans));
	if (n)
		memcpy(o->spans + from, with, n * sizeof(*with));
	o->n = o->n - (to - from) + n;
}

/*
 *   before   |aaaa|   |bbbb|cccc|        from: first that touches or overlaps, to: past the last
 *   range       [///////]
 *   after    |aa|///////|bb|cccc|
 */
static void put(struct sm__occupancy *o, sm_addr start, sm_addr end, enum sm__occupied state)
{
	struct sm__span with[3];
	size_t from = sm__occupancy_find(o, start), to = from, n = 0;
	struct sm__span middle = { start, end, state };

	if (from && o->spans[from - 1].end == start && o->spans[from - 1].state == state)
		middle.start = o->spans[--from].start;
	else if (from < o->n && o->spans[from].start < start) {
		if (o->spans[from].state == state)
			middle.start = o->spans[from].start;
		else
			with[n++] = (struct sm__span){ o->spans[from].start, start,
						       o->spans[from].state };
	}
	while (to < o->n && o->spans[to].start < end)
		to++;
	if (state != SM__UNKNOWN)
		with[n++] = middle;
	if (to > from && o->spans[to - 1].end > end) {
		const struct sm__span *last = &o->spans[to - 1];

		if (last->state == state)
			with[n - 1].end = last->end;
		else
			with[n++] = (struct sm__span){ end, last->end, last->state };
	} else if (to < o->n && o->spans[to].start == end && o->spans[to].state == state) {
		with[n - 1].end = o->spans[to++].end;
	}
	splice(o, from, to, with, n);
}

/* The parts of [start, end) as they are, then a frame {start, end, count}. */
static int push(const struct sm__occupancy *o, sm_addr start, sm_addr end, struct sm__undo *undo)
{
	size_t n = 0;

	for (size_t i = sm__occupancy_find(o, start); i < o->n && o->spans[i].start < end; i++) {
		struct sm__span part = o->spans[i];

		part.start = part.start < start ? start : part.start;
		part.end = part.end > end ? end : part.end;
		if (sm__grow(&undo->spans, undo->n, &undo->room, sizeof(*undo->spans)))
			return -ENOMEM;
		undo->spans[undo->n++] = part;
		n++;
	}
	if (sm__grow(&undo->spans, undo->n, &undo->room, sizeof(*undo->spans)))
		return -ENOMEM;
	undo->spans[undo->n++] = (struct sm__span){ start, end, (enum sm__occupied)n };
	return 0;
}

int sm__occupy(struct sm__occupancy *o, sm_addr start, sm_addr end, enum sm__occupied state,
	       struct sm__undo *undo)
{
	size_t parts = 0;

	if (start >= end)
		return 0;
	for (size_t i = sm__occupancy_find(o, start); i < o->n && o->spans[i].start < end; i++)
		parts++;
	/* Room for the change and for taking it back. */
	if (reserve(o, 2 * parts + 6))
		return -ENOMEM;
	if (undo && push(o, start, end, undo))
		return -ENOMEM;
	put(o, start, end, state);
	return 0;
}

void sm__occupy_undo(struct sm__occupancy *o, struct sm__undo *undo)
{
	struct sm__span frame = undo->spans[--undo->n];
	size_t n = (size_t)frame.state;

	put(o, frame.start, frame.end, SM__UNKNOWN);
	undo->n -= n;
	for (size_t i = 0; i < n; i++) {
		const struct sm__span *s = &undo->spans[undo->n + i];

		put(o, s->start, s->end, s->state);
	}
}

bool sm__occupied_any(const struct sm__occupancy *o, sm_addr start, sm_addr end,
		      enum sm__occupied state)
{
	sm_addr at = start;

	for (size_t i = sm__occupancy_find(o, start); i < o->n && o->spans[i].start < end; i++) {
		if (state == SM__UNKNOWN && o->spans[i].start > at)
			return true;
		if (o->spans[i].state == state)
			return true;
		at = o->spans[i].end;
	}
	return state == SM__UNKNOWN && at < end;
}

static sm_addr highest_gap(const struct sm__occupancy *o, uint64_t len)
{
	sm_addr high = o->base;

	for (size_t i = o->n; i-- && high >= len;) {
		const struct sm__span *s = &o->spans[i];

		if (s->state != SM__MAPPED || s->start >= high)
			continue;
		if (s->end <= high - len)
			break;
		high = s->start;
	}
	return high >= len ? high - len : 0;
}

sm_addr sm__occupancy_place(const struct sm__occupancy *o, uint64_t len, uint64_t alignment,
			    uint64_t offset)
{
	if (alignment && len + alignment > len) {
		sm_addr wide = highest_gap(o, len + alignment);
		uint64_t off = (offset - wide) & (alignment - 1);

		if (wide)
			return wide + (off ? off : alignment);
	}
	return highest_gap(o, len);
}

int sm__occupancy_copy(struct sm__occupancy *to, const struct sm__occupancy *from)
{
	*to = (struct sm__occupancy){ .base = from->base };
	if (reserve(to, from->n))
		return -ENOMEM;
	if (from->n)
		memcpy(to->spans, from->spans, from->n * sizeof(*from->spans));
	to->n = from->n;
	return 0;
}

void sm__occupancy_free(struct sm__occupancy *o)
{
	free(o->spans);
	*o = (struct sm__occupancy){ 0 };
}
