/* SPDX-License-Identifier: MIT */
/*
 * madvise.c - the published experiment of the madvise batching series: a buffer, touched, then advised
 * page by page, batch 0 by madvise, batch B by process_madvise with B ranges a call.
 *
 * One row per advice, stage and batch; the kernel's samples of a batch are shared by its four rows, all
 * taken in turn. Filling the vector is inside the timed loop, as in the published program; touching
 * the buffer is not. With /tlb a second thread runs guest code in the space (here: the kernel's peer
 * spins in the process), so that every flush has somebody to tell.
 *
 * Extra columns: what each side saves against its own batch 0.
 */
#include "harness.h"

#include <samara/samara.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, BUFFER_PAGES = 65536, BATCH_MOST = 1024, STAGES = 4 };

static const char *const stage_names[STAGES] = { "per-range", "batched-lock", "batched",
						 "vma-lock+batched" };
static const unsigned batches[] = { 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024 };
enum { BATCHES = sizeof(batches) / sizeof(batches[0]) };

static const struct {
	const char *name;
	int advice;
} advices[] = { { "DONTNEED", SM_MADV_DONTNEED },
		{ "FREE", SM_MADV_FREE },
		{ "COLD", SM_MADV_COLD },
		{ "WILLNEED", SM_MADV_WILLNEED } };

struct stage {
	struct sm_space *space;
	sm_addr buffer, other; /* other: what the second thread looks at */
};

struct experiment {
	struct bench *b;
	struct sm_host *host;
	struct stage stages[STAGES];
	uint64_t pages;
};

/* ---- the space ---- */

static int open_stage(struct experiment *e, unsigned i)
{
	struct stage *st = &e->stages[i];
	struct sm_space_options o;
	char design[64];
	int64_t at;

	snprintf(design, sizeof(design), "advice=%s", stage_names[i]);
	sm_space_options_init(&o);
	o.backend = SM_BACKEND_SOFT;
	if (sm_design_parse(design, &o.design, NULL, 0))
		return -EINVAL;
	st->space = sm_space_create(e->host, &o, NULL);
	if (!st->space)
		return -errno;
	at = sm_mmap(st->space, 0, e->pages * PAGE, SM_PROT_READ | SM_PROT_WRITE,
		     SM_MAP_PRIVATE | SM_MAP_ANONYMOUS, NULL, 0);
	if (at < 0)
		return (int)at;
	st->buffer = (sm_addr)at;
	at = sm_mmap(st->space, 0, PAGE, SM_PROT_READ, SM_MAP_PRIVATE | SM_MAP_ANONYMOUS, NULL, 0);
	st->other = (sm_addr)at;
	return at < 0 ? (int)at : 0;
}

static void close_stages(struct experiment *e)
{
	for (unsigned i = 0; i < STAGES; i++)
		if (e->stages[i].space)
			sm_space_destroy(e->stages[i].space);
	if (e->host)
		(void)sm_host_destroy(e->host);
}

static int open_stages(struct experiment *e)
{
	struct sm_host_options o;
	int err = 0;

	sm_host_options_init(&o);
	/* the buffers, their page tables, and half as much for the pool's own needs */
	o.frame_bytes = STAGES * e->pages * PAGE * 3 / 2 + (64ull << 20);
	e->host = sm_host_create(&o, NULL);
	if (!e->host)
		return -errno;
	for (unsigned i = 0; i < STAGES && !err; i++)
		err = open_stage(e, i);
	return err;
}

/* ---- one sample ---- */

static int touch(const struct stage *st, uint64_t pages)
{
	for (uint64_t i = 0; i < pages; i++) {
		struct sm_fault_result r =
			sm_fault(st->space, st->buffer + i * PAGE, SM_ACCESS_WRITE);

		if (r.error || r.signo)
			return -ENOMEM;
	}
	return 0;
}

