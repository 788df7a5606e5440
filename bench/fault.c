/* SPDX-License-Identifier: MIT */
/*
 * fault.c - samara bench fault: page faults, fork, translation and shoot-down, against the running
 * kernel.
 *
 *   anon-fault-warm/T      first write to an anonymous page through a TLB, T threads, in areas of
 *                          1 MiB whose frames were used just before: a page of each thread
 *   anon-fault-large/T     the same in areas of 64 MiB: more than the caches of most CPUs hold
 *   anon-fault-cold/T      the same from a pool that has no host memory yet (private memory)
 *   anon-fault-cold-memfd  the same from a pool in a memfd, whose pages cost the host more
 *   anon-read-fault        first read (shared zero page): a page
 *   file-read-fault        read of a cached file, one fault (16 pages are mapped around): a fault
 *   cow-fault[-anon]       write to a private file page that was read before (to an anonymous page
 *                          that a child shares): a page
 *   fork                   1000 areas, 64 MiB touched: a fork
 *   translate-hit          a hit in the TLB: a translation
 *   translate-chain        a hit and a load whose result is the next address, against the load
 *                          alone: an access
 *   shootdown/R            a touched page is dropped (MADV_DONTNEED) while R threads run guest code
 *                          in the space: a page. The kernel's side: the same call, alone and with a
 *                          second thread that runs
 */
#include "guest.h"
#include "peers/kernel.h"
#include "peers/peer.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	CHUNK_PAGES = 16384,
	WARM_PAGES = 256,
	AROUND = 16,
	MAX_THREADS = 2,
	FORK_AREAS = 1000,
	FORK_MIB = 64
};

static const uint64_t PAGE = KERNEL_PAGE;

enum { RW = SM_PROT_READ | SM_PROT_WRITE, ANON = SM_MAP_PRIVATE | SM_MAP_ANONYMOUS };

struct world {
	struct bench *b;
	struct guest g;
	unsigned threads;
	struct sm_tlb *tlb[MAX_THREADS];
	sm_addr base[MAX_THREADS];
	uint64_t area; /* pages of one, where threads map their own */
	uint64_t ns[MAX_THREADS];
	enum sm_frame_kind frames;
};

static sm_addr map(struct guest *g, uint64_t pages)
{
	int64_t at = sm_mmap(g->space, 0, pages * PAGE, RW, ANON, NULL, 0);

	return at < 0 ? 0 : (sm_addr)at;
}

static void touch(struct sm_tlb *tlb, sm_addr base, uint64_t pages, unsigned stride)
{
	sm_tlb_run(tlb);
	for (uint64_t i = 0; i < pages; i++) {
		volatile char *p = guest_at(tlb, base + i * stride * PAGE, SM_ACCESS_WRITE);

		if (p)
			*p = 1;
	}
	sm_tlb_stop(tlb);
}

static void look(struct sm_tlb *tlb, sm_addr base, uint64_t pages, unsigned stride)
{
	sm_tlb_run(tlb);
	for (uint64_t i = 0; i < pages; i++) {
		const volatile char *p = guest_at(tlb, base + i * stride * PAGE, SM_ACCESS_READ);

		if (p)
			(void)*p;
	}
	sm_tlb_stop(tlb);
}

static void touch_area(void *arg, unsigned thread, uint64_t pages)
{
	struct world *w = arg;

	touch(w->tlb[thread], w->base[thread], pages, 1);
}

/*
 * n pages, an area after the other: map, touch, unmap; only the touches are timed. Threads are far apart, no
 * VMA or table in common.
 */
static void touch_areas(void *arg, unsigned thread, uint64_t n)
{
	struct world *w = arg;
	uint64_t ns = 0;

	while (n) {
		uint64_t pages = n < w->area ? n : w->area, start;
		int64_t got = sm_mmap(w->g.space, (1ull << 44) + ((sm_addr)thread << 30),
				      w->area * PAGE, RW, ANON, NULL, 0);
		sm_addr at = (sm_addr)got;

		if (got < 0) {
			ns = UINT64_MAX;
			break;
		}
		start = bench_now();
		touch(w->tlb[thread], at, pages, 1);
		ns += bench_now() - start;
		sm_munmap(w->g.space, at, w->area * PAGE);
		n -= pages;
	}
	w->ns[thread] = ns;
}

