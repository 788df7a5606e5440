/* SPDX-License-Identifier: MIT */
/*
 * How faults lock, counted with the kernel's meaning and by reason (fault.c I2): what is tried under a VMA
 * lock ends as success, abort or retry; a fault on one VMA does not wait for the writer of another.
 */
#include "samara/samara.h"
#include "space/space.h"
#include "space/vma_lock.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>
#include <cmocka.h>

#define P   4096ull
#define B   0x200000000000ull
#define C   0x210000000000ull
#define ANF (SM_MAP_PRIVATE | SM_MAP_ANONYMOUS | SM_MAP_FIXED)
#define RW  (SM_PROT_READ | SM_PROT_WRITE)

static struct sm_host *host;
static struct sm_space *s;

static void open_space(const char *design)
{
	struct sm_space_options o;

	sm_space_options_init(&o);
	assert_int_equal(sm_design_parse(design, &o.design, NULL, 0), 0);
	host = sm_host_create(NULL, NULL);
	s = sm_space_create(host, &o, NULL);
	assert_non_null(s);
	sm_mmap(s, B, 4 * P, RW, ANF, NULL, 0);
	sm_mmap(s, C, 4 * P, RW, ANF, NULL, 0);
}

static struct sm_space_stats close_space(void)
{
	struct sm_space_stats st;

	sm_space_stats(s, &st);
	sm_space_destroy(s);
	assert_int_equal(sm_host_destroy(host), 0);
	return st;
}

static const char *const with_vma_locks[] = { "linux-6.4-inline", "linux-6.4",	"linux-6.12",
					      "linux-6.15",	  "linux-6.18", "samara" };

static void each_end_is_counted(void **state)
{
	(void)state;
	for (size_t i = 0; i < SM__ARRAY_SIZE(with_vma_locks); i++) {
		struct sm_space_stats st;

		open_space(with_vma_locks[i]);
		assert_int_equal(sm_fault(s, B, SM_ACCESS_WRITE).signo, 0);
		assert_int_equal(sm_fault(s, B + P, SM_ACCESS_READ).signo, 0);
		sm_mprotect(s, B, P, SM_PROT_READ);
		assert_int_equal(sm_fault(s, B, SM_ACCESS_WRITE).signo, SIGSEGV); /* success too */
		assert_int_equal(sm_fault(s, B + 64 * P, SM_ACCESS_READ).signo, SIGSEGV);
		st = close_space();
		assert_int_equal(st.faults, 4);
		assert_int_equal(st.vma_lock_success, 3);
		assert_int_equal(st.vma_lock_abort, 1);
		assert_int_equal(st.fallback[SM_FALLBACK_no_vma], 1);
		assert_int_equal(st.vma_lock_retry, 0);
		assert_int_equal(st.vma_lock_miss, 0);
	}
}

/* fault=anon refuses a file's fault after it has locked the VMA: a retry. */
static void design_decides(void **state)
{
	static const struct {
		const char *design;
		int retries; /* of a read and a write of a private file */
	} rows[] = { { "linux-6.4", 2 }, { "linux-6.6", 1 }, { "linux-6.7", 0 }, { "samara", 0 } };

	(void)state;
	for (size_t i = 0; i < SM__ARRAY_SIZE(rows); i++) {
		struct sm_space_stats st;
		struct sm_file *f;

		open_space(rows[i].design);
		assert_int_equal(sm_file_create_memory("f", 4 * P, &f), 0);
		sm_mmap(s, B, 4 * P, RW, SM_MAP_PRIVATE | SM_MAP_FIXED, f, 0);
		sm_file_put(f);
		assert_int_equal(sm_fault(s, B, SM_ACCESS_READ).signo, 0);
		assert_int_equal(sm_fault(s, B, SM_ACCESS_WRITE).signo, 0);
		st = close_space();
		assert_int_equal(st.vma_lock_retry, rows[i].retries);
		assert_int_equal(st.fallback[SM_FALLBACK_design], rows[i].retries);
		assert_int_equal(st.vma_lock_success, 2 - rows[i].retries);
	}
}

static void *fault_there(void *arg)
{
	sm_fault(s, *(sm_addr *)arg, SM_ACCESS_READ);
	return NULL;
}

/* A writer holds B: a fault on C is done at once, one on B waits for mmap_lock. */
static void other_vmas_go_on(void **state)
{
	sm_addr at_b = B, at_c = C;

	(void)state;
	for (size_t i = 0; i < SM__ARRAY_SIZE(with_vma_locks); i++) {
		struct sm_space_stats st;
		pthread_t t;

		open_space(with_vma_locks[i]);
		sm__mmap_write_lock(&s->lock, SM_CALL_MPROTECT, false);
		sm__vma_start_write(s, sm__find(s, B));
		pthread_create(&t, NULL, fault_there, &at_c);
		pthread_join(t, NULL); /* it does not wait */
		pthread_create(&t, NULL, fault_there, &at_b);
		usleep(2000);
		sm__mmap_write_unlock(&s->lock);
		pthread_join(t, NULL);
		st = close_space();
		assert_int_equal(st.faults, 2);
		assert_in_range(st.vma_lock_success, 1, 2); /* 2: it came after the unlock */
		assert_int_equal(st.vma_lock_success + st.vma_lock_abort, 2);
		assert_int_equal(st.fallback[SM_FALLBACK_write_locked], st.vma_lock_abort);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_end_is_counted),
		cmocka_unit_test(design_decides),
		cmocka_unit_test(other_vmas_go_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
