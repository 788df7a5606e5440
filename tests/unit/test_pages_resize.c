/* SPDX-License-Identifier: MIT */
/* test_pages_resize.c - truncate, punch, growth and write-back that meet: nothing comes back, nothing
 * is lost (pages_resize.c I1, I2, pages_io.c I2, pagecache.h I8, I9). */
#include "unit/memory_world.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <time.h>

#define BASE  0x100000000ull
#define PAGES 64

/* A file of ours whose functions stop at gates: each says that it has come, and waits to go on. */
struct gate {
	bool closed;
	sem_t come, go;
};

static struct disk {
	pthread_mutex_t lock; /* of bytes: each function is one step, as a file system's are */
	unsigned char bytes[PAGES * PAGE];
	_Atomic uint64_t size;
	struct gate write, punch, size_asked;
	_Atomic int write_error, truncate_error, read_error;
	_Atomic bool is_punching, has_punched, has_written_meanwhile;
	_Atomic uint64_t punched_from, punched_to;
	_Atomic int writes;
} disk;

static struct world w;
static struct area *shared;
static struct sm_file *file;

static void pass(struct gate *g)
{
	if (!__atomic_load_n(&g->closed, __ATOMIC_SEQ_CST))
		return;
	sem_post(&g->come);
	sem_wait(&g->go);
}

static void close_gate(struct gate *g)
{
	__atomic_store_n(&g->closed, true, __ATOMIC_SEQ_CST);
}

/* Who stands at the gate goes on, and nobody stops there any more. */
static void open_gate(struct gate *g)
{
	__atomic_store_n(&g->closed, false, __ATOMIC_SEQ_CST);
	sem_post(&g->go);
}

static uint64_t disk_size(void *arg)
{
	uint64_t size = atomic_load(&disk.size);

	(void)arg;
	pass(&disk.size_asked);
	return size;
}

static int disk_read(void *arg, uint64_t offset, void *page, size_t len)
{
	uint64_t size;

	(void)arg;
	if (disk.read_error)
		return disk.read_error;
	pthread_mutex_lock(&disk.lock);
	size = disk.size;
	if (offset < size)
		memcpy(page, disk.bytes + offset, size - offset < len ? size - offset : len);
	pthread_mutex_unlock(&disk.lock);
	return 0;
}

static int disk_write(void *arg, uint64_t offset, const void *page, size_t len)
{
	(void)arg;
	atomic_fetch_add(&disk.writes, 1);
	pass(&disk.write);
	if (disk.is_punching && offset < disk.punched_to && offset + len > disk.punched_from)
		disk.has_written_meanwhile = true;
	if (disk.write_error)
		return disk.write_error;
	pthread_mutex_lock(&disk.lock);
	memcpy(disk.bytes + offset, page, len);
	if (offset + len > disk.size)
		disk.size = offset + len;
	pthread_mutex_unlock(&disk.lock);
	return 0;
}

static int disk_punch(void *arg, uint64_t offset, uint64_t len)
{
	(void)arg;
	disk.punched_from = offset;
	disk.punched_to = offset + len;
	disk.is_punching = true;
	pass(&disk.punch);
	pthread_mutex_lock(&disk.lock);
	memset(disk.bytes + offset, 0, len);
	pthread_mutex_unlock(&disk.lock);
	disk.is_punching = false;
	disk.has_punched = true;
	return 0;
}

static int disk_truncate(void *arg, uint64_t size)
{
	(void)arg;
	if (disk.truncate_error)
		return disk.truncate_error;
	pthread_mutex_lock(&disk.lock);
	if (size < disk.size)
		memset(disk.bytes + size, 0, sizeof(disk.bytes) - size);
	disk.size = size;
	pthread_mutex_unlock(&disk.lock);
	disk.has_punched = true;
	return 0;
}

static const struct sm_file_ops disk_ops = {
	.size = disk_size,
	.read_page = disk_read,
	.write_page = disk_write,
	.punch = disk_punch,
	.truncate = disk_truncate,
};

