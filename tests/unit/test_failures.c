/* SPDX-License-Identifier: MIT */
/*
 * test_failures.c - a call that fails leaves the space as it was (backend.h I1): at every step that the
 * backend may refuse, at every allocation that may fail, alone or with all that follow.
 *
 * What is compared is said page by page: whether it is mapped, how, of what, and what its first word is;
 * so that a split that was made before the failure, which stays as on Linux, is no difference.
 *
 *      before --call fails--> before                     all pages
 *      before --call fails--> before or after            each page, for calls that do a VMA after the other
 *      before --call works--> after                      what the call does without failures
 */
#include "base/inject.h"
#include "space/soft.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>
#include <samara/samara.h>

#define PAGE 4096ull
#define RW   (SM_PROT_READ | SM_PROT_WRITE)
#define ANON (SM_MAP_PRIVATE | SM_MAP_ANONYMOUS | SM_MAP_FIXED)
#define BASE 0x10000000ull
#define BRK  0x20000000ull

enum { WINDOW = 96, BRK_PAGES = 16, PAGES = WINDOW + BRK_PAGES, FILE_PAGES = 8 };

static const char *preset;
static struct sm_host *host;
static struct sm_space *s;
static int disk;
static struct sm_file *file;

static int setup(void **state)
{
	struct sm_space_options o;
	struct sm_host_options h;

	(void)state;
	sm_host_options_init(&h);
	h.frame_bytes = 16 << 20;
	host = sm_host_create(&h, NULL);
	sm_space_options_init(&o);
	o.backend = SM_BACKEND_SOFT;
	o.start_brk = BRK;
	assert_int_equal(sm_design_preset(preset, &o.design), 0);
	s = sm_space_create(host, &o, NULL);
	assert_non_null(s);
	disk = memfd_create("disk", 0);
	assert_int_equal(ftruncate(disk, FILE_PAGES * PAGE), 0);
	assert_int_equal(sm_file_open_fd(disk, "disk", &file), 0);
	return 0;
}

/* Every frame has come back. */
static int teardown(void **state)
{
	struct sm__pool_stats st;

	(void)state;
	sm_space_destroy(s);
	sm_file_put(file);
	sm__rcu_barrier();
	sm__pool_stats(sm__host_memory(host)->pool, &st);
	assert_int_equal(st.in_use, 0);
	assert_int_equal(sm_host_destroy(host), 0);
	close(disk);
	return 0;
}

/* ---------------------------------------------------------------- what a space looks like */

struct page {
	bool mapped;
	uint64_t flags, offset, word;
	int file; /* 0: none, 1: one of the call's own, 2: ours */
};

struct picture {
	struct page page[PAGES];
	sm_addr brk;
	uint64_t size; /* of the file */
};

static sm_addr address(unsigned i)
{
	return i < WINDOW ? BASE + i * PAGE : BRK + (i - WINDOW) * PAGE;
}

static void look(struct sm_space *space, struct picture *p)
{
	struct sm_vma_info v;

	memset(p, 0, sizeof(*p));
	for (unsigned i = 0; i < PAGES; i++) {
		struct page *page = &p->page[i];

		page->word = ~0ull;
		if (sm_lookup(space, address(i), &v))
			continue;
		page->mapped = true;
		page->flags = v.flags;
		page->file = v.file ? 1 + (v.file == file) : 0;
		if (v.file)
			page->offset = v.offset + (address(i) - v.start);
		(void)sm_read(space, address(i), &page->word, sizeof(page->word), NULL);
	}
	p->brk = sm_brk(space, 0);
	p->size = sm_file_size(file);
}

static bool same_page(const struct page *a, const struct page *b)
{
	return a->mapped == b->mapped && a->flags == b->flags && a->offset == b->offset &&
	       a->word == b->word && a->file == b->file;
}