/* n pages for each thread; the time of the slowest. */
static uint64_t anon_areas(void *arg, uint64_t n)
{
	struct world *w = arg;
	uint64_t ns = 0;

	(void)bench_parallel(w->threads, touch_areas, w, n, NULL);
	for (unsigned t = 0; t < w->threads; t++)
		ns = w->ns[t] > ns ? w->ns[t] : ns;
	return ns;
}

/*
 * A virtual machine's host may have taken back what the machine had free, and then takes microseconds a
 * page to bring it again. Memory that was used a moment ago is there, and the pool gets some of it next: with
 * as much as it takes the samples of two threads spread by 10 to 50 %, with four times that by 3 %.
 */
static void use_memory(uint64_t bytes)
{
	enum { LARGE = 2 << 20 };
	void *p = mmap(NULL, bytes + LARGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return;
	(void)madvise(p, bytes + LARGE, MADV_HUGEPAGE);
	(void)madvise(p, bytes + LARGE, MADV_POPULATE_WRITE);
	munmap(p, bytes + LARGE);
}

/* A space of its own, in a host whose pool is empty. */
static bool open_cold(struct world *w)
{
	struct sm_host_options host;
	struct sm_space_options space;

	sm_host_options_init(&host);
	host.frames = w->frames;
	host.frame_bytes = 1ull << 30;
	sm_space_options_init(&space);
	space.backend = SM_BACKEND_SOFT;
	w->g.host = sm_host_create(&host, NULL);
	w->g.space = w->g.host ? sm_space_create(w->g.host, &space, NULL) : NULL;
	for (unsigned t = 0; w->g.space && t < w->threads; t++)
		if (sm_tlb_create(w->g.space, &w->tlb[t]))
			return false;
	return w->g.space;
}

static void close_cold(struct world *w)
{
	for (unsigned t = 0; t < w->threads; t++)
		sm_tlb_destroy(w->tlb[t]);
	guest_close(&w->g);
}

static uint64_t anon_cold(void *arg, uint64_t n)
{
	struct world w = *(struct world *)arg;
	uint64_t ns = 0;

	while (n) {
		uint64_t pages = n < CHUNK_PAGES ? n : CHUNK_PAGES;

		if (w.frames == SM_FRAMES_PRIVATE)
			use_memory(4 * w.threads * CHUNK_PAGES * PAGE);
		if (!open_cold(&w))
			return UINT64_MAX;
		for (unsigned t = 0; t < w.threads; t++)
			w.base[t] = map(&w.g, CHUNK_PAGES);
		ns += bench_parallel(w.threads, touch_area, &w, pages, NULL);
		close_cold(&w);
		n -= pages;
	}
	return ns;
}

static uint64_t anon_read(void *arg, uint64_t n)
{
	struct world *w = arg;
	uint64_t ns = 0;

	while (n) {
		uint64_t pages = n < CHUNK_PAGES ? n : CHUNK_PAGES, start;
		sm_addr at = map(&w->g, CHUNK_PAGES);

		start = bench_now();
		look(w->tlb[0], at, pages, 1);
		ns += bench_now() - start;
		sm_munmap(w->g.space, at, CHUNK_PAGES * PAGE);
		n -= pages;
	}
	return ns;
}

static uint64_t on_file(struct world *w, uint64_t n, unsigned stride, bool write)
{
	uint64_t ns = 0;

	while (n) {
		uint64_t most = CHUNK_PAGES / stride, pages = n < most ? n : most, start;
		int64_t at = sm_mmap(w->g.space, 0, CHUNK_PAGES * PAGE, RW, SM_MAP_PRIVATE,
				     w->g.file, 0);

		if (at < 0)
			return UINT64_MAX;
		if (write)
			look(w->tlb[0], (sm_addr)at, pages, stride);
		start = bench_now();
		if (write)
			touch(w->tlb[0], (sm_addr)at, pages, stride);
		else
			look(w->tlb[0], (sm_addr)at, pages, stride);
		ns += bench_now() - start;
		sm_munmap(w->g.space, (sm_addr)at, CHUNK_PAGES * PAGE);
		n -= pages;
	}
	return ns;
}

static uint64_t file_read(void *arg, uint64_t n)
{
	return on_file(arg, n, AROUND, false);
}

static uint64_t cow_file(void *arg, uint64_t n)
{
	return on_file(arg, n, 1, true);
}

static uint64_t cow_anon(void *arg, uint64_t n)
{
	struct world *w = arg;
	uint64_t ns = 0;

	while (n) {
		uint64_t pages = n < CHUNK_PAGES ? n : CHUNK_PAGES, start;
		sm_addr at = map(&w->g, pages);
		struct sm_space *child;

		touch(w->tlb[0], at, pages, 1);
		child = sm_fork(w->g.space);
		if (!child)
			return UINT64_MAX;
		start = bench_now();
		touch(w->tlb[0], at, pages, 1);
		ns += bench_now() - start;
		sm_space_destroy(child);
		sm_munmap(w->g.space, at, pages * PAGE);
		n -= pages;
	}
	return ns;
}

static uint64_t fork_space(void *arg, uint64_t n)
{
	struct world *w = arg;
	uint64_t ns = 0;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t start = bench_now();
		struct sm_space *child = sm_fork(w->g.space);

		ns += bench_now() - start;
		if (!child)
			return UINT64_MAX;
		sm_space_destroy(child);
	}
	return ns;
}

