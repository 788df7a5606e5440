/* SPDX-License-Identifier: MIT */
/*
 * maple.h - the range tree: ranges [first, last] of 64-bit keys that do not overlap, each with a
 * pointer; one writer, readers without a lock.
 *
 * The behaviour is that of Linux' maple tree as its documentation gives it; the structure is our
 * own (docs/design/maple.md). Two levels: sm_maple_* work on the whole tree by key, sm_cursor_*
 * move a cursor that lives on the caller's stack.
 *
 *	struct sm_maple tree;
 *	sm_maple_init(&tree, NULL);
 *	sm_maple_store_range(&tree, 0x1000, 0x4fff, object);
 *	object = sm_maple_load(&tree, 0x1234);
 *	sm_maple_destroy(&tree);
 *
 * Keys are full 64 bits; ranges include both ends; NULL means "nothing here". A store overwrites
 * whatever it covers and trims or splits what it covers in part. Neighbouring ranges with the same
 * pointer stay two ranges; neighbouring NULL ranges are always one.
 *
 * Values are pointers. Refused with -EINVAL are the integers below 4096 whose low two bits are 10
 * (2, 6, 10 ...), but for SM_MAPLE_ZERO, which the cursor calls accept.
 *
 * Locks. Writers are serialised by the caller, per tree: every call marked "writer" runs under the
 * caller's lock. Readers need a read section (<samara/rcu.h>) or that lock. Calls marked "reader,
 * own section" enter a read section by themselves; what they return stays valid only as long as the
 * caller's own rules say so, which is why callers usually are inside a section already.
 *
 * What readers see: for every key the old or the new value, never a hole that was not there and
 * never a value that was not stored; once a writer's call has returned, every reader's call that
 * begins later sees what it did. A look-up never retries and never waits; cursor steps start again
 * when a writer changed the very nodes they stand on, in the step that meets the change.
 */
#ifndef SAMARA_MAPLE_H
#define SAMARA_MAPLE_H

#include <stdio.h>
#include <samara/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sm_maple_pool;
struct sm_cache_stats;
struct sm_sheaf;

/* "Taken, but reads as nothing": sm_maple_load and sm_maple_find see NULL, a cursor sees this. */
#define SM_MAPLE_ZERO ((void *)1030)

enum {
	SM_MAPLE_HEIGHT_MAX = 16, /* levels; no machine has the memory for more than 13 */
};

/* How a node leaves that readers may still look at. */
enum sm_maple_node_free {
	SM_MAPLE_FREE_SHEAF = 0,    /* in whole sheaves, one callback per sheaf (Linux 6.18) */
	SM_MAPLE_FREE_CALL_RCU = 1, /* one callback per node (Linux before) */
	SM_MAPLE_FREE_NOW = 2,	    /* at once: readers hold the writer's lock */
};

/*
 * The tree. Embed it; the fields are the library's. The first line is all that readers touch.
 *
 * Rules: r = read by anybody in a read section, written by the writer; w = the writer's alone.
 */
struct sm_maple {
	uintptr_t root;		    /* r: address of the root node + height; 0 = empty */
	struct sm_maple_pool *pool; /* constant: where nodes come from */
	bool own_pool;		    /* constant */
	/* The writer's line. */
	uint64_t version __attribute__((aligned(64))); /* w: counts changes of the structure */
};

/* A window of keys, both ends included. */
struct sm_maple_window {
	uint64_t min, max;
};

/* One range with its value. */
struct sm_maple_range {
	uint64_t first, last;
	void *entry;
};

/* -------------------------------------------------------------------------------- pool ---- */

/* Zero means "the default" in every field. */
struct sm_maple_pool_options {
	const char *name;		   /* prefix of the cache names in statistics; copied */
	enum sm_maple_node_free node_free; /* default: in sheaves */
	bool slab_layer;		   /* caches with layer=slab (Linux before 6.18) */
	unsigned int capacity;		   /* nodes per sheaf; default 32, as in Linux */
	struct sm_host *owner;		   /* a label, may be NULL */
};

struct sm_maple_memory {
	uint64_t leaves, inners; /* nodes */
	uint64_t bytes;		 /* of these nodes */
	uint64_t entries;	 /* ranges with a value */
};

/*
 * sm_maple_pool_create - the two object caches (leaves, inner nodes) that trees take nodes from.
 *
 * Any number of trees share a pool. NULL options: the defaults.
 * Context: may sleep. Not in a signal handler.
 * Return: the pool, or NULL with errno EINVAL or ENOMEM.
 */
SM_API struct sm_maple_pool *sm_maple_pool_create(const struct sm_maple_pool_options *options);

