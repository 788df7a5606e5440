/* SPDX-License-Identifier: MIT */
/*
 * Replaying (replay.h G1..G3): results compared, differences explained, spaces of several processes,
 * the recorded address taken where threads overlap, exhaustion at every allocation.
 */
#include "base/inject.h"
#include "trace/replay.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define ANON	      "MAP_PRIVATE|MAP_ANONYMOUS, -1, 0"
#define RW	      "PROT_READ|PROT_WRITE"
#define MMAP(len, at) "mmap(NULL, " len ", " RW ", " ANON ") = " at "\n"

static int run(const char *text, const struct sm__replay_options *how,
	       struct sm__replay_result *result)
{
	static const struct sm__load_options load;
	struct sm__replay_options o = { .stop_after = UINT64_MAX };
	struct sm__recording *rec;
	int r;

	if (how)
		o = *how;
	if (!how || !o.design.tree)
		assert_int_equal(sm_design_preset("samara", &o.design), 0);
	*result = (struct sm__replay_result){ 0 };
	r = sm__recording_load_memory(text, strlen(text), &load, &rec);
	if (!r)
		r = sm__replay(rec, &o, result);
	sm__recording_free(rec);
	return r;
}

static struct sm__replay_result result;

static void check(const char *text, enum sm__why why, uint64_t differences, const char *maps)
{
	assert_int_equal(run(text, NULL, &result), 0);
	for (int w = 0; w < SM__WHY_COUNT; w++)
		assert_int_equal(result.whys[w], w == (int)why ? differences : 0);
	if (maps)
		assert_string_equal(result.spaces[result.nspaces - 1].maps, maps);
	sm__replay_result_free(&result);
}

static void results_are_compared(void **state)
{
	(void)state;
	check("1 " MMAP("8192", "0x7f0000000000") "1 munmap(0x7f0000001000, 4096) = 0\n",
	      SM__WHY_UNEXPLAINED, 0, "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n");
	/* wrong errno, wrong success, wrong place */
	check("1 munmap(0x7f0000000001, 4096) = -1 ENOMEM (x)\n", SM__WHY_UNEXPLAINED, 1, NULL);
	check("1 munmap(0x7f0000000001, 4096) = 0\n", SM__WHY_UNEXPLAINED, 1, NULL);
	check("1 munmap(0x7f0000000001, 4096) = -1 EINVAL (x)\n", SM__WHY_UNEXPLAINED, 0, NULL);
	check("1 " MMAP("8192", "0x7f0000002000") "1 munmap(0x7f0000002000, 8192) = 0\n"
						  "1 " MMAP("4096", "0x7f0000002000"),
	      SM__WHY_UNEXPLAINED, 1, NULL);
}

static void differences_are_explained(void **state)
{
	(void)state;
	/* above the top of the search that the first placement shows */
	check("1 " MMAP("8192", "0x7f0000000000") "1 " MMAP("4096", "0x7f0000009000"),
	      SM__WHY_UNKNOWN_PLACE, 1,
	      "7f0000000000-7f0000002000 rw-p 00000000 00:00 0 \n"
	      "7f0000009000-7f000000a000 rw-p 00000000 00:00 0 \n");
	/* there was something in the gap that the recording never shows */
	check("1 " MMAP("8192", "0x7f0000005000") "1 " MMAP("4096", "0x7f0000000000"),
	      SM__WHY_UNKNOWN_PLACE, 1, NULL);
	check("1 mmap(NULL, 4096, " RW ", " ANON ") = -1 ENOMEM (x)\n", SM__WHY_LIMIT, 1, NULL);
	check("1 mmap(NULL, 4096, " RW ", MAP_SHARED, 3</a>, 0) = -1 EACCES (x)\n", SM__WHY_FILE, 1,
	      NULL);
	check("1 " MMAP("4096", "0x7f0000000000") "1 madvise(0x7f0000000000, 4096, MADV_COLD) = -1 "
						  "EINVAL (x)\n",
	      SM__WHY_KERNEL, 1, NULL);
	check("1 " MMAP("4096", "0x7f0000000000") "1 " MMAP("4096", "0x7f0000000000"),
	      SM__WHY_ORDER, 1, NULL);
}

/* perform.c I3: what was refused there is taken away again, what was granted there is granted here. */
static void limits_are_those_of_the_recorded_machine(void **state)
{
	(void)state;
	check("1 " MMAP("8192", "0x7f0000000000") "1 mmap(NULL, 1099511627776, " RW ", " ANON
						  ") = -1 ENOMEM (x)\n"
						  "1 " MMAP("4096", "0x7efffffff000"),
	      SM__WHY_LIMIT, 1, "7efffffff000-7f0000002000 rw-p 00000000 00:00 0 \n");
	check("1 brk(NULL) = 0x555000\n1 brk(0x7f0000000000) = 0x555000\n"
	      "1 brk(0x556000) = 0x556000\n",
	      SM__WHY_LIMIT, 1, NULL);
	check("1 " MMAP("70368744177664", "0x3f0000000000"), SM__WHY_LIMIT, 0, NULL);
	check("1 mmap(NULL, 4096, " RW ", MAP_FIXED|" ANON ") = 0\n", SM__WHY_LIMIT, 0,
	      "00000000-00001000 rw-p 00000000 00:00 0 \n");
	check("# maps 1\n00000000-00001000 rw-p 00000000 00:00 0\n"
	      "00400000-500000000000 rw-p 00000000 00:00 0\n1 munmap(0x400000, 4096) = 0\n",
	      SM__WHY_LIMIT, 0, NULL);
}

