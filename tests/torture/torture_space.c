/* SPDX-License-Identifier: MIT */
/*
 * torture_space.c - two spaces of one host (so that VMAs are recycled between them), each with mappers,
 * faulters, look-ups, iterators and forkers, with seeded delays at the race windows; under every preset
 * that is built in, or the one given with --design.
 *
 * A region of each mapper has two parts:
 *   solid   always mapped and readable: protections flip, pieces are mapped over, flags change. Nobody
 *           may ever see a hole there: no fault with SEGV_MAPERR, no look-up that finds nothing, no
 *           iteration with a gap (lookup.c I1 to I3, mmap.c I2, B2, B3, B8)
 *   slots   come and go as a whole; each life has a tag whose age counts the grace periods since its end.
 *           A reader inside one read section never sees a tag older than one (the age histogram)
 */
#include "torture/torture.h"
#include "base/delay.h"
#include "base/random.h"
#include "samara/samara.h"
#include "space/space.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define P      4096ull
#define B      0x200000000000ull
#define REGION (1ull << 30)
#define ANF    (SM_MAP_PRIVATE | SM_MAP_ANONYMOUS | SM_MAP_FIXED)
#define RW     (SM_PROT_READ | SM_PROT_WRITE)
enum {
	SPACES = 2,
	MAPPERS = 2, /* per space */
	SOLID = 64,  /* pages */
	SLOTS = 8,
	SLOT_PAGES = 4,
	SLOT_BASE = 1024, /* pages from the region's start */
	AGES = 4,	  /* 0 alive, 1 maybe one grace period, the rest is a failure */
	TAGS = 1 << 12,
};

static struct sm_space *spaces[SPACES];
static _Atomic uint64_t ops, faults, lookups, walks, forks, seen_age[AGES];

/* A tag: index into ages, never 0. RETIRED: its life is over, the next grace periods count. */
enum { FREE, LIVE, RETIRED };
static _Atomic uint32_t age[TAGS], life[TAGS];
static _Atomic uint64_t next_tag = 1;

static sm_addr region(unsigned mapper)
{
	return B + mapper * REGION;
}

static sm_addr slot(unsigned mapper, uint64_t n)
{
	return region(mapper) + (SLOT_BASE + n * SLOT_PAGES * 2) * P;
}

static uint64_t new_tag(void)
{
	for (;;) {
		uint64_t t = atomic_fetch_add(&next_tag, 1) % (TAGS - 1) + 1;
		uint32_t is_free = FREE;

		/* Never used, or out of everybody's sight for long; not one whose mapper has had no CPU
		 * since all the others were given out. */
		if (atomic_compare_exchange_strong(&life[t], &is_free, LIVE)) {
			atomic_store(&age[t], 0);
			return t;
		}
	}
}

static void *grace_periods(void *arg)
{
	(void)arg;
	while (going()) {
		sm_rcu_synchronize();
		for (int i = 1; i < TAGS; i++) {
			if (atomic_load(&life[i]) == RETIRED && atomic_fetch_add(&age[i], 1) > 6)
				atomic_store(&life[i], FREE);
		}
	}
	return NULL;
}

/* ---- mappers */

static void solid_step(struct sm_space *s, sm_addr base, struct sm__random *r)
{
	sm_addr at = base + sm__random_below(r, SOLID) * P;
	uint64_t len = (1 + sm__random_below(r, 6)) * P;
	int64_t err = 0;

	if (at + len > base + SOLID * P)
		len = base + SOLID * P - at;
	switch (sm__random_below(r, 6)) {
	case 0:
	case 1:
		err = sm_mprotect(s, at, len, SM_PROT_READ);
		break;
	case 2:
		err = sm_mprotect(s, at, len, RW);
		break;
	case 3:
		err = sm_mmap(s, at, len, RW, ANF, NULL, 0) < 0;
		break;
	case 4:
		err = sm_madvise(s, at, len, SM_MADV_SEQUENTIAL);
		break;
	case 5:
		err = sm_madvise(s, at, len, SM_MADV_NORMAL);
		break;
	}
	if (err)
		FAIL("a mapper's call failed: %d", (int)err);
}

static void slot_step(struct sm_space *s, unsigned m, struct sm__random *r, uint64_t *tags)
{
	uint64_t n = sm__random_below(r, SLOTS);
	sm_addr at = slot(m, n);

	if (!tags[n]) {
		tags[n] = new_tag();
		if (sm_mmap_tagged(s, at, SLOT_PAGES * P, RW, ANF, NULL, 0, tags[n]) != (int64_t)at)
			FAIL("a slot could not be mapped");
	} else if (sm__random_below(r, 4) == 0) {
		sm_mprotect(s, at, SLOT_PAGES * P, sm__random_below(r, 2) ? RW : SM_PROT_READ);
	} else {
		if (sm_munmap(s, at, SLOT_PAGES * P))
			FAIL("a slot could not be unmapped");
		atomic_store(&life[tags[n]], RETIRED);
		tags[n] = 0;
	}
}

