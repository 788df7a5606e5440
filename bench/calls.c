/* SPDX-License-Identifier: MIT */
/*
 * calls.c - samara bench calls: the calls one by one against the running kernel's, look-up among
 * many areas, and what a storm of mprotect on one area costs the faults on another, per design.
 *
 *   mmap-munmap, mprotect-flip[/present], mprotect-split-merge[/present], mremap-move, brk-step
 *                                as in peers/kernel.h
 *   lookup/N/T, range-check/N/T  random addresses among N areas, T threads: nanoseconds of each
 *                                thread's look-up
 *   mmap-munmap-among/N          mmap(NULL) and munmap of a page among N areas with holes
 *   fault-quiet/D, fault-storm/D, fault-storm-present/D
 *                                anonymous faults a second of one thread under design D: alone, and
 *                                while another thread flips mprotect on an untouched (present) page
 *                                of another area
 *   mprotect-hold/TREE           how long one mprotect holds mmap_lock for write among 1000 areas
 *
 * Spaces have the soft backend: page tables are part of what a call costs, as in the kernel.
 */
#include "base/base.h"
#include "base/random.h"
#include "guest.h"
#include "peers/kernel.h"
#include "peers/peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = KERNEL_PAGE, RW = PROT_READ | PROT_WRITE, ANON = MAP_PRIVATE | MAP_ANONYMOUS };
enum { CHUNK_PAGES = 16384, TREE_AREAS = 1000, THREADS_MOST = 2 };

/* What a side works on; `space` and the rest as the side needs it. */
struct calls {
	struct sm_space *space;
	struct sm_tlb *tlb;
	sm_addr at, other; /* addresses that the side has set up */
	uint64_t areas;
	unsigned threads;
};

/* ---- single calls ---- */

static uint64_t map_unmap(void *arg, uint64_t n)
{
	struct calls *c = arg;
	uint64_t start = bench_now();

	for (uint64_t i = 0; i < n; i++) {
		int64_t p = sm_mmap(c->space, 0, PAGE, RW, ANON, NULL, 0);

		if (p < 0)
			return peer_fail("mmap: %s", strerror((int)-p));
		sm_munmap(c->space, (sm_addr)p, PAGE);
	}
	return bench_now() - start;
}

static uint64_t flip(void *arg, uint64_t n)
{
	struct calls *c = arg;
	uint64_t start = bench_now();

	for (uint64_t i = 0; i < n; i++) {
		int error = sm_mprotect(c->space, c->at, PAGE, i & 1 ? RW : PROT_READ);

		if (error)
			return peer_fail("mprotect: %s", strerror(-error));
	}
	return bench_now() - start;
}

static uint64_t move(void *arg, uint64_t n)
{
	struct calls *c = arg;
	uint64_t start = bench_now();

	for (uint64_t i = 0; i < n; i++) {
		int64_t got = sm_mremap(c->space, c->at, 16 * PAGE, 16 * PAGE,
					MREMAP_MAYMOVE | MREMAP_FIXED, c->other);

		if (got < 0)
			return peer_fail("mremap: %s", strerror((int)-got));
		c->other = c->at;
		c->at = (sm_addr)got;
	}
	return bench_now() - start;
}

static uint64_t step(void *arg, uint64_t n)
{
	struct calls *c = arg;
	uint64_t start = bench_now();

	for (uint64_t i = 0; i < n; i++)
		sm_brk(c->space, i & 1 ? c->at : c->at + PAGE);
	return bench_now() - start;
}

/* An area of so many pages with unmapped neighbours; its pages are touched if
 * they shall be present. */
static int64_t lone_area(struct guest *g, unsigned pages, bool present)
{
	int64_t base = sm_mmap(g->space, 0, (pages + 2) * PAGE, RW, ANON, NULL, 0);

	if (base < 0)
		return base;
	sm_munmap(g->space, (sm_addr)base, PAGE);
	sm_munmap(g->space, (sm_addr)base + (pages + 1) * PAGE, PAGE);
	for (unsigned i = 1; present && i <= pages; i++)
		sm_fault(g->space, (sm_addr)base + i * PAGE, SM_ACCESS_WRITE);
	return base + PAGE;
}