static int advise_singly(const struct stage *st, uint64_t pages, int advice)
{
	for (uint64_t i = 0; i < pages; i++) {
		int err = sm_madvise(st->space, st->buffer + i * PAGE, PAGE, advice);

		if (err)
			return err;
	}
	return 0;
}

static int advise_batches(const struct stage *st, uint64_t pages, int advice, unsigned batch)
{
	struct sm_range ranges[BATCH_MOST];

	for (uint64_t i = 0; i < pages; i += batch) {
		unsigned n = pages - i < batch ? (unsigned)(pages - i) : batch;
		int64_t done;

		for (unsigned r = 0; r < n; r++) {
			ranges[r].addr = st->buffer + (i + r) * PAGE;
			ranges[r].length = PAGE;
		}
		done = sm_process_madvise(st->space, st->space, ranges, n, advice, 0);
		if (done != (int64_t)n * PAGE)
			return done < 0 ? (int)done : -EIO;
	}
	return 0;
}

/* Nanoseconds a page. */
static double sample(const struct stage *st, uint64_t pages, int advice, unsigned batch)
{
	uint64_t start;
	int err = touch(st, pages);

	start = bench_now();
	if (!err)
		err = batch ? advise_batches(st, pages, advice, batch)
			    : advise_singly(st, pages, advice);
	return err ? -1 : (double)(bench_now() - start) / (double)pages;
}

static void run_guest(void *arg, const bool *stop)
{
	const struct stage *st = arg;
	struct sm_tlb *tlb;

	if (sm_tlb_create(st->space, &tlb))
		return;
	sm_tlb_run(tlb);
	while (!bench_stopped(stop)) {
		volatile char *p = sm_translate(tlb, st->other, SM_ACCESS_READ);
		void *filled;

		if (p)
			(void)*p;
		else
			(void)sm_tlb_fill(tlb, st->other, SM_ACCESS_READ, &filled);
		sm_tlb_checkpoint(tlb);
	}
	sm_tlb_stop(tlb);
	sm_tlb_destroy(tlb);
}

static double sample_beside(const struct stage *st, uint64_t pages, int advice, unsigned batch)
{
	struct bench_beside *beside = bench_beside_start(run_guest, (void *)st);
	double ns = sample(st, pages, advice, batch);

	bench_beside_stop(beside);
	return ns;
}

/* ---- rows ---- */

enum { RUNS_MOST = 64 };

struct samples {
	double ours[STAGES][RUNS_MOST], theirs[RUNS_MOST];
	unsigned n;
	bool has_kernel;
};

/* Medians of batch 0, to which the other batches are compared. */
struct base {
	double ours[STAGES], theirs;
};

static bool any_wanted(const struct experiment *e, const char *advice, unsigned batch,
		       const char *suffix)
{
	char name[96];

	for (unsigned i = 0; i < STAGES; i++) {
		snprintf(name, sizeof(name), "%s/%s/batch=%u%s", advice, stage_names[i], batch,
			 suffix);
		if (bench_wanted(e->b, name))
			return true;
	}
	return false;
}

static int take(struct experiment *e, unsigned a, unsigned batch, bool tlb, struct samples *s)
{
	unsigned runs = bench_options(e->b)->runs;
	char what[64];
	struct bench_side kernel;

	snprintf(what, sizeof(what), "madvise/%s/%u%s", advices[a].name, batch, tlb ? "/tlb" : "");
	kernel = bench_kernel_side(e->b, what);
	s->has_kernel = kernel.name != NULL;
	for (s->n = 0; s->n < runs && s->n < RUNS_MOST && !bench_enough(e->b, s->n); s->n++) {
		bench_progress(e->b, what, s->n, runs);
		for (unsigned i = 0; i < STAGES; i++) {
			double ns = (tlb ? sample_beside : sample)(&e->stages[i], e->pages,
								   advices[a].advice, batch);

			if (ns < 0)
				return bench_error(e->b, -ENOMEM, "%s failed", what);
			s->ours[i][s->n] = ns;
		}
		if (s->has_kernel) {
			uint64_t ns = bench_peer_ask(kernel.peer, kernel.what, e->pages);

			s->has_kernel = ns != UINT64_MAX;
			s->theirs[s->n] = (double)ns / (double)e->pages;
		}
	}
	return 0;
}

