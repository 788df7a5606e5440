/* SPDX-License-Identifier: MIT */
/*
 * micro.c - page_fault1, page_fault2, page_fault3, mmap1, mmap2, brk1: the
 * field's standard micro-benchmarks by their usual names and units (operations
 * per second and thread), after the tests of these names in will-it-scale; the
 * kernel's side is peers/kernel_micro.c.
 *
 * Ours: spaces with pages (soft backend) throughout; each thread runs guest code with a TLB of its
 * own, and touches a page by translating and storing.
 */
#include "guest.h"
#include "peers/kernel.h"
#include "peers/peer.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RW = PROT_READ | PROT_WRITE, THREADS_MOST = 2 };
#define AREA ((uint64_t)128 << 20)

enum micro_kind { PAGE_FAULT1, PAGE_FAULT2, PAGE_FAULT3, MMAP1, MMAP2, BRK1 };

static const struct {
	const char *name; /* of the kernel's side */
	int flags;
	bool file, touch;
} kinds[] = {
	[PAGE_FAULT1] = { "page_fault1", MAP_PRIVATE | MAP_ANONYMOUS, false, true },
	[PAGE_FAULT2] = { "page_fault2", MAP_PRIVATE, true, true },
	[PAGE_FAULT3] = { "page_fault3", MAP_SHARED, true, true },
	[MMAP1] = { "mmap1", MAP_PRIVATE | MAP_ANONYMOUS, false, false },
	[MMAP2] = { "mmap2", MAP_PRIVATE, true, false },
	[BRK1] = { "brk1", 0, false, false },
};

struct micro {
	enum micro_kind kind;
	struct guest g;
	unsigned threads;
	struct sm_tlb *tlb[THREADS_MOST];
	int error;
};

static void fail(struct micro *m)
{
	__atomic_store_n(&m->error, 1, __ATOMIC_RELAXED); /* read after the join */
}

/* pages of one area, touched in order. */
static bool touch(struct micro *m, struct sm_tlb *tlb, sm_addr base, uint64_t pages)
{
	for (uint64_t i = 0; i < pages; i++) {
		char *p = guest_at(tlb, base + i * KERNEL_PAGE, SM_ACCESS_WRITE);

		if (!p) {
			fail(m);
			return false;
		}
		*p = 1;
		sm_tlb_checkpoint(tlb);
	}
	return true;
}

static void map_work(struct micro *m, struct sm_tlb *tlb, uint64_t n)
{
	bool touched = kinds[m->kind].touch;

	while (n) {
		uint64_t pages = n < AREA / KERNEL_PAGE ? n : AREA / KERNEL_PAGE;
		int64_t base = sm_mmap(m->g.space, 0, AREA, RW, kinds[m->kind].flags,
				       kinds[m->kind].file ? m->g.file : NULL, 0);

		if (base < 0) {
			fail(m);
			return;
		}
		if (touched) {
			sm_tlb_run(tlb);
			if (!touch(m, tlb, (sm_addr)base, pages))
				n = pages;
			sm_tlb_stop(tlb);
		}
		sm_munmap(m->g.space, (sm_addr)base, AREA);
		n -= touched ? pages : 1;
	}
}

static void brk_work(struct micro *m, uint64_t n)
{
	sm_addr end = sm_brk(m->g.space, 0);

	for (uint64_t i = 0; i < n; i++)
		sm_brk(m->g.space, i & 1 ? end : end + KERNEL_PAGE);
}

static void body(void *arg, unsigned thread, uint64_t n)
{
	struct micro *m = arg;

	if (m->kind == BRK1)
		brk_work(m, n);
	else
		map_work(m, m->tlb[thread], n);
}

static uint64_t ours(void *arg, uint64_t n)
{
	struct micro *m = arg;
	uint64_t ns = bench_parallel(m->threads, body, m, n, NULL);

	return m->error ? peer_fail("a call or an access failed") : ns;
}

static int open_micro(struct bench *b, struct micro *m, const char *design)
{
	int error = guest_open(b, design, GUEST_PAGES, &m->g);

	if (!error && kinds[m->kind].file) {
		int fd = kernel_file(KERNEL_PAGE);

		if (fd < 0 || ftruncate(fd, (off_t)AREA))
			error = bench_error(b, 0, "no file of 128 MB: %s", peer_error());
		else
			error = guest_file(b, &m->g, fd);
		if (fd >= 0)
			close(fd);
	}
	for (unsigned t = 0; t < m->threads && !error && kinds[m->kind].touch; t++)
		error = sm_tlb_create(m->g.space, &m->tlb[t]);
	return error;
}

static void close_micro(struct micro *m)
{
	for (unsigned t = 0; t < m->threads; t++) {
		if (m->tlb[t])
			sm_tlb_destroy(m->tlb[t]);
	}
	guest_close(&m->g);
}

static int run_one(struct bench *b, enum micro_kind kind, const char *design, unsigned threads)
{
	struct micro m = { .kind = kind, .threads = threads };
	char name[96], what[32];
	struct bench_case c = { .name = name, .unit = BENCH_OPS };
	int error;

	snprintf(name, sizeof(name), "%s/%u", design, threads);
	if (!bench_wanted(b, name))
		return 0;
	snprintf(what, sizeof(what), "%s/%u", kinds[kind].name, threads);
	error = open_micro(b, &m, design);
	if (!error) {
		c.ours = (struct bench_side){ .name = "samara", .run = ours, .arg = &m };
		c.theirs[0] = bench_kernel_side(b, what);
		error = bench_measure(b, &c);
	}
	close_micro(&m);
	return error;
}

static int run(struct bench *b, enum micro_kind kind)
{
	unsigned most = kind == BRK1 ? 1 : (unsigned)bench_number(b, "threads", THREADS_MOST);
	struct guest_designs d;
	int error = 0;

	if (most < 1 || most > THREADS_MOST)
		return bench_error(b, 0, "--threads takes 1 or 2");
	guest_designs(b, "samara:linux-6.18:linux-6.12:linux-6.1:linux-5.19", &d);
	for (unsigned i = 0; d.name[i] && !error; i++) {
		for (unsigned t = 1; t <= most && !error; t++)
			error = run_one(b, kind, d.name[i], t);
	}
	guest_designs_free(&d);
	return error;
}

#define MICRO(object, kind, text, about)                                                  \
	static int run_##object(struct bench *b)                                          \
	{                                                                                 \
		return run(b, kind);                                                      \
	}                                                                                 \
	const struct benchmark bench_##object = {                                         \
		.name = text,                                                             \
		.summary = about,                                                         \
		.seconds = 15,                                                            \
		.run = run_##object,                                                      \
		.flags = { { "designs", BENCH_TEXT, "designs to run, separated by ':'" }, \
			   { "threads", BENCH_NUMBER, "up to so many threads (2)" } },    \
	};

MICRO(page_fault1, PAGE_FAULT1, "page-fault1",
      "128 MB anonymous, each page written: pages/s/thread")
MICRO(page_fault2, PAGE_FAULT2, "page-fault2", "128 MB of a file, private: pages written/s/thread")
MICRO(page_fault3, PAGE_FAULT3, "page-fault3", "128 MB of a file, shared: pages written/s/thread")
MICRO(mmap1, MMAP1, "mmap1", "mmap and munmap of 128 MB anonymous: pairs/s/thread")
MICRO(mmap2, MMAP2, "mmap2", "mmap and munmap of 128 MB of a file: pairs/s/thread")
MICRO(brk1, BRK1, "brk1", "the break up and down by a page: calls/s")
