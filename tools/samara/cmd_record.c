/* SPDX-License-Identifier: MIT */
/*
 * cmd_record.c - samara record: runs strace or perf trace with what a replay wants to know. The
 * tracer takes the place of this process, so its status, messages and signals are its own.
 */
#include "cmd.h"
#include "hold.h"
#include "options.h"
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
		"(Ctrl-C ends the recording)\n"
		"  --perf             with perf trace, page faults too, and not with strace\n\n"
		"Exit status: that of the tracer, which is the program's; 2 usage, or no "
		"tracer.\n");
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

	snprintf(path, sizeof(path), "/proc/%s/maps", q->pid);
	maps = fopen(path, "r");
	if (!maps)
		return complain("%s: %s", path, strerror(errno));
	out = fopen(q->out, "w");
	fine = out && fprintf(out, "# maps %s\n", q->pid) > 0;
	while (fine && (n = fread(block, 1, sizeof(block), maps)) > 0)
		fine = fwrite(block, 1, n, out) == n;
	fine &= !ferror(maps);
	fclose(maps);
	if (out)
		fine &= !fclose(out);
	return fine ? EXIT_SAME : complain("%s: %s", q->out, strerror(errno));
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
	if (!q->pid)
		word[n++] = "--";
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

	if (!argv)
		return complain("out of memory");
	n = q->perf ? perf_words(q, argv) : strace_words(q, argv);
	for (size_t i = 0; i < words; i++)
		argv[n++] = program[i];
	execvp(argv[0], (char *const *)argv);
	complain("%s: %s%s", argv[0], strerror(errno),
		 errno == ENOENT ? " (is it installed?)" : "");
	free(argv);
	return EXIT_UNUSABLE;
}

/* strace takes a name that begins with | or ! for a command to pipe into. */
static const char *plain_name(const char *name)
{
	char *plain;

	if (name[0] != '|' && name[0] != '!')
		return name;
	return asprintf(&plain, "./%s", name) < 0 ? NULL : plain; /* until exec */
}

static int record(struct request *q, char **program, size_t words)
{
	uint64_t pid;
	int status;

	if (!q->out)
		return complain("-o FILE is missing");
	if (q->pid ? words > 0 : !words)
		return complain("either a program or --pid PID is recorded");
	if (q->pid && q->perf)
		return complain("perf trace cannot write behind a map: --pid goes without --perf");
	if (q->pid) {
		if (!parse_number("pid", q->pid, 1, INT32_MAX, &pid))
			return EXIT_UNUSABLE;
		status = hold_until_traced((pid_t)pid);
		if (status)
			return complain("process %s: %s", q->pid, strerror(-status));
		status = write_maps(q);
		if (status)
			return status; /* and the process goes on (hold.h I1) */
	}
	q->out = plain_name(q->out);
	return q->out ? run_tracer(q, program, words) : complain("out of memory");
}

int cmd_record(int argc, char **argv)
{
	struct request q = { 0 };
	int opt;

	if (argc < 2) {
		usage(stderr);
		return EXIT_UNUSABLE;
	}
	optind = 0;
	while ((opt = getopt_long(argc, argv, "+ho:", options, NULL)) != -1) {
		if (opt == 'o')
			q.out = optarg;
		else if (opt == 'p')
			q.pid = optarg;
		else if (opt == 'f')
			q.perf = true;
		else if (opt == 'h')
			return usage(stdout), EXIT_SAME;
		else /* getopt has told */
			return EXIT_UNUSABLE;
	}
	return record(&q, argv + optind, (size_t)(argc - optind));
}
