/* SPDX-License-Identifier: MIT */
/*
 * Every allocation of a sequence of calls fails in turn, and every step of a backend; after each call
 * the space is validated, and a call that failed has changed no page's attributes (splits may stay).
 * Under every preset that is built in. split.c, merge.c, munmap.c, mremap.c: "ready before it begins".
 */
#include "samara/samara.h"
#include "base/inject.h"
#include "space/space.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#define P 4096ull
#define B 0x200000000000ull
enum { PAGES = 96 };

#define AN  (SM_MAP_PRIVATE | SM_MAP_ANONYMOUS)
#define ANF (AN | SM_MAP_FIXED)
#define RW  (SM_PROT_READ | SM_PROT_WRITE)
#define TO  (SM_MREMAP_MAYMOVE | SM_MREMAP_FIXED)

static struct sm_host *host;

/* Attributes of each page of the window: what a failed call must leave alone. */
struct picture {
	uint64_t flags[PAGES], tag[PAGES];
	struct sm_file *file[PAGES];
};

static void take_picture(struct sm_space *s, struct picture *p)
{
	memset(p, 0, sizeof(*p));
	for (sm_addr i = 0; i < PAGES; i++) {
		struct sm_vma_info info;

		if (sm_lookup(s, B + i * P, &info) == 0) {
			p->flags[i] = info.flags | 1ull << 63;
			p->tag[i] = info.tag;
			p->file[i] = info.file;
		}
	}
}

struct step {
	const char *name;
	int64_t (*call)(struct sm_space *s);
	bool partial; /* may fail half way, as on Linux */
};

#define STEP(name_, expr)                        \
	static int64_t name_(struct sm_space *s) \
	{                                        \
		return (int64_t)(expr);          \
	}

STEP(map_a, sm_mmap(s, B, 16 * P, RW, ANF, NULL, 0))
STEP(map_b, sm_mmap(s, B + 20 * P, 8 * P, SM_PROT_READ, ANF, NULL, 0))
STEP(map_fill, sm_mmap(s, B + 16 * P, 4 * P, RW, ANF, NULL, 0))
STEP(map_any, sm_mmap(s, 0, 4 * P, RW, AN, NULL, 0))
STEP(map_shared,
     sm_mmap(s, B + 40 * P, 8 * P, RW, SM_MAP_SHARED | SM_MAP_ANONYMOUS | SM_MAP_FIXED, NULL, 0))
STEP(map_over, sm_mmap(s, B + 12 * P, 12 * P, RW | SM_PROT_EXEC, ANF, NULL, 0))
STEP(map_inside, sm_mmap(s, B + 2 * P, P, SM_PROT_READ, ANF, NULL, 0))
STEP(touch_a, sm_fault(s, B + P, SM_ACCESS_WRITE).error)
STEP(touch_b, sm_fault(s, B + 14 * P, SM_ACCESS_WRITE).error)
STEP(protect_mid, sm_mprotect(s, B + 4 * P, 4 * P, SM_PROT_READ))
STEP(protect_more, sm_mprotect(s, B + 6 * P, 4 * P, SM_PROT_READ))
STEP(protect_back, sm_mprotect(s, B, 16 * P, RW))
STEP(protect_all, sm_mprotect(s, B, 28 * P, SM_PROT_READ))
STEP(unmap_mid, sm_munmap(s, B + 9 * P, P))
STEP(unmap_many, sm_munmap(s, B + 3 * P, 20 * P))
STEP(grow, sm_mremap(s, B + 40 * P, 8 * P, 12 * P, 0, 0))
STEP(move, sm_mremap(s, B + 40 * P, 12 * P, 12 * P, TO, B + 60 * P))
STEP(move_part, sm_mremap(s, B + 62 * P, 2 * P, 2 * P, TO, B + 80 * P))
STEP(move_grow, sm_mremap(s, B + 64 * P, 2 * P, 6 * P, TO, B + 84 * P))
STEP(stay, sm_mremap(s, B + P, P, P, TO | SM_MREMAP_DONTUNMAP, B + 92 * P))
STEP(brk_up, sm_brk(s, 0x555555000000 + 9 * P) == 0x555555000000 + 9 * P ? 0 : -ENOMEM)
STEP(brk_down, sm_brk(s, 0x555555000000 + P) == 0x555555000000 + P ? 0 : -ENOMEM)
STEP(dontfork, sm_madvise(s, B + P, P, SM_MADV_DONTFORK))
STEP(named, sm_set_anon_name(s, B, 2 * P, "a name"))
STEP(stack, sm_mmap(s, B + 94 * P, P, RW, ANF | SM_MAP_GROWSDOWN, NULL, 0))
STEP(stack_grows, sm_fault(s, B + 93 * P, SM_ACCESS_WRITE).error)

static int64_t forks(struct sm_space *s)
{
	struct sm_space *child = sm_fork(s);

	if (!child)
		return -errno;
	assert_null(sm__space_check(child));
	sm_space_destroy(child);
	return 0;
}

