/* SPDX-License-Identifier: MIT */
/* cases.c - see cases.h. */
#include "support/cases.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PAGES 64

/* The errno with this name, 0 if there is none. */
static int errno_named(const char *name, size_t len)
{
	for (int e = 1; e < 134; e++) {
		const char *n = strerrorname_np(e);

		if (n && strlen(n) == len && !memcmp(n, name, len))
			return e;
	}
	return 0;
}

static int parse_signal(const char *p, struct case_expect *e)
{
	int sig = !strncmp(p, "SIGSEGV", 7) ? SIGSEGV : !strncmp(p, "SIGBUS", 6) ? SIGBUS : 0;
	const char *slash = strchr(p, '/');

	if (!sig)
		return -1;
	e->signal_only = !slash;
	e->result = OBS_SIGNAL(sig, slash ? atoi(slash + 1) : 0);
	return 0;
}

/* What follows the equals sign. */
static int parse_result(const char *p, uint64_t base, struct case_expect *e)
{
	size_t len = strcspn(p, " \t\n");
	const char *token = strstr(p, " token ");
	uint64_t value;

	e->any = len == 3 && !memcmp(p, "any", 3);
	if (token) {
		e->has_token = true;
		if (!ops_parse_number(token + 7, base, &e->token))
			return -1;
	}
	if (e->any)
		return 0;
	if (!strncmp(p, "SIG", 3))
		return parse_signal(p, e);
	if (errno_named(p, len)) {
		e->result = -errno_named(p, len);
		return 0;
	}
	if (!ops_parse_number(p, base, &value))
		return -1;
	e->result = (int64_t)value;
	return 0;
}

static int parse_call(const char *line, uint64_t base, struct test_case *c)
{
	char call[512];
	const char *equals = strstr(line, " = ");

	if (!equals || c->n == CASE_MAX_OPS)
		return -1;
	snprintf(call, sizeof(call), "%s%.*s",
		 strchr("0123", line[0]) ? "" : "0: ", (int)(equals - line), line);
	if (ops_parse(call, base, &c->op[c->n]) || parse_result(equals + 3, base, &c->expect[c->n]))
		return -1;
	c->n++;
	return 0;
}

static int parse_setting(const char *line, struct test_case *c)
{
	char word[32];
	unsigned a = 0, b = 0;

	if (sscanf(line, "%31s %u.%u", word, &a, &b) < 2)
		return -1;
	if (!strcmp(word, "since"))
		c->since = a * 1000 + b;
	else if (!strcmp(word, "window"))
		c->config.pages = a;
	else if (!strcmp(word, "brk"))
		c->config.brk_page = (int)a;
	else if (!strcmp(word, "as"))
		c->config.as_pages = a;
	else if (!strcmp(word, "data"))
		c->config.data_pages = a;
	else if (!strcmp(word, "maps"))
		c->config.map_count = a;
	else
		return -1;
	return 0;
}

static void begin_case(struct test_case *c, const char *name, uint64_t base)
{
	memset(c, 0, sizeof(*c));
	snprintf(c->name, sizeof(c->name), "%.*s", (int)strcspn(name, " \t\n"), name);
	c->config.base = base;
	c->config.pages = DEFAULT_PAGES;
	c->config.brk_page = -1;
	c->config.as_pages = c->config.data_pages = c->config.memlock_pages = ~0ULL;
	c->config.contents = true;
}

static int parse_line(char *line, uint64_t base, struct test_case *c, unsigned number)
{
	line[strcspn(line, "\n")] = 0;
	if (!strncmp(line, "map", 3) && (line[3] == ' ' || !line[3])) {
		struct case_expect *e = &c->expect[c->n ? c->n - 1 : 0];

		if (!c->n)
			return -1;
		e->has_map = true;
		if (strlen(line) >= sizeof(e->map))
			return -1;
		strcpy(e->map, line[3] ? line + 4 : "");
		return 0;
	}
	if (!strcmp(line, "kernel no")) {
		c->no_kernel = true;
		return 0;
	}
	if (strchr(line, '(')) {
		if (parse_call(line, base, c))
			return -1;
		c->expect[c->n - 1].line = number;
		return 0;
	}
	return parse_setting(line, c);
}

long cases_load(const char *path, uint64_t base, struct test_case **out)
{
	FILE *in = fopen(path, "r");
	struct test_case *cases = NULL;
	char line[512];
	unsigned number = 0;
	long n = 0;

	if (!in) {
		perror(path);
		return -1;
	}
	while (fgets(line, sizeof(line), in)) {
		number++;
		if (line[0] == '#' || line[strspn(line, " \t\n")] == 0)
			continue;
		if (!strncmp(line, "case ", 5)) {
			struct test_case *more = realloc(cases, (size_t)(n + 1) * sizeof(*cases));

			if (!more)
				abort();
			cases = more;
			begin_case(&cases[n++], line + 5, base);
		} else if (!n || parse_line(line, base, &cases[n - 1], number)) {
			fprintf(stderr, "%s:%u: not understood: %s\n", path, number, line);
			free(cases);
			fclose(in);
			return -1;
		}
	}
	fclose(in);
	*out = cases;
	return n;
}

static void map_text(const struct observation *o, char *buf, size_t size)
{
	size_t at = 0;

	buf[0] = 0;
	for (unsigned i = 0; i < o->vmas && at < size; i++) {
		const struct obs_vma *v = &o->vma[i];

		at += (size_t)snprintf(buf + at, size - at, "%s[%u,%u)%c%c%c%c", i ? " " : "",
				       v->first, v->end, v->prot & 1 ? 'r' : '-',
				       v->prot & 2 ? 'w' : '-', v->prot & 4 ? 'x' : '-',
				       v->shared ? 's' : 'p');
	}
}

static bool result_matches(const struct case_expect *e, int64_t result)
{
	return e->any || (e->signal_only ? result / 256 == e->result / 256 : result == e->result);
}

unsigned case_check(const struct test_case *c, const char *path, const char *who, bool contents,
		    const struct observation *log)
{
	unsigned wrong = 0;

	for (size_t i = 0; i < c->n; i++) {
		const struct case_expect *e = &c->expect[i];
		const struct observation *o = &log[i];
		char map[sizeof(e->map)];
		bool bad;

		map_text(o, map, sizeof(map));
		bad = !result_matches(e, o->result) || (e->has_map && strcmp(map, e->map)) ||
		      (contents && e->has_token && !o->token_any && o->token != e->token);
		if (!bad)
			continue;
		wrong++;
		fprintf(stderr, "%s:%u: case %s, %s: ", path, e->line, c->name, who);
		ops_print(stderr, &c->op[i], c->config.base);
		fprintf(stderr, "\n  expected %s%s\n  seen: ", e->has_map ? "map " : "",
			e->has_map ? e->map : "another result");
		obs_print(stderr, &c->config, o);
	}
	return wrong;
}
