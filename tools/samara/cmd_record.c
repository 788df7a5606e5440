/* SPDX-License-Identifier: MIT */
/*
 * cmd_record.c - samara record: runs strace or perf trace with what a replay wants to know. The
 * tracer takes the place of this process, so its status, messages and signals are its own.
 */
#include "cmd.h"
#include "base/base.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 24 }; /* of the tracer's own command line */

struct request {
	const char *out, *pid;
	bool perf;
};

static void usage(FILE *out)
{
	fprintf(out,
		"usage: samara record -o FILE [--perf] PROGRAM [ARGUMENT...]\n"
		"       samara record -o FILE --pid PID\n\n"
		"Records the memory calls of a program, for samara replay.\n\n"
		"  -o, --output FILE  the recording\n"
		"  --pid PID          a program that runs already: its map is written first "
		"(Ctrl-C ends it)\n"
		"  --perf             with perf trace, page faults too, and not with strace\n");
}

static const struct option options[] = {
	{ "output", required_argument, NULL, 'o' },
	{ "pid", required_argument, NULL, 'p' },
	{ "perf", no_argument, NULL, 'f' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

/* "# maps PID" and the lines of /proc/PID/maps. */
static int write_maps(const struct request *q)
{
	char path[64], block[4096];
	FILE *maps, *out;
	size_t n;
	bool fine;

	if (!*q->pid || strspn(q->pid, "0123456789") != strlen(q->pid) || strlen(q->pid) > 9) {
		fprintf(stderr, "samara: --pid takes a number, not '%s'\n", q->pid);
		return EXIT_UNUSABLE;
	}
	snprintf(path, sizeof(path), "/proc/%s/maps", q->pid);
	maps = fopen(path, "r");
	if (!maps) {
		fprintf(stderr, "samara: %s: %s\n", path, strerror(errno));
		return EXIT_UNUSABLE;
	}
	out = fopen(q->out, "w");
	fine = out && fprintf(out, "# maps %s\n", q->pid) > 0;
	while (fine && (n = fread(block, 1, sizeof(block), maps)) > 0)
		fine = fwrite(block, 1, n, out) == n;
	fine &= !ferror(maps);
	fclose(maps);
	if (out)
		fine &= !fclose(out);
	if (!fine)
		fprintf(stderr, "samara: %s: %s\n", q->out, strerror(errno));
	return fine ? EXIT_SAME : EXIT_UNUSABLE;
}

static unsigned strace_words(const struct request *q, const char **word)
{
	static const char *const fixed[] = {
		"strace", "-f", "-ttt",
		"-T",	  "-X", "verbose",
		"-y",	  "-e", "trace=%memory,%process,process_madvise,prctl,userfaultfd"
	};
	unsigned n = 0;

	for (; n < SM__ARRAY_SIZE(fixed); n++)
		word[n] = fixed[n];
	if (q->pid) {
		word[n++] = "-A"; /* behind the maps */
		word[n++] = "-p";
		word[n++] = q->pid;
	}
	word[n++] = "-o";
	word[n++] = q->out;
	return n;
}

static unsigned perf_words(const struct request *q, const char **word)
{
	unsigned n = 0;

	word[n++] = "perf";
	word[n++] = "trace";
	word[n++] = "-F";
	word[n++] = "all";
	word[n++] = "-o";
	word[n++] = q->out;
	word[n++] = "--";
	return n;
}

static int run_tracer(const struct request *q, char **program, size_t words)
{
	const char **argv = calloc(WORDS + words + 1, sizeof(*argv));
	unsigned n;

	if (!argv) {
		fprintf(stderr, "samara: out of memory\n");
		return EXIT_UNUSABLE;
	}
	n = q->perf ? perf_words(q, argv) : strace_words(q, argv);
	for (size_t i = 0; i < words; i++)
		argv[n++] = program[i];
	execvp(argv[0], (char *const *)argv);
	fprintf(stderr, "samara: %s: %s\n", argv[0], strerror(errno));
	free(argv);
	return EXIT_UNUSABLE;
}

static int refuse(const char *why)
{
	fprintf(stderr, "samara: %s\n", why);
	usage(stderr);
	return EXIT_UNUSABLE;
}

int cmd_record(int argc, char **argv)
{
	struct request q = { 0 };
	int opt, status;

	optind = 0;
	while ((opt = getopt_long(argc, argv, "+o:", options, NULL)) != -1) {
		if (opt == 'o')
			q.out = optarg;
		else if (opt == 'p')
			q.pid = optarg;
		else if (opt == 'f')
			q.perf = true;
		else if (opt == 'h')
			return usage(stdout), EXIT_SAME;
		else
			return refuse("no such option");
	}
	if (!q.out)
		return refuse("-o FILE is missing");
	if (q.pid ? optind < argc : optind == argc)
		return refuse("either a program or --pid PID is recorded");
	if (q.pid && q.perf)
		return refuse("perf trace cannot write behind a map: --pid goes without --perf");
	if (q.pid) {
		status = write_maps(&q);
		if (status)
			return status;
	}
	return run_tracer(&q, argv + optind, (size_t)(argc - optind));
}
