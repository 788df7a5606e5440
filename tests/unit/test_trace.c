/* SPDX-License-Identifier: MIT */
/*
 * The reader of recordings: every form of a line that strace and perf trace have, and every way a
 * line can be broken. A text is read and printed back in one plain form; the tables say what must
 * come out.
 */
#include "base/inject.h"
#include <samara/trace.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define OUT_SIZE 16384

struct out {
	char text[OUT_SIZE];
	size_t len;
};

static void put(struct out *o, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct out *o, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(o->text + o->len, OUT_SIZE - o->len, format, ap);
	va_end(ap);
	o->len += n > 0 ? (size_t)n : 0;
	assert_true(o->len < OUT_SIZE);
}

static void put_bad(void *arg, const char *file, uint64_t line, const char *reason)
{
	struct out *o = arg;

	(void)file;
	put(o, "bad %d %s\n", (int)line, reason);
}

static void put_event(struct out *o, const struct sm_trace_event *e)
{
	static const char *const kinds[] = { "call", "signal", "death", "map" };

	put(o, "%s %u", kinds[e->kind], e->tid);
	if (e->kind == SM_TRACE_CALL)
		put(o, " %.*s", (int)e->name_len, e->name);
	for (int i = 0; i < e->nargs; i++)
		put(o, " %llx", (unsigned long long)e->args[i]);
	if (e->path)
		put(o, " <%.*s>", (int)e->path_len, e->path);
	if (e->text)
		put(o, " \"%.*s\"", (int)e->text_len, e->text);
	for (size_t i = 0; i < e->nranges; i++)
		put(o, " {%llx %llx}", (unsigned long long)e->ranges[i].start,
		    (unsigned long long)e->ranges[i].len);
	if (!e->returned)
		put(o, " = ?");
	else if (e->error)
		put(o, " = %lld/%d", (long long)e->result, e->error);
	else
		put(o, " = %llx", (unsigned long long)e->result);
	if (e->entry_line != e->return_line)
		put(o, " %d-%d", (int)e->entry_line, (int)e->return_line);
	if (e->start_ns != UINT64_MAX)
		put(o, " @%llu", (unsigned long long)e->start_ns);
	if (e->duration_ns != UINT64_MAX)
		put(o, " <%llu>", (unsigned long long)e->duration_ns);
	if (e->inferred)
		put(o, " inferred%d", e->inferred);
	put(o, "\n");
}

/* Everything in text, printed; the last word is the reader's. */
static int read_all(const char *text, size_t size, bool strict, struct out *o)
{
	struct sm_trace_options options = { .bad_line = put_bad, .arg = o, .strict = strict };
	struct sm_trace_event ev;
	struct sm_trace *t;
	int r = sm_trace_open_memory(text, size, &options, &t);

	o->len = 0;
	o->text[0] = 0;
	if (r)
		return r;
	while ((r = sm_trace_next(t, &ev)) > 0)
		put_event(o, &ev);
	assert_int_equal(sm_trace_next(t, &ev), r);
	sm_trace_close(t);
	return r;
}

struct row {
	const char *text, *want;
};

static void check_rows(const struct row *rows, size_t n)
{
	static struct out o;

	for (size_t i = 0; i < n; i++) {
		int r = read_all(rows[i].text, strlen(rows[i].text), false, &o);

		if (r || strcmp(o.text, rows[i].want))
			print_error("text: %s\nreturned %d\n", rows[i].text, r);
		assert_string_equal(o.text, rows[i].want);
		assert_int_equal(r, 0);
	}
}

#define MUNMAP "munmap(0x1000, 4096)"