/* One damaged line is one difference, never the end of the replay. */
static void absurd_addresses_end_nothing(void **state)
{
	static const char *const lines[] = {
		"1 " MMAP("4096", "0xffff000000000000"),
		"1 " MMAP("4096", "0x123"),
		"1 brk(NULL) = 0xffffffffff000000\n",
		"1 brk(NULL) = 0x123\n",
		"1 munmap(0xfffffffffffff000, 8192) = 0\n",
		"1 mprotect(0xffff000000000000, 4096, PROT_READ) = 0\n",
		"1 mprotect(0x7fffffffe000, 8192, PROT_READ) = 0\n",
		"1 mremap(0xffffffff00000000, 4096, 8192, 1) = 0xffffffff00000000\n",
		"# maps 1\nffff800000000000-ffff800000001000 rw-p 00000000 00:00 0\n",
		"# maps 1\n7fffffff0000-800000000000 rw-p 00000000 00:00 0 [stack]\n",
		"# maps 1\nffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n",
	};
	char text[512];

	(void)state;
	for (size_t i = 0; i < SM__ARRAY_SIZE(lines); i++) {
		for (int parallel = 0; parallel < 2; parallel++) {
			struct sm__replay_options o = { .parallel = parallel,
							.stop_after = UINT64_MAX };

			snprintf(text, sizeof(text), "%s1 " MMAP("4096", "0x7f0000000000"),
				 lines[i]);
			assert_int_equal(run(text, &o, &result), 0);
			assert_true(result.calls >= 1);
			sm__replay_result_free(&result);
		}
	}
}

static void every_kind_of_call(void **state)
{
	(void)state;
	check("1 brk(NULL) = 0x555000\n1 brk(0x557000) = 0x557000\n"
	      "1 " MMAP(
		      "16384",
		      "0x7f0000000000") "1 mprotect(0x7f0000000000, 4096, PROT_READ) = 0\n"
					"1 pkey_mprotect(0x7f0000001000, 4096, PROT_READ, -1) = 0\n"
					"1 madvise(0x7f0000000000, 4096, MADV_DONTFORK) = 0\n"
					"1 process_madvise(3, [{iov_base=0x7f0000000000, "
					"iov_len=8192}], 1, MADV_COLD, 0) = 8192\n"
					"1 mincore(0x7f0000000000, 4096, [0]) = 0\n"
					"1 mlock(0x7f0000002000, 4096) = 0\n"
					"1 munlock(0x7f0000002000, 4096) = 0\n"
					"1 mlock2(0x7f0000002000, 4096, MLOCK_ONFAULT) = 0\n"
					"1 munlockall() = 0\n"
					"1 prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, 0x7f0000003000, "
					"4096, \"heap\") = 0\n"
					"1 mremap(0x7f0000002000, 4096, 8192, MREMAP_MAYMOVE) = "
					"0x7effffffe000\n"
					"1 page_fault(0x7effffffe000, WRITE) = 0\n"
					"1 mseal(0x7f0000000000, 4096, 0) = 0\n"
					"1 munmap(0x7f0000000000, 4096) = -1 EPERM (x)\n"
					"1 shmat(3, NULL, 0) = 0x7e0000000000\n",
	      SM__WHY_UNEXPLAINED, 0,
	      "00555000-00557000 rw-p 00000000 00:00 0                                  [heap]\n"
	      "7effffffe000-7f0000000000 rw-p 00000000 00:00 0 \n"
	      "7f0000000000-7f0000001000 r--p 00000000 00:00 0 \n"
	      "7f0000001000-7f0000002000 r--p 00000000 00:00 0 \n"
	      "7f0000003000-7f0000004000 rw-p 00000000 00:00 0                          "
	      "[anon:heap]\n");
}

static void processes_have_their_spaces(void **state)
{
	(void)state;
	assert_int_equal(
		run("1 " MMAP("8192", "0x7f0000000000") "1 fork() = 2\n"
							"2 munmap(0x7f0000000000, 4096) = 0\n"
							"1 munmap(0x7f0000001000, 4096) = 0\n"
							"2 execve(\"/bin/a\", [], 0x1) = 0\n"
							"2 " MMAP("4096", "0x7e0000000000"),
		    NULL, &result),
		0);
	assert_int_equal(result.whys[SM__WHY_UNEXPLAINED], 0);
	assert_int_equal(result.nspaces, 3);
	assert_string_equal(result.spaces[0].maps,
			    "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n");
	assert_string_equal(result.spaces[1].maps,
			    "7f0000001000-7f0000002000 rw-p 00000000 00:00 0 \n");
	assert_string_equal(result.spaces[2].maps,
			    "7e0000000000-7e0000001000 rw-p 00000000 00:00 0 \n");
	sm__replay_result_free(&result);
}

