/* SPDX-License-Identifier: MIT */
/*
 * test_pages.c - a space with pages: what is written is read back through every call that moves,
 * copies, protects or drops it (backend_soft.c, soft_access.c, soft_tlb.c).
 */
#include "base/random.h"
#include "space/soft.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>
#include <samara/samara.h>

#define PAGE  4096ull
#define RW    (SM_PROT_READ | SM_PROT_WRITE)
#define ANON  (SM_MAP_PRIVATE | SM_MAP_ANONYMOUS)
#define FIXED (ANON | SM_MAP_FIXED)
#define BASE  0x10000000ull

static const char *preset;
static struct sm_host *host;
static struct sm_space *s;

static struct sm_space *new_space(void)
{
	struct sm_space_options o;
	struct sm_space *space;
	const char *why;

	sm_space_options_init(&o);
	o.backend = SM_BACKEND_SOFT;
	assert_int_equal(sm_design_preset(preset, &o.design), 0);
	space = sm_space_create(host, &o, &why);
	assert_non_null(space);
	return space;
}

static int setup(void **state)
{
	struct sm_host_options o;

	(void)state;
	sm_host_options_init(&o);
	o.frame_bytes = 64 << 20;
	host = sm_host_create(&o, NULL);
	s = new_space();
	return 0;
}

static uint64_t frames_in_use(void)
{
	struct sm__pool_stats st;

	sm__pool_stats(sm__host_memory(host)->pool, &st);
	return st.in_use;
}

static int teardown(void **state)
{
	(void)state;
	sm_space_destroy(s);
	sm__rcu_barrier();
	assert_int_equal(frames_in_use(), 0);
	assert_int_equal(sm_host_destroy(host), 0);
	return 0;
}

static sm_addr map(sm_addr at, uint64_t pages, int prot, int flags)
{
	int64_t got = sm_mmap(s, at, pages * PAGE, prot, flags, NULL, 0);

	assert_true(got > 0);
	return (sm_addr)got;
}

static void put(struct sm_space *space, sm_addr at, uint64_t v)
{
	assert_int_equal(sm_write(space, at, &v, sizeof(v), NULL), sizeof(v));
}

static uint64_t get(struct sm_space *space, sm_addr at)
{
	uint64_t v = ~0ull;

	assert_int_equal(sm_read(space, at, &v, sizeof(v), NULL), sizeof(v));
	return v;
}

static void memory_keeps_what_is_written(void **state)
{
	sm_addr a = map(0, 100, RW, ANON);
	char out[3 * PAGE], in[3 * PAGE];
	struct sm_fault_result why;

	(void)state;
	memset(in, 0x5a, sizeof(in));
	assert_int_equal(sm_write(s, a + 100, in, sizeof(in), NULL), sizeof(in));
	assert_int_equal(sm_read(s, a + 100, out, sizeof(out), NULL), sizeof(out));
	assert_memory_equal(in, out, sizeof(in));
	assert_int_equal(get(s, a + 10 * PAGE), 0);
	/* A copy that runs into a hole is short, and says which address it was. */
	assert_int_equal(sm_read(s, a + 99 * PAGE + 10, out, sizeof(out), &why), PAGE - 10);
	assert_int_equal(why.signo, SIGSEGV);
	assert_int_equal(why.code, 1);
	assert_int_equal(why.addr, a + 100 * PAGE);
	assert_int_equal(sm_read(s, a + 100 * PAGE, out, 1, &why), -EFAULT);
	assert_int_equal(sm_munmap(s, a, 100 * PAGE), 0);
	a = map(a, 100, RW, FIXED);
	assert_int_equal(get(s, a + 104), 0);
}

static void protection_holds_for_every_access(void **state)
{
	sm_addr a = map(0, 4, RW, ANON);
	struct sm_fault_result r;

	(void)state;
	put(s, a, 1);
	assert_int_equal(sm_mprotect(s, a, PAGE, SM_PROT_READ), 0);
	r = sm_fault(s, a, SM_ACCESS_WRITE);
	assert_int_equal(r.signo, SIGSEGV);
	assert_int_equal(r.code, 2);
	assert_int_equal(get(s, a), 1);
	assert_int_equal(sm_mprotect(s, a, PAGE, SM_PROT_NONE), 0);
	assert_int_equal(sm_fault(s, a, SM_ACCESS_READ).signo, SIGSEGV);
	assert_int_equal(sm_mprotect(s, a, PAGE, RW), 0);
	assert_int_equal(get(s, a), 1);
	assert_int_equal(sm_fault(s, a, SM_ACCESS_EXEC).signo, SIGSEGV);
	put(s, a, 2);
	assert_int_equal(get(s, a), 2);
}

