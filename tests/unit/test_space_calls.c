/* SPDX-License-Identifier: MIT */
/*
 * The calls on small maps, against results that were read off the running kernel: layouts are written
 * as "first-last:perm" in pages from the base, in order.
 */
#include "samara/samara.h"
#include "space/space.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define P    4096ull
#define B    0x200000000000ull
#define C    0x210000000000ull
#define AN   (SM_MAP_PRIVATE | SM_MAP_ANONYMOUS)
#define ANF  (AN | SM_MAP_FIXED)
#define RW   (SM_PROT_READ | SM_PROT_WRITE)
#define R    SM_PROT_READ
#define MOVE SM_MREMAP_MAYMOVE
#define TO   (SM_MREMAP_MAYMOVE | SM_MREMAP_FIXED)

static struct sm_host *host;
static struct sm_space *s;

struct layout {
	char text[512];
	sm_addr base;
};

static int add_vma(void *arg, const struct sm_vma_info *i)
{
	struct layout *l = arg;
	size_t n = strlen(l->text);

	snprintf(l->text + n, sizeof(l->text) - n, "%s%lld-%lld:%c%c%c%c", n ? " " : "",
		 (long long)(i->start - l->base) / (long long)P,
		 (long long)(i->end - l->base) / (long long)P, i->flags & SM_VM_READ ? 'r' : '-',
		 i->flags & SM_VM_WRITE ? 'w' : '-', i->flags & SM_VM_EXEC ? 'x' : '-',
		 i->flags & SM_VM_MAYSHARE ? 's' : 'p');
	return 0;
}

static void expect_at(sm_addr base, const char *want, int line)
{
	struct layout l = { .base = base };

	sm_for_each(s, base > (P << 16) ? base - (P << 16) : 0, base + (P << 16), add_vma, &l);
	if (strcmp(l.text, want) != 0)
		fail_msg("line %d: layout '%s', expected '%s'", line, l.text, want);
}
#define EXPECT(want)	      expect_at(B, want, __LINE__)
#define EXPECT_AT(base, want) expect_at(base, want, __LINE__)

static int64_t map(sm_addr a, uint64_t pages, int prot, int flags)
{
	return sm_mmap(s, a, pages * P, prot, flags, NULL, 0);
}

static void touch(sm_addr a)
{
	struct sm_fault_result r = sm_fault(s, a, SM_ACCESS_WRITE);

	assert_int_equal(r.error, 0);
	assert_int_equal(r.signo, 0);
}

static int make_world(uint32_t max_map_count)
{
	struct sm_space_options o;
	struct sm_host_options ho;

	sm_host_options_init(&ho);
	assert_int_equal(ho.max_map_count, 65530);
	ho.page_size = P;
	ho.max_map_count = max_map_count;
	sm_space_options_init(&o);
	assert_int_equal(sm_design_preset("linux-5.19", &o.design), 0);
	o.capabilities = SM_CAP_IPC_LOCK;
	o.start_brk = 0x555555000000;
	host = sm_host_create(&ho, NULL);
	s = sm_space_create(host, &o, NULL);
	return host && s ? 0 : -1;
}

static int setup(void **state)
{
	(void)state;
	return make_world(65530);
}

/* The validators count a large map again and again. */
static int setup_few_maps(void **state)
{
	(void)state;
	return make_world(1000);
}

static int teardown(void **state)
{
	struct sm_host_stats hs;

	(void)state;
	assert_null(sm__space_check(s));
	sm_space_destroy(s);
	sm_host_stats(host, &hs);
	assert_int_equal(hs.committed, 0);
	assert_int_equal(sm_host_destroy(host), 0);
	return 0;
}

