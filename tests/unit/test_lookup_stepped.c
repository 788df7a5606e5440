/* SPDX-License-Identifier: MIT */
/*
 * Look-ups from a signal handler that interrupts every step of every writer on the same thread: the
 * writer runs with the CPU's single-step flag, and after each of its instructions the SIGTRAP handler
 * asks about memory that is always mapped. lookup.c I1, I2; samara/space.h, Context of sm_lookup. Nothing
 * moves while it asks, so the areas that it finds one after another must fit together: a split or a
 * merge is one step (split.c I1, merge.c I3).
 *
 * A restartable sequence is restarted by every signal, so stepping would never leave it: the program
 * starts itself again with the sequences switched off in the C library.
 */
#include "samara/samara.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>
#include <cmocka.h>

#if defined(__x86_64__) && !SM_TSAN && !SM_ASAN

#define P   4096ull
#define B   0x200000000000ull
#define ANF (SM_MAP_PRIVATE | SM_MAP_ANONYMOUS | SM_MAP_FIXED)
#define RW  (SM_PROT_READ | SM_PROT_WRITE)
#define TO  (SM_MREMAP_MAYMOVE | SM_MREMAP_FIXED)

enum { SOLID = 16, TRAP_FLAG = 0x100 };

static struct sm_space *s;
static volatile sig_atomic_t stop_stepping;
static volatile uint64_t steps, again, wrong;

/* The areas from B on, each looked up where the last one ends: neither gaps nor overlaps. */
static bool fits_together(void)
{
	struct sm_vma_info found = { .end = B };

	while (found.end < B + SOLID * P) {
		sm_addr at = found.end;

		if (sm_lookup(s, at, &found) || found.start != at)
			return false;
	}
	return true;
}

static void step(int signo, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	sm_addr at = B + steps % SOLID * P;
	struct sm_vma_info found;
	int err;

	(void)signo;
	(void)info;
	errno = 4711;
	steps++;
	err = sm_lookup(s, at, &found);
	if (err || found.start > at || found.end <= at || !(found.flags & SM_VM_READ))
		wrong++;
	if (!fits_together())
		wrong++;
	err = sm_check_range(s, B, SOLID * P, SM_ACCESS_READ);
	again += err == -EAGAIN;
	if (err && err != -EAGAIN)
		wrong++;
	if (errno != 4711)
		wrong++;
	if (stop_stepping)
		u->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

static void start(void)
{
	stop_stepping = 0;
	__asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
}

static void stop(void)
{
	stop_stepping = 1;
	__asm__ volatile("nop");
}

static void writers(void)
{
	sm_addr elsewhere = B + 64 * P;
	int64_t any;

	sm_mprotect(s, B + 2 * P, 3 * P, SM_PROT_READ); /* splits */
	sm_mprotect(s, B + 4 * P, 3 * P, SM_PROT_READ); /* part of a neighbour */
	sm_mprotect(s, B, SOLID * P, RW);		/* merges */
	sm_mmap(s, B + 3 * P, 4 * P, RW, ANF, NULL, 0); /* over what is there */
	sm_madvise(s, B + P, 2 * P, SM_MADV_SEQUENTIAL);
	sm_madvise(s, B, 8 * P, SM_MADV_NORMAL);
	sm_fault(s, B, SM_ACCESS_WRITE);
	sm_mmap(s, elsewhere, 4 * P, RW, ANF, NULL, 0);
	sm_mremap(s, elsewhere, 4 * P, 4 * P, TO, elsewhere + 16 * P);
	sm_munmap(s, elsewhere + 17 * P, P);
	sm_munmap(s, elsewhere, 64 * P);
	any = sm_mmap(s, 0, P, RW, SM_MAP_PRIVATE | SM_MAP_ANONYMOUS, NULL, 0);
	sm_munmap(s, (sm_addr)any, P);
	sm_brk(s, 0x555555000000 + 3 * P);
	sm_brk(s, 0x555555000000);
	sm_space_destroy(sm_fork(s));
}

/* Validators multiply the steps: such builds step through the oldest and the newest maple design. */
static bool chosen(const char *name)
{
	return !SM_VALIDATE || !strcmp(name, "linux-6.1") || !strcmp(name, "samara");
}

static void every_step(void **state)
{
	struct sigaction sa = { .sa_sigaction = step, .sa_flags = SA_SIGINFO };

	(void)state;
	sigaction(SIGTRAP, &sa, NULL);
	for (unsigned i = 0; i < sm_design_preset_count(); i++) {
		struct sm_host *host = sm_host_create(NULL, NULL);
		struct sm_space_options o;

		sm_space_options_init(&o);
		sm_design_preset(sm_design_preset_name(i), &o.design);
		if (o.design.tree != SM_TREE_MAPLE || !chosen(sm_design_preset_name(i))) {
			sm_host_destroy(host); /* rb and avl take a lock and say so */
			continue;
		}
		o.start_brk = 0x555555000000;
		s = sm_space_create(host, &o, NULL);
		assert_non_null(s);
		sm_mmap(s, B, SOLID * P, RW, ANF, NULL, 0);
		writers(); /* caches are warm: fewer steps in the allocator */
		steps = again = wrong = 0;
		start();
		writers();
		stop();
		print_message("%s: %llu steps, %llu times -EAGAIN\n", sm_design_preset_name(i),
			      (unsigned long long)steps, (unsigned long long)again);
		assert_true(steps > 10000);
		assert_int_equal(wrong, 0);
		sm_space_destroy(s);
		assert_int_equal(sm_host_destroy(host), 0);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_step) };

	(void)argc;
	if (!getenv("GLIBC_TUNABLES")) {
		setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", 1);
		execv("/proc/self/exe", argv);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
	return 0; /* single-stepping needs x86-64 and a runtime that does not intercept signals */
}

#endif