/* Two threads whose mappings were placed while they overlapped: the recorded addresses are taken. */
static const char threads[] = "1 " MMAP(
	"4096", "0x7f0000000000") "1 clone(child_stack=0x1, flags=CLONE_VM|CLONE_THREAD) = 2\n"
				  "1 mmap(NULL, 4096, " RW ", " ANON " <unfinished ...>\n"
				  "2 mmap(NULL, 8192, " RW ", " ANON " <unfinished ...>\n"
				  "1 <... mmap resumed>) = 0x7efffffff000\n"
				  "2 <... mmap resumed>) = 0x7effffffd000\n"
				  "2 mprotect(0x7effffffd000, 4096, PROT_NONE) = 0\n"
				  "1 munmap(0x7efffffff000, 4096) = 0\n"
				  "2 +++ exited with 0 +++\n"
				  "1 " MMAP("4096", "0x7efffffff000");

static void threads_end_alike(void **state)
{
	struct sm__replay_options o = { .stop_after = UINT64_MAX, .parallel = true };
	char *maps;

	(void)state;
	assert_int_equal(run(threads, NULL, &result), 0);
	assert_int_equal(result.whys[SM__WHY_UNEXPLAINED], 0);
	maps = strdup(result.spaces[0].maps);
	sm__replay_result_free(&result);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(run(threads, &o, &result), 0);
		assert_int_equal(result.whys[SM__WHY_UNEXPLAINED], 0);
		assert_int_equal(result.calls, 7);
		assert_string_equal(result.spaces[0].maps, maps);
		sm__replay_result_free(&result);
	}
	free(maps);
}

static void stops_after(void **state)
{
	struct sm__replay_options o = { .stop_after = 1 };

	(void)state;
	assert_int_equal(run(threads, &o, &result), 0);
	assert_int_equal(result.calls, 1);
	assert_false(result.spaces[0].ended);
	assert_string_equal(result.spaces[0].maps,
			    "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n");
	sm__replay_result_free(&result);
}

static void pages_are_touched(void **state)
{
	struct sm__replay_options o = { .stop_after = UINT64_MAX,
					.touch = SM__TOUCH_FIRST,
					.backend = SM_BACKEND_SOFT };

	(void)state;
	assert_int_equal(run("1 " MMAP("16384", "0x7f0000000000"), &o, &result), 0);
	assert_int_equal(result.touches, 1);
	sm__replay_result_free(&result);
	o.touch = SM__TOUCH_ALL;
	assert_int_equal(run("1 " MMAP("16384", "0x7f0000000000"), &o, &result), 0);
	assert_int_equal(result.touches, 4);
	sm__replay_result_free(&result);
}

/* A maps block is mapped first; the heap goes on where it ended. */
static void maps_block(void **state)
{
	(void)state;
	check("# maps 1\n"
	      "00400000-00402000 r-xp 00000000 fe:00 1 /bin/a\n"
	      "00555000-00557000 rw-p 00000000 00:00 0 [heap]\n"
	      "7f0000000000-7f0000010000 r--p 00000000 fe:00 2 /lib/ld.so\n"
	      "7ffe00000000-7ffe00021000 rw-p 00000000 00:00 0 [stack]\n"
	      "1 brk(0x558000) = 0x558000\n"
	      "1 mprotect(0x400000, 4096, PROT_READ) = 0\n"
	      "1 mprotect(0x600000, 4096, PROT_READ) = -1 ENOMEM (x)\n"
	      "1 " MMAP("4096", "0x7efffffff000"),
	      SM__WHY_UNEXPLAINED, 0, NULL);
}

static void exhaustion(void **state)
{
	struct sm__replay_options o = { .stop_after = UINT64_MAX };
	uint64_t n, failed = 0;

	(void)state;
	for (int parallel = 0; parallel < 2; parallel++) {
		o.parallel = parallel;
		for (n = 1; n < 3000; n++) {
			bool all;
			int r;

			sm__inject_arm(n);
			r = run(threads, &o, &result);
			all = sm__inject_seen() < n;
			sm__inject_disarm();
			sm__replay_result_free(&result);
			failed += r != 0;
			assert_true(!r || r == -ENOMEM);
			if (all)
				break;
		}
		assert_in_range(n, 30, 2999);
	}
	assert_true(failed > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(results_are_compared),
		cmocka_unit_test(differences_are_explained),
		cmocka_unit_test(limits_are_those_of_the_recorded_machine),
		cmocka_unit_test(absurd_addresses_end_nothing),
		cmocka_unit_test(every_kind_of_call),
		cmocka_unit_test(processes_have_their_spaces),
		cmocka_unit_test(threads_end_alike),
		cmocka_unit_test(stops_after),
		cmocka_unit_test(pages_are_touched),
		cmocka_unit_test(maps_block),
		cmocka_unit_test(exhaustion),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
