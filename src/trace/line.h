/* SPDX-License-Identifier: MIT */
/* line.h - what the readers of both formats hand to the reader of recordings. */
#ifndef SM_TRACE_LINE_H
#define SM_TRACE_LINE_H

#include <samara/trace.h>

/* What stands before the body of a line. */
struct sm__leader {
	uint32_t tid;	  /* 0: none */
	bool stderr_form; /* "[pid N]": written to the terminal, where one thread alone has no id */
	uint64_t start_ns; /* UINT64_MAX: none */
	bool relative;	   /* start_ns counts from the line before */
};

/* Growing store of the ranges of one process_madvise. */
struct sm__ranges {
	struct sm_trace_range *at;
	size_t n, room;
};

/* The place of the body. */
const char *sm__strace_leader(const char *p, struct sm__leader *leader);

/*
 * "name(args) = result <duration>" into ev. 0; -EBADMSG and *reason; -ENOMEM.
 * finished false: the text is all there is of a call that never returned; it may end anywhere.
 */
int sm__strace_call(const char *p, bool finished, struct sm_trace_event *ev,
		    struct sm__ranges *ranges, const char **reason);

/* "start-end perms offset dev inode name", as in /proc/PID/maps; false if p is no such line. */
bool sm__maps_line(const char *p, struct sm_trace_event *ev);

enum sm__perf_kind {
	SM__PERF_NO,	    /* not a line of perf trace */
	SM__PERF_BAD,	    /* *reason says why */
	SM__PERF_WHOLE,	    /* ev is complete */
	SM__PERF_BEGUN,	    /* the beginning of a call: the rest comes with SM__PERF_CONTINUED */
	SM__PERF_CONTINUED, /* result and duration in ev; name is the call's */
	SM__PERF_OTHER,	    /* readable, and of no interest */
};

enum sm__perf_kind sm__perf_line(const char *p, struct sm_trace_event *ev, const char **reason);

/* "-1 ENOMEM (...)", "0x7f..", "?" into ev; past it, or NULL and *reason. */
const char *sm__scan_result(const char *p, struct sm_trace_event *ev, const char **reason);

#endif