/* The caches of every design that has a space; beside the default, the first has none of maple nodes. */
static void host_cache_stats(void **state)
{
	struct sm_cache_stats all[SM_HOST_CACHES], few[1];
	struct sm_space *other;
	uint64_t vmas = 0, leaves = 0;
	unsigned n = sm_host_cache_stats(host, all, SM_HOST_CACHES);

	(void)state;
	for (unsigned i = 0; i < n; i++)
		assert_string_not_equal(all[i].name, "maple_leaf");
	other = sm_space_create(host, NULL, NULL);
	assert_non_null(other);
	for (int i = 0; i < 100; i++)
		assert_true(sm_mmap(other, B + (uint64_t)i * 2 * P, P, RW, ANF, NULL, 0) > 0);
	n = sm_host_cache_stats(host, all, SM_HOST_CACHES);
	assert_in_range(n, 3, SM_HOST_CACHES);
	for (unsigned i = 0; i < n; i++) {
		if (!strcmp(all[i].name, "vma_typesafe"))
			vmas += all[i].alloc_fastpath + all[i].alloc_slowpath;
		if (!strcmp(all[i].name, "maple_leaf"))
			leaves += all[i].objects_taken;
	}
	assert_true(vmas >= 100);
	assert_true(leaves > 0);
	assert_int_equal(sm_host_cache_stats(host, few, 1), n);
	assert_string_equal(few[0].name, all[0].name);
	sm_space_destroy(other);
}

static void mmap_errors(void **state)
{
	(void)state;
	assert_int_equal(map(0, 0, RW, AN), -EINVAL);
	assert_int_equal(sm_mmap(s, 0, ~0ull, RW, AN, NULL, 0), -ENOMEM);
	assert_int_equal(sm_mmap(s, 0, 1ull << 48, RW, AN, NULL, 0), -ENOMEM);
	assert_int_equal(map(0, 1, RW, SM_MAP_ANONYMOUS), -EINVAL);
	assert_int_equal(map(B + 1, 1, RW, ANF), -EINVAL);
	assert_int_equal(sm_mmap(s, 0, P, RW, AN, NULL, 1), -EINVAL);
	assert_int_equal(map(0x7ffffffff000, 1, RW, ANF), -ENOMEM);
	assert_int_equal(map(0, 1, RW, ANF), -EPERM);
	assert_int_equal(map(0, 1, RW, SM_MAP_PRIVATE), -EBADF);
	assert_int_equal(map(0, 1, RW, SM_MAP_SHARED_VALIDATE | SM_MAP_ANONYMOUS), -EINVAL);
	assert_int_equal(map(0, 1, RW, SM_MAP_SHARED | SM_MAP_ANONYMOUS | SM_MAP_GROWSDOWN),
			 -EINVAL);
	assert_int_equal(map(B, 4, RW, ANF), B);
	assert_int_equal(map(B + P, 1, RW, AN | SM_MAP_FIXED_NOREPLACE), -EEXIST);
	assert_int_equal(map(B + 4 * P, 1, RW, AN | SM_MAP_FIXED_NOREPLACE), B + 4 * P);
	EXPECT("0-5:rw-p");
	assert_int_equal(sm_mmap(s, 0, 1ull << 45, RW, AN, NULL, 0), -ENOMEM);
	assert_true(sm_mmap(s, 0, 1ull << 45, 0, AN, NULL, 0) > 0);
}

static void munmap_cases(void **state)
{
	(void)state;
	assert_int_equal(sm_munmap(s, B + 1, P), -EINVAL);
	assert_int_equal(sm_munmap(s, B, 0), -EINVAL);
	assert_int_equal(sm_munmap(s, B, P), 0);
	assert_int_equal(sm_munmap(s, 1ull << 48, P), -EINVAL);
	assert_int_equal(sm_munmap(s, B, ~0ull - P), -EINVAL);
	map(B, 9, RW, ANF);
	assert_int_equal(sm_munmap(s, B + 3 * P, P), 0);
	EXPECT("0-3:rw-p 4-9:rw-p");
	assert_int_equal(sm_munmap(s, B + P, 7 * P), 0);
	EXPECT("0-1:rw-p 8-9:rw-p");
	map(B, 2, R, ANF);
	map(B + 2 * P, 2, RW, ANF);
	map(B + 4 * P, 2, 0, ANF);
	map(B + P, 4, RW, SM_MAP_SHARED | SM_MAP_ANONYMOUS | SM_MAP_FIXED);
	EXPECT("0-1:r--p 1-5:rw-s 5-6:---p 8-9:rw-p");
}

