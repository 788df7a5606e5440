/* SPDX-License-Identifier: MIT */
/*
 * test_model.c - random calls on the library and on the twin, which the running kernel holds true.
 *
 * usage: test_model [--design TEXT] [--backend none|soft] [--calls N] [--seed N|fresh] [--profile N] [--length N]
 *                   [--ops FILE]
 */
#include "support/library.h"

#include <string.h>

static void restrict_to(void *arg, struct opgen *g)
{
	library_restrict(arg, g);
}

int main(int argc, char **argv)
{
	struct differ d = { .subject = { "library", library_run, NULL },
			    .base = 0x200000000000,
			    .calls = 1000000,
			    .length = 500,
			    .seed = 1,
			    .profile = -1,
			    .restrict_to = restrict_to };
	const char *design = "samara";
	struct library *l;
	bool soft = false;
	int result;

	while (argc > 2 && (!strcmp(argv[1], "--design") || !strcmp(argv[1], "--backend"))) {
		if (!strcmp(argv[1], "--design"))
			design = argv[2];
		else
			soft = !strcmp(argv[2], "soft");
		argv += 2;
		argc -= 2;
	}
	if (differ_arguments(&d, argc, argv)) {
		fprintf(stderr,
			"usage: test_model [--design TEXT] [--backend none|soft] [--calls N] "
			"[--seed N|fresh] [--profile N] [--length N] [--ops FILE]\n");
		return 2;
	}
	l = library_open(DIFFER_MAX_OPS, design, soft ? SM_BACKEND_SOFT : SM_BACKEND_NONE);
	if (!l)
		return 1;
	d.subject.arg = d.restrict_arg = l;
	printf("design %s, backend %s\n", design, soft ? "soft" : "none");
	result = differ_run(&d);
	library_close(l);
	return result ? 1 : 0;
}
