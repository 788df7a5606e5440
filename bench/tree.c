/* SPDX-License-Identifier: MIT */
/*
 * tree.c - the range trees against each other: samara's maple tree in RCU mode, node allocation and
 * retiring included, beside the red-black and the AVL tree of older kernels, std::map and
 * absl::btree_map.
 *
 * What is measured of each: peers/tree_cases.h; on which ranges: peers/tree_work.h.
 */
#include "harness.h"
#include "base/base.h"
#include "peers/tree_work.h"
#include "tree_kinds.h"

#include <errno.h>
#include <stdio.h>

static const char *const cases[] = { "load", "store-gap", "erase",   "split", "merge",
				     "step", "gap16",	  "gap4096", "copy" };
static const char *const fills[] = { "bytes-ascending", "bytes-random", "bytes-churn" };
static const struct tree_kind *const kinds[] = { &bench_tree_maple, &bench_tree_rb,
						 &bench_tree_avl };

enum { KINDS = SM__ARRAY_SIZE(kinds), CPP = 2 };

/* In the peer program, and what the rows call them. */
static const char *const cpp_prefix[CPP] = { "map", "btree" };
static const char *const cpp_name[CPP] = { "std::map", "absl::btree_map" };

struct one {
	const struct tree_kind *kind;
	void *run;
	unsigned int id;
};

static uint64_t measure(void *arg, uint64_t n)
{
	const struct one *o = arg;

	return o->kind->measure(o->run, o->id, n);
}

static void measure_case(struct bench *b, struct bench_peer *cpp, struct one *ones, unsigned int id,
			 size_t n)
{
	char name[48], what[CPP][48];
	struct bench_case c = { .name = name, .unit = BENCH_NS };

	snprintf(name, sizeof(name), "%s/%zu", cases[id], n);
	if (!bench_wanted(b, name))
		return;
	for (unsigned int k = 0; k < KINDS; k++) {
		struct bench_side *side = k ? &c.theirs[k - 1] : &c.ours;

		ones[k].id = id;
		*side = (struct bench_side){ kinds[k]->name, measure, &ones[k], NULL, NULL };
	}
	for (unsigned int k = 0; k < CPP; k++) {
		snprintf(what[k], sizeof(what[k]), "%s-%s/%zu", cpp_prefix[k], cases[id], n);
		c.theirs[KINDS - 1 + k] = bench_peer_side(cpp, what[k]);
		c.theirs[KINDS - 1 + k].name = cpp ? cpp_name[k] : NULL;
	}
	bench_measure(b, &c);
}

static void bytes_rows(struct bench *b, struct bench_peer *cpp, unsigned int fill, size_t n)
{
	double ours = 0, theirs[KINDS - 1 + CPP];
	char name[48], what[48];
	unsigned int peers = 0;

	snprintf(name, sizeof(name), "%s/%zu", fills[fill], n);
	if (!bench_wanted(b, name))
		return;
	for (unsigned int k = 0; k < KINDS; k++)
		*(k ? &theirs[peers++] : &ours) = kinds[k]->bytes(n, fill, kinds[k]->how);
	for (unsigned int k = 0; cpp && k < CPP; k++) {
		snprintf(what, sizeof(what), "%s-bytes/%zu", cpp_prefix[k], n);
		if (bench_peer_ask_more(cpp, what, fill, &theirs[peers], 1) != UINT64_MAX)
			peers++;
	}
	for (unsigned int k = 0; k < peers; k++) {
		struct bench_row row = {
			.name = name,
			.unit = BENCH_BYTES,
			.ours = &ours,
			.n_ours = 1,
			.peer = k + 1 < KINDS ? kinds[k + 1]->name : cpp_name[k + 1 - KINDS],
			.theirs = &theirs[k],
			.n_theirs = 1,
		};

		bench_row(b, &row);
	}
}

static int size_rows(struct bench *b, struct bench_peer *cpp, size_t n)
{
	struct one ones[KINDS] = { 0 };
	int ret = 0;

	for (unsigned int k = 0; k < KINDS && !ret; k++) {
		ones[k].kind = kinds[k];
		ones[k].run = kinds[k]->make(n, kinds[k]->how);
		if (!ones[k].run)
			ret = bench_error(b, -ENOMEM, "no memory for %zu ranges", n);
	}
	for (unsigned int id = 0; id < SM__ARRAY_SIZE(cases) && !ret; id++) {
		bench_progress(b, cases[id], id, SM__ARRAY_SIZE(cases));
		measure_case(b, cpp, ones, id, n);
	}
	for (unsigned int k = 0; k < KINDS; k++)
		if (ones[k].run)
			kinds[k]->free(ones[k].run);
	for (unsigned int fill = 0; fill < SM__ARRAY_SIZE(fills) && !ret; fill++)
		bytes_rows(b, cpp, fill, n);
	return ret;
}

enum { QUICK_MOST = 10000 }; /* ranges with --quick */

static int run(struct bench *b)
{
	static const size_t sizes[] = { 100, 1000, 10000, 1000000 };
	struct bench_peer *cpp = bench_peer_open(b, "tree");
	uint64_t only = bench_number(b, "ranges", 0);
	bool known = !only;
	int ret = 0;

	for (unsigned int i = 0; i < SM__ARRAY_SIZE(sizes); i++)
		known |= sizes[i] == only;

	if (!known || (bench_options(b)->quick && only > QUICK_MOST))
		ret = bench_error(b, 0,
				  "--ranges takes 100, 1000, 10000, and without --quick 1000000");
	for (unsigned int i = 0; i < SM__ARRAY_SIZE(sizes) && !ret; i++) {
		if (only && only != sizes[i])
			continue;
		if (sizes[i] > QUICK_MOST && bench_options(b)->quick)
			continue;
		ret = size_rows(b, cpp, sizes[i]);
	}
	bench_peer_close(cpp);
	return ret;
}

const struct benchmark bench_tree = {
	.name = "tree",
	.summary = "the maple tree against red-black, AVL, std::map and absl::btree_map",
	.seconds = 150,
	.run = run,
	.flags = { { "ranges", BENCH_NUMBER, "only with N ranges (100, 1000, 10000, 1000000)" } },
};
