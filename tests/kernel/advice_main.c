/* SPDX-License-Identifier: MIT */
/*
 * advice_main.c - asks the running kernel and the library the same questions about advice.
 *
 *   --kernel               prints its answers
 *   --compare FILE         the library must answer as FILE says (the answers of Linux 6.18, recorded with
 *                          --kernel), whatever kernel runs; the running kernel too, where it has all that is
 *                          asked about
 *
 * Exit status: 0 equal, 1 different, 77 nothing could be asked of the kernel (--kernel).
 */
#include "kernel/machine.h"

#include <stdlib.h>
#include <string.h>

typedef char *(*runner)(machine_fn fn, const void *arg);

static void print_all(runner run, FILE *out)
{
	for (unsigned k = 0; k < kind_count; k++)
		for (unsigned a = 0; a < advice_count; a++) {
			struct advice_cell cell = { k, a };
			char *text = run(matrix_cell, &cell);

			fputs(text, out);
			free(text);
		}
	for (unsigned s = 0; s < story_count; s++) {
		char *text = run(story_tell, &stories[s]);

		fputs(text, out);
		free(text);
	}
}

static char *next_line(char **at)
{
	char *line = *at, *end;

	if (!line || !*line)
		return NULL;
	end = strchr(line, '\n');
	if (end)
		*end++ = '\0';
	*at = end;
	return line;
}

/* Cells a machine cannot make ("=none") are not compared. Returns the number of lines that differ. */
static unsigned compare(const char *who, char *got, char *want)
{
	unsigned different = 0, lines = 0, absent = 0;
	char *g, *w;

	while (true) {
		g = next_line(&got);
		w = next_line(&want);
		if (!g && !w)
			break;
		if (w && *w == '#') { /* only the record has comments, at its start */
			while (w && *w == '#')
				w = next_line(&want);
		}
		lines++;
		if (g && strstr(g, "=none")) {
			absent++;
			continue;
		}
		if (!g || !w || (strcmp(g, w) && !strstr(w, "=none"))) {
			different++;
			printf("%s:\n  here     %s\n  recorded %s\n", who, g ? g : "(nothing)",
			       w ? w : "(nothing)");
		}
	}
	printf("%s: %u lines, %u different, %u cannot be made here\n", who, lines, different,
	       absent);
	return different;
}

static char *collect(runner run)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	print_all(run, out);
	fclose(out);
	return text;
}

static char *load(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = NULL;
	size_t size = 0;

	if (!f || getdelim(&text, &size, '\0', f) < 0) {
		fprintf(stderr, "cannot read %s\n", path);
		exit(1);
	}
	fclose(f);
	return text;
}

static unsigned compare_with(const char *who, runner run, const char *path)
{
	char *got = collect(run), *want = load(path);
	unsigned different = compare(who, got, want);

	free(got);
	free(want);
	return different;
}

int main(int argc, char **argv)
{
	const char *lacks = kernel_lacks();
	unsigned different = 0;

	if (argc == 2 && !strcmp(argv[1], "--kernel")) {
		if (lacks) {
			printf("skipped: the running kernel: %s\n", lacks);
			return 77;
		}
		print_all(kernel_run, stdout);
		return 0;
	}
	if (argc != 3 || strcmp(argv[1], "--compare")) {
		fprintf(stderr, "usage: %s --kernel | --compare FILE\n", argv[0]);
		return 2;
	}
	if (lacks)
		printf("kernel: SKIPPED: %s\n", lacks);
	else
		different += compare_with("kernel", kernel_run, argv[2]);
	return different != 0;
}
