/* SPDX-License-Identifier: MIT */
/* symbols.h - the names a recording uses: calls, constants of their arguments, errno. */
#ifndef SM_TRACE_SYMBOLS_H
#define SM_TRACE_SYMBOLS_H

#include <samara/trace.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An argument: its name in a perf trace, and the prefix perf strips from its constants. */
struct sm__arg_spec {
	const char *name;
	const char *prefix; /* or NULL: a plain number */
};

struct sm__call_spec {
	const char *name;
	uint8_t required; /* fewer arguments than this make a bad line */
	struct sm__arg_spec args[6];
};

/* The calls' table, by enum sm_trace_call. */
extern const struct sm__call_spec sm__call_specs[SM_SYS_COUNT];

/* SM_SYS_OTHER if the name is none of the table's. */
enum sm_trace_call sm__call_find(const char *name, size_t len);

/* The value of prefix + name (prefix may be ""): false if there is no such constant. */
bool sm__symbol_find(const char *prefix, const char *name, size_t len, uint64_t *value);

/* The errno called name ("ENOMEM"), the number of a signal ("SIGSEGV"): 0 if unknown. */
int sm__errno_find(const char *name, size_t len);
int sm__signal_find(const char *name, size_t len);

#endif
