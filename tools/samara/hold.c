/* SPDX-License-Identifier: MIT */
/* hold.c - stopping and letting go of a process to be recorded (hold.h). */
#include "hold.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STOP_MS = 2000 }; /* a thread in an uninterruptible sleep may take so long */

/* The text behind "NAME:\t" in /proc/PID/task/TID/status begins with one of the characters. */
static bool thread_has(pid_t pid, const char *tid, const char *name, const char *firsts)
{
	char path[64], line[128];
	size_t len = strlen(name);
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%.16s/status", pid, tid);
	f = fopen(path, "re");
	if (!f)
		return true; /* it has ended */
	while (!found && fgets(line, sizeof(line), f))
		found = !strncmp(line, name, len) && line[len] == ':' && line[len + 1] == '\t' &&
			strchr(firsts, line[len + 2]);
	fclose(f);
	return found;
}

static bool all_threads_have(pid_t pid, const char *name, const char *firsts)
{
	char path[32];
	struct dirent *entry;
	bool all;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	all = dir != NULL;
	while (all && (entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			all = thread_has(pid, entry->d_name, name, firsts);
	}
	if (dir)
		closedir(dir);
	return all;
}

static bool is_stopped(pid_t pid)
{
	return all_threads_have(pid, "State", "TtZX");
}

/* In a session of its own, so that Ctrl-C for the tracer is not for it. The end of the pipe is I1. */
static _Noreturn void wait_and_let_go(pid_t pid, int from_tracer)
{
	struct pollfd end = { .fd = from_tracer, .events = POLLIN };

	setsid();
	while (!poll(&end, 1, 1) && !all_threads_have(pid, "TracerPid", "123456789"))
		;
	kill(pid, SIGCONT);
	_exit(0);
}

/* A grandchild: the tracer, which this process becomes, is not to find a child it does not know. */
static int start_helper(pid_t pid)
{
	int ends[2], status;
	pid_t child;

	if (pipe(ends))
		return -errno;
	child = fork();
	if (!child) {
		close(ends[1]);
		child = fork();
		if (!child)
			wait_and_let_go(pid, ends[0]);
		_exit(child < 0);
	}
	close(ends[0]); /* ends[1] stays open in the tracer until it ends */
	if (child > 0 && waitpid(child, &status, 0) == child && !status)
		return 0;
	close(ends[1]);
	return -EAGAIN;
}

int hold_until_traced(pid_t pid)
{
	int error;

	if (is_stopped(pid)) /* I2 */
		return 0;
	if (kill(pid, SIGSTOP))
		return -errno;
	for (int ms = 0; ms < STOP_MS && !is_stopped(pid); ms++)
		usleep(1000);
	error = start_helper(pid);
	if (error)
		kill(pid, SIGCONT);
	return error;
}