/*
 * sm_maple_pool_destroy - waits for nodes in flight through RCU, then frees the pool. NULL is
 * nothing.
 *
 * Context: sleeps for a grace period. Not in a read section.
 * Return: 0, or -EBUSY while a tree still holds nodes (nothing has happened then).
 */
SM_API int sm_maple_pool_destroy(struct sm_maple_pool *pool);

/*
 * sm_maple_pool_barrier - returns after every node that was given up before is back in the pool.
 * Context: sleeps. Not in a read section.
 */
SM_API void sm_maple_pool_barrier(struct sm_maple_pool *pool);

/*
 * sm_maple_pool_stats - the counters of the pool's two caches: leaves, inner nodes.
 * Context: as sm_cache_stats.
 */
SM_API void sm_maple_pool_stats(struct sm_maple_pool *pool, struct sm_cache_stats *leaf,
				struct sm_cache_stats *inner);

/* -------------------------------------------------------------------------------- tree ---- */

/*
 * sm_maple_init - makes an empty tree with nodes from `pool`; NULL: the tree makes a pool of its
 * own with the defaults, and sm_maple_destroy destroys it.
 *
 * Context: may sleep when it makes a pool. Not in a signal handler.
 * Return: 0 or -ENOMEM.
 */
SM_API int sm_maple_init(struct sm_maple *t, struct sm_maple_pool *pool);

/*
 * sm_maple_destroy - takes everything out and ends the tree. The values are the caller's.
 *
 * Readers may still be under way in it (not with SM_MAPLE_FREE_NOW); the memory of struct sm_maple
 * itself must outlive them. A pool of the tree's own goes too: then no cursor may hold spare nodes.
 * Context: writer. Sleeps for a grace period if the pool is the tree's own.
 * Cost: one visit per node.
 */
SM_API void sm_maple_destroy(struct sm_maple *t);

/* sm_maple_clear - takes everything out; the tree can be used on. Context: writer. Cannot fail. */
SM_API void sm_maple_clear(struct sm_maple *t);

/* sm_maple_empty - is there no value in the tree? Context: any. Return: true if there is none. */
SM_API bool sm_maple_empty(const struct sm_maple *t);

/* sm_maple_height - levels of nodes: 0 = empty, 1 = a single leaf. Context: any. */
SM_API unsigned int sm_maple_height(const struct sm_maple *t);

/*
 * sm_maple_load - the value at a key.
 *
 * Context: reader, own section. Signal handlers too, on a thread that is attached
 *          (sm_thread_attach); a handler that interrupted a writer of the same tree is fine.
 * Return: the value, or NULL.
 * Cost: one node per level, three cache lines per node. Never retries, never waits, writes nothing
 *       that is shared.
 */
SM_API void *sm_maple_load(const struct sm_maple *t, uint64_t key);

/*
 * sm_maple_load_held - as sm_maple_load, without a section of its own.
 * Context: reader; inside a read section, or under the writer's lock. Return and cost: as sm_maple_load.
 */
SM_API void *sm_maple_load_held(const struct sm_maple *t, uint64_t key);

/*
 * sm_maple_store - overwrites one key; NULL takes it out. sm_maple_store_range - a range.
 *
 * Context: writer. May allocate.
 * Return: 0; -EINVAL for a reserved value or first > last; -ENOMEM (the tree is as it was).
 */
SM_API int sm_maple_store(struct sm_maple *t, uint64_t key, void *entry);
SM_API int sm_maple_store_range(struct sm_maple *t, uint64_t first, uint64_t last, void *entry);

/*
 * sm_maple_insert - stores only where there is nothing. sm_maple_insert_range - a whole range.
 *
 * Context: writer. May allocate.
 * Return: 0; -EEXIST if a key of the range has a value; -EINVAL; -ENOMEM.
 */
SM_API int sm_maple_insert(struct sm_maple *t, uint64_t key, void *entry);
SM_API int sm_maple_insert_range(struct sm_maple *t, uint64_t first, uint64_t last, void *entry);

/*
 * sm_maple_erase - takes out the whole range that contains the key.
 *
 * Context: writer. May allocate.
 * Return: 0, also when there was nothing; -ENOMEM (the tree is as it was).
 * *old (if not NULL) receives the value, NULL if there was none.
 */
SM_API int sm_maple_erase(struct sm_maple *t, uint64_t key, void **old);

/*
 * sm_maple_alloc_lowest, sm_maple_alloc_highest - stores entry over `size` keys that have no value,
 * the lowest respectively highest such range inside the window; *start receives its first key.
 *
 * Context: writer. May allocate.
 * Return: 0; -EBUSY if there is no such range; -EINVAL (size 0, empty window, size larger than the
 *         window, reserved or NULL entry); -ENOMEM.
 */