static void leaders(void **state)
{
	static const struct row rows[] = {
		{ MUNMAP " = 0\n", "call 0 munmap 1000 1000 = 0\n" },
		{ "14900 " MUNMAP " = 0\n", "call 14900 munmap 1000 1000 = 0\n" },
		{ "42    " MUNMAP "     = 0\n", "call 42 munmap 1000 1000 = 0\n" },
		{ "14900<t> " MUNMAP " = 0\n", "call 14900 munmap 1000 1000 = 0\n" },
		{ "14900<a b> " MUNMAP " = 0\n", "call 14900 munmap 1000 1000 = 0\n" },
		{ "[pid 14900] " MUNMAP " = 0\n", "call 14900 munmap 1000 1000 = 0\n" },
		{ "[pid   149] " MUNMAP " = 0\n", "call 149 munmap 1000 1000 = 0\n" },
		{ "[pid 14900<t>] " MUNMAP " = 0\n", "call 14900 munmap 1000 1000 = 0\n" },
		{ "17:19:59 " MUNMAP " = 0\n", "call 0 munmap 1000 1000 = 0 @62399000000000\n" },
		{ "7 17:19:59.330902 " MUNMAP " = 0\n",
		  "call 7 munmap 1000 1000 = 0 @62399330902000\n" },
		{ "1796059199 " MUNMAP " = 0\n",
		  "call 0 munmap 1000 1000 = 0 @1796059199000000000\n" },
		{ "1796059199.342 " MUNMAP " = 0\n",
		  "call 0 munmap 1000 1000 = 0 @1796059199342000000\n" },
		{ "1796059199.342902 " MUNMAP " = 0\n",
		  "call 0 munmap 1000 1000 = 0 @1796059199342902000\n" },
		{ "9 1796059199.374156765 " MUNMAP " = 0\n",
		  "call 9 munmap 1000 1000 = 0 @1796059199374156765\n" },
		{ "     0.000059 " MUNMAP " = 0\n     0.000001 " MUNMAP " = 0\n",
		  "call 0 munmap 1000 1000 = 0 @59000\ncall 0 munmap 1000 1000 = 0 @60000\n" },
		{ "5 17:19:59 (+     0.000059) " MUNMAP " = 0\n",
		  "call 5 munmap 1000 1000 = 0 @62399000000000\n" },
		{ "5 [   9] [00007fb9c5d6bd07] " MUNMAP " = 0\n", "call 5 munmap 1000 1000 = 0\n" },
		{ "5 [????????????????] " MUNMAP " = 0\n", "call 5 munmap 1000 1000 = 0\n" },
		{ "[unconfined_u:unconfined_r:t:s0-s0:c0.c1023] " MUNMAP " = 0\n",
		  "call 0 munmap 1000 1000 = 0\n" },
		{ "\033[1m5 \033[0;32mmunmap\033[m(0x1000, 4096) = 0\n",
		  "call 5 munmap 1000 1000 = 0\n" },
		{ "5 " MUNMAP " = 0\r\n", "call 5 munmap 1000 1000 = 0\n" },
		{ "5 " MUNMAP " = 0 <0.000010>\n", "call 5 munmap 1000 1000 = 0 <10000>\n" },
		{ "5 " MUNMAP " = 0 <0.000014121>\n", "call 5 munmap 1000 1000 = 0 <14121>\n" },
		{ "5 " MUNMAP " = 0 <unavailable>\n", "call 5 munmap 1000 1000 = 0\n" },
		{ "5 " MUNMAP " = 0", "call 5 munmap 1000 1000 = 0\n" },
	};

	(void)state;
	check_rows(rows, sizeof(rows) / sizeof(rows[0]));
}