static void make_gate(struct gate *g)
{
	assert_int_equal(sem_init(&g->come, 0, 0), 0);
	assert_int_equal(sem_init(&g->go, 0, 0), 0);
}

/* 40 pages; byte i of page p holds p + 1. */
static int setup(void **state)
{
	struct sm_file_info info = { .name = "disk", .mode = SM_FILE_READ | SM_FILE_WRITE };

	(void)state;
	memset(&disk, 0, sizeof(disk));
	pthread_mutex_init(&disk.lock, NULL);
	make_gate(&disk.write);
	make_gate(&disk.punch);
	make_gate(&disk.size_asked);
	for (unsigned p = 0; p < 40; p++)
		memset(disk.bytes + p * PAGE, (int)p + 1, PAGE);
	disk.size = 40 * PAGE;
	world_init(&w, 32);
	assert_int_equal(sm_file_create(&info, &disk_ops, NULL, &file), 0);
	w.nr_areas = 1;
	shared = &w.area[0];
	*shared = (struct area){ .mm = world_mm(&w),
				 .start = BASE,
				 .end = BASE + PAGES * PAGE,
				 .prot = RW,
				 .shared = true,
				 .file = file };
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (sm__pages_bound(file))
		assert_true(sm__pages_is_valid(sm__pages_bound(file)));
	assert_true(sm__mm_is_valid(shared->mm));
	world_destroy_mm(shared->mm);
	world_put_file(&w, file);
	world_end(&w);
	return 0;
}

/* ---- one call on a thread of its own ---- */

struct call {
	pthread_t thread;
	enum { SYNC, PUNCH, TRUNCATE, REFRESH } what;
	uint64_t offset, length;
	int result;
	_Atomic bool done;
};

static void *run_call(void *arg)
{
	struct call *c = arg;

	switch (c->what) {
	case SYNC:
		c->result = sm_file_sync(file, c->offset, c->length, false);
		break;
	case PUNCH:
		c->result = sm_file_punch(file, c->offset, c->length);
		break;
	case TRUNCATE:
		c->result = sm_file_truncate(file, c->length);
		break;
	case REFRESH:
		sm_file_refresh(file);
		break;
	}
	c->done = true;
	return NULL;
}

static void start(struct call *c)
{
	assert_int_equal(pthread_create(&c->thread, NULL, run_call, c), 0);
}

static int join(struct call *c)
{
	assert_int_equal(pthread_join(c->thread, NULL), 0);
	return c->result;
}

/* Gives a thread that must not come there 30 ms to come there all the same. */
static void give_time(const _Atomic bool *until)
{
	struct timespec ms = { .tv_nsec = 1000000 };

	for (int i = 0; i < 30 && !*until; i++)
		nanosleep(&ms, NULL);
}

/* ---------------------------------------------------------------- */

static void a_write_that_was_on_its_way_does_not_undo_a_punch(void **state)
{
	struct call sync = { .what = SYNC, .length = 4 * PAGE };
	struct call punch = { .what = PUNCH, .offset = PAGE / 2, .length = 2 * PAGE };

	(void)state;
	for (int p = 0; p < 3; p++)
		put8(shared, BASE + p * PAGE + PAGE - 8, 77);
	close_gate(&disk.write);
	start(&sync);
	sem_wait(&disk.write.come);
	start(&punch);
	give_time(&disk.has_punched);
	assert_false(disk.has_punched);
	open_gate(&disk.write);
	assert_int_equal(join(&sync), 0);
	assert_int_equal(join(&punch), 0);
	for (unsigned i = PAGE / 2; i < PAGE / 2 + 2 * PAGE; i++)
		assert_int_equal(disk.bytes[i], 0);
	assert_int_equal(get8(shared, BASE), 0x0101010101010101ull);
	assert_int_equal(get8(shared, BASE + PAGE - 8), 0);
	assert_int_equal(get8(shared, BASE + PAGE), 0);
	assert_int_equal(get8(shared, BASE + 3 * PAGE - 8), 77);
	assert_int_equal(sm_file_sync(file, 0, UINT64_MAX, false), 0);
	assert_int_equal(disk.bytes[PAGE - 8], 0);
	assert_int_equal(disk.bytes[3 * PAGE - 8], 77);
}

