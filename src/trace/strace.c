/* SPDX-License-Identifier: MIT */
/*
 * strace.c - one line of strace: what leads it, and the call (line.h).
 *
 *   14900<t> 17:19:59.330902 (+     0.000059) [   9] [00007fb9c5d6bd07] mmap(NULL, 8192, …) = 0x… <0.000010>
 *   \_ tid _/ \__ time ____/ \_ relative ___/ \_nr_/ \____ ip _______/ \_ call ___________________________/
 */
#include "trace/line.h"
#include "trace/extents.h"
#include "trace/scan.h"
#include "trace/symbols.h"
#include "base/base.h"
#include "base/inject.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Linux gives no thread a number beyond this: a larger one is seconds since 1970. */
#define PID_MAX	 (1u << 22)
/* Seconds below this are relative to the line before: no recording was made before 1973. */
#define EPOCH_NS (100000000ull * 1000000000ull)

/* "[pid  123] ", "[pid 123<comm>] ", "[   9] ", "[00007f…] ", "[????] ", "[context] " */
static const char *leader_bracket(const char *p, struct sm__leader *leader)
{
	uint64_t n;
	const char *q;

	if (!strncmp(p, "[pid ", 5)) {
		q = sm__scan_decimal(sm__skip_blanks(p + 5), &n);
		if (q && n && n <= PID_MAX) {
			leader->tid = (uint32_t)n;
			leader->stderr_form = true;
		}
	}
	for (q = p + 1; *q != ']' && *q != '\n'; q++)
		;
	return q[0] == ']' && q[1] == ' ' ? sm__skip_blanks(q + 2) : NULL;
}

/* hh:mm:ss[.fraction] or seconds[.fraction] */
static const char *leader_time(const char *p, struct sm__leader *leader)
{
	uint64_t a, b, ns;
	const char *q = sm__scan_decimal(p, &a);

	if (*q == ':') {
		q = sm__scan_decimal(q + 1, &b);
		if (!q || *q != ':')
			return NULL;
		q = sm__scan_seconds(q + 1, &ns);
		if (!q)
			return NULL;
		leader->start_ns = (a * 60 + b) * 60000000000ull + ns;
	} else {
		q = sm__scan_seconds(p, &ns);
		leader->start_ns = ns;
		leader->relative = ns < EPOCH_NS;
	}
	return *q == ' ' ? sm__skip_blanks(q) : NULL;
}

/* A number: a thread, or a time. */
static const char *leader_number(const char *p, struct sm__leader *leader)
{
	uint64_t n;
	const char *q = sm__scan_decimal(p, &n);

	if ((*q == ' ' || *q == '<') && n && n <= PID_MAX && !leader->tid &&
	    leader->start_ns == UINT64_MAX) {
		leader->tid = (uint32_t)n;
		if (*q == '<') {
			while (*q != '>' && *q != '\n')
				q++;
			if (*q++ != '>')
				return NULL;
		}
		return *q == ' ' ? sm__skip_blanks(q) : NULL;
	}
	return leader_time(p, leader);
}

const char *sm__strace_leader(const char *p, struct sm__leader *leader)
{
	const char *next;

	*leader = (struct sm__leader){ 0, false, UINT64_MAX, false };
	p = sm__skip_blanks(p);
	for (;; p = next) {
		if (sm__is_digit(*p)) {
			next = leader_number(p, leader);
		} else if (*p == '[') {
			next = leader_bracket(p, leader);
		} else if (p[0] == '(' && p[1] == '+') {
			next = p + strcspn(p, ")\n");
			next = *next == ')' ? sm__skip_blanks(next + 1) : NULL;
		} else {
			return p;
		}
		if (!next)
			return p;
	}
}

const char *sm__scan_result(const char *p, struct sm_trace_event *ev, const char **reason)
{
	const char *word;
	uint64_t n = 0;

	p = sm__skip_blanks(p);
	ev->returned = *p != '?';
	if (*p == '?') {
		p++;
	} else {
		p = sm__scan_number(p, &n);
		if (!p) {
			*reason = "the result is no number";
			return NULL;
		}
	}
	ev->result = (int64_t)n;
	if (*p == '<') { /* -Y: = 14901<t>, -y: = 3</path> */
		while (*p != '>' && *p != '\n')
			p++;
		p += *p == '>';
	}
	p = sm__skip_blanks(p);
	if (*p == 'E') {
		for (word = p; sm__is_word(*p); p++)
			;
		ev->error = sm__errno_find(word, (size_t)(p - word));
		if (!ev->error) {
			*reason = "an errno nobody knows";
			return NULL;
		}
		p = sm__skip_blanks(p);
	}
	while (*p == '(') /* (Cannot allocate memory), (INJECTED), (flags …) */
		p = sm__skip_blanks(sm__skip_group(p));
	return p;
}

