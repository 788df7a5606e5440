/* SPDX-License-Identifier: MIT */
/* oracle_child.h - what the oracle and its child share. */
#ifndef TESTS_KERNEL_ORACLE_CHILD_H
#define TESTS_KERNEL_ORACLE_CHILD_H

#include "kernel/oracle.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define MADV_GUARD_INSTALL_VALUE 102

struct oracle_shared {
	_Atomic uint32_t turn; /* the call whose turn it is; a futex */
	_Atomic uint32_t made; /* bit per space that exists */
	char error[200];
	struct obs_files seen;
	struct observation log[];
};

/*
 * fork without the handlers that libraries registered: they may wait for threads that are not there,
 * or start some where there is no room for a stack. The child makes system calls and nothing else.
 */
static inline pid_t oracle_fork(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

/* Runs the list in the calling process, which is forked for it, and ends it. */
void oracle_child(struct oracle_shared *s, const struct ops_config *config, const struct op *ops,
		  size_t n, const int *fd) __attribute__((noreturn));

#endif
