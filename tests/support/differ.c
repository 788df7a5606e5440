/* SPDX-License-Identifier: MIT */
/* differ.c - see differ.h. */
#include "support/differ.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model/twin.h"

long differ_first(const struct ops_config *c, const struct observation *a,
		  const struct observation *b, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!obs_equal(c, &a[i], &b[i]))
			return (long)i;
	}
	return -1;
}

int differ_arguments(struct differ *d, int argc, char **argv)
{
	for (int i = 1; i < argc; i += 2) {
		const char *value = argv[i + 1];

		if (!value)
			return -1;
		if (!strcmp(argv[i], "--calls"))
			d->calls = strtoull(value, NULL, 0);
		else if (!strcmp(argv[i], "--seed"))
			d->seed = strcmp(value, "fresh") ? strtoull(value, NULL, 0)
							 : (uint64_t)time(NULL) * 1000003;
		else if (!strcmp(argv[i], "--profile"))
			d->profile = atoi(value);
		else if (!strcmp(argv[i], "--length"))
			d->length = (unsigned)atoi(value);
		else if (!strcmp(argv[i], "--ops"))
			d->file = value;
		else
			return -1;
	}
	if (d->length == 0 || d->length > DIFFER_MAX_OPS)
		d->length = DIFFER_MAX_OPS;
	return 0;
}

/* One list and what the twin saw of it. */
struct list {
	uint64_t done[OP_KINDS], good[OP_KINDS]; /* calls of all lists, and those that succeeded */
	struct ops_config config;
	size_t n;
	struct op op[DIFFER_MAX_OPS];
	struct observation *twin; /* DIFFER_MAX_OPS of them */
};

static unsigned pick_space(struct opgen *g)
{
	return g->spaces ? (unsigned)sm__random_below(&g->random, g->spaces + 1) : 0;
}

static bool succeeded(unsigned kind, int64_t result)
{
	return kind == OP_READ || kind == OP_WRITE ? result == 0 : result >= 0;
}

/* How much of the stream was more than a refusal. */
static void print_shares(const struct list *l)
{
	for (unsigned k = 0; k < OP_KINDS; k++) {
		if (l->done[k])
			printf("  %-16s %9" PRIu64 "  %3.0f %% ok\n", ops_name(k), l->done[k],
			       100.0 * (double)l->good[k] / (double)l->done[k]);
	}
}

/* The generator sees what the twin sees. */
static void generate(const struct differ *d, uint64_t seed, struct list *l)
{
	static const struct observation nothing;
	const struct observation *seen[OPS_SPACES] = { &nothing, &nothing, &nothing, &nothing };
	int profile = d->profile >= 0 ? d->profile : (int)(seed % PROFILES);
	struct twin_world *w;
	struct opgen g;

	opgen_config(&l->config, d->base, seed);
	l->config.contents = true;
	opgen_init(&g, &l->config, (enum opgen_profile)profile, seed);
	if (d->restrict_to)
		d->restrict_to(d->restrict_arg, &g);
	opgen_limit_maps(&g);
	l->config = g.config;
	w = twin_create(&l->config);
	for (l->n = 0; l->n < d->length; l->n++) {
		unsigned space = pick_space(&g);

		opgen_next(&g, seen[space], space, &l->op[l->n]);
		twin_apply(w, &l->op[l->n], &l->twin[l->n]);
		seen[space] = &l->twin[l->n];
		l->done[l->op[l->n].kind]++;
		l->good[l->op[l->n].kind] += succeeded(l->op[l->n].kind, l->twin[l->n].result);
		if (l->op[l->n].kind == OP_FORK)
			seen[l->op[l->n].arg[0]] = &l->twin[l->n];
		if (twin_check(w, w->space[space])) {
			fprintf(stderr, "twin: %s\n", twin_check(w, w->space[space]));
			abort();
		}
	}
	twin_destroy(w);
}

/* The twin as an executor; arg is room for the observations. */
static const struct observation *run_twin(void *arg, const struct ops_config *config,
					  const struct op *ops, size_t n)
{
	twin_run(config, ops, n, arg);
	return arg;
}

/* Two executors that disagree. */
struct pair {
	const struct executor *a, *b;
	const struct ops_config *config;
	struct observation *twin; /* room for what the twin says */
};

/* As differ_first, but tokens that the twin is not certain of do not count. */
static long first_certain(const struct pair *p, const struct observation *a,
			  const struct observation *b, size_t n)
{
	struct ops_config blind = *p->config;

	blind.contents = false;
	for (size_t i = 0; i < n; i++) {
		if (!obs_equal(p->twin[i].token_any ? &blind : p->config, &a[i], &b[i]))
			return (long)i;
	}
	return -1;
}

static const struct observation *run_one(const struct executor *e, const struct ops_config *config,
					 const struct op *ops, size_t n)
{
	return e->run(e->arg, config, ops, n);
}

