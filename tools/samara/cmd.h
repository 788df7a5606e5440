/* SPDX-License-Identifier: MIT */
/* cmd.h - the sub-commands of samara: one cmd_<name>.c each, listed once here. */
#ifndef SAMARA_CMD_H
#define SAMARA_CMD_H

/* X(name, one-line summary): the function is cmd_<name>(argc, argv), argv[0] being "samara <name>". */
#define COMMANDS(X)                                                                    \
	X(replay, "make the calls of a recording on the library, compare and measure") \
	X(maps, "the map of a recorded process after so many calls")                   \
	X(record, "record a program with strace or perf, as replay wants it")          \
	X(bench, "measure: ours, the peers and the running kernel in one run")

/* Exit status of the command: 0 fine, 1 differences, 2 usage or unreadable input. */
enum { EXIT_SAME = 0, EXIT_DIFFERENT = 1, EXIT_UNUSABLE = 2 };

#define DECLARE_COMMAND(name, summary) int cmd_##name(int argc, char **argv);
COMMANDS(DECLARE_COMMAND)
#undef DECLARE_COMMAND

#endif
