/* SPDX-License-Identifier: MIT */
/*
 * word_count.c - samara bench word-count: the map-reduce word count of the published comparison of
 * kernels 5.19 to 6.6, on a space of every generation; the same source runs on the host kernel as
 * reference (programs/word_count_core.h, programs/word_count.c).
 *
 * Times are taken with lock statistics off; the counters and lock times beside them come from one more
 * run of each design with statistics on. Every run's result (words, distinct words, checksum) must be
 * the reference's: a translation that shows a wrong page cannot go unseen.
 */
#include "guest.h"
#include "peers/kernel.h"
#include "peers/peer.h"
#include "programs/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_BYTES = 3 << 20 };
#define TEXT_MOST (1ULL << 32) /* words are counted in as much memory again */

struct wc_system;

struct wc_mem {
	const struct wc_system *sys;
	struct sm_tlb *tlb;
	bool failed;
	char nothing[4096]; /* for a failed access: the run is void, but goes on to its end */
};

static char *wc_miss(struct wc_mem *m, uint64_t addr, bool write)
{
	char *p = guest_fill(m->tlb, addr, write ? SM_ACCESS_WRITE : SM_ACCESS_READ);

	if (p)
		return p;
	m->failed = true;
	return m->nothing + addr % sizeof(m->nothing);
}

static inline char *wc_at(struct wc_mem *m, uint64_t addr, bool write)
{
	char *p = sm_translate(m->tlb, addr, write ? SM_ACCESS_WRITE : SM_ACCESS_READ);

	return __builtin_expect(p != NULL, 1) ? p : wc_miss(m, addr, write);
}

static inline void wc_poll(struct wc_mem *m)
{
	sm_tlb_checkpoint(m->tlb);
}

static inline void wc_enter(struct wc_mem *m)
{
	sm_tlb_run(m->tlb);
}

static inline void wc_leave(struct wc_mem *m)
{
	sm_tlb_stop(m->tlb);
}

#include "programs/word_count_core.h"

static int64_t space_map(void *arg, uint64_t length, int prot, int flags)
{
	return sm_mmap(arg, 0, length, prot, flags, NULL, 0);
}

static int space_unmap(void *arg, uint64_t addr, uint64_t length)
{
	return sm_munmap(arg, addr, length);
}

static int space_protect(void *arg, uint64_t addr, uint64_t length, int prot)
{
	return sm_mprotect(arg, addr, length, prot);
}

/* ---- one run on a space ---- */

struct result {
	double seconds;
	uint64_t words, distinct, sum; /* sum as the program prints it: >> 12 */
	uint64_t growths;
	struct sm_space_stats stats;
};

struct setting {
	struct bench *b;
	int fd;
	char path[PATH_MAX];
	uint64_t bytes;
	unsigned threads;
	struct result reference;
};

static void fill_result(struct wc_job *job, struct result *r)
{
	wc_total(job);
	r->words = job->words;
	r->distinct = job->distinct;
	r->sum = job->sum >> 12;
	r->growths = 0;
	for (unsigned t = 0; t < job->threads; t++)
		r->growths += job->arena[t].protects;
}

static int count_in(struct guest *g, struct wc_job *job, struct result *r)
{
	uint64_t ns = bench_parallel(job->threads, wc_phase_map, job, 0, NULL);
	int error;

	ns += bench_parallel(job->threads, wc_phase_reduce, job, 0, NULL);
	r->seconds = (double)ns / 1e9;
	fill_result(job, r);
	sm_space_stats(g->space, &r->stats);
	wc_release(job);
	error = job->error;
	for (unsigned t = 0; t < job->threads; t++)
		error = job->mem[t]->failed ? -EFAULT : error;
	return error;
}

static void end_threads(struct wc_mem *mem, unsigned threads)
{
	for (unsigned t = 0; t < threads; t++) {
		if (mem[t].tlb)
			sm_tlb_destroy(mem[t].tlb);
	}
	free(mem);
}

static int run_space(struct setting *s, const char *design, int kind, struct result *r)
{
	struct wc_mem *mem = calloc(s->threads, sizeof(*mem));
	struct wc_job *job = calloc(1, sizeof(*job));
	struct wc_system sys = { space_map, space_unmap, space_protect, NULL };
	struct guest g;
	int64_t text = -ENOMEM;
	int error = guest_open(s->b, design, kind, &g);

	if (error || !mem || !job)
		goto out;
	sys.arg = g.space;
	error = guest_file(s->b, &g, s->fd);
	for (unsigned t = 0; t < s->threads && !error; t++) {
		mem[t].sys = &sys;
		job->mem[t] = &mem[t];
		error = sm_tlb_create(g.space, &mem[t].tlb);
	}
	if (!error)
		text = sm_mmap(g.space, 0, s->bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE,
			       g.file, 0);
	if (!error && text < 0)
		error = (int)text;
	job->text = (uint64_t)text;
	job->size = wc_countable(s->fd, s->bytes);
	job->threads = s->threads;
	if (!error)
		error = count_in(&g, job, r);
	if (error)
		bench_error(s->b, error, "%s", design);
out:
	if (mem)
		end_threads(mem, s->threads);
	free(job);
	guest_close(&g);
	return error;
}

