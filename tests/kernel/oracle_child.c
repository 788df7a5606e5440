/* SPDX-License-Identifier: MIT */
/*
 * oracle_child.c - the child's side: fills its address space, moves its heap, runs the calls.
 *
 * I1 After the filling nothing here allocates: no stdio, no malloc, no deeper stack than was touched.
 * I2 Copies made by the call fork run one at a time: whose turn it is, shared->turn tells.
 */
#include "kernel/oracle_child.h"

#include <alloca.h>
#include <stdio.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <linux/prctl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_ROOM    (512 * 1024)
#define STRIP	      (16 * OPS_PAGE)
#define CROWD_AT      (1ULL << 30) /* where the filling is crowded, behind the window */
#define TASK_END      0x7ffffffff000ULL
#define SYS_MSEAL     462
#define FLAGS_EVERY   10 /* calls between two readings of smaps */
#define CHILD_SECONDS 60

/* PROCMAP_QUERY of linux/fs.h, Linux 6.11 */
struct map_query {
	uint64_t size, query_flags, query_addr;
	uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
	uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
	uint64_t vma_name_addr, build_id_addr;
};
#define MAP_QUERY	 _IOWR('f', 17, struct map_query)
#define MAP_QUERY_NEXT	 0x10
#define MAP_QUERY_SHARED 8

static struct child {
	struct oracle_shared *s;
	const struct ops_config *config;
	const int *fd;
	unsigned me;
	int maps, statm, pidfd;
	bool no_query; /* the kernel has no PROCMAP_QUERY: read text */
	int64_t total0, data0;
} self;

static char text[1 << 20];
static unsigned char core[OPS_MAX_PAGES]; /* of the last mincore */
static sigjmp_buf out_of_touch;
static volatile int touch_signal, touch_code;

static void fail(const char *what)
{
	snprintf(self.s->error, sizeof(self.s->error), "%s: %s", what, strerror(errno));
	_exit(3);
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
	(void)context;
	touch_signal = sig;
	touch_code = info->si_code;
	siglongjmp(out_of_touch, 1);
}

static void catch_signals(void)
{
	struct sigaction sa = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_NODEFER };

	if (sigaction(SIGSEGV, &sa, NULL) || sigaction(SIGBUS, &sa, NULL))
		fail("sigaction");
}

static void grow_stack(void)
{
	volatile char *room = alloca(STACK_ROOM);

	for (size_t i = 0; i < STACK_ROOM; i += OPS_PAGE)
		room[i] = 1;
}

