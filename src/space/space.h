/* SPDX-License-Identifier: MIT */
/*
 * space.h - inside of a space, and struct sm__op: one operation on it from argument check to return.
 *
 * I1 Every operation takes mmap_lock through sm__op_lock() and gives it up through sm__op_unlock(),
 *    with its footprint filled in: the range it may read or change, its neighbours included.
 * I2 map_count is the number of VMAs in the tree; total_vm, data_vm, exec_vm, stack_vm and locked_vm
 *    are the sums over them (account.c).
 * I3 charged is what this space has taken from the host's commit charge.
 * I4 Notices are delivered after the lock is released, in the order of their making.
 *
 * Letters: F fixed after creation; M mmap_lock, read to read and write to write; A atomic.
 */
#ifndef SM_SPACE_SPACE_H
#define SM_SPACE_SPACE_H

#include "base/base.h"
#include "base/mmap_lock.h"
#include "base/rcu.h"
#include "samara/space.h"
#include "space/backend.h"
#include "space/host.h"
#include "space/tree.h"
#include "space/vma.h"

enum { SM__STAT_SLOTS = 16 };

/* Counters of faults, spread over slots by thread so that faulting CPUs do not share a line. */
struct sm__fault_counts {
	_Atomic uint64_t faults, success, abort, retry, miss;
	_Atomic uint64_t reason[SM_FALLBACKS];
} __attribute__((aligned(2 * SM__CACHELINE)));

struct sm_space {
	/* F */
	struct sm_host *host;
	struct sm_design design;
	const struct sm__backend *backend;
	uint64_t page_size;
	unsigned page_shift;
	struct sm_space_options o;
	struct sm_cache *vma_cache, *shown_cache, *lock_cache;
	enum sm_cache_layer vma_layer;
	void *backend_state; /* of the backend, its own rules */

	struct sm__mmap_lock lock;

	/* Read by every fault; of rb and avl also M. On lines of its own, away from the counts. */
	struct sm__tree tree __attribute__((aligned(SM__CACHELINE)));

	/* M */
	uint64_t map_count __attribute__((aligned(SM__CACHELINE)));
	uint64_t map_peak;
	uint64_t total_vm, data_vm, exec_vm, stack_vm, locked_vm; /* pages */
	uint64_t peak_vm;
	uint64_t charged; /* pages */
	sm_addr brk;
	uint64_t def_flags; /* mlockall(MCL_FUTURE) */
	uint64_t merges, splits;

	/* A */
	_Atomic uint64_t limit_as, limit_data, limit_stack, limit_memlock; /* bytes */
	_Atomic uint64_t next_anon;   /* identities given out */
	_Atomic uint32_t vma_wake;    /* futex: a VMA's readers have left */
	_Atomic uint32_t vma_sleeper; /* the one writer sleeps on vma_wake */
	_Atomic uint32_t visitors;    /* of the host's list of spaces (spaces.h) */
	/* A munmap has downgraded: its areas have left the tree, their pages go under the read lock. */
	_Atomic bool unmapping;

	/*
	 * Set before the first call, if at all: gets what the address search found (or -ENOMEM) and
	 * answers with the address to take, which counts only where all of the range is free. A
	 * recording is replayed with the addresses its kernel chose. Called under mmap_lock.
	 */
	int64_t (*on_place)(void *arg, int64_t found);
	void *on_place_arg;

	struct sm__list in_host; /* host->lock */
	struct rcu_head rcu;
	struct sm__fault_counts counts[SM__STAT_SLOTS];
};

enum sm__lock_mode {
	SM__UNLOCKED,
	SM__READ,
	SM__WRITE,
};

enum { SM__NOTICES_MAX = 4 };

struct sm__op {
	struct sm_space *space;
	enum sm_call_kind kind;
	sm_addr start, end; /* footprint */
	enum sm__lock_mode mode;
	uint64_t since;	      /* of a read lock, for the statistics */
	struct sm__vma *gone; /* detached by this operation; freed after the lock */
	unsigned notices;
	struct {
		enum sm_notice what;
		sm_addr start, end;
	} notice[SM__NOTICES_MAX];
	struct sm__gather gather; /* last: large and not initialised */
};

