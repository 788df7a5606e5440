/* SPDX-License-Identifier: MIT */
/* tlb.c - software TLBs and their shoot-down (protocol and invariants: tlb.h; model:
 * tests/proof/tlb_ack.pml). */
#include "memory/tlb.h"
#include "base/delay.h"
#include "base/inject.h"
#include "base/thread.h"

#include <linux/futex.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	SPINS = 400,	    /* about 10 us of pause: most guests reach a checkpoint sooner */
	SLEEP_NS = 1000000, /* then the guest is kicked again */
};

/* What a TLB that is not running translates with: no page address is all ones. */
static const struct sm_tlb_entry nothing[SM_TLB_ENTRIES] = {
	[0 ... SM_TLB_ENTRIES - 1] = { { UINT64_MAX, UINT64_MAX, UINT64_MAX }, 0 },
};

/* Initial-exec: a function call less where the library is shared. */
static _Thread_local struct sm_tlb *current __attribute__((tls_model("initial-exec")));

void sm__tlb_domain_init(struct sm__tlb_domain *d)
{
	memset(d, 0, sizeof(*d));
	d->generation = 1;
	sm__list_init(&d->tlbs);
}

/* link[] of the public struct is a list node. */
static struct sm__list *node_of(struct sm_tlb *tlb)
{
	return (struct sm__list *)(void *)tlb->link;
}

static struct sm_tlb *tlb_of(struct sm__list *node)
{
	return sm__container_of(node, struct sm_tlb, link);
}

static void drop_all(struct sm_tlb *tlb)
{
	memset(tlb->entries, 0xff, sizeof(tlb->entries));
	tlb->flushes++;
}

struct sm_tlb *sm__tlb_new(struct sm__tlb_domain *d, uint8_t page_shift, struct sm_space *space)
{
	struct sm_tlb *tlb;

	if (sm__inject_fail())
		return NULL;
	tlb = aligned_alloc(_Alignof(struct sm_tlb), sizeof(*tlb));
	if (!tlb)
		return NULL;
	memset(tlb, 0, sizeof(*tlb));
	drop_all(tlb);
	tlb->table = nothing;
	tlb->page_shift = page_shift;
	tlb->page_mask = ~((1ull << page_shift) - 1);
	tlb->generation = &d->generation;
	tlb->domain = d;
	tlb->space = space;
	sm__spin_lock(&d->lock);
	sm__list_add_tail(&d->tlbs, node_of(tlb));
	/* acq_rel: pairs with the read-modify-write in shoot(), one of the two sees the other */
	atomic_fetch_add_explicit(&d->nr, 1, memory_order_acq_rel);
	tlb->seen = __atomic_load_n(&d->generation, __ATOMIC_RELAXED);
	sm__spin_unlock(&d->lock);
	return tlb;
}

void sm__tlb_free(struct sm_tlb *tlb)
{
	struct sm__tlb_domain *d = tlb->domain;

	if (tlb == current)
		sm__tlb_park_current();
	sm__spin_lock(&d->lock);
	sm__list_del(node_of(tlb));
	for (unsigned k = 0; k < SM__ARRAY_SIZE(d->rss); k++)
		d->rss[k] += tlb->rss[k];
	/* release: pairs with shoot(), which then need not wait for what this TLB has written */
	atomic_fetch_sub_explicit(&d->nr, 1, memory_order_release);
	sm__spin_unlock(&d->lock);
	/* acquire: pairs with the release of a waiter's unpin */
	while (__atomic_load_n(&tlb->pins, __ATOMIC_ACQUIRE))
		sched_yield();
	free(tlb);
}

int64_t sm__tlb_rss(struct sm__tlb_domain *d, unsigned kind)
{
	int64_t sum;

	sm__spin_lock(&d->lock);
	sum = d->rss[kind];
	for (struct sm__list *l = d->tlbs.next; l != &d->tlbs; l = l->next)
		sum += __atomic_load_n(&tlb_of(l)->rss[kind], __ATOMIC_RELAXED);
	sm__spin_unlock(&d->lock);
	return sum;
}

/* ---------------------------------------------------------------- the runner */

