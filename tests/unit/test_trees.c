/* SPDX-License-Identifier: MIT */
/*
 * test_trees.c - red-black, AVL and maple tree behind the table of space/tree.h: the same random
 * changes to all three and to an array; every answer compared, every tree validated.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/random.h"
#include "space/tree.h"

enum { PLACES = 600, TREES = 3, PAGE = 0x1000 };

/* A VMA in small: the node, the record that points to it, where it lies now, its word. */
struct area {
	struct sm__tree_node node __attribute__((aligned(64)));
	struct sm__tree_value value;
	unsigned int first, last;
	uint64_t word;
};

struct side {
	struct sm__tree tree;
	struct area *at[PLACES];
};

static const struct sm__tree_ops *const kinds[TREES] = { &sm__tree_rb_ops, &sm__tree_avl_ops,
							 &sm__tree_maple_ops };

/* Half of them are told by a record, half by the word alone. */
static struct area *new_area(unsigned int first, unsigned int last, struct sm__random *r)
{
	struct area *a = aligned_alloc(64, sizeof(*a));

	assert_non_null(a);
	memset(a, 0, sizeof(*a));
	a->value.node = &a->node;
	a->first = first;
	a->last = last;
	a->word = SM__WORD_BITS > 0 && sm__random_below(r, 2)
			  ? sm__word_direct(&a->node, sm__random_below(r, 1u << SM__WORD_BITS))
			  : (uintptr_t)&a->value;
	return a;
}

static struct sm__tree_item item_of(struct area *a)
{
	return (struct sm__tree_item){ &a->node, a->word, (sm_addr)a->first * PAGE,
				       (sm_addr)(a->last + 1) * PAGE - 1 };
}

static void put(struct side *s, struct area *a, unsigned int first, unsigned int last)
{
	for (unsigned int i = first; i <= last; i++)
		s->at[i] = a;
}

/* Trims and drops what [first, last] covers, as I4 of tree.h says. */
static void overwrite(struct side *s, struct area *by, unsigned int first, unsigned int last)
{
	for (unsigned int i = first; i <= last; i++) {
		struct area *a = s->at[i];

		if (!a || a == by)
			continue;
		put(s, NULL, a->first, a->last);
		if (a->first < first)
			put(s, a, a->first, first - 1);
		else if (a->last > last)
			put(s, a, last + 1, a->last);
		if (a->first >= first && a->last <= last)
			free(a);
		else if (a->first < first)
			a->last = first - 1;
		else
			a->first = last + 1;
	}
}

static void store(struct side *s, unsigned int first, unsigned int last, struct sm__random *r)
{
	struct sm__tree_cursor c = sm__cursor(&s->tree);
	struct area *a = new_area(first, last, r);
	struct sm__tree_item item = item_of(a);

	assert_int_equal(s->tree.ops->reserve(&s->tree, 1), 0);
	s->tree.ops->store(&c, &item);
	s->tree.ops->release(&s->tree);
	assert_ptr_equal(c.node, &a->node);
	overwrite(s, a, first, last);
	put(s, a, first, last);
}

/* A store anywhere; what it leaves of areas that it cuts may become other areas in the same step. */
static void store_cut(struct side *s, unsigned int first, unsigned int last, struct sm__random *r)
{
	struct sm__tree_cursor c = sm__cursor(&s->tree);
	struct area *a = new_area(first, last, r), *sides[2] = { NULL, NULL };
	struct area *low = s->at[first], *high = s->at[last];
	struct sm__tree_item item = item_of(a);
	uint64_t words[2] = { 0, 0 };

	/* an area that is cut on both sides cannot be in two places */
	if (low && low->first < first &&
	    ((low == high && low->last > last) || sm__random_below(r, 2)))
		sides[0] = new_area(low->first, first - 1, r);
	if (high && high->last > last &&
	    ((low == high && low->first < first) || sm__random_below(r, 2)))
		sides[1] = new_area(last + 1, high->last, r);
	for (int i = 0; i < 2; i++)
		words[i] = sides[i] ? sides[i]->word : 0;
	assert_int_equal(s->tree.ops->reserve(&s->tree, 1), 0);
	s->tree.ops->store_cut(&c, &item, words);
	s->tree.ops->release(&s->tree);
	assert_ptr_equal(c.node, &a->node);
	for (int i = 0; i < 2; i++) {
		if (sides[i]) {
			overwrite(s, sides[i], sides[i]->first, sides[i]->last);
			put(s, sides[i], sides[i]->first, sides[i]->last);
		}
	}
	overwrite(s, a, first, last);
	put(s, a, first, last);
}