/* Areas of equal size with a one-page hole after each, all touched. */
static void make_areas(struct world *w, sm_addr base)
{
	uint64_t each = ((uint64_t)FORK_MIB << 20) / FORK_AREAS / PAGE;

	for (uint64_t i = 0; i < FORK_AREAS; i++) {
		sm_addr at = base + i * (each + 1) * PAGE;

		(void)sm_mmap(w->g.space, at, each * PAGE, RW, ANON | SM_MAP_FIXED, NULL, 0);
		touch(w->tlb[0], at, each, 1);
	}
}

enum { HOT_PAGES = 128, LINE = 64 };

/* Where on the page: each on another line of the cache's sets. */
static uint64_t place(uint64_t i)
{
	return i * PAGE + i % (PAGE / LINE) * LINE;
}

static uint64_t next_place(uint64_t i)
{
	return place((i * 61 + 7) % HOT_PAGES);
}

/* One translation after the other, none waiting for another's result. */
static uint64_t translate_hit(void *arg, uint64_t n)
{
	struct world *w = arg;
	struct sm_tlb *tlb = w->tlb[0];
	sm_addr at = w->base[0];
	uint64_t start;

	touch(tlb, at, HOT_PAGES, 1);
	sm_tlb_run(tlb);
	start = bench_now();
	for (uint64_t i = 0; i < n; i++)
		BENCH_KEEP(guest_at(tlb, at + i % HOT_PAGES * PAGE, SM_ACCESS_READ));
	start = bench_now() - start;
	sm_tlb_stop(tlb);
	return start;
}

/* Each address is made of what was read at the last, so that nothing overlaps. */
static uint64_t translate_chain(void *arg, uint64_t n)
{
	struct world *w = arg;
	sm_addr at = w->base[0], offset = 0;
	uint64_t start;

	touch(w->tlb[0], at, HOT_PAGES, 1);
	sm_tlb_run(w->tlb[0]);
	for (uint64_t i = 0; i < HOT_PAGES; i++)
		*(uint64_t *)guest_at(w->tlb[0], at + place(i), SM_ACCESS_WRITE) = next_place(i);
	start = bench_now();
	for (uint64_t i = 0; i < n; i++)
		offset = *(uint64_t *)guest_at(w->tlb[0], at + offset, SM_ACCESS_READ);
	start = bench_now() - start;
	sm_tlb_stop(w->tlb[0]);
	BENCH_KEEP(offset);
	return start;
}

