/* SPDX-License-Identifier: MIT */
/* slot.c - taking a slot as a whole: one's own without waiting, others' with a fence. */
#include "cache/sequence.h"

#include <sched.h>

/* The pops and pushes that sequences noted in main's word go to the slot. */
static void account_main(struct sm__slot *slot, struct sm_sheaf *main)
{
	uint64_t word = atomic_load_explicit(&main->word, memory_order_relaxed);
	uint64_t size = word & 0xffff, pops = word >> 16;

	if (!main->capacity)
		return;
	atomic_store_explicit(&slot->nr_alloc,
			      atomic_load_explicit(&slot->nr_alloc, memory_order_relaxed) + pops,
			      memory_order_relaxed);
	atomic_store_explicit(&slot->nr_free,
			      atomic_load_explicit(&slot->nr_free, memory_order_relaxed) + size +
				      pops - main->base,
			      memory_order_relaxed);
	sm__sheaf_set_size(main, (uint32_t)size);
}

bool sm__slot_trylock(struct sm_cache *c, struct sm__held *held)
{
	bool ok = c->rseq ? sm__sequence_lock(c, held) : sm__exchange_lock(c, held);

	if (ok) {
		account_main(held->slot, held->main);
	} else {
		held->slot = NULL;
		sm__count(c, SM__COUNT_lock_busy, 1);
	}
	return ok;
}

void sm__slot_unlock(struct sm__held *held)
{
	sm__delay();
	/* release: pairs with G1 of sequence.h */
	atomic_store_explicit(&held->slot->main, held->main, memory_order_release);
	held->slot = NULL;
}

/* Waits for the holder; sequences may still be under way afterwards. */
static void claim(struct sm__slot *slot, struct sm__held *held)
{
	held->slot = slot;
	for (;;) {
		struct sm_sheaf *main = atomic_load_explicit(&slot->main, memory_order_relaxed);

		/* acquire: pairs with the release of the last holder */
		if (main != SM__LOCKED && atomic_compare_exchange_strong_explicit(
						  &slot->main, &main, SM__LOCKED,
						  memory_order_acquire, memory_order_relaxed)) {
			held->main = main;
			return;
		}
		sched_yield();
	}
}

void sm__slot_lock(struct sm_cache *c, unsigned int cpu, struct sm__held *held)
{
	claim(&c->slots[cpu], held);
	if (c->rseq)
		sm__percpu_fence();
	account_main(held->slot, held->main);
}

void sm__slot_lock_all(struct sm_cache *c)
{
	struct sm__held held;

	for (unsigned int i = 0; i < c->cpus; i++) {
		claim(&c->slots[i], &held);
		held.slot->saved = held.main;
	}
	if (c->rseq)
		sm__percpu_fence();
	for (unsigned int i = 0; i < c->cpus; i++)
		account_main(&c->slots[i], c->slots[i].saved);
}

void sm__slot_unlock_all(struct sm_cache *c)
{
	for (unsigned int i = c->cpus; i-- > 0;) {
		struct sm__held held = { &c->slots[i], c->slots[i].saved };

		sm__slot_unlock(&held);
	}
}