static void arguments(void **state)
{
	static const struct row rows[] = {
		{ "mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = "
		  "0x7f00\n",
		  "call 0 mmap 0 2000 3 22 ffffffffffffffff 0 = 7f00\n" },
		{ "mmap(NULL, 8192, 0x3, 0x22, -1, 0) = 0x7f00\n",
		  "call 0 mmap 0 2000 3 22 ffffffffffffffff 0 = 7f00\n" },
		{ "mmap(0, 0x2000, 0x3, 0x22, 0xffffffffffffffff, 0) = 0x7f00\n",
		  "call 0 mmap 0 2000 3 22 ffffffffffffffff 0 = 7f00\n" },
		{ "mmap(NULL, 8192, 0 /* PROT_NONE */, 0x4022 /* "
		  "MAP_PRIVATE|MAP_ANONYMOUS|MAP_NORESERVE */, -1, 0) = 0x7f00\n",
		  "call 0 mmap 0 2000 0 4022 ffffffffffffffff 0 = 7f00\n" },
		{ "mmap(addr=NULL, length=8192, prot=PROT_READ, flags=MAP_PRIVATE|0x800000, "
		  "fd=3</etc/ld.so.cache>, offset=0x1000) = 0x7f00\n",
		  "call 0 mmap 0 2000 1 800002 3 1000 </etc/ld.so.cache> = 7f00\n" },
		{ "mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3<socket:[12->3]>, 0) = 0x7f00\n",
		  "call 0 mmap 0 1000 1 1 3 0 <socket:[12->3]> = 7f00\n" },
		{ "mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3</a b>(deleted), 0) = 0x7f00\n",
		  "call 0 mmap 0 1000 1 1 3 0 </a b> = 7f00\n" },
		{ "mmap(NULL, 4096, PROT_READ, "
		  "MAP_PRIVATE|MAP_ANONYMOUS|MAP_HUGETLB|21<<MAP_HUGE_SHIFT, -1, 0) = -1 ENOMEM "
		  "(Cannot allocate memory)\n",
		  "call 0 mmap 0 1000 1 54040022 ffffffffffffffff 0 = -1/12\n" },
		{ "brk(NULL)                               = 0x55d0\n", "call 0 brk 0 = 55d0\n" },
		{ "mremap(0x1000, 4096, 8192, MREMAP_MAYMOVE) = 0x5000\n",
		  "call 0 mremap 1000 1000 2000 1 = 5000\n" },
		{ "mremap(0x1000, 4096, 8192, MREMAP_MAYMOVE|MREMAP_FIXED, 0x9000) = 0x9000\n",
		  "call 0 mremap 1000 1000 2000 3 9000 = 9000\n" },
		{ "madvise(0x1000, 4096, MADV_DONTNEED) = 0\n",
		  "call 0 madvise 1000 1000 4 = 0\n" },
		{ "madvise(0x1000, 4096, 0x66 /* MADV_??? */) = -1 EINVAL (Invalid argument)\n",
		  "call 0 madvise 1000 1000 66 = -1/22\n" },
		{ "process_madvise(3, [{iov_base=0x1000, iov_len=4096}, {iov_base=0x9000, "
		  "iov_len=8192}], 2, MADV_COLD, 0) = 12288\n",
		  "call 0 process_madvise 3 0 2 14 0 {1000 1000} {9000 2000} = 3000\n" },
		{ "process_madvise(3<pidfd:[14]>, 0x7ffe00, 1, 0x14, 0) = 4096\n",
		  "call 0 process_madvise 3 7ffe00 1 14 0 <pidfd:[14]> = 1000\n" },
		{ "prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, 0x1000, 4096, \"a \\\"b\\\")\") = 0\n",
		  "call 0 prctl 53564d41 0 1000 1000 0 \"a \\\"b\\\")\" = 0\n" },
		{ "prctl(PR_SET_NAME, \"java\"...) = 0\n",
		  "call 0 prctl ffffffffffffffff 0 \"java\" = 0\n" },
		{ "page_fault(0x7f001234, WRITE) = 0\n", "call 0 page_fault 7f001234 2 = 0\n" },
		{ "page_fault(0x7f001234, EXEC) = 0\n", "call 0 page_fault 7f001234 4 = 0\n" },
		{ "msync(0x1000, 4096, MS_SYNC|MS_INVALIDATE) = 0\n",
		  "call 0 msync 1000 1000 6 = 0\n" },
		{ "mincore(0x1000, 4096, [1]) = 0\n", "call 0 mincore 1000 1000 0 = 0\n" },
		{ "mlockall(MCL_CURRENT|MCL_FUTURE) = 0\n", "call 0 mlockall 3 = 0\n" },
		{ "munlockall() = 0\n", "call 0 munlockall = 0\n" },
		{ "mseal(0x1000, 4096, 0) = 0\n", "call 0 mseal 1000 1000 0 = 0\n" },
		{ "pkey_mprotect(0x1000, 4096, PROT_READ, 1) = 0\n",
		  "call 0 pkey_mprotect 1000 1000 1 1 = 0\n" },
		{ "shmat(3, NULL, SHM_RDONLY) = 0x7f00\n", "call 0 shmat 3 0 1000 = 7f00\n" },
	};

	(void)state;
	check_rows(rows, sizeof(rows) / sizeof(rows[0]));
}

