/* SPDX-License-Identifier: MIT */
/*
 * torture_advice.c - advice while others fault, unmap and protect the same areas, run guest code in the
 * space, fork it, reclaim from it and merge its equal pages.
 *
 * The low half of every word that is written names its page, so that whatever is read must be zero or the
 * page's own: a frame that was freed too early and handed out again shows (advice.h I4). A page of the
 * private corner is written and advised by one thread alone: what it reads there is what it wrote, unless it
 * said otherwise itself; nobody else's advice reaches beyond its range. At the end the map and the tables are
 * valid, no swap slot is left, and every frame has come back.
 */
#include "torture/torture.h"
#include "samara/samara.h"
#include "samara/tlb.h"

#include "base/delay.h"
#include "base/random.h"
#include "space/soft.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 2048, CORNER = 64, ADVISERS = 2, VECTOR = 24 };
#define BASE 0x200000000000ull

static struct sm_host *host;
static struct sm_space *space;
static _Atomic uint64_t advised, touched, changed, forked, reclaimed, merged;

static void add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static sm_addr page_at(uint64_t page)
{
	return BASE + page * PAGE;
}

static uint64_t word_of(uint64_t page, uint64_t random)
{
	return random << 32 | (page + 1);
}

static void judge(uint64_t page, uint64_t word, const char *who)
{
	if (word && (uint32_t)word != page + 1)
		FAIL("%s read %#llx in page %llu", who, (unsigned long long)word,
		     (unsigned long long)page);
}

static const int advices[] = {
	SM_MADV_NORMAL,		 SM_MADV_RANDOM,	 SM_MADV_SEQUENTIAL,
	SM_MADV_WILLNEED,	 SM_MADV_DONTNEED,	 SM_MADV_DONTNEED,
	SM_MADV_DONTNEED,	 SM_MADV_FREE,		 SM_MADV_FREE,
	SM_MADV_MERGEABLE,	 SM_MADV_UNMERGEABLE,	 SM_MADV_HUGEPAGE,
	SM_MADV_NOHUGEPAGE,	 SM_MADV_DONTDUMP,	 SM_MADV_DODUMP,
	SM_MADV_WIPEONFORK,	 SM_MADV_KEEPONFORK,	 SM_MADV_DONTFORK,
	SM_MADV_DOFORK,		 SM_MADV_COLD,		 SM_MADV_PAGEOUT,
	SM_MADV_POPULATE_READ,	 SM_MADV_POPULATE_WRITE, SM_MADV_COLLAPSE,
	SM_MADV_GUARD_INSTALL,	 SM_MADV_GUARD_REMOVE,	 SM_MADV_GUARD_REMOVE,
	SM_MADV_DONTNEED_LOCKED, SM_MADV_SOFT_OFFLINE,
};
enum { ADVICES = sizeof(advices) / sizeof(advices[0]) };

static bool is_expected(int64_t result)
{
	static const int errors[] = { EINVAL, ENOMEM, EAGAIN, EFAULT, EIO };

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (result == -errors[i])
			return true;
	return result >= 0;
}

static struct sm_range random_range(struct sm__random *r)
{
	uint64_t most = sm__random_below(r, 8) ? 16 : 700;
	uint64_t first = CORNER + sm__random_below(r, PAGES - CORNER);
	uint64_t n = 1 + sm__random_below(r, most);

	return (struct sm_range){ page_at(first), n * PAGE };
}

static void *adviser(void *arg)
{
	struct sm__random r;

	sm__random_seed(&r, (uintptr_t)arg);
	while (going()) {
		int advice = advices[sm__random_below(&r, ADVICES)];
		struct sm_range v[VECTOR];
		uint64_t n = sm__random_below(&r, VECTOR);
		int64_t result;

		for (unsigned i = 0; i <= n; i++)
			v[i] = random_range(&r);
		result = n ? sm_process_madvise(space, space, v, n, advice, 0)
			   : sm_madvise(space, v[0].addr, v[0].length, advice);
		if (!is_expected(result))
			FAIL("advice %d answered %lld", advice, (long long)result);
		add(&advised, n + 1);
	}
	return NULL;
}

static void *toucher(void *arg)
{
	struct sm__random r;

	sm__random_seed(&r, (uintptr_t)arg);
	while (going()) {
		uint64_t page = CORNER + sm__random_below(&r, PAGES - CORNER);
		uint64_t word = word_of(page, sm__random_next(&r));

		if (sm__random_below(&r, 2)) {
			(void)sm_write(space, page_at(page), &word, sizeof(word), NULL);
		} else if (sm_read(space, page_at(page), &word, sizeof(word), NULL) ==
			   sizeof(word)) {
			judge(page, word, "a copy");
		}
		add(&touched, 1);
	}
	return NULL;
}

