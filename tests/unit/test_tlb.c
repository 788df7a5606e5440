/* SPDX-License-Identifier: MIT */
/* test_tlb.c - software TLBs: states, hits and misses, acknowledgement (tlb.h I1 to I5). */
#include "unit/memory_world.h"

#include <pthread.h>
#include <sched.h>

#define BASE 0x40000000ull

static struct world w;
static struct area a;

static int setup(void **state)
{
	(void)state;
	world_init(&w, 16);
	a = (struct area){
		.mm = world_mm(&w), .start = BASE, .end = BASE + 600 * PAGE, .prot = RW
	};
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	world_destroy_mm(a.mm);
	world_end(&w);
	return 0;
}

static void *fill(struct sm_tlb *tlb, sm_addr addr, enum sm_access access)
{
	sm__pte seen;
	void *p;

	assert_true(sm__tlb_resume(tlb));
	p = sm__mm_fill(a.mm, tlb, addr, access, &seen);
	if (p)
		assert_ptr_equal(sm_translate(tlb, addr, access), p);
	return p;
}

static void it_hits_only_what_the_entry_allows(void **state)
{
	struct sm_tlb *tlb = sm__tlb_new(&a.mm->tlb, 12, NULL);

	(void)state;
	put8(&a, BASE, 0x55);
	sm_tlb_run(tlb);
	assert_null(sm_translate(tlb, BASE, SM_ACCESS_READ));
	assert_non_null(fill(tlb, BASE + 8, SM_ACCESS_WRITE));
	assert_int_equal(*(uint8_t *)sm_translate(tlb, BASE, SM_ACCESS_READ), 0x55);
	assert_null(sm_translate(tlb, BASE, SM_ACCESS_EXEC));
	assert_null(sm_translate(tlb, BASE + PAGE, SM_ACCESS_READ));
	assert_null(sm_translate(tlb, BASE + SM_TLB_ENTRIES * PAGE, SM_ACCESS_READ));
	sm__tlb_park_current();
	(void)get8(&a, BASE + PAGE);
	assert_non_null(fill(tlb, BASE + PAGE, SM_ACCESS_READ));
	assert_null(sm_translate(tlb, BASE + PAGE, SM_ACCESS_WRITE));
	sm_tlb_stop(tlb);
	sm__tlb_free(tlb);
}

/* samara/tlb.h G3 */
static void a_library_call_parks_and_a_fill_resumes(void **state)
{
	struct sm_tlb *tlb = sm__tlb_new(&a.mm->tlb, 12, NULL);
	struct sm_tlb *other = sm__tlb_new(&a.mm->tlb, 12, NULL);

	(void)state;
	put8(&a, BASE, 1);
	assert_false(sm__tlb_resume(tlb));
	sm_tlb_run(tlb);
	assert_non_null(fill(tlb, BASE, SM_ACCESS_READ));
	sm__thread_enter();
	assert_null(sm_translate(tlb, BASE, SM_ACCESS_READ));
	assert_true(sm__tlb_is_quiet());
	assert_true(sm__tlb_resume(tlb));
	assert_non_null(sm_translate(tlb, BASE, SM_ACCESS_READ));
	sm_tlb_run(other);
	assert_null(sm_translate(tlb, BASE, SM_ACCESS_READ));
	sm_tlb_stop(tlb);
	sm_tlb_stop(other);
	assert_false(sm__tlb_resume(tlb));
	sm__tlb_free(tlb);
	sm__tlb_free(other);
}

/* I2, I4: what is named goes, what is not stays. */
static void only_what_was_taken_away_is_dropped(void **state)
{
	struct sm_tlb *tlb = sm__tlb_new(&a.mm->tlb, 12, NULL);

	(void)state;
	for (int i = 0; i < 8; i++)
		put8(&a, BASE + i * PAGE, i);
	sm_tlb_run(tlb);
	for (int i = 0; i < 8; i++)
		assert_non_null(fill(tlb, BASE + i * PAGE, SM_ACCESS_WRITE));
	sm__thread_enter();
	area_zap(&a, BASE + 2 * PAGE, BASE + 4 * PAGE, 0);
	assert_true(sm__tlb_resume(tlb));
	for (int i = 0; i < 8; i++)
		assert_true(!!sm_translate(tlb, BASE + i * PAGE, SM_ACCESS_READ) ==
			    (i < 2 || i > 3));
	/* More news than the ring holds: everything goes. */
	sm__thread_enter();
	for (int i = 0; i < 100; i++) {
		put8(&a, BASE + 500 * PAGE, 1);
		area_zap(&a, BASE + 500 * PAGE, BASE + 501 * PAGE, 0);
	}
	assert_true(sm__tlb_resume(tlb));
	assert_null(sm_translate(tlb, BASE, SM_ACCESS_READ));
	sm_tlb_stop(tlb);
	sm__tlb_free(tlb);
}