static void *mapper(void *arg)
{
	unsigned id = (unsigned)(uintptr_t)arg, m = id % MAPPERS;
	struct sm_space *s = spaces[id / MAPPERS];
	uint64_t tags[SLOTS] = { 0 };
	struct sm__random r;

	sm__random_seed(&r, torture.seed + id);
	while (going()) {
		switch (sm__random_below(&r, 8)) {
		case 0: {
			int64_t a = sm_mmap(s, 0, 3 * P, RW, SM_MAP_PRIVATE | SM_MAP_ANONYMOUS,
					    NULL, 0);

			if (a < 0 || sm_munmap(s, (sm_addr)a, 3 * P))
				FAIL("anywhere: %d", (int)a);
			break;
		}
		case 1:
		case 2:
		case 3:
			slot_step(s, m, &r, tags);
			break;
		default:
			solid_step(s, region(m), &r);
			break;
		}
		atomic_fetch_add(&ops, 1);
	}
	for (uint64_t n = 0; n < SLOTS; n++)
		sm_munmap(s, slot(m, n), SLOT_PAGES * P);
	return NULL;
}

/* ---- readers */

static void *faulter(void *arg)
{
	unsigned id = (unsigned)(uintptr_t)arg;
	struct sm_space *s = spaces[id % SPACES];
	struct sm__random r;

	sm__random_seed(&r, torture.seed + 100 + id);
	while (going()) {
		unsigned m = (unsigned)sm__random_below(&r, MAPPERS);
		bool write = sm__random_below(&r, 2);
		sm_addr at = region(m) + sm__random_below(&r, SOLID) * P;
		struct sm_fault_result f =
			sm_fault(s, at, write ? SM_ACCESS_WRITE : SM_ACCESS_READ);

		if (f.error || (f.signo && (!write || f.code != SEGV_ACCERR)))
			FAIL("fault in solid memory: error %d, signal %d, code %d", f.error,
			     f.signo, f.code);
		at = slot(m, sm__random_below(&r, SLOTS));
		f = sm_fault(s, at, SM_ACCESS_WRITE);
		if (f.error)
			FAIL("fault in a slot: error %d", f.error);
		atomic_fetch_add(&faults, 2);
	}
	return NULL;
}

static void check_age(struct sm_space *s, sm_addr at)
{
	struct sm_vma_info info;
	uint32_t a;

	sm_rcu_read_lock();
	if (sm_lookup(s, at, &info) == 0 && info.tag) {
		a = atomic_load(&age[info.tag % TAGS]);
		if (info.start > at || info.end <= at)
			FAIL("a look-up found %#llx-%#llx", (unsigned long long)info.start,
			     (unsigned long long)info.end);
		atomic_fetch_add(&seen_age[a < AGES ? a : AGES - 1], 1);
		if (a > 1)
			FAIL("a VMA was seen %u grace periods after its end", a);
	}
	sm_rcu_read_unlock();
}

static void *looker(void *arg)
{
	unsigned id = (unsigned)(uintptr_t)arg;
	struct sm_space *s = spaces[id % SPACES];
	bool rcu = s->tree.ops->rcu;
	struct sm__random r;

	sm__random_seed(&r, torture.seed + 200 + id);
	sm_thread_attach();
	while (going()) {
		unsigned m = (unsigned)sm__random_below(&r, MAPPERS);
		sm_addr at = region(m) + sm__random_below(&r, SOLID) * P;
		struct sm_vma_info info;
		int err = sm_lookup(s, at, &info);

		if (err || info.start > at || info.end <= at || !(info.flags & SM_VM_READ))
			FAIL("look-up of solid memory: %d", err);
		err = sm_check_range(s, region(m), SOLID * P, SM_ACCESS_READ);
		if (err && err != -EAGAIN)
			FAIL("check of solid memory: %d", err);
		if (sm__random_below(&r, 64) == 0 &&
		    sm_check_range_wait(s, region(m), SOLID * P, SM_ACCESS_READ))
			FAIL("waiting check of solid memory");
		if (rcu) /* the others would wait for mmap_lock inside a read section */
			check_age(s, slot(m, sm__random_below(&r, SLOTS)));
		atomic_fetch_add(&lookups, 1);
	}
	return NULL;
}

struct walk {
	sm_addr at;
	unsigned mapper;
};

static int solid_visit(void *arg, const struct sm_vma_info *info)
{
	struct walk *w = arg;

	if (info->start > w->at)
		FAIL("an iteration shows a gap %#llx-%#llx", (unsigned long long)w->at,
		     (unsigned long long)info->start);
	w->at = info->end;
	return 0;
}

