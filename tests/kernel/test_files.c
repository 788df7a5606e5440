/* SPDX-License-Identifier: MIT */
/*
 * test_files.c - what the running kernel answers about mappings of real files, beside the library's
 * answers about the same descriptors: which files can be mapped, how seals of a memfd count, and
 * which words a futex may live in.
 */
#include <samara/samara.h>
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <linux/futex.h>
#include <unistd.h>
#include <cmocka.h>

#define PAGE 4096
#define RW   (PROT_READ | PROT_WRITE)

static struct sm_host *host;
static struct sm_space *s;

static int setup(void **state)
{
	struct sm_space_options o;

	(void)state;
	host = sm_host_create(NULL, NULL);
	sm_space_options_init(&o);
	o.backend = SM_BACKEND_SOFT;
	s = sm_space_create(host, &o, NULL);
	return !s;
}

static int teardown(void **state)
{
	(void)state;
	sm_space_destroy(s);
	sm_host_destroy(host);
	return 0;
}

/* What was asked of both, and what they said: 0 or a negative errno for each step. */
struct answers {
	int map, protect, populate, remove;
};

static int neg_errno(int r)
{
	return r ? -errno : 0;
}

static struct answers ask_kernel(int fd, int prot, int flags)
{
	struct answers a = { 0 };
	void *at = mmap(NULL, PAGE, prot, flags, fd, 0);

	if (at == MAP_FAILED) {
		a.map = -errno;
		return a;
	}
	a.protect = neg_errno(mprotect(at, PAGE, RW));
	a.populate = neg_errno(madvise(at, PAGE, MADV_POPULATE_WRITE));
	a.remove = neg_errno(madvise(at, PAGE, MADV_REMOVE));
	munmap(at, PAGE);
	return a;
}

static struct answers ask_library(struct sm_file *file, int prot, int flags)
{
	struct answers a = { 0 };
	int64_t at = sm_mmap(s, 0, PAGE, prot, flags, file, 0);

	if (at < 0) {
		a.map = (int)at;
		return a;
	}
	a.protect = sm_mprotect(s, (sm_addr)at, PAGE, RW);
	a.populate = sm_madvise(s, (sm_addr)at, PAGE, SM_MADV_POPULATE_WRITE);
	a.remove = sm_madvise(s, (sm_addr)at, PAGE, SM_MADV_REMOVE);
	assert_int_equal(sm_munmap(s, (sm_addr)at, PAGE), 0);
	return a;
}

/* Every permission and type; only_map: the steps after the mapping are not compared. */
static void same_answers(const char *what, int fd, struct sm_file *file, bool only_map)
{
	static const int types[] = { MAP_SHARED, MAP_PRIVATE, MAP_SHARED_VALIDATE };
	unsigned differ = 0;

	for (int prot = 0; prot <= RW; prot++) {
		for (size_t t = 0; t < SM__ARRAY_SIZE(types); t++) {
			struct answers k = ask_kernel(fd, prot, types[t]);
			struct answers o = ask_library(file, prot, types[t]);

			if (only_map ? k.map == o.map : !memcmp(&k, &o, sizeof(k)))
				continue;
			differ++;
			fprintf(stderr,
				"%s, prot %d, type %d: kernel %d %d %d %d, library %d %d %d %d\n",
				what, prot, types[t], k.map, k.protect, k.populate, k.remove, o.map,
				o.protect, o.populate, o.remove);
		}
	}
	assert_int_equal(differ, 0);
}

/* Linux maps a file with F_SEAL_WRITE shared and read-only since 6.7. */
static bool kernel_is_at_least(unsigned major, unsigned minor)
{
	struct utsname u;
	unsigned a = 0, b = 0;

	assert_int_equal(uname(&u), 0);
	assert_int_equal(sscanf(u.release, "%u.%u", &a, &b), 2);
	return a > major || (a == major && b >= minor);
}

static void seals_count(void **state)
{
	static const int seals[] = { 0, F_SEAL_WRITE, F_SEAL_FUTURE_WRITE,
				     F_SEAL_SHRINK | F_SEAL_GROW };

	(void)state;
	if (!kernel_is_at_least(6, 8))
		skip();
	for (size_t i = 0; i < SM__ARRAY_SIZE(seals); i++) {
		int fd = memfd_create("seals", MFD_ALLOW_SEALING), ro;
		char what[64], link[64];
		struct sm_file *before, *after, *read_only;

		assert_true(fd >= 0);
		assert_int_equal(ftruncate(fd, 2 * PAGE), 0);
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		ro = open(link, O_RDONLY);
		assert_true(ro >= 0);
		assert_int_equal(sm_file_open_fd(fd, NULL, &before), 0);
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals[i]), 0);
		assert_int_equal(sm_file_open_fd(fd, NULL, &after), 0);
		assert_int_equal(sm_file_open_fd(ro, NULL, &read_only), 0);
		snprintf(what, sizeof(what), "seals %#x", (unsigned)seals[i]);
		same_answers(what, fd, before, false);
		same_answers(what, fd, after, false);
		same_answers("opened for reading", ro, read_only, false);
		sm_file_put(before);
		sm_file_put(after);
		sm_file_put(read_only);
		close(ro);
		close(fd);
	}
}

