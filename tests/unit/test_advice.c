/* SPDX-License-Identifier: MIT */
/*
 * Advice beyond what the kernel's record answers (tests/kernel): stages, rights, notices, names, reclaim
 * and swap, equal pages, huge pages, broken pages, exhaustion. Numbers are those of advice.h and
 * process_madvise.c.
 */
#include "samara/samara.h"
#include "samara/tlb.h"

#include "base/inject.h"
#include "space/soft.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

enum { PAGE = 4096 };
#define HUGE (2ull << 20)
#define BASE 0x100000000000ull

static struct sm_host *host;

static int make_host(void **state)
{
	struct sm_host_options o;

	(void)state;
	sm_host_options_init(&o);
	o.frame_bytes = 64ull << 20;
	host = sm_host_create(&o, NULL);
	return !host;
}

/* Every frame has come back, but for page tables that wait for a grace period. */
static int drop_host(void **state)
{
	(void)state;
	return sm_host_destroy(host);
}

static struct sm_space *new_space(const char *design)
{
	struct sm_space_options o;
	struct sm_space *s;

	sm_space_options_init(&o);
	o.range_end &= ~0xffffull; /* a page boundary for every page size */
	o.backend = SM_BACKEND_SOFT;
	o.capabilities = SM_CAP_NICE | SM_CAP_ADMIN | SM_CAP_IPC_LOCK;
	assert_int_equal(sm_design_parse(design, &o.design, NULL, 0), 0);
	s = sm_space_create(host, &o, NULL);
	assert_non_null(s);
	return s;
}

static void map_pages(struct sm_space *s, sm_addr at, uint64_t bytes)
{
	assert_int_equal(sm_mmap(s, at, bytes, SM_PROT_READ | SM_PROT_WRITE,
				 SM_MAP_PRIVATE | SM_MAP_ANONYMOUS | SM_MAP_FIXED, NULL, 0),
			 at);
}

static void put_token(struct sm_space *s, sm_addr at, uint64_t token)
{
	assert_int_equal(sm_write(s, at, &token, sizeof(token), NULL), sizeof(token));
}

static uint64_t get_token(struct sm_space *s, sm_addr at)
{
	uint64_t token = 0;

	assert_int_equal(sm_read(s, at, &token, sizeof(token), NULL), sizeof(token));
	return token;
}

static unsigned count_present(struct sm_space *s, sm_addr at, unsigned pages)
{
	unsigned char vec[2048];
	unsigned n = 0;

	assert_int_equal(sm_mincore(s, at, (uint64_t)pages * PAGE, vec), 0);
	for (unsigned i = 0; i < pages; i++)
		n += vec[i] & 1;
	return n;
}

static uint64_t frames_in_use(void)
{
	struct sm__pool_stats stats;

	sm__pool_stats(sm__host_memory(host)->pool, &stats);
	return stats.in_use;
}

/* ---------------------------------------------------------------- stages */

