/* SPDX-License-Identifier: MIT */
/* main.c - picks the sub-command. */
#include "cmd.h"

#include <stdio.h>
#include <string.h>

struct command {
	const char *name;
	const char *summary;
	int (*run)(int argc, char **argv);
};

#define TABLE_ROW(name, summary) { #name, summary, cmd_##name },
static const struct command commands[] = { COMMANDS(TABLE_ROW){ NULL, NULL, NULL } };

static void usage(FILE *out)
{
	fprintf(out, "usage: samara COMMAND [OPTIONS] ...\n\n");
	for (const struct command *c = commands; c->name; c++)
		fprintf(out, "  %-10s %s\n", c->name, c->summary);
	fprintf(out, "\nsamara COMMAND --help tells more; samara --version tells which samara this "
		     "is.\n");
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		usage(stderr);
		return EXIT_UNUSABLE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
		usage(stdout);
		return EXIT_SAME;
	}
	if (!strcmp(argv[1], "--version")) {
		printf("samara %s\n", SAMARA_VERSION);
		return EXIT_SAME;
	}
	for (const struct command *c = commands; c->name; c++) {
		if (!strcmp(argv[1], c->name))
			return c->run(argc - 1, argv + 1);
	}
	fprintf(stderr, "samara: no command '%s'\n", argv[1]);
	usage(stderr);
	return EXIT_UNUSABLE;
}
