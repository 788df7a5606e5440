/* SPDX-License-Identifier: MIT */
/*
 * perf.c - one line of `perf trace -F all` (line.h).
 *
 *     0.957 ( 0.024 ms): t/11901 mmap(len: 1048576, prot: READ|WRITE, flags: PRIVATE)  = 0x7f79…
 *     4.091 (         ): t/11901 munmap(addr: 0x7f79…, len: 65536)                     ...
 *         ? (         ): t/11901  ... [continued]: munmap())                           = 0
 *     1.431 ( 0.000 ms): t/11907 minfault [_start+0x0] => /usr/lib/…/ld.so@0x1ab70 (d.)
 *
 * I1 An argument that is not printed is 0; a descriptor that is not printed is -1 for anonymous
 *    memory.
 * I2 A fault says no access: in [stack], [heap] and //anon memory it is taken for a write, elsewhere
 *    for an instruction fetch if the faulting code lies at +0x0 of its function and the map is of
 *    type x, for a read otherwise. All of them carry SM_TRACE_INFERRED_ACCESS.
 */
#include "trace/line.h"
#include "trace/scan.h"
#include "trace/symbols.h"

#include <string.h>

/* "   0.957 ( 0.024 ms): " or "    ? (         ): ", 0 if p is no line of perf trace */
static const char *perf_leader(const char *p, struct sm_trace_event *ev)
{
	uint64_t ns;

	p = sm__skip_blanks(p);
	if (*p == '?') {
		p++;
	} else {
		p = sm__scan_seconds(p, &ns);
		if (!p)
			return NULL;
		ev->start_ns = ns / 1000; /* printed in ms */
	}
	if (p[0] != ' ' || p[1] != '(')
		return NULL;
	p = sm__skip_blanks(p + 2);
	if (sm__is_digit(*p)) {
		p = sm__scan_seconds(p, &ns);
		ev->duration_ns = ns / 1000;
		p = sm__skip_blanks(p);
		if (strncmp(p, "ms", 2))
			return NULL;
		p += 2;
	}
	if (strncmp(p, "): ", 3))
		return NULL;
	return p + 3;
}

/* "comm/tid " or "tid "; a comm may hold blanks and slashes: the last "/digits " before the body. */
static const char *perf_thread(const char *p, struct sm_trace_event *ev)
{
	uint64_t tid;
	const char *q;

	p = sm__skip_blanks(p);
	q = sm__scan_decimal(p, &tid);
	if (q && *q == ' ') {
		ev->tid = (uint32_t)tid;
		return q + 1;
	}
	for (q = p; *q != '\n' && q < p + 32; q++) {
		const char *end = *q == '/' ? sm__scan_decimal(q + 1, &tid) : NULL;

		if (end && *end == ' ' && tid) {
			ev->tid = (uint32_t)tid;
			return end + 1;
		}
	}
	return NULL;
}

static const char *scan_fault_code(const char *p, bool *at_start)
{
	const char *close = p;

	while (*close != ']' && *close != '\n')
		close++;
	if (*close != ']')
		return NULL;
	*at_start = close - p >= 4 && !strncmp(close - 4, "+0x0", 4);
	return close + 1;
}

/* "[code] => target (d.)" */
static enum sm__perf_kind perf_fault(const char *p, struct sm_trace_event *ev, const char **reason)
{
	bool fetch = false;
	const char *target, *end, *at = NULL;
	uint64_t addr;

	p = sm__skip_blanks(p);
	if (*p == '[')
		p = scan_fault_code(p, &fetch);
	p = p ? sm__skip_blanks(p) : NULL;
	if (!p || p[0] != '=' || p[1] != '>') {
		*reason = "a fault without a target";
		return SM__PERF_BAD;
	}
	target = sm__skip_blanks(p + 2);
	end = target + strcspn(target, "\n");
	while (end > target && *end != '(')
		end--;
	for (const char *q = target; q < end; q++)
		at = *q == '@' ? q : at;
	if (end == target || !sm__scan_number(at ? at + 1 : target, &addr)) {
		*reason = "a fault without an address";
		return SM__PERF_BAD;
	}
	ev->call = SM_SYS_PAGE_FAULT;
	ev->returned = true;
	ev->nargs = 2;
	ev->inferred = SM_TRACE_INFERRED_ACCESS;
	ev->args[0] = addr;
	ev->args[1] = SM_ACCESS_READ;
	if (at && (*target == '[' || !strncmp(target, "//anon", 6))) {
		ev->args[1] = SM_ACCESS_WRITE;
		if (*target == '[') {
			ev->path = target;
			ev->path_len = (size_t)(at - target);
		}
	} else if (at) {
		ev->inferred |= SM_TRACE_INFERRED_ADDR;
		ev->nargs = 3;
		ev->args[0] = 0;
		ev->args[2] = addr;
		ev->path = target;
		ev->path_len = (size_t)(at - target);
		if (fetch)
			ev->args[1] = SM_ACCESS_EXEC;
	}
	return SM__PERF_WHOLE;
}