static void mprotect_merges(void **state)
{
	(void)state;
	map(B, 8, RW, ANF);
	assert_int_equal(sm_mprotect(s, B + 1, P, RW), -EINVAL);
	assert_int_equal(sm_mprotect(s, B, 0, RW), 0);
	assert_int_equal(sm_mprotect(s, B, ~0ull - 2 * P, RW), -ENOMEM);
	assert_int_equal(sm_mprotect(s, B, P, 0x10), -EINVAL);
	assert_int_equal(sm_mprotect(s, B + 9 * P, P, RW), -ENOMEM);
	assert_int_equal(sm_mprotect(s, B, P, RW | SM_PROT_GROWSDOWN), -EINVAL);
	assert_int_equal(sm_mprotect(s, B + 2 * P, 2 * P, R), 0);
	EXPECT("0-2:rw-p 2-4:r--p 4-8:rw-p");
	assert_int_equal(sm_mprotect(s, B + 4 * P, 2 * P, R), 0);
	EXPECT("0-2:rw-p 2-6:r--p 6-8:rw-p");
	assert_int_equal(sm_mprotect(s, B + 2 * P, 4 * P, RW), 0);
	EXPECT("0-8:rw-p");
	assert_int_equal(sm_mprotect(s, B, 2 * P, R), 0);
	assert_int_equal(sm_mprotect(s, B + P, P, RW), 0);
	EXPECT("0-1:r--p 1-8:rw-p");
	sm_munmap(s, B + 4 * P, P);
	assert_int_equal(sm_mprotect(s, B, 8 * P, R), -ENOMEM);
	EXPECT("0-4:r--p 5-8:rw-p");
}

static void identity_blocks_merges(void **state)
{
	(void)state;
	map(B, 2, RW, ANF);
	map(B + 2 * P, 2, R, ANF);
	touch(B);
	sm_mprotect(s, B + 2 * P, 2 * P, RW);
	EXPECT("0-4:rw-p");
	sm_munmap(s, B, 16 * P);
	map(B, 2, RW, ANF);
	map(B + 4 * P, 2, RW, ANF);
	touch(B);
	touch(B + 4 * P);
	map(B + 2 * P, 2, RW, ANF);
	EXPECT("0-4:rw-p 4-6:rw-p");
	sm_munmap(s, B, 16 * P);
	/* guard removed, both sides touched apart: they share an identity through the guard */
	map(B, 12, RW, ANF);
	sm_mprotect(s, B + 4 * P, 4 * P, 0);
	touch(B);
	touch(B + 8 * P);
	sm_mprotect(s, B + 4 * P, 4 * P, RW);
	EXPECT("0-8:rw-p 8-12:rw-p");
	sm_munmap(s, B, 16 * P);
	map(B, 12, 0, ANF | SM_MAP_NORESERVE);
	for (int i = 0; i < 8; i++) {
		sm_mprotect(s, B + (sm_addr)i * P, P, RW);
		touch(B + (sm_addr)i * P);
	}
	EXPECT("0-8:rw-p 8-12:---p");
}

