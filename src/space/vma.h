/* SPDX-License-Identifier: MIT */
/*
 * vma.h - one area of a space with equal attributes, its shown record, and how both are made.
 *
 * I1 start < end, both page aligned; [start, end) are the keys under which the tree holds the VMA.
 * I2 The word under which a maple tree holds the VMA says what the fields of line 0 say, whenever no
 *    operation is under way: a plain VMA's by itself, any other's by its record, shown.
 * I3 file holds one reference of the VMA's own; name too.
 *
 *      line 0   what a fault reads, stable under a VMA read lock        letter V
 *      line 1   what a writer and the lock protocol use
 *      line 2   the lock, and what a fault on a file reads while it has it (128 bytes from line 0: spatial
 *               prefetch)
 *      line 3   the tree node of rb and avl                             letter M
 *
 * Letters (docs/design/locking.md): M mmap_lock, read to read, write to write; V either mmap_lock or
 * the VMA lock to read, mmap_lock for write and the VMA's stamp to write; A atomic, order at the place.
 */
#ifndef SM_SPACE_VMA_H
#define SM_SPACE_VMA_H

#include "base/base.h"
#include "base/rcu.h"
#include "memory/rmap.h"
#include "samara/space.h"
#include "space/tree.h"

/* Name of anonymous memory: immutable, counted, freed after a grace period. */
struct sm__name {
	struct rcu_head rcu;
	_Atomic uint32_t refs;
	char text[];
};

/*
 * What RCU readers see of a VMA that is not plain; immutable once the tree holds it, but for the flags. A
 * reader who loads the flags once has what the area was at that moment, since nothing else of it can have changed:
 * other changes are another record, and a record that was replaced changes no more. One cache line.
 */
struct sm__shown {
	struct sm__tree_value value; /* value.node: of the VMA */
	sm_addr start, end;
	_Atomic uint64_t flags; /* release: sm__store_flags; acquire: sm__shown_flags */
	uint64_t pgoff;
	struct sm_file *file;
	uint64_t tag;
	struct sm__name *name;
};

/*
 * Identity of private memory, Linux's anon_vma: 0 = never written; else a number that areas share
 * which may merge. The top bit says that a fork copied it: it then cannot spread to a neighbour.
 */
#define SM__ANON_FORKED (1ull << 63)

struct sm__vma_rwlock; /* vma_lock.h: form "own" */

struct sm__vma {
	/* line 0 */
	sm_addr start, end;   /* V */
	uint64_t flags;	      /* V  enum sm_vm_flags */
	uint64_t pgoff;	      /* V  pages */
	struct sm_file *file; /* V  NULL: anonymous */
	_Atomic uint64_t
		anon; /* A  0 -> identity by compare-exchange under mmap_lock read; else V */
	uint64_t tag; /* V */
	struct sm__name *name; /* V */

	/* line 1 */
	_Atomic(struct sm_space *) space; /* A  of the present life: the memory may be reused */
	_Atomic uint64_t lock_seq;	  /* A  stamp: equals the space's sequence = write-locked */
	struct sm__vma_rwlock *own_lock;  /* form "own"; fixed for the life */
	struct sm__shown *shown;	  /* M  NULL: plain, or no maple design */
	struct rcu_head rcu;		  /* of a VMA on its way out */
	union {
		struct sm__vma *gone_next; /* M  list of what an operation removed */
		struct sm_host *home;	   /* after that, while it waits for a grace period */
	};
	_Atomic uint32_t detached; /* A  forms "inline" and "own": taken out of the tree */
	uint32_t layer;		   /* of the cache it came from; F */

	/* line 2 */
	union {
		struct {
			union {
				_Atomic uint32_t refcnt; /* form "refcnt" */
				_Atomic uint32_t rwsem;	 /* form "inline" */
			} lock;
			struct sm__rmap_area area; /* of file, for the backend */
		};
		char line[SM__CACHELINE];
	};

	/* line 3 */
	struct sm__tree_node node; /* M */
} __attribute__((aligned(SM__CACHELINE)));

_Static_assert(sizeof(struct sm__shown) == 64, "a look-up touches one line");
_Static_assert(offsetof(struct sm__vma, lock) == 128, "lock on a line pair of its own");
_Static_assert(offsetof(struct sm__vma, node) % 64 == 0, "a direct word can lead to it");
_Static_assert(sizeof(struct sm__vma) == 192 + SM__CACHELINE, "three lines and the lock line");

static inline struct sm__vma *sm__vma_of(struct sm__tree_node *n)
{
	return n ? sm__container_of(n, struct sm__vma, node) : NULL;
}

/*
 * Nothing but bounds and flags to tell: memory without file, tag and name, as most is. Its word in the tree
 * is direct and holds the flags, its bounds are those of its place there.
 */
static inline bool sm__is_plain(uint64_t flags, const struct sm_file *file, uint64_t tag,
				const struct sm__name *name)
{
	return SM__WORD_BITS > 0 && !(flags >> SM__WORD_BITS) && !file && !tag && !name;
}

static inline bool sm__vma_is_plain(const struct sm__vma *v)
{
	return sm__is_plain(v->flags, v->file, v->tag, v->name);
}

/* The record of a word that is not direct. */
static inline struct sm__shown *sm__shown_of(uint64_t word)
{
	return sm__container_of((struct sm__tree_value *)(uintptr_t)word, struct sm__shown, value);
}

static inline uint64_t sm__shown_flags(const struct sm__shown *v)
{
	/* acquire: pairs with sm__store_flags, so that the space's sequence read later shows its writer */
	return atomic_load_explicit(&((struct sm__shown *)v)->flags, memory_order_acquire);
}

static inline uint64_t sm__vma_size(const struct sm__vma *v)
{
	return v->end - v->start;
}

/* Private memory of which a write makes an own copy. */
static inline bool sm__flags_private(uint64_t flags)
{
	return !(flags & SM_VM_MAYSHARE);
}

#endif
