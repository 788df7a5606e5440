/* SPDX-License-Identifier: MIT */
/* test_file.c - the file object: identity, references, modes (file.c I1, samara/file.h G1). */
#include "base/base.h"
#include "base/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include <samara/samara.h>

static void memory_file_has_identity_and_size(void **state)
{
	struct sm_file *a, *b;

	(void)state;
	assert_int_equal(sm_file_create_memory(NULL, 12345, &a), 0);
	assert_int_equal(sm_file_create_memory("/memfd:x (deleted)", 0, &b), 0);
	assert_string_equal(sm_file_info(a)->name, "/dev/zero (deleted)");
	assert_string_equal(sm_file_info(b)->name, "/memfd:x (deleted)");
	assert_true(sm_file_info(a)->ino != sm_file_info(b)->ino);
	assert_int_equal(sm_file_size(a), 12345);
	assert_true(sm_file_info(a)->mode & SM_FILE_WRITE);
	assert_ptr_equal(sm_file_get(a), a);
	sm_file_put(a);
	assert_int_equal(sm_file_size(a), 12345);
	sm_file_put(a);
	sm_file_put(b);
}

static void host_file_follows_its_descriptor(void **state)
{
	int fd = memfd_create("samara-test", 0);
	struct sm_file *file;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 5000), 0);
	assert_int_equal(sm_file_open_fd(fd, NULL, &file), 0);
	assert_int_equal(sm_file_size(file), 5000);
	assert_int_equal(ftruncate(fd, 100), 0);
	close(fd);
	assert_int_equal(sm_file_size(file), 100);
	assert_non_null(strstr(sm_file_info(file)->name, "samara-test"));
	assert_int_equal(sm_file_info(file)->mode & (SM_FILE_READ | SM_FILE_WRITE),
			 SM_FILE_READ | SM_FILE_WRITE);
	sm_file_put(file);
}

static void what_is_no_file_is_refused(void **state)
{
	int ends[2], dir;
	struct sm_file *file;

	(void)state;
	assert_int_equal(sm_file_open_fd(-1, NULL, &file), -EBADF);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(sm_file_open_fd(ends[0], NULL, &file), -ENODEV);
	assert_null(file);
	close(ends[0]);
	close(ends[1]);
	dir = open("/", O_RDONLY | O_DIRECTORY);
	assert_int_equal(sm_file_open_fd(dir, "/", &file), 0);
	assert_true(sm_file_info(file)->mode & SM_FILE_DIRECTORY);
	sm_file_put(file);
	close(dir);
}

static int closed;

static uint64_t seven(void *arg)
{
	(void)arg;
	return 7;
}

static void count_close(void *arg)
{
	(void)arg;
	closed++;
}

static void embedder_file_closes_once_after_the_last(void **state)
{
	static const struct sm_file_ops ops = { .size = seven, .close = count_close };
	struct sm_file_info info = { .name = "archive!member", .mode = SM_FILE_READ };
	struct sm_file *file;

	(void)state;
	assert_int_equal(sm_file_create(&info, &ops, NULL, &file), 0);
	assert_int_equal(sm_file_size(file), 7);
	sm_file_get(file);
	sm_file_put(file);
	assert_int_equal(closed, 0);
	sm_file_put(file);
	assert_int_equal(closed, 1);
	info.mode = 1u << 31;
	assert_int_equal(sm_file_create(&info, &ops, NULL, &file), -EINVAL);
	info.mode = SM_FILE_READ;
	assert_int_equal(sm_file_create(&info, NULL, NULL, &file), -EINVAL);
}

static void every_allocation_may_fail(void **state)
{
	struct sm_file *file;

	(void)state;
	for (int n = 1; n <= 2; n++) {
		sm__inject_arm((uint64_t)n);
		assert_int_equal(sm_file_create_memory(NULL, 1, &file), -ENOMEM);
		sm__inject_disarm();
		assert_null(file);
	}
}

static void an_appending_descriptor_writes_in_place(void **state)
{
	char name[] = "/tmp/samara-append-XXXXXX";
	struct sm_host *host = sm_host_create(NULL, NULL);
	struct sm_space_options o;
	struct sm_space *s;
	struct sm_file *file;
	uint64_t v = 0x77;
	struct stat st;
	int made = mkstemp(name), fd = open(name, O_RDWR | O_APPEND);
	int64_t at;

	(void)state;
	sm_space_options_init(&o);
	o.backend = SM_BACKEND_SOFT;
	s = sm_space_create(host, &o, NULL);
	assert_true(made >= 0 && fd >= 0 && s);
	unlink(name);
	assert_int_equal(ftruncate(fd, 8192), 0);
	assert_int_equal(sm_file_open_fd(fd, "a", &file), 0);
	at = sm_mmap(s, 0, 8192, SM_PROT_READ | SM_PROT_WRITE, SM_MAP_SHARED, file, 0);
	assert_true(at > 0);
	assert_int_equal(sm_write(s, (sm_addr)at, &v, sizeof(v), NULL), sizeof(v));
	assert_int_equal(sm_file_sync(file, 0, 8192, true), 0);
	v = 0;
	assert_int_equal(pread(fd, &v, sizeof(v), 0), sizeof(v));
	assert_int_equal(v, 0x77);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 8192);
	sm_file_put(file);
	sm_space_destroy(s);
	sm_host_destroy(host);
	close(fd);
	close(made);
}

static void a_descriptor_of_a_path_is_refused(void **state)
{
	int fd = open("/", O_PATH);
	struct sm_file *file;

	(void)state;
	assert_int_equal(sm_file_open_fd(fd, "p", &file), -EBADF);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_file_has_identity_and_size),
		cmocka_unit_test(host_file_follows_its_descriptor),
		cmocka_unit_test(what_is_no_file_is_refused),
		cmocka_unit_test(embedder_file_closes_once_after_the_last),
		cmocka_unit_test(every_allocation_may_fail),
		cmocka_unit_test(an_appending_descriptor_writes_in_place),
		cmocka_unit_test(a_descriptor_of_a_path_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
