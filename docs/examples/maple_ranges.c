/* SPDX-License-Identifier: MIT */
/*
 * maple_ranges.c - the range tree on its own: a table of memory regions with one writer and a
 * reader that never takes a lock.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <samara/maple.h>
#include <samara/rcu.h>

static struct sm_maple regions;
static atomic_bool stop;

/*
 * Looks up addresses while the table changes; sees each region before or after a change, never
 * half.
 */
static void *reader(void *arg)
{
	unsigned long *found = arg;

	while (!atomic_load(&stop)) {
		for (uint64_t at = 0x1000; at < 0x9000; at += 0x1000) {
			const char *name;

			/* What was found stays valid until the read section ends. */
			sm_rcu_read_lock();
			name = sm_maple_load_held(&regions, at);
			*found += name && name[0] == 'h';
			sm_rcu_read_unlock();
		}
	}
	return NULL;
}

int main(void)
{
	static char code[] = "code", heap[] = "heap", guard[] = "guard", stack[] = "stack";
	const struct sm_maple_window anywhere = { 0x10000, 0x7fffffff };
	struct sm_cursor c;
	unsigned long found = 0;
	uint64_t at;
	pthread_t thread;
	const char *name;

	if (sm_maple_init(&regions, NULL))
		return 1;

	/* Ranges include both ends. A store overwrites what it covers. */
	sm_maple_store_range(&regions, 0x1000, 0x3fff, code);
	sm_maple_store_range(&regions, 0x5000, 0x8fff, heap);
	pthread_create(&thread, NULL, reader, &found);

	/* The guard page splits the heap in two: one change, one step for the reader. */
	sm_maple_store_range(&regions, 0x6000, 0x6fff, guard);

	/* The highest free place for 16 pages, taken in one call. */
	if (sm_maple_alloc_highest(&regions, stack, 16 * 0x1000, anywhere, &at))
		return 1;

	/* All regions in order, with their bounds. */
	sm_rcu_read_lock();
	sm_cursor_init(&c, &regions, 0, 0);
	sm_cursor_for_each (&c, name, UINT64_MAX)
		printf("%8lx-%8lx %s\n", (unsigned long)c.index, (unsigned long)c.last, name);
	sm_rcu_read_unlock();

	/* A store that cannot fail: memory is put aside first, then the point of no return. */
	sm_cursor_init_writer(&c, &regions, 0x5000, 0x8fff);
	if (sm_cursor_preallocate(&c, NULL) == 0)
		sm_cursor_store_prealloc(&c, NULL);
	if (sm_maple_load(&regions, 0x5000) || sm_maple_load(&regions, 0x1000) != code)
		return 1;

	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	sm_maple_destroy(&regions);
	return 0;
}