/* process_madvise.c I4: every stage answers the same and leaves the same pages. */
static void stages_agree(void **state)
{
	static const char *const designs[] = { "advice=per-range", "advice=batched-lock",
					       "advice=batched",   "advice=vma-lock+batched",
					       "linux-5.19",	   "linux-6.1,advice=batched" };
	/* page, pages: two VMAs in one, a hole, and what is behind it */
	static const struct {
		uint64_t page, pages;
		int64_t done; /* of the vector up to here */
	} steps[] = { { 0, 1, 1 }, { 2, 1, 2 }, { 3, 2, 4 }, { 7, 1, 5 },
		      { 4, 4, 9 }, { 9, 2, 9 }, { 12, 1, 9 } };

	(void)state;
	for (size_t d = 0; d < sizeof(designs) / sizeof(designs[0]); d++) {
		struct sm_space *s = new_space(designs[d]);
		struct sm_range v[7];

		map_pages(s, BASE, 16 * PAGE);
		assert_int_equal(sm_madvise(s, BASE + 4 * PAGE, 4 * PAGE, SM_MADV_RANDOM), 0);
		assert_int_equal(sm_munmap(s, BASE + 10 * PAGE, PAGE), 0);
		for (unsigned i = 0; i < 16; i++)
			if (i != 10)
				put_token(s, BASE + i * PAGE, i + 1);
		for (unsigned i = 0; i < 7; i++)
			v[i] = (struct sm_range){ BASE + steps[i].page * PAGE,
						  steps[i].pages * PAGE };
		assert_int_equal(sm_process_madvise(s, s, v, 7, SM_MADV_DONTNEED, 0), 9 * PAGE);
		for (unsigned i = 0; i < 16; i++)
			if (i != 10)
				assert_int_equal(get_token(s, BASE + i * PAGE),
						 i == 1 || i == 8 || i > 10 ? i + 1 : 0);
		/* the failing range alone: its mapped part is done, nothing is counted */
		put_token(s, BASE + 9 * PAGE, 77);
		assert_int_equal(sm_process_madvise(s, s, &v[5], 2, SM_MADV_DONTNEED, 0), -ENOMEM);
		assert_int_equal(get_token(s, BASE + 9 * PAGE), 0);
		assert_int_equal(get_token(s, BASE + 12 * PAGE), 13);
		sm_space_destroy(s);
	}
}

/* How often a vector of n ranges takes mmap_lock for reading, and how often it shoots down. */
static void count_locks(const char *design, bool two_vmas, uint64_t *locks, uint64_t *shots)
{
	struct sm_space_options o;
	struct sm_space_stats before, after;
	struct sm_range v[16];
	struct sm_space *s;
	struct sm_tlb *tlb;
	uint64_t shot;

	sm_space_options_init(&o);
	o.backend = SM_BACKEND_SOFT;
	o.lock_stats = true;
	assert_int_equal(sm_design_parse(design, &o.design, NULL, 0), 0);
	s = sm_space_create(host, &o, NULL);
	assert_non_null(s);
	map_pages(s, BASE, 32 * PAGE);
	assert_int_equal(sm_tlb_create(s, &tlb), 0);
	for (unsigned i = 0; i < 32; i++)
		put_token(s, BASE + i * PAGE, 1);
	assert_int_equal(sm_madvise(s, BASE + 16 * PAGE, 16 * PAGE, SM_MADV_RANDOM), 0);
	for (unsigned i = 0; i < 16; i++)
		v[i] = (struct sm_range){ BASE + 2 * i * PAGE, PAGE };
	/* the fifth reaches over the border of the two VMAs */
	if (two_vmas)
		v[4] = (struct sm_range){ BASE + 15 * PAGE, 2 * PAGE };
	sm_space_stats(s, &before);
	shot = atomic_load(&sm__space_mm(s)->tlb.shots);
	assert_true(sm_process_madvise(s, s, v, 16, SM_MADV_DONTNEED, 0) >= 16 * PAGE);
	*shots = atomic_load(&sm__space_mm(s)->tlb.shots) - shot;
	sm_space_stats(s, &after);
	/* the figures themselves take the lock once */
	*locks = after.lock.acquired[SM_LOCK_READ] - before.lock.acquired[SM_LOCK_READ] - 1;
	sm_tlb_destroy(tlb);
	sm_space_destroy(s);
}

