/* SPDX-License-Identifier: MIT */
/* assert.c - the one place of the library that prints: a failed proof, just before abort(). */
#include "base/base.h"

#include <execinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void sm__assert_fail(const char *file, int line, const char *expr, const char *fmt, ...)
{
	void *frames[32];
	va_list ap;

	fprintf(stderr, "samara: %s:%d: assertion failed: %s ", file, line, expr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	fflush(stderr);
	backtrace_symbols_fd(frames, backtrace(frames, 32), STDERR_FILENO);
	abort();
}
