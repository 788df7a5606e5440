/* SPDX-License-Identifier: MIT */
/*
 * test_kernel.c - random calls on the twin, on the running kernel, which makes the twin true, and on
 * the library. The twin follows Linux 6.18: on other kernels a difference is shown, and the test is
 * skipped.
 */
#include "kernel/oracle.h"
#include "support/library.h"

#include <string.h>

#include <samara/types.h>

#define SKIPPED	 77
#define FOLLOWED 6018

static const struct observation *run(void *arg, const struct ops_config *config,
				     const struct op *ops, size_t n)
{
	return oracle_run(arg, config, ops, n);
}

/* Leaves out what this kernel does not have or does otherwise. */
static void restrict_to(void *arg, struct opgen *g)
{
	struct oracle *o = arg;

	g->few_maps = 40; /* each costs the kernel 65 000 VMAs elsewhere */
	for (int kind = 0; kind < OP_KINDS; kind++) {
		if (!oracle_has(o, (enum op_kind)kind))
			g->weight[kind] = 0;
	}
	if (!g->weight[OP_BRK])
		g->config.brk_page = -1;
	opgen_without_advice(g, SM_MADV_GUARD_INSTALL, oracle_has_advice(o, SM_MADV_GUARD_INSTALL));
	opgen_without_advice(g, SM_MADV_GUARD_REMOVE, oracle_has_advice(o, SM_MADV_GUARD_REMOVE));
}

int main(int argc, char **argv)
{
	struct differ d = { .subject = { "kernel", run, NULL },
			    .calls = 100000,
			    .length = 300,
			    .seed = 1,
			    .profile = -1,
			    .restrict_to = restrict_to };
	struct oracle *o = oracle_open(DIFFER_MAX_OPS);
	struct library *l = library_open(DIFFER_MAX_OPS, "samara", SM_BACKEND_SOFT);
	int result;

	if (!o) {
		printf("skipped: no child with a window can be made here\n");
		return SKIPPED;
	}
	if (!l)
		return 1;
	d.subject.arg = d.restrict_arg = o;
	d.second = (struct executor){ "library", library_run, l };
	d.base = oracle_base(o);
	if (differ_arguments(&d, argc, argv)) {
		fprintf(stderr, "usage: test_kernel [--calls N] [--seed N|fresh] [--profile N] "
				"[--length N] [--ops FILE]\n");
		return 2;
	}
	result = differ_run(&d);
	if (result && oracle_version(o) != FOLLOWED) {
		printf("skipped: the twin follows Linux 6.18, not this kernel\n");
		result = SKIPPED;
	}
	library_close(l);
	oracle_close(o);
	return result < 0 ? 1 : result;
}