/* process_madvise.c, the table of stages; advice.h I2. */
static void stages_lock_and_flush_as_they_say(void **state)
{
	static const struct {
		const char *design;
		bool two_vmas;
		uint64_t locks, shots;
	} rows[] = {
		{ "advice=per-range", false, 16, 16 },
		{ "advice=batched-lock", false, 1, 16 },
		/* two flushes for the border, none for page 16, which is gone by then */
		{ "advice=batched-lock", true, 1, 16 },
		{ "advice=batched", false, 1, 1 },
		{ "advice=batched", true, 1, 1 },
		{ "advice=vma-lock+batched", false, 0, 1 },
		/* once it fell back it stays with mmap_lock, taken once */
		{ "advice=vma-lock+batched", true, 1, 1 },
		{ "linux-5.19", false, 16, 16 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t locks, shots;

		count_locks(rows[i].design, rows[i].two_vmas, &locks, &shots);
		if (locks != rows[i].locks || shots != rows[i].shots)
			fail_msg("%s: %llu locks, %llu shots", rows[i].design,
				 (unsigned long long)locks, (unsigned long long)shots);
	}
}

static int refuse(void *arg, struct sm_space *caller, struct sm_space *target)
{
	assert_ptr_not_equal(caller, target);
	return *(int *)arg;
}

static void rights(void **state)
{
	struct sm_space *s = new_space("samara"), *other = new_space("samara"), *weak;
	const struct sm_range v = { BASE, PAGE };
	struct sm_space_options o;
	int answer = -EACCES;

	(void)state;
	map_pages(other, BASE, 4 * PAGE);
	other->o.may_advise = refuse;
	other->o.may_advise_arg = &answer;
	assert_int_equal(sm_process_madvise(s, other, &v, 1, SM_MADV_COLD, 0), -EACCES);
	assert_int_equal(sm_process_madvise(s, other, &v, 1, SM_MADV_DONTNEED, 0), -EACCES);
	answer = 0;
	assert_int_equal(sm_process_madvise(s, other, &v, 1, SM_MADV_COLD, 0), PAGE);
	assert_int_equal(sm_process_madvise(s, other, &v, 1, SM_MADV_DONTNEED, 0), -EINVAL);
	sm_space_options_init(&o);
	weak = sm_space_create(host, &o, NULL);
	assert_int_equal(sm_process_madvise(weak, other, &v, 1, SM_MADV_COLD, 0), -EPERM);
	/* the embedder is asked nothing, and is another all the same */
	answer = -EACCES;
	assert_int_equal(sm_process_madvise(NULL, other, &v, 1, SM_MADV_PAGEOUT, 0), PAGE);
	assert_int_equal(sm_process_madvise(NULL, other, &v, 1, SM_MADV_FREE, 0), -EINVAL);
	sm_space_destroy(weak);
	sm_space_destroy(other);
	sm_space_destroy(s);
}

struct told {
	unsigned n;
	sm_addr start, end;
};

static void tell(void *arg, enum sm_notice what, sm_addr start, sm_addr end)
{
	struct told *t = arg;

	assert_int_equal(what, SM_NOTICE_DISCARD);
	t->n++;
	t->start = start;
	t->end = end;
}

static void notices(void **state)
{
	struct sm_space *s = new_space("samara");
	struct told t = { 0 };

	(void)state;
	map_pages(s, BASE, 8 * PAGE);
	s->o.notifier = (struct sm_notifier){ tell, &t };
	sm_madvise(s, BASE, 8 * PAGE, SM_MADV_RANDOM);
	sm_madvise(s, BASE, 8 * PAGE, SM_MADV_COLD);
	sm_madvise(s, BASE, 8 * PAGE, SM_MADV_WILLNEED);
	assert_int_equal(t.n, 0);
	sm_madvise(s, BASE + PAGE, 2 * PAGE, SM_MADV_DONTNEED);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.start, BASE + PAGE);
	assert_int_equal(t.end, BASE + 3 * PAGE);
	sm_madvise(s, BASE, PAGE, SM_MADV_GUARD_INSTALL);
	assert_int_equal(t.n, 2);
	s->o.notifier = (struct sm_notifier){ NULL, NULL };
	sm_space_destroy(s);
}

