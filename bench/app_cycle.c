/* SPDX-License-Identifier: MIT */
/*
 * app_cycle.c - samara bench app-cycle: start and stop of an application with
 * about a hundred threads, from the generator of peers/app.h, per design and on
 * the running kernel.
 */
#include "app_recording.h"
#include "guest.h"
#include "peers/app.h"
#include "peers/kernel.h"
#include "peers/peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { APP_THREADS = 100, CYCLES = 4 };

struct app_guest {
	struct guest g;
	struct sm_tlb *tlb[APP_WORKERS];
	unsigned workers;
};

static int64_t app_map(void *arg, uint64_t addr, uint64_t length, int prot, int flags,
		       uint64_t offset)
{
	struct guest *g = &((struct app_guest *)arg)->g;

	return sm_mmap(g->space, addr, length, prot, flags, flags & MAP_ANONYMOUS ? NULL : g->file,
		       offset);
}

static int app_unmap(void *arg, uint64_t addr, uint64_t length)
{
	return sm_munmap(((struct app_guest *)arg)->g.space, addr, length);
}

static int app_protect(void *arg, uint64_t addr, uint64_t length, int prot)
{
	return sm_mprotect(((struct app_guest *)arg)->g.space, addr, length, prot);
}

static int app_touch(void *arg, unsigned worker, uint64_t addr, bool write)
{
	struct sm_tlb *tlb = ((struct app_guest *)arg)->tlb[worker];
	volatile char *p = guest_at(tlb, addr, write ? SM_ACCESS_WRITE : SM_ACCESS_READ);

	if (!p)
		return -EFAULT;
	if (write)
		*p = 1;
	else
		(void)*p;
	sm_tlb_checkpoint(tlb);
	return 0;
}

static void app_enter(void *arg, unsigned worker)
{
	sm_tlb_run(((struct app_guest *)arg)->tlb[worker]);
}

static void app_leave(void *arg, unsigned worker)
{
	sm_tlb_stop(((struct app_guest *)arg)->tlb[worker]);
}

static void close_app(struct app_guest *a)
{
	for (unsigned w = 0; w < a->workers; w++) {
		if (a->tlb[w])
			sm_tlb_destroy(a->tlb[w]);
	}
	guest_close(&a->g);
}

static int open_app(struct bench *b, const char *design, int kind, struct app_guest *a)
{
	int fd = kernel_file(APP_FILE_BYTES);
	int error;

	memset(a, 0, sizeof(*a));
	if (fd < 0)
		return bench_error(b, 0, "no file to map: %s", peer_error());
	error = guest_open(b, design, kind, &a->g);
	if (!error)
		error = guest_file(b, &a->g, fd);
	a->workers = bench_cpus()->n < 2 ? 1 : 2;
	for (unsigned w = 0; w < a->workers && !error; w++)
		error = sm_tlb_create(a->g.space, &a->tlb[w]);
	close(fd);
	if (error)
		close_app(a);
	return error;
}

/* Sums n cycles into r. */
static int cycles(struct app_guest *a, unsigned threads, uint64_t n, struct app_result *r)
{
	struct app_system sys = { app_map,   app_unmap, app_protect, app_touch, app_enter,
				  app_leave, a };
	int error = 0;

	memset(r, 0, sizeof(*r));
	for (uint64_t i = 0; i < n && !error; i++) {
		struct app_result one;

		error = app_cycle(&sys, threads, a->workers, &one);
		r->load_ns += one.load_ns;
		r->start_ns += one.start_ns;
		r->stop_ns += one.stop_ns;
		r->calls = one.calls;
		r->touches = one.touches;
	}
	return error;
}

struct series {
	const char *design;
	struct app_guest guest;
	double *seconds;
	unsigned runs;
	struct app_result last;
};

static int report(struct bench *b, struct series *s, const struct series *first, double *theirs,
		  unsigned threads, uint64_t n)
{
	unsigned runs = s->runs;
	struct sm_space_stats stats;
	struct app_result r;
	struct app_guest counted;
	char name[96];
	struct bench_row row = { .name = name,
				 .unit = BENCH_SECONDS,
				 .ours = s->seconds,
				 .n_ours = runs,
				 .peer = theirs ? "kernel" : NULL,
				 .theirs = theirs,
				 .n_theirs = runs };
	int error = open_app(b, s->design, GUEST_LOCK_STATS, &counted);

	if (error)
		return error;
	error = cycles(&counted, threads, 1, &r);
	sm_space_stats(counted.g.space, &stats);
	close_app(&counted);
	if (error)
		return bench_error(b, error, "%s", s->design);
	snprintf(name, sizeof(name), "generator/%s", s->design);
	const struct bench_extra extra[] = {
		{ "change", "to first",
		  sm__stats_of(s->seconds, runs).mean / sm__stats_of(first->seconds, runs).mean - 1,
		  BENCH_CHANGE },
		{ "load_ns", "load", (double)s->last.load_ns / (double)n, BENCH_NS },
		{ "start_ns", "start", (double)s->last.start_ns / (double)n, BENCH_NS },
		{ "stop_ns", "stop", (double)s->last.stop_ns / (double)n, BENCH_NS },
		{ "calls", "calls", (double)r.calls, BENCH_COUNT },
		{ "touches", "touches", (double)r.touches, BENCH_COUNT },
		{ "vma_lock_success", "VMA lock", (double)stats.vma_lock_success, BENCH_COUNT },
		{ "read_wait_ns", "read wait", (double)stats.lock.wait[SM_LOCK_READ].sum,
		  BENCH_NS },
		{ "write_wait_ns", "write wait", (double)stats.lock.wait[SM_LOCK_WRITE].sum,
		  BENCH_NS },
	};

	memcpy(row.extra, extra, sizeof(extra));
	bench_row(b, &row);
	return 0;
}

