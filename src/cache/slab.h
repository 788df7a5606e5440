/* SPDX-License-Identifier: MIT */
/*
 * slab.h - the lowest level of a cache: equal objects in slabs, slabs in aligned chunks of memory.
 *
 *	chunk, aligned to its size (2 MiB, or 256 KiB for sheaves)
 *	+--------+---------+-----+---------+--------+--------+--     --+--------+
 *	| struct | struct  | ... | struct  | slab   | slab   |   ...   | slab   |
 *	| chunk  | slab[0] |     | slab[n] |        |        |         |        |
 *	+--------+---------+-----+---------+--------+--------+--     --+--------+
 *
 * A slab is described outside its memory, by a bit per object: 1 = the object is in the slab. So
 * nothing is ever written into a free object, any object finds its description by two masks, and a
 * free is one atomic OR, from any thread, in any context, without a lock.
 *
 * I1 A set bit in free[] belongs to the slab; clearing bits needs the node's lock, or ownership of a
 *    frozen slab (layer=slab). Setting needs nothing.
 * I2 state says who finds the slab: PARTIAL and EMPTY are on the node's lists (lock), BACK on the
 *    node's lock-free stack, FULL on nothing, FROZEN belongs to a CPU, LOOSE is being made or given
 *    back by one thread.
 * I3 A slab with a set bit is never FULL for good: who sets a bit and then reads FULL moves it to BACK;
 *    who says FULL reads the bits again (both seq_cst, so one of the two sees the other).
 * I4 Only a slab with all bits set is given back; for a type-stable class after a grace period.
 * I5 An object deferred by its slab has its bit in pending[] or waiting[] and not in free[], so I4 keeps
 *    the slab; bits enter waiting[] only before the callback that frees them is queued.
 */
#ifndef SM_CACHE_SLAB_H
#define SM_CACHE_SLAB_H

#include "base/base.h"
#include "base/rcu.h"
#include "base/spin.h"

#if SM_ASAN
void __asan_poison_memory_region(void const volatile *p, size_t n);
void __asan_unpoison_memory_region(void const volatile *p, size_t n);
#endif

enum {
	SM__SLAB_WORDS = 4, /* 256 objects at most */
	SM__SLAB_OBJECTS_MAX = SM__SLAB_WORDS * 64,
	SM__CHUNK_SLOT_WORDS = 8, /* 2 MiB in slabs of 4 KiB */
};

enum sm__slab_state {
	SM__SLAB_LOOSE,
	SM__SLAB_FULL,
	SM__SLAB_BACK,
	SM__SLAB_PARTIAL,
	SM__SLAB_EMPTY,
	SM__SLAB_FROZEN,
};

/* A: atomic, any thread; N: the node's lock; C: the RCU callback, one at a time; O: whoever owns it. */
struct sm__slab {
	/* what allocation and free touch */
	_Atomic uint64_t free[SM__SLAB_WORDS]; /* A, I1 */
	struct sm__list link;	    /* N: partial or empty list; O: a CPU's partial list */
	struct sm__slab *back_next; /* O: whoever moved it to BACK; then the stack */
	_Atomic uint32_t state;	    /* A, I2 */
	uint16_t node;		    /* fixed */
	uint16_t index;		    /* fixed: in its chunk */
	/* what deferred frees touch */
	_Atomic uint64_t pending[SM__SLAB_WORDS]; /* A, I5 */
	uint64_t waiting[SM__SLAB_WORDS];	  /* C */
	struct sm__slab_class *class;		  /* fixed */
	struct rcu_head rcu;			  /* C; or the release of a type-stable slab */
	_Atomic uint64_t rcu_queued;	       /* A: 1 while rcu is with the callback machinery */
	_Atomic uint64_t held[SM__SLAB_WORDS]; /* A: with a user; kept by validating builds */
};
_Static_assert(sizeof(struct sm__slab) == 3 * SM__CACHELINE, "a line each");

struct sm__slab_class;

struct sm__chunk {
	uint32_t magic;
	uint16_t node;				  /* fixed */
	struct sm__slab_class *class;		  /* fixed */
	struct sm__list link;			  /* N: all chunks of the node */
	uint64_t slot_used[SM__CHUNK_SLOT_WORDS]; /* N: slab in use or being given back */
	unsigned int used;			  /* N: how many */
	char pad[28];
	struct sm__slab slabs[];
};
_Static_assert(offsetof(struct sm__chunk, slabs) == 2 * SM__CACHELINE, "slabs begin on a line");

struct sm__slab_node {
	struct sm__spin lock;
	unsigned int nr_partial;	 /* N */
	unsigned int nr_empty;		 /* N */
	struct sm__list partial;	 /* N */
	struct sm__list empty;		 /* N */
	struct sm__list chunks;		 /* N */
	unsigned int nr_chunks;		 /* N */
	_Atomic(struct sm__slab *) back; /* A: slabs that were full and got an object back */
} __attribute__((aligned(SM__CACHELINE)));