static double median(const double *values, unsigned n)
{
	double sorted[RUNS_MOST];

	memcpy(sorted, values, n * sizeof(*values));
	for (unsigned i = 1; i < n; i++)
		for (unsigned j = i; j && sorted[j - 1] > sorted[j]; j--) {
			double t = sorted[j];

			sorted[j] = sorted[j - 1];
			sorted[j - 1] = t;
		}
	return n ? sorted[n / 2] : 0;
}

/* -0.25: a quarter less than at batch 0. */
static double change(double now, double at_0)
{
	return at_0 > 0 ? now / at_0 - 1 : 0;
}

static void hand_in(struct experiment *e, const char *name, struct samples *s, unsigned stage,
		    const struct base *base)
{
	double theirs[RUNS_MOST];
	struct bench_row row = {
		.name = name,
		.unit = BENCH_NS,
		.ours = s->ours[stage],
		.n_ours = s->n,
		.extra = { { "ours_change_to_batch_0", "vs batch 0", 0, BENCH_CHANGE },
			   { "theirs_change_to_batch_0", "kernel", 0, BENCH_CHANGE } }
	};

	row.extra[0].value = change(median(s->ours[stage], s->n), base->ours[stage]);
	row.extra[1].value = change(median(s->theirs, s->n), base->theirs);
	if (s->has_kernel) {
		memcpy(theirs, s->theirs, sizeof(theirs));
		row.peer = "kernel";
		row.theirs = theirs;
		row.n_theirs = s->n;
	} else {
		row.extra[1] = (struct bench_extra){ 0 };
	}
	bench_row(e->b, &row);
}

static int one_batch(struct experiment *e, unsigned a, unsigned batch, bool tlb, struct base *base)
{
	const char *suffix = tlb ? "/tlb" : "";
	struct samples s;
	char name[96];
	int err;

	if (!any_wanted(e, advices[a].name, batch, suffix))
		return 0;
	err = take(e, a, batch, tlb, &s);
	if (err || !s.n)
		return err;
	if (batch == 0) {
		for (unsigned i = 0; i < STAGES; i++)
			base->ours[i] = median(s.ours[i], s.n);
		base->theirs = s.has_kernel ? median(s.theirs, s.n) : 0;
	}
	for (unsigned i = 0; i < STAGES; i++) {
		snprintf(name, sizeof(name), "%s/%s/batch=%u%s", advices[a].name, stage_names[i],
			 batch, suffix);
		if (bench_wanted(e->b, name))
			hand_in(e, name, &s, i, base);
	}
	return 0;
}

static int run(struct bench *b)
{
	struct experiment e = { .b = b, .pages = bench_scale(b, BUFFER_PAGES) };
	int err = open_stages(&e);

	if (err)
		bench_error(b, err, "cannot make the spaces: %s", strerror(-err));
	for (unsigned a = 0; a < sizeof(advices) / sizeof(advices[0]) && !err; a++) {
		for (unsigned tlb = 0; tlb < 2 && !err; tlb++) {
			struct base base = { { 0 }, 0 };

			/* the ends are enough to see that it runs */
			unsigned step = bench_options(b)->quick ? BATCHES - 1 : 1;

			for (unsigned i = 0; i < BATCHES && !err; i += step)
				err = one_batch(&e, a, batches[i], tlb, &base);
		}
	}
	close_stages(&e);
	return err;
}

const struct benchmark bench_madvise = {
	.name = "madvise",
	.summary = "advice page by page, batches of 0 to 1024, four stages against the kernel",
	.seconds = 90,
	.run = run,
};
