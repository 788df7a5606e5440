/* SPDX-License-Identifier: MIT */
/*
 * Recordings in memory: threads and processes (processes.c), the order of overlapping calls
 * (order.c), who waits for whom (footprint.h G1..G3), and the map the order is judged by
 * (occupancy.h).
 */
#include "base/inject.h"
#include "base/random.h"
#include "trace/footprint.h"
#include "trace/occupancy.h"
#include "trace/recording.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static int load(const char *text, struct sm__recording **rec)
{
	static const struct sm__load_options options;

	return sm__recording_load_memory(text, strlen(text), &options, rec);
}

/* The order as the lines on which the calls were entered: "3 1 2". */
static const char *order_of(const struct sm__recording *rec)
{
	static char text[1024];
	size_t len = 0;

	text[0] = 0;
	for (size_t i = 0; i < rec->ncalls; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, i ? " %d" : "%d",
					(int)rec->calls[rec->order[i]].line);
	return text;
}

#define MMAP(tid, at) \
	tid " mmap(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = " at "\n"
#define MMAP_IN(tid) \
	tid " mmap(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0 <unfinished ...>\n"
#define MMAP_OUT(tid, at) tid " <... mmap resumed>) = " at "\n"
#define UNMAP(tid, at)	  tid " munmap(" at ", 4096) = 0\n"
#define UNMAP_IN(tid, at) tid " munmap(" at ", 4096 <unfinished ...>\n"
#define UNMAP_OUT(tid)	  tid " <... munmap resumed>) = 0\n"
#define THREAD(tid, new)  tid " clone(child_stack=0x1, flags=CLONE_VM|CLONE_THREAD) = " new "\n"

static void check_order(const char *text, const char *want, uint64_t unordered)
{
	struct sm__recording *rec;

	assert_int_equal(load(text, &rec), 0);
	assert_string_equal(order_of(rec), want);
	assert_int_equal(rec->unordered, unordered);
	sm__recording_free(rec);
}

/* recording.h I3, order.c I1 and I3. */
static void overlapping_calls(void **state)
{
	(void)state;
	/* an address handed out again: its munmap came first, though it returned last */
	check_order(THREAD("1", "2") MMAP("1", "0x7000000ff000") UNMAP_IN("1", "0x7000000ff000")
			    MMAP_IN("2") MMAP_OUT("2", "0x7000000ff000") UNMAP_OUT("1"),
		    "1 2 3 4", 0);
	/* top-down: the mapping that lies higher came first, though it returned last */
	check_order(THREAD("1", "2") MMAP("1", "0x7000000ff000") MMAP_IN("1") MMAP_IN("2")
			    MMAP_OUT("1", "0x7000000fd000") MMAP_OUT("2", "0x7000000fe000"),
		    "1 2 4 3", 0);
	/* the munmap returned first, and took effect last: else the mmap had gone into its hole */
	check_order(THREAD("1", "2") MMAP("1", "0x7000000ff000") MMAP_IN("2")
			    UNMAP("1", "0x7000000ff000") MMAP_OUT("2", "0x7000000fe000"),
		    "1 2 3 4", 0);
	/* not overlapping: as the text says, whatever the results */
	check_order(THREAD("1", "2") MMAP("1", "0x7000000ff000") MMAP("2", "0x7000000fd000")
			    MMAP("1", "0x7000000fe000"),
		    "1 2 3 4", 0);
	/* the same place twice, and nobody unmapped it: taken as it comes, and counted */
	check_order(THREAD("1", "2") MMAP("1", "0x7000000ff000") MMAP("1", "0x7000000ff000"),
		    "1 2 3", 1);
}

/* A thread's lines come before the end of the clone that made it (recording.h I2). */
static void threads_and_processes(void **state)
{
	struct sm__recording *rec;

	(void)state;
	assert_int_equal(
		load("1 execve(\"/bin/a\", [\"a\"], 0x7f) = 0\n"
		     "1 brk(NULL) = 0x5000\n"
		     "1 clone(child_stack=0x1, flags=CLONE_VM|CLONE_THREAD <unfinished ...>\n"
		     "2 brk(NULL) = 0x5000\n"
		     "1 <... clone resumed>) = 2\n"
		     "2 fork() = 3\n"
		     "3 brk(NULL) = 0x5000\n"
		     "3 vfork( <unfinished ...>\n"
		     "4 brk(NULL) = 0x5000\n"
		     "4 execve(\"/bin/b\", [\"b\"], 0x7f) = 0\n"
		     "3 <... vfork resumed>) = 4\n"
		     "4 brk(NULL) = 0x9000\n"
		     "4 +++ exited with 0 +++\n"
		     "1 fork() = 4\n"
		     "4 brk(NULL) = 0x5000\n",
		     &rec),
		0);
	assert_string_equal(order_of(rec), "1 2 3 4 6 7 8 9 10 12 14 15");
	assert_int_equal(rec->nmms, 5); /* before, a, copy in 3, b, copy in the second 4 */
	assert_int_equal(rec->mms[1].origin, SM__MM_EXEC);
	assert_string_equal(sm__recording_string(rec, rec->mms[1].string), "/bin/a");
	assert_int_equal(rec->mms[2].origin, SM__MM_FORK);
	assert_int_equal(rec->mms[2].parent, 1);
	assert_int_equal(rec->mms[2].pid, 3);
	assert_int_equal(rec->mms[3].origin, SM__MM_EXEC);
	assert_string_equal(sm__recording_string(rec, rec->mms[3].string), "/bin/b");
	assert_int_equal(rec->mms[4].parent, 1);
	/* by line: 1 works on 0, its successor on 1; vfork's child on its parent's until it execs */
	static const uint32_t mm[] = { 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 1, 4 };
	for (size_t i = 0; i < rec->ncalls; i++)
		assert_int_equal(rec->calls[rec->order[i]].mm, mm[i]);
	assert_int_equal(rec->nthreads, 5); /* the id 4 was used twice */
	sm__recording_free(rec);
}