/* A mapping that was made before the seal keeps what it may. */
static void a_seal_leaves_old_mappings(void **state)
{
	int fd = memfd_create("seals", MFD_ALLOW_SEALING);
	struct sm_file *file;
	void *theirs;
	int64_t ours;

	(void)state;
	assert_int_equal(ftruncate(fd, PAGE), 0);
	assert_int_equal(sm_file_open_fd(fd, NULL, &file), 0);
	theirs = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	ours = sm_mmap(s, 0, PAGE, SM_PROT_READ, SM_MAP_SHARED, file, 0);
	assert_true(theirs != MAP_FAILED && ours > 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
	assert_int_equal(sm_mprotect(s, (sm_addr)ours, PAGE, RW),
			 neg_errno(mprotect(theirs, PAGE, RW)));
	/* a refused mapping leaves what it would have replaced */
	assert_true(mmap(theirs, PAGE, RW, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED);
	assert_int_equal(errno, EPERM);
	assert_int_equal(sm_mmap(s, (sm_addr)ours, PAGE, RW, SM_MAP_SHARED | SM_MAP_FIXED, file, 0),
			 -EPERM);
	*(volatile char *)theirs = 1;
	assert_int_equal(sm_write(s, (sm_addr)ours, "x", 1, NULL), 1);
	/* what guests wrote is not lost for that, but it can't go to the file any more */
	assert_int_equal(sm_msync(s, (sm_addr)ours, PAGE, SM_MS_SYNC), -EPERM);
	sm_file_put(file);
	munmap(theirs, PAGE);
	assert_int_equal(sm_munmap(s, (sm_addr)ours, PAGE), 0);
	close(fd);
}

static void what_can_be_mapped(void **state)
{
	static const struct {
		const char *path;
		int how;
	} files[] = {
		{ "/proc/self/maps", O_RDONLY },
		{ "/proc/self/pagemap", O_RDONLY },
		{ "/sys/devices/system/cpu/online", O_RDONLY },
		{ "/dev/null", O_RDWR },
		{ "/dev/null", O_RDONLY },
		{ "/dev/null", O_WRONLY },
		{ "/dev/full", O_RDWR },
		{ "/dev/random", O_RDONLY },
		{ "/dev/zero", O_RDWR },
		{ "/", O_RDONLY | O_DIRECTORY },
		{ "/proc/self", O_RDONLY | O_DIRECTORY },
		{ "/proc/self/exe", O_RDONLY },
	};

	(void)state;
	for (size_t i = 0; i < SM__ARRAY_SIZE(files); i++) {
		int fd = open(files[i].path, files[i].how | O_CLOEXEC);
		struct sm_file *file;

		if (fd < 0) /* not on every machine */
			continue;
		assert_int_equal(sm_file_open_fd(fd, NULL, &file), 0);
		same_answers(files[i].path, fd, file, true);
		sm_file_put(file);
		close(fd);
	}
}

/* 0 where a futex may live at the word, what FUTEX_WAKE of nobody says otherwise. */
static int kernel_key(const void *word, bool shared)
{
	return neg_errno(syscall(SYS_futex, word, FUTEX_WAKE | (shared ? 0 : FUTEX_PRIVATE_FLAG), 1,
				 NULL, NULL, 0) < 0);
}

static void same_keys(const char *what, const char *theirs, sm_addr ours)
{
	for (int i = 0; i < 6; i++) {
		bool shared = i & 1;
		unsigned at = (unsigned)(i / 2) * (PAGE / 2 + 1); /* 0, not aligned, 2nd page */
		struct sm_futex_key key;
		int k, o;

		if (i / 2 == 2)
			at = PAGE;
		k = kernel_key(theirs + at, shared);
		o = sm_futex_key(s, ours + at, shared, &key);
		if (k != o)
			fprintf(stderr, "%s + %u, %s: kernel %d, library %d\n", what, at,
				shared ? "shared" : "private", k, o);
		assert_int_equal(o, k);
	}
}

static void futex_words(void **state)
{
	enum { PAGES = 2 };
	int fd = memfd_create("words", 0);
	struct sm_file *file;

	(void)state;
	assert_int_equal(ftruncate(fd, PAGE), 0); /* the second page is beyond the end */
	assert_int_equal(sm_file_open_fd(fd, NULL, &file), 0);
	for (int prot = 0; prot <= RW; prot++) {
		for (int kind = 0; kind < 6; kind++) {
			bool anon = kind & 1, touched = kind >= 4;
			int type = kind / 2 % 2 ? MAP_SHARED : MAP_PRIVATE;
			int flags = type | (anon ? MAP_ANONYMOUS : 0);
			char what[64];
			void *theirs =
				mmap(NULL, (size_t)PAGES * PAGE, prot, flags, anon ? -1 : fd, 0);
			int64_t ours = sm_mmap(s, 0, (uint64_t)PAGES * PAGE, prot, flags,
					       anon ? NULL : file, 0);

			assert_true(theirs != MAP_FAILED && ours > 0);
			if (touched && prot == RW) {
				*(volatile int *)theirs = 1;
				assert_int_equal(sm_write(s, (sm_addr)ours, "1", 1, NULL), 1);
			}
			snprintf(what, sizeof(what), "prot %d, %s %s%s", prot,
				 type == MAP_SHARED ? "shared" : "private",
				 anon ? "anonymous" : "file", touched ? ", touched" : "");
			same_keys(what, theirs, (sm_addr)ours);
			munmap(theirs, (size_t)PAGES * PAGE);
			assert_int_equal(sm_munmap(s, (sm_addr)ours, (uint64_t)PAGES * PAGE), 0);
			/* nothing is mapped there any more */
			same_keys("unmapped", theirs, (sm_addr)ours);
		}
	}
	sm_file_put(file);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(seals_count, setup, teardown),
		cmocka_unit_test_setup_teardown(a_seal_leaves_old_mappings, setup, teardown),
		cmocka_unit_test_setup_teardown(what_can_be_mapped, setup, teardown),
		cmocka_unit_test_setup_teardown(futex_words, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