/* What one class of slabs is made of; all fixed after sm__slab_class_init. */
struct sm__slab_class {
	size_t slot;	      /* bytes from object to object */
	uint32_t reciprocal;  /* ceil(2^32 / slot): division by multiplication, exact here */
	unsigned int objects; /* per slab */
	unsigned int words;   /* of the bitmaps in use */
	unsigned int slab_shift;
	unsigned int chunk_shift;
	unsigned int first; /* first slab of a chunk that is not under its head */
	unsigned int slabs; /* slabs in a chunk, those under the head included */
	unsigned int nodes;
	unsigned int keep_empty; /* empty slabs kept per node */
	bool type_stable;
	void (*ctor)(void *object);
	struct sm__slab_node *node;	/* [nodes] */
	_Atomic uint64_t nr_slab_alloc; /* A */
	_Atomic uint64_t nr_slab_free;	/* A */
	_Atomic uint64_t nr_deferred;	/* A: objects with a bit in pending or waiting */
	_Atomic uint64_t nr_deferred_all;
	_Atomic uint64_t nr_releasing; /* A: type-stable slabs that wait for their grace period */
};

/* The shape: slot and the node array of `nodes` entries are given by the caller, zeroed before. */
struct sm__slab_shape {
	size_t slot;
	unsigned int chunk_shift;
	unsigned int nodes;
	bool type_stable;
	void (*ctor)(void *object);
};

void sm__slab_class_init(struct sm__slab_class *class, const struct sm__slab_shape *shape,
			 struct sm__slab_node *nodes);

/* chunk.c: the memory below. */
enum { SM__CHUNK_MAGIC = 0x73616d63 };
struct sm__chunk *sm__chunk_make(struct sm__slab_class *class, unsigned int node, bool huge);
void sm__chunk_destroy(struct sm__slab_class *class, struct sm__chunk *chunk);

/* Unmaps every chunk. Nobody may hold an object. */
void sm__slab_class_fini(struct sm__slab_class *class);

/*
 * Up to n objects of a node (of others where it has none and memory is short) into out[].
 * may_wait false (a handler interrupted code that may hold the locks): locks are tried.
 */
size_t sm__slab_alloc(struct sm__slab_class *class, unsigned int node, size_t n, void **out,
		      bool may_wait);

/* Raw free: never enters a sheaf, never waits, never needs memory. NULL entries are not allowed. */
void sm__slab_free(struct sm__slab_class *class, size_t n, void *const *objects);

/* Frees after a grace period, without memory, in any context: the bit goes to pending. */
void sm__slab_free_deferred(struct sm__slab_class *class, void *object);

/* Gives every slab without objects back. */
void sm__slab_shrink(struct sm__slab_class *class);

/* Calls fn for every slab in use; the node's lock is held meanwhile unless the caller has it. */
void sm__slab_for_each(struct sm__slab_class *class, bool locked,
		       void (*fn)(struct sm__slab_class *, struct sm__slab *, void *), void *arg);

/* Objects outside the slabs, slabs in use, bytes mapped; takes the node locks. */
struct sm__slab_count {
	uint64_t slabs, taken, reserved, committed;
};
struct sm__slab_count sm__slab_count(struct sm__slab_class *class);

/* Checks I1..I4 and the lists; false with a line in why[]. Exact when nobody uses the class. */
bool sm__slab_is_valid(struct sm__slab_class *class, char *why, size_t size);

#if SM_VALIDATE
/* The object goes to a user, or comes back from one: aborts with the address when that cannot be. */
void sm__slab_mark_held(struct sm__slab_class *class, const char *name, const void *p);
void sm__slab_mark_back(struct sm__slab_class *class, const char *name, const void *p);
#endif

/* A CPU's own slab (layer=slab): a slab with objects, FROZEN, or NULL. */
struct sm__slab *sm__slab_freeze(struct sm__slab_class *class, unsigned int node, bool may_wait);
/* Takes all objects a frozen slab has; out has room for class->objects. */
unsigned int sm__slab_drain(struct sm__slab_class *class, struct sm__slab *slab, void **out);
/* Frees one object; the slab, FROZEN for the caller, when that was its first. */
struct sm__slab *sm__slab_free_claim(struct sm__slab_class *class, void *object);
/* Ends the ownership. */
void sm__slab_thaw(struct sm__slab_class *class, struct sm__slab *slab);

/*
 * In the child of a fork: threads that were about to defer an object, or to queue its slab, are gone;
 * what they left half done is found again and queued. see_queue comes first, once for all classes.
 */
void sm__slab_fork_see_queue(void);
void sm__slab_fork_repair(struct sm__slab_class *class);

void sm__slab_lock_all(struct sm__slab_class *class);
void sm__slab_unlock_all(struct sm__slab_class *class);

static inline struct sm__chunk *sm__chunk_of(const struct sm__slab_class *class, const void *p)
{
	return (struct sm__chunk *)((uintptr_t)p & ~(((uintptr_t)1 << class->chunk_shift) - 1));
}

static inline unsigned int sm__slab_index(const struct sm__slab_class *class, const void *p)
{
	uintptr_t offset = (uintptr_t)p & (((uintptr_t)1 << class->chunk_shift) - 1);

	return (unsigned int)(offset >> class->slab_shift);
}

static inline struct sm__slab *sm__slab_of(const struct sm__slab_class *class, const void *p)
{
	return &sm__chunk_of(class, p)->slabs[sm__slab_index(class, p)];
}

static inline void *sm__slab_memory(const struct sm__slab_class *class, const struct sm__slab *slab)
{
	return (char *)sm__chunk_of(class, slab) + ((uintptr_t)slab->index << class->slab_shift);
}

static inline unsigned int sm__object_index(const struct sm__slab_class *class, const void *p)
{
	uintptr_t offset = (uintptr_t)p & (((uintptr_t)1 << class->slab_shift) - 1);

	return (unsigned int)((offset * class->reciprocal) >> 32);
}

#endif