static void is_like(const char *what, uint64_t at, const struct picture *is,
		    const struct picture *before, const struct picture *after)
{
	for (unsigned i = 0; i < PAGES; i++) {
		if (same_page(&is->page[i], &before->page[i]) ||
		    (after && same_page(&is->page[i], &after->page[i])))
			continue;
		fail_msg("%s, failure %llu: page %u: mapped %d flags %llx word %llx, was %d %llx "
			 "%llx",
			 what, (unsigned long long)at, i, is->page[i].mapped,
			 (unsigned long long)is->page[i].flags,
			 (unsigned long long)is->page[i].word, before->page[i].mapped,
			 (unsigned long long)before->page[i].flags,
			 (unsigned long long)before->page[i].word);
	}
	assert_int_equal(is->brk, before->brk);
	assert_int_equal(is->size, before->size);
}

/* ---------------------------------------------------------------- where each call begins */

/*
 * page   0..7      10..19    22..25            30..37        40..47             heap: 8 pages
 *        written   written   read-only, zero   file, shared  file, private,
 *                                                            every other written
 */
static void prepare(void)
{
	uint64_t v;

	sm_munlockall(s);
	(void)sm_munmap(s, BASE, WINDOW * PAGE);
	assert_int_equal(sm_file_truncate(file, 0), 0);
	assert_int_equal(sm_file_truncate(file, FILE_PAGES * PAGE), 0);
	assert_true(sm_mmap(s, address(0), 8 * PAGE, RW, ANON, NULL, 0) > 0);
	assert_true(sm_mmap(s, address(10), 10 * PAGE, RW, ANON, NULL, 0) > 0);
	assert_true(sm_mmap(s, address(22), 4 * PAGE, SM_PROT_READ, ANON, NULL, 0) > 0);
	assert_true(sm_mmap(s, address(30), FILE_PAGES * PAGE, RW, SM_MAP_SHARED | SM_MAP_FIXED,
			    file, 0) > 0);
	assert_true(sm_mmap(s, address(40), FILE_PAGES * PAGE, RW, SM_MAP_PRIVATE | SM_MAP_FIXED,
			    file, 0) > 0);
	assert_int_equal(sm_brk(s, BRK), BRK);
	assert_int_equal(sm_brk(s, BRK + 8 * PAGE), BRK + 8 * PAGE);
	for (unsigned i = 0; i < WINDOW + 8; i++) {
		v = 500 + i;
		if ((i < 20 && i != 8 && i != 9) || (i >= 30 && i < 38) || i >= WINDOW)
			assert_int_equal(sm_write(s, address(i), &v, sizeof(v), NULL), sizeof(v));
	}
	for (unsigned i = 41; i < 48; i += 2) {
		v = 500 + i;
		assert_int_equal(sm_write(s, address(i), &v, sizeof(v), NULL), sizeof(v));
	}
}

/* ---------------------------------------------------------------- the calls */

static int error_of(int64_t r)
{
	return r < 0 ? (int)r : 0;
}

static int do_munmap(void)
{
	return sm_munmap(s, address(3), 42 * PAGE);
}

static int do_mprotect(void)
{
	return sm_mprotect(s, address(1), 6 * PAGE, SM_PROT_READ);
}

static int do_mprotect_many(void)
{
	return sm_mprotect(s, address(12), 8 * PAGE, SM_PROT_NONE);
}

static int do_mremap(void)
{
	return error_of(sm_mremap(s, address(0), 8 * PAGE, 16 * PAGE,
				  SM_MREMAP_MAYMOVE | SM_MREMAP_FIXED, address(60)));
}

static int do_mremap_file(void)
{
	return error_of(sm_mremap(s, address(42), 4 * PAGE, 4 * PAGE,
				  SM_MREMAP_MAYMOVE | SM_MREMAP_FIXED, address(60)));
}

static int do_mremap_shrink(void)
{
	return error_of(sm_mremap(s, address(10), 10 * PAGE, 3 * PAGE, 0, 0));
}

static int do_mremap_grow(void)
{
	return error_of(sm_mremap(s, address(10), 10 * PAGE, 12 * PAGE, 0, 0));
}

static int do_mmap_over(void)
{
	return error_of(sm_mmap(s, address(2), 14 * PAGE, RW, ANON, NULL, 0));
}

