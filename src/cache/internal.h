/* SPDX-License-Identifier: MIT */
/*
 * internal.h - what the files of src/cache share: sheaf, slot, barn, cache.
 *
 *	          CPU 0                CPU 1
 *	    +---------------+    +---------------+
 *	    | main     [o o]|    | main     [o  ]|   pop and push: sequence.h
 *	    | spare    [ooo]|    | spare    [   ]|
 *	    | rcu_free [o  ]|    | rcu_free      |--- full: one grace period ---+
 *	    +-------+-------+    +-------+-------+                              |
 *	            |  full for empty,   |                                      |
 *	            |  empty for full    |                                      |
 *	    +-------+--------------------+-------+                              |
 *	    | barn of the node: [ooo][ooo] [ ][ ]|<-----------------------------+
 *	    +-------+----------------------------+
 *	            |  refill, flush (raw: never back into a sheaf)
 *	    +-------+----------------------------+
 *	    | slabs of the node                  |<--- objects of other nodes, directly
 *	    +------------------------------------+
 *
 * Invariants:
 * I1 Objects outside the slabs = with users + in main, spare and rcu_free of all slots + in the barns
 *    + in borrowed sheaves + in rcu sheaves in flight + deferred by their slabs.
 * I2 A slot belongs to whoever replaced its main by the locked sheaf, until it stores a sheaf again.
 *    All other changes of a slot, and of the sheaves in it, are the single stores of sequence.h.
 * I3 A slot is never held across making a sheaf, a refill, a flush or the making of a slab. After it
 *    is held again everything is judged anew: another CPU, another main, another spare.
 * I4 The flush of a sheaf frees to slabs only (sm__slab_free); no path leads from there to a sheaf.
 * I5 A sheaf's rcu head, next pointer and byte count share memory: in flight, in a barn, borrowed
 *    oversize; a sheaf is in one of these places only, and each sets what it reads.
 * I6 A call that interrupted another one on its thread (depth > 1) waits for no lock.
 *
 * Lock order: list of caches, slots by number, barns by node, nodes of slabs.
 *
 * Letters: E the slot's exclusion (I2); S single stores of sequences or E; B the barn's lock; A atomic,
 * any thread; O whoever owns the sheaf; fixed: set at creation.
 */
#ifndef SM_CACHE_INTERNAL_H
#define SM_CACHE_INTERNAL_H

#include "base/percpu.h"
#include "cache/slab.h"

#include <samara/cache.h>

/* The two calls that matter leave the frame pointer alone: a tenth of their instructions. */
#if defined(__GNUC__) && !defined(__clang__)
#define SM__NO_FRAME __attribute__((optimize("omit-frame-pointer")))
#else
#define SM__NO_FRAME
#endif

struct sm_sheaf {
	/* Bits 0..15: how many objects. From 16 up: pops since installed, so that they cost nothing. */
	_Atomic uint64_t word; /* S */
	uint32_t capacity;     /* fixed; 0 for the two static sheaves */
	uint32_t base;	       /* E or O: size when counting began; pushes = size + pops - base */
	uintptr_t tag;	       /* layer=slab: the slab all objects are of (its memory); E */
	struct sm_cache *cache;
	union {			       /* I5 */
		struct rcu_head rcu;   /* in flight */
		struct sm_sheaf *next; /* in a barn: B */
		size_t bytes;	       /* oversize: of its mapping */
	};
	uint16_t node;	 /* rcu sheaf: whose barn it goes to */
	bool oversize;	 /* O */
	void *objects[]; /* S */
};

enum { SM__SHEAF_POP = 1 << 16 }; /* one pop in word */

/* All a CPU has of a cache. */
struct sm__slot {
	_Atomic(struct sm_sheaf *) main;     /* S, I2: the lock word */
	_Atomic(struct sm_sheaf *) rcu_free; /* E; NULL or not full, or full for a moment */
	struct sm_sheaf *spare;		     /* S; NULL or any fill */
	uint32_t node;			     /* fixed */
	uint32_t nr_partial;		     /* E: layer=slab */
	struct sm__list partial;	     /* E: layer=slab: frozen slabs with objects */
	struct sm_sheaf *saved;		     /* E: main, while all slots are held */
	_Atomic int64_t rcu_since; /* E to write: ms, when rcu_free got its first object */
	_Atomic uint64_t nr_alloc; /* E: pops of sheaves that are no longer main */
	_Atomic uint64_t nr_free;  /* E: pushes likewise */
} __attribute__((aligned(128)));   /* two lines: the adjacent one is prefetched with it */

enum { SM__SLOT_SHIFT = 7 };
_Static_assert(sizeof(struct sm__slot) == 1 << SM__SLOT_SHIFT, "sequence.h scales by this");

