/* SPDX-License-Identifier: MIT */
/*
 * mmap_stress.c - samara bench mmap-stress: five one-page file areas mapped, faulted in, unmapped
 * (stress.h), on the steps from separate locks and slab allocation (linux-6.12) to counted locks and
 * sheaves for everything, with and without pauses in which deferred frees get done; beside them the
 * running kernel.
 *
 * The figure of a row is the time in the mmap calls of one run, as it was published; `whole` is the time
 * of the cycles. Percentiles are of single mmap calls: medians over the runs, and the largest of all for
 * `max`.
 */
#include "guest.h"
#include "machine.h"
#include "peers/kernel.h"
#include "peers/peer.h"
#include "peers/stress.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CYCLES = 200000, DELAY_NS = 500000, DELAY_EVERY = 100, MEASURES = 6 };
enum measure { CALLS, WHOLE, P50, P99, P999, MAX };

static const struct {
	const char *name, *design;
} configurations[] = {
	{ "baseline", "linux-6.12" },
	{ "sheaves-for-nodes", "linux-6.12,node-free=sheaf" },
	{ "+refcnt-typesafe", "linux-6.15,node-free=sheaf" },
	{ "+refcnt-sheaf-vmas", "linux-6.15,node-free=sheaf,vma-free=sheaf" },
	{ "both", "linux-6.15,node-free=sheaf,vma-free=typesafe+sheaf" },
	{ "samara", "samara" },
};
enum { CONFIGS = sizeof(configurations) / sizeof(configurations[0]), KERNEL = CONFIGS, SIDES };

struct experiment {
	struct bench *b;
	struct stress_options o;
	const char *suffix; /* of the case: delay and capacity class */
	struct guest guest[CONFIGS];
	bool open[CONFIGS];
	bool wanted[SIDES]; /* rows by --filter; the baseline is measured for the others' change */
	struct bench_peer *kernel;
	char kernel_case[64];
	double *sample[SIDES][MEASURES];
	unsigned taken;
};

/* ---- a space as a stress_system ---- */

static int64_t guest_map(void *arg, unsigned i)
{
	struct guest *g = arg;

	return sm_mmap(g->space, 0, KERNEL_PAGE, PROT_READ, MAP_PRIVATE, g->file,
		       (uint64_t)i * KERNEL_PAGE);
}

static int guest_touch(void *arg, uint64_t addr)
{
	struct guest *g = arg;
	struct sm_fault_result r = sm_fault(g->space, addr, SM_ACCESS_READ);

	return r.error ? r.error : r.signo ? -EFAULT : 0;
}

static int guest_unmap(void *arg, uint64_t addr)
{
	struct guest *g = arg;

	return sm_munmap(g->space, addr, KERNEL_PAGE);
}

/* ---- samples ---- */

static void store(struct experiment *e, unsigned side, unsigned run, const double values[MEASURES])
{
	for (unsigned m = 0; m < MEASURES; m++)
		e->sample[side][m][run] = values[m];
}

static int run_config(struct experiment *e, unsigned c, unsigned run)
{
	struct stress_system sys = { guest_map, guest_touch, guest_unmap, &e->guest[c] };
	struct stress_result r;
	int error;

	bench_pin(0);
	error = stress_run(&sys, &e->o, &r);
	if (error)
		return bench_error(e->b, error, "%s", configurations[c].name);
	store(e, c, run, (double[]){ r.calls, r.whole, r.p50, r.p99, r.p999, r.max });
	return 0;
}

/* A peer that fails is left out from here on, with what it gave before. */
static void run_kernel(struct experiment *e, unsigned run)
{
	double values[MEASURES] = { 0 };
	uint64_t ns = bench_peer_ask_more(e->kernel, e->kernel_case, e->o.cycles, values + 1,
					  MEASURES - 1);

	if (ns == UINT64_MAX) {
		bench_note(e->b, "kernel left out: %s", peer_error());
		bench_peer_close(e->kernel);
		e->kernel = NULL;
		return;
	}
	values[CALLS] = (double)ns;
	store(e, KERNEL, run, values);
}

static int collect(struct experiment *e, unsigned runs)
{
	int error = 0;

	for (unsigned r = 0; r < runs && !bench_enough(e->b, r) && !error; r++) {
		bench_progress(e->b, e->suffix, r, runs);
		for (unsigned c = 0; c < CONFIGS && !error; c++)
			error = e->open[c] ? run_config(e, c, r) : 0;
		if (e->kernel)
			run_kernel(e, r);
		e->taken = r + 1;
	}
	return error;
}

/* ---- rows ---- */

static double median(double *values, unsigned n)
{
	return sm__stats_of(values, n).median;
}

static double largest(double *values, unsigned n)
{
	return sm__stats_of(values, n).max;
}

/* Change of the mean of a measure to the baseline's, as in the published table. */
static double change(struct experiment *e, unsigned side, enum measure m)
{
	double own = sm__stats_of(e->sample[side][m], e->taken).mean;
	double base = sm__stats_of(e->sample[0][m], e->taken).mean;

	return own / base - 1;
}

static void case_name(const struct experiment *e, unsigned side, char *name, size_t size)
{
	snprintf(name, size, "%s%s", side == KERNEL ? "kernel" : configurations[side].name,
		 e->suffix);
}

