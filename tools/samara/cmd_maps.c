/* SPDX-License-Identifier: MIT */
/* cmd_maps.c - samara maps: the map of each process of a recording after so many calls. */
#include "cmd.h"
#include "load.h"
#include "options.h"
#include "replay_report.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

struct request {
	uint64_t at;
	uint32_t pid;
	const char *design;
	bool strict;
};

static void usage(FILE *out)
{
	fprintf(out,
		"usage: samara maps [OPTIONS] FILE...\n\n"
		"Prints what /proc/PID/maps would have shown, for each process of a recording.\n"
		"Files NAME.PID side by side are one recording.\n\n"
		"  --at N           after N calls on memory (all; then each process at its end)\n"
		"  --process PID    of this process only\n"
		"  --design DESIGN  (samara)\n"
		"  --strict         a line that cannot be read ends it\n\n"
		"Exit status: 0 fine, 2 usage, unreadable input or no such process.\n");
}

static const struct option options[] = {
	{ "at", required_argument, NULL, 'a' },	    { "process", required_argument, NULL, 'p' },
	{ "design", required_argument, NULL, 'd' }, { "strict", no_argument, NULL, 's' },
	{ "help", no_argument, NULL, 'h' },	    { NULL, 0, NULL, 0 },
};

static bool take_option(struct request *q, int opt)
{
	uint64_t n;

	switch (opt) {
	case 'a':
		return parse_number("at", optarg, 0, UINT64_MAX - 1, &q->at);
	case 'p':
		if (!parse_number("process", optarg, 1, UINT32_MAX, &n))
			return false;
		q->pid = (uint32_t)n;
		return true;
	case 'd':
		q->design = optarg;
		return true;
	case 's':
		return q->strict = true;
	default: /* getopt has told */
		return false;
	}
}

/* Spaces that were still there come last in the result of a replay that stopped; only they count. */
static int print_maps(const struct request *q, const struct sm__recording *rec,
		      struct sm_design design)
{
	struct sm__replay_options o = { .design = design, .stop_after = q->at };
	struct sm__replay_result *r = malloc(sizeof(*r));
	bool found = !q->pid;
	int status = EXIT_UNUSABLE;

	if (!r || sm__replay(rec, &o, r)) {
		complain("%s", r ? r->error : "out of memory");
	} else {
		for (size_t i = 0; i < r->nspaces; i++) {
			if (q->at < rec->ncalls && r->spaces[i].ended)
				r->spaces[i].vmas = 0; /* gone by then: not shown */
			found |= rec->mms[r->spaces[i].mm].pid == q->pid;
		}
		if (found) {
			report_maps(stdout, rec, r, q->pid);
			status = EXIT_SAME;
		} else {
			complain("no process %u at that time", q->pid);
		}
	}
	if (r)
		sm__replay_result_free(r);
	free(r);
	return status;
}

int cmd_maps(int argc, char **argv)
{
	struct request q = { .at = UINT64_MAX, .design = "samara" };
	struct sm_design design;
	int opt, status = EXIT_SAME;

	optind = 0;
	while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (opt == 'h') {
			usage(stdout);
			return EXIT_SAME;
		}
		if (!take_option(&q, opt))
			return EXIT_UNUSABLE;
	}
	if (optind == argc) {
		usage(stderr);
		return EXIT_UNUSABLE;
	}
	if (!parse_design(q.design, &design))
		return EXIT_UNUSABLE;
	for (int i = optind; i < argc;) {
		size_t group = load_group(argv + i, (size_t)(argc - i));
		struct sm__recording *rec = load_recording(argv + i, group, q.strict);
		int one = rec ? print_maps(&q, rec, design) : EXIT_UNUSABLE;

		if (rec && rec->stats.truncated)
			one = EXIT_UNUSABLE;
		status = one > status ? one : status;
		sm__recording_free(rec);
		i += (int)group;
	}
	return status;
}