SM_API int sm_maple_alloc_lowest(struct sm_maple *t, void *entry, uint64_t size,
				 struct sm_maple_window window, uint64_t *start);
SM_API int sm_maple_alloc_highest(struct sm_maple *t, void *entry, uint64_t size,
				  struct sm_maple_window window, uint64_t *start);

/*
 * sm_maple_alloc_cyclic - stores entry at the first free key from *next on inside the window, and
 * from window.min on if there is none; then sets *next to the key after it.
 *
 * Context: writer. May allocate.
 * Return: 0; 1 if it started again at window.min; -EBUSY; -EINVAL; -ENOMEM.
 */
SM_API int sm_maple_alloc_cyclic(struct sm_maple *t, void *entry, struct sm_maple_window window,
				 uint64_t *next, uint64_t *key);

/*
 * sm_maple_find - the first value at or after *key and not above max; *key becomes the key after
 * its range (0 when the range ends at the last key). sm_maple_find_after - the same, but *key == 0
 * means that an earlier call came to the end. SM_MAPLE_ZERO is passed over.
 *
 * Context: reader, own section.
 * Return: the value or NULL (*key is then unchanged).
 */
SM_API void *sm_maple_find(const struct sm_maple *t, uint64_t *key, uint64_t max);
SM_API void *sm_maple_find_after(const struct sm_maple *t, uint64_t *key, uint64_t max);

/*
 * sm_maple_next - the first value above the range that contains key (or above key), not above max.
 * sm_maple_prev - the last value below it, not below min.
 *
 * Context: reader, own section. Return: the value or NULL.
 */
SM_API void *sm_maple_next(const struct sm_maple *t, uint64_t key, uint64_t max);
SM_API void *sm_maple_prev(const struct sm_maple *t, uint64_t key, uint64_t min);

/* Every value at or after `key` up to max; `key` (an lvalue) advances. Own section per step. */
#define sm_maple_for_each(tree, entry, key, max)                      \
	for ((entry) = sm_maple_find((tree), &(key), (max)); (entry); \
	     (entry) = sm_maple_find_after((tree), &(key), (max)))

/*
 * sm_maple_load_sorted - fills an empty tree with n ascending ranges in one go: full nodes, each
 * written once.
 *
 * Context: writer. May allocate.
 * Return: 0; -EEXIST if the tree is not empty; -EINVAL (a NULL or reserved entry, first > last,
 *         ranges not ascending); -ENOMEM (the tree is still empty).
 * Cost: a few ns per range.
 */
SM_API int sm_maple_load_sorted(struct sm_maple *t, const struct sm_maple_range *ranges, size_t n);

/*
 * sm_maple_copy - makes the empty tree dst a copy of src, node by node (fork).
 *
 * Context: writer of both; src is not changed, and no read section is needed.
 * Return: 0; -EEXIST if dst is not empty; -ENOMEM (dst is still empty).
 * Cost: one node copy per node.
 */
SM_API int sm_maple_copy(struct sm_maple *dst, const struct sm_maple *src);

/*
 * sm_maple_validate - checks every invariant of the whole tree.
 *
 * Context: writer. Return: NULL, or a text that says what is wrong (valid until the thread's next
 *          call).
 * Cost: linear.
 */
SM_API const char *sm_maple_validate(const struct sm_maple *t);

/* sm_maple_memory - counts nodes, ranges and bytes. Context: writer. Cost: linear. */
SM_API void sm_maple_memory(const struct sm_maple *t, struct sm_maple_memory *out);

enum sm_maple_dump_format {
	SM_MAPLE_DUMP_TEXT,	/* a line per range, indented by level */
	SM_MAPLE_DUMP_GRAPHVIZ, /* a picture for dot(1) */
};

/* sm_maple_dump - writes the whole structure. Context: writer. */
SM_API void sm_maple_dump(const struct sm_maple *t, FILE *out, enum sm_maple_dump_format format);

/* ------------------------------------------------------------------------------ cursor ---- */

/*
 * States of a cursor, and where the next step goes from there.
 *
 *	state      meaning                              next                prev
 *	START      at index, nothing looked up yet      first after index   first before index
 *	ACTIVE     on [index, last]                     after last          before index
 *	NONE       the tree was empty                   as START            as START
 *	PAUSE      the lock was dropped                 after last          before index
 *	OVERFLOW   next met its limit; place kept       after last          the range at index
 *	UNDERFLOW  prev met its limit; place kept       the range at index  before index
 *	ERROR      c->error holds the errno             nothing, until set or reset
 */