struct call_case {
	const char *name; /* here and in peers/kernel.h */
	uint64_t (*run)(void *arg, uint64_t n);
	unsigned pages, page; /* area, and the page of it that the call works on */
	bool present;
};

static const struct call_case call_cases[] = {
	{ "mmap-munmap", map_unmap, 0, 0, false },
	{ "mprotect-flip", flip, 1, 0, false },
	{ "mprotect-flip/present", flip, 1, 0, true },
	{ "mprotect-split-merge", flip, 3, 1, false },
	{ "mprotect-split-merge/present", flip, 3, 1, true },
	{ "mremap-move", move, 16, 0, true },
	{ "brk-step", step, 0, 0, false },
};

static int run_call(struct bench *b, const struct call_case *c, const char *design)
{
	struct calls calls = { .areas = 0 };
	struct bench_case row = { .name = c->name, .unit = BENCH_NS };
	struct guest g;
	int64_t area = 0;
	int error;

	if (!bench_wanted(b, c->name))
		return 0;
	error = guest_open(b, design, GUEST_PAGES, &g);
	if (error)
		return error;
	if (c->pages)
		area = lone_area(&g, c->pages, c->present);
	calls.space = g.space;
	calls.at = c->run == step ? sm_brk(g.space, 0) : (sm_addr)area + c->page * PAGE;
	calls.other = calls.at - ((sm_addr)1 << 30); /* free: the search is top-down */
	row.ours = (struct bench_side){ .name = "samara", .run = c->run, .arg = &calls };
	row.theirs[0] = bench_kernel_side(b, c->name);
	error = area < 0 ? bench_error(b, (int)area, "%s", c->name) : bench_measure(b, &row);
	guest_close(&g);
	return error;
}

/* ---- many areas ---- */

/* n one-page areas, a free page after each, from `base` on. */
static const sm_addr many_base = 0x100000000000;

static int make_many(struct bench *b, const char *design, uint64_t n, int kind, struct guest *g)
{
	int error = guest_open_areas(b, design, kind, n + 1000, g);

	for (uint64_t i = 0; i < n && !error; i++) {
		int64_t got = sm_mmap(g->space, many_base + 2 * i * PAGE, PAGE, RW,
				      ANON | MAP_FIXED_NOREPLACE, NULL, 0);

		if (got < 0) {
			error = bench_error(b, (int)got, "area %llu", (unsigned long long)i);
			guest_close(g);
		}
	}
	return error;
}

static void look_body(void *arg, unsigned thread, uint64_t n)
{
	struct calls *c = arg;
	struct sm_vma_info info;
	struct sm__random r;

	sm__random_seed(&r, thread + 1);
	for (uint64_t i = 0; i < n; i++)
		BENCH_KEEP(sm_lookup(c->space,
				     many_base + 2 * PAGE * sm__random_below(&r, c->areas), &info));
}

static void check_body(void *arg, unsigned thread, uint64_t n)
{
	struct calls *c = arg;
	struct sm__random r;

	sm__random_seed(&r, thread + 1);
	for (uint64_t i = 0; i < n; i++)
		BENCH_KEEP(sm_check_range(c->space,
					  many_base + 2 * PAGE * sm__random_below(&r, c->areas),
					  PAGE, SM_ACCESS_READ));
}

static uint64_t look(void *arg, uint64_t n)
{
	return bench_parallel(((struct calls *)arg)->threads, look_body, arg, n, NULL);
}

static uint64_t check(void *arg, uint64_t n)
{
	return bench_parallel(((struct calls *)arg)->threads, check_body, arg, n, NULL);
}

static int measure_many(struct bench *b, struct calls *calls)
{
	const struct {
		const char *name;
		uint64_t (*run)(void *arg, uint64_t n);
	} sides[] = { { "lookup", look }, { "range-check", check } };
	char name[64];
	int error = 0;

	for (unsigned s = 0; s < 2 && !error; s++) {
		for (calls->threads = 1; calls->threads <= THREADS_MOST && !error;
		     calls->threads++) {
			struct bench_case row = { .name = name, .unit = BENCH_NS };

			snprintf(name, sizeof(name), "%s/%llu/%u", sides[s].name,
				 (unsigned long long)calls->areas, calls->threads);
			row.ours = (struct bench_side){ "samara", sides[s].run, calls, NULL, NULL };
			error = bench_measure(b, &row);
		}
	}
	return error;
}

