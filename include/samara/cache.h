/* SPDX-License-Identifier: MIT */
/*
 * cache.h - object caches for objects of one size: sheaves per CPU, barns per node, slabs below.
 *
 * A sheaf is a small array of object pointers. Each CPU has two for allocation and free (main and
 * spare) and one that collects objects which must outlive a grace period (rcu_free); full and empty
 * sheaves wait in the barn of the node; objects come from slabs on memory that is mapped for the
 * cache alone. The words and the behaviour are those of Linux 6.18 to 7.0 ("SLUB percpu sheaves").
 *
 *	struct sm_cache_options o = { .name = "request", .size = sizeof(struct request) };
 *	struct sm_cache *c = sm_cache_create(&o);
 *	struct request *r = sm_cache_alloc(c);
 *	sm_cache_free_rcu(c, r);		// readers may still look at it
 *	sm_cache_destroy(c);			// waits for them
 *
 * Signals: alloc, free, free_rcu, the bulk calls, take and sm_sheaf_size may be called in a signal
 * handler, whatever it interrupted. They wait for nothing that the interrupted code could hold:
 * where they would have to, allocation answers NULL and free goes a slower way. They save errno.
 *
 * Fork: a child that is forked while other threads are inside these calls can go on using the caches;
 * the few objects those threads had in hand at that moment stay allocated in the child.
 */
#ifndef SAMARA_CACHE_H
#define SAMARA_CACHE_H

#include <samara/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sm_cache;
struct sm_sheaf;
struct sm_host;

/* What lies above the slabs. */
enum sm_cache_layer {
	SM_CACHE_LAYER_SHEAF = 0, /* sheaves and barns, as Linux from 6.18 on */
	SM_CACHE_LAYER_SLAB = 1,  /* a slab per CPU and partial lists, as Linux before */
};

enum {
	SM_CACHE_SIZE_MAX = 128 * 1024, /* largest object, in bytes */
	SM_CACHE_ALIGN_MAX = 4096,	/* largest alignment, in bytes */
	SM_CACHE_CAPACITY_MAX = 4096,	/* largest sheaf, in objects */
	SM_CACHE_BARN_MAX = 65536,	/* largest barn limit, in sheaves */
	SM_CACHE_AGE_MAX = 3600 * 1000, /* longest age limit, in ms */
	SM_CACHE_FAKE_NODES_MAX = 64,	/* most nodes that can be pretended */
};

/* Zero means "the default" in every field but size. */
struct sm_cache_options {
	const char *name;	 /* for statistics and messages; copied, at most 31 bytes kept */
	size_t size;		 /* of an object, in bytes, 1 to SM_CACHE_SIZE_MAX */
	size_t align;		 /* power of two up to SM_CACHE_ALIGN_MAX; default 16 */
	unsigned int capacity;	 /* objects per sheaf; default by size: 65, 33, 17 or 9 */
	unsigned int barn_full;	 /* full sheaves a barn keeps; default grows with the node's CPUs */
	unsigned int barn_empty; /* empty sheaves a barn keeps; default likewise */
	unsigned int rcu_age_ms; /* a part-filled rcu sheaf is submitted at this age; default 20 */
	unsigned int
		fake_nodes; /* pretend this many nodes, CPUs dealt round robin; default: real */
	enum sm_cache_layer layer; /* default sheaves */
	bool type_stable;	   /* as SLAB_TYPESAFE_BY_RCU: see sm_cache_create */
	bool no_barn;		   /* no barns, as on a node without memory: sheaves go to slabs */
	bool no_rcu_sheaf;	   /* free_rcu defers per slab instead of in whole sheaves */
	/*
	 * Run once for each object when its slab is made, before the object is handed out for the
	 * first time. An object handed out again is as its last user left it. Without a constructor
	 * the first user finds zeroes. It runs without locks, and must not use this cache.
	 */
	void (*ctor)(void *object);
	struct sm_host *owner; /* the host the cache belongs to; a label, may be NULL */
};

/*
 * Counters, with the names of Linux (/sys/kernel/slab). X(name, what is counted).
 * Counters of objects say so; the others count events.
 */
