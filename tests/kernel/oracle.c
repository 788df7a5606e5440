/* SPDX-License-Identifier: MIT */
/* oracle.c - the parent's side: probing, shared memory, files, children. */
#include "kernel/oracle_child.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

struct oracle {
	struct oracle_shared *shared;
	size_t bytes;
	uint64_t base;
	unsigned version;
	bool brk;
	int fd[FD_FILES];
};

/* A range that is free here is free in children. */
static uint64_t probe_base(void)
{
	static const uint64_t candidates[] = { 0x200000000000, 0x100000000000, 0x300000000000 };
	size_t len = OPS_MAX_PAGES * OPS_PAGE * 3;

	for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++) {
		void *want = (void *)(candidates[i] - len / 3), *at;

		at = mmap(want, len, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
		if (at == MAP_FAILED)
			continue;
		munmap(at, len);
		if (at == want)
			return candidates[i];
	}
	return 0;
}

static void close_files(struct oracle *o)
{
	for (int i = 0; i < FD_FILES; i++) {
		if (o->fd[i] >= 0)
			close(o->fd[i]);
		o->fd[i] = -1;
	}
}

static int open_object(int object)
{
	int fd = memfd_create("object", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)ops_object_size[object]))
		return -1;
	for (uint64_t p = 0; p * OPS_PAGE < ops_object_size[object]; p++) {
		uint64_t token = ops_object_token(object, p);

		if (pwrite(fd, &token, sizeof(token), (off_t)(p * OPS_PAGE)) != sizeof(token))
			return -1;
	}
	return fd;
}

/* Fresh files for every run: what one run writes, the next must not see. */
static bool open_files(struct oracle *o)
{
	char path[64];

	close_files(o);
	for (int i = 0; i < OPS_OBJECTS; i++)
		o->fd[i] = open_object(i);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", o->fd[FD_RW]);
	o->fd[FD_RO] = open(path, O_RDONLY | O_CLOEXEC);
	o->fd[FD_WO] = open(path, O_WRONLY | O_CLOEXEC);
	o->fd[FD_DIR] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < FD_FILES; i++) {
		if (o->fd[i] < 0) {
			perror("oracle: files");
			return false;
		}
	}
	return true;
}

static unsigned kernel_version(void)
{
	struct utsname u;
	unsigned major = 0, minor = 0;

	if (uname(&u) || sscanf(u.release, "%u.%u", &major, &minor) != 2)
		return 0;
	return major * 1000 + minor;
}

struct oracle *oracle_open(size_t max_ops)
{
	struct oracle *o = calloc(1, sizeof(*o));
	struct op ping = { .kind = OP_BRK };
	struct ops_config config = { .pages = 64, .brk_page = 2 };

	if (!o)
		return NULL;
	memset(o->fd, -1, sizeof(o->fd));
	o->bytes = sizeof(*o->shared) + max_ops * sizeof(struct observation);
	o->shared = mmap(NULL, o->bytes, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	o->base = probe_base();
	o->version = kernel_version();
	if (o->shared == MAP_FAILED || !o->base) {
		fprintf(stderr, "oracle: no room for a window\n");
		free(o);
		return NULL;
	}
	config.base = o->base;
	config.as_pages = config.data_pages = config.memlock_pages = ~0ULL;
	o->brk = true;
	if (!oracle_run(o, &config, &ping, 1)) {
		o->brk = false;
		config.brk_page = -1;
		ping.kind = OP_READ;
		if (!oracle_run(o, &config, &ping, 1)) {
			oracle_close(o);
			return NULL;
		}
	}
	return o;
}

void oracle_close(struct oracle *o)
{
	close_files(o);
	munmap(o->shared, o->bytes);
	free(o);
}

uint64_t oracle_base(const struct oracle *o)
{
	return o->base;
}

unsigned oracle_version(const struct oracle *o)
{
	return o->version;
}

bool oracle_has_brk(const struct oracle *o)
{
	return o->brk;
}

bool oracle_has(const struct oracle *o, enum op_kind kind)
{
	if (kind == OP_MSEAL)
		return o->version >= 6010;
	if (kind == OP_PMADVISE)
		return o->version >= 6013;
	return kind != OP_BRK || o->brk;
}

bool oracle_has_advice(const struct oracle *o, uint64_t advice)
{
	if (advice == MADV_GUARD_INSTALL_VALUE || advice == MADV_GUARD_INSTALL_VALUE + 1)
		return o->version >= 6015;
	return advice != 25 || o->version >= 6001;
}

const struct observation *oracle_run(struct oracle *o, const struct ops_config *config,
				     const struct op *ops, size_t n)
{
	struct oracle_shared *s = o->shared;
	int status;
	pid_t pid;

	if (!open_files(o))
		return NULL;
	memset(s, 0, sizeof(*s));
	s->made = 1;
	fflush(stdout);
	fflush(stderr);
	pid = oracle_fork();
	if (pid < 0) {
		perror("oracle: fork");
		return NULL;
	}
	if (pid == 0)
		oracle_child(s, config, ops, n, o->fd);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status == 0 && !s->error[0])
		return s->log;
	fprintf(stderr, "oracle: child %s %d: %s\n",
		WIFSIGNALED(status) ? "died of signal" : "exit",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
		s->error[0] ? s->error : "no message");
	return NULL;
}