static void inferred_maps(void **state)
{
	struct sm__recording *rec;

	(void)state;
	assert_int_equal(load("1 brk(NULL) = 0x555000\n"
			      "1 mprotect(0x400000, 8192, PROT_READ) = 0\n"
			      "1 mprotect(0x401000, 8192, PROT_READ) = 0\n"
			      "1 munmap(0x500000, 4096) = 0\n"
			      "1 mprotect(0x500000, 4096, PROT_READ) = -1 ENOMEM (Cannot)\n" MMAP(
				      "1", "0x7000000ff000"),
			      &rec),
			 0);
	assert_int_equal(rec->mms[0].base, 0x700000100000);
	assert_int_equal(rec->mms[0].start_brk, 0x555000);
	assert_int_equal(rec->mms[0].ninitial, 2);
	assert_int_equal(rec->mms[0].initial[0].start, 0x400000);
	assert_int_equal(rec->mms[0].initial[0].end, 0x402000);
	assert_int_equal(rec->mms[0].initial[1].start, 0x402000);
	assert_int_equal(rec->mms[0].initial[1].end, 0x403000);
	sm__recording_free(rec);

	/* a maps block says it all: nothing is inferred, the linker's end is the top */
	assert_int_equal(load("# maps\n"
			      "00400000-00403000 r--p 00000000 fe:00 12 /bin/a\n"
			      "00555000-00576000 rw-p 00000000 00:00 0 [heap]\n"
			      "700000000000-700000100000 r--p 00000000 fe:00 13 /lib/ld.so\n"
			      "7ffe00000000-7ffe00021000 rw-p 00000000 00:00 0 [stack]\n"
			      "mprotect(0x400000, 8192, PROT_READ) = 0\n"
			      "mmap(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = "
			      "0x6ffffffff000\n",
			      &rec),
			 0);
	assert_int_equal(rec->mms[0].base, 0x700000100000);
	assert_int_equal(rec->mms[0].start_brk, 0x555000);
	assert_int_equal(rec->mms[0].ninitial, 4);
	assert_false(rec->mms[0].initial[0].inferred);
	assert_int_equal(rec->calls[1].note, 0);
	sm__recording_free(rec);
}

/* A fault of a perf trace that says file and offset: the map is found, its file gets the name. */
static void faults_by_offset(void **state)
{
	struct sm__recording *rec;
	static const char text[] =
		"     0.100 ( 0.001 ms): t/7 mmap(len: 8192, prot: READ, flags: PRIVATE, fd: 4) = "
		"0x700000000000\n"
		"     0.200 ( 0.000 ms): t/7 minfault [f+0x3] => /lib/a@0x1010 (d.)\n"
		"     0.300 ( 0.000 ms): t/7 minfault [f+0x3] => /lib/b@0x9999 (d.)\n"
		"     0.250 ( 0.000 ms): t/7 minfault [f+0x3] => //anon@0x700000000008 (d.)\n";

	(void)state;
	assert_int_equal(load(text, &rec), 0);
	assert_true(rec->stamped);
	assert_string_equal(order_of(rec), "1 2 4 3"); /* by time, not by line */
	assert_int_equal(rec->calls[1].args[0], 0x700000001010);
	assert_int_equal(rec->calls[1].note, SM__NOTE_RESOLVED);
	assert_string_equal(sm__recording_string(rec, rec->calls[0].string), "/lib/a");
	assert_int_equal(rec->calls[3].note, SM__NOTE_NO_TARGET);
	sm__recording_free(rec);
}

/* The waits of the call entered on a line, as "thread:calls". */
static const char *waits_of(const struct sm__recording *rec, const struct sm__footprints *f,
			    uint64_t line)
{
	static char text[256];
	size_t len = 0;

	text[0] = 0;
	for (size_t i = 0; i < rec->ncalls; i++) {
		if (rec->calls[i].line != line)
			continue;
		for (uint64_t w = f->wait_first[i]; w < f->wait_first[i + 1]; w++)
			len += (size_t)snprintf(
				text + len, sizeof(text) - len, "%s%u:%u", len ? " " : "",
				rec->threads[f->waits[w].thread].tid, f->waits[w].calls);
	}
	return text;
}