/* The argument called by this name, or by the name another version of perf uses. */
static int arg_index(const struct sm__call_spec *spec, const char *name, size_t len)
{
	static const char *const other[][2] = { { "start", "addr" },
						{ "len_in", "len" },
						{ "offset", "off" },
						{ "advice", "behavior" },
						{ "flags", "clone_flags" } };

	for (int pass = 0; pass < 3; pass++) {
		for (int i = 0; i < 6 && spec->args[i].name; i++) {
			const char *known = spec->args[i].name;

			if (!pass && strlen(known) == len && !memcmp(known, name, len))
				return i;
			for (size_t k = 0; pass && k < sizeof(other) / sizeof(other[0]); k++) {
				const char *is = other[k][pass - 1], *was = other[k][2 - pass];

				if (strlen(is) == len && !memcmp(is, name, len) &&
				    !strcmp(was, known))
					return i;
			}
		}
	}
	return -1;
}

/* "name: value, …)": past the ')', or NULL */
static const char *perf_args(const char *p, struct sm_trace_event *ev, const char **reason)
{
	const struct sm__call_spec *spec = &sm__call_specs[ev->call];
	bool fd = false;

	p = sm__skip_blanks(p);
	while (*p != ')') {
		const char *name = p;
		struct sm__value v;
		int i;

		while (sm__is_word(*p))
			p++;
		i = arg_index(spec, name, (size_t)(p - name));
		p = *p == ':' ? sm__scan_value(p + 1, i < 0 ? NULL : spec->args[i].prefix, &v)
			      : NULL;
		if (!p || (*p != ',' && *p != ')')) {
			*reason = "an argument that makes no sense";
			return NULL;
		}
		if (i >= 0 && v.kind == SM__VALUE_UNKNOWN) {
			*reason = "a constant nobody knows";
			return NULL;
		}
		if (i >= 0)
			ev->args[i] = v.number;
		if (v.path) {
			ev->path = v.path;
			ev->path_len = v.path_len;
		}
		fd |= ev->call == SM_SYS_MMAP && i == 4;
		if (*p == ',')
			p = sm__skip_blanks(p + 1);
	}
	for (ev->nargs = 0; ev->nargs < 6 && spec->args[ev->nargs].name; ev->nargs++)
		;
	if (ev->call == SM_SYS_MMAP && !fd && ev->args[3] & SM_MAP_ANONYMOUS)
		ev->args[4] = UINT64_MAX;
	return p + 1;
}

static void clone_defaults(struct sm_trace_event *ev)
{
	if (ev->call == SM_SYS_CLONE3) {
		ev->args[0] = 0x3d0f00; /* the flags are behind a pointer: pthread_create's */
		ev->nargs = 1;
		ev->inferred |= SM_TRACE_INFERRED_FLAGS;
	}
}

static enum sm__perf_kind perf_continued(const char *p, struct sm_trace_event *ev,
					 const char **reason)
{
	p = sm__skip_blanks(p);
	ev->name = p;
	while (sm__is_word(*p))
		p++;
	ev->name_len = (size_t)(p - ev->name);
	ev->call = sm__call_find(ev->name, ev->name_len);
	p += strspn(p, "()");
	p = sm__skip_blanks(p);
	if (*p != '=' || !sm__scan_result(p + 1, ev, reason)) {
		*reason = "no result";
		return SM__PERF_BAD;
	}
	return SM__PERF_CONTINUED;
}

static enum sm__perf_kind perf_call(const char *p, struct sm_trace_event *ev, const char **reason)
{
	ev->call = sm__call_find(ev->name, ev->name_len);
	if (ev->call == SM_SYS_OTHER)
		p = sm__skip_group(p);
	else
		p = perf_args(p + 1, ev, reason);
	if (!p)
		return SM__PERF_BAD;
	clone_defaults(ev);
	p = sm__skip_blanks(p);
	if (!strncmp(p, "...", 3))
		return SM__PERF_BEGUN;
	if (*p != '=' || !sm__scan_result(p + 1, ev, reason)) {
		*reason = "no result after the arguments";
		return SM__PERF_BAD;
	}
	return SM__PERF_WHOLE;
}

enum sm__perf_kind sm__perf_line(const char *p, struct sm_trace_event *ev, const char **reason)
{
	p = perf_leader(p, ev);
	if (!p)
		return SM__PERF_NO;
	ev->stamped = true;
	p = perf_thread(p, ev);
	if (!p) {
		*reason = "no thread";
		return SM__PERF_BAD;
	}
	p = sm__skip_blanks(p);
	if (!strncmp(p, "... [continued]:", 16))
		return perf_continued(p + 16, ev, reason);
	ev->name = p;
	while (sm__is_word(*p) || *p == ':' || *p == '-')
		p++;
	ev->name_len = (size_t)(p - ev->name);
	if (*p == '(' && ev->name_len)
		return perf_call(p, ev, reason);
	if (ev->name_len == 8 &&
	    (!memcmp(ev->name, "minfault", 8) || !memcmp(ev->name, "majfault", 8)))
		return perf_fault(p, ev, reason);
	if (ev->name_len && (ev->name[ev->name_len - 1] == ':' || *p == ':'))
		return SM__PERF_OTHER; /* a tracepoint */
	*reason = "neither a call nor a fault";
	return SM__PERF_BAD;
}