static void fork_gives_both_the_same_and_keeps_them_apart(void **state)
{
	sm_addr a = map(0, 50, RW, ANON), b = map(0, 2, RW, SM_MAP_SHARED | SM_MAP_ANONYMOUS);
	struct sm_space *child, *grandchild;

	(void)state;
	for (int i = 0; i < 50; i++)
		put(s, a + i * PAGE, 100 + i);
	put(s, b, 1);
	assert_int_equal(sm_madvise(s, a + 10 * PAGE, PAGE, SM_MADV_WIPEONFORK), 0);
	assert_int_equal(sm_madvise(s, a + 20 * PAGE, PAGE, SM_MADV_DONTFORK), 0);
	child = sm_fork(s);
	grandchild = sm_fork(child);
	put(s, a, 1);
	put(child, a + PAGE, 2);
	put(grandchild, a + 2 * PAGE, 3);
	assert_int_equal(get(child, a), 100);
	assert_int_equal(get(grandchild, a), 100);
	assert_int_equal(get(s, a + PAGE), 101);
	assert_int_equal(get(child, a + 2 * PAGE), 102);
	assert_int_equal(get(child, a + 10 * PAGE), 0);
	assert_int_equal(sm_fault(child, a + 20 * PAGE, SM_ACCESS_READ).signo, SIGSEGV);
	put(grandchild, b + PAGE, 7);
	assert_int_equal(get(s, b + PAGE), 7);
	assert_int_equal(get(child, b), 1);
	sm_space_destroy(child);
	assert_int_equal(get(grandchild, a + 3 * PAGE), 103);
	sm_space_destroy(grandchild);
	assert_int_equal(get(s, a + 2 * PAGE), 102);
}

static void moved_memory_takes_its_contents_along(void **state)
{
	sm_addr a = map(BASE, 600, RW, FIXED), b;

	(void)state;
	for (int i = 0; i < 600; i += 5)
		put(s, a + i * PAGE, i);
	b = (sm_addr)sm_mremap(s, a, 600 * PAGE, 700 * PAGE, SM_MREMAP_MAYMOVE | SM_MREMAP_FIXED,
			       BASE + (100 << 20) + 37 * PAGE);
	assert_int_equal(b, BASE + (100 << 20) + 37 * PAGE);
	for (int i = 0; i < 600; i++)
		assert_int_equal(get(s, b + i * PAGE), i % 5 ? 0 : i);
	assert_int_equal(get(s, b + 699 * PAGE), 0);
	assert_int_equal(sm_mremap(s, b, 700 * PAGE, 10 * PAGE, 0, 0), b);
	assert_int_equal(sm_mremap(s, b, 10 * PAGE, 700 * PAGE, 0, 0), b);
	assert_int_equal(get(s, b + 5 * PAGE), 5);
	assert_int_equal(get(s, b + 15 * PAGE), 0);
}

static void files_are_shared_and_truncated_under_mappings(void **state)
{
	struct sm_space *other = new_space();
	int fd = memfd_create("f", 0);
	struct sm_file *file;
	sm_addr sh, pr;
	uint64_t v = 77;

	(void)state;
	assert_int_equal(ftruncate(fd, 10 * PAGE), 0);
	assert_int_equal(pwrite(fd, &v, 8, 3 * PAGE), 8);
	assert_int_equal(sm_file_open_fd(fd, "f", &file), 0);
	sh = (sm_addr)sm_mmap(s, 0, 10 * PAGE, RW, SM_MAP_SHARED, file, 0);
	pr = (sm_addr)sm_mmap(other, 0, 9 * PAGE, RW, SM_MAP_PRIVATE, file, PAGE);
	assert_int_equal(get(s, sh + 3 * PAGE), 77);
	assert_int_equal(get(other, pr + 2 * PAGE), 77);
	put(s, sh + 3 * PAGE, 78);
	assert_int_equal(get(other, pr + 2 * PAGE), 78);
	put(other, pr + 2 * PAGE, 79);
	assert_int_equal(get(s, sh + 3 * PAGE), 78);
	assert_int_equal(sm_file_sync(file, 0, 10 * PAGE, true), 0);
	assert_int_equal(pread(fd, &v, 8, 3 * PAGE), 8);
	assert_int_equal(v, 78);
	assert_int_equal(sm_file_truncate(file, 2 * PAGE), 0);
	assert_int_equal(sm_fault(s, sh + 3 * PAGE, SM_ACCESS_READ).signo, SIGBUS);
	assert_int_equal(sm_fault(other, pr + 2 * PAGE, SM_ACCESS_READ).signo, SIGBUS);
	assert_int_equal(sm_fault(other, pr + 2 * PAGE, SM_ACCESS_READ).code, 2);
	sm_file_put(file);
	assert_int_equal(get(s, sh), 0);
	sm_space_destroy(other);
	assert_int_equal(sm_munmap(s, sh, 10 * PAGE), 0);
	close(fd);
}

