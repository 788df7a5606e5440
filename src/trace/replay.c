/* SPDX-License-Identifier: MIT */
/*
 * replay.c - runs a recording, on one thread or on as many as were recorded (replay.h).
 *
 *   thread A   ──call──call·······wait·······call──▶      A's second waits for B's first
 *   thread B   ────────call──call──────────────────▶
 *
 * I1 progress[t] is the number of calls thread t has finished; it only grows. Written by t with
 *    seq_cst, read by waiters with seq_cst: a waiter that announced itself before it read the old
 *    value is woken (the two orders of store and load exclude that both miss).
 * I2 A space is given up after its last call, by whoever made it: left[mm] counts down. The release
 *    of each decrement pairs with the acquire of the last.
 */
#include "trace/footprint.h"
#include "trace/perform.h"
#include "base/base.h"
#include "base/inject.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPINS = 200, PROGRESS_EVERY = 4096, STACK_SIZE = 256 << 10 };

struct progress {
	_Alignas(SM__CACHELINE) _Atomic uint32_t calls; /* finished */
	_Atomic uint32_t sleepers;
};

struct worker {
	struct run *run;
	uint32_t thread;
	pthread_t handle;
	struct worker *next;
};

struct run {
	const struct sm__recording *rec;
	const struct sm__replay_options *options;
	struct sm__replay_result *result;
	struct sm__stage stage;
	struct sm__footprints footprints;
	struct progress *progress; /* by thread */
	_Atomic uint32_t *left;	   /* by mm: calls to come */
	uint32_t *ns;		   /* by call: time it took */
	uint64_t begin;		   /* of the replay */
	uint64_t clock_ns;	   /* what reading the clock twice takes: not the call's */
	uint64_t vmas_now;	   /* one thread: of all spaces */
	uint64_t *vmas;		   /* one thread: by mm */
	_Atomic int failed;	   /* errno: everybody stops */

	pthread_mutex_t lock; /* result, workers */
	struct worker *workers;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The least that two readings of the clock are apart. */
static uint64_t clock_cost(void)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 1000; i++) {
		uint64_t start = now_ns(), took = now_ns() - start;

		least = took < least ? took : least;
	}
	return least;
}

#define WHY_TEXT(NAME, text) text,

const char *sm__why_text(enum sm__why why)
{
	static const char *const texts[] = { SM__WHYS(WHY_TEXT) };

	return texts[why];
}

const char *sm__why_key(enum sm__why why)
{
	static const char *const keys[] = { "unexplained", "unknown-place", "unknown-map", "limit",
					    "file",	   "kernel",	    "order" };

	_Static_assert(SM__ARRAY_SIZE(keys) == SM__WHY_COUNT, "one key for each");
	return keys[why];
}

/* ---- results ---- */

static void note_difference(struct run *run, uint32_t index, int64_t got, enum sm__why why)
{
	struct sm__replay_result *result = run->result;

	pthread_mutex_lock(&run->lock);
	result->whys[why]++;
	if (result->ndifferences < SM__DIFFERENCES_MAX)
		result->differences[result->ndifferences++] =
			(struct sm__difference){ index, why, got };
	pthread_mutex_unlock(&run->lock);
}

static char *take_maps(struct sm_space *space)
{
	int64_t len = sm_maps(space, NULL, 0);
	char *text;

	if (len < 0 || sm__inject_fail())
		return NULL;
	text = malloc((size_t)len + 1);
	if (text)
		sm_maps(space, text, (size_t)len + 1);
	return text;
}

static void add_histogram(struct sm_histogram *sum, const struct sm_histogram *h)
{
	sum->count += h->count;
	sum->sum += h->sum;
	sum->max = h->max > sum->max ? h->max : sum->max;
	for (size_t i = 0; i < SM__ARRAY_SIZE(h->bucket); i++)
		sum->bucket[i] += h->bucket[i];
}