static void processes(void **state)
{
	static const struct row rows[] = {
		{ "7 clone(child_stack=NULL, "
		  "flags=CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD, child_tidptr=0x7f) = 8\n",
		  "call 7 clone 1200011 = 8\n" },
		{ "7 clone(0x1200011, 0, 0, 0x7f) = 0x8\n", "call 7 clone 1200011 = 8\n" },
		{ "7 clone3({flags=CLONE_VM|CLONE_VFORK, exit_signal=SIGCHLD, stack=0x7f, "
		  "stack_size=0x9000}, 88) = 8<t>\n",
		  "call 7 clone3 4100 = 8\n" },
		{ "7 clone3({flags=0x3d0f00 /* CLONE_VM|CLONE_FS */, tls=0x7f} => "
		  "{parent_tid=[8]}, 88) = 8\n",
		  "call 7 clone3 3d0f00 = 8\n" },
		{ "7 clone3(0x7ffc1230, 0x58) = 0x8\n", "call 7 clone3 3d0f00 = 8 inferred4\n" },
		{ "7 fork() = 8\n7 vfork( <unfinished ...>\n7 <... vfork resumed>) = 9\n",
		  "call 7 fork = 8\ncall 7 vfork = 9 2-3\n" },
		{ "7 execve(\"/bin/a\", [\"a\", \"= 0)\"], 0x7f /* 3 vars */) = 0 <0.1>\n",
		  "call 7 execve \"/bin/a\" = 0 <100000000>\n" },
		{ "7 execve(\"/bin/a\", [\"a\"], 0x7f) = -1 ENOENT (No such file or directory)\n",
		  "call 7 execve \"/bin/a\" = -1/2\n" },
		{ "7 exit(0) = ?\n7 +++ exited with 3 +++\n", "call 7 exit = ?\ndeath 7 = 3\n" },
		{ "7 exit_group(0) = ?\n7 +++ killed by SIGSEGV (core dumped) +++\n",
		  "call 7 exit_group = ?\ndeath 7 = 10b\n" },
		{ "7 --- SIGSEGV {si_signo=SIGSEGV, si_addr=NULL} ---\n7 --- stopped by SIGSTOP "
		  "---\n",
		  "signal 7 = b\nsignal 7 = 13\n" },
		/* exec in a thread that is not the leader: it goes on under the leader's id */
		{ "8 execve(\"/bin/a\", [], 0x7f <unfinished ...>\n"
		  "7 munmap(0x1000, 4096 <unfinished ...>\n"
		  "7 +++ superseded by execve in pid 8 +++\n"
		  "7 <... execve resumed>) = 0\n",
		  "call 7 munmap 1000 1000 = ? 2--1\ndeath 7 = ffffffffffffffff\n"
		  "call 7 execve \"/bin/a\" = 0 1-4\n" },
		/* calls nobody knows, and mseal as an old strace prints it */
		{ "7 openat(AT_FDCWD, \"/a = b\", O_RDONLY|O_CLOEXEC) = 3</a = b>\n",
		  "call 7 openat = 3\n" },
		{ "7 syscall_0x1ce(0x710000000000, 0x1000, 0, 0, 0, 0) = 0\n",
		  "call 7 syscall_0x1ce = 0\n" },
		{ "7 select(4, [3], NULL, NULL, NULL) = 1 (in [3], left {tv_sec=0, tv_usec=5}) "
		  "<0.000003>\n",
		  "call 7 select = 1 <3000>\n" },
	};

	(void)state;
	check_rows(rows, sizeof(rows) / sizeof(rows[0]));
}