/* The one user of the corner: exact contents. */
static void *owner(void *arg)
{
	uint64_t want[CORNER] = { 0 };
	bool maybe[CORNER] = { false }; /* lazily freed: zero is right too */
	struct sm__random r;

	sm__random_seed(&r, (uintptr_t)arg);
	while (going()) {
		uint64_t page = sm__random_below(&r, CORNER), word = 0;

		switch (sm__random_below(&r, 6)) {
		case 0:
			if (sm_madvise(space, page_at(page), PAGE, SM_MADV_DONTNEED) == 0) {
				want[page] = 0;
				maybe[page] = false;
			}
			break;
		case 1:
			maybe[page] = maybe[page] ||
				      sm_madvise(space, page_at(page), PAGE, SM_MADV_FREE) == 0;
			break;
		case 2:
			(void)sm_madvise(space, page_at(page), PAGE,
					 sm__random_below(&r, 2) ? SM_MADV_PAGEOUT : SM_MADV_COLD);
			break;
		case 3:
			word = word_of(page, sm__random_next(&r));
			if (sm_write(space, page_at(page), &word, sizeof(word), NULL) !=
			    sizeof(word))
				break;
			want[page] = word;
			maybe[page] = false;
			break;
		default:
			if (sm_read(space, page_at(page), &word, sizeof(word), NULL) !=
			    sizeof(word))
				break;
			if (word != want[page] && !(maybe[page] && !word))
				FAIL("corner page %llu holds %#llx, not %#llx",
				     (unsigned long long)page, (unsigned long long)word,
				     (unsigned long long)want[page]);
			if (!word)
				want[page] = 0;
			break;
		}
	}
	return NULL;
}

/* Guest code: host pointers through a TLB, used until the next checkpoint. */
static void *guest(void *arg)
{
	struct sm__random r;
	struct sm_tlb *tlb;
	uint64_t *word;

	sm__random_seed(&r, (uintptr_t)arg);
	if (sm_tlb_create(space, &tlb))
		return NULL;
	sm_tlb_run(tlb);
	while (going()) {
		uint64_t page = CORNER + sm__random_below(&r, PAGES - CORNER);
		enum sm_access access = sm__random_below(&r, 2) ? SM_ACCESS_WRITE : SM_ACCESS_READ;
		void *p = sm_translate(tlb, page_at(page), access);

		if (!p) {
			struct sm_fault_result f = sm_tlb_fill(tlb, page_at(page), access, &p);

			if (f.error || f.signo) {
				if (f.error == -EINVAL)
					sm_tlb_run(tlb);
				sm_tlb_run(tlb);
				continue;
			}
		}
		/* The second word is the guests' alone. relaxed: there are two of them. */
		word = (uint64_t *)p + 1;
		if (access == SM_ACCESS_WRITE)
			__atomic_store_n(word, word_of(page, sm__random_next(&r)),
					 __ATOMIC_RELAXED);
		else
			judge(page, __atomic_load_n(word, __ATOMIC_RELAXED), "a guest");
		sm_tlb_checkpoint(tlb);
		add(&touched, 1);
	}
	sm_tlb_stop(tlb);
	sm_tlb_destroy(tlb);
	return NULL;
}

static void map_again(sm_addr at, uint64_t length)
{
	(void)sm_mmap(space, at, length, SM_PROT_READ | SM_PROT_WRITE,
		      SM_MAP_PRIVATE | SM_MAP_ANONYMOUS | SM_MAP_FIXED, NULL, 0);
}

static void *mapper(void *arg)
{
	static const int prots[] = { SM_PROT_NONE, SM_PROT_READ, SM_PROT_READ | SM_PROT_WRITE,
				     SM_PROT_READ | SM_PROT_WRITE };
	struct sm__random r;

	sm__random_seed(&r, (uintptr_t)arg);
	while (going()) {
		struct sm_range v = random_range(&r);

		if (v.addr + v.length > page_at(PAGES))
			v.length = page_at(PAGES) - v.addr;
		switch (sm__random_below(&r, 4)) {
		case 0:
			(void)sm_munmap(space, v.addr, v.length);
			break;
		case 1:
			(void)sm_mprotect(space, v.addr, v.length, prots[sm__random_below(&r, 4)]);
			break;
		case 2:
			if (sm__random_below(&r, 2))
				(void)sm_mlock2(space, v.addr, v.length, SM_MLOCK_ONFAULT);
			else
				(void)sm_munlock(space, v.addr, v.length);
			break;
		default:
			map_again(v.addr, v.length);
			break;
		}
		add(&changed, 1);
	}
	return NULL;
}