#define SM_CACHE_COUNTERS(X)                                                                   \
	X(alloc_fastpath, "objects allocated from the CPU's sheaf (or its slab, layer=slab)")  \
	X(alloc_slowpath, "objects allocated from slabs directly")                             \
	X(free_fastpath, "objects freed to the CPU's sheaf (or its slab, layer=slab)")         \
	X(free_slowpath, "objects freed to slabs directly")                                    \
	X(free_remote, "of these: because they belong to another node")                        \
	X(free_rcu_sheaf, "objects given to free_rcu and collected in a sheaf")                \
	X(free_rcu_sheaf_fail, "objects given to free_rcu and deferred by their slab")         \
	X(sheaf_submit, "rcu sheaves handed to a grace period")                                \
	X(sheaf_age, "of these: because of their age")                                         \
	X(sheaf_flush, "objects moved from sheaves to slabs")                                  \
	X(sheaf_refill, "objects moved from slabs to sheaves")                                 \
	X(sheaf_alloc, "sheaves made")                                                         \
	X(sheaf_free, "sheaves given back")                                                    \
	X(barn_get, "full sheaves taken from a barn to allocate from")                         \
	X(barn_get_fail, "the barn had none")                                                  \
	X(barn_put, "full sheaves put into a barn for an empty one")                           \
	X(barn_put_fail, "the barn had no room")                                               \
	X(sheaf_prefill_fast, "sheaves borrowed from the CPU")                                 \
	X(sheaf_prefill_slow, "sheaves borrowed from the barn, or made")                       \
	X(sheaf_prefill_oversize, "sheaves made for a request above the capacity")             \
	X(sheaf_return_fast, "borrowed sheaves that became the CPU's spare")                   \
	X(sheaf_return_slow, "borrowed sheaves that went to the barn, or were flushed")        \
	X(lock_busy, "the CPU's exclusion was not available (a nested or a preempted holder)") \
	X(slab_alloc, "slabs made")                                                            \
	X(slab_free, "slabs given back")                                                       \
	X(cpu_partial_alloc, "layer=slab: slabs taken from the CPU's partial list")            \
	X(cpu_partial_free, "layer=slab: slabs put on the CPU's partial list")

struct sm_cache_stats {
	char name[32];
	size_t object_size;	 /* as asked for */
	size_t slot_size;	 /* distance of two objects in a slab */
	unsigned int capacity;	 /* objects per sheaf (layer=slab: per slab) */
	unsigned int barn_full;	 /* limit per node */
	unsigned int barn_empty; /* limit per node */
	unsigned int nodes;
	unsigned int objects_per_slab;
	size_t slab_size; /* bytes */
	bool rseq;	  /* restartable sequences, not the trylock */
#define SM_CACHE_COUNTER_FIELD(name, what) uint64_t name;
	SM_CACHE_COUNTERS(SM_CACHE_COUNTER_FIELD)
#undef SM_CACHE_COUNTER_FIELD
	/* The state now; exact when nobody uses the cache meanwhile. */
	uint64_t slabs;		  /* slabs in use */
	uint64_t objects_taken;	  /* objects outside the slabs: with users, or in sheaves */
	uint64_t objects_cached;  /* of these: in main, spare, rcu_free and the barns */
	uint64_t sheaves_full;	  /* in the barns */
	uint64_t sheaves_empty;	  /* in the barns */
	uint64_t rcu_in_flight;	  /* objects that wait for a grace period */
	uint64_t bytes_reserved;  /* address space mapped for the cache */
	uint64_t bytes_committed; /* of this: slabs in use and their descriptions */
};

/*
 * sm_cache_create - makes a cache for objects of one size.
 *
 * type_stable: an object that was freed may be handed out again at once, but its memory stays an
 * object of this cache for every reader that was inside a read section at the time. Nothing is
 * written into a free object, so its last contents stay readable until it is handed out again.
 *
 * Context: may sleep (maps memory). Not in a signal handler.
 * Return: the cache, or NULL with errno EINVAL (sm_cache_error() says which option) or ENOMEM.
 * Cost: one mapping; slabs are mapped when the first object is asked for.
 */
SM_API struct sm_cache *sm_cache_create(const struct sm_cache_options *options);

/* sm_cache_error - why the calling thread's last sm_cache_create failed; "" if it did not. */
SM_API const char *sm_cache_error(void);

/*
 * sm_cache_alloc - one object.
 *
 * Context: any, signal handlers included. Without a signal handler in play it may map memory.
 * Return: the object; NULL when memory is exhausted, or when in a handler every way was busy.
 *         errno is left as it was.
 * Cost: from the CPU's sheaf a handful of instructions, no atomic one with restartable sequences.
 */
SM_API void *sm_cache_alloc(struct sm_cache *c) __attribute__((malloc, warn_unused_result));

/*
 * sm_cache_free - gives an object back; it may be handed out again at once. NULL is nothing.
 *
 * Builds with validators name the cache and the address and abort when the pointer is not an object
 * of this cache, or is free already.
 *
 * Context: any, signal handlers included. Never fails and never needs memory.
 */
