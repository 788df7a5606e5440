/* SPDX-License-Identifier: MIT */
/* main.c - picks the sub-command. */
#include "cmd.h"
#include "options.h"

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

/* Runs a command under its name, which its messages and getopt's begin with. */
static int run(const struct command *c, int argc, char **argv)
{
	static char name[32];

	snprintf(name, sizeof(name), "samara %s", c->name);
	command_name = argv[0] = name;
	return c->run(argc, argv);
}

static const struct command *find(const char *name)
{
	const struct command *c = commands;

	while (c->name && strcmp(name, c->name))
		c++;
	return c->name ? c : NULL;
}

/* samara help [COMMAND] */
static int help(const char *name)
{
	static char option[] = "--help";
	char *argv[] = { NULL, option, NULL };
	const struct command *c = name ? find(name) : NULL;

	if (c)
		return run(c, 2, argv);
	if (name)
		return complain("no command '%s'; samara --help lists them", name);
	usage(stdout);
	return EXIT_SAME;
}

static int dispatch(int argc, char **argv)
{
	const struct command *c;

	if (argc < 2) {
		usage(stderr);
		return EXIT_UNUSABLE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
		return help(argv[2]);
	if (!strcmp(argv[1], "--version")) {
		printf("samara %s\n", SAMARA_VERSION);
		return EXIT_SAME;
	}
	c = find(argv[1]);
	return c ? run(c, argc - 1, argv + 1)
		 : complain("no command '%s'; samara --help lists them", argv[1]);
}

int main(int argc, char **argv)
{
	keep_standard_streams();
	return close_stdout(dispatch(argc, argv));
}