static void names(void **state)
{
	struct sm_space *s = new_space("samara");
	struct sm_vma_info info;
	char longest[82];

	(void)state;
	memset(longest, 'x', sizeof(longest));
	longest[80] = '\0';
	map_pages(s, BASE, 8 * PAGE);
	assert_int_equal(sm_set_anon_name(s, BASE, PAGE, longest), -EINVAL);
	longest[79] = '\0';
	assert_int_equal(sm_set_anon_name(s, BASE, PAGE, longest), 0);
	assert_int_equal(sm_set_anon_name(s, BASE, PAGE, "a[b"), -EINVAL);
	assert_int_equal(sm_set_anon_name(s, BASE + 1, PAGE, "a"), -EINVAL);
	assert_int_equal(sm_set_anon_name(s, BASE + 2 * PAGE, 2 * PAGE, "heap"), 0);
	assert_int_equal(sm_lookup(s, BASE + 3 * PAGE, &info), 0);
	assert_string_equal(info.name, "heap");
	assert_int_equal(info.end - info.start, 2 * PAGE);
	/* equal names merge, and taking them away merges with the rest */
	assert_int_equal(sm_set_anon_name(s, BASE + 4 * PAGE, 2 * PAGE, "heap"), 0);
	assert_int_equal(sm_lookup(s, BASE + 3 * PAGE, &info), 0);
	assert_int_equal(info.end - info.start, 4 * PAGE);
	assert_int_equal(sm_munmap(s, BASE + 7 * PAGE, PAGE), 0);
	assert_int_equal(sm_set_anon_name(s, BASE, 8 * PAGE, NULL), -ENOMEM);
	assert_int_equal(sm_lookup(s, BASE, &info), 0);
	assert_int_equal(info.end - info.start, 7 * PAGE);
	assert_string_equal(info.name, "");
	sm_space_destroy(s);
}

/* ---------------------------------------------------------------- reclaim */

static void swap_on(void)
{
	int fd = memfd_create("swap", 0);

	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	assert_int_equal(sm_host_swap_on(host, fd, PAGE), -EINVAL);
	assert_int_equal(sm_host_swap_on(host, fd, 1 << 20), 0);
	assert_int_equal(sm_host_swap_on(host, fd, 1 << 20), -EBUSY);
	close(fd);
}

/* reclaim.c: COLD pages go first; what comes back is what went. */
static void cold_pages_go_first(void **state)
{
	struct sm_space *s = new_space("samara");
	unsigned char vec[64];

	(void)state;
	swap_on();
	map_pages(s, BASE, 64 * PAGE);
	for (unsigned i = 0; i < 64; i++)
		put_token(s, BASE + i * PAGE, 1000 + i);
	assert_int_equal(sm_madvise(s, BASE + 16 * PAGE, 16 * PAGE, SM_MADV_COLD), 0);
	assert_int_equal(sm_reclaim(host, 16), 16);
	assert_int_equal(sm_mincore(s, BASE, 64 * PAGE, vec), 0);
	for (unsigned i = 0; i < 64; i++)
		assert_int_equal(vec[i] & 1, i < 16 || i >= 32);
	/* everything is idle after a look: the second takes it */
	assert_int_equal(sm_reclaim(host, 1000), 48);
	assert_int_equal(count_present(s, BASE, 64), 0);
	assert_int_equal(sm_madvise(s, BASE, 8 * PAGE, SM_MADV_WILLNEED), 0);
	assert_int_equal(count_present(s, BASE, 64), 8);
	for (unsigned i = 0; i < 64; i++)
		assert_int_equal(get_token(s, BASE + i * PAGE), 1000 + i);
	/* DONTNEED and FREE forget swapped pages */
	assert_int_equal(sm_madvise(s, BASE, 64 * PAGE, SM_MADV_PAGEOUT), 0);
	assert_int_equal(count_present(s, BASE, 64), 0);
	assert_int_equal(sm_madvise(s, BASE, 32 * PAGE, SM_MADV_DONTNEED), 0);
	assert_int_equal(sm_madvise(s, BASE + 32 * PAGE, 32 * PAGE, SM_MADV_FREE), 0);
	for (unsigned i = 0; i < 64; i++)
		assert_int_equal(get_token(s, BASE + i * PAGE), 0);
	assert_int_equal(sm__swap_used(sm__host_memory(host)), 0);
	sm_space_destroy(s);
}