static size_t read_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	ssize_t r;

	if (fd < 0)
		fail(path);
	while ((r = read(fd, text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)r;
	close(fd);
	text[n] = 0;
	return n;
}

static void fill(uint64_t from, uint64_t to, bool shared)
{
	void *at;

	if (from >= to)
		return;
	at = mmap((void *)from, to - from, PROT_NONE,
		  (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS | MAP_NORESERVE |
			  MAP_FIXED_NOREPLACE,
		  -1, 0);
	if (at != (void *)from)
		fail("fill");
}

/* A free range: everything of it but the window, and strips at the window's sides. */
static void fill_gap(uint64_t from, uint64_t to)
{
	uint64_t base = self.config->base, end = ops_end(self.config);

	if (to <= base || from >= end) {
		fill(from, to, false);
		return;
	}
	if (from > base - STRIP || to < end + STRIP)
		fail("the window is not free");
	fill(from, base - STRIP, false);
	fill(base - STRIP, base, true);
	fill(end, end + STRIP, true);
	fill(end + STRIP, to, false);
}

static uint64_t lowest_address(void)
{
	uint64_t low;

	read_file("/proc/sys/vm/mmap_min_addr");
	low = strtoull(text, NULL, 10);
	return low < OPS_PAGE ? OPS_PAGE : low;
}

static void fill_everything(void)
{
	uint64_t at = lowest_address();
	static char maps[sizeof(text)];
	char *line = maps;

	read_file("/proc/self/maps");
	memcpy(maps, text, sizeof(maps));
	while (*line) {
		char *dash, *next = strchr(line, '\n');
		uint64_t start = strtoull(line, &dash, 16), end = strtoull(dash + 1, NULL, 16);

		if (start >= TASK_END)
			break;
		if (start > at)
			fill_gap(at, start);
		at = end > at ? end : at;
		line = next ? next + 1 : line + strlen(line);
	}
	fill_gap(at, TASK_END);
}

static long count_lines(const char *p)
{
	long n = 0;

	for (; (p = strchr(p, '\n')); p++)
		n++;
	return n;
}

/*
 * So many VMAs outside that the window may hold config->map_count, as if that were the limit: in the
 * filling, every other page is protected otherwise.
 */
static void crowd(void)
{
	uint64_t page = ops_end(self.config) + STRIP + CROWD_AT;
	long want;

	read_file("/proc/sys/vm/max_map_count");
	want = strtol(text, NULL, 10) - (long)self.config->map_count;
	read_file("/proc/self/maps");
	want -= count_lines(text) - (strstr(text, "[vsyscall]") ? 1 : 0);
	for (; want >= 2; want -= 2, page += 2 * OPS_PAGE) {
		if (mprotect((void *)page, OPS_PAGE, PROT_READ))
			fail("crowd");
	}
	/* beside the last one: one more */
	if (want == 1 && mprotect((void *)(page - OPS_PAGE), OPS_PAGE, PROT_EXEC))
		fail("crowd");
}

/* The heap begins inside the window. */
static void move_heap(void)
{
	uint64_t heap = self.config->base + (unsigned)self.config->brk_page * OPS_PAGE;
	uint64_t code = (uint64_t)&move_heap, stack = (uint64_t)&heap;
	struct prctl_mm_map map = {
		.start_code = code,
		.end_code = code + 1,
		.start_data = code,
		.end_data = code,
		.start_brk = heap,
		.brk = heap,
		.start_stack = stack,
		.arg_start = stack,
		.arg_end = stack,
		.env_start = stack,
		.env_end = stack,
		.exe_fd = (uint32_t)-1,
	};

	if (prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof(map), 0))
		fail("the heap cannot be moved");
}

/* Fields of /proc/self/statm: size resident shared text lib data dt. */
static void read_sizes(int64_t *total, int64_t *data)
{
	char buf[128], *p = buf;
	ssize_t n = pread(self.statm, buf, sizeof(buf) - 1, 0);

	if (n <= 0)
		fail("statm");
	buf[n] = 0;
	*total = (int64_t)strtoull(p, &p, 10);
	for (int i = 0; i < 4; i++)
		strtoull(p, &p, 10);
	*data = (int64_t)strtoull(p, &p, 10);
}

static int64_t status_pages(const char *field)
{
	char *p;

	read_file("/proc/self/status");
	p = strstr(text, field);
	return p ? strtoll(p + strlen(field), NULL, 10) * 1024 / (int64_t)OPS_PAGE : 0;
}

static void limit(int resource, int64_t have, uint64_t more)
{
	struct rlimit r;

	if (more == ~0ULL)
		return;
	if (getrlimit(resource, &r))
		fail("getrlimit");
	r.rlim_cur = ((uint64_t)have + more) * OPS_PAGE;
	if (setrlimit(resource, &r))
		fail("setrlimit");
}

/* Without CAP_IPC_LOCK the limit of locked memory counts. */
static void limit_locked(uint64_t pages)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (pages == ~0ULL)
		return;
	if (syscall(SYS_capget, &header, data))
		fail("capget");
	data[0].effective &= ~(1u << CAP_IPC_LOCK);
	if (syscall(SYS_capset, &header, data))
		fail("capset");
	limit(RLIMIT_MEMLOCK, 0, pages);
}

/* Descriptors that show the process that opened them. */
static void open_self(void)
{
	if (self.maps > 0) {
		close(self.maps);
		close(self.statm);
		close(self.pidfd);
	}
	self.maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	self.statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	self.pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (self.maps < 0 || self.statm < 0 || self.pidfd < 0)
		fail("own /proc files");
}

static int64_t touch(uint64_t addr, bool write, uint64_t *token)
{
	volatile uint64_t *p = (volatile uint64_t *)addr;

	if (sigsetjmp(out_of_touch, 0))
		return OBS_SIGNAL(touch_signal, touch_code);
	if (write)
		*p = *token;
	else
		*token = *p;
	return 0;
}

static int64_t call_process_madvise(const uint64_t *a)
{
	struct iovec v[3];

	for (int i = 0; i < 3; i++) {
		v[i].iov_base = (void *)a[2 * i];
		v[i].iov_len = a[2 * i + 1];
	}
	return syscall(SYS_process_madvise, self.pidfd, v, 3L, a[6], a[7]);
}

static int fd_of(uint64_t fd)
{
	return fd < FD_FILES ? self.fd[fd] : (int)FD_BAD * 100;
}