static void wake_waiters(struct sm_tlb *tlb)
{
	/* seq_cst with the store before it: pairs with "waiters, then done?" in sleep_for() */
	if (sm__likely(!__atomic_load_n(&tlb->waiters, __ATOMIC_SEQ_CST)))
		return;
	__atomic_fetch_add(&tlb->wake, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &tlb->wake, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	/*
	 * Somebody slept because this guest had no CPU. It has one now, often the sleeper's, and would
	 * keep it for a time slice: several milliseconds in which the other waits for a CPU.
	 */
	sched_yield();
}

static void drop_range(struct sm_tlb *tlb, sm_addr start, sm_addr end)
{
	uint64_t pages = (end - start) >> tlb->page_shift;
	unsigned at = (unsigned)(start >> tlb->page_shift) & (SM_TLB_ENTRIES - 1);

	tlb->drops++;
	if (pages > SM_TLB_ENTRIES)
		pages = SM_TLB_ENTRIES;
	for (uint64_t i = 0; i < pages; i++) {
		struct sm_tlb_entry *e = &tlb->entries[(at + i) & (SM_TLB_ENTRIES - 1)];

		for (unsigned k = 0; k < 3; k++)
			if (e->tag[k] - start < end - start)
				e->tag[k] = UINT64_MAX;
	}
}

/* Drops what generations (seen, now] took away (I2, I4). */
static void catch_up(struct sm_tlb *tlb, uint64_t now)
{
	struct sm__tlb_domain *d = tlb->domain;
	uint64_t seen = __atomic_load_n(&tlb->seen, __ATOMIC_RELAXED);

	if (now == seen)
		return;
	if (now - seen > SM__TLB_RING / 2) {
		drop_all(tlb);
	} else {
		for (uint64_t g = seen + 1; g <= now; g++) {
			/* acquire: pairs with the release in shoot(), so that a lap shows below */
			sm_addr start = atomic_load_explicit(&d->ring[g % SM__TLB_RING].start,
							     memory_order_acquire);
			sm_addr end = atomic_load_explicit(&d->ring[g % SM__TLB_RING].end,
							   memory_order_acquire);

			drop_range(tlb, start, end);
		}
		/* The slot of seen + 1 is written again when generation is seen + 64 already
		 * announced. */
		if (__atomic_load_n(&d->generation, __ATOMIC_ACQUIRE) - seen >= SM__TLB_RING - 1)
			drop_all(tlb);
	}
	/* seq_cst (release): guest accesses before it happen before the shooter's freeing */
	__atomic_store_n(&tlb->seen, now, __ATOMIC_SEQ_CST);
	sm__delay();
	wake_waiters(tlb);
}

static void start_running(struct sm_tlb *tlb)
{
	/* I3: state before generation */
	__atomic_store_n(&tlb->state, SM__TLB_RUNNING, __ATOMIC_SEQ_CST);
	sm__delay();
	catch_up(tlb, __atomic_load_n(tlb->generation, __ATOMIC_SEQ_CST));
	tlb->table = tlb->entries;
	current = tlb;
	sm__thread_leave_guest = sm__tlb_park_current;
}

static void stop_running(struct sm_tlb *tlb, enum sm__tlb_state state)
{
	tlb->table = nothing;
	current = NULL;
	sm__thread_leave_guest = NULL;
	__atomic_store_n(&tlb->state, state, __ATOMIC_SEQ_CST);
	wake_waiters(tlb);
}

void sm__tlb_park_current(void)
{
	if (current)
		stop_running(current, SM__TLB_PARKED);
}

bool sm__tlb_is_quiet(void)
{
	return !current;
}

bool sm__tlb_resume_slow(struct sm_tlb *tlb)
{
	if (__atomic_load_n(&tlb->state, __ATOMIC_RELAXED) == SM__TLB_IDLE)
		return false;
	sm__tlb_park_current();
	start_running(tlb);
	return true;
}

void sm_tlb_run(struct sm_tlb *tlb)
{
	if (current == tlb)
		return;
	sm__tlb_park_current();
	start_running(tlb);
}

void sm_tlb_stop(struct sm_tlb *tlb)
{
	if (current == tlb)
		stop_running(tlb, SM__TLB_IDLE);
	else
		__atomic_store_n(&tlb->state, SM__TLB_IDLE, __ATOMIC_SEQ_CST);
}

void sm__tlb_checkpoint(struct sm_tlb *tlb)
{
	/* A parked TLB catches up when it resumes. */
	if (current == tlb)
		catch_up(tlb, __atomic_load_n(tlb->generation, __ATOMIC_SEQ_CST));
}

/* ---------------------------------------------------------------- the shooter */

uint64_t sm__tlb_shoot(struct sm__tlb_domain *d, sm_addr start, sm_addr end)
{
	uint64_t g;

	/* acq_rel: pairs with the add in sm__tlb_new: a TLB made after this one starts from the new
	 * entries. */
	if (!atomic_fetch_add_explicit(&d->nr, 0, memory_order_acq_rel))
		return 0;
	sm__spin_lock(&d->lock);
	g = __atomic_load_n(&d->generation, __ATOMIC_RELAXED) + 1;
	atomic_store_explicit(&d->ring[g % SM__TLB_RING].start, start, memory_order_release);
	atomic_store_explicit(&d->ring[g % SM__TLB_RING].end, end, memory_order_release);
	sm__delay();
	__atomic_store_n(&d->generation, g, __ATOMIC_SEQ_CST);
	sm__spin_unlock(&d->lock);
	atomic_fetch_add_explicit(&d->shots, 1, memory_order_relaxed);
	return g;
}

static bool has_acknowledged(struct sm_tlb *tlb, uint64_t g)
{
	/* seq_cst (acquire): pairs with the stores of seen and state by the runner (I3) */
	return __atomic_load_n(&tlb->state, __ATOMIC_SEQ_CST) != SM__TLB_RUNNING ||
	       __atomic_load_n(&tlb->seen, __ATOMIC_SEQ_CST) >= g;
}

static void sleep_for(struct sm_tlb *tlb, uint64_t g)
{
	struct timespec slice = { .tv_nsec = SLEEP_NS };
	uint32_t word = __atomic_load_n(&tlb->wake, __ATOMIC_SEQ_CST);

	__atomic_fetch_add(&tlb->waiters, 1, __ATOMIC_SEQ_CST);
	if (!has_acknowledged(tlb, g))
		syscall(SYS_futex, &tlb->wake, FUTEX_WAIT_PRIVATE, word, &slice, NULL, 0);
	__atomic_fetch_sub(&tlb->waiters, 1, __ATOMIC_SEQ_CST);
}

static void wait_for_one(struct sm__tlb_domain *d, struct sm_tlb *tlb, uint64_t g)
{
	for (unsigned spins = 0; spins < SPINS; spins++) {
		if (has_acknowledged(tlb, g))
			return;
		sm__cpu_relax();
	}
	atomic_fetch_add_explicit(&d->waits, 1, memory_order_relaxed);
	while (!has_acknowledged(tlb, g)) {
		if (d->kick)
			d->kick(d->kick_arg, tlb);
		sleep_for(tlb, g);
	}
}

/* Pins up to max TLBs that have to be waited for. */
static unsigned pin_late(struct sm__tlb_domain *d, uint64_t g, struct sm_tlb **late, unsigned max)
{
	unsigned n = 0;

	sm__spin_lock(&d->lock);
	for (struct sm__list *l = d->tlbs.next; l != &d->tlbs && n < max; l = l->next) {
		struct sm_tlb *tlb = tlb_of(l);

		if (has_acknowledged(tlb, g))
			continue;
		__atomic_fetch_add(&tlb->pins, 1, __ATOMIC_RELAXED);
		late[n++] = tlb;
	}
	sm__spin_unlock(&d->lock);
	return n;
}

void sm__tlb_wait(struct sm__tlb_domain *d, uint64_t g)
{
	struct sm_tlb *late[16];
	unsigned n;

	if (!g)
		return;
	SM_ASSERT(sm__tlb_is_quiet());
	do {
		n = pin_late(d, g, late, SM__ARRAY_SIZE(late));
		for (unsigned i = 0; i < n; i++) {
			wait_for_one(d, late[i], g);
			/* release: pairs with the acquire in sm__tlb_free */
			__atomic_fetch_sub(&late[i]->pins, 1, __ATOMIC_RELEASE);
		}
	} while (n == SM__ARRAY_SIZE(late));
}
