/* SPDX-License-Identifier: MIT */
/*
 * maps.c - the map as /proc/PID/maps writes it.
 *
 *      7f12a4000000-7f12a4021000 rw-p 00000000 00:00 0                          [heap]
 *      start-end (8 digits at least) flags offset dev ino, then the name from column 73 on
 *
 * Each line is made while its VMA's file and name cannot go away; lines are of one instant each.
 */
#include "base/thread.h"
#include "samara/file.h"
#include "space/lookup.h"
#include "space/space.h"

#include <stdio.h>
#include <string.h>

enum { NAME_COLUMN = 73 };

struct writer {
	struct sm__step_over step;
	struct sm_space *s;
	char *buf;
	size_t size, at;
	sm_addr next;
};

static void put(struct writer *w, const char *text, size_t n)
{
	if (w->at < w->size) {
		size_t room = w->size - w->at;

		memcpy(w->buf + w->at, text, n < room ? n : room);
	}
	w->at += n;
}

/* A path with newlines written as \012, as the kernel does. */
static void put_path(struct writer *w, const char *path)
{
	for (; *path; path++) {
		if (*path == '\n')
			put(w, "\\012", 4);
		else
			put(w, path, 1);
	}
}

static bool is_heap(const struct sm_space *s, const struct sm__shown *v)
{
	/* brk is read without the lock: a line is of one instant, the label of about that instant */
	return s->o.start_brk && v->start < s->brk && v->end > s->o.start_brk;
}

static void put_name(struct writer *w, const struct sm__shown *v)
{
	char text[128];
	int n = 0;

	if (v->file && !v->name) {
		put_path(w, sm_file_info(v->file)->name);
		return;
	}
	if (v->file)
		n = snprintf(text, sizeof(text), "[anon_shmem:%s]", v->name->text);
	else if (is_heap(w->s, v))
		n = snprintf(text, sizeof(text), "[heap]");
	else if (w->s->o.start_stack && v->start <= w->s->o.start_stack &&
		 v->end >= w->s->o.start_stack)
		n = snprintf(text, sizeof(text), "[stack]");
	else if (v->name)
		n = snprintf(text, sizeof(text), "[anon:%s]", v->name->text);
	put(w, text, (size_t)n);
}

static void put_line(struct sm__step_over *step, const struct sm__shown *v)
{
	struct writer *w = sm__container_of(step, struct writer, step);
	const struct sm_file_info *f = v->file ? sm_file_info(v->file) : NULL;
	uint64_t flags = sm__shown_flags(v);
	bool named;
	char head[160];
	int n = snprintf(head, sizeof(head), "%08llx-%08llx %c%c%c%c %08llx %02x:%02x %llu ",
			 (unsigned long long)v->start, (unsigned long long)v->end,
			 flags & SM_VM_READ ? 'r' : '-', flags & SM_VM_WRITE ? 'w' : '-',
			 flags & SM_VM_EXEC ? 'x' : '-', flags & SM_VM_MAYSHARE ? 's' : 'p',
			 (unsigned long long)(f ? v->pgoff << w->s->page_shift : 0),
			 f ? f->dev_major : 0, f ? f->dev_minor : 0,
			 (unsigned long long)(f ? f->ino : 0));

	named = f || v->name || is_heap(w->s, v) ||
		(w->s->o.start_stack && v->start <= w->s->o.start_stack &&
		 v->end >= w->s->o.start_stack);
	while (named && n < NAME_COLUMN)
		head[n++] = ' ';
	put(w, head, (size_t)n);
	if (named)
		put_name(w, v);
	put(w, "\n", 1);
	w->next = v->end;
}

int64_t sm_maps(struct sm_space *s, char *buf, size_t size)
{
	struct writer w = { .step.use = put_line, .s = s, .buf = buf, .size = size ? size - 1 : 0 };

	sm__thread_enter();
	while (sm__next_shown(s, w.next, &w.step))
		;
	if (size)
		buf[w.at < size ? w.at : size - 1] = '\0';
	return (int64_t)w.at;
}