/* From the begin of one area to the end of another. */
static void erase(struct side *s, unsigned int from, unsigned int to)
{
	struct sm__tree_cursor c = sm__cursor(&s->tree);
	unsigned int first = s->at[from] ? s->at[from]->first : from;
	unsigned int last = s->at[to] ? s->at[to]->last : to, i;

	assert_int_equal(s->tree.ops->reserve(&s->tree, 1), 0);
	s->tree.ops->erase(&c, (sm_addr)first * PAGE, (sm_addr)(last + 1) * PAGE - 1);
	s->tree.ops->release(&s->tree);
	overwrite(s, NULL, first, last);
	put(s, NULL, first, last);
	for (i = last + 1; i < PLACES && !s->at[i]; i++)
		;
	assert_ptr_equal(c.node, i < PLACES ? &s->at[i]->node : NULL);
}

static void compare(struct side *s, struct sm__random *r)
{
	struct sm__tree_cursor c = sm__cursor(&s->tree);
	unsigned int i = (unsigned int)sm__random_below(r, PLACES);
	struct sm__tree_node *n = s->tree.ops->seek(&c, (sm_addr)i * PAGE + 5);

	assert_ptr_equal(s->tree.ops->find(&s->tree, (sm_addr)i * PAGE),
			 s->at[i] ? &s->at[i]->node : NULL);
	if (s->tree.ops->rcu) {
		struct sm__tree_found found;

		assert_int_equal(s->tree.ops->load_rcu(&s->tree, (sm_addr)i * PAGE, &found),
				 s->at[i] != NULL);
		assert_int_equal(found.word, s->at[i] ? s->at[i]->word : 0);
		if (s->at[i]) {
			assert_int_equal(found.first, (sm_addr)s->at[i]->first * PAGE);
			assert_int_equal(found.last, (sm_addr)(s->at[i]->last + 1) * PAGE - 1);
		}
	}
	for (; i < PLACES && !s->at[i]; i++)
		;
	for (unsigned int steps = 0; n && steps < 20; steps++) {
		assert_true(i < PLACES);
		assert_ptr_equal(n, &s->at[i]->node);
		n = s->tree.ops->next(&c);
		for (i = s->at[i]->last + 1; i < PLACES && !s->at[i]; i++)
			;
	}
	/* And back. */
	n = s->tree.ops->prev(&c);
	while (i-- && !s->at[i])
		;
	assert_ptr_equal(n, i < PLACES ? &s->at[i]->node : NULL);
	assert_null(s->tree.ops->validate(&s->tree));
}

static void compare_gaps(struct side *s, struct sm__random *r)
{
	unsigned int low = (unsigned int)sm__random_below(r, PLACES), at, run = 0;
	unsigned int high = low + (unsigned int)sm__random_below(r, PLACES - low);
	unsigned int n = 1 + (unsigned int)sm__random_below(r, 6);
	const sm_addr limits[2] = { (sm_addr)low * PAGE, (sm_addr)(high + 1) * PAGE - 1 };
	sm_addr got;

	for (at = low; at <= high && run < n; at++)
		run = s->at[at] ? 0 : run + 1;
	if (run == n) {
		assert_int_equal(s->tree.ops->gap_lowest(&s->tree, n * PAGE, limits, &got), 0);
		assert_true(got == (sm_addr)(at - n) * PAGE);
	} else {
		assert_int_equal(s->tree.ops->gap_lowest(&s->tree, n * PAGE, limits, &got),
				 -ENOENT);
	}
	run = 0;
	for (at = high + 1; at > low && run < n; at--)
		run = s->at[at - 1] ? 0 : run + 1;
	if (run == n) {
		assert_int_equal(s->tree.ops->gap_highest(&s->tree, n * PAGE, limits, &got), 0);
		assert_true(got == (sm_addr)at * PAGE);
	} else {
		assert_int_equal(s->tree.ops->gap_highest(&s->tree, n * PAGE, limits, &got),
				 -ENOENT);
	}
}