/* Without swap: FREE keeps pages until reclaim, a write revives them; locked ones stay. */
static void lazily_freed_pages(void **state)
{
	struct sm_space *s = new_space("samara");

	(void)state;
	map_pages(s, BASE, 32 * PAGE);
	for (unsigned i = 0; i < 32; i++)
		put_token(s, BASE + i * PAGE, 1 + i);
	assert_int_equal(sm_mlock(s, BASE + 24 * PAGE, 8 * PAGE), 0);
	assert_int_equal(sm_reclaim(host, 1000), 0);
	assert_int_equal(sm_madvise(s, BASE, 16 * PAGE, SM_MADV_FREE), 0);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(get_token(s, BASE + i * PAGE), 1 + i);
	put_token(s, BASE + 3 * PAGE, 333);
	assert_int_equal(sm_reclaim(host, 1000), 15);
	for (unsigned i = 0; i < 32; i++)
		assert_int_equal(get_token(s, BASE + i * PAGE), i == 3 ? 333 : i < 16 ? 0 : 1 + i);
	sm_space_destroy(s);
}

static void droppable_pages_are_dropped(void **state)
{
	struct sm_space *s = new_space("samara");

	(void)state;
	assert_int_equal(sm_mmap(s, BASE, 4 * PAGE, SM_PROT_READ | SM_PROT_WRITE,
				 SM_MAP_DROPPABLE | SM_MAP_ANONYMOUS | SM_MAP_FIXED, NULL, 0),
			 BASE);
	put_token(s, BASE, 5);
	assert_int_equal(sm_reclaim(host, 1), 1);
	assert_int_equal(get_token(s, BASE), 0);
	sm_space_destroy(s);
}

/* ---------------------------------------------------------------- equal pages */

static void fill_page(struct sm_space *s, sm_addr at, int byte)
{
	char page[PAGE];

	memset(page, byte, sizeof(page));
	assert_int_equal(sm_write(s, at, page, sizeof(page), NULL), PAGE);
}

static void equal_pages_become_one(void **state)
{
	struct sm_space *a = new_space("samara"), *b = new_space("linux-5.19");
	uint64_t before;

	(void)state;
	map_pages(a, BASE, 16 * PAGE);
	map_pages(b, BASE, 16 * PAGE);
	for (unsigned i = 0; i < 16; i++) {
		fill_page(a, BASE + i * PAGE, 'a' + i % 4);
		fill_page(b, BASE + i * PAGE, 'a' + i % 4);
	}
	assert_int_equal(sm_merge_pass(host), 0);
	assert_int_equal(sm_madvise(a, BASE, 16 * PAGE, SM_MADV_MERGEABLE), 0);
	assert_int_equal(sm_madvise(b, BASE, 12 * PAGE, SM_MADV_MERGEABLE), 0);
	before = frames_in_use();
	assert_int_equal(sm_merge_pass(host), 28 - 4);
	assert_int_equal(before - frames_in_use(), 24);
	assert_int_equal(sm_merge_pass(host), 0);
	for (unsigned i = 0; i < 16; i++) {
		assert_int_equal(get_token(a, BASE + i * PAGE) & 0xff, 'a' + i % 4);
		assert_int_equal(get_token(b, BASE + i * PAGE) & 0xff, 'a' + i % 4);
	}
	/* a write makes an own page, and only the writer sees it */
	put_token(a, BASE, 1);
	assert_int_equal(get_token(a, BASE + 4 * PAGE) & 0xff, 'a');
	assert_int_equal(get_token(b, BASE) & 0xff, 'a');
	assert_int_equal(before - frames_in_use(), 23);
	/* a page that becomes equal again joins the merged ones of an earlier pass */
	fill_page(a, BASE, 'a');
	assert_int_equal(sm_merge_pass(host), 1);
	/* and every page is its own again, read-only areas too */
	assert_int_equal(sm_mprotect(b, BASE, 4 * PAGE, SM_PROT_READ), 0);
	assert_int_equal(sm_madvise(a, BASE, 16 * PAGE, SM_MADV_UNMERGEABLE), 0);
	assert_int_equal(sm_madvise(b, BASE, 12 * PAGE, SM_MADV_UNMERGEABLE), 0);
	assert_int_equal(frames_in_use(), before);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(get_token(b, BASE + i * PAGE) & 0xff, 'a' + i % 4);
	sm_space_destroy(b);
	sm_space_destroy(a);
}