/* The same without a TLB: what is left of a chain of loads is not the library's. */
static uint64_t plain_load(void *arg, uint64_t n)
{
	uint64_t offset = 0, start;
	char *host;

	(void)arg;
	host = malloc(HOT_PAGES * PAGE);
	if (!host)
		return UINT64_MAX;
	for (uint64_t i = 0; i < HOT_PAGES; i++)
		*(uint64_t *)(host + place(i)) = next_place(i);
	start = bench_now();
	for (uint64_t i = 0; i < n; i++) {
		offset = *(volatile uint64_t *)(host + offset);
		BENCH_KEEP(offset);
	}
	start = bench_now() - start;
	free(host);
	return start;
}

struct runner {
	struct sm_tlb *tlb;
	sm_addr at;
	bool wanders;
};

/* Guest code on a page of its own: a checkpoint every few instructions, as a block-wise emulator
 * has. */
static void run_guest(void *arg, const bool *stop)
{
	struct runner *r = arg;
	cpu_set_t any;

	/* Several guests must not share one CPU while the one of the waiting thread is idle. */
	CPU_ZERO(&any);
	for (unsigned i = 0; i < bench_cpus()->n; i++)
		CPU_SET(bench_cpus()->cpu[i], &any);
	if (r->wanders)
		sched_setaffinity(0, sizeof(any), &any);
	sm_tlb_run(r->tlb);
	while (!bench_stopped(stop)) {
		for (int i = 0; i < 16; i++) {
			volatile uint64_t *p = guest_at(r->tlb, r->at, SM_ACCESS_WRITE);

			if (p)
				++*p;
		}
		sm_tlb_checkpoint(r->tlb);
	}
	sm_tlb_stop(r->tlb);
}

static uint64_t shoot_pages(struct world *w, uint64_t n)
{
	uint64_t ns = 0;

	while (n) {
		uint64_t pages = n < 1024 ? n : 1024, start;

		touch(w->tlb[0], w->base[0], pages, 1);
		start = bench_now();
		for (uint64_t i = 0; i < pages; i++)
			(void)sm_madvise(w->g.space, w->base[0] + i * PAGE, PAGE, SM_MADV_DONTNEED);
		ns += bench_now() - start;
		n -= pages;
	}
	return ns;
}

static uint64_t shootdown(void *arg, uint64_t n)
{
	struct world *w = arg;
	struct runner r[MAX_THREADS] = { { NULL, 0, false } };
	struct bench_beside *beside[MAX_THREADS] = { NULL };
	uint64_t ns;

	for (unsigned t = 0; t < w->threads; t++) {
		r[t].at = map(&w->g, 1);
		r[t].wanders = w->threads > 1;
		if (sm_tlb_create(w->g.space, &r[t].tlb))
			return UINT64_MAX;
		beside[t] = bench_beside_start(run_guest, &r[t]);
	}
	ns = shoot_pages(w, n);
	for (unsigned t = 0; t < w->threads; t++) {
		if (beside[t])
			bench_beside_stop(beside[t]);
		sm_tlb_destroy(r[t].tlb);
		sm_munmap(w->g.space, r[t].at, PAGE);
	}
	return ns;
}

/* ---------------------------------------------------------------- the cases */

static void measure(struct world *w, const char *name, uint64_t (*ours)(void *, uint64_t),
		    const char *kernel, uint64_t n)
{
	struct bench_case c = { .name = name,
				.unit = BENCH_NS,
				.n = n,
				.ours = { .name = "samara", .run = ours, .arg = w } };

	if (kernel)
		c.theirs[0] = bench_kernel_side(w->b, kernel);
	bench_measure(w->b, &c);
}