static bool still_fails(void *arg, const struct op *ops, size_t n)
{
	const struct pair *p = arg;
	const struct observation *a = run_one(p->a, p->config, ops, n);
	const struct observation *b = run_one(p->b, p->config, ops, n);

	twin_run(p->config, ops, n, p->twin);
	return !a || !b || first_certain(p, a, b, n) >= 0;
}

static void print_config(const struct ops_config *c)
{
	printf("# window %u pages, brk page %d, RLIMIT_AS %" PRId64 " RLIMIT_DATA %" PRId64
	       " RLIMIT_MEMLOCK %" PRId64 " pages, map count %u, contents %d\n",
	       c->pages, c->brk_page, (int64_t)c->as_pages, (int64_t)c->data_pages,
	       (int64_t)c->memlock_pages, c->map_count, c->contents);
}

/* Prints the shortest list that still shows it, and what both saw at the first difference. */
static void report(const struct pair *p, struct list *l, uint64_t seed, long at)
{
	const struct observation *a, *b;

	printf("DIFFERENCE between %s and %s: seed %" PRIu64 ", call %ld\n", p->a->name, p->b->name,
	       seed, at);
	fflush(stdout);
	if (at >= 0 && (size_t)at + 1 < l->n)
		l->n = (size_t)at + 1;
	l->n = ops_shrink(l->op, l->n, still_fails, (void *)p);
	print_config(&l->config);
	ops_print_all(stdout, l->op, l->n, l->config.base);
	a = run_one(p->a, &l->config, l->op, l->n);
	b = run_one(p->b, &l->config, l->op, l->n);
	if (!a || !b) {
		printf("%s could not run the list\n", a ? p->b->name : p->a->name);
		return;
	}
	twin_run(p->config, l->op, l->n, p->twin);
	at = first_certain(p, a, b, l->n);
	if (at < 0) {
		printf("not seen again\n");
		return;
	}
	if (at > 0) {
		printf("before the call: ");
		obs_print(stdout, &l->config, &a[at - 1]);
	}
	printf("call %ld, %s: ", at, p->a->name);
	obs_print(stdout, &l->config, &a[at]);
	printf("call %ld, %s: ", at, p->b->name);
	obs_print(stdout, &l->config, &b[at]);
}

/* 0, or 1 for a difference or an executor that cannot run; it has been reported then. */
static int run_list(const struct differ *d, struct list *l, uint64_t seed)
{
	const struct executor twin = { "twin", run_twin, l->twin };
	const struct observation *o = run_one(&d->subject, &l->config, l->op, l->n), *o2;
	struct pair p = { &twin, &d->subject, &l->config, l->twin };
	long at = o ? first_certain(&p, l->twin, o, l->n) : -1;

	if (!o || at >= 0) {
		report(&p, l, seed, at);
		return 1;
	}
	if (!d->second.run)
		return 0;
	p.a = &d->subject;
	p.b = &d->second;
	o2 = run_one(&d->second, &l->config, l->op, l->n);
	at = o2 ? first_certain(&p, o, o2, l->n) : -1;
	if (!o2 || at >= 0) {
		report(&p, l, seed, at);
		return 1;
	}
	return 0;
}

static int run_file(struct differ *d, struct list *l)
{
	struct op *ops;
	long n = ops_load(d->file, d->base, &ops);

	if (n < 0 || n > DIFFER_MAX_OPS)
		return -1;
	opgen_config(&l->config, d->base, d->seed);
	l->config.as_pages = l->config.data_pages = ~0ULL;
	l->config.contents = d->profile == PROFILE_CONTENTS;
	memcpy(l->op, ops, (size_t)n * sizeof(*ops));
	free(ops);
	l->n = (size_t)n;
	twin_run(&l->config, l->op, l->n, l->twin);
	return run_list(d, l, d->seed);
}

int differ_run(struct differ *d)
{
	struct list *l = calloc(1, sizeof(*l));
	uint64_t seed = d->seed;
	int result = 0;

	if (l)
		l->twin = calloc(DIFFER_MAX_OPS, sizeof(*l->twin));
	if (!l || !l->twin)
		return -1;
	printf("twin, %s%s%s: %" PRIu64 " calls in lists of %u, seed %" PRIu64 ", profile %d\n",
	       d->subject.name, d->second.run ? ", " : "", d->second.run ? d->second.name : "",
	       d->calls, d->length, seed, d->profile);
	if (d->file) {
		result = run_file(d, l);
	} else {
		for (uint64_t done = 0; done < d->calls && !result; done += d->length) {
			generate(d, seed, l);
			result = run_list(d, l, seed);
			seed++;
		}
	}
	if (!result) {
		print_shares(l);
		printf("no difference\n");
	}
	free(l->twin);
	free(l);
	return result;
}