static void *walker(void *arg)
{
	unsigned id = (unsigned)(uintptr_t)arg;
	struct sm_space *s = spaces[id % SPACES];
	static _Thread_local char text[1 << 16];

	while (going()) {
		struct sm_space_stats st;

		for (unsigned m = 0; m < MAPPERS; m++) {
			struct walk w = { region(m), m };

			sm_for_each(s, region(m), region(m) + SOLID * P, solid_visit, &w);
			if (w.at < region(m) + SOLID * P)
				FAIL("an iteration ends early");
		}
		if (sm_maps(s, text, sizeof(text)) <= 0)
			FAIL("no maps text");
		sm_space_stats(s, &st);
		atomic_fetch_add(&walks, 1);
	}
	return NULL;
}

static void *forker(void *arg)
{
	unsigned id = (unsigned)(uintptr_t)arg;
	struct sm_space *s = spaces[id % SPACES];

	while (going()) {
		const struct timespec pause = { .tv_nsec = 300000 };
		struct sm_space *child = sm_fork(s);
		const char *why = child ? sm__space_check(child) : "no child";

		if (why)
			FAIL("fork: %s", why);
		if (child && sm_check_range_wait(child, region(0), SOLID * P, SM_ACCESS_READ))
			FAIL("a child has holes");
		sm_space_destroy(child);
		atomic_fetch_add(&forks, 1);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

/* ---- a run */

static bool prepare(struct sm_host *host, const struct sm_design *d)
{
	for (int i = 0; i < SPACES; i++) {
		struct sm_space_options o;

		sm_space_options_init(&o);
		o.design = *d;
		o.lock_stats = i == 0;
		spaces[i] = sm_space_create(host, &o, NULL);
		if (!spaces[i])
			return false;
		for (unsigned m = 0; m < MAPPERS; m++)
			sm_mmap(spaces[i], region(m), SOLID * P, RW, ANF, NULL, 0);
	}
	return true;
}

static int run(const struct sm_design *d, const char *name, double seconds)
{
	static void *(*const bodies[])(void *) = { faulter, looker, walker, forker };
	struct sm_host *host = sm_host_create(NULL, NULL);
	pthread_t t[SPACES * MAPPERS + SPACES * 4 + 1];
	struct sm_host_stats hs;
	unsigned n = 0;

	torture_again();
	if (!prepare(host, d)) {
		sm_host_destroy(host);
		return 0; /* not built in */
	}
	for (uintptr_t i = 0; i < SPACES * MAPPERS; i++)
		pthread_create(&t[n++], NULL, mapper, (void *)i);
	for (uintptr_t i = 0; i < SPACES; i++)
		for (size_t b = 0; b < SM__ARRAY_SIZE(bodies); b++)
			pthread_create(&t[n++], NULL, bodies[b], (void *)i);
	pthread_create(&t[n++], NULL, grace_periods, NULL);
	torture_for(seconds);
	while (n)
		pthread_join(t[--n], NULL);
	for (int i = 0; i < SPACES; i++) {
		const char *why = sm__space_check(spaces[i]);
		struct sm_space_stats st;

		if (why)
			FAIL("%s", why);
		sm_space_stats(spaces[i], &st);
		if (i == 0)
			printf("  vma locks: success %llu abort %llu retry %llu miss %llu\n",
			       (unsigned long long)st.vma_lock_success,
			       (unsigned long long)st.vma_lock_abort,
			       (unsigned long long)st.vma_lock_retry,
			       (unsigned long long)st.vma_lock_miss);
		sm_space_destroy(spaces[i]);
	}
	sm_host_stats(host, &hs);
	if (hs.committed)
		FAIL("%llu pages stay charged", (unsigned long long)hs.committed);
	if (sm_host_destroy(host))
		FAIL("the host could not be destroyed");
	printf("%s: %llu operations, %llu faults, %llu look-ups, %llu walks, %llu forks; "
	       "ages %llu %llu | %llu\n",
	       name, (unsigned long long)atomic_exchange(&ops, 0),
	       (unsigned long long)atomic_exchange(&faults, 0),
	       (unsigned long long)atomic_exchange(&lookups, 0),
	       (unsigned long long)atomic_exchange(&walks, 0),
	       (unsigned long long)atomic_exchange(&forks, 0),
	       (unsigned long long)atomic_exchange(&seen_age[0], 0),
	       (unsigned long long)atomic_exchange(&seen_age[1], 0),
	       (unsigned long long)(atomic_load(&seen_age[2]) + atomic_load(&seen_age[3])));
	memset((void *)age, 0, sizeof(age));
	memset((void *)life, 0, sizeof(life));
	return 1;
}

int main(int argc, char **argv)
{
	struct sm_design d;
	char why[120];

	torture_begin("torture_space", argc, argv);
	sm__delay_seed(torture.seed, 20);
	if (torture.design) {
		if (sm_design_parse(torture.design, &d, why, sizeof(why))) {
			fprintf(stderr, "%s\n", why);
			return 1;
		}
		run(&d, torture.design, torture.seconds);
		return torture_end();
	}
	for (unsigned i = 0; i < sm_design_preset_count() && !torture.failed; i++) {
		sm_design_preset(sm_design_preset_name(i), &d);
		run(&d, sm_design_preset_name(i), torture.seconds / sm_design_preset_count());
	}
	return torture_end();
}