static void a_write_that_was_on_its_way_does_not_undo_a_truncation(void **state)
{
	struct call sync = { .what = SYNC, .offset = 5 * PAGE, .length = PAGE };
	struct call cut = { .what = TRUNCATE, .length = 2 * PAGE };

	(void)state;
	put8(shared, BASE + 5 * PAGE, 77);
	close_gate(&disk.write);
	start(&sync);
	sem_wait(&disk.write.come);
	start(&cut);
	give_time(&disk.has_punched);
	assert_false(disk.has_punched);
	open_gate(&disk.write);
	assert_int_equal(join(&sync), 0);
	assert_int_equal(join(&cut), 0);
	assert_int_equal(disk.size, 2 * PAGE);
	assert_int_equal(area_fault(shared, BASE + 5 * PAGE, SM_ACCESS_READ), SM__PAGE_BUS);
	assert_int_equal(sm_file_truncate(file, 8 * PAGE), 0);
	assert_int_equal(get8(shared, BASE + 5 * PAGE), 0);
	assert_int_equal(disk.bytes[5 * PAGE], 0);
}

static void pages_beside_the_hole_are_written_meanwhile_those_in_it_are_not(void **state)
{
	struct call punch = { .what = PUNCH, .offset = 4 * PAGE, .length = 4 * PAGE };
	struct call inside = { .what = SYNC, .offset = 6 * PAGE, .length = PAGE };

	(void)state;
	put8(shared, BASE + 6 * PAGE, 66);
	put8(shared, BASE + 20 * PAGE, 20);
	close_gate(&disk.punch);
	start(&punch);
	sem_wait(&disk.punch.come);
	assert_int_equal(sm_file_sync(file, 20 * PAGE, PAGE, false), 0);
	assert_int_equal(disk.bytes[20 * PAGE], 20);
	start(&inside);
	give_time(&inside.done);
	assert_false(inside.done);
	open_gate(&disk.punch);
	assert_int_equal(join(&punch), 0);
	assert_int_equal(join(&inside), 0);
	assert_false(disk.has_written_meanwhile);
	assert_int_equal(get8(shared, BASE + 6 * PAGE), 0);
	assert_int_equal(disk.bytes[6 * PAGE], 0);
}

/* A size that was asked for before the file grew is not applied after it. */
static void a_late_answer_does_not_undo_growth(void **state)
{
	struct call late = { .what = REFRESH };

	(void)state;
	put8(shared, BASE, 1);
	close_gate(&disk.size_asked);
	start(&late);
	sem_wait(&disk.size_asked.come);
	__atomic_store_n(&disk.size_asked.closed, false, __ATOMIC_SEQ_CST);
	assert_int_equal(sm_file_truncate(file, 50 * PAGE), 0);
	put8(shared, BASE + 45 * PAGE, 45);
	sem_post(&disk.size_asked.go);
	(void)join(&late);
	assert_int_equal(get8(shared, BASE + 45 * PAGE), 45);
	assert_int_equal(sm_file_sync(file, 0, UINT64_MAX, false), 0);
	assert_int_equal(disk.bytes[45 * PAGE], 45);
}

static void a_refused_truncation_loses_nothing(void **state)
{
	(void)state;
	put8(shared, BASE + 30 * PAGE, 30);
	disk.truncate_error = -EPERM;
	assert_int_equal(sm_file_truncate(file, PAGE), -EPERM);
	disk.truncate_error = 0;
	assert_int_equal(get8(shared, BASE + 30 * PAGE), 30);
	assert_int_equal(sm_file_sync(file, 0, UINT64_MAX, false), 0);
	assert_int_equal(disk.bytes[30 * PAGE], 30);
}

