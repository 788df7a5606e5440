/* SPDX-License-Identifier: MIT */
/*
 * torture_race.c - races that other memory-map managers lost, on one space with pages:
 *
 *   owners     map anywhere, write their number, read it back, unmap, move, shrink. No address is ever
 *              handed to two of them: found by a table of who owns a page, and by what the page says.
 *              (a tracker that forgot a mapping another thread had just made; two mmaps that got one place)
 *   replacer   maps over its own area again and again with MAP_FIXED: no owner ever gets a part of it,
 *              no look-up finds it gone (a MAP_FIXED made of unmap and map)
 *   watcher    looks the replaced area up and checks that every byte of it can be read
 *
 * In the end the map holds what the table says, to the page.
 */
#include "torture/torture.h"
#include "base/delay.h"
#include "base/random.h"
#include "samara/samara.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define P    4096ull
#define ANON (SM_MAP_PRIVATE | SM_MAP_ANONYMOUS)
#define RW   (SM_PROT_READ | SM_PROT_WRITE)
enum {
	OWNERS = 3,
	HELD = 24,	/* areas an owner has at most */
	MOST = 16,	/* pages of an area */
	ROOM = 1 << 14, /* pages below the top of the search that the owners stay within */
	AREA = 32,	/* pages of the replaced area */
};

static struct sm_space *space;
static sm_addr top, fixed;	    /* of the search; of the replaced area */
static _Atomic uint8_t owner[ROOM]; /* 0: nobody */
static _Atomic uint64_t calls, replaced, watched;

struct area {
	sm_addr at;
	uint64_t pages;
};

static void take(sm_addr at, uint64_t pages, uint8_t me)
{
	for (uint64_t i = 0; i < pages; i++) {
		sm_addr a = at + i * P;
		uint8_t old;

		if (a >= top || top - a > ROOM * P) {
			FAIL("%llx is far from the top", (unsigned long long)a);
			return;
		}
		if (a >= fixed && a < fixed + AREA * P)
			FAIL("%llx of the replaced area went to owner %u", (unsigned long long)a,
			     me);
		old = atomic_exchange(&owner[(top - a) / P - 1], me);
		if (old && me)
			FAIL("%llx went to owner %u and %u", (unsigned long long)a, old, me);
	}
}

static uint64_t stamp(uint8_t me, sm_addr at)
{
	return (uint64_t)me << 56 ^ at;
}

static void write_all(const struct area *a, uint8_t me)
{
	for (uint64_t i = 0; i < a->pages; i++) {
		uint64_t value = stamp(me, a->at + i * P);

		if (sm_write(space, a->at + i * P, &value, sizeof(value), NULL) != sizeof(value))
			FAIL("owner %u cannot write", me);
	}
}

static void check_all(const struct area *a, uint8_t me)
{
	for (uint64_t i = 0; i < a->pages; i++) {
		uint64_t value = 0;

		if (sm_read(space, a->at + i * P, &value, sizeof(value), NULL) != sizeof(value) ||
		    value != stamp(me, a->at + i * P))
			FAIL("owner %u finds %llx at %llx", me, (unsigned long long)value,
			     (unsigned long long)(a->at + i * P));
	}
}

/* The table says "free" before the call that frees, or another owner could be told so too early. */
static void give(const struct area *a, uint8_t me)
{
	check_all(a, me);
	take(a->at, a->pages, 0);
	if (sm_munmap(space, a->at, a->pages * P))
		FAIL("munmap failed");
}

static bool map(struct area *a, uint64_t pages, uint8_t me)
{
	int64_t at = sm_mmap(space, 0, pages * P, RW, ANON, NULL, 0);

	if (at < 0)
		return false;
	*a = (struct area){ (sm_addr)at, pages };
	take(a->at, pages, me);
	write_all(a, me);
	return true;
}

static void shrink(struct area *a, uint64_t pages, uint8_t me)
{
	take(a->at + pages * P, a->pages - pages, 0);
	if (sm_mremap(space, a->at, a->pages * P, pages * P, 0, 0) != (int64_t)a->at)
		FAIL("mremap could not shrink");
	a->pages = pages;
	check_all(a, me);
}

static void *own(void *arg)
{
	uint8_t me = (uint8_t)(uintptr_t)arg;
	struct area held[HELD];
	struct sm__random r;
	unsigned n = 0;

	sm__random_seed(&r, torture.seed + me);
	while (going()) {
		unsigned what = (unsigned)sm__random_below(&r, 8);

		if (n < HELD && (n == 0 || what < 4)) {
			n += map(&held[n], 1 + sm__random_below(&r, MOST), me);
		} else {
			unsigned i = (unsigned)sm__random_below(&r, n);

			if (what < 6 && held[i].pages > 1) {
				shrink(&held[i], 1 + sm__random_below(&r, held[i].pages - 1), me);
			} else {
				give(&held[i], me);
				held[i] = held[--n];
			}
		}
		atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
	}
	while (n)
		give(&held[--n], me);
	return NULL;
}

