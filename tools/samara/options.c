/* SPDX-License-Identifier: MIT */
/* options.c - messages, numbers and streams of the commands (options.h). */
#include "options.h"
#include "cmd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *command_name = "samara";

int complain(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", command_name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return EXIT_UNUSABLE;
}

bool parse_number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	char *end = NULL;

	errno = 0;
	if (*text >= '0' && *text <= '9') /* strtoull takes signs and blanks too */
		*out = strtoull(text, &end, 10);
	if (end && !*end && !errno && *out >= min && *out <= max)
		return true;
	complain("--%s takes a number from %llu to %llu, not '%s'", option, (unsigned long long)min,
		 (unsigned long long)max, text);
	return false;
}

bool same_file(const char *a, const char *b)
{
	struct stat one, other;

	if (!stat(a, &one) && !stat(b, &other))
		return S_ISREG(one.st_mode) && one.st_dev == other.st_dev &&
		       one.st_ino == other.st_ino;
	return !strcmp(a, b);
}

void keep_standard_streams(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) < 0) /* the lowest free number: this one */
			(void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
	}
}

int close_stdout(int status)
{
	bool failed = ferror(stdout);

	errno = 0;
	if (!fclose(stdout) && !failed)
		return status;
	return complain("the standard output cannot be written%s%s", errno ? ": " : "",
			errno ? strerror(errno) : "");
}
