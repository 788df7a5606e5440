/* SPDX-License-Identifier: MIT */
/* percpu.c - finds out at run time what percpu.h can offer. */
#include "base/percpu.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if SM__HAVE_RSEQ
#include <sys/rseq.h>

/* MEMBARRIER_CMD_*_PRIVATE_EXPEDITED_RSEQ are of Linux 5.10; the headers here are newer. */
static bool rseq_works(void)
{
	const char *self;

	if (!__rseq_size)
		return false; /* GLIBC_TUNABLES=glibc.pthread.rseq=0, or an old kernel */
	self = (const char *)__builtin_thread_pointer() + __rseq_offset;
	if (*(const volatile int32_t *)(self + offsetof(struct rseq, cpu_id)) < 0)
		return false;
	return !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0) &&
	       !syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0);
}
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool works;
static _Atomic int mode;

static void choose(void)
{
	const char *asked = getenv("SAMARA_PERCPU");
	int saved = errno;

#if SM__HAVE_RSEQ
	works = rseq_works();
#endif
	if (works && (!asked || strcmp(asked, "lock")))
		atomic_store_explicit(&mode, SM__PERCPU_RSEQ, memory_order_relaxed);
	errno = saved;
}

enum sm__percpu_mode sm__percpu_mode(void)
{
	pthread_once(&once, choose);
	return (enum sm__percpu_mode)atomic_load_explicit(&mode, memory_order_relaxed);
}

bool sm__percpu_force(enum sm__percpu_mode wanted)
{
	pthread_once(&once, choose);
	if (wanted == SM__PERCPU_RSEQ && !works)
		return false;
	atomic_store_explicit(&mode, wanted, memory_order_relaxed);
	return true;
}

#if SM__HAVE_RSEQ
ptrdiff_t sm__percpu_rseq_offset(void)
{
	return __rseq_offset;
}

unsigned int sm__percpu_cpu(void)
{
	int32_t cpu = -1;

	if (sm__likely(__rseq_size))
		__asm__ volatile("movl %%fs:4(%1), %0" : "=r"(cpu) : "r"(__rseq_offset));
	if (sm__unlikely(cpu < 0))
		cpu = sched_getcpu();
	return cpu < 0 ? 0 : (unsigned int)cpu;
}

void sm__percpu_fence(void)
{
	int saved = errno;

	/* Registered before the first sequence ran, so it cannot fail; the registration outlives fork. */
	(void)syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0);
	errno = saved;
}
#else
ptrdiff_t sm__percpu_rseq_offset(void)
{
	return 0;
}

unsigned int sm__percpu_cpu(void)
{
	int cpu = sched_getcpu();

	return cpu < 0 ? 0 : (unsigned int)cpu;
}

void sm__percpu_fence(void)
{
}
#endif