static void mremap_cases(void **state)
{
	(void)state;
	map(B, 4, RW, ANF);
	assert_int_equal(sm_mremap(s, B, P, P, 8, 0), -EINVAL);
	assert_int_equal(sm_mremap(s, B, P, P, SM_MREMAP_FIXED, B + 32 * P), -EINVAL);
	assert_int_equal(sm_mremap(s, B, P, 2 * P, SM_MREMAP_DONTUNMAP | MOVE, 0), -EINVAL);
	assert_int_equal(sm_mremap(s, B + 1, P, P, 0, 0), -EINVAL);
	assert_int_equal(sm_mremap(s, B, P, 0, 0, 0), -EINVAL);
	assert_int_equal(sm_mremap(s, B + 64 * P, P, 2 * P, 0, 0), -EFAULT);
	assert_int_equal(sm_mremap(s, B, 0, P, MOVE, 0), -EINVAL);
	assert_int_equal(sm_mremap(s, B + 2 * P, 4 * P, 8 * P, MOVE, 0), -EFAULT);
	map(B + 4 * P, 1, R, ANF);
	assert_int_equal(sm_mremap(s, B, 4 * P, 8 * P, 0, 0), -ENOMEM);
	assert_int_equal(sm_mremap(s, B, 4 * P, 4 * P, TO, B + 2 * P), -EINVAL);
	assert_int_equal(sm_mremap(s, B, 4 * P, 4 * P, TO, B + 32 * P + 1), -EINVAL);
	assert_int_equal(sm_mremap(s, B, 4 * P, 4 * P, TO, B + 32 * P), B + 32 * P);
	EXPECT("4-5:r--p 32-36:rw-p");
	assert_int_equal(sm_mremap(s, B + 32 * P, 4 * P, 2 * P, 0, 0), B + 32 * P);
	assert_int_equal(sm_mremap(s, B + 32 * P, 2 * P, 4 * P, 0, 0), B + 32 * P);
	EXPECT("4-5:r--p 32-36:rw-p");
	assert_int_equal(sm_mremap(s, B + 32 * P, 4 * P, 4 * P, TO | SM_MREMAP_DONTUNMAP, C), C);
	EXPECT("4-5:r--p 32-36:rw-p");
	EXPECT_AT(C, "0-4:rw-p");
}

static void mremap_many(void **state)
{
	(void)state;
	map(B, 2, RW, ANF);
	map(B + 3 * P, 2, R, ANF);
	map(C, 8, R | SM_PROT_EXEC, ANF);
	assert_int_equal(sm_mremap(s, B, 5 * P, 5 * P, TO, C), C);
	EXPECT("");
	EXPECT_AT(C, "0-2:rw-p 2-3:r-xp 3-5:r--p 5-8:r-xp");
	sm_munmap(s, C, 16 * P);
	map(B + P, 2, RW, ANF);
	assert_int_equal(sm_mremap(s, B, 3 * P, 3 * P, TO, C), -EFAULT);
	assert_int_equal(sm_mremap(s, B + P, 6 * P, 6 * P, TO, C), C);
	EXPECT_AT(C, "0-2:rw-p");
	sm_munmap(s, C, 16 * P);
	/* a move that comes back merges again; a written one keeps its offset */
	map(B, 4, RW, ANF);
	touch(B);
	assert_int_equal(sm_mremap(s, B + P, P, P, TO, C), C);
	assert_int_equal(sm_mremap(s, C, P, P, TO, B + P), B + P);
	EXPECT("0-4:rw-p");
	assert_int_equal(sm_mremap(s, B + 2 * P, 2 * P, 2 * P, TO, C), C);
	map(C + 2 * P, 2, RW, ANF);
	EXPECT_AT(C, "0-2:rw-p 2-4:rw-p");
	sm_munmap(s, B, 16 * P);
	sm_munmap(s, C, 16 * P);
	/* growing in place closes the gap */
	map(B, 2, RW, ANF);
	map(B + 3 * P, 2, RW, ANF);
	assert_int_equal(sm_mremap(s, B, 2 * P, 3 * P, 0, 0), B);
	EXPECT("0-5:rw-p");
	assert_int_equal(sm_mremap(s, B + 2 * P, 3 * P, 4 * P, 0, 0), B + 2 * P);
	EXPECT("0-6:rw-p");
	sm_munmap(s, B, 16 * P);
	/* shrinking may reach over other VMAs, moving and shrinking may not */
	map(B, 2, RW, ANF);
	map(B + 2 * P, 2, R, ANF);
	map(B + 5 * P, 2, R, ANF);
	assert_int_equal(sm_mremap(s, B, 4 * P, 4 * P, 0, 0), B);
	assert_int_equal(sm_mremap(s, B, 6 * P, 6 * P, MOVE, 0), B);
	assert_int_equal(sm_mremap(s, B, 4 * P, 3 * P, TO, C), -EFAULT);
	assert_int_equal(sm_mremap(s, B, 7 * P, P, 0, 0), B);
	EXPECT("0-1:rw-p");
	map(B, 3, RW, ANF);
	map(C, 4, R, ANF);
	assert_int_equal(sm_mremap(s, B, 3 * P, P, TO, C + P), C + P);
	EXPECT_AT(C, "0-1:r--p 1-2:rw-p 2-4:r--p");
	EXPECT("");
	sm_munmap(s, C, 16 * P);
	map(B, 3, RW, ANF);
	assert_int_equal(sm_mremap(s, B, 3 * P, 6 * P, TO, C + P), C + P);
	assert_int_equal(sm_mremap(s, C + P, 2 * P, 6 * P, TO, B), B);
	EXPECT("0-6:rw-p");
	EXPECT_AT(C, "3-7:rw-p");
}

