/* SPDX-License-Identifier: MIT */
/*
 * advice_main.c - asks the running kernel and the library the same questions about advice.
 *
 *   --kernel, --library     prints the answers of one machine
 *   --compare FILE          both must answer as FILE says: the answers of Linux 6.18, recorded with
 *                           --kernel. The running kernel only where it has all that is asked about.
 *   --only kernel|library   compares one of them
 *   --design TEXT           of the library's spaces
 *   --no-pages              spaces without pages: results and maps are compared, contents are not, and
 *                           questions that are about pages are left out
 *
 * Exit status: 0 equal, 1 different, 77 nothing could be asked of the kernel (--kernel).
 */
#include "kernel/machine.h"

#include <stdlib.h>
#include <string.h>

typedef char *(*runner)(machine_fn fn, const void *arg);

/* Where the library is meant to answer otherwise: the line's beginning, and why. */
static const struct {
	const char *line, *why;
} known[] = {
	{ "device WIPEONFORK:",
	  "the kernel's vvar has no file, a device range of the library has one" },
};

/* Answers that pages decide. */
static const char *const about_pages[] = { "COLLAPSE", "file-beyond-end POPULATE", "anon REMOVE" };

static void print_all(runner run, FILE *out)
{
	for (unsigned k = 0; k < kind_count; k++)
		for (unsigned a = 0; a < advice_count; a++) {
			struct advice_cell cell = { k, a };
			char *text = run(matrix_cell, &cell);

			fputs(text, out);
			free(text);
		}
	for (unsigned s = 0; s < story_count && !(run == library_run && library_has_no_pages);
	     s++) {
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
	for (size_t n = strlen(line); n && line[n - 1] == ' '; n--)
		line[n - 1] = '\0';
	return line;
}

static bool is_known(const char *line)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strncmp(line, known[i].line, strlen(known[i].line))) {
			printf("library: known to differ: %s %s\n", known[i].line, known[i].why);
			return true;
		}
	return false;
}

static bool is_about_pages(const char *line)
{
	for (size_t i = 0; i < sizeof(about_pages) / sizeof(about_pages[0]); i++)
		if (strstr(line, about_pages[i]))
			return true;
	return false;
}

/* "0/[0-4]/aaaa " becomes "0/[0-4]/ " */
static void strip_contents(char *line)
{
	char *to = line;

	for (char *at = line; *at;) {
		*to++ = *at;
		if (*at++ == ']' && *at == '/')
			for (; *at && *at != ' ';)
				at++;
	}
	*to = '\0';
}

struct tally {
	unsigned lines, different, absent, known;
};

static void compare_line(const char *who, char *g, char *w, struct tally *t)
{
	t->lines++;
	if (g && strstr(g, "=none")) {
		t->absent++;
		return;
	}
	if (g && w && !strcmp(who, "library") && library_has_no_pages) {
		strip_contents(g);
		strip_contents(w);
		if (is_about_pages(g))
			return;
	}
	if (g && w && !strcmp(g, w))
		return;
	if (g && w && !strcmp(who, "library") && is_known(g)) {
		t->known++;
		return;
	}
	t->different++;
	printf("%s:\n  here     %s\n  recorded %s\n", who, g ? g : "(nothing)",
	       w ? w : "(nothing)");
}

static unsigned compare(const char *who, char *got, char *want)
{
	struct tally t = { 0 };
	char *g, *w;

	for (;;) {
		g = next_line(&got);
		do
			w = next_line(&want);
		while (w && *w == '#');
		if (!g && (!w || library_has_no_pages))
			break;
		compare_line(who, g, w, &t);
	}
	printf("%s: %u lines, %u different, %u known to differ, %u cannot be made here\n", who,
	       t.lines, t.different, t.known, t.absent);
	return t.different;
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

struct options {
	bool kernel, library;
	const char *compare, *only;
};

static bool parse(int argc, char **argv, struct options *o)
{
	for (int i = 1; i < argc; i++) {
		bool more = i + 1 < argc;

		if (!strcmp(argv[i], "--kernel"))
			o->kernel = true;
		else if (!strcmp(argv[i], "--library"))
			o->library = true;
		else if (!strcmp(argv[i], "--no-pages"))
			library_has_no_pages = true;
		else if (!strcmp(argv[i], "--compare") && more)
			o->compare = argv[++i];
		else if (!strcmp(argv[i], "--only") && more)
			o->only = argv[++i];
		else if (!strcmp(argv[i], "--design") && more)
			library_design = argv[++i];
		else
			return false;
	}
	return o->kernel + o->library + (o->compare != NULL) == 1;
}

int main(int argc, char **argv)
{
	const char *lacks = kernel_lacks();
	struct options o = { 0 };
	unsigned different = 0;

	if (!parse(argc, argv, &o)) {
		fprintf(stderr,
			"usage: %s --kernel | --library | --compare FILE [--only WHO] "
			"[--design TEXT] [--no-pages]\n",
			argv[0]);
		return 2;
	}
	if (o.library) {
		print_all(library_run, stdout);
		return 0;
	}
	if (lacks)
		printf("kernel: SKIPPED: %s\n", lacks);
	if (o.kernel) {
		if (!lacks)
			print_all(kernel_run, stdout);
		return lacks ? 77 : 0;
	}
	if (!lacks && (!o.only || !strcmp(o.only, "kernel")))
		different += compare_with("kernel", kernel_run, o.compare);
	if (!o.only || !strcmp(o.only, "library"))
		different += compare_with("library", library_run, o.compare);
	return different != 0;
}
