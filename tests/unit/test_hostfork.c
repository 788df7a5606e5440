/* SPDX-License-Identifier: MIT */
/* test_hostfork.c - the host process forks while spaces have pages (memory/hostfork.c). */
#include "base/base.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include <samara/samara.h>

#define PAGE 4096ull
#define RW   (SM_PROT_READ | SM_PROT_WRITE)
#define ANON (SM_MAP_PRIVATE | SM_MAP_ANONYMOUS)

struct stage {
	struct sm_host *host;
	struct sm_space *space;
	sm_addr private, shared, churned;
	struct sm_file *file;
	int fd;
	atomic_bool stop;
};

static void build(struct stage *st, enum sm_frame_kind frames)
{
	struct sm_space_options o;
	struct sm_host_options h;
	uint64_t v = 11;

	sm_host_options_init(&h);
	h.frames = frames;
	h.frame_bytes = 32 << 20;
	st->host = sm_host_create(&h, NULL);
	sm_space_options_init(&o);
	o.backend = SM_BACKEND_SOFT;
	st->space = sm_space_create(st->host, &o, NULL);
	assert_non_null(st->space);
	st->private = (sm_addr)sm_mmap(st->space, 0, 64 * PAGE, RW, ANON, NULL, 0);
	st->fd = memfd_create("f", 0);
	assert_int_equal(ftruncate(st->fd, 4 * PAGE), 0);
	assert_int_equal(sm_file_open_fd(st->fd, NULL, &st->file), 0);
	st->shared = (sm_addr)sm_mmap(st->space, 0, 4 * PAGE, RW, SM_MAP_SHARED, st->file, 0);
	assert_int_equal(sm_write(st->space, st->private, &v, 8, NULL), 8);
	st->churned = (sm_addr)sm_mmap(st->space, 0x10000000, 32 * PAGE, RW, ANON, NULL, 0);
	assert_int_equal(sm_write(st->space, st->churned, &v, 8, NULL), 8);
	assert_int_equal(sm_write(st->space, st->shared, &v, 8, NULL), 8);
}

static void end(struct stage *st)
{
	sm_space_destroy(st->space);
	sm_file_put(st->file);
	assert_int_equal(sm_host_destroy(st->host), 0);
	close(st->fd);
}

#if !SM_TSAN
/* Takes and gives back frames, tables and areas while the process forks. */
static void *busy(void *arg)
{
	struct stage *st = arg;
	int64_t at;

	while (!atomic_load(&st->stop)) {
		for (uint64_t i = 0; i < 32; i++)
			(void)sm_fault(st->space, st->churned + i * PAGE, SM_ACCESS_WRITE);
		(void)sm_madvise(st->space, st->churned, 32 * PAGE, SM_MADV_DONTNEED);
		at = sm_mmap(st->space, 0, 2 * PAGE, RW, ANON, NULL, 0);
		if (at > 0)
			(void)sm_munmap(st->space, (sm_addr)at, 2 * PAGE);
	}
	return NULL;
}

/* Exit status of a child that ran body. */
static int in_child(struct stage *st, int (*body)(struct stage *st))
{
	int status = -1;
	pid_t pid = fork();

	if (!pid)
		_exit(body(st));
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int private_child(struct stage *st)
{
	uint64_t v = 0, w = 12;

	if (sm_read(st->space, st->private, &v, 8, NULL) != 8 || v != 11)
		return 1;
	if (sm_write(st->space, st->private, &w, 8, NULL) != 8 ||
	    sm_write(st->space, st->private + 9 * PAGE, &w, 8, NULL) != 8)
		return 2;
	if (sm_munmap(st->space, st->private, 64 * PAGE))
		return 3;
	return 0;
}

static int detached_child(struct stage *st)
{
	uint64_t v = 0;

	if (sm_read(st->space, st->private, &v, 8, NULL) != -ENOMEM)
		return 1;
	if (sm_fault(st->space, st->private, SM_ACCESS_WRITE).error != -ENOMEM)
		return 2;
	/* The parent's dirty page is not this process's to write. */
	if (sm_file_sync(st->file, 0, PAGE, true) || pread(st->fd, &v, 8, 0) != 8 || v)
		return 3;
	sm_space_destroy(st->space);
	return 0;
}

static void private_frames_are_the_childs_own(void **state)
{
	struct stage st = { 0 };
	pthread_t thread;
	uint64_t v;

	(void)state;
	build(&st, SM_FRAMES_PRIVATE);
	assert_int_equal(pthread_create(&thread, NULL, busy, &st), 0);
	for (int i = 0; i < 20; i++)
		assert_int_equal(in_child(&st, private_child), 0);
	atomic_store(&st.stop, true);
	pthread_join(thread, NULL);
	assert_int_equal(sm_read(st.space, st.private, &v, 8, NULL), 8);
	assert_int_equal(v, 11);
	end(&st);
}

static void shared_frames_are_never_the_childs(void **state)
{
	struct stage st = { 0 };
	pthread_t thread;
	uint64_t v;

	(void)state;
	build(&st, SM_FRAMES_MEMFD);
	assert_int_equal(pthread_create(&thread, NULL, busy, &st), 0);
	for (int i = 0; i < 20; i++)
		assert_int_equal(in_child(&st, detached_child), 0);
	atomic_store(&st.stop, true);
	pthread_join(thread, NULL);
	assert_int_equal(sm_read(st.space, st.private, &v, 8, NULL), 8);
	assert_int_equal(v, 11);
	end(&st);
}

#endif

static void unused_memory_goes_back(void **state)
{
	struct sm_space_stats figures;
	struct stage st = { 0 };
	struct sm_host_stats h;

	(void)state;
	build(&st, SM_FRAMES_MEMFD);
	st.private = (sm_addr)sm_mmap(st.space, 0, 4000 * PAGE, RW, ANON, NULL, 0);
	for (uint64_t i = 0; i < 4000; i++)
		assert_int_equal(sm_fault(st.space, st.private + i * PAGE, SM_ACCESS_WRITE).error,
				 0);
	sm_space_stats(st.space, &figures);
	assert_int_equal(figures.rss_anon, 4002);
	assert_int_equal(figures.rss_file, 4);
	sm_host_stats(st.host, &h);
	assert_true(h.frames_used > 4003 && h.frames_used < 4100);
	assert_int_equal(sm_munmap(st.space, st.private, 4000 * PAGE), 0);
	assert_true(sm_host_trim(st.host) > 3000 * PAGE);
	sm_host_stats(st.host, &h);
	assert_true(h.frames_used < 100);
	end(&st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#if !SM_TSAN /* which ends a child that makes threads */
		cmocka_unit_test(private_frames_are_the_childs_own),
		cmocka_unit_test(shared_frames_are_never_the_childs),
#endif
		cmocka_unit_test(unused_memory_goes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