/* One area must not lie strictly around the store (I4): then the store takes its begin along. */
static unsigned int begin_of(const struct side *s, unsigned int first, unsigned int last)
{
	const struct area *a = s->at[first];

	return a && a->first < first && a->last > last ? a->first : first;
}

static void run(const struct sm__tree_ops *ops, uint64_t seed)
{
	struct side *s = calloc(1, sizeof(*s));
	struct sm__random r;

	sm__random_seed(&r, seed);
	s->tree.ops = ops;
	assert_int_equal(ops->init(&s->tree), 0);
	for (unsigned int i = 0; i < 20000; i++) {
		unsigned int first = (unsigned int)sm__random_below(&r, PLACES);
		unsigned int last = first + (unsigned int)sm__random_below(&r, i % 50 ? 4 : 100);

		if (last >= PLACES)
			last = PLACES - 1;
		if (sm__random_below(&r, 100) < (i / 2500 % 2 ? 40 : 70))
			s->tree.ops->rcu &&sm__random_below(&r, 2)
				? store_cut(s, first, last, &r)
				: store(s, begin_of(s, first, last), last, &r);
		else
			erase(s, first, last);
		compare(s, &r);
		compare_gaps(s, &r);
	}
	erase(s, 0, PLACES - 1);
	assert_null(s->tree.ops->validate(&s->tree));
	ops->destroy(&s->tree);
	free(s);
}

static void test_each(void **state)
{
	(void)state;
	for (unsigned int k = 0; k < TREES; k++)
		for (uint64_t seed = 1; seed < 4; seed++)
			run(kinds[k], seed);
}

/* A direct word gives back what went into it, and is none of a record. */
static void test_words(void **state)
{
	static struct area areas[4];

	(void)state;
	for (unsigned int i = 0; SM__WORD_BITS > 0 && i < 4; i++) {
		areas[i].value.node = &areas[i].node;
		assert_false(sm__word_is_direct((uintptr_t)&areas[i].value));
		assert_ptr_equal(sm__word_node((uintptr_t)&areas[i].value), &areas[i].node);
		for (unsigned int bit = 0; bit <= SM__WORD_BITS; bit++) {
			uint64_t bits = ((uint64_t)1 << bit) - 1, word;

			word = sm__word_direct(&areas[i].node, bits);
			assert_true(sm__word_is_direct(word));
			assert_ptr_equal(sm__word_node(word), &areas[i].node);
			assert_int_equal(sm__word_bits(word), bits);
			bits = bit < SM__WORD_BITS ? (uint64_t)1 << bit : 0;
			assert_int_equal(sm__word_bits(sm__word_direct(&areas[i].node, bits)),
					 bits);
		}
	}
	assert_null(sm__word_node(0));
}

/* load() of n ascending items, at all small sizes, is what n stores are. */
static void test_load(void **state)
{
	(void)state;
	for (unsigned int k = 0; k < TREES; k++) {
		for (size_t n = 0; n < 300; n++) {
			struct area *areas = calloc(n + 1, sizeof(*areas));
			struct sm__tree_item *items = calloc(n + 1, sizeof(*items));
			struct sm__tree t = { .ops = kinds[k] };

			assert_int_equal(t.ops->init(&t), 0);
			for (size_t i = 0; i < n; i++) {
				areas[i].value.node = &areas[i].node;
				items[i] = (struct sm__tree_item){ &areas[i].node,
								   (uintptr_t)&areas[i].value,
								   3 * i * PAGE,
								   (3 * i + 2) * PAGE - 1 };
			}
			assert_int_equal(t.ops->load(&t, items, n), 0);
			assert_null(t.ops->validate(&t));
			for (size_t i = 0; i < n; i++)
				assert_ptr_equal(t.ops->find(&t, (3 * i + 1) * PAGE),
						 &areas[i].node);
			t.ops->destroy(&t);
			free(areas);
			free(items);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_words),
					    cmocka_unit_test(test_each),
					    cmocka_unit_test(test_load) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