static void cut_calls(void **state)
{
	static const struct row rows[] = {
		{ "1 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0 <unfinished "
		  "...>\n"
		  "2 brk(NULL) = 0x5000\n"
		  "1 <... mmap resumed>) = 0x7000 <0.000020>\n",
		  "call 2 brk 0 = 5000\n"
		  "call 1 mmap 0 1000 1 22 ffffffffffffffff 0 = 7000 1-3 <20000>\n" },
		/* cut in the middle of the arguments; the old way to print the resumption */
		{ "1 mmap(NULL, 4096,  <unfinished ...>\n"
		  "1 <... mmap resumed>PROT_READ, MAP_PRIVATE, 3, 0) = 0x7000\n",
		  "call 1 mmap 0 1000 1 2 3 0 = 7000 1-2\n" },
		{ "1 munmap(0x1000, 4096 <unfinished ...>\n1 <... munmap resumed> )      = 0\n",
		  "call 1 munmap 1000 1000 = 0 1-2\n" },
		/* never resumed: at the thread's death, and at the end */
		{ "1 munmap(0x1000, 4096 <unfinished ...>\n1 +++ exited with 0 +++\n",
		  "call 1 munmap 1000 1000 = ? 1--1\ndeath 1 = 0\n" },
		{ "1 munmap(0x1000, 4096 <unfinished ...>\n",
		  "call 1 munmap 1000 1000 = ? 1--1\n" },
		{ "1 munmap(0x1000, 4096 <detached ...>\n", "call 1 munmap 1000 1000 = ? 1--1\n" },
		{ "1 munmap(0x1000, 4096) = ?\n", "call 1 munmap 1000 1000 = ?\n" },
		{ "1 munmap(0x1000, 4096) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)\n",
		  "call 1 munmap 1000 1000 = ?\n" },
		/* the new thread's own return is no call */
		{ "2 <... clone resumed>) = 0\n2 brk(NULL) = 0x5000\n", "call 2 brk 0 = 5000\n" },
		/* a message of strace in the middle of a call */
		{ "clone(child_stack=0x7f, flags=CLONE_VM|CLONE_THREADstrace: Process 12 attached\n"
		  " <unfinished ...>\n"
		  "[pid 12] brk(NULL) = 0x5000\n"
		  "[pid 11] <... clone resumed>, parent_tid=[12]) = 12\n"
		  "[pid 11] munmap(0x1000, 4096) = 0\n"
		  "[pid 12] +++ exited with 0 +++\n"
		  "munmap(0x2000, 4096) = 0\n",
		  "call 12 brk 0 = 5000\ncall 11 clone 10100 = c 1-4\n"
		  "call 11 munmap 1000 1000 = 0\ndeath 12 = 0\ncall 11 munmap 2000 1000 = 0\n" },
		{ "fork(strace: Process 12 attached\n) = 12\n[pid 12] brk(NULL) = 0x5000\n"
		  "[pid 11] brk(NULL) = 0x6000\n[pid 11] +++ exited with 0 +++\nbrk(NULL) = "
		  "0x5000\n",
		  "call 0 fork = c\ncall 12 brk 0 = 5000\ncall 11 brk 0 = 6000\ndeath 11 = 0\n"
		  "call 12 brk 0 = 5000\n" },
		{ "brk(NULL) = 0x5000\n[pid 12] brk(NULL) = 0x5000\n",
		  "call 0 brk 0 = 5000\ncall 12 brk 0 = 5000\n" },
	};

	(void)state;
	check_rows(rows, sizeof(rows) / sizeof(rows[0]));
}

static void other_lines(void **state)
{
	static const struct row rows[] = {
		{ "1 brk(NULL) = 0x5000\n > /usr/lib/libc.so.6(brk+0x17) [0x1234]\n > "
		  "[0xdeadbeef]\n\n",
		  "call 1 brk 0 = 5000\n" },
		{ "strace: Process 11355 attached\nProcess 7 detached\nstrace: a word\n# a "
		  "remark\n",
		  "" },
		{ "% time     seconds  usecs/call     calls    errors syscall\n"
		  "------ ----------- ----------- --------- --------- ----------------\n"
		  " 45.00    0.000123          12        10         2 mmap\n"
		  "------ ----------- ----------- --------- --------- ----------------\n"
		  "100.00    0.000123                    10         2 total\nbrk(NULL) = 0x5000\n",
		  "call 0 brk 0 = 5000\n" },
		{ "# maps 77\n"
		  "00400000-00401000 r-xp 00000000 fe:00 123                                /bin/a "
		  "b\n"
		  "7ffe0000-7ffe2000 rw-p 00000000 00:00 0                          [stack]\n"
		  "77 brk(NULL) = 0x5000\n",
		  "map 77 400000 401000 5 2 0 </bin/a b> = 0\n"
		  "map 77 7ffe0000 7ffe2000 3 2 0 <[stack]> = 0\ncall 77 brk 0 = 5000\n" },
		{ "# maps\n# 00400000-00401000 rw-s 00001000 fe:00 123\nbrk(NULL) = 0x5000\n",
		  "map 0 400000 401000 3 1 1000 = 0\ncall 0 brk 0 = 5000\n" },
	};

	(void)state;
	check_rows(rows, sizeof(rows) / sizeof(rows[0]));
}