static void add_lock_stats(struct sm_lock_stats *sum, const struct sm_lock_stats *l)
{
	for (int side = 0; side < SM_LOCK_SIDES; side++) {
		sum->acquired[side] += l->acquired[side];
		sum->contended[side] += l->contended[side];
		add_histogram(&sum->wait[side], &l->wait[side]);
		add_histogram(&sum->hold[side], &l->hold[side]);
	}
	for (int k = 0; k < SM_CALL_KINDS; k++) {
		add_histogram(&sum->wait_by_call[k], &l->wait_by_call[k]);
		add_histogram(&sum->hold_by_call[k], &l->hold_by_call[k]);
	}
}

/* The figures of a space at its end; then it goes. */
static void end_space(struct run *run, uint32_t mm)
{
	bool ended = !atomic_load_explicit(&run->left[mm], memory_order_relaxed);
	struct sm__replay_result *result = run->result;
	struct sm_space *space = run->stage.spaces[mm];
	struct sm_space_stats stats;
	char *maps;

	if (!space)
		return;
	sm_space_stats(space, &stats);
	if (!stats.map_peak) { /* the moment between fork and exec that strace shows */
		run->stage.spaces[mm] = NULL;
		sm_space_destroy(space);
		return;
	}
	maps = take_maps(space);
	run->stage.spaces[mm] = NULL;
	sm_space_destroy(space);

	pthread_mutex_lock(&run->lock);
	result->spaces[result->nspaces++] =
		(struct sm__space_result){ mm, stats.map_count, stats.map_peak, ended, maps };
	add_lock_stats(&result->lock, &stats.lock);
	result->vma_lock_success += stats.vma_lock_success;
	result->vma_lock_abort += stats.vma_lock_abort;
	result->vma_lock_retry += stats.vma_lock_retry;
	result->vma_lock_miss += stats.vma_lock_miss;
	result->merges += stats.merges;
	result->splits += stats.splits;
	result->vmas_final += stats.map_count;
	if (stats.map_peak > result->vmas_peak)
		result->vmas_peak = stats.map_peak;
	if (!maps)
		atomic_store_explicit(&run->failed, ENOMEM, memory_order_relaxed);
	pthread_mutex_unlock(&run->lock);
}

static void fail_run(struct run *run, int err)
{
	int none = 0;

	atomic_compare_exchange_strong(&run->failed, &none, err);
	for (size_t t = 0; run->progress && t < run->rec->nthreads; t++)
		syscall(SYS_futex, &run->progress[t].calls, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL,
			0);
}

static bool has_failed(const struct run *run)
{
	return atomic_load_explicit(&run->failed, memory_order_relaxed);
}

/* ---- one call ---- */

static void start_thread(struct run *run, uint32_t thread);

struct tally {
	uint64_t made, touches, skipped, order_waits, order_wait_ns;
	uint64_t kind_skipped[SM_SYS_COUNT];
	uint64_t kind_errors[SM_SYS_COUNT];
};

/* A negative errno, of calls that return addresses too. */
static bool is_error(const struct sm__call *c, int64_t got)
{
	return c->call != SM_SYS_BRK && got < 0 && got >= -4095;
}

static void make_call(struct run *run, uint32_t index, struct tally *tally)
{
	const struct sm__call *c = &run->rec->calls[index];
	bool exact = !run->options->parallel;
	struct sm__performed p;
	enum sm__why why;
	uint64_t start = now_ns(), took;

	p = sm__perform(&run->stage, c, exact);
	took = now_ns() - start;
	took -= took < run->clock_ns ? took : run->clock_ns;
	run->ns[index] = took > UINT32_MAX ? UINT32_MAX : (uint32_t)took;
	if (run->result->timeline) {
		run->result->timeline[index].start = start - run->begin;
		run->result->timeline[index].took = run->ns[index];
	}
	if (p.failed) {
		fail_run(run, (int)-p.got);
		return;
	}
	if (c->child != SM__NONE && run->options->parallel)
		start_thread(run, c->child);
	if (!p.made) {
		run->ns[index] = UINT32_MAX;
		tally->skipped++;
		tally->kind_skipped[c->call]++;
	} else {
		tally->made++;
		tally->kind_errors[c->call] += is_error(c, p.got);
		if (!sm__agrees(c, p.got, &why))
			note_difference(run, index, p.got, why);
		tally->touches += sm__touch(&run->stage, c);
	}
}

