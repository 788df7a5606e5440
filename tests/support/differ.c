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
	l->config.contents = profile == PROFILE_CONTENTS;
	opgen_init(&g, &l->config, (enum opgen_profile)profile, seed);
	if (d->restrict_to)
		d->restrict_to(d->restrict_arg, &g);
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

struct shrink {
	const struct differ *d;
	const struct ops_config *config;
	struct observation *twin;
};

static bool still_fails(void *arg, const struct op *ops, size_t n)
{
	struct shrink *s = arg;
	const struct observation *o = s->d->subject.run(s->d->subject.arg, s->config, ops, n);

	if (!o)
		return true;
	twin_run(s->config, ops, n, s->twin);
	return differ_first(s->config, s->twin, o, n) >= 0;
}

static void print_config(const struct ops_config *c)
{
	printf("# window %u pages, brk page %d, RLIMIT_AS %" PRId64 " RLIMIT_DATA %" PRId64
	       " RLIMIT_MEMLOCK %" PRId64 " pages, contents %d\n",
	       c->pages, c->brk_page, (int64_t)c->as_pages, (int64_t)c->data_pages,
	       (int64_t)c->memlock_pages, c->contents);
}

static void report(const struct differ *d, struct list *l, uint64_t seed, long at)
{
	struct shrink s = { d, &l->config, l->twin };
	const struct observation *o;

	printf("DIFFERENCE between twin and %s: seed %" PRIu64 " profile %d, call %ld\n",
	       d->subject.name, seed, d->profile, at);
	fflush(stdout);
	if (at >= 0 && (size_t)at + 1 < l->n)
		l->n = (size_t)at + 1;
	l->n = ops_shrink(l->op, l->n, still_fails, &s);
	print_config(&l->config);
	ops_print_all(stdout, l->op, l->n, l->config.base);
	twin_run(&l->config, l->op, l->n, l->twin);
	o = d->subject.run(d->subject.arg, &l->config, l->op, l->n);
	if (!o) {
		printf("%s could not run the list\n", d->subject.name);
		return;
	}
	at = differ_first(&l->config, l->twin, o, l->n);
	if (at < 0) {
		printf("not seen again\n");
		return;
	}
	if (at > 0) {
		printf("before the call: ");
		obs_print(stdout, &l->config, &l->twin[at - 1]);
	}
	printf("call %ld, twin: ", at);
	obs_print(stdout, &l->config, &l->twin[at]);
	printf("call %ld, %s: ", at, d->subject.name);
	obs_print(stdout, &l->config, &o[at]);
}

/* 0, 1 for a difference, -1 if the subject could not run. */
static int run_list(const struct differ *d, struct list *l, uint64_t seed)
{
	const struct observation *o = d->subject.run(d->subject.arg, &l->config, l->op, l->n);
	long at = o ? differ_first(&l->config, l->twin, o, l->n) : -1;

	if (o && at < 0)
		return 0;
	report(d, l, seed, at);
	return 1;
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
	printf("twin and %s: %" PRIu64 " calls in lists of %u, seed %" PRIu64 "\n", d->subject.name,
	       d->calls, d->length, seed);
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