static void footprints(void **state)
{
	struct sm__footprints f;
	struct sm__recording *rec;

	(void)state;
	assert_int_equal(load(THREAD("1", "2")					  /* 1 */
			      MMAP("1", "0x7000000ff000")			  /* 2 */
			      MMAP("2", "0x7000000f0000")			  /* 3: far away */
			      "2 mprotect(0x7000000ff000, 4096, PROT_READ) = 0\n" /* 4 */
			      "1 page_fault(0x7000000ff010, READ) = 0\n"	  /* 5 */
			      "2 page_fault(0x7000000ff020, READ) = 0\n"	  /* 6: not for 5 */
			      MMAP("1", "0x7000000ef000")		  /* 7: neighbour of 3 */
			      "2 munmap(0x7000000ff000, 4096) = 0\n"	  /* 8: for 5 */
			      "1 fork() = 3\n"				  /* 9: for all */
			      "2 page_fault(0x7000000f0000, READ) = 0\n", /* 10: for fork */
			      &rec),
			 0);
	assert_int_equal(sm__footprints_make(rec, &f), 0);
	assert_string_equal(waits_of(rec, &f, 3), "");
	assert_string_equal(waits_of(rec, &f, 4), "1:2");
	assert_string_equal(waits_of(rec, &f, 5), "2:2");
	assert_string_equal(waits_of(rec, &f, 6), "");
	assert_string_equal(waits_of(rec, &f, 7), "2:1");
	assert_string_equal(waits_of(rec, &f, 8), "1:3");
	assert_string_equal(waits_of(rec, &f, 9), "2:4");
	assert_string_equal(waits_of(rec, &f, 10), "1:5");
	sm__footprints_free(&f);
	sm__recording_free(rec);
}

/* occupancy.h I1 and I2 against a plain array of pages, and taking back against copies of it. */
static void occupancy_like_pages(void **state)
{
	enum { PAGES = 48, STEPS = 4000 };
	static unsigned char pages[STEPS + 1][PAGES];
	struct sm__occupancy o = { 0 };
	struct sm__undo undo = { 0 };
	struct sm__random rng;
	int depth = 0;

	(void)state;
	sm__random_seed(&rng, 7);
	for (int i = 0; i < 40000; i++) {
		if (depth && (depth == STEPS || sm__random_below(&rng, 3) == 0)) {
			sm__occupy_undo(&o, &undo);
			depth--;
		} else {
			unsigned a = (unsigned)sm__random_below(&rng, PAGES),
				 b = a + (unsigned)sm__random_below(&rng, PAGES - a + 1),
				 how = (unsigned)sm__random_below(&rng, 3);

			assert_int_equal(sm__occupy(&o, a, b, (enum sm__occupied)how, &undo), 0);
			if (a == b) /* nothing to take back: a break that stays, say */
				continue;
			memcpy(pages[depth + 1], pages[depth], PAGES);
			memset(pages[++depth] + a, (int)how, b - a);
		}
		for (size_t k = 0; k < o.n; k++) {
			assert_true(o.spans[k].start < o.spans[k].end && o.spans[k].state);
			if (k && o.spans[k - 1].end == o.spans[k].start)
				assert_int_not_equal(o.spans[k - 1].state, o.spans[k].state);
			else if (k)
				assert_true(o.spans[k - 1].end < o.spans[k].start);
		}
		for (unsigned p = 0; p < PAGES; p++) {
			for (int how = 0; how < 3; how++)
				assert_int_equal(
					sm__occupied_any(&o, p, p + 1, (enum sm__occupied)how),
					pages[depth][p] == how);
		}
	}
	free(undo.spans);
	sm__occupancy_free(&o);
}

static void exhaustion(void **state)
{
	struct sm__recording *rec;
	uint64_t n;

	(void)state;
	for (n = 1; n < 500; n++) {
		struct sm__footprints f = { 0 };
		int r;

		sm__inject_arm(n);
		r = load(THREAD("1", "2") MMAP("1", "0x7000000ff000") MMAP_IN("1") MMAP_IN("2")
				 MMAP_OUT("1", "0x7000000fd000") MMAP_OUT(
					 "2", "0x7000000fe000") "1 fork() = 9\n9 mprotect(0x1000, "
								"4096, PROT_READ) = 0\n",
			 &rec);
		if (!r)
			r = sm__footprints_make(rec, &f);
		if (sm__inject_seen() < n) {
			sm__inject_disarm();
			assert_int_equal(r, 0);
			sm__footprints_free(&f);
			sm__recording_free(rec);
			break;
		}
		sm__inject_disarm();
		assert_int_equal(r, -ENOMEM);
		sm__footprints_free(&f);
		sm__recording_free(rec);
	}
	assert_in_range(n, 20, 400);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overlapping_calls), cmocka_unit_test(threads_and_processes),
		cmocka_unit_test(inferred_maps),     cmocka_unit_test(faults_by_offset),
		cmocka_unit_test(footprints),	     cmocka_unit_test(occupancy_like_pages),
		cmocka_unit_test(exhaustion),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
