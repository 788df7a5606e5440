/* SPDX-License-Identifier: MIT */
/* app.c - the generator of app.h. */
#include "app.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

enum {
	PAGE = 4096,
	LIBRARIES = 60,
	STACK = 1 << 20,
	SIGNAL_STACK = 9 * PAGE,
	TABLE = 1 << 16,
	ARENA_FIRST = 132 << 10,
	ARENA_STEPS = 8,
	FILE_MAP = 2 << 20,
	FILE_DATA = 16 * PAGE,
	ANON = MAP_PRIVATE | MAP_ANONYMOUS,
	RW = PROT_READ | PROT_WRITE,
};
#define ARENA ((uint64_t)64 << 20)

/* What a thread holds from start to stop. */
struct app_thread {
	uint64_t stack, signal_stack, table, arena, file, data;
};

struct app {
	const struct app_system *sys;
	unsigned threads, workers;
	struct app_thread *thread;
	uint64_t library[LIBRARIES];
	uint64_t calls[APP_WORKERS], touches[APP_WORKERS];
	int error; /* any worker's first */
};

static void fail(struct app *a, int error)
{
	int none = 0;

	/* relaxed: read after the join, and as a hint to stop */
	__atomic_compare_exchange_n(&a->error, &none, error, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
}

static uint64_t map(struct app *a, unsigned w, uint64_t length, int prot, int flags)
{
	int64_t got = a->sys->map(a->sys->arg, 0, length, prot, flags, 0);

	a->calls[w]++;
	if (got < 0)
		fail(a, (int)got);
	return got < 0 ? 0 : (uint64_t)got;
}

static void map_over(struct app *a, unsigned w, uint64_t addr, uint64_t length, int prot, int flags)
{
	int64_t got = a->sys->map(a->sys->arg, addr, length, prot, flags | MAP_FIXED, 0);

	a->calls[w]++;
	if (got < 0)
		fail(a, (int)got);
}

static void unmap(struct app *a, unsigned w, uint64_t addr, uint64_t length)
{
	int error = a->sys->unmap(a->sys->arg, addr, length);

	a->calls[w]++;
	if (error)
		fail(a, error);
}

static void protect(struct app *a, unsigned w, uint64_t addr, uint64_t length, int prot)
{
	int error = a->sys->protect(a->sys->arg, addr, length, prot);

	a->calls[w]++;
	if (error)
		fail(a, error);
}

/* n pages from addr, stride bytes apart. */
static void touch(struct app *a, unsigned w, uint64_t addr, unsigned n, uint64_t stride, bool write)
{
	for (unsigned i = 0; i < n; i++) {
		int error = a->sys->touch(a->sys->arg, w, addr + i * stride, write);

		if (error)
			fail(a, error);
	}
	a->touches[w] += n;
}

static bool failed(const struct app *a)
{
	return __atomic_load_n(&a->error, __ATOMIC_RELAXED) != 0;
}

/* text 64 pages, constants 32, data 16, bss 16 */
static void load_library(struct app *a, unsigned i)
{
	uint64_t base = map(a, 0, 128 * PAGE, PROT_READ, MAP_PRIVATE), data = base + 96 * PAGE;

	a->library[i] = base;
	if (!base)
		return;
	map_over(a, 0, base, 64 * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE);
	map_over(a, 0, data, 16 * PAGE, RW, MAP_PRIVATE);
	map_over(a, 0, data + 16 * PAGE, 16 * PAGE, RW, ANON);
	touch(a, 0, base, 8, 8 * PAGE, false);
	touch(a, 0, data, 2, PAGE, true);
	protect(a, 0, data, 2 * PAGE, PROT_READ);
}

static void load(void *arg, unsigned worker, uint64_t n)
{
	struct app *a = arg;

	(void)n;
	if (a->sys->enter)
		a->sys->enter(a->sys->arg, worker);
	for (unsigned i = 0; i < LIBRARIES && !failed(a); i++)
		load_library(a, i);
	if (a->sys->leave)
		a->sys->leave(a->sys->arg, worker);
}

static void start_arena(struct app *a, unsigned w, struct app_thread *t)
{
	uint64_t got = map(a, w, 2 * ARENA, PROT_NONE, ANON | MAP_NORESERVE), head;

	t->arena = (got + ARENA - 1) & ~(ARENA - 1);
	head = t->arena - got;
	if (failed(a))
		return;
	if (head)
		unmap(a, w, got, head);
	unmap(a, w, t->arena + ARENA, ARENA - head);
	protect(a, w, t->arena, ARENA_FIRST, RW);
	touch(a, w, t->arena, 4, PAGE, true);
	for (unsigned i = 0; i < ARENA_STEPS; i++) {
		uint64_t page = t->arena + ARENA_FIRST + i * PAGE;

		protect(a, w, page, PAGE, RW);
		touch(a, w, page, 1, PAGE, true);
	}
}

static void start_thread(struct app *a, unsigned w, struct app_thread *t)
{
	t->stack = map(a, w, STACK, PROT_NONE, ANON | MAP_NORESERVE | MAP_STACK);
	t->signal_stack = map(a, w, SIGNAL_STACK, RW, ANON | MAP_STACK);
	t->table = map(a, w, TABLE, RW, ANON);
	t->file = map(a, w, FILE_MAP, PROT_READ, MAP_PRIVATE);
	t->data = map(a, w, FILE_DATA, RW, MAP_PRIVATE);
	if (failed(a))
		return;
	protect(a, w, t->stack + PAGE, STACK - PAGE, RW);
	touch(a, w, t->stack + STACK - 3 * PAGE, 3, PAGE, true);
	protect(a, w, t->signal_stack, PAGE, PROT_NONE);
	touch(a, w, t->signal_stack + PAGE, 1, PAGE, true);
	touch(a, w, t->table, 2, PAGE, true);
	touch(a, w, t->file, FILE_MAP >> 16, 1 << 16, false);
	touch(a, w, t->data, 4, PAGE, true);
	start_arena(a, w, t);
}

static void stop_thread(struct app *a, unsigned w, struct app_thread *t)
{
	unmap(a, w, t->data, FILE_DATA);
	unmap(a, w, t->file, FILE_MAP);
	unmap(a, w, t->table, TABLE);
	unmap(a, w, t->signal_stack, SIGNAL_STACK);
	unmap(a, w, t->arena, ARENA);
	unmap(a, w, t->stack, STACK);
}

static void each_thread(struct app *a, unsigned w,
			void (*work)(struct app *a, unsigned w, struct app_thread *t))
{
	if (a->sys->enter)
		a->sys->enter(a->sys->arg, w);
	for (unsigned i = w; i < a->threads && !failed(a); i += a->workers)
		work(a, w, &a->thread[i]);
	if (a->sys->leave)
		a->sys->leave(a->sys->arg, w);
}

static void start(void *arg, unsigned worker, uint64_t n)
{
	(void)n;
	each_thread(arg, worker, start_thread);
}

static void stop(void *arg, unsigned worker, uint64_t n)
{
	struct app *a = arg;

	(void)n;
	each_thread(a, worker, stop_thread);
	for (unsigned i = worker; i < LIBRARIES && !failed(a); i += a->workers)
		unmap(a, worker, a->library[i], 128 * PAGE);
}

int app_cycle(const struct app_system *sys, unsigned threads, unsigned workers,
	      struct app_result *r)
{
	struct app a = { .sys = sys, .threads = threads, .workers = workers };

	if (!threads || threads > APP_THREADS_MOST || !workers || workers > APP_WORKERS)
		return -EINVAL;
	a.thread = calloc(threads, sizeof(*a.thread));
	if (!a.thread)
		return -ENOMEM;
	*r = (struct app_result){ .load_ns = bench_parallel(1, load, &a, 0, NULL) };
	if (!a.error)
		r->start_ns = bench_parallel(workers, start, &a, 0, NULL);
	if (!a.error)
		r->stop_ns = bench_parallel(workers, stop, &a, 0, NULL);
	for (unsigned w = 0; w < workers; w++) {
		r->calls += a.calls[w];
		r->touches += a.touches[w];
	}
	free(a.thread);
	return a.error;
}