/* Nothing of the file's first byte on can be read at [at, at + pages). */
static void is_beyond_the_end(struct sm_space *space, sm_addr at, uint64_t pages)
{
	for (uint64_t i = 0; i < pages; i++) {
		struct sm_fault_result r = sm_fault(space, at + i * PAGE, SM_ACCESS_READ);

		assert_int_equal(r.signo, SIGBUS);
	}
}

/* Pieces of a mapping that come about by splits, merges, moves, cuts and forks map what it mapped. */
static void truncation_reaches_every_piece(void **state)
{
	enum { PAGES = 64 };
	struct sm_space *child;
	struct sm_file *file;
	sm_addr sh, pr, moved, twin;

	(void)state;
	assert_int_equal(sm_file_create_memory("pieces", PAGES * PAGE, &file), 0);
	sh = (sm_addr)sm_mmap(s, BASE, PAGES * PAGE, RW, SM_MAP_SHARED, file, 0);
	pr = (sm_addr)sm_mmap(s, 2 * BASE, PAGES * PAGE, RW, SM_MAP_PRIVATE, file, 0);
	assert_true(sh == BASE && pr == 2 * BASE);
	for (sm_addr i = 0; i < PAGES; i++) {
		put(s, sh + i * PAGE, i);
		if (i & 1)
			put(s, pr + i * PAGE, ~i);
	}
	for (sm_addr i = 0; i + 1 < PAGES; i += 9)
		for (int prot = SM_PROT_READ; prot <= RW; prot += RW - SM_PROT_READ)
			assert_int_equal(sm_mprotect(s, sh + i * PAGE, 2 * PAGE, prot), 0);
	assert_int_equal(sm_mprotect(s, sh + 20 * PAGE, 3 * PAGE, SM_PROT_READ), 0);
	assert_int_equal(sm_mprotect(s, sh + 21 * PAGE, 1 * PAGE, SM_PROT_NONE), 0);
	assert_int_equal(sm_mprotect(s, pr + 40 * PAGE, 8 * PAGE, SM_PROT_READ), 0);
	moved = (sm_addr)sm_mremap(s, sh + 30 * PAGE, 4 * PAGE, 4 * PAGE,
				   SM_MREMAP_MAYMOVE | SM_MREMAP_FIXED, 3 * BASE);
	assert_int_equal(moved, 3 * BASE);
	twin = (sm_addr)sm_mremap(s, sh + 50 * PAGE, 0, 4 * PAGE,
				  SM_MREMAP_MAYMOVE | SM_MREMAP_FIXED, 4 * BASE);
	assert_int_equal(twin, 4 * BASE);
	assert_int_equal(get(s, twin), 50);
	assert_int_equal(sm_munmap(s, sh, 2 * PAGE), 0);
	assert_int_equal(sm_munmap(s, pr + 62 * PAGE, 2 * PAGE), 0);
	assert_int_equal(sm_munmap(s, sh + 60 * PAGE, PAGE), 0);
	child = sm_fork(s);
	assert_non_null(child);
	put(child, pr + 3 * PAGE, 33);
	assert_int_equal(get(child, moved + 2 * PAGE), 32);
	/* The moved piece may go back and merge. */
	assert_int_equal(sm_mremap(child, moved, 4 * PAGE, 4 * PAGE,
				   SM_MREMAP_MAYMOVE | SM_MREMAP_FIXED, sh + 30 * PAGE),
			 sh + 30 * PAGE);
	assert_int_equal(sm_file_truncate(file, 0), 0);
	is_beyond_the_end(s, sh + 2 * PAGE, 19);
	is_beyond_the_end(s, sh + 22 * PAGE, 8);
	is_beyond_the_end(s, sh + 34 * PAGE, 26);
	is_beyond_the_end(s, sh + 61 * PAGE, 3);
	is_beyond_the_end(s, moved, 4);
	is_beyond_the_end(s, twin, 4);
	is_beyond_the_end(s, pr, 62);
	is_beyond_the_end(child, sh + 22 * PAGE, 38);
	is_beyond_the_end(child, pr, 62);
	sm_space_destroy(child);
	assert_int_equal(sm_munmap(s, BASE, 4 * BASE), 0);
	assert_int_equal(sm__rmap_count(sm__pages_bound(file)), 0);
	sm_file_put(file);
}

