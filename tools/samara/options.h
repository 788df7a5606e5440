/* SPDX-License-Identifier: MIT */
/*
 * options.h - what the commands share about their command line: messages, numbers, streams.
 *
 * I1 A refusal is one line on stderr that begins with the command and names what was refused.
 * I2 Nothing is lost quietly: what could not be written to stdout makes the exit status 2.
 */
#ifndef SAMARA_OPTIONS_H
#define SAMARA_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* What messages begin with: "samara", and "samara replay" while that command runs. */
extern const char *command_name;

/* "samara replay: ..." (I1). Return: EXIT_UNUSABLE. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A decimal number within [min, max] into out; false: it is none, and that has been told. */
bool parse_number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *out);

/* Both name one regular file, there or to be made: writing to one would destroy the other. */
bool same_file(const char *a, const char *b);

/*
 * A standard stream that our caller closed would be the next file that is opened, and messages would
 * end up in it: each gets a /dev/null on which its use fails. To be called before anything is opened.
 */
void keep_standard_streams(void);

/* Closes stdout and tells if something did not arrive (I2). Return: status, or EXIT_UNUSABLE. */
int close_stdout(int status);

#endif