/* ---- the reference ---- */

static int run_reference(struct setting *s, struct bench_peer *program, struct result *r)
{
	char what[96];
	double more[6];
	uint64_t ns;

	/* By descriptor: a path may have blanks, which end a word of the peers' protocol. */
	snprintf(what, sizeof(what), "arena/%u:/proc/%d/fd/%d", s->threads, (int)getpid(), s->fd);
	ns = bench_peer_ask_more(program, what, 1, more, 6);
	if (ns == UINT64_MAX)
		return bench_error(s->b, 0, "the host program failed: %s", peer_error());
	memset(r, 0, sizeof(*r));
	r->seconds = (double)ns / 1e9;
	r->words = (uint64_t)more[0];
	r->distinct = (uint64_t)more[1];
	r->sum = (uint64_t)more[2];
	r->growths = (uint64_t)more[3];
	r->stats.faults = (uint64_t)more[4];
	return 0;
}

static int same_result(struct setting *s, const char *design, const struct result *r)
{
	const struct result *e = &s->reference;

	if (r->words == e->words && r->distinct == e->distinct && r->sum == e->sum)
		return 0;
	return bench_error(s->b, 0,
			   "%s counted %llu words, %llu distinct; the host program %llu, %llu",
			   design, (unsigned long long)r->words, (unsigned long long)r->distinct,
			   (unsigned long long)e->words, (unsigned long long)e->distinct);
}

/* ---- the table ---- */

struct series {
	const char *design;
	double *seconds;
};

static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

static void report(struct setting *s, struct series *series, double first, double *theirs,
		   unsigned runs, const struct result *r)
{
	const struct sm_space_stats *st = &r->stats;
	const struct sm_histogram *hold = &st->lock.hold[SM_LOCK_WRITE];
	struct bench_row row = {
		.name = series->design,
		.unit = BENCH_SECONDS,
		.ours = series->seconds,
		.n_ours = runs,
		.peer = theirs ? "kernel" : NULL,
		.theirs = theirs,
		.n_theirs = runs,
		.extra = { { "change", "to first",
			     sm__stats_of(series->seconds, runs).mean / first - 1, BENCH_CHANGE },
			   { "mprotects", "mprotects", (double)r->growths, BENCH_COUNT },
			   { "faults", "faults", (double)st->faults, BENCH_COUNT },
			   { "vma_lock_success", "VMA lock", (double)st->vma_lock_success,
			     BENCH_COUNT },
			   { "vma_lock_abort", "abort", (double)st->vma_lock_abort, BENCH_COUNT },
			   { "vma_lock_retry", "retry", (double)st->vma_lock_retry, BENCH_COUNT },
			   { "vma_lock_miss", "miss", (double)st->vma_lock_miss, BENCH_COUNT },
			   { "read_wait_ns", "read wait", (double)st->lock.wait[SM_LOCK_READ].sum,
			     BENCH_NS },
			   { "write_wait_ns", "write wait",
			     (double)st->lock.wait[SM_LOCK_WRITE].sum, BENCH_NS },
			   { "write_hold_ns", "hold", share(hold->sum, hold->count), BENCH_NS } }
	};

	bench_row(s->b, &row);
}

static void report_kernel(struct setting *s, double *seconds, unsigned runs)
{
	struct bench_row row = {
		.name = "kernel",
		.unit = BENCH_SECONDS,
		.ours = seconds,
		.n_ours = runs,
		.extra = { { "mprotects", "mprotects", (double)s->reference.growths, BENCH_COUNT },
			   { "faults", "faults", (double)s->reference.stats.faults, BENCH_COUNT } },
	};

	bench_row(s->b, &row);
}

/* Run number `run` of the reference and of every design. */
static int sample(struct setting *s, struct bench_peer *program, struct series *series, unsigned n,
		  double *theirs, unsigned run)
{
	struct result r;
	int error = run_reference(s, program, &r);

	theirs[run] = r.seconds;
	for (unsigned d = 0; d < n && !error; d++) {
		bench_progress(s->b, series[d].design, run, bench_options(s->b)->runs);
		error = run_space(s, series[d].design, GUEST_PAGES, &r);
		error = error ? error : same_result(s, series[d].design, &r);
		series[d].seconds[run] = r.seconds;
	}
	return error;
}

