/* SPDX-License-Identifier: MIT */
/* peer.c - the peer's side of the pipe (protocol: peer.h). */
#include "peer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>

static _Thread_local char error_text[160];
static double more[PEER_MORE];
static unsigned n_more;

void peer_more(double value)
{
	if (n_more < PEER_MORE)
		more[n_more++] = value;
}

uint64_t peer_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error_text, sizeof(error_text), format, args);
	va_end(args);
	return UINT64_MAX;
}

const char *peer_error(void)
{
	return error_text;
}

/* Runs "NAME[/ARG]" from the table in this process. */
static uint64_t measure(const struct peer_case *cases, const char *what, uint64_t n)
{
	size_t length = strcspn(what, "/");

	error_text[0] = '\0';
	for (const struct peer_case *c = cases; c->name; c++) {
		if (strlen(c->name) == length && !strncmp(c->name, what, length))
			return c->run(what[length] ? what + length + 1 : "", n);
	}
	return peer_fail("no case '%.*s'", (int)length, what);
}

/* "1,0" from the environment; anything else leaves the default. */
static void place(void)
{
	const char *order = getenv("BENCH_CPUS_ORDER");
	struct bench_cpus cpus = { .n = 0 };

	while (order && *order && cpus.n < BENCH_CPUS) {
		char *end;
		long cpu = strtol(order, &end, 10);

		if (end == order || cpu < 0 || cpu > INT32_MAX)
			break;
		cpus.cpu[cpus.n++] = (int)cpu;
		order = *end == ',' ? end + 1 : end;
	}
	if (cpus.n)
		bench_cpus_set(&cpus);
	bench_pin(0);
}

static int answer(const struct peer_case *cases, const char *what, uint64_t n)
{
	uint64_t ns;

	n_more = 0;
	ns = measure(cases, what, n);
	if (ns == UINT64_MAX) {
		printf("error %s\n", error_text[0] ? error_text : "failed");
	} else {
		printf("%" PRIu64, ns);
		for (unsigned i = 0; i < n_more; i++)
			printf(" %.17g", more[i]);
		putchar('\n');
	}
	fflush(stdout);
	return ns == UINT64_MAX;
}

int peer_main(int argc, char **argv, const struct peer_case *cases)
{
	char line[512], what[256];
	uint64_t n;

	place();
	if (argc == 2 && !strcmp(argv[1], "--list")) {
		for (const struct peer_case *c = cases; c->name; c++)
			puts(c->name);
		return 0;
	}
	if (argc == 3)
		return answer(cases, argv[1], strtoull(argv[2], NULL, 10));
	if (argc != 1) {
		fprintf(stderr, "usage: %s [--list | NAME[/ARG] N]\n", argv[0]);
		return 2;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a killed benchmark leaves nobody behind */
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "%255s %" SCNu64, what, &n) != 2)
			printf("error unreadable request\n"), fflush(stdout);
		else
			answer(cases, what, n);
	}
	return 0;
}