/* pages_io.c I2 */
static void who_syncs_waits_for_what_another_writes(void **state)
{
	struct call first = { .what = SYNC, .length = PAGE };
	struct call second = { .what = SYNC, .length = PAGE };

	(void)state;
	put8(shared, BASE, 7);
	close_gate(&disk.write);
	start(&first);
	sem_wait(&disk.write.come);
	start(&second);
	give_time(&second.done);
	assert_false(second.done);
	open_gate(&disk.write);
	assert_int_equal(join(&first), 0);
	assert_int_equal(join(&second), 0);
	assert_int_equal(disk.bytes[0], 7);
	assert_int_equal(disk.writes, 1);
	assert_int_equal(sm_file_sync(file, 0, PAGE, false), 0);
	assert_int_equal(disk.writes, 1);
}

static void who_syncs_hears_of_the_write_that_failed(void **state)
{
	struct call first = { .what = SYNC, .length = PAGE };
	struct call second = { .what = SYNC, .length = PAGE };

	(void)state;
	put8(shared, BASE, 7);
	disk.write_error = -EIO;
	close_gate(&disk.write);
	start(&first);
	sem_wait(&disk.write.come);
	start(&second);
	give_time(&second.done);
	open_gate(&disk.write);
	assert_int_equal(join(&first), -EIO);
	assert_int_equal(join(&second), -EIO);
	disk.write_error = 0;
	assert_int_equal(disk.bytes[0], 1);
	assert_int_equal(sm_file_sync(file, 0, PAGE, false), 0);
	assert_int_equal(disk.bytes[0], 7);
}

/* As ext4 answers; tmpfs, and so an in-memory file, keeps what was written there. */
static void behind_the_end_is_zero_when_the_file_grows(void **state)
{
	struct sm_file *memory;
	struct area a = *shared;

	(void)state;
	assert_int_equal(sm_file_truncate(file, 100), 0);
	put8(shared, BASE + 200, 7);
	put8(shared, BASE, 1);
	assert_int_equal(sm_file_truncate(file, 300), 0);
	assert_int_equal(get8(shared, BASE + 200), 0);
	put8(shared, BASE + 400, 7);
	assert_int_equal(sm_file_truncate(file, 5 * PAGE), 0);
	assert_int_equal(get8(shared, BASE + 400), 0);
	assert_int_equal(get8(shared, BASE), 1);
	assert_int_equal(sm_file_sync(file, 0, UINT64_MAX, false), 0);
	assert_int_equal(disk.bytes[400], 0);

	assert_int_equal(sm_file_create_memory(NULL, 100, &memory), 0);
	a.file = memory;
	a.start = BASE + (1 << 30);
	a.end = a.start + 4 * PAGE;
	put8(&a, a.start + 200, 7);
	assert_int_equal(sm_file_truncate(memory, 300), 0);
	assert_int_equal(get8(&a, a.start + 200), 7);
	area_zap(&a, a.start, a.end, 0);
	world_put_file(&w, memory);
}

static void what_others_have_appended_is_seen_in_the_last_page(void **state)
{
	(void)state;
	assert_int_equal(sm_file_truncate(file, 100), 0);
	put8(shared, BASE, 1);
	put8(shared, BASE + 200, 7);
	memset(disk.bytes + 100, 0x2a, 3 * PAGE);
	disk.size = 3 * PAGE;
	disk.read_error = -EIO;
	sm_file_refresh(file);
	assert_int_equal(area_fault(shared, BASE + PAGE, SM_ACCESS_READ), SM__PAGE_IO);
	disk.read_error = 0;
	sm_file_refresh(file);
	assert_int_equal(get8(shared, BASE + 200), 0x2a2a2a2a2a2a2a2aull);
	assert_int_equal(get8(shared, BASE + 2 * PAGE), 0x2a2a2a2a2a2a2a2aull);
	assert_int_equal(get8(shared, BASE), 1);
}