static int run_many(struct bench *b, uint64_t areas, const char *design)
{
	struct calls calls = { .areas = areas };
	char name[64], kernel[64];
	struct bench_case row = { .name = name, .unit = BENCH_NS };
	struct guest g;
	int error;

	snprintf(name, sizeof(name), "/%llu", (unsigned long long)areas);
	if (bench_options(b)->filter && !strstr(bench_options(b)->filter, "lookup") &&
	    !strstr(bench_options(b)->filter, "range") &&
	    !strstr(bench_options(b)->filter, "among") && !strstr(bench_options(b)->filter, name))
		return 0; /* a quarter of a million areas take a while to make */
	error = make_many(b, design, areas, GUEST_PAGES, &g);
	if (error)
		return error;
	calls.space = g.space;
	error = measure_many(b, &calls);
	snprintf(name, sizeof(name), "mmap-munmap-among/%llu", (unsigned long long)areas);
	snprintf(kernel, sizeof(kernel), "%s", name);
	row.ours = (struct bench_side){ "samara", map_unmap, &calls, NULL, NULL };
	row.theirs[0] = bench_kernel_side(b, kernel);
	if (!error)
		error = bench_measure(b, &row);
	guest_close(&g);
	return error;
}

/* ---- faults beside a storm ---- */

static uint64_t faults(void *arg, uint64_t n)
{
	struct calls *c = arg;
	uint64_t ns = 0;

	while (n) {
		uint64_t pages = n < CHUNK_PAGES ? n : CHUNK_PAGES, start;
		int64_t base = sm_mmap(c->space, 0, CHUNK_PAGES * PAGE, RW, ANON, NULL, 0);

		if (base < 0)
			return peer_fail("mmap: %s", strerror((int)-base));
		sm_tlb_run(c->tlb);
		start = bench_now();
		for (uint64_t i = 0; i < pages; i++) {
			char *p = guest_at(c->tlb, (sm_addr)base + i * PAGE, SM_ACCESS_WRITE);

			if (!p)
				return peer_fail("no frame");
			*p = 1;
			sm_tlb_checkpoint(c->tlb);
		}
		ns += bench_now() - start;
		sm_tlb_stop(c->tlb);
		sm_munmap(c->space, (sm_addr)base, CHUNK_PAGES * PAGE);
		n -= pages;
	}
	return ns;
}

static void storm(void *arg, const bool *stop)
{
	struct calls *c = arg;

	for (uint64_t i = 0; !bench_stopped(stop); i++)
		sm_mprotect(c->space, c->at, PAGE, i & 1 ? RW : PROT_READ);
}

static uint64_t faults_in_storm(void *arg, uint64_t n)
{
	struct bench_beside *beside = bench_beside_start(storm, arg);
	uint64_t ns = faults(arg, n);

	bench_beside_stop(beside);
	return beside ? ns : peer_fail("no second thread");
}

static int run_storm(struct bench *b, const char *design)
{
	static const struct {
		const char *name, *kernel;
		uint64_t (*run)(void *arg, uint64_t n);
		bool present;
	} kinds[] = { { "fault-quiet/%s", "fault-quiet", faults, false },
		      { "fault-storm/%s", "fault-storm", faults_in_storm, false },
		      { "fault-storm-present/%s", "fault-storm/present", faults_in_storm, true } };
	int error = 0;

	for (unsigned k = 0; k < SM__ARRAY_SIZE(kinds) && !error; k++) {
		struct calls calls = { .areas = 0 };
		char name[96];
		struct bench_case row = { .name = name, .unit = BENCH_OPS };
		struct guest g;
		int64_t area;

		snprintf(name, sizeof(name), kinds[k].name, design);
		if (!bench_wanted(b, name))
			continue;
		error = guest_open(b, design, GUEST_PAGES, &g);
		if (error)
			break;
		area = lone_area(&g, 1, kinds[k].present);
		calls.space = g.space;
		calls.at = (sm_addr)area;
		error = area < 0 ? (int)area : sm_tlb_create(g.space, &calls.tlb);
		row.ours = (struct bench_side){ "samara", kinds[k].run, &calls, NULL, NULL };
		row.theirs[0] = bench_kernel_side(b, kinds[k].kernel);
		error = error ? bench_error(b, error, "%s", name) : bench_measure(b, &row);
		if (calls.tlb)
			sm_tlb_destroy(calls.tlb);
		guest_close(&g);
	}
	return error;
}

