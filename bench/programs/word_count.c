/* SPDX-License-Identifier: MIT */
/*
 * word_count.c - the word count of word_count_core.h on the running kernel: samara-peer-word_count.
 *
 *   samara-peer-word_count arena/THREADS:FILE 1     memory as glibc's arenas take it, by arena.h
 *
 * Prints nanoseconds of the two phases, then: words, distinct words, checksum, growth mprotects,
 * minor faults, voluntary waits. Each run is a child of its own: a used address space would make
 * the next one faster.
 */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct wc_system;

struct wc_mem {
	const struct wc_system *sys;
};

static inline char *wc_at(struct wc_mem *m, uint64_t addr, bool write)
{
	(void)m, (void)write;
	return (char *)(uintptr_t)addr;
}

static inline void wc_poll(struct wc_mem *m)
{
	(void)m;
}

static inline void wc_enter(struct wc_mem *m)
{
	(void)m;
}

static inline void wc_leave(struct wc_mem *m)
{
	(void)m;
}

#include "word_count_core.h"

static int64_t host_map(void *arg, uint64_t length, int prot, int flags)
{
	void *p = mmap(NULL, length, prot, flags, -1, 0);

	(void)arg;
	return p == MAP_FAILED ? -errno : (int64_t)(uintptr_t)p;
}

static int host_unmap(void *arg, uint64_t addr, uint64_t length)
{
	(void)arg;
	return munmap((void *)(uintptr_t)addr, length) ? -errno : 0;
}

static int host_protect(void *arg, uint64_t addr, uint64_t length, int prot)
{
	(void)arg;
	return mprotect((void *)(uintptr_t)addr, length, prot) ? -errno : 0;
}

static const struct wc_system host_system = { host_map, host_unmap, host_protect, NULL };

enum { RESULTS = 7 };

/* Fills out[]: nanoseconds first. Return: 0, -errno. */
static int count(const char *path, unsigned threads, uint64_t *out)
{
	struct wc_mem mem[WC_THREADS];
	struct wc_job *job = calloc(1, sizeof(*job));
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct rusage before, after;
	struct stat st;
	void *text;

	if (!job || fd < 0 || fstat(fd, &st))
		return -errno;
	text = mmap(NULL, (size_t)st.st_size + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (text == MAP_FAILED)
		return -errno;
	job->text = (uint64_t)(uintptr_t)text;
	job->size = wc_countable(fd, (uint64_t)st.st_size);
	job->threads = threads;
	for (unsigned t = 0; t < threads; t++) {
		mem[t] = (struct wc_mem){ .sys = &host_system };
		job->mem[t] = &mem[t];
	}
	getrusage(RUSAGE_SELF, &before);
	out[0] = bench_parallel(threads, wc_phase_map, job, 0, NULL);
	out[0] += bench_parallel(threads, wc_phase_reduce, job, 0, NULL);
	getrusage(RUSAGE_SELF, &after);
	wc_total(job);
	out[1] = job->words;
	out[2] = job->distinct;
	out[3] = job->sum >> 12; /* exact as a double */
	for (unsigned t = 0; t < threads; t++)
		out[4] += job->arena[t].protects;
	out[5] = (uint64_t)(after.ru_minflt - before.ru_minflt);
	out[6] = (uint64_t)(after.ru_nvcsw - before.ru_nvcsw);
	wc_release(job);
	return job->error; /* the process ends: the rest goes with it */
}

static int count_in_child(const char *path, unsigned threads, uint64_t *out)
{
	int pipes[2], status = 1;
	pid_t child;
	bool got;

	if (pipe2(pipes, O_CLOEXEC))
		return -errno;
	child = fork();
	if (!child) {
		uint64_t results[RESULTS] = { 0 };
		int error = count(path, threads, results);

		if (write(pipes[1], results, sizeof(results)) != (ssize_t)sizeof(results))
			error = -EPIPE;
		_exit(error ? 1 : 0);
	}
	close(pipes[1]);
	got = child > 0 && read(pipes[0], out, RESULTS * sizeof(*out)) == RESULTS * sizeof(*out);
	close(pipes[0]);
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return got && !status ? 0 : -EIO;
}

static uint64_t run_arena(const char *arg, uint64_t n)
{
	uint64_t results[RESULTS], sum = 0;
	unsigned threads = 0;
	int at = 0;

	if (sscanf(arg, "%u:%n", &threads, &at) != 1 || !at || !threads || threads > WC_THREADS)
		return peer_fail("arena/THREADS:FILE");
	for (uint64_t i = 0; i < n; i++) {
		int error = count_in_child(arg + at, threads, results);

		if (error)
			return peer_fail("%s: the child failed", arg + at);
		sum += results[0];
	}
	for (unsigned i = 1; i < RESULTS; i++)
		peer_more((double)results[i]);
	return sum;
}

int main(int argc, char **argv)
{
	static const struct peer_case cases[] = { { "arena", run_arena }, { NULL, NULL } };

	return peer_main(argc, argv, cases);
}