static void bad_lines(void **state)
{
#define GOOD "brk(NULL) = 0x5000\n"
#define OK   "call 0 brk 0 = 5000\n"
	static const struct row rows[] = {
		{ GOOD "hello\n" GOOD,
		  OK "bad 2 neither a call nor anything else that strace writes\n" OK },
		{ GOOD "munmap(0x1000, 4096)\n", OK "bad 2 no result after the arguments\n" },
		{ GOOD "munmap(0x1000, 4096) = x\n", OK "bad 2 the result is no number\n" },
		{ GOOD "munmap(0x1000) = 0\n", OK "bad 2 no second argument\n" },
		{ GOOD "munmap(0x1000, 4096) = 0 and more\n",
		  OK "bad 2 something after the result\n" },
		{ GOOD "munmap(0x1000; 4096) = 0\n", OK "bad 2 an argument that makes no sense\n" },
		{ GOOD "munmap(0x1000, 4096\n", OK "bad 2 an argument that makes no sense\n" },
		{ GOOD "munmap(0x1000, 4096) = -1 EWHAT (What)\n",
		  OK "bad 2 an errno nobody knows\n" },
		{ GOOD "mprotect(0x1000, 4096, PROT_FUN) = 0\n",
		  OK "bad 2 a constant nobody knows\n" },
		{ GOOD "page_fault(0x1000, 9) = 0\n", OK "bad 2 a fault is READ, WRITE or EXEC\n" },
		{ GOOD "process_madvise(3, [{iov_base=0x1}], 1, MADV_COLD, 0) = 1\n",
		  OK "bad 2 a vector that is none\n" },
		{ GOOD "7 <... munmap resumed>) = 0\n",
		  OK "bad 2 resumed, but its beginning is not in the recording\n" },
		{ "7 munmap(0x1, 4096 <unfinished ...>\n7 <... brk resumed>) = 0\n",
		  "bad 2 another call was begun than is resumed\ncall 7 munmap 1 1000 = ? 1--1\n" },
		{ "7 munmap(0x1, 4096 <unfinished ...>\n7 <... munmap res\n",
		  "bad 2 no call is resumed here\ncall 7 munmap 1 1000 = ? 1--1\n" },
		{ GOOD "7 +++ went away +++\n", OK "bad 2 a death nobody knows\n" },
		{ GOOD "7 12:00:01 \n", OK "bad 2 a line without a call\n" },
		{ GOOD "     1.0 ( 0.024 ms): a/7 mmap(len: 4096, prot: FUN) = 0x1\n",
		  OK "bad 2 a constant nobody knows\n" },
		{ GOOD "     1.0 ( 0.024 ms): a/7 minfault [a+0x0] nowhere\n",
		  OK "bad 2 a fault without a target\n" },
	};

	(void)state;
	check_rows(rows, sizeof(rows) / sizeof(rows[0]));
}

static void perf_trace(void **state)
{
	static const struct row rows[] = {
		{ "     0.957 ( 0.024 ms): t/11901 mmap(len: 1048576, prot: READ|WRITE, flags: "
		  "PRIVATE|ANONYMOUS|NORESERVE) = 0x7f795eb1a000\n",
		  "call 11901 mmap 0 100000 3 4022 ffffffffffffffff 0 = 7f795eb1a000 @957000 "
		  "<24000>\n" },
		{ "     0.957 ( 0.024 ms): a b/x/11901 mmap(addr: 0x1000, len: 4096, prot: READ, "
		  "flags: PRIVATE|FIXED, fd: 4</a>, off: 0x26000) = 0x1000\n",
		  "call 11901 mmap 1000 1000 1 12 4 26000 </a> = 1000 @957000 <24000>\n" },
		{ "     0.957 ( 0.024 ms): 7 mremap(addr: 0x1000, old_len: 4096, new_len: 8192, "
		  "flags: MAYMOVE|FIXED, new_addr: 0x9000) = 0x9000\n",
		  "call 7 mremap 1000 1000 2000 3 9000 = 9000 @957000 <24000>\n" },
		{ "     0.957 ( 0.024 ms): t/7 brk()    = 0x5000\n",
		  "call 7 brk 0 = 5000 @957000 <24000>\n" },
		{ "     0.957 ( 0.024 ms): t/7 madvise(start: 0x1000, len_in: 4096, behavior: "
		  "MADV_DONTNEED) = 0\n",
		  "call 7 madvise 1000 1000 4 = 0 @957000 <24000>\n" },
		{ "     0.957 ( 0.024 ms): t/7 mprotect(start: 0x1000, len: 4096) = -1 ENOMEM "
		  "(Cannot allocate memory)\n",
		  "call 7 mprotect 1000 1000 0 = -1/12 @957000 <24000>\n" },
		{ "     4.091 (         ): t/7 munmap(addr: 0x1000, len: 65536)      ...\n"
		  "     4.100 ( 0.001 ms): u/8 brk() = 0x5000\n"
		  "     4.091 ( 8.109 ms): t/7  ... [continued]: munmap())           = 0\n",
		  "call 8 brk 0 = 5000 @4100000 <1000>\n"
		  "call 7 munmap 1000 10000 = 0 1-3 @4091000 <8109000>\n" },
		{ "         ? (         ): t/8  ... [continued]: clone3())  = 0\n"
		  "     1.431 ( 0.000 ms): t/7 minfault [_start+0x0] => /usr/lib/ld.so.2@0x1ab70 "
		  "(d.)\n"
		  "     1.431 ( 0.000 ms): t/7 majfault [f+0x3] => //anon@0x7f7470188008 (d.)\n"
		  "     1.431 ( 0.000 ms): t/7 minfault [f+0x3] => 0x55c591ad1078 (?k)\n",
		  "call 7 minfault 0 4 1ab70 </usr/lib/ld.so.2> = 0 @1431000 <0> inferred3\n"
		  "call 7 majfault 7f7470188008 2 = 0 @1431000 <0> inferred1\n"
		  "call 7 minfault 55c591ad1078 1 = 0 @1431000 <0> inferred1\n" },
		{ "     1.470 ( 0.146 ms): t/7 clone3(uargs: 0x7ffc7ee46630, size: 88)  = 8\n"
		  "   292.965 (         ): t/8 exit()                                   = ?\n",
		  "call 7 clone3 3d0f00 = 8 @1470000 <146000> inferred4\n"
		  "call 8 exit = ? @292965000\n" },
	};

	(void)state;
	check_rows(rows, sizeof(rows) / sizeof(rows[0]));
}