enum sm_cursor_state {
	SM_CURSOR_START,
	SM_CURSOR_ACTIVE,
	SM_CURSOR_NONE,
	SM_CURSOR_PAUSE,
	SM_CURSOR_OVERFLOW,
	SM_CURSOR_UNDERFLOW,
	SM_CURSOR_ERROR,
};

/*
 * A cursor: a position in one tree, for one thread, on its stack. index and last are the range it
 * is about: set by the caller before a store, set by walks and steps to what they found.
 *
 * A reader's cursor keeps its place as long as the reader stays in one read section: call
 * sm_cursor_pause, _set or _reset when it is left. A writer's cursor (sm_cursor_init_writer) keeps
 * it under the lock; it notices changes of the tree, whoever made them, and walks again.
 */
struct sm_cursor {
	struct sm_maple *tree;
	uint64_t index, last;	   /* the range */
	void *replaced;		   /* first value that the last store or erase overwrote, or NULL */
	struct sm_sheaf *spare[2]; /* nodes put aside by sm_cursor_preallocate: leaves, inner */
	uint64_t version;	   /* of the tree when the path was taken */
	int error;		   /* of state ERROR: a negative errno */
	uint8_t state;		   /* enum sm_cursor_state */
	bool writer;		   /* made by sm_cursor_init_writer */
	uint8_t in_gap;		   /* stands on the gap in front of entry path.slot[0] */
	struct sm_cursor_path {
		uint8_t height;			   /* levels */
		uint8_t slot[SM_MAPLE_HEIGHT_MAX]; /* place in the node of each level, 0 = leaf */
		void *node[SM_MAPLE_HEIGHT_MAX];   /* the node of each level */
	} path;
};

/*
 * The inline functions below work on the cursor alone. Context: the cursor's thread, signal-safe.
 *
 * sm_cursor_init - a reader's cursor at [index, last], state START, no spare nodes.
 */
static inline void sm_cursor_init(struct sm_cursor *c, struct sm_maple *t, uint64_t index,
				  uint64_t last)
{
	c->tree = t;
	c->index = index;
	c->last = last;
	c->replaced = NULL;
	c->spare[0] = NULL;
	c->spare[1] = NULL;
	c->version = 0;
	c->error = 0;
	c->state = SM_CURSOR_START;
	c->writer = false;
	c->in_gap = 0;
}

/*
 * sm_cursor_init_writer - the cursor of a caller who holds the writer's lock (or any lock that
 * keeps writers out) while it is used: its steps notice every change of the tree, and a store uses
 * the way that a find, a step or a gap search has taken.
 */
static inline void sm_cursor_init_writer(struct sm_cursor *c, struct sm_maple *t, uint64_t index,
					 uint64_t last)
{
	sm_cursor_init(c, t, index, last);
	c->writer = true;
}

/*
 * sm_cursor_set_range - go to [index, last]; sm_cursor_set - to one key. Nothing is looked up yet.
 */
static inline void sm_cursor_set_range(struct sm_cursor *c, uint64_t index, uint64_t last)
{
	c->index = index;
	c->last = last;
	c->state = SM_CURSOR_START;
}

static inline void sm_cursor_set(struct sm_cursor *c, uint64_t key)
{
	sm_cursor_set_range(c, key, key);
}

/*
 * sm_cursor_retarget - another range for the next store, with the place kept: a store into the leaf
 * that the cursor stands on does not walk again.
 */
static inline void sm_cursor_retarget(struct sm_cursor *c, uint64_t index, uint64_t last)
{
	c->index = index;
	c->last = last;
}

/* sm_cursor_reset - forget the place, keep index and last. */
static inline void sm_cursor_reset(struct sm_cursor *c)
{
	c->state = SM_CURSOR_START;
}

/* sm_cursor_pause - call it before the lock is dropped or the read section left, to go on after. */
static inline void sm_cursor_pause(struct sm_cursor *c)
{
	c->state = SM_CURSOR_PAUSE;
}

/* sm_cursor_is_active - it stands on a range. sm_cursor_is_error - a call failed: c->error says how. */
static inline bool sm_cursor_is_active(const struct sm_cursor *c)
{
	return c->state == SM_CURSOR_ACTIVE;
}

static inline bool sm_cursor_is_error(const struct sm_cursor *c)
{
	return c->state == SM_CURSOR_ERROR;
}