static int measure(struct setting *s, struct bench_peer *program, struct series *series, unsigned n)
{
	unsigned most = bench_options(s->b)->runs, runs = 0;
	double *theirs = calloc(most, sizeof(double)), first;
	struct result r;
	int error = theirs ? run_reference(s, program, &s->reference) : -ENOMEM;

	for (; runs < most && !bench_enough(s->b, runs) && !error; runs++)
		error = sample(s, program, series, n, theirs, runs);
	first = error || !n ? 1 : sm__stats_of(series[0].seconds, runs).mean;
	for (unsigned d = 0; d < n && runs && !error; d++) {
		error = run_space(s, series[d].design, GUEST_LOCK_STATS, &r);
		if (!error)
			report(s, &series[d], first, theirs, runs, &r);
	}
	if (!error && runs)
		report_kernel(s, theirs, runs);
	free(theirs);
	return error;
}

/* Every preset, then the trees of one generation: what a slow write does to everybody else. */
static const char every[] = "linux-5.19:linux-6.1:linux-6.4-inline:linux-6.4:linux-6.6:linux-6.7:"
			    "linux-6.12:linux-6.15:linux-6.16:linux-6.18:samara:"
			    "linux-6.1,tree=rb:linux-6.1,tree=avl";

static int run_designs(struct setting *s, struct bench_peer *program)
{
	unsigned runs = bench_options(s->b)->runs, n = 0;
	struct series series[GUEST_DESIGNS] = { { 0 } };
	struct guest_designs d;
	int error = 0;

	guest_designs(s->b, every, &d);
	for (unsigned i = 0; d.name[i] && !error; i++) {
		if (!bench_wanted(s->b, d.name[i]))
			continue;
		series[n].design = d.name[i];
		series[n].seconds = calloc(runs, sizeof(double));
		error = series[n++].seconds ? 0 : -ENOMEM;
	}
	if (!error && n)
		error = measure(s, program, series, n);
	for (unsigned i = 0; i < n; i++)
		free(series[i].seconds);
	guest_designs_free(&d);
	return error;
}

static uint64_t text_bytes(const struct bench *b)
{
	return bench_options(b)->quick ? bench_scale(b, TEXT_BYTES) : TEXT_BYTES;
}

/* A new file with a text in it. Return: the descriptor, -errno. */
static int generate_text(struct setting *s)
{
	uint64_t bytes = bench_number(s->b, "bytes", text_bytes(s->b));
	const char *directory;
	int fd, error;

	if (bytes < 1 || bytes > TEXT_MOST)
		return bench_error(s->b, 0, "--bytes takes 1 to %llu",
				   (unsigned long long)TEXT_MOST);
	directory = bench_directory(s->b);
	if (!directory)
		return -EIO;
	snprintf(s->path, sizeof(s->path), "%s/text", directory);
	fd = open(s->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	error = fd < 0 ? -errno : bench_text_write(fd, bytes, 42);
	if (!error)
		return fd;
	if (fd >= 0)
		close(fd);
	return bench_error(s->b, error, "%s", s->path);
}

static int open_text(struct setting *s)
{
	const char *given = bench_text(s->b, "text", NULL);
	struct stat st;

	if (given) {
		snprintf(s->path, sizeof(s->path), "%s", given);
		s->fd = open(given, O_RDONLY | O_CLOEXEC);
		if (s->fd < 0)
			return bench_error(s->b, -errno, "%s", given);
	} else {
		s->fd = generate_text(s);
		if (s->fd < 0)
			return s->fd;
	}
	if (fstat(s->fd, &st))
		return bench_error(s->b, -errno, "%s", s->path);
	if (!S_ISREG(st.st_mode))
		return bench_error(s->b, 0, "%s: not a regular file", s->path);
	s->bytes = (uint64_t)st.st_size;
	return s->bytes ? 0 : bench_error(s->b, 0, "%s: nothing to count", s->path);
}

static int run(struct bench *b)
{
	struct setting s = { .b = b, .fd = -1 };
	struct bench_peer *program = NULL;
	int error;

	s.threads = (unsigned)bench_number(b, "threads", 2 * bench_cpus()->n);
	if (!s.threads || (s.threads > WC_THREADS && bench_text(b, "threads", NULL)))
		return bench_error(b, 0, "--threads takes 1 to %d", WC_THREADS);
	s.threads = s.threads > WC_THREADS ? WC_THREADS : s.threads;
	error = open_text(&s);
	if (!error) {
		program = bench_peer_open(b, "word_count");
		error = program ? run_designs(&s, program)
				: bench_error(b, 0, "the host program is the reference: build it");
	}
	bench_peer_close(program);
	if (s.fd >= 0)
		close(s.fd);
	return error;
}

const struct benchmark bench_word_count = {
	.name = "word-count",
	.summary = "map-reduce word count, arenas growing by mprotect, on every generation",
	.seconds = 120,
	.run = run,
	.flags = { { "threads", BENCH_NUMBER, "map and reduce threads (twice the CPUs)" },
		   { "bytes", BENCH_NUMBER, "size of the generated text (3145728)" },
		   { "text", BENCH_TEXT, "a text file to count instead" },
		   { "designs", BENCH_TEXT, "designs to run, separated by ':'" } },
};
