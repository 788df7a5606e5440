/* SPDX-License-Identifier: MIT */
/* machine_kernel.c - the running kernel as a machine: raw system calls in a child process. */
#include "kernel/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_mseal
#define SYS_mseal 462
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif

static int files[MACHINE_FILES] = { -1, -1, -1, -1 };
static uint64_t next_window;

static int64_t answer(long result)
{
	return result == -1 ? -errno : result;
}

/* The files of this process; the directory is left at once. */
static void open_files(void)
{
	char path[] = "/tmp/samara-advice-XXXXXX", page[PAGE];
	int other[2];

	memset(page, 'f', sizeof(page));
	files[MACHINE_DATA] = mkstemp(path);
	for (int i = 0; i < 4; i++)
		if (pwrite(files[MACHINE_DATA], page, PAGE, i * PAGE) != (ssize_t)PAGE)
			abort();
	files[MACHINE_DATA_R] = open(path, O_RDONLY);
	unlink(path);
	files[MACHINE_SHORT] = (int)syscall(SYS_memfd_create, "short", 0);
	if (write(files[MACHINE_SHORT], page, PAGE) != (ssize_t)PAGE)
		abort();
	files[MACHINE_MEMORY] = (int)syscall(SYS_memfd_create, "memory", 0);
	if (ftruncate(files[MACHINE_MEMORY], 4 * PAGE) || pipe(other))
		abort();
	close(other[0]);
	close(other[1]);
}

static int64_t k_mmap(struct machine *m, const uint64_t a[4], enum machine_file file, uint64_t off)
{
	void *p;

	(void)m;
	p = mmap((void *)a[0], a[1], (int)a[2], (int)a[3], file < 0 ? -1 : files[file], (off_t)off);
	return p == MAP_FAILED ? -errno : (int64_t)(uintptr_t)p;
}

static int k_munmap(struct machine *m, uint64_t addr, uint64_t len)
{
	(void)m;
	return (int)answer(syscall(SYS_munmap, addr, len));
}

static int k_mprotect(struct machine *m, uint64_t addr, uint64_t len, int prot)
{
	(void)m;
	return (int)answer(syscall(SYS_mprotect, addr, len, prot));
}

static int k_madvise(struct machine *m, uint64_t addr, uint64_t len, int advice)
{
	(void)m;
	return (int)answer(syscall(SYS_madvise, addr, len, advice));
}

static int k_mlock2(struct machine *m, uint64_t addr, uint64_t len, int flags)
{
	(void)m;
	return (int)answer(syscall(SYS_mlock2, addr, len, flags));
}

static int k_munlock(struct machine *m, uint64_t addr, uint64_t len)
{
	(void)m;
	return (int)answer(syscall(SYS_munlock, addr, len));
}

static int k_mlockall(struct machine *m, int flags)
{
	(void)m;
	return (int)answer(flags ? syscall(SYS_mlockall, flags) : syscall(SYS_munlockall));
}

static int k_mseal(struct machine *m, uint64_t addr, uint64_t len, uint64_t flags)
{
	(void)m;
	return (int)answer(syscall(SYS_mseal, addr, len, flags));
}

static int k_mincore(struct machine *m, uint64_t addr, uint64_t len, uint8_t *vec)
{
	(void)m;
	return (int)answer(syscall(SYS_mincore, addr, len, vec));
}

static int64_t k_process_madvise(struct machine *m, struct machine *target,
				 const struct machine_range *v, const uint64_t a[3])
{
	int fd = target ? (int)(intptr_t)target->priv : (int)syscall(SYS_pidfd_open, getpid(), 0);
	int64_t result;

	(void)m;
	_Static_assert(sizeof(struct machine_range) == sizeof(struct iovec), "same layout");
	result = answer(syscall(SYS_process_madvise, fd, v, a[0], a[1], a[2]));
	if (!target)
		close(fd);
	return result;
}

static sigjmp_buf touch_jump;

static void on_touch(int sig)
{
	siglongjmp(touch_jump, sig);
}

static int touch(volatile uint8_t *p, uint8_t *value, bool write)
{
	struct sigaction sa = { .sa_handler = on_touch }, old[2];
	int sig;

	sigaction(SIGSEGV, &sa, &old[0]);
	sigaction(SIGBUS, &sa, &old[1]);
	sig = sigsetjmp(touch_jump, 1);
	if (!sig) {
		if (write)
			*p = *value;
		else
			*value = *p;
	}
	sigaction(SIGSEGV, &old[0], NULL);
	sigaction(SIGBUS, &old[1], NULL);
	return sig == 0 ? TOUCH_OK : sig == SIGBUS ? TOUCH_BUS : TOUCH_SEGV;
}

static int k_peek(struct machine *m, uint64_t addr, uint8_t *value)
{
	(void)m;
	return touch((volatile uint8_t *)addr, value, false);
}

static int k_poke(struct machine *m, uint64_t addr, uint8_t value)
{
	(void)m;
	return touch((volatile uint8_t *)addr, &value, true);
}

static uint32_t letters_of(const char *line)
{
#define LETTER_NAME(name) #name,
	static const char *const names[] = { MACHINE_LETTERS(LETTER_NAME) };
	char text[512];
	uint32_t bits = 0;
	char *save = NULL;

	snprintf(text, sizeof(text), "%s", line);
	for (char *t = strtok_r(text, " \n", &save); t; t = strtok_r(NULL, " \n", &save))
		for (unsigned i = 0; i < MACHINE_BITS; i++)
			if (!strcmp(t, names[i]))
				bits |= 1u << i;
	return bits;
}