static void faults(struct world *w)
{
	for (w->threads = 1; w->threads <= MAX_THREADS; w->threads++) {
		char kernel[32], name[32];

		snprintf(kernel, sizeof(kernel), "anon-fault/%u,%d", w->threads, WARM_PAGES);
		snprintf(name, sizeof(name), "anon-fault-warm/%u", w->threads);
		w->area = WARM_PAGES;
		measure(w, name, anon_areas, kernel, 0);
		snprintf(kernel, sizeof(kernel), "anon-fault/%u", w->threads);
		snprintf(name, sizeof(name), "anon-fault-large/%u", w->threads);
		w->area = CHUNK_PAGES;
		measure(w, name, anon_areas, kernel, 0);
		w->frames = SM_FRAMES_PRIVATE;
		snprintf(name, sizeof(name), "anon-fault-cold/%u", w->threads);
		measure(w, name, anon_cold, kernel, bench_scale(w->b, CHUNK_PAGES));
	}
	w->threads = 1;
	w->frames = SM_FRAMES_MEMFD;
	measure(w, "anon-fault-cold-memfd", anon_cold, "anon-fault/1",
		bench_scale(w->b, CHUNK_PAGES));
	measure(w, "anon-read-fault", anon_read, "anon-read-fault", 0);
	measure(w, "cow-fault-anon", cow_anon, "cow-fault/anon", 0);
}

static void shootdowns(struct world *w)
{
	w->base[0] = map(&w->g, 1024);
	for (unsigned running = 0; running <= MAX_THREADS; running++) {
		char name[32];

		w->threads = running;
		snprintf(name, sizeof(name), "shootdown/%u", running);
		measure(w, name, shootdown,
			running ? "madvise/DONTNEED/0/tlb" : "madvise/DONTNEED/0", 0);
	}
	sm_munmap(w->g.space, w->base[0], 1024 * PAGE);
}

static int on_files(struct world *w)
{
	int fd = kernel_file(CHUNK_PAGES * PAGE), err;

	if (fd < 0)
		return bench_error(w->b, 0, "no file to map: %s", peer_error());
	err = guest_file(w->b, &w->g, fd);
	close(fd);
	if (err)
		return err;
	/* The first pass fills the page cache. */
	(void)on_file(w, CHUNK_PAGES / AROUND, AROUND, false);
	measure(w, "file-read-fault", file_read, "file-read-fault", 0);
	measure(w, "cow-fault", cow_file, "cow-fault", 0);
	return 0;
}

static int forks(struct world *w)
{
	sm_addr base = map(&w->g, 32768);

	sm_munmap(w->g.space, base, 32768 * PAGE);
	make_areas(w, base);
	measure(w, "fork", fork_space, "fork", 0);
	sm_munmap(w->g.space, base, 32768 * PAGE);
	return 0;
}

static int run(struct bench *b)
{
	struct world w = { .b = b };
	struct bench_case chain = { .name = "translate-chain", .unit = BENCH_NS };
	int err = guest_open(b, bench_text(b, "design", "samara"), GUEST_PAGES, &w.g);

	for (unsigned t = 0; !err && t < MAX_THREADS; t++)
		err = sm_tlb_create(w.g.space, &w.tlb[t]);
	if (!err) {
		faults(&w);
		err = on_files(&w);
	}
	if (!err) {
		forks(&w);
		w.base[0] = map(&w.g, HOT_PAGES);
		measure(&w, "translate-hit", translate_hit, NULL, 0);
		chain.ours =
			(struct bench_side){ .name = "samara", .run = translate_chain, .arg = &w };
		chain.theirs[0] = (struct bench_side){ .name = "plain load", .run = plain_load };
		bench_measure(b, &chain);
		shootdowns(&w);
		bench_note(b, "cold: the pool gets its memory from the host while it is measured, "
			      "2 MiB at a time");
	}
	for (unsigned t = 0; t < MAX_THREADS; t++)
		if (w.tlb[t])
			sm_tlb_destroy(w.tlb[t]);
	guest_close(&w.g);
	return err;
}

const struct benchmark bench_fault = {
	.name = "fault",
	.summary = "page faults, fork, translation and shoot-down, against the running kernel",
	.seconds = 45,
	.run = run,
	.flags = { { "design", BENCH_TEXT, "the design of the spaces; default samara" } },
};