/* ---- how long a write holds the lock ---- */

static double hold_of(const struct sm_space_stats *before, const struct sm_space_stats *after)
{
	const struct sm_histogram *a = &before->lock.hold[SM_LOCK_WRITE];
	const struct sm_histogram *z = &after->lock.hold[SM_LOCK_WRITE];

	return z->count > a->count ? (double)(z->sum - a->sum) / (double)(z->count - a->count) : 0;
}

static int run_hold(struct bench *b, const char *tree)
{
	unsigned runs = bench_options(b)->runs;
	char design[64], name[64];
	double *samples = calloc(runs, sizeof(double));
	struct bench_row row = { .name = name, .unit = BENCH_NS, .ours = samples, .n_ours = runs };
	struct sm__random r;
	struct guest g;
	int error = samples ? 0 : -ENOMEM;

	snprintf(name, sizeof(name), "mprotect-hold/%s", tree);
	snprintf(design, sizeof(design), "linux-6.1,tree=%s", tree);
	if (!error && bench_wanted(b, name))
		error = make_many(b, design, TREE_AREAS, GUEST_LOCK_STATS, &g);
	else
		goto out;
	sm__random_seed(&r, 7);
	for (unsigned i = 0; i < runs && !error; i++) {
		struct sm_space_stats before, after;

		bench_progress(b, name, i, runs);
		sm_space_stats(g.space, &before);
		for (uint64_t n = bench_scale(b, 20000); n && !error; n--) {
			sm_addr at = many_base + 2 * PAGE * sm__random_below(&r, TREE_AREAS);

			error = sm_mprotect(g.space, at, PAGE, n & 1 ? RW : PROT_READ);
		}
		sm_space_stats(g.space, &after);
		samples[i] = hold_of(&before, &after);
	}
	guest_close(&g);
	if (!error)
		bench_row(b, &row);
out:
	free(samples);
	return error;
}

static int run(struct bench *b)
{
	static const uint64_t full[] = { 1000, 64000, 256000, 0 }, quick[] = { 100, 1000, 0 };
	const uint64_t *areas = bench_options(b)->quick ? quick : full;
	static const char *const trees[] = { "rb", "avl", "maple" };
	const char *design = bench_text(b, "design", "samara");
	struct guest_designs d;
	int error = 0;

	for (unsigned i = 0; i < SM__ARRAY_SIZE(call_cases) && !error; i++)
		error = run_call(b, &call_cases[i], design);
	for (unsigned i = 0; areas[i] && !error; i++)
		error = run_many(b, areas[i], design);
	guest_designs(b, "samara:linux-6.18:linux-6.12:linux-6.4:linux-6.1:linux-5.19", &d);
	for (unsigned i = 0; d.name[i] && !error; i++)
		error = run_storm(b, d.name[i]);
	guest_designs_free(&d);
	for (unsigned i = 0; i < SM__ARRAY_SIZE(trees) && !error; i++)
		error = run_hold(b, trees[i]);
	return error;
}

const struct benchmark bench_calls = {
	.name = "calls",
	.summary = "each call, look-up among many areas, faults beside a storm of "
		   "mprotect",
	.seconds = 60,
	.run = run,
	.flags = { { "design", BENCH_TEXT, "design of the calls and look-ups (samara)" },
		   { "designs", BENCH_TEXT, "designs of the fault rows, separated by ':'" } },
};