static const struct step steps[] = {
	{ "map a", map_a, false },
	{ "touch a", touch_a, false },
	{ "map b", map_b, false },
	{ "fill between", map_fill, false },
	{ "map anywhere", map_any, false },
	{ "protect the middle", protect_mid, false },
	{ "protect more of it", protect_more, false },
	{ "touch the rest", touch_b, false },
	{ "fork", forks, false },
	{ "unprotect", protect_back, true },
	{ "map inside", map_inside, false },
	{ "map over", map_over, false },
	{ "unmap a hole", unmap_mid, false },
	{ "shared", map_shared, false },
	{ "grow in place", grow, false },
	{ "move", move, false },
	{ "move a part", move_part, false },
	{ "move and grow", move_grow, true },
	{ "dontunmap", stay, false },
	{ "break up", brk_up, false },
	{ "break down", brk_down, false },
	{ "dontfork", dontfork, false },
	{ "name", named, true },
	{ "stack", stack, false },
	{ "stack grows", stack_grows, false },
	{ "protect all", protect_all, true },
	{ "fork again", forks, false },
	{ "unmap many", unmap_many, false },
};

/* ---- a backend whose n-th plan fails, and which counts */

static uint64_t plans, commits, aborts, fail_at;

static int failing_plan(struct sm__step *step)
{
	assert_ptr_equal(step->vma->space, step->space);
	assert_true(sm__mmap_is_write_locked(&step->space->lock));
	if (++plans == fail_at)
		return -ENOMEM;
	step->priv[0] = step;
	return 0;
}

static void counting_commit(struct sm__step *step, struct sm__gather *g)
{
	assert_true(g->active);
	assert_true(sm__mmap_is_locked(&step->space->lock));
	commits++;
}

static void counting_abort(struct sm__step *step)
{
	(void)step;
	aborts++;
}

static const struct sm__backend failing = {
	.name = "failing",
	.plan = failing_plan,
	.commit = counting_commit,
	.abort = counting_abort,
};

/* ---- the run */

static struct sm_space *make(const struct sm_design *d)
{
	struct sm_space_options o;

	sm_space_options_init(&o);
	o.design = *d;
	o.start_brk = 0x555555000000;
	return sm_space_create(host, &o, NULL);
}

static void arm(uint64_t n, bool backend)
{
	if (backend) {
		plans = commits = aborts = 0;
		fail_at = n;
	} else {
		sm__inject_arm(n);
	}
}

static bool disarm(uint64_t n, bool backend)
{
	bool hit = backend ? plans >= n : sm__inject_seen() >= n;

	sm__inject_disarm();
	fail_at = 0;
	return hit;
}

/* Each step with its n-th point failing, n = 1, 2, … until it has no more; then the step for real. */
static void run(const struct sm_design *d, bool backend)
{
	struct sm_space *s = make(d);

	if (!s)
		return; /* a tree that is not built in */
	if (backend)
		s->backend = &failing;
	for (size_t i = 0; i < SM__ARRAY_SIZE(steps); i++) {
		for (uint64_t n = 1;; n++) {
			struct picture before, after;
			struct sm_space_stats a, b;
			const char *why;
			int64_t err;
			bool hit;

			take_picture(s, &before);
			sm_space_stats(s, &a);
			arm(n, backend);
			err = steps[i].call(s);
			hit = disarm(n, backend);
			why = sm__space_check(s);
			if (why)
				fail_msg("%s, failure %d: %s", steps[i].name, (int)n, why);
			if (backend && plans != commits + aborts + hit)
				fail_msg("%s: %d plans, %d commits, %d aborts", steps[i].name,
					 (int)plans, (int)commits, (int)aborts);
			if (err >= 0)
				break; /* it did, perhaps in spite of the failure */
			if (!hit && steps[i].partial)
				break; /* it meets a hole in the end */
			if (!hit)
				fail_msg("%s: %d without a failure", steps[i].name, (int)err);
			if (err != -ENOMEM && err != -EAGAIN)
				fail_msg("%s: failure %d gives %d", steps[i].name, (int)n,
					 (int)err);
			take_picture(s, &after);
			sm_space_stats(s, &b);
			if (!steps[i].partial && memcmp(&before, &after, sizeof(before)) != 0)
				fail_msg("%s: failure %d changed something", steps[i].name, (int)n);
			if (!steps[i].partial)
				assert_int_equal(a.committed, b.committed);
		}
	}
	s->backend = &sm__backend_none;
	sm_space_destroy(s);
}

static void each_preset(bool backend)
{
	struct sm_host_stats hs;

	host = sm_host_create(NULL, NULL);
	assert_non_null(host);
	for (unsigned i = 0; i < sm_design_preset_count(); i++) {
		struct sm_design d;

		sm_design_preset(sm_design_preset_name(i), &d);
		run(&d, backend);
	}
	sm_host_stats(host, &hs);
	assert_int_equal(hs.committed, 0);
	assert_int_equal(sm_host_destroy(host), 0);
}

static void allocations(void **state)
{
	(void)state;
	each_preset(false);
}

static void backend_steps(void **state)
{
	(void)state;
	each_preset(true);
}

/* Making a host and a space, with each allocation failing. */
static void creation(void **state)
{
	struct sm_space_options o;
	struct sm_host *h = NULL;
	struct sm_space *s = NULL;

	(void)state;
	sm_space_options_init(&o);
	sm_design_preset("linux-5.19", &o.design);
	o.lock_stats = true;
	for (uint64_t n = 1; !s; n++) {
		assert_true(n < 100);
		sm__inject_arm(n);
		h = sm_host_create(NULL, NULL);
		if (h)
			s = sm_space_create(h, &o, NULL);
		sm__inject_disarm();
		if (!s)
			assert_int_equal(sm_host_destroy(h), 0);
	}
	sm_space_destroy(s);
	assert_int_equal(sm_host_destroy(h), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(creation),
		cmocka_unit_test(allocations),
		cmocka_unit_test(backend_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