static void brk_cases(void **state)
{
	sm_addr start = sm_brk(s, 0);

	(void)state;
	assert_int_equal(sm_brk(s, start + 10 * P), start + 10 * P);
	EXPECT_AT(start, "0-10:rw-p");
	assert_int_equal(sm_brk(s, 0x1000), start + 10 * P);
	map(start + 12 * P, 1, RW, ANF);
	assert_int_equal(sm_brk(s, start + 18 * P), start + 10 * P);
	assert_int_equal(sm_brk(s, start + P / 2), start + P / 2);
	EXPECT_AT(start, "0-1:rw-p 12-13:rw-p");
	assert_int_equal(sm_brk(s, start), start);
	EXPECT_AT(start, "12-13:rw-p");
}

static void stack_grows(void **state)
{
	struct sm_fault_result r;
	sm_addr top = B + 2048 * P;

	(void)state;
	map(top, 4, RW, ANF | SM_MAP_GROWSDOWN);
	touch(top - P + 100);
	EXPECT_AT(top, "-1-4:rw-p");
	touch(top - 64 * P);
	EXPECT_AT(top, "-64-4:rw-p");
	map(top - 1024 * P, 1, RW, ANF);
	r = sm_fault(s, top - 924 * P, SM_ACCESS_WRITE);
	assert_int_equal(r.signo, SIGSEGV);
	/* a hint respects the guard gap, MAP_FIXED does not */
	assert_int_not_equal(map(top - 74 * P, 1, RW, AN), top - 74 * P);
	assert_int_equal(map(top - 74 * P, 1, RW, ANF), top - 74 * P);
	/* protection of the whole stack from its start */
	assert_int_equal(sm_mprotect(s, top, P, R | SM_PROT_GROWSDOWN), 0);
	EXPECT_AT(top, "-1024--1023:rw-p -74--73:rw-p -64-1:r--p 1-4:rw-p");
}