/* Fills the fixed part. The footprint may be widened until sm__op_lock. */
void sm__op_init(struct sm__op *op, struct sm_space *s, enum sm_call_kind kind);

/* 0 or -EINTR. */
int sm__op_lock(struct sm__op *op, enum sm__lock_mode mode, sm_addr start, sm_addr end);
void sm__op_downgrade(struct sm__op *op);
/* Finishes the gather, gives up the lock, frees what is gone, tells the notifier. */
void sm__op_unlock(struct sm__op *op);
void sm__op_notice(struct sm__op *op, enum sm_notice what, sm_addr start, sm_addr end);

/* The gather of the operation, begun on first use; finish is part of unlock. */
void sm__op_finish_gather(struct sm__op *op);
struct sm__gather *sm__op_gather(struct sm__op *op);

/* ---- small helpers */

static inline uint64_t sm__pages(const struct sm_space *s, uint64_t bytes)
{
	return bytes >> s->page_shift;
}

static inline bool sm__page_aligned(const struct sm_space *s, uint64_t x)
{
	return !(x & (s->page_size - 1));
}

/* Wraps to 0 for the last page of the numbers, as the kernel's does. */
static inline uint64_t sm__page_align(const struct sm_space *s, uint64_t x)
{
	return (x + s->page_size - 1) & ~(s->page_size - 1);
}

/* Validating builds: checks the whole space after an operation. Lock held. */
#if SM_VALIDATE
void sm__space_validate(struct sm_space *s);
#else
static inline void sm__space_validate(struct sm_space *s)
{
	(void)s;
}
#endif
/* Any build: NULL, or what is wrong. Lock held, or nobody else there. Cost: linear. */
const char *sm__space_check(struct sm_space *s);

/* ---- account.c */

bool sm__may_expand(const struct sm_space *s, uint64_t flags, uint64_t pages);
void sm__account(struct sm_space *s, uint64_t flags, int64_t pages);
bool sm__accountable(uint64_t flags);
int sm__charge(struct sm_space *s, uint64_t pages);
void sm__uncharge(struct sm_space *s, uint64_t pages);
bool sm__may_lock(const struct sm_space *s, uint64_t flags, uint64_t bytes);
bool sm__lock_allowed(const struct sm_space *s);

/* ---- vma.c: memory and identity */

struct sm__vma *sm__vma_new(struct sm_space *s);
/* A new VMA with the attributes of v (references taken), not in the tree. */
struct sm__vma *sm__vma_copy(struct sm_space *s, const struct sm__vma *v);
/* Lets go of file and name and gives the memory back as the design says. Not in the tree. */
void sm__vma_free(struct sm_space *s, struct sm__vma *v, bool unreachable);
uint64_t sm__anon_new(struct sm_space *s);
uint64_t sm__anon_of(const struct sm__vma *v);
struct sm__name *sm__name_get(struct sm__name *n);
void sm__name_put(struct sm__name *n);
bool sm__name_equal(const struct sm__name *a, const struct sm__name *b);

/* ---- link.c: the tree and the counts change here and nowhere else */

/*
 * Prepares so many changes of the tree, and stores that take so many records (at most 3; sm__records).
 * After it they cannot fail. unprepare gives back what was not used.
 */
struct sm__prep {
	struct sm__shown *shown[3];
	unsigned n;
};
int sm__prepare(struct sm_space *s, struct sm__prep *p, unsigned records, unsigned changes);
/* How many records n stores of VMAs with v's attributes take. */
static inline unsigned sm__records(const struct sm__vma *v, unsigned n)
{
	return sm__vma_is_plain(v) ? 0 : n;
}
void sm__unprepare(struct sm_space *s, struct sm__prep *p);
/*
 * Stores v under its bounds, over what is there. v is write-locked. Under bounds under which it is
 * stored already it takes no node, so `changes` need not count that store. c: a cursor near the place,
 * which saves a walk, or NULL.
 */
void sm__store(struct sm_space *s, struct sm__prep *p, struct sm__vma *v,
	       struct sm__tree_cursor *c);
/*
 * Other flags and nothing else for a write-locked VMA; needs no preparation. c as above.
 * 0, -ENOMEM: not where the VMA stays plain, or stays what is not.
 */