static void strict_stops(void **state)
{
	static struct out o;
	static const char text[] = "brk(NULL) = 0x5000\nhello\nbrk(NULL) = 0x6000\n";

	(void)state;
	assert_int_equal(read_all(text, sizeof(text) - 1, true, &o), -EBADMSG);
	assert_string_equal(o.text, "call 0 brk 0 = 5000\n"
				    "bad 2 neither a call nor anything else that strace writes\n");
}

/* Empty, binary, cut short, a directory, nothing: each has its answer. */
static void not_a_recording(void **state)
{
	static struct out o;
	static char junk[100000];
	struct sm_trace *t;
	struct sm_trace_event ev;
	struct sm_trace_stats stats;

	(void)state;
	assert_int_equal(read_all("", 0, false, &o), -ENODATA);
	for (size_t i = 0; i < sizeof(junk); i++)
		junk[i] = (char)(i * 2654435761u >> 13);
	assert_int_equal(read_all(junk, sizeof(junk), false, &o), -EILSEQ);
	assert_int_equal(sm_trace_open("/", NULL, &t), -EISDIR);
	assert_int_equal(sm_trace_open("/nowhere/at/all", NULL, &t), -ENOENT);
	assert_null(t);
	assert_int_equal(sm_trace_open("/dev/null", NULL, &t), -ENODATA);

	assert_int_equal(sm_trace_open_memory("brk(NULL) = 0x50\nmunmap(0x1000", 30, NULL, &t), 0);
	assert_int_equal(sm_trace_next(t, &ev), 1);
	assert_int_equal(sm_trace_next(t, &ev), 0);
	sm_trace_stats(t, &stats);
	assert_true(stats.truncated);
	assert_int_equal(stats.bad, 1);
	assert_string_equal(sm_trace_error(t), "memory:2: an argument that makes no sense");
	sm_trace_close(t);
	sm_trace_close(NULL);
}