struct sm__barn {
	struct sm__spin lock;
	_Atomic uint32_t nr_full;  /* B; read without to save the lock */
	_Atomic uint32_t nr_empty; /* B; likewise */
	struct sm_sheaf *full;	   /* B: last in, first out */
	struct sm_sheaf *empty;	   /* B: last in, first out */
	uint32_t max_full;	   /* fixed */
	uint32_t max_empty;	   /* fixed */
} __attribute__((aligned(128)));

enum sm__counter {
#define SM__COUNTER_NUMBER(name, what) SM__COUNT_##name,
	SM_CACHE_COUNTERS(SM__COUNTER_NUMBER)
#undef SM__COUNTER_NUMBER
		SM__COUNTERS,
};

struct sm__counters {
	_Atomic uint64_t n[SM__COUNTERS];
} __attribute__((aligned(128)));

struct sm_cache {
	/* Read by every call; fixed. */
	struct sm__slot *slots;
	uint32_t
		pop_cpus; /* CPUs for the inlined sequence of alloc; 0 with the trylock: it fails */
	uint32_t push_cpus; /* CPUs for that of free; 0 where free has to look at the object too */
	uint32_t cpus;
	bool rseq;
	bool nodes_matter; /* more than one node: a free looks where the object is from */
	bool layer_slab;
	bool barns_absent;
	bool rcu_sheaves;
	ptrdiff_t rseq_offset;
	uintptr_t slab_mask; /* layer=slab: address & mask is the tag of its slab */
	struct sm__slab_class objects;

	struct sm__slab_class sheaves;
	uint32_t capacity;
	uint32_t nodes;
	uint32_t rcu_age_ms;
	uint32_t cpu_partial; /* layer=slab: slabs on a CPU's partial list */
	struct sm__barn *barns;
	struct sm__counters *counters;	/* [cpus] */
	_Atomic uint64_t rcu_in_flight; /* A: objects in submitted sheaves */
	_Atomic uint64_t oversize; /* A: borrowed oversize sheaves; others are counted by slabs */
	struct sm__list link;	   /* list of caches */
	size_t map_bytes;
	struct sm_cache_options options;
	char name[32];
};

/* --- nesting (I6) --- */
extern _Thread_local unsigned int sm__cache_depth __attribute__((tls_model("initial-exec")));

/* True: we may wait, no interrupted frame of this thread is inside the cache. */
static inline bool sm__cache_enter(void)
{
	bool outermost = sm__cache_depth++ == 0;

	atomic_signal_fence(memory_order_seq_cst); /* a handler of this thread sees the depth */
	return outermost;
}

static inline void sm__cache_leave(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	sm__cache_depth--;
}

/* --- sheaf.c --- */
/* Neither has objects or room, so pop and push find them empty and full at once; never written. */
extern const struct sm_sheaf sm__sheaf_locked, sm__sheaf_none;
#define SM__LOCKED   ((struct sm_sheaf *)&sm__sheaf_locked) /* main of a slot that is held */
#define SM__NO_SHEAF ((struct sm_sheaf *)&sm__sheaf_none)   /* main of a slot without a sheaf */

static inline uint32_t sm__sheaf_size(const struct sm_sheaf *s)
{
	return (uint32_t)(atomic_load_explicit(&s->word, memory_order_relaxed) & 0xffff);
}

/* Owner only (O or E). Pops and pushes are counted from here on. */
static inline void sm__sheaf_set_size(struct sm_sheaf *s, uint32_t size)
{
	atomic_store_explicit(&s->word, size, memory_order_relaxed);
	s->base = size;
}

static inline void *sm__sheaf_pop(struct sm_sheaf *s)
{
	uint64_t w = atomic_load_explicit(&s->word, memory_order_relaxed);
	void *p = s->objects[(w & 0xffff) - 1];

	atomic_store_explicit(&s->word, w - 1 + SM__SHEAF_POP, memory_order_relaxed);
	return p;
}

static inline void sm__sheaf_push(struct sm_sheaf *s, void *p)
{
	uint64_t w = atomic_load_explicit(&s->word, memory_order_relaxed);

	s->objects[w & 0xffff] = p;
	atomic_store_explicit(&s->word, w + 1, memory_order_relaxed);
}

static inline bool sm__sheaf_is_full(const struct sm_sheaf *s)
{
	return sm__sheaf_size(s) >= s->capacity;
}

struct sm_sheaf *sm__sheaf_new(struct sm_cache *c, bool may_wait); /* empty, or NULL */
void sm__sheaf_free(struct sm_cache *c, struct sm_sheaf *s);	   /* empty; oversize too */
void sm__sheaf_flush(struct sm_cache *c, struct sm_sheaf *s);	   /* I4 */
/* Tops up to the capacity from slabs of the node; true when it holds at least n then. */
bool sm__sheaf_refill(struct sm_cache *c, struct sm_sheaf *s, uint32_t n, unsigned int node,
		      bool may_wait);

/* --- slot.c --- */
struct sm__held {
	struct sm__slot *slot; /* NULL: not held */
	struct sm_sheaf *main; /* what it gets back when released */
};