static int do_mmap_file(void)
{
	return error_of(
		sm_mmap(s, address(5), 4 * PAGE, RW, SM_MAP_SHARED | SM_MAP_FIXED, file, 2 * PAGE));
}

static int do_mmap_shared(void)
{
	return error_of(sm_mmap(s, address(60), 4 * PAGE, RW,
				SM_MAP_SHARED | SM_MAP_ANONYMOUS | SM_MAP_FIXED, NULL, 0));
}

static int do_brk_up(void)
{
	return sm_brk(s, BRK + 12 * PAGE) == BRK + 12 * PAGE ? 0 : -ENOMEM;
}

static int do_brk_down(void)
{
	return sm_brk(s, BRK + 2 * PAGE) == BRK + 2 * PAGE ? 0 : -ENOMEM;
}

static int do_mlock(void)
{
	return sm_mlock(s, address(2), 3 * PAGE);
}

static int do_mlockall(void)
{
	return sm_mlockall(s, SM_MCL_CURRENT);
}

static int do_dontfork(void)
{
	return sm_madvise(s, address(1), 2 * PAGE, SM_MADV_DONTFORK);
}

static int do_dontneed(void)
{
	return sm_madvise(s, address(1), 4 * PAGE, SM_MADV_DONTNEED);
}

static int do_populate(void)
{
	return sm_madvise(s, address(40), 8 * PAGE, SM_MADV_POPULATE_WRITE);
}

static int do_guard(void)
{
	return sm_madvise(s, address(4), PAGE, SM_MADV_GUARD_INSTALL);
}

static int do_msync(void)
{
	return sm_msync(s, address(30), 8 * PAGE, SM_MS_SYNC);
}

static int do_truncate(void)
{
	return sm_file_truncate(file, 3 * PAGE + 9);
}

static int do_punch(void)
{
	return sm_file_punch(file, PAGE, 2 * PAGE);
}

static int do_write(void)
{
	uint64_t v = 77;

	return error_of(sm_write(s, address(44), &v, sizeof(v), NULL));
}

static int do_read(void)
{
	uint64_t v;

	return error_of(sm_read(s, address(23), &v, sizeof(v), NULL));
}

/* The child is like its parent, or there is none; and the parent's writes are not seen there. */
static int do_fork(void)
{
	static struct picture parent, child;
	uint64_t v = 9;
	struct sm_space *c = sm_fork(s);

	if (!c)
		return -errno;
	sm__inject_disarm();
	look(s, &parent);
	assert_int_equal(sm_write(s, address(11), &v, sizeof(v), NULL), sizeof(v));
	look(c, &child);
	is_like("child", 0, &child, &parent, NULL);
	v = parent.page[11].word;
	assert_int_equal(sm_write(s, address(11), &v, sizeof(v), NULL), sizeof(v));
	sm_space_destroy(c);
	return 0;
}

static const struct call {
	const char *name;
	int (*run)(void);
	bool in_parts; /* a VMA, or a page, after the other: the part before the failure is done */
} calls[] = {
	{ "munmap", do_munmap, false },
	{ "mprotect", do_mprotect, false },
	{ "mprotect many", do_mprotect_many, true },
	{ "mremap", do_mremap, false },
	{ "mremap file", do_mremap_file, false },
	{ "mremap shrink", do_mremap_shrink, false },
	{ "mremap grow", do_mremap_grow, false },
	{ "mmap over", do_mmap_over, false },
	{ "mmap file", do_mmap_file, false },
	{ "mmap shared", do_mmap_shared, false },
	{ "brk up", do_brk_up, false },
	{ "brk down", do_brk_down, false },
	{ "mlock", do_mlock, true },
	{ "mlockall", do_mlockall, true },
	{ "DONTFORK", do_dontfork, false },
	{ "DONTNEED", do_dontneed, true },
	{ "POPULATE_WRITE", do_populate, true },
	{ "GUARD_INSTALL", do_guard, true },
	{ "msync", do_msync, false },
	{ "truncate", do_truncate, false },
	{ "punch", do_punch, false },
	{ "write", do_write, false },
	{ "read", do_read, false },
	{ "fork", do_fork, false },
};