/* tlb.h I6: pages beside the one asked for come along, where their places are free. */
static void a_fill_brings_free_neighbours(void **state)
{
	struct sm_tlb *tlb = sm__tlb_new(&a.mm->tlb, 12, NULL);
	sm_addr live = BASE + (SM_TLB_ENTRIES + 8) * PAGE;

	(void)state;
	for (int i = 0; i < 20; i++)
		if (i != 2)
			put8(&a, BASE + i * PAGE, i);
	(void)get8(&a, BASE + 7 * PAGE);
	put8(&a, live, 99);
	area_protect(&a, BASE + 6 * PAGE, BASE + 7 * PAGE, SM_PROT_READ);
	sm_tlb_run(tlb);
	assert_non_null(fill(tlb, live, SM_ACCESS_WRITE));
	assert_non_null(fill(tlb, BASE + 5 * PAGE, SM_ACCESS_WRITE));
	/* up to a place that holds another page, down to a page that is not there */
	for (int i = 0; i < 20; i++) {
		uint64_t *p = sm_translate(tlb, BASE + i * PAGE, SM_ACCESS_READ);

		assert_true(!!p == (i > 2 && i < 8));
		if (p)
			assert_int_equal(*p, i);
		assert_true(!!sm_translate(tlb, BASE + i * PAGE, SM_ACCESS_WRITE) == (p && i != 6));
	}
	assert_int_equal(*(uint64_t *)sm_translate(tlb, live, SM_ACCESS_WRITE), 99);
	/* the aligned 16 end it */
	assert_non_null(fill(tlb, BASE + 15 * PAGE, SM_ACCESS_READ));
	assert_null(sm_translate(tlb, BASE + 16 * PAGE, SM_ACCESS_READ));
	assert_non_null(sm_translate(tlb, BASE + 9 * PAGE, SM_ACCESS_READ));
	assert_non_null(sm_translate(tlb, live, SM_ACCESS_READ));
	sm_tlb_stop(tlb);
	sm__tlb_free(tlb);
}

static unsigned hits(struct sm_tlb *tlb, sm_addr from, unsigned n)
{
	unsigned found = 0;

	for (unsigned i = 0; i < n; i++)
		found += !!sm_translate(tlb, from + i * PAGE, SM_ACCESS_READ);
	return found;
}

/* A guest that goes through memory in order gets 16 pages a fill, though other pages are in their
 * places; two streams that share their places do not drive out each other. */
static void a_stream_takes_places(void **state)
{
	const sm_addr other = BASE + SM_TLB_ENTRIES * PAGE, apart = BASE + 100 * PAGE;
	struct sm_tlb *tlb = sm__tlb_new(&a.mm->tlb, 12, NULL);

	(void)state;
	for (unsigned i = 0; i < 48; i++) {
		put8(&a, BASE + i * PAGE, i);
		put8(&a, other + i * PAGE, i);
		put8(&a, apart + i * PAGE, i);
	}
	sm_tlb_run(tlb);
	for (unsigned i = 0; i < 48; i += 16)
		assert_non_null(fill(tlb, other + i * PAGE, SM_ACCESS_READ));
	assert_int_equal(hits(tlb, other, 48), 48);
	/* one page says nothing; the next one after it does */
	assert_non_null(fill(tlb, BASE, SM_ACCESS_READ));
	assert_int_equal(hits(tlb, other, 48), 47);
	assert_non_null(fill(tlb, BASE + PAGE, SM_ACCESS_READ));
	assert_int_equal(hits(tlb, BASE, 48), 16);
	assert_int_equal(hits(tlb, other, 48), 32);
	/* between two fills of a stream there may be one of another */
	assert_non_null(fill(tlb, apart + 5 * PAGE, SM_ACCESS_READ));
	assert_non_null(fill(tlb, BASE + 16 * PAGE, SM_ACCESS_READ));
	assert_int_equal(hits(tlb, BASE, 48), 32);
	/* in the same places */
	for (unsigned i = 32; i < 40; i++) {
		assert_non_null(fill(tlb, BASE + i * PAGE, SM_ACCESS_READ));
		assert_non_null(fill(tlb, other + i * PAGE, SM_ACCESS_READ));
	}
	assert_int_equal(hits(tlb, other + 32 * PAGE, 16), 8);
	sm_tlb_stop(tlb);
	sm__tlb_free(tlb);
}

/* I2, I6: what came along goes like what was asked for. */
static void neighbours_are_shot_down(void **state)
{
	struct sm_tlb *tlb = sm__tlb_new(&a.mm->tlb, 12, NULL);

	(void)state;
	for (int i = 0; i < 16; i++)
		put8(&a, BASE + i * PAGE, i);
	sm_tlb_run(tlb);
	assert_non_null(fill(tlb, BASE, SM_ACCESS_WRITE));
	assert_non_null(sm_translate(tlb, BASE + 9 * PAGE, SM_ACCESS_WRITE));
	sm__tlb_park_current();
	area_zap(&a, BASE + 9 * PAGE, BASE + 11 * PAGE, 0);
	area_protect(&a, BASE + 12 * PAGE, BASE + 13 * PAGE, SM_PROT_READ);
	assert_true(sm__tlb_resume(tlb));
	for (int i = 0; i < 16; i++)
		assert_true(!!sm_translate(tlb, BASE + i * PAGE, SM_ACCESS_READ) ==
			    (i != 9 && i != 10 && i != 12));
	assert_non_null(fill(tlb, BASE + 12 * PAGE, SM_ACCESS_READ));
	assert_null(sm_translate(tlb, BASE + 12 * PAGE, SM_ACCESS_WRITE));
	assert_null(sm_translate(tlb, BASE + 10 * PAGE, SM_ACCESS_READ));
	sm_tlb_stop(tlb);
	sm__tlb_free(tlb);
}

