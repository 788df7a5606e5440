/* SPDX-License-Identifier: MIT */
/*
 * maple_publish.cc - Relacy model of what a reader of the maple tree relies on: publish, mark dead,
 * check again (walk.c G1, G2, G4; pool.c G1; cursor.c G1).
 *
 * One inner node with one child slot, leaves that are filled before they are published, and a value
 * that the writer changes twice: first in place (C1 of node.h), then with a new leaf (C2, C3). A
 * cursor that stands on a leaf takes two steps; a look-up runs beside it. Checked in every
 * interleaving the scheduler tries, with the reorderings of the C++ memory model:
 *   - a leaf is read whole: `first` is plain memory, so an access that races is reported (G1)
 *   - a look-up that begins after a store has returned sees it (G2)
 *   - a step that finds its leaf dead and walks again does not come to the same leaf (G4): no live
 *     lock
 *   - a reader never goes back in time
 *
 * maple_publish            must pass
 * maple_publish relaxed    the mutant that publishes with a relaxed store: must fail
 * maple_publish early      the mutant that marks dead before it publishes: must fail
 */
#include <relacy/relacy_std.hpp>
#include <string.h>

static bool mutant_relaxed, mutant_early;

struct leaf {
	rl::var<int> first; /* immutable once published */
	std::atomic<int> value;
	std::atomic<int> dead;
};

struct publish : rl::test_suite<publish, 3> {
	leaf leaves[2];
	std::atomic<leaf *> child;
	std::atomic<int> returned; /* the last store that has returned */

	void before()
	{
		leaves[0].first($) = 10;
		leaves[0].value($).store(1, rl::mo_relaxed);
		leaves[0].dead($).store(0, rl::mo_relaxed);
		leaves[1].dead($).store(0, rl::mo_relaxed);
		child($).store(&leaves[0], rl::mo_relaxed);
		returned($).store(1, rl::mo_relaxed);
	}

	void writer()
	{
		/* In place. */
		leaves[0].value($).store(2, rl::mo_release);
		returned($).store(2, rl::mo_release);
		/* A new leaf: filled, published, the old one marked. */
		leaves[1].first($) = 10;
		leaves[1].value($).store(3, rl::mo_relaxed);
		if (mutant_early)
			leaves[0].dead($).store(1, rl::mo_release);
		child($).store(&leaves[1], mutant_relaxed ? rl::mo_relaxed : rl::mo_release);
		if (!mutant_early)
			leaves[0].dead($).store(1, rl::mo_release);
		returned($).store(3, rl::mo_release);
	}

	leaf *walk(int *value)
	{
		leaf *l = child($).load(rl::mo_acquire);

		RL_ASSERT(int(l->first($)) == 10);
		*value = l->value($).load(rl::mo_acquire);
		return l;
	}

	void lookups()
	{
		int seen = 0, value;

		for (int i = 0; i < 2; i++) {
			int least = returned($).load(rl::mo_acquire);

			walk(&value);
			RL_ASSERT(value >= least && value >= seen);
			seen = value;
		}
	}

	void cursor()
	{
		int value;
		leaf *l = walk(&value);

		for (int i = 0; i < 2; i++) {
			int least = returned($).load(rl::mo_acquire);
			int step = l->value($).load(rl::mo_acquire);

			if (l->dead($).load(rl::mo_acquire)) {
				leaf *old = l;

				l = walk(&step);
				RL_ASSERT(l != old);
			}
			RL_ASSERT(step >= least && step >= value);
			value = step;
		}
	}

	void thread(unsigned index)
	{
		if (index == 0)
			writer();
		else if (index == 1)
			lookups();
		else
			cursor();
	}
};

int main(int argc, char **argv)
{
	rl::test_params p;

	mutant_relaxed = argc > 1 && !strcmp(argv[1], "relaxed");
	mutant_early = argc > 1 && !strcmp(argv[1], "early");
	p.iteration_count = 200000;
	p.search_type = rl::random_scheduler_type;
	return rl::simulate<publish>(p) ? 0 : 1;
}