/* ---------------------------------------------------------------- huge pages */

static void huge_pages_split(void **state)
{
	struct sm_space *s = new_space("samara"), *child;
	sm_addr at = BASE + 3 * HUGE;
	uint64_t before;

	(void)state;
	map_pages(s, at, HUGE);
	assert_int_equal(sm_madvise(s, at, HUGE, SM_MADV_HUGEPAGE), 0);
	before = frames_in_use();
	put_token(s, at, 1);
	assert_int_equal(count_present(s, at, 512), 512);
	for (unsigned i = 0; i < 512; i++)
		put_token(s, at + i * PAGE, 1 + i);
	assert_int_equal(sm_madvise(s, at + 7 * PAGE, 3 * PAGE, SM_MADV_DONTNEED), 0);
	assert_int_equal(sm_munmap(s, at + 100 * PAGE, 50 * PAGE), 0);
	child = sm_fork(s);
	assert_non_null(child);
	put_token(s, at + 20 * PAGE, 99);
	for (unsigned i = 0; i < 512; i++) {
		uint64_t token = i >= 7 && i < 10 ? 0 : 1 + i;

		if (i >= 100 && i < 150)
			continue;
		assert_int_equal(get_token(child, at + i * PAGE), token);
		assert_int_equal(get_token(s, at + i * PAGE), i == 20 ? 99 : token);
	}
	sm_space_destroy(child);
	assert_int_equal(sm_munmap(s, at, HUGE), 0);
	assert_true(frames_in_use() <= before + 4);
	sm_space_destroy(s);
}

/* A huge page that was freed lazily goes in 4 KiB pieces, unless it was written again. */
static void huge_pages_freed_lazily(void **state)
{
	struct sm_space *s = new_space("samara");

	(void)state;
	map_pages(s, BASE, 2 * HUGE);
	assert_int_equal(sm_madvise(s, BASE, 2 * HUGE, SM_MADV_HUGEPAGE), 0);
	put_token(s, BASE, 1);
	put_token(s, BASE + HUGE, 2);
	assert_int_equal(sm_madvise(s, BASE, 2 * HUGE, SM_MADV_FREE), 0);
	assert_int_equal(get_token(s, BASE), 1);
	put_token(s, BASE + HUGE + 7 * PAGE, 3);
	assert_int_equal(sm_reclaim(host, 2000), 512);
	assert_int_equal(get_token(s, BASE), 0);
	assert_int_equal(get_token(s, BASE + HUGE), 2);
	assert_int_equal(get_token(s, BASE + HUGE + 7 * PAGE), 3);
	sm_space_destroy(s);
}