struct guest {
	struct sm_tlb *tlb;
	atomic_bool started, leave, stopped;
	atomic_uint kicked;
};

static void *run_guest(void *arg)
{
	sm__pte seen;
	struct guest *g = arg;
	uint64_t *p;

	sm__thread_enter();
	sm_tlb_run(g->tlb);
	p = sm__mm_fill(a.mm, g->tlb, BASE, SM_ACCESS_WRITE, &seen);
	if (!p)
		return NULL;
	*p = 1;
	atomic_store(&g->started, true);
	/* Uses the translation for as long as it may. */
	while (!atomic_load(&g->leave)) {
		for (int i = 0; i < 100; i++)
			++*p;
		if (!atomic_load(&g->kicked))
			continue;
		sm_tlb_checkpoint(g->tlb);
		if (!sm_translate(g->tlb, BASE, SM_ACCESS_WRITE))
			break;
	}
	atomic_store(&g->stopped, true);
	sm_tlb_stop(g->tlb);
	return g;
}

static void kick(void *arg, struct sm_tlb *tlb)
{
	struct guest *g = arg;

	(void)tlb;
	atomic_fetch_add(&g->kicked, 1);
}

/* samara/tlb.h G1, G2: the guest checks in only when it is kicked, and the zap waits for that. */
static void an_operation_waits_for_a_running_guest_and_kicks_it(void **state)
{
	struct guest g = { .tlb = sm__tlb_new(&a.mm->tlb, 12, NULL) };
	pthread_t thread;
	void *ok;

	(void)state;
	a.mm->tlb.kick = kick;
	a.mm->tlb.kick_arg = &g;
	put8(&a, BASE, 1);
	assert_int_equal(pthread_create(&thread, NULL, run_guest, &g), 0);
	while (!atomic_load(&g.started))
		sched_yield();
	area_zap(&a, BASE, BASE + PAGE, 0);
	assert_true(atomic_load(&g.kicked) > 0);
	assert_int_equal(get8(&a, BASE), 0);
	pthread_join(thread, &ok);
	assert_non_null(ok);
	assert_true(atomic_load(&g.stopped));
	sm__tlb_free(g.tlb);
}

/* memory/gather.h I3: who finds an entry gone tells its range while the one that took it has not. */
static void an_operation_tells_what_a_pending_gather_took(void **state)
{
	struct sm_tlb *tlb = sm__tlb_new(&a.mm->tlb, 12, NULL);
	struct sm__mmu_gather first, second;

	(void)state;
	put8(&a, BASE, 1);
	sm_tlb_run(tlb);
	assert_non_null(fill(tlb, BASE, SM_ACCESS_READ));
	sm__tlb_park_current();
	sm__mmu_gather_begin(&first, a.mm);
	sm__mmu_gather_announce(&first);
	sm__mm_zap(a.mm, BASE, BASE + PAGE, 0, &first);
	/* not told yet */
	assert_true(sm__tlb_resume(tlb));
	assert_non_null(sm_translate(tlb, BASE, SM_ACCESS_READ));
	sm__tlb_park_current();
	/* another range: nothing to tell */
	sm__mmu_gather_begin(&second, a.mm);
	sm__mm_protect(a.mm, BASE + PAGE, BASE + 2 * PAGE, SM_PROT_READ, false, &second);
	sm__mmu_gather_finish(&second);
	assert_true(sm__tlb_resume(tlb));
	assert_non_null(sm_translate(tlb, BASE, SM_ACCESS_READ));
	sm__tlb_park_current();
	sm__mmu_gather_begin(&second, a.mm);
	sm__mmu_gather_announce(&second);
	sm__mm_zap(a.mm, BASE, BASE + PAGE, 0, &second);
	sm__mmu_gather_finish(&second);
	assert_true(sm__tlb_resume(tlb));
	assert_null(sm_translate(tlb, BASE, SM_ACCESS_READ));
	sm__tlb_park_current();
	sm__mmu_gather_finish(&first);
	assert_int_equal(atomic_load(&a.mm->tlb.pending), 0);
	sm_tlb_stop(tlb);
	sm__tlb_free(tlb);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_fill_brings_free_neighbours),
		T(a_stream_takes_places),
		T(neighbours_are_shot_down),
		T(it_hits_only_what_the_entry_allows),
		T(a_library_call_parks_and_a_fill_resumes),
		T(only_what_was_taken_away_is_dropped),
		T(an_operation_waits_for_a_running_guest_and_kicks_it),
		T(an_operation_tells_what_a_pending_gather_took),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