/* Seconds of a cycle on the kernel. Return: false, with a note, if it failed: it is left out then. */
static bool ask_kernel(struct bench *b, const struct bench_side *kernel, uint64_t n,
		       double *seconds)
{
	uint64_t ns = bench_peer_ask(kernel->peer, kernel->what, n);

	if (ns == UINT64_MAX)
		bench_note(b, "kernel left out: %s", peer_error());
	else
		*seconds = (double)ns / 1e9 / (double)n;
	return ns != UINT64_MAX;
}

/* All designs and the kernel in turn, runs times. */
static int collect(struct bench *b, struct series *s, unsigned n_series, double *theirs,
		   unsigned threads)
{
	uint64_t n = bench_options(b)->quick ? 1 : CYCLES;
	struct bench_side kernel;
	unsigned runs = 0;
	char what[32];
	int error = 0;

	snprintf(what, sizeof(what), "app-cycle/%u", threads);
	kernel = bench_kernel_side(b, what);
	for (; runs < bench_options(b)->runs && !bench_enough(b, runs) && !error; runs++) {
		for (unsigned d = 0; d < n_series && !error; d++) {
			bench_progress(b, s[d].design, runs, bench_options(b)->runs);
			error = cycles(&s[d].guest, threads, n, &s[d].last);
			if (error)
				bench_error(b, error, "%s", s[d].design);
			s[d].seconds[runs] = (double)(s[d].last.load_ns + s[d].last.start_ns +
						      s[d].last.stop_ns) /
					     1e9 / (double)n;
		}
		if (kernel.name && !ask_kernel(b, &kernel, n, &theirs[runs]))
			kernel.name = NULL;
	}
	for (unsigned d = 0; d < n_series && runs && !error; d++) {
		s[d].runs = runs;
		error = report(b, &s[d], &s[0], kernel.name ? theirs : NULL, threads, n);
	}
	return error;
}

static int run_designs(struct bench *b, const struct guest_designs *d, unsigned threads)
{
	struct series s[GUEST_DESIGNS] = { { 0 } };
	unsigned runs = bench_options(b)->runs, n = 0;
	double *theirs = calloc(runs, sizeof(double));
	int error = theirs ? 0 : -ENOMEM;

	for (unsigned i = 0; d->name[i] && !error; i++) {
		char name[96];

		snprintf(name, sizeof(name), "generator/%s", d->name[i]);
		if (!bench_wanted(b, name))
			continue;
		s[n].design = d->name[i];
		s[n].seconds = calloc(runs, sizeof(double));
		error = s[n].seconds ? open_app(b, d->name[i], GUEST_PAGES, &s[n].guest) : -ENOMEM;
		n++;
	}
	if (!error && n)
		error = collect(b, s, n, theirs, threads);
	for (unsigned i = 0; i < n; i++) {
		close_app(&s[i].guest);
		free(s[i].seconds);
	}
	free(theirs);
	return error;
}

static int run(struct bench *b)
{
	unsigned threads = (unsigned)bench_number(b, "threads", APP_THREADS);
	struct guest_designs d;
	int error;

	if (!threads || threads > APP_THREADS_MOST)
		return bench_error(b, 0, "--threads takes 1 to %d", APP_THREADS_MOST);
	guest_designs(b,
		      "linux-6.12:linux-6.12,node-free=sheaf:linux-6.1:linux-6.4:linux-6.18:samara",
		      &d);
	error = run_designs(b, &d, threads);
	if (!error)
		error = app_recording_run(b, &d);
	guest_designs_free(&d);
	return error;
}

const struct benchmark bench_app_cycle = {
	.name = "app-cycle",
	.summary = "start and stop of an application with 100 threads, per design",
	.seconds = 40,
	.run = run,
	.flags = { { "threads", BENCH_NUMBER, "threads of the application (100)" },
		   { "recording", BENCH_TEXT, "a recording instead of the repository's" },
		   { "designs", BENCH_TEXT, "designs to run, separated by ':'" } },
};