/* I2: after the last call on a space. */
static void leave_space(struct run *run, const struct sm__call *c)
{
	if (atomic_fetch_sub_explicit(&run->left[c->mm], 1, memory_order_acq_rel) == 1)
		end_space(run, c->mm);
}

static void add_tally(struct run *run, const struct tally *tally)
{
	struct sm__replay_result *result = run->result;

	pthread_mutex_lock(&run->lock);
	result->calls += tally->made;
	result->touches += tally->touches;
	result->skipped += tally->skipped;
	result->order_waits += tally->order_waits;
	result->order_wait_ns += (double)tally->order_wait_ns;
	for (int k = 0; k < SM_SYS_COUNT; k++) {
		result->kinds[k].skipped += tally->kind_skipped[k];
		result->kinds[k].errors += tally->kind_errors[k];
	}
	pthread_mutex_unlock(&run->lock);
}

/* ---- as recorded ---- */

static void wait_for(struct run *run, const struct sm__wait *w, struct tally *tally)
{
	struct progress *p = &run->progress[w->thread];
	uint32_t seen = atomic_load_explicit(&p->calls, memory_order_acquire);
	uint64_t start;

	if (seen >= w->calls)
		return;
	start = now_ns();
	for (int i = 0; i < SPINS && seen < w->calls; i++) {
		__builtin_ia32_pause();
		seen = atomic_load_explicit(&p->calls, memory_order_acquire);
	}
	while (seen < w->calls && !has_failed(run)) {
		struct timespec limit = { .tv_nsec = 100000000 }; /* looks at failed again */

		atomic_fetch_add(&p->sleepers, 1);
		seen = atomic_load(&p->calls);
		if (seen < w->calls)
			syscall(SYS_futex, &p->calls, FUTEX_WAIT_PRIVATE, seen, &limit, NULL, 0);
		atomic_fetch_sub(&p->sleepers, 1);
		seen = atomic_load(&p->calls);
	}
	tally->order_waits++;
	tally->order_wait_ns += now_ns() - start;
}