static void *replace(void *arg)
{
	struct sm__random r;

	(void)arg;
	sm__random_seed(&r, torture.seed * 31);
	while (going()) {
		uint64_t first = sm__random_below(&r, AREA),
			 n = 1 + sm__random_below(&r, AREA - first);
		int prot = sm__random_below(&r, 2) ? RW : SM_PROT_READ;
		sm_addr at = fixed + first * P;

		if (sm_mmap(space, at, n * P, prot, ANON | SM_MAP_FIXED, NULL, 0) != (int64_t)at)
			FAIL("MAP_FIXED failed");
		atomic_fetch_add_explicit(&replaced, 1, memory_order_relaxed);
	}
	return NULL;
}

static void *watch(void *arg)
{
	struct sm__random r;

	(void)arg;
	sm_thread_attach();
	sm__random_seed(&r, torture.seed * 37);
	while (going()) {
		sm_addr at = fixed + sm__random_below(&r, AREA) * P;
		struct sm_vma_info info;
		uint64_t value;
		int err = sm_check_range(space, fixed, AREA * P, SM_ACCESS_READ);
		int gone = sm_lookup(space, at, &info);

		if (gone)
			FAIL("the replaced area has a hole for a look-up: %d", gone);
		if (err && err != -EAGAIN)
			FAIL("the replaced area has a hole for a check: %d", err);
		if (sm_read(space, at, &value, sizeof(value), NULL) != sizeof(value) || value)
			FAIL("the replaced area cannot be read");
		atomic_fetch_add_explicit(&watched, 1, memory_order_relaxed);
	}
	return NULL;
}

static bool prepare(struct sm_host *host, const struct sm_design *d)
{
	struct sm_space_options o;
	int64_t at;

	sm_space_options_init(&o);
	o.design = *d;
	o.backend = SM_BACKEND_SOFT;
	o.mmap_base = o.range_end - (256ull << 20);
	space = sm_space_create(host, &o, NULL);
	if (!space)
		return false;
	top = o.mmap_base;
	at = sm_mmap(space, 0, AREA * P, RW, ANON, NULL, 0);
	fixed = (sm_addr)at;
	return at > 0;
}

static void run(const struct sm_design *d, const char *name, double seconds)
{
	struct sm_host *host = sm_host_create(NULL, NULL);
	struct sm_space_stats st;
	pthread_t t[OWNERS + 2];

	torture_again();
	if (!host || !prepare(host, d)) {
		FAIL("%s: no space", name);
		return;
	}
	for (uintptr_t i = 0; i < OWNERS; i++)
		pthread_create(&t[i], NULL, own, (void *)(i + 1));
	pthread_create(&t[OWNERS], NULL, replace, NULL);
	pthread_create(&t[OWNERS + 1], NULL, watch, NULL);
	torture_for(seconds);
	for (int i = 0; i < OWNERS + 2; i++)
		pthread_join(t[i], NULL);
	sm_space_stats(space, &st);
	if (st.total_vm != AREA)
		FAIL("%s: %llu pages are left", name, (unsigned long long)st.total_vm);
	for (int i = 0; i < ROOM; i++) {
		if (atomic_load(&owner[i]))
			FAIL("%s: a page is still owned", name);
	}
	printf("%s: %llu calls of owners, %llu replacements, %llu looks\n", name,
	       (unsigned long long)atomic_exchange(&calls, 0),
	       (unsigned long long)atomic_exchange(&replaced, 0),
	       (unsigned long long)atomic_exchange(&watched, 0));
	sm_space_destroy(space);
	if (sm_host_destroy(host))
		FAIL("%s: the host could not be destroyed", name);
}

int main(int argc, char **argv)
{
	static const char *const all[] = { "samara", "linux-5.19", "linux-6.12", "linux-6.18" };
	const char *const *designs = all;
	struct sm_design d;
	char why[120];
	size_t n;

	torture_begin("torture_race", argc, argv);
	sm__delay_seed(torture.seed, 20);
	n = torture_designs(&designs, SM__ARRAY_SIZE(all));
	for (size_t i = 0; i < n && !torture.failed; i++) {
		if (sm_design_parse(designs[i], &d, why, sizeof(why))) {
			fprintf(stderr, "%s\n", why);
			return 1;
		}
		run(&d, designs[i], torture.seconds / (double)n);
	}
	return torture_end();
}