/* The picture before each call, and after it where nothing fails. */
static void rehearse(const struct call *c, struct picture *before, struct picture *after)
{
	prepare();
	look(s, before);
	assert_int_equal(c->run(), 0);
	look(s, after);
}

static void is_right(const struct call *c, uint64_t at, int err, const struct picture *before,
		     const struct picture *after)
{
	static struct picture is;

	look(s, &is);
	if (err && err != -ENOMEM && err != -EAGAIN && err != -EFAULT)
		fail_msg("%s, failure %llu: error %d", c->name, (unsigned long long)at, err);
	if (err)
		is_like(c->name, at, &is, before, c->in_parts ? after : NULL);
	else
		is_like(c->name, at, &is, after, NULL);
	assert_null(sm__space_check(s));
	assert_true(sm__mm_is_valid(sm__space_mm(s)));
	assert_true(sm__pages_is_valid(sm__pages_bound(file)));
}

/* ---------------------------------------------------------------- a backend that refuses */

static uint64_t steps, refuse_at;
static struct sm__backend refusing;

static int refusing_plan(struct sm__step *step)
{
	return ++steps == refuse_at ? -ENOMEM : sm__backend_soft.plan(step);
}

static int refusing_fork(struct sm__vma *child, struct sm__vma *parent, struct sm__gather *g)
{
	return ++steps == refuse_at ? -ENOMEM : sm__backend_soft.fork(child, parent, g);
}

static void a_refused_step_changes_nothing(void **state)
{
	static struct picture before, after;
	const struct sm__backend *real = s->backend;
	unsigned refused = 0;

	(void)state;
	refusing = sm__backend_soft;
	refusing.plan = refusing_plan;
	refusing.fork = refusing_fork;
	for (size_t i = 0; i < SM__ARRAY_SIZE(calls); i++) {
		rehearse(&calls[i], &before, &after);
		for (refuse_at = 1; refuse_at < 200; refuse_at++) {
			int err;

			prepare();
			steps = 0;
			s->backend = &refusing;
			err = calls[i].run();
			s->backend = real;
			is_right(&calls[i], refuse_at, err, &before, &after);
			if (steps < refuse_at) {
				assert_int_equal(err, 0);
				break;
			}
			refused += err == -ENOMEM;
		}
		assert_true(refuse_at < 200);
	}
	assert_true(refused > 20);
}

/* ---------------------------------------------------------------- allocations that fail */

static void fail_each(void (*arm)(uint64_t nth))
{
	static struct picture before, after;
	unsigned failed = 0;

	for (size_t i = 0; i < SM__ARRAY_SIZE(calls); i++) {
		uint64_t at = 0, seen;

		rehearse(&calls[i], &before, &after);
		do {
			int err;

			prepare();
			arm(++at);
			err = calls[i].run();
			seen = sm__inject_seen();
			sm__inject_disarm();
			is_right(&calls[i], at, err, &before, &after);
			failed += err != 0;
		} while (at <= seen && at < 3000);
		assert_true(at < 3000);
	}
	assert_true(failed > 30);
}

static void every_allocation_may_fail(void **state)
{
	(void)state;
	fail_each(sm__inject_arm);
}

static void all_allocations_may_fail_from_any_on(void **state)
{
	(void)state;
	fail_each(sm__inject_arm_from);
}

int main(void)
{
	static const char *const presets[] = { "linux-5.19", "linux-6.6", "samara" };
	int failed = 0;
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_refused_step_changes_nothing),
		T(every_allocation_may_fail),
		T(all_allocations_may_fail_from_any_on),
	};

	for (size_t i = 0; i < SM__ARRAY_SIZE(presets); i++) {
		preset = presets[i];
		failed += cmocka_run_group_tests_name(preset, tests, NULL, NULL);
	}
	return failed;
}