/* After ')': "= result [<duration>]" to the end of the line. */
static int parse_tail(const char *p, struct sm_trace_event *ev, const char **reason)
{
	p = sm__skip_blanks(p);
	if (*p != '=') {
		*reason = "no result after the arguments";
		return -EBADMSG;
	}
	p = sm__scan_result(p + 1, ev, reason);
	if (!p)
		return -EBADMSG;
	if (ev->call == SM_SYS_OTHER) { /* results of any shape; only the duration matters */
		const char *end = p + strcspn(p, "\n"), *q = memrchr(p, '<', (size_t)(end - p));

		if (q)
			sm__scan_seconds(q + 1, &ev->duration_ns);
		return 0;
	}
	if (*p == '<') {
		const char *q = sm__scan_seconds(p + 1, &ev->duration_ns);

		if (q && *q == '>')
			p = sm__skip_blanks(q + 1);
		else if (!strncmp(p, "<unavailable>", 13))
			p = sm__skip_blanks(p + 13);
	}
	if (*p != '\n') {
		*reason = "something after the result";
		return -EBADMSG;
	}
	return 0;
}

/* [{iov_base=0x…, iov_len=4096}, …] */
static int parse_ranges(const char *p, struct sm__ranges *ranges, const char **reason)
{
	struct sm__value base, len;

	ranges->n = 0;
	for (p++; *(p = sm__skip_blanks(p)) == '{'; p += *p == ',') {
		p = sm__scan_value(p + 1, NULL, &base);
		if (!p || *p != ',' || base.kind != SM__VALUE_NUMBER)
			goto bad;
		p = sm__scan_value(p + 1, NULL, &len);
		if (!p || *p != '}' || len.kind != SM__VALUE_NUMBER)
			goto bad;
		if (ranges->n == ranges->room) {
			size_t room = ranges->room ? ranges->room * 2 : 16;
			void *grown = sm__inject_fail()
					      ? NULL
					      : realloc(ranges->at, room * sizeof(*ranges->at));

			if (!grown)
				return -ENOMEM;
			ranges->at = grown;
			ranges->room = room;
		}
		ranges->at[ranges->n++] = (struct sm_trace_range){ base.number, len.number };
		p++;
	}
	return 0;
bad:
	*reason = "a vector that is none";
	return -EBADMSG;
}

/* clone(child_stack=…, flags=…), clone3({flags=…}): the flags, wherever they are. */
static void parse_clone(const char *p, struct sm_trace_event *ev)
{
	struct sm__value v = { 0 };
	const char *flags = NULL, *end = p;

	while (*end != '\n')
		end++;
	for (const char *q = p; !flags && (q = memchr(q, 'f', (size_t)(end - q))); q++) {
		if (!strncmp(q, "flags=", 6) && q > p && !sm__is_word(q[-1]))
			flags = q + 6;
	}
	if (flags) {
		if (!sm__scan_value(flags, "CLONE_", &v))
			flags = NULL;
	} else if (ev->call == SM_SYS_CLONE && sm__scan_value(p, "CLONE_", &v) &&
		   v.kind == SM__VALUE_NUMBER) {
		flags = p; /* -e raw: the first argument is the flags */
	}
	ev->args[0] = v.number;
	ev->nargs = 1;
	if (!flags) {
		ev->args[0] = 0x3d0f00; /* what pthread_create passes */
		ev->inferred |= SM_TRACE_INFERRED_FLAGS;
	}
}

/* Arguments that are there but make no sense for the call: a reason, or NULL. */
static const char *check_args(const struct sm_trace_event *ev)
{
	static const char *const few[7] = { NULL,
					    "no first argument",
					    "no second argument",
					    "no third argument",
					    "no fourth argument",
					    "no fifth argument",
					    "no sixth argument" };
	unsigned need = sm__call_specs[ev->call].required;

	if (ev->nargs < need)
		return few[ev->nargs + 1];
	if (ev->call == SM_SYS_PAGE_FAULT &&
	    (!ev->args[1] || ev->args[1] > (SM_ACCESS_READ | SM_ACCESS_WRITE | SM_ACCESS_EXEC)))
		return "a fault is READ, WRITE or EXEC";
	return NULL;
}

static int store_arg(unsigned i, const struct sm__value *v, struct sm_trace_event *ev,
		     struct sm__ranges *ranges, const char **reason)
{
	if (v->kind == SM__VALUE_UNKNOWN && ev->call != SM_SYS_PRCTL) {
		*reason = "a constant nobody knows";
		return -EBADMSG;
	}
	if (v->kind == SM__VALUE_UNKNOWN)
		ev->args[i] = UINT64_MAX;
	else
		ev->args[i] = v->number;
	if (v->path && !ev->path) {
		ev->path = v->path;
		ev->path_len = v->path_len;
	}
	if (v->kind == SM__VALUE_STRING) {
		ev->text = v->text;
		ev->text_len = v->len;
	}
	if (v->kind == SM__VALUE_GROUP && ev->call == SM_SYS_PROCESS_MADVISE) {
		int r = parse_ranges(v->text, ranges, reason);

		if (r)
			return r;
		ev->ranges = ranges->at;
		ev->nranges = ranges->n;
	}
	return 0;
}

