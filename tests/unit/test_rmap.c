/* SPDX-License-Identifier: MIT */
/* test_rmap.c - the reverse map against plain tables: who is in, which mms a walk meets, which areas. */
#include "unit/memory_world.h"
#include "base/inject.h"
#include "base/random.h"
#include "memory/pagecache.h"

#include <errno.h>

enum { MMS = 5, OBJECTS = 4, AREAS = 60 };

enum place { OUT, IN, LEFT };

struct model_area {
	struct sm__rmap_area area;
	enum place place;
	unsigned mm, object;
	unsigned seen;
};

static struct world w;
static struct sm__mm *mm[MMS];
static struct sm_file *file[OBJECTS];
static struct sm__pages *object[OBJECTS];
static struct model_area area[AREAS];

static int setup(void **state)
{
	(void)state;
	world_init(&w, 8);
	for (unsigned i = 0; i < MMS; i++)
		mm[i] = world_mm(&w);
	for (unsigned i = 0; i < OBJECTS; i++) {
		assert_int_equal(sm_file_create_memory("object", PAGE, &file[i]), 0);
		assert_int_equal(sm__pages_of(w.memory, file[i], &object[i]), 0);
	}
	memset(area, 0, sizeof(area));
	return 0;
}

static void end(struct model_area *a)
{
	if (a->place == IN)
		sm__rmap_leave(&a->area);
	sm__rmap_end(&a->area);
	a->place = OUT;
}

static int teardown(void **state)
{
	(void)state;
	for (unsigned i = 0; i < AREAS; i++)
		end(&area[i]);
	for (unsigned i = 0; i < MMS; i++)
		sm__mm_destroy(mm[i]);
	for (unsigned i = 0; i < OBJECTS; i++) {
		assert_true(sm__list_empty(&object[i]->mappers));
		sm_file_put(file[i]);
	}
	world_end(&w);
	return 0;
}

static void saw_area(struct sm__rmap_area *at, void *arg)
{
	struct model_area *a = sm__container_of(at, struct model_area, area);

	(void)arg;
	a->seen++;
}

struct walk {
	unsigned object;
	unsigned mms; /* bits */
};

static void saw_mm(struct sm__mm *at, void *arg)
{
	struct walk *walk = arg;

	for (unsigned i = 0; i < MMS; i++) {
		if (mm[i] != at)
			continue;
		assert_false(walk->mms & 1u << i);
		walk->mms |= 1u << i;
	}
	sm__rmap_each_area(object[walk->object], at, saw_area, NULL);
}

static void check(void)
{
	for (unsigned o = 0; o < OBJECTS; o++) {
		struct walk walk = { .object = o };
		unsigned mms = 0, in = 0;

		sm__rmap_each_mm(object[o], saw_mm, &walk);
		for (unsigned i = 0; i < AREAS; i++) {
			bool here = area[i].object == o;

			assert_int_equal(area[i].seen, here && area[i].place == IN);
			area[i].seen = 0;
			if (here && area[i].place != OUT)
				mms |= 1u << area[i].mm;
			in += here && area[i].place == IN;
		}
		/* an mm whose areas have all left is met until the last has ended */
		assert_int_equal(walk.mms, mms);
		assert_int_equal(sm__rmap_count(object[o]), in);
	}
	for (unsigned i = 0; i < MMS; i++)
		assert_int_equal(mm[i]->users, 0);
}

static void like_a_table(void **state)
{
	struct sm__random rng;

	(void)state;
	sm__random_seed(&rng, 11);
	for (unsigned step = 0; step < 20000; step++) {
		struct model_area *a = &area[sm__random_below(&rng, AREAS)];
		struct model_area *b = &area[sm__random_below(&rng, AREAS)];

		if (a->place == IN) {
			sm__rmap_leave(&a->area);
			a->place = LEFT;
		} else if (a->place == LEFT) {
			end(a);
		} else if (b->place == IN && sm__random_below(&rng, 2)) {
			sm__rmap_adopt(&a->area, &b->area);
			a->place = IN;
			a->mm = b->mm;
			a->object = b->object;
		} else {
			a->mm = (unsigned)sm__random_below(&rng, MMS);
			a->object = (unsigned)sm__random_below(&rng, OBJECTS);
			for (int twice = 0; twice < 2; twice++)
				assert_int_equal(
					sm__rmap_enter(&a->area, object[a->object], mm[a->mm]), 0);
			a->place = IN;
		}
		if (step % 16 == 0)
			check();
	}
}

static void adopting_from_outside_is_nothing(void **state)
{
	(void)state;
	sm__rmap_adopt(&area[0].area, &area[1].area);
	check();
}

static void without_memory_it_stays_out(void **state)
{
	(void)state;
	sm__inject_arm(1);
	assert_int_equal(sm__rmap_enter(&area[0].area, object[0], mm[0]), -ENOMEM);
	sm__inject_disarm();
	check();
	assert_int_equal(sm__rmap_enter(&area[0].area, object[0], mm[0]), 0);
	area[0].place = IN;
	/* the second needs none */
	sm__inject_arm(1);
	assert_int_equal(sm__rmap_enter(&area[1].area, object[0], mm[0]), 0);
	sm__inject_disarm();
	area[1].place = IN;
	check();
}

/* Who comes while a walk is at work is not met, and the walk ends. */
static void come_and_go(struct sm__mm *at, void *arg)
{
	unsigned *met = arg;

	(void)at;
	assert_true(++*met <= MMS);
	for (unsigned i = 0; i < MMS; i++) {
		end(&area[i]);
		area[i].mm = i;
		area[i].object = 0;
		assert_int_equal(sm__rmap_enter(&area[i].area, object[0], mm[i]), 0);
		area[i].place = IN;
	}
}

static void a_walk_ends_whoever_comes_and_goes(void **state)
{
	unsigned met = 0;

	(void)state;
	come_and_go(NULL, &met);
	met = 0;
	sm__rmap_each_mm(object[0], come_and_go, &met);
	assert_in_range(met, 1, MMS);
	check();
}

/* What threads were about to end that a fork of the host process left behind. */
static void a_forked_child_forgets_who_left(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		area[i].mm = i / 2;
		assert_int_equal(sm__rmap_enter(&area[i].area, object[0], mm[i / 2]), 0);
		area[i].place = IN;
	}
	sm__rmap_leave(&area[0].area);
	sm__rmap_leave(&area[2].area);
	sm__rmap_forget_others(object[0]);
	memset(&area[0], 0, sizeof(area[0]));
	memset(&area[2], 0, sizeof(area[2]));
	check();
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(like_a_table),
		T(adopting_from_outside_is_nothing),
		T(without_memory_it_stays_out),
		T(a_walk_ends_whoever_comes_and_goes),
		T(a_forked_child_forgets_who_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
