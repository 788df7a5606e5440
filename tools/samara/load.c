/* SPDX-License-Identifier: MIT */
/* load.c - recordings for the commands (load.h). */
#include "load.h"
#include "options.h"

#include <samara/design.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BAD_LINES_TOLD = 10 };

struct loading {
	uint64_t bad;
	uint64_t total; /* bytes of the files */
};

/* NAME.PID: the length of NAME, or 0. */
static size_t stem(const char *file)
{
	const char *dot = strrchr(file, '.');
	size_t digits = dot ? strspn(dot + 1, "0123456789") : 0;

	return digits && !dot[1 + digits] ? (size_t)(dot - file) : 0;
}

size_t load_group(char *const *files, size_t n)
{
	size_t len = stem(files[0]), i = 1;

	while (len && i < n && stem(files[i]) == len && !strncmp(files[0], files[i], len))
		i++;
	return i;
}

void show_progress(const char *label, uint64_t done, uint64_t total)
{
	static int last = -1;
	int percent = total ? (int)(done * 100 / total) : 0;

	if (!isatty(STDERR_FILENO) || percent == last)
		return;
	last = percent;
	if (done >= total)
		fprintf(stderr, "\r%*s\r", (int)strlen(label) + 6, "");
	else
		fprintf(stderr, "\r%s %3d%%", label, percent);
}

static void tell_bad(void *arg, const char *file, uint64_t line, const char *reason)
{
	struct loading *l = arg;

	if (l->bad++ < BAD_LINES_TOLD)
		fprintf(stderr, "%s:%llu: %s\n", file, (unsigned long long)line, reason);
}

static void tell_progress(void *arg, uint64_t done)
{
	struct loading *l = arg;

	if (l->total > 1 << 20) /* smaller files are there before anybody looks */
		show_progress("reading", done, l->total);
}

struct sm__recording *load_recording(char *const *files, size_t n, bool strict)
{
	struct loading l = { 0 };
	struct sm__load_options options = {
		.bad_line = tell_bad, .progress = tell_progress, .arg = &l, .strict = strict
	};
	struct sm__recording *rec;
	struct stat st;
	int r;

	for (size_t i = 0; i < n; i++)
		l.total += stat(files[i], &st) ? 0 : (uint64_t)st.st_size;
	r = sm__recording_load((const char *const *)files, n, &options, &rec);
	if (l.total > 1 << 20)
		show_progress("reading", 1, 1);
	if (l.bad > BAD_LINES_TOLD)
		fprintf(stderr, "%s: %llu more line%s that could not be read\n", files[0],
			(unsigned long long)(l.bad - BAD_LINES_TOLD),
			l.bad - BAD_LINES_TOLD == 1 ? "" : "s");
	if (r)
		complain("%s", rec && rec->error[0] ? rec->error : "out of memory");
	else if (!rec->ncalls)
		complain("%s: no call on memory in it", rec->files[0]);
	if (r || !rec->ncalls) {
		sm__recording_free(rec);
		return NULL;
	}
	if (rec->stats.truncated)
		complain("%s%s", rec->error[0] ? rec->error : rec->files[0],
			 rec->error[0] ? ": what follows is missing"
				       : ": the last line is cut off");
	return rec;
}

bool parse_design(const char *text, struct sm_design *out)
{
	char why[256];

	if (!sm_design_parse(text, out, why, sizeof(why)))
		return true;
	complain("design '%s': %s", text, why);
	return false;
}