/* The arguments of a call of the table; *p ends after the ')'. */
static int parse_args(const char **p, bool finished, struct sm_trace_event *ev,
		      struct sm__ranges *ranges, const char **reason)
{
	const struct sm__call_spec *spec = &sm__call_specs[ev->call];
	const char *q = sm__skip_blanks(*p);
	int r;

	for (unsigned i = 0; *q != ')'; i++) {
		struct sm__value v;

		q = sm__scan_value(q, i < 6 ? spec->args[i].prefix : NULL, &v);
		if (!q || (*q != ',' && *q != ')' && (*q != '\n' || finished))) {
			*reason = "an argument that makes no sense";
			return -EBADMSG;
		}
		if (i < 6 && v.kind) {
			r = store_arg(i, &v, ev, ranges, reason);
			if (r)
				return r;
			ev->nargs = (uint16_t)(i + 1);
		}
		if (*q == '\n')
			break;
		if (*q == ',')
			q = sm__skip_blanks(q + 1);
	}
	*p = q + (*q == ')');
	*reason = check_args(ev);
	return *reason ? -EBADMSG : 0;
}

/* The ')' that closes the arguments: the last one with "= result" behind it. */
static const char *find_close(const char *p)
{
	const char *end = p;

	while (*end != '\n')
		end++;
	for (const char *q = end; (q = memrchr(p, '=', (size_t)(q - p)));) {
		const char *r = q;

		while (r > p && r[-1] == ' ')
			r--;
		if (r > p && r[-1] == ')' && q[1] == ' ')
			return r - 1;
	}
	return NULL;
}

/* Calls whose arguments are not looked at, or only for a word. */
static bool takes_args(enum sm_trace_call call)
{
	return call != SM_SYS_OTHER && (call < SM_SYS_CLONE || call > SM_SYS_EXIT_GROUP);
}

int sm__strace_call(const char *p, bool finished, struct sm_trace_event *ev,
		    struct sm__ranges *ranges, const char **reason)
{
	const char *args;
	int r = 0;

	ev->name = p;
	while (sm__is_word(*p))
		p++;
	ev->name_len = (size_t)(p - ev->name);
	if (!ev->name_len || sm__is_digit(*ev->name) || *p != '(') {
		*reason = "neither a call nor anything else that strace writes";
		return -EBADMSG;
	}
	ev->call = sm__call_find(ev->name, ev->name_len);
	args = ++p;
	if (takes_args(ev->call)) {
		r = parse_args(&p, finished, ev, ranges, reason);
	} else {
		p = find_close(args);
		if (ev->call == SM_SYS_CLONE || ev->call == SM_SYS_CLONE3)
			parse_clone(args, ev);
		if (ev->call == SM_SYS_EXECVE && *args == '"') {
			struct sm__value v;

			sm__scan_value(args, NULL, &v);
			ev->text = v.text;
			ev->text_len = v.len;
		}
		if (!p) {
			*reason = "no result after the arguments";
			r = -EBADMSG;
		} else {
			p++;
		}
	}
	if (!finished)
		return r == -ENOMEM ? r : 0;
	return r ? r : parse_tail(p, ev, reason);
}

bool sm__maps_line(const char *p, struct sm_trace_event *ev)
{
	uint64_t field[2] = { 0, 0 };
	char perms[4];
	const char *q;

	p = sm__skip_blanks(p);
	for (int i = 0; i < 2; i++) {
		p = sm__scan_hex(p, &field[i]);
		if (!p || *p++ != (i ? ' ' : '-'))
			return false;
	}
	for (int i = 0; i < 4; i++) {
		if (p[i] == '\n' || !strchr("rwxps-", p[i]))
			return false;
		perms[i] = p[i];
	}
	p += 4;
	ev->kind = SM_TRACE_MAP;
	ev->nargs = 5;
	ev->args[0] = field[0];
	ev->args[1] = field[1];
	ev->args[2] = (perms[0] == 'r' ? SM_PROT_READ : 0u) |
		      (perms[1] == 'w' ? SM_PROT_WRITE : 0u) |
		      (perms[2] == 'x' ? SM_PROT_EXEC : 0u);
	ev->args[3] = perms[3] == 's' ? SM_MAP_SHARED : SM_MAP_PRIVATE;
	if (*p != ' ' || !sm__scan_hex(p + 1, &ev->args[4]))
		return false;
	for (int i = 0; i < 3; i++) { /* offset, device, inode */
		p = sm__skip_blanks(p);
		while (*p != ' ' && *p != '\n')
			p++;
	}
	p = sm__skip_blanks(p);
	for (q = p; *q != '\n' && *q != '\r'; q++)
		;
	ev->path = q > p ? p : NULL;
	ev->path_len = (size_t)(q - p);
	return field[0] < field[1] && !((field[0] | field[1] | ev->args[4]) & (SM__TRACE_PAGE - 1));
}