static void flags_split_and_merge(void **state)
{
	(void)state;
	map(B, 2, RW, ANF | SM_MAP_NORESERVE);
	map(B + 2 * P, 2, RW, ANF);
	EXPECT("0-2:rw-p 2-4:rw-p");
	sm_munmap(s, B, 8 * P);
	map(B, 4, RW, ANF);
	assert_int_equal(sm_madvise(s, B + P, 2 * P, SM_MADV_DONTFORK), 0);
	EXPECT("0-1:rw-p 1-3:rw-p 3-4:rw-p");
	assert_int_equal(sm_madvise(s, B, 4 * P, SM_MADV_DOFORK), 0);
	EXPECT("0-4:rw-p");
	assert_int_equal(sm_madvise(s, B, 8 * P, SM_MADV_DONTNEED), -ENOMEM);
	assert_int_equal(sm_madvise(s, B + 1, P, SM_MADV_DONTNEED), -EINVAL);
	assert_int_equal(sm_madvise(s, B, P, 77), -EINVAL);
	assert_int_equal(sm_madvise(s, B, 0, SM_MADV_DONTNEED), 0);
	assert_int_equal(sm_madvise(s, B, ~0ull, SM_MADV_DONTNEED), -EINVAL);
	assert_int_equal(sm_set_anon_name(s, B, P, "stack of worker 3"), 0);
	EXPECT("0-1:rw-p 1-4:rw-p");
	assert_int_equal(sm_set_anon_name(s, B, P, "a[b"), -EINVAL);
	assert_int_equal(sm_set_anon_name(s, B, 4 * P, "stack of worker 3"), 0);
	EXPECT("0-4:rw-p");
	sm_munmap(s, B, 8 * P);
	/* tags keep areas apart */
	sm_mmap_tagged(s, B, P, RW, ANF, NULL, 0, 1);
	sm_mmap_tagged(s, B + P, P, RW, ANF, NULL, 0, 2);
	sm_mmap_tagged(s, B + 2 * P, P, RW, ANF, NULL, 0, 2);
	EXPECT("0-1:rw-p 1-3:rw-p");
}

static void limits(void **state)
{
	struct sm_rlimits l = { 1ull << 30, SM_RLIM_INFINITY, 8 << 20, 0 };

	(void)state;
	sm_space_set_limits(s, &l);
	assert_int_equal(sm_mmap(s, 0, 2ull << 30, RW, AN, NULL, 0), -ENOMEM);
	l.as = SM_RLIM_INFINITY;
	l.data = 1 << 26;
	sm_space_set_limits(s, &l);
	assert_int_equal(sm_mmap(s, 0, 1 << 27, RW, AN, NULL, 0), -ENOMEM);
	assert_int_equal(sm_mmap(s, B, 1 << 27, 0, ANF, NULL, 0), B);
	assert_int_equal(sm_mprotect(s, B, 1 << 27, RW), -ENOMEM);
	EXPECT("0-32768:---p");
}

static void map_count(void **state)
{
	const unsigned max = 1000;

	(void)state;
	for (sm_addr i = 0; i <= max; i++)
		assert_true(map(B + 2 * i * P, 1, i & 1 ? R : RW, ANF) > 0);
	assert_int_equal(map(C, 1, RW, ANF), -ENOMEM);
	assert_int_equal(map(B + P, 1, RW, ANF), -ENOMEM); /* even a pure extension */
	assert_int_equal(sm_munmap(s, B + 200 * P, P), 0);
	assert_int_equal(sm_munmap(s, B + 202 * P, P), 0);
	map(C, 8, RW, ANF);
	assert_int_equal(sm_mprotect(s, C + P, P, R), -ENOMEM);
	assert_int_equal(sm_munmap(s, C + 2 * P, P), -ENOMEM); /* a hole */
	assert_int_equal(sm_munmap(s, C + 7 * P, P), 0);       /* an end */
}

static uint64_t file_size(void *arg)
{
	(void)arg;
	return 8 * P;
}

static const struct sm_file_ops file_ops = { .size = file_size };

static void maps_text(void **state)
{
	int64_t length;
	struct sm_file_info info = { .ino = 4711,
				     .dev_major = 8,
				     .dev_minor = 1,
				     .name = "/usr/lib/libx.so",
				     .mode = SM_FILE_READ };
	struct sm_file *f;
	char text[1024];

	(void)state;
	assert_int_equal(sm_file_create(&info, &file_ops, NULL, &f), 0);
	map(0x400000, 1, RW, ANF);
	sm_mmap(s, B, 2 * P, R, SM_MAP_PRIVATE | SM_MAP_FIXED, f, 3 * P);
	sm_brk(s, sm_brk(s, 0) + P);
	sm_file_put(f);
	length = sm_maps(s, text, sizeof(text));
	assert_int_equal(length, strlen(text));
	assert_string_equal(text, "00400000-00401000 rw-p 00000000 00:00 0 \n"
				  "200000000000-200000002000 r--p 00003000 08:01 4711              "
				  "         /usr/lib/libx.so\n"
				  "555555000000-555555001000 rw-p 00000000 00:00 0                 "
				  "         [heap]\n");
	assert_int_equal(sm_maps(s, text, 8), length);
	assert_string_equal(text, "0040000");
}