static void *work(void *arg)
{
	struct worker *self = arg;
	struct run *run = self->run;
	const struct sm__footprints *f = &run->footprints;
	struct progress *p = &run->progress[self->thread];
	struct tally tally = { 0 };
	uint32_t done = 0;

	for (uint32_t i = f->thread_first[self->thread]; i < f->thread_first[self->thread + 1];
	     i++) {
		uint32_t index = f->thread_calls[i];

		uint64_t before = tally.order_wait_ns;

		for (uint64_t w = f->wait_first[index]; w < f->wait_first[index + 1]; w++)
			wait_for(run, &f->waits[w], &tally);
		if (run->result->timeline)
			run->result->timeline[index].waited =
				(uint32_t)(tally.order_wait_ns - before);
		if (has_failed(run))
			break;
		make_call(run, index, &tally);
		leave_space(run, &run->rec->calls[index]);
		atomic_store(&p->calls, ++done);
		if (atomic_load(&p->sleepers))
			syscall(SYS_futex, &p->calls, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	}
	add_tally(run, &tally);
	return NULL;
}

static void start_thread(struct run *run, uint32_t thread)
{
	struct worker *worker;
	pthread_attr_t attr;
	int r;

	if (!run->rec->threads[thread].ncalls)
		return;
	worker = sm__calloc(1, sizeof(*worker));
	if (!worker) {
		fail_run(run, ENOMEM);
		return;
	}
	worker->run = run;
	worker->thread = thread;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	pthread_mutex_lock(&run->lock);
	r = pthread_create(&worker->handle, &attr, work, worker);
	if (!r) {
		worker->next = run->workers;
		run->workers = worker;
	}
	pthread_mutex_unlock(&run->lock);
	pthread_attr_destroy(&attr);
	if (r) {
		free(worker);
		fail_run(run, r);
	}
}

/* Waits for all threads, those too that are started while it waits. */
static void join_all(struct run *run)
{
	for (;;) {
		struct worker *worker;

		pthread_mutex_lock(&run->lock);
		worker = run->workers;
		if (worker)
			run->workers = worker->next;
		pthread_mutex_unlock(&run->lock);
		if (!worker)
			return;
		pthread_join(worker->handle, NULL);
		free(worker);
	}
}

static void run_parallel(struct run *run)
{
	for (uint32_t t = 0; t < run->rec->nthreads; t++) {
		if (run->rec->threads[t].parent_call == SM__NONE)
			start_thread(run, t);
	}
	join_all(run);
}

/* ---- on one thread ---- */

static void sample(struct run *run, const struct sm__call *c, uint64_t n, uint64_t every)
{
	struct sm__replay_result *result = run->result;
	struct sm_space *space = run->stage.spaces[c->mm];
	uint64_t vmas = 0;

	if (!run->options->samples)
		return;
	if (space) {
		struct sm_space_stats stats;

		sm_space_stats(space, &stats);
		vmas = stats.map_count;
	}
	if (atomic_load_explicit(&run->left[c->mm], memory_order_relaxed) == 1 &&
	    n < run->rec->ncalls)
		vmas = 0; /* its last call, and others go on */
	run->vmas_now += vmas - run->vmas[c->mm];
	run->vmas[c->mm] = vmas;
	if (n % every == 0 && result->nsamples < SM__SAMPLES_MAX) {
		result->samples[result->nsamples].call = n;
		result->samples[result->nsamples++].vmas = run->vmas_now;
	}
}

static void run_alone(struct run *run)
{
	uint64_t n = run->rec->ncalls, every = n / SM__SAMPLES_MAX + 1;
	struct tally tally = { 0 };

	if (run->options->stop_after < n)
		n = run->options->stop_after;
	for (uint64_t i = 0; i < n && !has_failed(run); i++) {
		uint32_t index = run->rec->order[i];

		make_call(run, index, &tally);
		sample(run, &run->rec->calls[index], i + 1, every);
		leave_space(run, &run->rec->calls[index]);
		if (run->options->progress && i % PROGRESS_EVERY == 0)
			run->options->progress(run->options->arg, i, n);
	}
	add_tally(run, &tally);
}

/* ---- summing up ---- */

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* The middle, the 99th percentile and the largest of each kind, from the times of its calls. */
static int sum_kinds(struct run *run)
{
	const struct sm__recording *rec = run->rec;
	uint32_t *times = sm__calloc(rec->ncalls + 1, sizeof(*times));

	if (!times)
		return -ENOMEM;
	for (int k = 0; k < SM_SYS_COUNT; k++) {
		struct sm__kind_result *kind = &run->result->kinds[k];
		size_t n = 0, middle, p99;

		for (size_t i = 0; i < rec->ncalls; i++) {
			if (rec->calls[i].call == k && run->ns[i] != UINT32_MAX) {
				times[n++] = run->ns[i];
				kind->total_ns += run->ns[i];
			}
		}
		kind->count = n;
		if (!n)
			continue;
		qsort(times, n, sizeof(*times), by_value);
		middle = n / 2;
		p99 = (n * 99 + 99) / 100 - 1;
		kind->median_ns = times[middle];
		kind->p99_ns = times[p99];
		kind->max_ns = times[n - 1];
		run->result->busy_ns += kind->total_ns;
	}
	free(times);
	return 0;
}

static int by_mm(const void *a, const void *b)
{
	const struct sm__space_result *x = a, *y = b;

	return x->mm < y->mm ? -1 : x->mm > y->mm;
}

static int make_timeline(struct run *run)
{
	size_t n = run->rec->ncalls;
	struct sm__moment *timeline = sm__calloc(n + 1, sizeof(*timeline));

	for (size_t i = 0; timeline && i < n; i++)
		timeline[i].took = UINT32_MAX;
	run->result->timeline = timeline;
	return timeline ? 0 : -ENOMEM;
}

static int prepare(struct run *run)
{
	const struct sm__recording *rec = run->rec;
	int r = sm__stage_open(&run->stage, rec, run->options);

	if (r)
		return r;
	run->progress = sm__inject_fail()
				? NULL
				: aligned_alloc(SM__CACHELINE,
						(rec->nthreads + 1) * sizeof(*run->progress));
	run->left = sm__calloc(rec->nmms + 1, sizeof(*run->left));
	run->vmas = sm__calloc(rec->nmms + 1, sizeof(*run->vmas));
	run->ns = sm__calloc(rec->ncalls + 1, sizeof(*run->ns));
	run->result->spaces = sm__calloc(rec->nmms + 1, sizeof(*run->result->spaces));
	if (run->options->timeline && make_timeline(run))
		return -ENOMEM;
	if (!run->progress || !run->left || !run->vmas || !run->ns || !run->result->spaces)
		return -ENOMEM;
	memset(run->progress, 0, (rec->nthreads + 1) * sizeof(*run->progress));
	memset(run->ns, 0xff, (rec->ncalls + 1) * sizeof(*run->ns));
	for (size_t m = 0; m < rec->nmms; m++) {
		atomic_init(&run->left[m], rec->mms[m].ncalls);
		for (size_t i = 0; i < rec->mms[m].ninitial; i++)
			run->result->inferred_maps += rec->mms[m].initial[i].inferred;
	}
	if (run->options->parallel)
		r = sm__footprints_make(rec, &run->footprints);
	return r ? r : sm__stage_begin(&run->stage, 0);
}

int sm__replay(const struct sm__recording *rec, const struct sm__replay_options *options,
	       struct sm__replay_result *result)
{
	struct run run = {
		.rec = rec, .options = options, .result = result, .lock = PTHREAD_MUTEX_INITIALIZER
	};
	uint64_t start;
	int r;

	*result = (struct sm__replay_result){ 0 };
	r = prepare(&run);
	if (!r) {
		run.clock_ns = clock_cost();
		start = run.begin = now_ns();
		if (options->parallel)
			run_parallel(&run);
		else
			run_alone(&run);
		result->wall_ns = (double)(now_ns() - start);
		for (uint32_t m = 0; m < rec->nmms; m++)
			end_space(&run, m);
		result->ncaches =
			sm_host_cache_stats(run.stage.host, result->caches, SM_HOST_CACHES);
		r = -atomic_load(&run.failed);
	}
	if (!r)
		r = sum_kinds(&run);
	if (result->nspaces)
		qsort(result->spaces, result->nspaces, sizeof(*result->spaces), by_mm);
	if (r)
		snprintf(result->error, sizeof(result->error), "%s",
			 run.stage.why && *run.stage.why ? run.stage.why : strerror(-r));
	sm__stage_close(&run.stage);
	sm__footprints_free(&run.footprints);
	free(run.progress);
	free(run.left);
	free(run.vmas);
	free(run.ns);
	return r;
}

void sm__replay_result_free(struct sm__replay_result *result)
{
	for (size_t i = 0; i < result->nspaces; i++)
		free(result->spaces[i].maps);
	free(result->spaces);
	free(result->timeline);
	result->timeline = NULL;
	result->spaces = NULL;
	result->nspaces = 0;
}