/* 16 KiB pages: everything counts in them, and a huge page is what 512 of them are. */
static void other_page_sizes(void **state)
{
	const uint64_t page = 16384, huge = page * 512;
	struct sm_host_options o;
	struct sm_space *s;
	unsigned char vec[4];

	assert_int_equal(sm_host_destroy(host), 0);
	sm_host_options_init(&o);
	o.page_size = page;
	o.frame_bytes = 128ull << 20;
	host = sm_host_create(&o, NULL);
	assert_non_null(host);
	s = new_space("samara");
	map_pages(s, BASE, 3 * huge);
	for (unsigned i = 0; i < 4; i++)
		put_token(s, BASE + i * page, 1 + i);
	assert_int_equal(sm_madvise(s, BASE + PAGE, page, SM_MADV_DONTNEED), -EINVAL);
	assert_int_equal(sm_madvise(s, BASE + page, 1, SM_MADV_DONTNEED), 0);
	assert_int_equal(sm_madvise(s, BASE + 2 * page, page, SM_MADV_GUARD_INSTALL), 0);
	assert_int_equal(sm_mincore(s, BASE, 4 * page, vec), 0);
	assert_memory_equal(vec, ((const unsigned char[]){ 1, 0, 0, 1 }), 4);
	assert_int_equal(get_token(s, BASE + page), 0);
	assert_int_equal(sm_madvise(s, BASE, huge, SM_MADV_COLLAPSE), -EINVAL);
	put_token(s, BASE + huge, 5);
	assert_int_equal(sm_madvise(s, BASE + huge, huge, SM_MADV_COLLAPSE), 0);
	assert_int_equal(get_token(s, BASE + huge), 5);
	assert_int_equal(sm_munmap(s, BASE + huge + page, page), 0);
	assert_int_equal(get_token(s, BASE + huge), 5);
	sm_space_destroy(s);
	(void)state;
}

static void collapse_keeps_contents(void **state)
{
	struct sm_space *s = new_space("samara"), *child;
	sm_addr at = BASE + HUGE;

	(void)state;
	map_pages(s, at, 2 * HUGE);
	for (unsigned i = 0; i < 512; i += 3)
		put_token(s, at + i * PAGE, 1 + i);
	/* shared with a child: the parent's copy becomes huge, the child keeps its own */
	child = sm_fork(s);
	assert_int_equal(sm_madvise(s, at, HUGE, SM_MADV_COLLAPSE), 0);
	assert_int_equal(count_present(s, at, 512), 512);
	put_token(s, at, 4711);
	for (unsigned i = 0; i < 512; i++) {
		assert_int_equal(get_token(s, at + i * PAGE), !i ? 4711 : i % 3 ? 0 : 1 + i);
		assert_int_equal(get_token(child, at + i * PAGE), i % 3 ? 0 : 1 + i);
	}
	sm_space_destroy(child);
	sm_space_destroy(s);
}

/* ---------------------------------------------------------------- broken pages */

static void broken_pages(void **state)
{
	struct sm_space *s = new_space("samara");
	struct sm_fault_result r;

	(void)state;
	map_pages(s, BASE, 8 * PAGE);
	for (unsigned i = 0; i < 8; i++)
		put_token(s, BASE + i * PAGE, 1 + i);
	assert_int_equal(sm_madvise(s, BASE, 2 * PAGE, SM_MADV_SOFT_OFFLINE), 0);
	assert_int_equal(get_token(s, BASE), 1);
	assert_int_equal(sm_madvise(s, BASE + 2 * PAGE, 1, SM_MADV_HWPOISON), 0);
	r = sm_fault(s, BASE + 2 * PAGE, SM_ACCESS_READ);
	assert_int_equal(r.signo, SIGBUS);
	assert_int_equal(r.code, BUS_MCEERR_AR);
	assert_int_equal(sm_madvise(s, BASE, 8 * PAGE, SM_MADV_POPULATE_READ), -EHWPOISON);
	assert_int_equal(get_token(s, BASE + 3 * PAGE), 4);
	/* unmapping is the way out */
	map_pages(s, BASE + 2 * PAGE, PAGE);
	assert_int_equal(get_token(s, BASE + 2 * PAGE), 0);
	assert_int_equal(sm_madvise(s, BASE + 9 * PAGE, PAGE, SM_MADV_HWPOISON), -EFAULT);
	s->o.capabilities = 0;
	assert_int_equal(sm_madvise(s, BASE, PAGE, SM_MADV_HWPOISON), -EPERM);
	assert_int_equal(sm_madvise(s, BASE, 0, SM_MADV_HWPOISON), 0);
	sm_space_destroy(s);
}

/* ---------------------------------------------------------------- exhaustion */