/* The file is mapped for the first time while it is truncated. */
static void *map_it(void *arg)
{
	struct sm__pages *pages;

	sm__thread_enter();
	return sm__pages_of(w.memory, arg, &pages) ? NULL : pages;
}

static void a_truncation_that_meets_the_first_mapping_is_learnt(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		struct sm_file *memory;
		pthread_t thread;
		void *pages;

		assert_int_equal(sm_file_create_memory(NULL, 100, &memory), 0);
		assert_int_equal(pthread_create(&thread, NULL, map_it, memory), 0);
		assert_int_equal(sm_file_truncate(memory, 9 * PAGE), 0);
		pthread_join(thread, &pages);
		assert_non_null(pages);
		assert_int_equal(sm__pages_count(pages), 9);
		world_put_file(&w, memory);
	}
}

/* One thread punches and resizes, one writes and syncs, one asks for the size. */
static _Atomic bool stop;

static void *syncer(void *arg)
{
	(void)arg;
	sm__thread_enter();
	for (unsigned i = 0; !stop; i++) {
		(void)area_fault(shared, BASE + (i % 16) * PAGE, SM_ACCESS_WRITE);
		(void)sm_file_sync(file, 0, UINT64_MAX, false);
	}
	return NULL;
}

static void *asker(void *arg)
{
	(void)arg;
	while (!stop)
		sm_file_refresh(file);
	return NULL;
}

static bool disk_is_zero(uint64_t from, uint64_t to)
{
	bool is_zero = true;

	pthread_mutex_lock(&disk.lock);
	for (uint64_t at = from; at < to; at++)
		is_zero &= !disk.bytes[at];
	pthread_mutex_unlock(&disk.lock);
	return is_zero;
}

static void all_at_once(void **state)
{
	pthread_t t[2];

	(void)state;
	assert_int_equal(get8(shared, BASE), 0x0101010101010101ull);
	stop = false;
	pthread_create(&t[0], NULL, syncer, NULL);
	pthread_create(&t[1], NULL, asker, NULL);
	for (unsigned i = 0; i < 2000; i++) {
		if (i % 3 == 0) {
			assert_int_equal(sm_file_truncate(file, 3 * PAGE + i % 100), 0);
			assert_int_equal(disk.size, 3 * PAGE + i % 100);
		} else if (i % 3 == 1) {
			assert_int_equal(sm_file_truncate(file, 16 * PAGE), 0);
		} else {
			assert_int_equal(sm_file_punch(file, PAGE / 2, 2 * PAGE), 0);
			assert_true(disk_is_zero(PAGE / 2, PAGE / 2 + 2 * PAGE));
		}
		assert_int_equal(sm__pages_count(sm__pages_bound(file)),
				 (disk.size + PAGE - 1) / PAGE);
	}
	stop = true;
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	assert_true(disk_is_zero(4 * PAGE, 16 * PAGE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_write_that_was_on_its_way_does_not_undo_a_punch,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_write_that_was_on_its_way_does_not_undo_a_truncation, setup, teardown),
		cmocka_unit_test_setup_teardown(
			pages_beside_the_hole_are_written_meanwhile_those_in_it_are_not, setup,
			teardown),
		cmocka_unit_test_setup_teardown(a_late_answer_does_not_undo_growth, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_refused_truncation_loses_nothing, setup,
						teardown),
		cmocka_unit_test_setup_teardown(who_syncs_waits_for_what_another_writes, setup,
						teardown),
		cmocka_unit_test_setup_teardown(who_syncs_hears_of_the_write_that_failed, setup,
						teardown),
		cmocka_unit_test_setup_teardown(behind_the_end_is_zero_when_the_file_grows, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_others_have_appended_is_seen_in_the_last_page,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_truncation_that_meets_the_first_mapping_is_learnt,
						setup, teardown),
		cmocka_unit_test_setup_teardown(all_at_once, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