enum { RACE_PAGES = 4, RACE_PUNCHES = 10000 };

struct race {
	struct sm_file *file;
	sm_addr at;
	bool stop;
};

static void *writes(void *arg)
{
	struct race *r = arg;

	for (uint64_t v = 1; !__atomic_load_n(&r->stop, __ATOMIC_RELAXED); v++)
		(void)sm_write(s, r->at + v % RACE_PAGES * PAGE, &v, sizeof(v), NULL);
	return NULL;
}

static void *protects(void *arg)
{
	struct race *r = arg;

	while (!__atomic_load_n(&r->stop, __ATOMIC_RELAXED)) {
		(void)sm_mprotect(s, r->at, RACE_PAGES * PAGE, SM_PROT_READ);
		(void)sm_mprotect(s, r->at, RACE_PAGES * PAGE, RW);
	}
	return NULL;
}

/*
 * A write meets a page that a punch has taken from the file and not yet from the space, for which it
 * needs mmap_lock, which a writer wants that waits for the fault (pagefault.c I4). Hangs if one of
 * the three waits for its next.
 */
static void pages_leave_under_writers(void **state)
{
	int fd = memfd_create("f", 0);
	struct race r = { 0 };
	pthread_t thread[3];

	(void)state;
	assert_int_equal(ftruncate(fd, RACE_PAGES * PAGE), 0);
	assert_int_equal(sm_file_open_fd(fd, "f", &r.file), 0);
	r.at = (sm_addr)sm_mmap(s, 0, RACE_PAGES * PAGE, RW, SM_MAP_SHARED, r.file, 0);
	assert_int_equal(pthread_create(&thread[0], NULL, writes, &r), 0);
	assert_int_equal(pthread_create(&thread[1], NULL, writes, &r), 0);
	assert_int_equal(pthread_create(&thread[2], NULL, protects, &r), 0);
	for (int i = 0; i < RACE_PUNCHES; i++)
		assert_int_equal(sm_file_punch(r.file, 0, RACE_PAGES * PAGE), 0);
	__atomic_store_n(&r.stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(sm_munmap(s, r.at, RACE_PAGES * PAGE), 0);
	sm_file_put(r.file);
	close(fd);
}

static void what_is_out_of_range_is_refused(void **state)
{
	struct sm_file *file;
	struct sm_tlb *tlb;
	sm_addr at;
	void *p;

	(void)state;
	assert_int_equal(sm_file_create_memory("m", 2 * PAGE, &file), 0);
	at = (sm_addr)sm_mmap(s, 0, 2 * PAGE, RW, SM_MAP_SHARED, file, 0);
	put(s, at, 7);
	(void)sm_file_punch(file, UINT64_MAX - 10, 5);
	assert_int_equal(get(s, at), 7);
	assert_int_equal(sm_tlb_create(s, &tlb), 0);
	sm_tlb_run(tlb);
	for (unsigned access = 0; access < 9; access++) {
		bool is_one = access == SM_ACCESS_READ || access == SM_ACCESS_WRITE ||
			      access == SM_ACCESS_EXEC;

		(void)sm_translate(tlb, at, (enum sm_access)access);
		if (!is_one)
			assert_int_equal(sm_tlb_fill(tlb, at, (enum sm_access)access, &p).error,
					 -EINVAL);
	}
	sm_tlb_stop(tlb);
	sm_tlb_destroy(tlb);
	assert_int_equal(sm_munmap(s, at, 2 * PAGE), 0);
	sm_file_put(file);
}

static void advice_works_on_pages(void **state)
{
	sm_addr a = map(0, 8, RW, ANON);

	(void)state;
	for (int i = 0; i < 8; i++)
		put(s, a + i * PAGE, 1 + i);
	assert_int_equal(sm_madvise(s, a, PAGE, SM_MADV_DONTNEED), 0);
	assert_int_equal(get(s, a), 0);
	assert_int_equal(get(s, a + PAGE), 2);
	assert_int_equal(sm_madvise(s, a + PAGE, PAGE, SM_MADV_GUARD_INSTALL), 0);
	assert_int_equal(sm_fault(s, a + PAGE, SM_ACCESS_READ).signo, SIGSEGV);
	assert_int_equal(sm_madvise(s, a + PAGE, PAGE, SM_MADV_GUARD_REMOVE), 0);
	assert_int_equal(get(s, a + PAGE), 0);
	assert_int_equal(sm_madvise(s, a + 2 * PAGE, PAGE, SM_MADV_FREE), 0);
	put(s, a + 2 * PAGE, 9);
	assert_int_equal(sm_madvise(s, a, 8 * PAGE, SM_MADV_PAGEOUT), 0);
	assert_int_equal(get(s, a + 2 * PAGE), 9);
	assert_int_equal(get(s, a + 7 * PAGE), 8);
}

static void device_ranges_are_the_embedders(void **state)
{
	struct sm_file_info info = { .name = "/dev/x",
				     .mode = SM_FILE_READ | SM_FILE_WRITE | SM_FILE_DEVICE };
	struct sm_fault_result why;
	struct sm_file *file;
	uint64_t v;
	sm_addr a;

	(void)state;
	assert_int_equal(sm_file_create(&info, NULL, NULL, &file), 0);
	a = (sm_addr)sm_mmap(s, 0, PAGE, RW, SM_MAP_SHARED, file, 0);
	assert_true((int64_t)a > 0);
	assert_int_equal(sm_fault(s, a, SM_ACCESS_WRITE).flags & SM_FAULT_DEVICE, SM_FAULT_DEVICE);
	assert_int_equal(sm_read(s, a, &v, 8, &why), -EFAULT);
	assert_int_equal(why.flags & SM_FAULT_DEVICE, SM_FAULT_DEVICE);
	sm_file_put(file);
}

static void stacks_grow_with_pages(void **state)
{
	sm_addr a = map(BASE, 4, RW, FIXED | SM_MAP_GROWSDOWN);

	(void)state;
	put(s, a - 3 * PAGE, 5);
	assert_int_equal(get(s, a - 3 * PAGE), 5);
	assert_int_equal(get(s, a - PAGE), 0);
}

static void atomics_and_keys(void **state)
{
	sm_addr a = map(0, 1, RW, ANON), b = map(0, 1, RW, SM_MAP_SHARED | SM_MAP_ANONYMOUS);
	struct sm_futex_key k1, k2;
	struct sm_space *child;
	uint64_t expected = 0;

	(void)state;
	assert_int_equal(sm_cmpxchg(s, a + 8, 8, &expected, 5), 1);
	assert_int_equal(sm_cmpxchg(s, a + 8, 8, &expected, 6), 0);
	assert_int_equal(expected, 5);
	expected = 5;
	assert_int_equal(sm_cmpxchg(s, a + 8, 1, &expected, 0x7f), 1);
	assert_int_equal(get(s, a + 8), 0x7f);
	assert_int_equal(sm_cmpxchg(s, a + 1, 2, &expected, 1), -EINVAL);
	assert_int_equal(sm_cmpxchg(s, 0x1000, 4, &expected, 1), -EFAULT);
	child = sm_fork(s);
	assert_int_equal(sm_futex_key(s, b + 4, true, &k1), 0);
	assert_int_equal(sm_futex_key(child, b + 4, true, &k2), 0);
	assert_true(k1.shared && k2.shared);
	assert_int_equal(k1.object, k2.object);
	assert_int_equal(k1.offset, k2.offset);
	assert_int_equal(sm_futex_key(s, a, true, &k1), 0);
	assert_int_equal(sm_futex_key(child, a, true, &k2), 0);
	assert_true(k1.object != k2.object);
	sm_space_destroy(child);
}

/* What FUTEX_WAKE answers on Linux 6.18 for the same mappings. */
static void keys_exist_where_linux_has_them(void **state)
{
	const int NONE = 0, R = SM_PROT_READ;
	struct sm_futex_key k, k2;
	struct sm_file *file;
	sm_addr at[5];

	(void)state;
	assert_int_equal(sm_file_create_memory("words", PAGE, &file), 0);
	at[0] = (sm_addr)sm_mmap(s, 0, PAGE, NONE, SM_MAP_SHARED, file, 0);
	at[1] = (sm_addr)sm_mmap(s, 0, 2 * PAGE, RW, SM_MAP_SHARED, file, 0);
	at[2] = (sm_addr)sm_mmap(s, 0, 2 * PAGE, R, SM_MAP_SHARED, file, 0);
	at[3] = (sm_addr)sm_mmap(s, 0, 2 * PAGE, R, SM_MAP_PRIVATE, file, 0);
	at[4] = map(0, 1, NONE, ANON);
	sm_file_put(file);
	assert_int_equal(sm_futex_key(s, at[0], true, &k), -EFAULT);
	/* before anything has touched the file */
	assert_int_equal(sm_futex_key(s, at[1] + 8, true, &k), 0);
	for (unsigned i = 2; i < 4; i++) {
		assert_int_equal(sm_futex_key(s, at[i] + 8, true, &k2), 0);
		assert_true(k2.shared);
		assert_int_equal(k2.object, k.object);
		assert_int_equal(k2.offset, k.offset);
	}
	for (unsigned i = 1; i < 4; i++)
		assert_int_equal(sm_futex_key(s, at[i] + PAGE, true, &k), -EFAULT);
	assert_int_equal(sm_futex_key(s, at[1] + PAGE, false, &k), 0);
	assert_int_equal(sm_futex_key(s, at[4], true, &k), -EFAULT);
	assert_int_equal(sm_futex_key(s, at[4], false, &k), 0);
	assert_int_equal(sm_futex_key(s, map(0, 1, R, ANON), true, &k), -EFAULT);
	assert_int_equal(sm_futex_key(s, 0x1000, true, &k), -EFAULT);
	assert_int_equal(sm_futex_key(s, 0x1000, false, &k), 0);
	assert_int_equal(sm_futex_key(s, -(sm_addr)PAGE, false, &k), -EFAULT);
	assert_int_equal(sm_futex_key(s, at[1] + 1, true, &k), -EINVAL);
}

static void a_tlb_sees_what_the_space_shows(void **state)
{
	sm_addr a = map(0, 4, RW, ANON);
	struct sm_fault_result r;
	struct sm_tlb *tlb;
	void *p;

	(void)state;
	assert_int_equal(sm_tlb_create(s, &tlb), 0);
	assert_int_equal(sm_tlb_fill(tlb, a, SM_ACCESS_READ, &p).error, -EINVAL);
	sm_tlb_run(tlb);
	r = sm_tlb_fill(tlb, a, SM_ACCESS_READ, &p);
	assert_int_equal(r.signo, 0);
	assert_int_equal(*(uint64_t *)p, 0);
	assert_null(sm_translate(tlb, a, SM_ACCESS_WRITE));
	(void)sm_tlb_fill(tlb, a, SM_ACCESS_WRITE, &p);
	*(uint64_t *)p = 6;
	assert_ptr_equal(sm_translate(tlb, a, SM_ACCESS_READ), p);
	assert_int_equal(sm_mprotect(s, a, PAGE, SM_PROT_READ), 0);
	assert_null(sm_translate(tlb, a, SM_ACCESS_READ));
	r = sm_tlb_fill(tlb, a, SM_ACCESS_WRITE, &p);
	assert_int_equal(r.signo, SIGSEGV);
	(void)sm_tlb_fill(tlb, a, SM_ACCESS_READ, &p);
	assert_int_equal(*(uint64_t *)p, 6);
	assert_null(sm_translate(tlb, a, SM_ACCESS_WRITE));
	sm_tlb_stop(tlb);
	sm_tlb_destroy(tlb);
}

static void *runs_and_ends(void *arg)
{
	struct sm_tlb *tlb = arg;
	void *p;

	sm_tlb_run(tlb);
	return sm_tlb_fill(tlb, BASE, SM_ACCESS_WRITE, &p).signo ? NULL : tlb;
}

/* Nobody waits for a guest whose thread is no more (tlb.h G3). */
static void a_thread_that_ends_leaves_its_guest(void **state)
{
	sm_addr a = map(BASE, 4, RW, FIXED);
	struct sm_tlb *tlb;
	pthread_t thread;
	void *r;

	(void)state;
	assert_int_equal(sm_tlb_create(s, &tlb), 0);
	assert_int_equal(pthread_create(&thread, NULL, runs_and_ends, tlb), 0);
	assert_int_equal(pthread_join(thread, &r), 0);
	assert_ptr_equal(r, tlb);
	assert_int_equal(sm_munmap(s, a, 4 * PAGE), 0);
	sm_tlb_destroy(tlb);
}

static void a_pool_has_a_size(void **state)
{
	const uint64_t bad[] = { 0, 1ull << 50, UINT64_MAX };
	struct sm_host_options o;
	const char *why;

	(void)state;
	sm_host_options_init(&o);
	for (size_t i = 0; i < SM__ARRAY_SIZE(bad); i++) {
		o.frame_bytes = bad[i];
		assert_null(sm_host_create(&o, &why));
		assert_int_equal(errno, EINVAL);
		assert_int_equal(strncmp(why, "frame_bytes", 11), 0);
	}
}

static uint64_t *fill(struct sm_tlb *tlb, sm_addr at, enum sm_access access)
{
	void *p;
	struct sm_fault_result r = sm_tlb_fill(tlb, at, access, &p);

	assert_int_equal(r.error, 0);
	assert_int_equal(r.signo, 0);
	assert_ptr_equal(sm_translate(tlb, at, access), p);
	return p;
}

/* tlb.h I6: a fault that waits for nothing puts its page into the TLB that runs on; one that waits
 * parks it, and comes back. */
static void a_fault_need_not_park(void **state)
{
	sm_addr a = map(0, 1100, RW, ANON);
	struct sm_tlb *tlb, *other;
	struct sm_space *child;

	(void)state;
	if (!strncmp(preset, "linux", 5))
		return;
	assert_int_equal(sm_tlb_create(s, &tlb), 0);
	assert_int_equal(sm_tlb_create(s, &other), 0);
	sm_tlb_run(tlb);
	for (uint64_t i = 0; i < 1100; i++) {
		uint64_t fills = tlb->fills;
		uint64_t *p = sm_translate(tlb, a + i * PAGE, SM_ACCESS_WRITE);

		p = p ? p : fill(tlb, a + i * PAGE, SM_ACCESS_WRITE);
		*p = i;
		assert_true(sm__tlb_runs(tlb));
		assert_true(tlb->fills <= fills + 1);
	}
	child = sm_fork(s);
	assert_non_null(child);
	assert_false(sm__tlb_runs(tlb));
	/* A copy replaces a translation: every TLB is told, this one too. */
	*fill(tlb, a, SM_ACCESS_WRITE) = 77;
	assert_true(sm__tlb_runs(tlb));
	assert_int_equal(get(child, a), 0);
	sm_space_destroy(child);
	/* Last user: taken over in place. */
	*fill(tlb, a + PAGE, SM_ACCESS_WRITE) = 78;
	assert_true(sm__tlb_runs(tlb));
	/* Another TLB that runs on the thread is left. */
	sm_tlb_run(other);
	assert_int_equal(*fill(other, a, SM_ACCESS_READ), 77);
	assert_int_equal(*fill(tlb, a + PAGE, SM_ACCESS_READ), 78);
	assert_false(sm__tlb_runs(other));
	sm_tlb_destroy(tlb);
	sm_tlb_destroy(other);
}

/* Pages of 16 and 64 KiB: everything is counted in the host's page size. */
static void pages_may_be_larger(void **state)
{
	for (uint64_t page = 16384; page <= 65536; page *= 4) {
		struct sm_space_options o;
		struct sm_host_options h;
		struct sm_space *space, *child;
		struct sm_host *other;
		int64_t a;

		(void)state;
		sm_host_options_init(&h);
		h.page_size = page;
		h.frame_bytes = 64 << 20;
		other = sm_host_create(&h, NULL);
		assert_non_null(other);
		sm_space_options_init(&o);
		o.backend = SM_BACKEND_SOFT;
		o.range_end = 1ull << 46; /* the default is a multiple of 4 KiB only */
		space = sm_space_create(other, &o, NULL);
		assert_non_null(space);
		a = sm_mmap(space, 0, 20 * page, RW, ANON, NULL, 0);
		assert_true(a > 0 && !(a & (int64_t)(page - 1)));
		for (uint64_t i = 0; i < 20; i++)
			put(space, (sm_addr)a + i * page + page - 8, 1 + i);
		child = sm_fork(space);
		put(space, (sm_addr)a + page - 8, 99);
		assert_int_equal(sm_munmap(space, (sm_addr)a + 5 * page, page), 0);
		assert_int_equal(sm_mprotect(space, (sm_addr)a + 7 * page, page, SM_PROT_NONE), 0);
		assert_int_equal(sm_fault(space, (sm_addr)a + 8 * page - 8, SM_ACCESS_READ).signo,
				 SIGSEGV);
		for (uint64_t i = 0; i < 20; i++)
			assert_int_equal(get(child, (sm_addr)a + i * page + page - 8), 1 + i);
		sm_space_destroy(child);
		sm_space_destroy(space);
		assert_int_equal(sm_host_destroy(other), 0);
	}
}

/* The pool runs dry: faults say so, and all is well when memory comes back. */
static void exhaustion_is_an_ordinary_result(void **state)
{
	sm_addr a = map(0, 40000, RW, ANON | SM_MAP_NORESERVE);
	struct sm_fault_result r = { 0 };
	int i;

	(void)state;
	for (i = 0; i < 40000; i++) {
		r = sm_fault(s, a + (uint64_t)i * PAGE, SM_ACCESS_WRITE);
		if (r.error)
			break;
	}
	assert_int_equal(r.error, -ENOMEM);
	assert_true(i > 15000 && i < 16384);
	assert_int_equal(sm_munmap(s, a, 100 * PAGE), 0);
	r = sm_fault(s, a + (uint64_t)i * PAGE, SM_ACCESS_WRITE);
	assert_int_equal(r.error, 0);
}

/* A file of 128 MiB in a pool of 64: what guests wrote goes to the file and comes back. */
static void a_file_may_be_larger_than_memory(void **state)
{
	enum { NR = 32768 };
	int fd = memfd_create("large", 0);
	struct sm_file *file;
	int64_t a;

	(void)state;
	assert_int_equal(ftruncate(fd, NR * PAGE), 0);
	assert_int_equal(sm_file_open_fd(fd, NULL, &file), 0);
	a = sm_mmap(s, 0, NR * PAGE, RW, SM_MAP_SHARED, file, 0);
	assert_true(a > 0);
	for (uint64_t i = 0; i < NR; i++)
		put(s, (sm_addr)a + i * PAGE, i ^ 0x5a5a5a5a);
	for (uint64_t i = 0; i < NR; i++)
		assert_int_equal(get(s, (sm_addr)a + i * PAGE), i ^ 0x5a5a5a5a);
	assert_int_equal(sm_msync(s, (sm_addr)a, NR * PAGE, SM_MS_SYNC), 0);
	for (uint64_t i = 0; i < NR; i += 97) {
		uint64_t v = 0;

		assert_int_equal(pread(fd, &v, sizeof(v), (off_t)(i * PAGE)), sizeof(v));
		assert_int_equal(v, i ^ 0x5a5a5a5a);
	}
	sm_file_put(file);
	close(fd);
}

int main(void)
{
	const char *const presets[] = { "linux-5.19", "linux-6.4", "samara" };
	int failed = 0;
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_fault_need_not_park),
		T(memory_keeps_what_is_written),
		T(protection_holds_for_every_access),
		T(fork_gives_both_the_same_and_keeps_them_apart),
		T(moved_memory_takes_its_contents_along),
		T(files_are_shared_and_truncated_under_mappings),
		T(truncation_reaches_every_piece),
		T(pages_leave_under_writers),
		T(what_is_out_of_range_is_refused),
		T(advice_works_on_pages),
		T(device_ranges_are_the_embedders),
		T(stacks_grow_with_pages),
		T(atomics_and_keys),
		T(keys_exist_where_linux_has_them),
		T(a_tlb_sees_what_the_space_shows),
		T(a_thread_that_ends_leaves_its_guest),
		T(a_pool_has_a_size),
		T(pages_may_be_larger),
		T(exhaustion_is_an_ordinary_result),
		T(a_file_may_be_larger_than_memory),
	};

	for (size_t i = 0; i < SM__ARRAY_SIZE(presets); i++) {
		preset = presets[i];
		failed += cmocka_run_group_tests_name(preset, tests, NULL, NULL);
	}
	return failed;
}
