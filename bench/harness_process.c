/* SPDX-License-Identifier: MIT */
/*
 * harness_process.c - peers in processes of their own, where programs are found, temporary files.
 */
#include "harness_internal.h"
#include "base/base.h"
#include "peers/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct bench_peer {
	char *name;
	pid_t pid;
	FILE *to, *from;
};

/* Relative to the folder of the command: beside it, in the build tree, installed. */
static const char *const program_dirs[] = { ".", "../../bench", "../libexec/samara",
					    "../lib/samara" };

/* The path of a program of bench/programs or bench/peers, or NULL. buf: PATH_MAX bytes. */
static const char *program_path(const char *name, char *buf)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (n <= 0)
		return NULL;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return NULL;
	*slash = '\0';
	for (unsigned i = 0; i < SM__ARRAY_SIZE(program_dirs); i++) {
		if (snprintf(buf, PATH_MAX, "%s/%s/%s", self, program_dirs[i], name) < PATH_MAX &&
		    !access(buf, X_OK))
			return buf;
	}
	return NULL;
}

/* The order of CPUs for the child, in our environment: spawn passes it on. */
static void export_cpus(void)
{
	const struct bench_cpus *cpus = bench_cpus();
	char text[BENCH_CPUS * 6];
	size_t at = 0;

	for (unsigned i = 0; i < cpus->n; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%d", i ? "," : "",
				       cpus->cpu[i]);
	setenv("BENCH_CPUS_ORDER", text, 1);
}

/* Spawns path with its stdin and stdout on pipes. All ends are close-on-exec. */
static int spawn(struct bench_peer *p, const char *path)
{
	int down[2], up[2] = { -1, -1 };
	posix_spawn_file_actions_t actions;
	char *argv[] = { (char *)path, NULL };
	int error;

	if (pipe2(down, O_CLOEXEC))
		return -errno;
	if (pipe2(up, O_CLOEXEC)) {
		error = errno;
		goto out;
	}
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, down[0], STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, up[1], STDOUT_FILENO);
	error = posix_spawn(&p->pid, path, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (error)
		goto out;
	p->to = fdopen(down[1], "w");
	p->from = fdopen(up[0], "r");
	down[1] = up[0] = -1; /* the streams own them now */
out:
	for (unsigned i = 0; i < 2; i++) {
		if (down[i] >= 0)
			close(down[i]);
		if (up[i] >= 0)
			close(up[i]);
	}
	return -error;
}

struct bench_peer *bench_peer_open(struct bench *b, const char *name)
{
	struct bench_peer *p = calloc(1, sizeof(*p));
	char program[64], path[PATH_MAX];
	int error;

	if (!p)
		return NULL;
	p->name = strdup(name);
	snprintf(program, sizeof(program), "samara-peer-%.40s", name);
	if (!program_path(program, path)) {
		bench_note(b, "%s left out: program %s is not built", name, program);
		goto fail;
	}
	export_cpus();
	error = spawn(p, path);
	if (error) {
		bench_note(b, "%s left out: %s: %s", name, path, strerror(-error));
		goto fail;
	}
	return p;
fail:
	free(p->name);
	free(p);
	return NULL;
}

void bench_peer_close(struct bench_peer *p)
{
	if (!p)
		return;
	if (p->to)
		fclose(p->to); /* the peer's stdin ends: it does */
	if (p->from)
		fclose(p->from);
	while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
		;
	free(p->name);
	free(p);
}

struct bench_side bench_peer_side(struct bench_peer *p, const char *what)
{
	return (struct bench_side){ .name = p ? p->name : NULL, .peer = p, .what = what };
}

uint64_t bench_peer_ask_more(struct bench_peer *p, const char *what, uint64_t n, double *more,
			     unsigned n_more)
{
	char line[512] = "", *at;
	uint64_t ns;

	if (!p->to || !p->from)
		return peer_fail("no pipe");
	fprintf(p->to, "%s %llu\n", what, (unsigned long long)n);
	if (fflush(p->to) || !fgets(line, sizeof(line), p->from))
		return peer_fail("samara-peer-%s ended", p->name);
	line[strcspn(line, "\n")] = '\0';
	ns = strtoull(line, &at, 10);
	if (at == line)
		return peer_fail("%s", strncmp(line, "error ", 6) ? line : line + 6);
	for (unsigned i = 0; i < n_more; i++) {
		char *end;

		more[i] = strtod(at, &end);
		if (end == at)
			more[i] = NAN;
		at = end;
	}
	return ns;
}

uint64_t bench_peer_ask(struct bench_peer *p, const char *what, uint64_t n)
{
	return bench_peer_ask_more(p, what, n, NULL, 0);
}

struct bench_side bench_kernel_side(struct bench *b, const char *what)
{
	if (!b->kernel_asked)
		b->kernel = bench_peer_open(b, "kernel");
	b->kernel_asked = true;
	return bench_peer_side(b->kernel, what);
}

const char *bench_directory(struct bench *b)
{
	const char *base = getenv("TMPDIR");

	if (b->directory[0])
		return b->directory;
	snprintf(b->directory, sizeof(b->directory), "%s/samara-XXXXXX",
		 base && *base ? base : "/tmp");
	if (!mkdtemp(b->directory)) {
		bench_error(b, -errno, "TMPDIR: %s", b->directory);
		b->directory[0] = '\0';
		return NULL;
	}
	return b->directory;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st, (void)kind, (void)ftw;
	return remove(path);
}

void bench_remove_directory(struct bench *b)
{
	if (b->directory[0])
		nftw(b->directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
	b->directory[0] = '\0';
}