int sm__store_flags(struct sm_space *s, struct sm__vma *v, uint64_t flags,
		    struct sm__tree_cursor *c);
/*
 * As store, in one step for readers without a lock with what the range leaves of the VMAs that it cuts:
 * sides[0] ends where it begins, sides[1] begins where it ends; NULL: nothing is left there. Each counts
 * as a store. A VMA that is not in the tree yet goes through sm__attach first.
 */
void sm__store_cut(struct sm_space *s, struct sm__prep *p, struct sm__vma *v,
		   struct sm__vma *const sides[2], struct sm__tree_cursor *c);
/*
 * v, write-locked, lets go of [start, end), one end of it: in one step for readers without a lock. One record,
 * one change.
 */
void sm__store_without(struct sm_space *s, struct sm__prep *p, struct sm__vma *v, sm_addr start,
		       sm_addr end, struct sm__tree_cursor *c);
/* v is about to be stored for the first time: write-locked, attached, counted. */
void sm__attach(struct sm_space *s, struct sm__vma *v);
/*
 * to, attached, is about to get a part of the range of from, which is in the tree or was until now: where its
 * pages may be mapped is known of to, too.
 */
void sm__adopt(struct sm_space *s, struct sm__vma *to, const struct sm__vma *from);
/* Attaches, then stores. */
void sm__store_new(struct sm_space *s, struct sm__prep *p, struct sm__vma *v,
		   struct sm__tree_cursor *c);
/* Takes [start, end) out; the VMAs in it are the caller's list, to be passed to sm__detach each. */
void sm__erase(struct sm_space *s, sm_addr start, sm_addr end, struct sm__tree_cursor *c);
/* v is out of the tree: no reader may lock it any more; goes to op->gone. */
void sm__detach(struct sm__op *op, struct sm__vma *v);
/* The record of v as it is now, into memory that nobody sees yet. */
void sm__show(const struct sm__vma *v, struct sm__shown *out);

static inline struct sm__vma *sm__find(struct sm_space *s, sm_addr addr)
{
	return sm__vma_of(s->tree.ops->find(&s->tree, addr));
}

static inline struct sm__vma *sm__seek(struct sm__tree_cursor *c, sm_addr addr)
{
	return sm__vma_of(c->tree->ops->seek(c, addr));
}

static inline struct sm__vma *sm__next(struct sm__tree_cursor *c)
{
	return sm__vma_of(c->tree->ops->next(c));
}

static inline struct sm__vma *sm__prev(struct sm__tree_cursor *c)
{
	return sm__vma_of(c->tree->ops->prev(c));
}

/* The neighbours in the tree of the VMA that c stands on. */
static inline void sm__around(struct sm__tree_cursor *c, struct sm__vma *out[2])
{
	struct sm__tree_node *n[2];

	c->tree->ops->around(c, n);
	out[0] = sm__vma_of(n[0]);
	out[1] = sm__vma_of(n[1]);
}

/* The VMA that ends at or before start and is the last such; NULL. */
struct sm__vma *sm__vma_before(struct sm_space *s, sm_addr start);

/* ---- place.c */

struct sm__place {
	sm_addr addr;
	uint64_t length;
	int flags;
	const struct sm_file *file;
	uint64_t offset;   /* bytes: what a huge alignment is congruent to */
	uint64_t vm_flags; /* GROWSDOWN wants a gap below */
	struct sm__tree_cursor *c;
	uint64_t searched; /* length of the present search: with padding or without */
	/* out, unless FIXED: the first VMA above the place; c stands on it, or on the gap below it */
	struct sm__vma *next;
};
/* The address, or -ENOMEM, -EINVAL, -EPERM. */
int64_t sm__place(struct sm_space *s, struct sm__place *p);
/* First address that a search or hint must leave free in front of v. */
sm_addr sm__gap_start(const struct sm_space *s, const struct sm__vma *v);

/* ---- merge.c, split.c */

