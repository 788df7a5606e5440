/* SPDX-License-Identifier: MIT */
/* The red-black tree against a flat array of slots: tree.h I1, I4, I5 and both gap searches. */
#include "base/random.h"
#include "space/tree.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

enum { SLOTS = 200, STEPS = 40000 };

static struct sm__tree_node nodes[SLOTS];
static int owner[SLOTS]; /* node + 1, 0 = free */

static int naive_gap(uint64_t size, sm_addr low, sm_addr high, bool lowest)
{
	int found = -1;

	for (sm_addr a = low; a + size - 1 <= high && a + size - 1 < SLOTS; a++) {
		bool free = true;

		for (sm_addr i = a; i < a + size; i++)
			free &= !owner[i];
		if (free) {
			found = (int)a;
			if (lowest)
				break;
		}
	}
	return found;
}

static int free_node(void)
{
	for (int i = 0; i < SLOTS; i++)
		if (!nodes[i].next)
			return i;
	return -1;
}

static void step(struct sm__tree *t, struct sm__random *r)
{
	sm_addr a = sm__random_below(r, SLOTS), b = a + sm__random_below(r, 12);
	struct sm__tree_cursor c = sm__cursor(t);

	if (b >= SLOTS)
		b = SLOTS - 1;
	if (sm__random_below(r, 3)) {
		int n = free_node();
		struct sm__tree_item item = { &nodes[n], 0, a, b };

		/* I4: not strictly inside an old range */
		if (a > 0 && b < SLOTS - 1 && owner[a] && owner[a] == owner[b] &&
		    owner[a - 1] == owner[a] && owner[b + 1] == owner[b])
			return;
		t->ops->store(&c, &item);
		for (sm_addr i = a; i <= b; i++)
			owner[i] = n + 1;
		assert_ptr_equal(c.node, &nodes[n]);
	} else {
		/* I5: whole ranges */
		while (a > 0 && owner[a] && owner[a - 1] == owner[a])
			a--;
		while (b < SLOTS - 1 && owner[b] && owner[b + 1] == owner[b])
			b++;
		t->ops->erase(&c, a, b);
		for (sm_addr i = a; i <= b; i++)
			owner[i] = 0;
	}
}

static void compare(struct sm__tree *t, struct sm__random *r)
{
	struct sm__tree_cursor c = sm__cursor(t);
	sm_addr limits[2] = { sm__random_below(r, SLOTS), sm__random_below(r, SLOTS) }, at;
	uint64_t size = 1 + sm__random_below(r, 20);

	for (bool lowest = false;; lowest = true) {
		int (*gap)(struct sm__tree *, uint64_t, const sm_addr[2], sm_addr *) =
			lowest ? t->ops->gap_lowest : t->ops->gap_highest;
		int want = naive_gap(size, limits[0], limits[1], lowest);
		int err = gap(t, size, limits, &at);

		assert_int_equal(err, want < 0 ? -ENOENT : 0);
		if (!err)
			assert_int_equal(at, want);
		if (lowest)
			break;
	}
	for (int i = 0; i < SLOTS; i++) {
		struct sm__tree_node *n = t->ops->find(t, (sm_addr)i);

		assert_ptr_equal(n, owner[i] ? &nodes[owner[i] - 1] : NULL);
	}
	t->ops->seek(&c, 0);
	for (int i = 0; i < SLOTS;) {
		if (!owner[i]) {
			i++;
			continue;
		}
		assert_ptr_equal(c.node, &nodes[owner[i] - 1]);
		while (i < SLOTS && owner[i] == (int)(c.node - nodes) + 1)
			i++;
		t->ops->next(&c);
	}
	assert_null(c.node);
}

static void random_against_slots(void **state)
{
	struct sm__tree t = { .ops = &sm__tree_rb_ops };
	struct sm__random r;

	(void)state;
	sm__random_seed(&r, 20);
	assert_int_equal(t.ops->init(&t), 0);
	for (int i = 0; i < STEPS; i++) {
		const char *why;

		step(&t, &r);
		/* the array knows nothing above it: nothing is stored there, limits stay below */
		why = t.ops->validate(&t);
		if (why)
			fail_msg("step %d: %s", i, why);
		if (i % 16 == 0)
			compare(&t, &r);
	}
	t.ops->destroy(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_against_slots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