/*
 * The steps below: Context: reader, inside a read section or under the writer's lock; attached
 * threads in signal handlers too. They return a value or NULL, allocate nothing and write nothing
 * shared. "Range" variants also stop on ranges without a value (they return NULL there, with index
 * and last set and the state ACTIVE).
 *
 * sm_cursor_walk - to the range, value or not, that contains index. State ACTIVE; NONE in an empty
 * tree.
 */
SM_API void *sm_cursor_walk(struct sm_cursor *c);

/*
 * sm_cursor_find - the first call after START: the value at index or the first after it; later
 * calls: the next one. Nothing up to max: NULL, and the state stays ACTIVE on the range where it
 * stopped (NONE in an empty tree). After PAUSE it goes on after last. sm_cursor_find_rev - the same
 * downwards to min.
 */
SM_API void *sm_cursor_find(struct sm_cursor *c, uint64_t max);
SM_API void *sm_cursor_find_rev(struct sm_cursor *c, uint64_t min);
SM_API void *sm_cursor_find_range(struct sm_cursor *c, uint64_t max);
SM_API void *sm_cursor_find_range_rev(struct sm_cursor *c, uint64_t min);

/*
 * sm_cursor_next - the first value after the current range that begins at or below max. None: NULL,
 * state OVERFLOW, index and last are the range where it stopped. sm_cursor_prev - the last value
 * before it that ends at or above min. None: NULL, state UNDERFLOW.
 */
SM_API void *sm_cursor_next(struct sm_cursor *c, uint64_t max);
SM_API void *sm_cursor_prev(struct sm_cursor *c, uint64_t min);
SM_API void *sm_cursor_next_range(struct sm_cursor *c, uint64_t max);
SM_API void *sm_cursor_prev_range(struct sm_cursor *c, uint64_t min);

/* Every value from the cursor's index up to max. */
#define sm_cursor_for_each(c, entry, max) \
	for ((entry) = sm_cursor_find((c), (max)); (entry); (entry) = sm_cursor_find((c), (max)))

/*
 * sm_cursor_store - stores entry over [index, last]; NULL takes the range out. The cursor then
 * stands on what it stored (for NULL: on the gap).
 *
 * Context: writer. May allocate.
 * Return: 0, c->replaced = the first value that was overwritten or NULL; -EINVAL; -ENOMEM (tree and
 *         index/last as they were, state ERROR).
 */
SM_API int sm_cursor_store(struct sm_cursor *c, void *entry);

/*
 * sm_cursor_erase - takes out the whole range that contains index, in one walk. c->replaced = its
 * value; index and last become the range that was taken out.
 *
 * Context: writer. May allocate. Return: 0, also when there was nothing; -ENOMEM.
 */
SM_API int sm_cursor_erase(struct sm_cursor *c);

/*
 * sm_cursor_preallocate - puts aside what a store of entry over [index, last] can need.
 *
 * Between it and sm_cursor_store_prealloc the tree must not be changed and index and last must
 * stay. Calling it again replaces what was put aside.
 * Context: writer. May allocate. Return: 0; -EINVAL; -ENOMEM (nothing is held).
 */
SM_API int sm_cursor_preallocate(struct sm_cursor *c, void *entry);

/*
 * sm_cursor_store_prealloc - the store that sm_cursor_preallocate prepared: it cannot fail, and it
 * gives spare nodes back.
 * Context: writer. Allocates nothing.
 */
SM_API void sm_cursor_store_prealloc(struct sm_cursor *c, void *entry);

/*
 * sm_cursor_expect - puts aside the nodes for n stores through this cursor: after it the next n
 * stores or erases cannot fail, whatever they are.
 * Context: writer. May allocate. Return: 0 or -ENOMEM (nothing more is held than before).
 */
SM_API int sm_cursor_expect(struct sm_cursor *c, size_t n);

/*
 * sm_cursor_release - gives spare nodes back. Needed after _expect, or a _preallocate without its
 * store.
 * Context: writer.
 */
SM_API void sm_cursor_release(struct sm_cursor *c);

/*
 * sm_cursor_gap_lowest, sm_cursor_gap_highest - `size` keys without a value, the lowest
 * respectively highest inside the window: index and last become exactly that range, and a store
 * there does not walk again.
 *
 * Context: writer (the sizes of gaps are kept for the writer alone).
 * Return: 0; -EBUSY if there is none; -EINVAL (size 0, min > max, window smaller than size).
 * Cost: one node per level, as long as the window cuts no gap.
 */
SM_API int sm_cursor_gap_lowest(struct sm_cursor *c, struct sm_maple_window window, uint64_t size);
SM_API int sm_cursor_gap_highest(struct sm_cursor *c, struct sm_maple_window window, uint64_t size);

#ifdef __cplusplus
}
#endif
#endif