static int64_t system_call(const struct op *op)
{
	const uint64_t *a = op->arg;
	bool anon = a[3] & MAP_ANONYMOUS;

	switch ((enum op_kind)op->kind) {
	case OP_MMAP:
		return syscall(SYS_mmap, a[0], a[1], a[2], a[3], anon ? -1 : fd_of(a[4]), a[5]);
	case OP_MUNMAP:
		return syscall(SYS_munmap, a[0], a[1]);
	case OP_MPROTECT:
		return syscall(SYS_mprotect, a[0], a[1], a[2]);
	case OP_MREMAP:
		return syscall(SYS_mremap, a[0], a[1], a[2], a[3], a[4]);
	case OP_BRK:
		return syscall(SYS_brk, a[0]);
	case OP_MADVISE:
		return syscall(SYS_madvise, a[0], a[1], a[2]);
	case OP_MLOCK2:
		return syscall(SYS_mlock2, a[0], a[1], a[2]);
	case OP_MUNLOCK:
		return syscall(SYS_munlock, a[0], a[1]);
	case OP_MSEAL:
		return syscall(SYS_MSEAL, a[0], a[1], a[2]);
	case OP_MINCORE:
		return syscall(SYS_mincore, a[0], a[1], core);
	case OP_MSYNC:
		return syscall(SYS_msync, a[0], a[1], a[2]);
	case OP_PMADVISE:
		return call_process_madvise(a);
	case OP_TRUNCATE:
		return syscall(SYS_ftruncate, fd_of(a[0]), a[1]);
	default:
		errno = ENOSYS;
		return -1;
	}
}

static int64_t run_call(const struct op *op, struct observation *o)
{
	int64_t r;

	if (op->kind == OP_READ)
		return touch(op->arg[0], false, &o->token);
	if (op->kind == OP_WRITE) {
		uint64_t token = op->arg[1];

		return touch(op->arg[0], true, &token);
	}
	errno = 0;
	r = system_call(op);
	return r == -1 && errno ? -errno : r;
}

static void add_vma(struct observation *o, const struct map_query *q)
{
	struct obs_vma *v = &o->vma[o->vmas];
	uint64_t base = self.config->base;

	if (o->vmas == OBS_MAX_VMAS) {
		o->truncated = true;
		return;
	}
	v->first = (uint16_t)((q->vma_start - base) / OPS_PAGE);
	v->end = (uint16_t)((q->vma_end - base) / OPS_PAGE);
	v->prot = (uint8_t)(q->vma_flags & 7);
	v->shared = q->vma_flags & MAP_QUERY_SHARED;
	v->off = q->vma_offset;
	v->file = q->inode ? obs_file_number(&self.s->seen, q->inode,
					     q->dev_major * 1048576ULL + q->dev_minor)
			   : 0;
	o->vmas++;
}

/* One line of /proc/self/maps as an answer of the query. */
static char *parse_maps_line(char *p, struct map_query *q)
{
	q->vma_start = strtoull(p, &p, 16);
	q->vma_end = strtoull(p + 1, &p, 16);
	q->vma_flags = (p[1] == 'r') | (p[2] == 'w') << 1 | (p[3] == 'x') << 2 | (p[4] == 's') << 3;
	q->vma_offset = strtoull(p + 5, &p, 16);
	q->dev_major = (uint32_t)strtoul(p, &p, 16);
	q->dev_minor = (uint32_t)strtoul(p + 1, &p, 16);
	q->inode = strtoull(p, &p, 10);
	p = strchr(p, '\n');
	return p ? p + 1 : NULL;
}

