/* SPDX-License-Identifier: MIT */
/* load.h - recordings for the commands: bad lines told, progress shown, files of one recording found. */
#ifndef SAMARA_LOAD_H
#define SAMARA_LOAD_H

#include "trace/recording.h"

/*
 * How many of the n files at files[0] make one recording: those that strace -ff wrote (NAME.PID with
 * the same NAME, side by side), else one.
 */
size_t load_group(char *const *files, size_t n);

/*
 * Loads the n files of one recording. Errors, and the first lines that could not be read, go to
 * stderr. Return: the recording, or NULL when there is none to be replayed.
 */
struct sm__recording *load_recording(char *const *files, size_t n, bool strict);

/* A progress line on stderr if that is a terminal: "label  45%"; done == total takes it away. */
void show_progress(const char *label, uint64_t done, uint64_t total);

/* "PRESET,switch=value" into out; says on stderr what is wrong. */
struct sm_design;
bool parse_design(const char *text, struct sm_design *out);

#endif