/* Everything that allocates; each answer is recorded, contents are judged by the caller. */
static void scenario(struct sm_space *s, int answers[16])
{
	const struct sm_range v[2] = { { BASE, PAGE }, { BASE + 2 * PAGE, PAGE } };
	int n = 0;

	answers[n++] = sm_madvise(s, BASE + PAGE, 2 * PAGE, SM_MADV_RANDOM);
	answers[n++] = sm_mlock(s, BASE + 4 * PAGE, PAGE);
	answers[n++] = sm_mseal(s, BASE + 8 * PAGE, PAGE, 0);
	answers[n++] = sm_set_anon_name(s, BASE + 6 * PAGE, PAGE, "name");
	answers[n++] = sm_madvise(s, BASE + 10 * PAGE, PAGE, SM_MADV_GUARD_INSTALL);
	answers[n++] = sm_madvise(s, BASE + 12 * PAGE, PAGE, SM_MADV_POPULATE_WRITE);
	answers[n++] = sm_process_madvise(s, s, v, 2, SM_MADV_DONTNEED, 0) < 0 ? -EIO : 0;
	answers[n++] = sm_madvise(s, BASE, 16 * PAGE, SM_MADV_NORMAL);
	answers[n++] = sm_madvise(s, BASE + HUGE, HUGE, SM_MADV_COLLAPSE);
	answers[n++] = sm_madvise(s, BASE + HUGE + PAGE, PAGE, SM_MADV_DONTNEED);
	answers[n++] = sm_munlock(s, BASE, 16 * PAGE);
	answers[n++] = sm_madvise(s, BASE, 2 * HUGE, SM_MADV_MERGEABLE);
	(void)sm_merge_pass(host);
	(void)sm_reclaim(host, 4);
	answers[n++] = sm_madvise(s, BASE, 2 * HUGE, SM_MADV_UNMERGEABLE);
	while (n < 16)
		answers[n++] = 0;
}

static bool run_scenario(uint64_t fail_at, bool from)
{
	static const int allowed[] = { 0, -ENOMEM, -EAGAIN, -EINVAL };
	struct sm_space *s = new_space("samara");
	int answers[16];
	bool all = true;

	map_pages(s, BASE, 2 * HUGE);
	put_token(s, BASE, 1);
	put_token(s, BASE + 3 * PAGE, 3);
	put_token(s, BASE + HUGE, 5);
	if (from)
		sm__inject_arm_from(fail_at);
	else
		sm__inject_arm(fail_at);
	scenario(s, answers);
	all = sm__inject_seen() < fail_at;
	sm__inject_disarm();
	assert_null(sm__space_check(s));
	for (unsigned i = 0; i < 16; i++) {
		bool fine = false;

		for (unsigned k = 0; k < 4; k++)
			fine = fine || answers[i] == allowed[k];
		if (!fine)
			fail_msg("call %u answered %d when allocation %llu failed", i, answers[i],
				 (unsigned long long)fail_at);
	}
	/* what was not advised away is there */
	assert_int_equal(get_token(s, BASE + 3 * PAGE), 3);
	assert_int_equal(get_token(s, BASE + HUGE), 5);
	sm_space_destroy(s);
	return all;
}

static void every_allocation_fails_in_turn(void **state)
{
	uint64_t n = 1;

	(void)state;
	while (!run_scenario(n, false))
		n++;
	assert_true(n > 10);
	for (uint64_t i = 1; i < n; i++)
		run_scenario(i, true);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_host, drop_host)
	const struct CMUnitTest tests[] = {
		TEST(stages_agree),
		TEST(stages_lock_and_flush_as_they_say),
		TEST(rights),
		TEST(notices),
		TEST(names),
		TEST(cold_pages_go_first),
		TEST(lazily_freed_pages),
		TEST(droppable_pages_are_dropped),
		TEST(equal_pages_become_one),
		TEST(huge_pages_split),
		TEST(huge_pages_freed_lazily),
		TEST(collapse_keeps_contents),
		TEST(other_page_sizes),
		TEST(broken_pages),
		TEST(every_allocation_fails_in_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