static bool k_vma(struct machine *m, uint64_t addr, struct machine_vma *out)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	char line[512], perms[8];
	unsigned long start, end;
	bool found = false;

	(void)m;
	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx %7s", &start, &end, perms) == 3) {
			if (found)
				break;
			if (end > addr) {
				*out = (struct machine_vma){ .start = start,
							     .end = end,
							     perms[0] == 'r',
							     perms[1] == 'w',
							     perms[2] == 'x',
							     perms[3] == 's' };
				found = true;
			}
		} else if (found && !strncmp(line, "VmFlags:", 8)) {
			out->letters = letters_of(line + 8);
			break;
		}
	}
	fclose(f);
	return found;
}

static uint64_t k_window(struct machine *m)
{
	const uint64_t size = 64ull << 20;

	(void)m;
	if (!next_window) {
		void *p = mmap(NULL, 64 * size, PROT_NONE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (p == MAP_FAILED)
			abort();
		munmap(p, 64 * size);
		next_window = ((uintptr_t)p + size) & ~(size - 1);
	}
	next_window += size;
	return next_window;
}

static bool k_device(struct machine *m, uint64_t *addr, uint64_t *len)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned long start, end;
	bool found = false;

	(void)m;
	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, "[vvar]") && sscanf(line, "%lx-%lx", &start, &end) == 2) {
			*addr = start;
			*len = end - start;
			found = true;
		}
	if (f)
		fclose(f);
	return found;
}

/* What fd gives until its end, onto out. */
static void copy_all(int fd, FILE *out)
{
	char buf[4096];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		fwrite(buf, 1, (size_t)n, out);
}

static void k_in_fork(struct machine *m, void (*fn)(struct machine *, FILE *, uint64_t), FILE *out,
		      uint64_t arg)
{
	int fd[2], status;
	pid_t child;

	fflush(out);
	if (pipe(fd))
		abort();
	child = fork();
	if (child == 0) {
		FILE *mine = fdopen(fd[1], "w");

		fn(m, mine, arg);
		fflush(mine);
		_exit(0);
	}
	close(fd[1]);
	copy_all(fd[0], out);
	close(fd[0]);
	waitpid(child, &status, 0);
	if (status)
		fprintf(out, "(fork ended with %#x)", status);
}

static void k_beside(struct machine *m,
		     void (*fn)(struct machine *, struct machine *, FILE *, uint64_t), FILE *out,
		     uint64_t arg)
{
	struct machine other = { m->ops, NULL };
	pid_t child;
	int fd;

	fflush(out);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	fd = (int)syscall(SYS_pidfd_open, child, 0);
	other.priv = (void *)(intptr_t)fd;
	fn(m, &other, out, arg);
	close(fd);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static bool k_drop_rights(struct machine *m)
{
	(void)m;
	if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		return false;
	return prctl(PR_SET_DUMPABLE, 1) == 0;
}

static const struct machine_ops kernel_ops = {
	.name = "kernel",
	.mmap = k_mmap,
	.munmap = k_munmap,
	.mprotect = k_mprotect,
	.madvise = k_madvise,
	.mlock2 = k_mlock2,
	.munlock = k_munlock,
	.mlockall = k_mlockall,
	.mseal = k_mseal,
	.mincore = k_mincore,
	.process_madvise = k_process_madvise,
	.peek = k_peek,
	.poke = k_poke,
	.vma = k_vma,
	.window = k_window,
	.device = k_device,
	.in_fork = k_in_fork,
	.beside = k_beside,
	.drop_rights = k_drop_rights,
};

struct run {
	machine_fn fn;
	const void *arg;
};

static void run_in_child(struct machine *m, FILE *out, uint64_t arg)
{
	const struct run *run = (const struct run *)(uintptr_t)arg;

	open_files();
	run->fn(m, out, run->arg);
}

char *kernel_run(machine_fn fn, const void *arg)
{
	struct machine m = { &kernel_ops, NULL };
	struct run run = { fn, arg };
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	k_in_fork(&m, run_in_child, out, (uintptr_t)&run);
	fclose(out);
	return text;
}

const char *kernel_lacks(void)
{
	static char reason[128];
	static const struct {
		int advice;
		const char *name;
	} needed[] = { { 102, "MADV_GUARD_INSTALL" },
		       { 12, "MADV_MERGEABLE (KSM)" },
		       { 14, "MADV_HUGEPAGE (THP)" },
		       { 25, "MADV_COLLAPSE" } };
	int fd;

	for (unsigned i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		if (madvise(NULL, 0, needed[i].advice)) {
			snprintf(reason, sizeof(reason), "no %s", needed[i].name);
			return reason;
		}
	if (syscall(SYS_mseal, 0, 0, 0))
		return "no mseal";
	fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (fd < 0)
		return "no pidfd_open";
	/* own space, any advice: from 6.13 on */
	if (syscall(SYS_process_madvise, fd, &(struct iovec){ NULL, 0 }, 1, 102, 0)) {
		close(fd);
		return "process_madvise of the own space is restricted";
	}
	close(fd);
	if (getuid())
		return "not run by root";
	return NULL;
}