static void lookups(void **state)
{
	struct sm_vma_info i;

	(void)state;
	map(B, 4, R, ANF);
	map(B + 4 * P, 4, RW, ANF);
	assert_int_equal(sm_lookup(s, B + 5 * P, &i), 0);
	assert_int_equal(i.start, B + 4 * P);
	assert_int_equal(sm_lookup(s, B + 8 * P, &i), -ENOENT);
	assert_int_equal(sm_check_range(s, B, 8 * P, SM_ACCESS_READ), 0);
	assert_int_equal(sm_check_range(s, B, 8 * P, SM_ACCESS_WRITE), -EACCES);
	assert_int_equal(sm_check_range(s, B + 4 * P, 5 * P, SM_ACCESS_WRITE), -ENOMEM);
	assert_int_equal(sm_check_range(s, ~0ull, 2, SM_ACCESS_READ), -EINVAL);
	assert_int_equal(sm_check_range(s, 1, 0, SM_ACCESS_READ), 0);
}

static void forks(void **state)
{
	struct sm_space *child, *parent = s;
	struct sm_space_stats a, b;

	(void)state;
	map(B, 4, RW, ANF);
	touch(B);
	sm_madvise(s, B + P, P, SM_MADV_DONTFORK);
	map(B + 8 * P, 2, RW, ANF);
	child = sm_fork(s);
	assert_non_null(child);
	s = child;
	EXPECT("0-1:rw-p 2-4:rw-p 8-10:rw-p");
	/* the copy of written memory does not merge with fresh memory */
	map(B + P, 1, RW, ANF);
	EXPECT("0-1:rw-p 1-2:rw-p 2-4:rw-p 8-10:rw-p");
	sm_space_stats(child, &b);
	s = parent;
	EXPECT("0-1:rw-p 1-2:rw-p 2-4:rw-p 8-10:rw-p");
	sm_space_stats(s, &a);
	assert_int_equal(a.total_vm, b.total_vm);
	assert_int_equal(a.committed, b.committed);
	sm_space_destroy(child);
}

/* samara/space.h, sm_interrupt_word: a wait for the lock is given up, and nothing was done. */
static void *interrupted_call(void *arg)
{
	static const uint32_t raised = 1;
	int64_t *result = arg;

	sm_interrupt_word(&raised);
	result[0] = map(C, 1, RW, ANF);
	result[1] = sm_mprotect(s, B, P, R);
	result[2] = sm_munmap(s, B, P);
	sm_interrupt_word(NULL);
	return NULL;
}

static void waits_are_given_up(void **state)
{
	int64_t result[3];
	pthread_t t;

	(void)state;
	map(B, 2, RW, ANF);
	sm__mmap_write_lock(&s->lock, SM_CALL_MMAP, false);
	assert_int_equal(pthread_create(&t, NULL, interrupted_call, result), 0);
	pthread_join(t, NULL);
	sm__mmap_write_unlock(&s->lock);
	for (int i = 0; i < 3; i++)
		assert_int_equal(result[i], -EINTR);
	EXPECT("0-2:rw-p");
	EXPECT_AT(C, "");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(host_cache_stats),
		TEST(mmap_errors),
		TEST(munmap_cases),
		TEST(mprotect_merges),
		TEST(identity_blocks_merges),
		TEST(mremap_cases),
		TEST(mremap_many),
		TEST(brk_cases),
		TEST(stack_grows),
		TEST(flags_split_and_merge),
		TEST(limits),
		cmocka_unit_test_setup_teardown(map_count, setup_few_maps, teardown),
		TEST(maps_text),
		TEST(lookups),
		TEST(forks),
		TEST(waits_are_given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