SM_API void sm_cache_free(struct sm_cache *c, void *object);

/*
 * sm_cache_free_rcu - gives an object back once every reader that could see it has left its read
 * section. NULL is nothing.
 *
 * Objects are collected in a sheaf per CPU; a full sheaf waits for one grace period with one
 * callback and is then in the barn, ready to allocate from. A part-filled one is submitted when it
 * reaches options.rcu_age_ms.
 *
 * Context: any, inside a read section too, signal handlers included. Never fails. It waits, 100 ms at
 *          most, only when 64 MiB of the cache or 65536 callbacks wait for a grace period already, and
 *          only outside read sections and when it interrupted no call of a cache.
 */
SM_API void sm_cache_free_rcu(struct sm_cache *c, void *object);

/*
 * sm_cache_alloc_bulk - up to n objects into out[].
 *
 * Context: as sm_cache_alloc.
 * Return: how many objects were written to out[0..]; less than n only when memory is exhausted.
 */
SM_API size_t sm_cache_alloc_bulk(struct sm_cache *c, size_t n, void **out)
	__attribute__((warn_unused_result));

/* sm_cache_free_bulk - gives back in[0..n); NULL entries are skipped. Context: as sm_cache_free. */
SM_API void sm_cache_free_bulk(struct sm_cache *c, size_t n, void *const *in);

/*
 * sm_cache_borrow - a sheaf with at least n objects in it, for a caller who must not fail later.
 *
 * After it n calls of sm_sheaf_take succeed, without a lock and without memory. n above the capacity
 * gives a sheaf made for it ("oversize"); n = 0 gives a sheaf that may be empty. The sheaf belongs to
 * the caller, one thread at a time, until sm_sheaf_return.
 *
 * Context: may map memory. Not in a signal handler.
 * Return: the sheaf, or NULL when memory is exhausted or n is above 65535 (nothing is held then).
 */
SM_API struct sm_sheaf *sm_cache_borrow(struct sm_cache *c, size_t n)
	__attribute__((warn_unused_result));

/*
 * sm_sheaf_take - one object out of a borrowed sheaf.
 * Context: any, signal-safe; one thread at a time. Return: the object, or NULL when none is left.
 */
SM_API void *sm_sheaf_take(struct sm_sheaf *s) __attribute__((warn_unused_result));

/* sm_sheaf_size - how many takes will succeed. Context: as sm_sheaf_take. Return: that number. */
SM_API size_t sm_sheaf_size(const struct sm_sheaf *s);

/*
 * sm_sheaf_refill - makes sure that *s holds at least n objects; *s may become another sheaf.
 *
 * Context: as sm_cache_borrow.
 * Return: 0, or -ENOMEM: *s is then the sheaf it was, with the objects it had (and perhaps more).
 */
SM_API int sm_sheaf_refill(struct sm_cache *c, struct sm_sheaf **s, size_t n);

/*
 * sm_sheaf_return - gives a borrowed sheaf back with what is left in it. NULL is nothing.
 *
 * Objects that were taken stay with the caller.
 * Context: may free memory. Not in a signal handler. Never fails.
 */
SM_API void sm_sheaf_return(struct sm_cache *c, struct sm_sheaf *s);

/*
 * sm_cache_barrier - returns after every object that was given to sm_cache_free_rcu before the call
 * is back in the cache.
 *
 * Context: sleeps for a grace period. Not inside a read section, not in a signal handler, not in a
 *          callback of the library.
 */
SM_API void sm_cache_barrier(struct sm_cache *c);

/*
 * sm_cache_shrink - empties the sheaves of all CPUs and the barns into the slabs and gives slabs
 * without objects back to the system. Objects that wait for a grace period are not awaited.
 *
 * Context: may sleep. Not in a signal handler. Other threads may go on using the cache.
 */
SM_API void sm_cache_shrink(struct sm_cache *c);

/*
 * sm_cache_destroy - waits for objects in flight through RCU, then frees the cache. NULL is nothing.
 *
 * Context: sleeps. As sm_cache_barrier; nobody else may use the cache.
 * Return: 0, or -EBUSY when users still hold objects or borrowed sheaves: the cache is unharmed and
 *         can be used, and destroyed again after they came back.
 */
SM_API int sm_cache_destroy(struct sm_cache *c);

/* sm_cache_stats - counters and state. Context: any thread; may sleep, not in a signal handler. */
SM_API void sm_cache_stats(struct sm_cache *c, struct sm_cache_stats *out);

#ifdef __cplusplus
}
#endif
#endif