static void observe_text(struct observation *o)
{
	char *p = text;
	size_t n = 0;
	ssize_t r;

	lseek(self.maps, 0, SEEK_SET);
	while ((r = read(self.maps, text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)r;
	text[n] = 0;
	while (p && *p) {
		struct map_query q = { 0 };

		p = parse_maps_line(p, &q);
		if (q.vma_start >= self.config->base && q.vma_end <= ops_end(self.config))
			add_vma(o, &q);
	}
}

static void observe(struct observation *o)
{
	struct map_query q;
	uint64_t at = self.config->base;

	o->vmas = 0;
	while (!self.no_query) {
		memset(&q, 0, sizeof(q));
		q.size = sizeof(q);
		q.query_flags = MAP_QUERY_NEXT;
		q.query_addr = at;
		if (ioctl(self.maps, MAP_QUERY, &q)) {
			if (errno != ENOTTY)
				fail("PROCMAP_QUERY");
			self.no_query = true;
			break;
		}
		if (q.vma_start >= ops_end(self.config))
			break;
		add_vma(o, &q);
		at = q.vma_end;
	}
	if (self.no_query)
		observe_text(o);
	read_sizes(&o->total, &o->data);
	o->total -= self.total0;
	o->data -= self.data0;
}

static uint32_t parse_flags(const char *p, const char *end)
{
	uint32_t flags = 0;

	for (; p + 2 < end; p += 3) {
		for (int i = 0; obs_flag_names[i].name; i++) {
			if (p[0] == obs_flag_names[i].name[0] && p[1] == obs_flag_names[i].name[1])
				flags |= obs_flag_names[i].flag;
		}
	}
	return flags;
}

/* The flags that no other file shows: slow, so not after every call. */
static void observe_flags(struct observation *o)
{
	unsigned n = 0;
	char *p = text;
	bool inside = false;

	read_file("/proc/self/smaps");
	while (p && *p && n <= o->vmas) {
		char *end = strchr(p, '\n');

		if (!end)
			break;
		if (p[0] >= '0' && (p[0] <= '9' || (p[0] >= 'a' && p[0] <= 'f'))) {
			uint64_t start = strtoull(p, NULL, 16);

			inside = start >= self.config->base && start < ops_end(self.config);
		} else if (inside && !strncmp(p, "VmFlags: ", 9) && n < OBS_MAX_VMAS) {
			o->vma[n++].flags = parse_flags(p + 9, end);
		}
		p = end + 1;
	}
	o->has_flags = n == o->vmas;
}

static void wait_turn(uint32_t i)
{
	uint32_t turn;

	while ((turn = atomic_load(&self.s->turn)) < i) {
		if (self.s->error[0])
			_exit(4);
		syscall(SYS_futex, &self.s->turn, FUTEX_WAIT, turn, NULL, NULL, 0);
	}
}

static void pass_turn(uint32_t i)
{
	atomic_store(&self.s->turn, i + 1);
	if (atomic_load(&self.s->made) != 1)
		syscall(SYS_futex, &self.s->turn, FUTEX_WAKE, OPS_SPACES, NULL, NULL, 0);
}

/* The copy runs the rest of the list too, as the space with its number. */
static int64_t fork_space(uint64_t number)
{
	pid_t pid;

	if (number == 0 || number >= OPS_SPACES || atomic_load(&self.s->made) >> number & 1)
		return -EAGAIN;
	atomic_fetch_or(&self.s->made, 1u << number);
	pid = oracle_fork();
	if (pid < 0)
		fail("fork");
	if (pid == 0) {
		alarm(CHILD_SECONDS);
		self.me = (unsigned)number;
		open_self();
	}
	return (int64_t)number;
}

static void run_list(const struct op *ops, size_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct observation *o = &self.s->log[i];
		bool exists;
		unsigned before = self.me;

		wait_turn(i);
		exists = atomic_load(&self.s->made) >> ops[i].space & 1;
		if (exists ? ops[i].space != self.me : self.me != 0) {
			wait_turn(i + 1);
			continue;
		}
		memset(o, 0, offsetof(struct observation, vma));
		if (!exists)
			o->result = -ESRCH;
		else if (ops[i].kind == OP_FORK)
			o->result = fork_space(ops[i].arg[0]);
		else
			o->result = run_call(&ops[i], o);
		if (self.me != before) {
			wait_turn(i + 1);
			continue;
		}
		if (exists)
			observe(o);
		if (exists && ops[i].kind == OP_MINCORE && o->result == 0)
			o->token = obs_core_token(self.config, o, &ops[i], core);
		if (exists && !self.config->map_count && (i % FLAGS_EVERY == 0 || i + 1 == n))
			observe_flags(o);
		pass_turn(i);
	}
}

void oracle_child(struct oracle_shared *s, const struct ops_config *config, const struct op *ops,
		  size_t n, const int *fd)
{
	int64_t data;
	int status;

	self.s = s;
	self.config = config;
	self.fd = fd;
	alarm(CHILD_SECONDS);
	catch_signals();
	grow_stack();
	open_self();
	fill_everything();
	if (config->map_count)
		crowd();
	if (config->brk_page >= 0)
		move_heap();
	read_sizes(&self.total0, &self.data0);
	data = status_pages("VmData:");
	limit(RLIMIT_AS, self.total0, config->as_pages);
	limit(RLIMIT_DATA, data, config->data_pages);
	limit_locked(config->memlock_pages);
	run_list(ops, n);
	while (wait(&status) > 0) {
		if (status && !s->error[0])
			snprintf(s->error, sizeof(s->error), "a copy ended with status %d", status);
	}
	_exit(0);
}
