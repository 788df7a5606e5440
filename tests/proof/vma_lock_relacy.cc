/* SPDX-License-Identifier: MIT */
/*
 * vma_lock_relacy.cc - Relacy model of the memory orders of the VMA lock (src/space/vma_lock.h G1 to G3):
 * a writer attaches a VMA, then changes it under its stamp; two readers pin it and read its fields, which
 * are plain memory, so that every access that is not ordered is reported as a race.
 *
 * vma_lock_relacy              must pass
 * vma_lock_relacy unlock       the mutant whose unlock bumps the sequence relaxed (bug B1): must fail
 * vma_lock_relacy attach       the mutant that attaches and shows the VMA relaxed (bug B2): must fail
 * vma_lock_relacy increment    the mutant whose reader pins relaxed: must fail
 * vma_lock_relacy decrement    the mutant whose reader lets go relaxed: must fail
 */
#include <relacy/relacy_std.hpp>
#include <string.h>

static const char *mutant = "";

static rl::memory_order order(const char *name, rl::memory_order right)
{
	return strcmp(mutant, name) == 0 ? rl::mo_relaxed : right;
}

enum { FLAG = 1 << 10, LIMIT = FLAG - 1 };

struct vma_lock : rl::test_suite<vma_lock, 3> {
	std::atomic<int> refcnt, lock_seq, seq, visible;
	rl::var<int> start, end;

	void before()
	{
		refcnt($).store(0, rl::mo_relaxed);
		lock_seq($).store(-1, rl::mo_relaxed);
		seq($).store(0, rl::mo_relaxed);
		visible($).store(0, rl::mo_relaxed);
	}

	void attach()
	{
		seq($).store(1, rl::mo_relaxed);
		start($) = 1;
		end($) = 1;
		lock_seq($).store(1, rl::mo_relaxed); /* detached: nobody to wait for */
		refcnt($).store(1, order("attach", rl::mo_release));
		visible($).store(1, order("attach", rl::mo_release)); /* the tree's store */
		seq($).store(2, order("unlock", rl::mo_release));
	}

	void change()
	{
		rl::linear_backoff wait;

		seq($).store(3, rl::mo_relaxed);
		refcnt($).fetch_add(FLAG, rl::mo_seq_cst);
		while (refcnt($).load(rl::mo_acquire) != FLAG + 1)
			wait.yield($);
		lock_seq($).store(3, rl::mo_relaxed);
		refcnt($).fetch_sub(FLAG, rl::mo_release);
		start($) = 2;
		end($) = 2;
		seq($).store(4, order("unlock", rl::mo_release));
	}

	void let_go()
	{
		refcnt($).fetch_sub(1, order("decrement", rl::mo_seq_cst));
	}

	void read()
	{
		int n;

		if (!visible($).load(order("attach", rl::mo_acquire)))
			return;
		n = refcnt($).load(rl::mo_relaxed);
		do {
			if (n == 0 || n >= LIMIT)
				return;
		} while (!refcnt($).compare_exchange_weak(
			n, n + 1, order("increment", rl::mo_acquire), rl::mo_relaxed));
		if (seq($).load(rl::mo_acquire) == lock_seq($).load(rl::mo_relaxed)) {
			let_go();
			return;
		}
		RL_ASSERT(int(start($)) == int(end($)));
		let_go();
	}

	void thread(unsigned index)
	{
		if (index == 0) {
			attach();
			change();
		} else {
			read();
			read();
		}
	}
};

int main(int argc, char **argv)
{
	rl::test_params p;

	if (argc > 1)
		mutant = argv[1];
	p.iteration_count = 100000;
	p.search_type = rl::sched_random;
	return rl::simulate<vma_lock>(p) ? 0 : 1;
}
