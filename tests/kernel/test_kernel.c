/* SPDX-License-Identifier: MIT */
/* test_kernel.c - random calls on the twin and on the running kernel: it makes the twin true. */
#include "kernel/oracle.h"
#include "support/differ.h"

#include <samara/types.h>

#define SKIPPED 77

static const struct observation *run(void *arg, const struct ops_config *config,
				     const struct op *ops, size_t n)
{
	return oracle_run(arg, config, ops, n);
}

/* Leaves out what this kernel does not have or does otherwise. */
static void restrict_to(void *arg, struct opgen *g)
{
	struct oracle *o = arg;

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
	int result;

	if (!o) {
		printf("skipped: no child with a window can be made here\n");
		return SKIPPED;
	}
	d.subject.arg = d.restrict_arg = o;
	d.base = oracle_base(o);
	if (differ_arguments(&d, argc, argv)) {
		fprintf(stderr, "usage: test_kernel [--calls N] [--seed N|fresh] [--profile N] "
				"[--length N] [--ops FILE]\n");
		return 2;
	}
	result = differ_run(&d);
	oracle_close(o);
	return result ? 1 : 0;
}