static void check_child(struct sm_space *child, struct sm__random *r)
{
	for (int i = 0; i < 40; i++) {
		uint64_t page = CORNER + sm__random_below(r, PAGES - CORNER), word;

		if (sm_read(child, page_at(page), &word, sizeof(word), NULL) == sizeof(word))
			judge(page, word, "a child");
	}
	(void)sm_madvise(child, page_at(0), PAGES * PAGE, SM_MADV_DONTNEED);
}

/* What works on all spaces, and what makes more of them. */
static void *keeper(void *arg)
{
	struct sm__random r;

	sm__random_seed(&r, (uintptr_t)arg);
	while (going()) {
		struct sm_space *child;

		switch (sm__random_below(&r, 3)) {
		case 0:
			add(&reclaimed, sm_reclaim(host, 1 + sm__random_below(&r, 256)));
			break;
		case 1:
			add(&merged, sm_merge_pass(host));
			break;
		default:
			child = sm_fork(space);
			if (child) {
				check_child(child, &r);
				sm_space_destroy(child);
				add(&forked, 1);
			}
			break;
		}
	}
	return NULL;
}

static void make_space(const char *design)
{
	struct sm_host_options o;
	struct sm_space_options so;
	int fd = memfd_create("swap", 0);

	sm_host_options_init(&o);
	o.frame_bytes = 32ull << 20;
	host = sm_host_create(&o, NULL);
	sm_space_options_init(&so);
	so.backend = SM_BACKEND_SOFT;
	so.capabilities = SM_CAP_ADMIN | SM_CAP_IPC_LOCK;
	if (!host || ftruncate(fd, 8 << 20) || sm_host_swap_on(host, fd, 8 << 20) ||
	    sm_design_parse(design, &so.design, NULL, 0))
		exit(1);
	close(fd);
	space = sm_space_create(host, &so, NULL);
	if (!space)
		exit(1);
	map_again(BASE, (uint64_t)PAGES * PAGE);
}

static void check_end(void)
{
	const char *wrong = sm__space_check(space);
	struct sm__memory *m = sm__host_memory(host);
	struct sm__pool_stats stats;

	if (wrong)
		FAIL("the map: %s", wrong);
	if (!sm__mm_is_valid(sm__space_mm(space)))
		FAIL("the page tables are not valid");
	sm_space_destroy(space);
	sm__rcu_barrier();
	if (sm__swap_used(m))
		FAIL("%llu swap slots are left", (unsigned long long)sm__swap_used(m));
	sm__pool_stats(m->pool, &stats);
	if (stats.in_use)
		FAIL("%llu frames were lost", (unsigned long long)stats.in_use);
	if (sm_host_destroy(host))
		FAIL("the host is still in use");
}

static void run(const char *design, uint64_t seed, double seconds)
{
	void *(*const bodies[])(void *) = { adviser, adviser, toucher, owner,
					    guest,   guest,   mapper,  keeper };
	enum { THREADS = sizeof(bodies) / sizeof(bodies[0]) };
	pthread_t thread[THREADS];

	make_space(design);
	torture_again();
	sm__delay_seed(seed, 200);
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, bodies[i], (void *)(seed * 100 + i)))
			exit(1);
	torture_for(seconds);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	sm__delay_seed(seed, 0);
	check_end();
	printf("%s: %llu advised, %llu touched, %llu changed, %llu forked, %llu reclaimed, %llu "
	       "merged\n",
	       design, (unsigned long long)advised, (unsigned long long)touched,
	       (unsigned long long)changed, (unsigned long long)forked,
	       (unsigned long long)reclaimed, (unsigned long long)merged);
	if (!advised || !touched || !changed)
		FAIL("nobody got anywhere");
}

int main(int argc, char **argv)
{
	static const char *const all[] = { "samara", "linux-6.16", "linux-5.19" };
	const char *const *designs = all;
	size_t n;

	torture_begin("torture_advice", argc, argv);
	n = torture_designs(&designs, SM__ARRAY_SIZE(all));
	for (size_t i = 0; i < n && !torture.failed; i++)
		run(designs[i], torture.seed + i, torture.seconds / (double)n);
	return torture_end();
}
