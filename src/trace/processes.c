/* SPDX-License-Identifier: MIT */
/*
 * processes.c - which process a thread belongs to, and which address space a call works on
 * (recording.h).
 *
 *   clone with CLONE_THREAD           same process, same space
 *   vfork, clone with CLONE_VM        new process, same space
 *   fork, other clone                 new process, a copy of the space as it was then
 *   execve that succeeded             the process goes on in a fresh space, its other threads end
 *   nobody is seen to make it         a thread of the first process (strace -p attaches to all)
 */
#include "trace/recording.h"
#include "trace/extents.h"
#include "base/base.h"
#include "base/inject.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CLONE_VM_BIT = 0x100, CLONE_THREAD_BIT = 0x10000 };

struct process {
	uint32_t pid;
	uint32_t mm;
	uint32_t exec_mm; /* takes over after exec_ret, or SM__NONE */
	uint64_t exec_ret;
};

struct work {
	struct sm__recording *rec;
	struct process *processes;
	size_t nprocesses, room;
};

static int by_entry(const void *a, const void *b)
{
	const struct sm__call *x = a, *y = b;

	if (x->entry != y->entry)
		return x->entry < y->entry ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

static uint32_t add_mm(struct sm__recording *rec, enum sm__mm_origin origin, uint32_t pid)
{
	if (sm__grow(&rec->mms, rec->nmms, &rec->mms_room, sizeof(*rec->mms)))
		return SM__NONE;
	rec->mms[rec->nmms] = (struct sm__mm){
		.origin = origin, .parent = SM__NONE, .pid = pid, .string = SM__NONE
	};
	return (uint32_t)rec->nmms++;
}

int sm__mm_add_initial(struct sm__mm *mm, struct sm__initial initial)
{
	if (sm__grow(&mm->initial, mm->ninitial, &mm->initial_room, sizeof(*mm->initial)))
		return -ENOMEM;
	mm->initial[mm->ninitial++] = initial;
	return 0;
}

static int add_process(struct work *w, uint32_t pid, uint32_t mm)
{
	if (sm__grow(&w->processes, w->nprocesses, &w->room, sizeof(*w->processes)))
		return -ENOMEM;
	w->processes[w->nprocesses++] = (struct process){ pid, mm, SM__NONE, 0 };
	return 0;
}

/* The process of a call, in the space it has at that time. */
static struct process *process_at(struct work *w, const struct sm__call *c)
{
	struct sm__thread *t = &w->rec->threads[c->thread];
	struct process *p;

	if (t->process == SM__NONE)
		t->process = 0;
	p = &w->processes[t->process];
	if (p->exec_mm != SM__NONE && c->entry > p->exec_ret) {
		p->mm = p->exec_mm;
		p->exec_mm = SM__NONE;
	}
	return p;
}

static int new_child(struct work *w, struct sm__call *c, uint32_t parent)
{
	struct sm__recording *rec = w->rec;
	struct sm__thread *child = &rec->threads[c->child];
	uint64_t flags = c->call == SM_SYS_VFORK  ? CLONE_VM_BIT
			 : c->call == SM_SYS_FORK ? 0
						  : c->args[0];
	uint32_t mm = w->processes[parent].mm;

	/* I2: a thread's lines may come before the end of the call that made it. */
	if (child->first_entry > c->entry + 1 && child->first_entry <= c->ret)
		c->ret = child->first_entry - 1;
	if (flags & CLONE_THREAD_BIT) {
		child->process = parent;
		return 0;
	}
	if (!(flags & CLONE_VM_BIT)) {
		c->new_mm = add_mm(rec, SM__MM_FORK, child->tid);
		if (c->new_mm == SM__NONE)
			return -ENOMEM;
		rec->mms[c->new_mm].parent = mm;
		mm = c->new_mm;
	}
	child->process = (uint32_t)w->nprocesses;
	return add_process(w, child->tid, mm);
}

static int one_call(struct work *w, struct sm__call *c)
{
	struct sm__recording *rec = w->rec;
	struct process *p = process_at(w, c);
	uint32_t index = (uint32_t)(p - w->processes);

	c->mm = p->mm;
	if (c->call == SM_SYS_OTHER) { /* a line of a maps block */
		struct sm__initial map = { c->args[0],	    c->args[1], c->args[4], (int)c->args[2],
					   (int)c->args[3], c->string,	false };

		return sm__mm_add_initial(&rec->mms[c->mm], map);
	}
	if ((c->call == SM_SYS_EXECVE || c->call == SM_SYS_EXECVEAT) && sm__call_succeeded(c)) {
		c->new_mm = add_mm(rec, SM__MM_EXEC, p->pid);
		if (c->new_mm == SM__NONE)
			return -ENOMEM;
		rec->mms[c->new_mm].string = c->string;
		p->exec_mm = c->new_mm;
		p->exec_ret = c->ret;
	}
	return c->child != SM__NONE ? new_child(w, c, index) : 0;
}

/*
 * Time stamps are rounded, and with them a call may seem to begin before its thread's last one ended.
 * It did not: I1 for the calls of one thread.
 */
static int part_calls(struct sm__recording *rec)
{
	uint32_t *last = sm__inject_fail() ? NULL : malloc((rec->nthreads + 1) * sizeof(*last));

	if (!last)
		return -ENOMEM;
	memset(last, 0xff, (rec->nthreads + 1) * sizeof(*last));
	for (size_t i = 0; i < rec->ncalls; i++) {
		struct sm__call *c = &rec->calls[i], *before;

		if (last[c->thread] != SM__NONE) {
			before = &rec->calls[last[c->thread]];
			if (before->ret >= c->entry)
				before->ret = c->entry - 1;
			if (before->ret <= before->entry)
				before->ret = before->entry + 1;
			if (c->entry <= before->ret)
				c->entry = before->ret + 1;
		}
		if (c->ret <= c->entry)
			c->ret = c->entry + 1;
		last[c->thread] = (uint32_t)i;
	}
	free(last);
	qsort(rec->calls, rec->ncalls, sizeof(*rec->calls), by_entry);
	return 0;
}

/* Calls moved when they were sorted: the threads' parent_call follows. */
static void relink(struct sm__recording *rec)
{
	for (size_t i = 0; i < rec->ncalls; i++) {
		if (rec->calls[i].child != SM__NONE)
			rec->threads[rec->calls[i].child].parent_call = (uint32_t)i;
	}
}

static void drop_map_lines(struct sm__recording *rec)
{
	size_t n = 0;

	for (size_t i = 0; i < rec->ncalls; i++) {
		if (rec->calls[i].call != SM_SYS_OTHER)
			rec->calls[n++] = rec->calls[i];
	}
	rec->ncalls = n;
}

int sm__recording_processes(struct sm__recording *rec)
{
	struct work w = { .rec = rec };
	uint32_t pid = rec->nthreads ? rec->threads[0].tid : 0, mm;
	int r = 0;

	if (rec->ncalls) {
		qsort(rec->calls, rec->ncalls, sizeof(*rec->calls), by_entry);
		r = part_calls(rec);
	}
	relink(rec);
	mm = add_mm(rec, SM__MM_FIRST, pid);
	if (!r && (mm == SM__NONE || add_process(&w, pid, mm)))
		r = -ENOMEM;
	for (size_t i = 0; !r && i < rec->ncalls; i++)
		r = one_call(&w, &rec->calls[i]);
	free(w.processes);
	drop_map_lines(rec);
	relink(rec);
	return r;
}