/* The slot of this CPU, without waiting. */
bool sm__slot_trylock(struct sm_cache *c, struct sm__held *held);
void sm__slot_unlock(struct sm__held *held);
/* One slot of any CPU; waits. */
void sm__slot_lock(struct sm_cache *c, unsigned int cpu, struct sm__held *held);
/* All slots; their mains are in slot->saved meanwhile. */
void sm__slot_lock_all(struct sm_cache *c);
void sm__slot_unlock_all(struct sm_cache *c);

/*
 * Not one atomic instruction: a thread that is preempted between load and store loses what others of the
 * CPU counted meanwhile. As in the kernel, the counters tell proportions, not sums to the unit.
 */
static inline void sm__count(struct sm_cache *c, enum sm__counter what, uint64_t n)
{
	unsigned int cpu = sm__percpu_cpu();
	_Atomic uint64_t *at = &c->counters[cpu < c->cpus ? cpu : 0].n[what];

	atomic_store_explicit(at, atomic_load_explicit(at, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

unsigned int sm__cache_node_here(const struct sm_cache *c);

/* --- barn.c: sheaves in and out; may_wait false tries the lock --- */
enum sm__barn_result { SM__BARN_OK, SM__BARN_TOO_MANY, SM__BARN_NONE, SM__BARN_BUSY };

void sm__barn_init(struct sm__barn *barn, uint32_t max_full, uint32_t max_empty);
/* A full sheaf for an empty one (NULL: for nothing); NULL when there is none. */
struct sm_sheaf *sm__barn_full_for_empty(struct sm__barn *barn, struct sm_sheaf *empty,
					 bool may_wait);
enum sm__barn_result sm__barn_empty_for_full(struct sm__barn *barn, struct sm_sheaf *full,
					     struct sm_sheaf **empty, bool may_wait);
struct sm_sheaf *sm__barn_get_empty(struct sm__barn *barn, bool may_wait);
/* False: the limit (unless ignored), or the lock was busy; the sheaf stays the caller's. */
bool sm__barn_put_full(struct sm__barn *barn, struct sm_sheaf *s, bool ignore_limit, bool may_wait);
bool sm__barn_put_empty(struct sm__barn *barn, struct sm_sheaf *s, bool may_wait);
/* Takes everything: two chains through next. */
void sm__barn_empty_out(struct sm__barn *barn, struct sm_sheaf **full, struct sm_sheaf **empty);

/* --- give a sheaf away, whatever it takes (barn, else flush and free) --- */
void sm__cache_put_full(struct sm_cache *c, unsigned int node, struct sm_sheaf *s, bool may_wait);
void sm__cache_put_empty(struct sm_cache *c, unsigned int node, struct sm_sheaf *s, bool may_wait);

/* --- alloc.c: the slow way, shared with bulk and layer=slab --- */
void *sm__cache_alloc_direct(struct sm_cache *c, bool may_wait);
/* Where the grace period of other objects may bring memory: waits for it. False: no use to retry. */
bool sm__cache_wait_for_memory(struct sm_cache *c, bool may_wait);

/* --- rcu_free.c --- */
/* Takes rcu_free, where there is one, out of a held slot and gives it to a grace period. */
void sm__rcu_sheaf_submit(struct sm_cache *c, struct sm__slot *slot);
/* The one of this CPU, if the slot can be had. */
void sm__rcu_sheaf_submit_here(struct sm_cache *c);
void sm__cache_list_add(struct sm_cache *c);
void sm__cache_list_del(struct sm_cache *c);

/* --- cpuslab.c: layer=slab --- */
void *sm__cpuslab_alloc(struct sm_cache *c, bool may_wait);
void sm__cpuslab_free(struct sm_cache *c, void *object);

/* --- stats.c --- */
/*
 * I1 and the invariants of the slabs; outside: objects with users and left in borrowed sheaves. False
 * with a line in why[]. Exact when nobody uses the cache.
 */
bool sm__cache_is_valid(struct sm_cache *c, uint64_t outside, char *why, size_t size);

/* --- what a build with validators or the address sanitizer does at the border to the user --- */
static inline void sm__object_out(struct sm_cache *c, void *p)
{
	(void)c;
	(void)p;
#if SM_VALIDATE
	sm__slab_mark_held(&c->objects, c->name, p);
#endif
#if SM_ASAN
	if (!c->objects.type_stable)
		__asan_unpoison_memory_region(p, c->objects.slot);
#endif
}

static inline void sm__object_back(struct sm_cache *c, void *p)
{
	(void)c;
	(void)p;
#if SM_VALIDATE
	sm__slab_mark_back(&c->objects, c->name, p);
#endif
}

/* Nobody may look at it any more. */
static inline void sm__object_dead(struct sm_cache *c, void *p)
{
	(void)c;
	(void)p;
#if SM_ASAN
	if (!c->objects.type_stable)
		__asan_poison_memory_region(p, c->objects.slot);
#endif
}

#endif