static void report(struct experiment *e, unsigned side)
{
	double calls[BENCH_RUNS_MOST],
		theirs[BENCH_RUNS_MOST]; /* copies: rows sort, and each is used several times */
	char name[96];
	double **s = e->sample[side];
	unsigned n = e->taken;
	struct bench_row row = {
		.name = name,
		.unit = BENCH_SECONDS,
		.ours = calls,
		.n_ours = n,
		.extra = { { "change", "to base", change(e, side, CALLS), BENCH_CHANGE },
			   { "whole_ns", "whole", median(s[WHOLE], n), BENCH_NS },
			   { "whole_change", "to base", change(e, side, WHOLE), BENCH_CHANGE },
			   { "p50_ns", "p50", median(s[P50], n), BENCH_NS },
			   { "p99_ns", "p99", median(s[P99], n), BENCH_NS },
			   { "p999_ns", "p99.9", median(s[P999], n), BENCH_NS },
			   { "max_ns", "max", largest(s[MAX], n), BENCH_NS } }
	};

	for (unsigned i = 0; i < n; i++) {
		calls[i] = s[CALLS][i] / 1e9;
		theirs[i] = e->kernel ? e->sample[KERNEL][CALLS][i] / 1e9 : NAN;
	}
	case_name(e, side, name, sizeof(name));
	if (e->kernel && side != KERNEL) {
		row.peer = "kernel";
		row.theirs = theirs;
		row.n_theirs = n;
	}
	bench_row(e->b, &row);
}

/* ---- set-up ---- */

static int open_guests(struct experiment *e)
{
	int fd = kernel_file(STRESS_AREAS * KERNEL_PAGE), error = 0;

	if (fd < 0)
		return bench_error(e->b, 0, "no file to map: %s", peer_error());
	for (unsigned c = 0; c < CONFIGS && !error; c++) {
		if (c && !e->wanted[c])
			continue;
		error = guest_open(e->b, configurations[c].design, GUEST_PAGES, &e->guest[c]);
		if (!error)
			error = guest_file(e->b, &e->guest[c], fd);
		e->open[c] = !error;
	}
	close(fd);
	return error;
}

static void close_experiment(struct experiment *e)
{
	for (unsigned c = 0; c < CONFIGS; c++)
		guest_close(&e->guest[c]);
	bench_peer_close(e->kernel);
	for (unsigned s = 0; s < SIDES; s++) {
		for (unsigned m = 0; m < MEASURES; m++)
			free(e->sample[s][m]);
	}
}

static int run_variant(struct bench *b, const char *suffix, const struct stress_options *o)
{
	struct experiment e = { .b = b, .o = *o, .suffix = suffix };
	unsigned runs = bench_options(b)->runs;
	bool any = false;
	char name[96];
	int error = 0;

	for (unsigned s = 0; s < SIDES; s++) {
		case_name(&e, s, name, sizeof(name));
		any |= e.wanted[s] = bench_wanted(b, name);
	}
	if (!any)
		return 0;
	for (unsigned s = 0; s < SIDES; s++) {
		for (unsigned m = 0; m < MEASURES; m++) {
			e.sample[s][m] = calloc(runs, sizeof(double));
			error = e.sample[s][m] ? error : -ENOMEM;
		}
	}
	if (!error)
		error = open_guests(&e);
	e.kernel = bench_peer_open(b, "kernel"); /* anew: it inherits the order of CPUs */
	snprintf(e.kernel_case, sizeof(e.kernel_case), "mmap-stress/%llu,%llu",
		 (unsigned long long)o->delay_ns, (unsigned long long)o->delay_every);
	if (!error)
		error = collect(&e, runs);
	for (unsigned s = 0; s < SIDES && e.taken && !error; s++) {
		if (e.wanted[s] && (s != KERNEL || e.kernel))
			report(&e, s);
	}
	close_experiment(&e);
	return error;
}

/* Both variants on the class's CPU. */
static int run_class(struct bench *b, const struct bench_capacity *class, bool several)
{
	struct stress_options o = { .cycles = bench_number(b, "cycles", bench_scale(b, CYCLES)) };
	struct bench_cpus was = *bench_cpus(), cpus;
	char suffix[64], at[40] = "";
	int error;

	if (bench_cpus_allowed(&cpus, class->cpu))
		bench_cpus_set(&cpus);
	if (several)
		snprintf(at, sizeof(at), "@%.30s", class->name);
	snprintf(suffix, sizeof(suffix), "/no-delay%s", at);
	error = run_variant(b, suffix, &o);
	o.delay_ns = bench_time(b, "delay", DELAY_NS);
	o.delay_every = bench_number(b, "delay-every", DELAY_EVERY);
	snprintf(suffix, sizeof(suffix), "/delay%s", at);
	if (!error && o.delay_ns)
		error = run_variant(b, suffix, &o);
	bench_cpus_set(&was);
	return error;
}

static int run(struct bench *b)
{
	struct bench_capacity classes[BENCH_CLASSES];
	unsigned n = bench_switch(b, "this-cpu") ? 1 : bench_capacities(classes);
	int error = 0;

	if (!bench_number(b, "cycles", 1) || !bench_number(b, "delay-every", 1))
		return bench_error(b, 0, "--cycles and --delay-every take 1 or more");

	for (unsigned c = 0; c < n && !error; c++)
		error = run_class(b, &classes[c], n > 1);
	return error;
}

const struct benchmark bench_mmap_stress = {
	.name = "mmap-stress",
	.summary = "five one-page file areas mapped, faulted in, unmapped: time in mmap",
	.seconds = 90,
	.run = run,
	.flags = { { "cycles", BENCH_NUMBER, "cycles of a run (200000)" },
		   { "delay", BENCH_TIME, "pause for deferred frees (500us; 0: no such rows)" },
		   { "delay-every", BENCH_NUMBER, "cycles between pauses (100)" },
		   { "this-cpu", BENCH_SWITCH, "only --cpu, not one of each capacity" } },
};