struct sm__merge {
	struct sm__op *op;
	/* in: the range, and the attributes it is to have */
	sm_addr start, end;
	uint64_t flags, pgoff, anon, tag;
	struct sm_file *file;
	struct sm__name *name;
	struct sm__vma *prev;	/* ends at or before start, or NULL */
	struct sm__vma *middle; /* covers the range; NULL: the range is free, or its VMAs go */
	struct sm__vma *next;	/* the first at or after end, or NULL */
	bool just_grow;		/* new range: only to the left */
	struct sm__prep
		*prep; /* new range: the caller's, with a store and a change left; or NULL */
	struct sm__tree_cursor *c; /* near the range, or NULL */
	/* out */
	struct sm__vma *result; /* the VMA that now covers the range; NULL: nothing merged */
	int error;		/* 0 or -ENOMEM: it could have merged, but there was no memory */
};
void sm__merge_from(struct sm__merge *m, struct sm__op *op, const struct sm__vma *v);
struct sm__vma *sm__merge_new(struct sm__merge *m);
/* The range, free or about to be stored over, gets mapped: merged or as a new VMA. 0 or -ENOMEM. */
int sm__merge_or_new(struct sm__merge *m);
/* Gives [start, end) of m->middle new attributes: merge, else split. NULL: m->error is set. */
struct sm__vma *sm__modify(struct sm__merge *m);

/*
 * Cuts v at addr. below: the new VMA is the lower part, else the upper; v keeps the other.
 * Return: 0 with the new one in *out (may be NULL), -ENOMEM. The unchecked form ignores the limit.
 */
int sm__split(struct sm__op *op, struct sm__vma *v, sm_addr addr, bool below);
int sm__split_unchecked(struct sm__op *op, struct sm__vma *v, sm_addr addr, bool below);
int sm__split_out(struct sm__op *op, struct sm__vma *v, sm_addr start, sm_addr end,
		  struct sm__tree_cursor *c);
/* The backend's step for a new border inside v. */
int sm__plan_border(struct sm__op *op, struct sm__step *step, struct sm__vma *v, sm_addr at);
void sm__commit_border(struct sm__op *op, struct sm__step *step);
/* Moves the bounds of v, into free space or over VMAs that the caller detaches afterwards. */
int sm__vma_set_bounds(struct sm__op *op, struct sm__vma *v, sm_addr start, sm_addr end);

/* ---- munmap.c */

struct sm__unmap {
	struct sm__op *op;
	struct sm__tree_cursor *c; /* afterwards near the range */
	sm_addr start, end;
	enum sm_notice what; /* what is told: SM_NOTICE_UNMAP unless set */
	bool keep_charge;    /* the charge goes along with what was moved */
	/* out of gather */
	struct sm__vma *first;	     /* list by gone_next, still in the tree */
	struct sm__vma *prev, *next; /* of sm__unmap_neighbours */
	uint64_t count, pages, accounted, locked;
	struct sm__step *steps; /* planned; count of them; NULL: none */
	struct sm__step one;	/* room for the usual case */
};
/* Splits the ends, plans the backend's work. 0, -ENOMEM, -EPERM; on failure nothing is planned. */
int sm__unmap_gather(struct sm__unmap *u);
/* The VMAs are out of the tree (sm__erase or stored over): counts, detaches. Write lock. */
void sm__unmap_detach(struct sm__unmap *u);
/* The VMAs before and after the range, for who maps there. */
void sm__unmap_neighbours(struct sm__unmap *u);
/* Zaps. Lock held for write or read. */
void sm__unmap_finish(struct sm__unmap *u);
void sm__unmap_abort(struct sm__unmap *u);
/* All of it, lock held for write. */
int sm__unmap_locked(struct sm__op *op, sm_addr start, sm_addr end);

/* ---- mmap.c, mprotect.c, fault.c, shmem.c, advice_populate.c */

uint64_t sm__prot_flags(int prot);
/* Brings [start, end) in as mlock and MAP_POPULATE do; failures are ignored. No lock held. */
void sm__populate(struct sm_space *s, sm_addr start, sm_addr end);
/* Gives v identity if it has none: from a neighbour it could merge with, or a new one. mmap_lock held. */
void sm__anon_prepare(struct sm_space *s, struct sm__vma *v);
/* The file behind MAP_SHARED|MAP_ANONYMOUS, charged to the host. */
int sm__shmem_create(struct sm_space *s, uint64_t size, bool reserve, struct sm_file **out);

#endif
