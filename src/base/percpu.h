/* SPDX-License-Identifier: MIT */
/*
 * percpu.h - how a thread gets a CPU's data for itself.
 *
 * rseq	 Restartable sequences: a few instructions that end in one store; the kernel sends a thread
 *	 that was preempted, moved or interrupted by a signal in between back to their start. No atomic
 *	 instruction. Needs the registration that glibc 2.35 or later makes for each thread, x86-64 here,
 *	 and membarrier's rseq command, with which another thread makes sure that no sequence is under
 *	 way. (aarch64 uses the trylock: its sequences would be untested.)
 * lock	 One exchange on a word of the CPU's data; whoever fails goes another way. Everywhere; the one
 *	 the thread sanitizer understands.
 *
 * I1 The choice is made once: the environment's SAMARA_PERCPU=rseq|lock, else rseq where it works.
 */
#ifndef SM_BASE_PERCPU_H
#define SM_BASE_PERCPU_H

#include "base/base.h"

#if defined(__x86_64__) && defined(__linux__) && !SM_TSAN && __has_include(<sys/rseq.h>)
#define SM__HAVE_RSEQ 1
#else
#define SM__HAVE_RSEQ 0
#endif

enum sm__percpu_mode {
	SM__PERCPU_LOCK,
	SM__PERCPU_RSEQ,
};

enum sm__percpu_mode sm__percpu_mode(void);

/* Tests: what is created from now on uses this mode. False where it does not work. */
bool sm__percpu_force(enum sm__percpu_mode mode);

/* Where the thread's struct rseq is, from the thread pointer. */
ptrdiff_t sm__percpu_rseq_offset(void);

/* The CPU we are on, or were on a moment ago. */
unsigned int sm__percpu_cpu(void);

/* When it returns, every sequence that was under way on any CPU of this process has restarted. */
void sm__percpu_fence(void);

#endif