/* A call's text cut at every byte, and one byte wrong at every place, never harms the reader. */
static void every_cut(void **state)
{
	static const char text[] =
		"1 mmap(NULL, 8192, 0x3 /* PROT_READ */, MAP_PRIVATE|0x20, 3</a [b]>, 0x1000) = "
		"0x7f <0.1>\n"
		"2 process_madvise(3, [{iov_base=0x1000, iov_len=4096}], 1, MADV_COLD, 0 "
		"<unfinished ...>\n"
		"2 <... process_madvise resumed>) = -1 EINVAL (Invalid argument)\n"
		"3 prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, 0x1000, 4096, \"a\\\"b\") = 0\n"
		"4 clone3({flags=CLONE_VM, tls=0x7f} => {parent_tid=[8]}, 88) = 8\n"
		"     1.431 ( 0.000 ms): t/7 minfault [_start+0x0] => /usr/lib/ld.so.2@0x1ab70 "
		"(d.)\n";
	static struct out o;
	char *copy = malloc(sizeof(text));

	(void)state;
	assert_non_null(copy);
	for (size_t n = 1; n < sizeof(text); n++) {
		char *exact = malloc(n);

		assert_non_null(exact);
		memcpy(exact, text, n);
		read_all(exact, n, false, &o);
		free(exact);
		for (const char *c = "\"(){}[]<>=, \n0x|-\\"; *c; c++) {
			memcpy(copy, text, sizeof(text));
			copy[n - 1] = *c;
			read_all(copy, sizeof(text) - 1, false, &o);
		}
	}
	free(copy);
}

/* A line longer than any is skipped; lines across the blocks of the decompressor are whole. */
static void long_lines(void **state)
{
	size_t room = 3u << 20, len = 0;
	char *text = malloc(room);
	static struct out o;
	struct sm_trace *t;
	struct sm_trace_event ev;
	int n = 0;

	(void)state;
	assert_non_null(text);
	len += (size_t)sprintf(text, "brk(NULL) = 0x5000\n");
	memset(text + len, 'a', 2u << 20);
	len += 2u << 20;
	len += (size_t)sprintf(text + len, "\nbrk(NULL) = 0x6000\n");
	assert_int_equal(read_all(text, len, false, &o), 0);
	assert_string_equal(o.text, "call 0 brk 0 = 5000\n"
				    "bad 2 longer than any line strace writes\n"
				    "call 0 brk 0 = 6000\n");
	for (len = 0; len < room - 100;)
		len += (size_t)sprintf(text + len, "7 munmap(0x%x000, 4096) = 0\n", n++);
	assert_int_equal(sm_trace_open_memory(text, len, NULL, &t), 0);
	for (int i = 0; i < n; i++) {
		assert_int_equal(sm_trace_next(t, &ev), 1);
		assert_int_equal(ev.args[0], (uint64_t)i << 12);
	}
	assert_int_equal(sm_trace_next(t, &ev), 0);
	sm_trace_close(t);
	free(text);
}

/* Each allocation fails in turn: -ENOMEM, nothing leaks, nothing is lost track of. */
static void exhaustion(void **state)
{
	static const char text[] =
		"1 munmap(0x1000, 4096 <unfinished ...>\n"
		"2 process_madvise(3, [{iov_base=0x1000, iov_len=4096}], 1, MADV_COLD, 0) = 4096\n"
		"1 <... munmap resumed>) = 0\nfork(strace: Process 12 attached\n) = 12\n"
		"\033[1mbrk(NULL) = 0x5000\n"
		"     4.091 (         ): t/7 munmap(addr: 0x1000, len: 65536)      ...\n";
	static struct out o;
	uint64_t n;

	(void)state;
	for (n = 1; n < 100; n++) {
		int r;

		sm__inject_arm(n);
		r = read_all(text, sizeof(text) - 1, false, &o);
		if (sm__inject_seen() < n) {
			sm__inject_disarm();
			assert_int_equal(r, 0);
			break;
		}
		sm__inject_disarm();
		assert_int_equal(r, -ENOMEM);
	}
	assert_in_range(n, 8, 50);
}

static void names(void **state)
{
	(void)state;
	assert_string_equal(sm_trace_call_name(SM_SYS_MMAP), "mmap");
	assert_string_equal(sm_trace_call_name(SM_SYS_EXIT_GROUP), "exit_group");
	assert_string_equal(sm_trace_call_name(SM_SYS_OTHER), "other");
	assert_string_equal(sm_trace_call_name(SM_SYS_COUNT), "other");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leaders),	   cmocka_unit_test(arguments),
		cmocka_unit_test(processes),	   cmocka_unit_test(cut_calls),
		cmocka_unit_test(other_lines),	   cmocka_unit_test(bad_lines),
		cmocka_unit_test(perf_trace),	   cmocka_unit_test(strict_stops),
		cmocka_unit_test(not_a_recording), cmocka_unit_test(every_cut),
		cmocka_unit_test(long_lines),	   cmocka_unit_test(exhaustion),
		cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
