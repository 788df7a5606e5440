/* SPDX-License-Identifier: MIT */
/*
 * frame.h - page frames: a pool mapped once into the host, so that a frame has a host address that
 * never changes, with buddy orders 0 to 9 and a stack of hot frames per CPU.
 *
 *      memfd or private memory, reserved whole, populated 2 MiB at a time from the bottom
 *      | 0: shared zero page | 1 | 2 | ...                  | top ...           | nr
 *         never freed          frames the pool has taken      not yet populated
 *
 *      alloc:  CPU stack (last freed first) <- 32 from the buddy lists <- populate 2 MiB
 *      free:   CPU stack -> its older half to the buddy lists when it is full
 *
 * I1 frames taken (top) = free in buddy lists + on CPU stacks + poisoned and let go + in use;
 *    in use = refs > 0.
 * I2 A free block is the largest it can be: no two free buddies of equal order below order 9.
 * I3 Number 0 is the shared zero page: it is never handed out, so 0 also means "none".
 * I4 SM__F_CLEAN on a free block: its bytes are zero. SM__F_GIVEN: they take no memory of the host, and
 *    are zero; it is never on a frame that a CPU stack holds. Zeroed memory, such as a page table's
 *    that was freed, is clean and not given.
 * I5 A frame's refs counts the page-table entries that map it as private memory, or one for the
 *    page cache that holds it (whose mappings are not counted: pagecache.h I2), plus one for
 *    whoever works on it. It goes from 0 to 1 only by allocation. With refs == 1, held by an entry
 *    whose table is locked, nobody can add one: a look-up in the page cache adds under the object's
 *    lock and only while the slot holds one.
 * G1 What was written to a frame before it was freed happens before its next holder's first access.
 *
 * Letters: A atomic; P the pool's lock; C the CPU stack's lock; T the lock of the table (of its
 * own).
 */
#ifndef SM_MEMORY_FRAME_H
#define SM_MEMORY_FRAME_H

#include "base/base.h"
#include "base/spin.h"

struct sm__pages;

enum {
	SM__MAX_ORDER = 9, /* 512 frames: 2 MiB of 4 KiB pages */
	SM__HUGE_FRAMES = 1 << SM__MAX_ORDER,
	SM__CPU_STACK = 256,	  /* frames a CPU keeps: 1 MiB, half of a common L2 */
	SM__CPU_REFILL_ORDER = 5, /* 32 frames a refill */
};

enum sm__frame_flags {
	SM__F_FREE = 1 << 0,	 /* P  head of a free block in a buddy list */
	SM__F_CLEAN = 1 << 1,	 /* P  all bytes zero */
	SM__F_TABLE = 1 << 2,	 /* a page table */
	SM__F_ANON = 1 << 3,	 /* private memory */
	SM__F_FILE = 1 << 4,	 /* in a page cache: file.pages and file.index are valid */
	SM__F_UPTODATE = 1 << 5, /* A  contents have been read */
	SM__F_DIRTY = 1 << 6,	 /* A  differs from what is behind the page cache */
	SM__F_BUSY = 1 << 7,	 /* A  somebody reads, writes or removes it; sleepers wait for it */
	SM__F_GONE = 1 << 8,	 /* A  truncated or punched: no longer in its page cache */
	SM__F_ERROR = 1 << 9,	 /* A  reading failed */
	SM__F_LAZYFREE = 1 << 10,   /* A  MADV_FREE: may be dropped while its entry is not dirty */
	SM__F_ACTIVE = 1 << 11,	    /* A  used lately */
	SM__F_REFERENCED = 1 << 12, /* A  used since the last look */
	SM__F_MERGED = 1 << 13,	    /* A  one of several equal pages: never written in place */
	SM__F_POISON = 1 << 14,	    /* A  broken memory: never handed out again */
	SM__F_HUGE = 1 << 15,	    /* head of 512 frames mapped by one entry */
	SM__F_WRITEBACK = 1 << 17,  /* A  was dirty, will be written by the write-back under way */
	SM__F_WAITERS = 1 << 16,    /* A  somebody sleeps until BUSY is gone */
	SM__F_GIVEN = 1 << 18,	    /* P  free block: its memory has gone back to the host */
	SM__F_KNOWN = SM__F_CLEAN | SM__F_GIVEN,
	SM__F_ORDER_SHIFT = 24, /* P  order of a free block */
};

struct sm__frame {
	_Atomic uint32_t refs;	/* A */
	_Atomic uint32_t flags; /* A */
	union {
		struct {
			uint32_t next, prev; /* P  numbers; 0 ends the list */
		} buddy;
		struct {
			struct sm__spin lock;
			uint16_t used; /* T  entries that are not 0 */
			uint8_t level; /* 0 maps pages; constant */
			uint8_t dead;  /* T  unlinked: walk again */
			uint32_t next; /* in a gather's list of dead tables */
		} table;
		struct {
			struct sm__pages *pages; /* constant while SM__F_FILE */
			uint64_t index;		 /* page number in the object; constant likewise */
		} file;
	};
	uint64_t link; /* of whoever has taken the frame out: the next in a list */
};

_Static_assert(sizeof(struct sm__frame) == 32, "two descriptors a line");

struct sm__cpu_stack {
	struct sm__spin lock;
	uint32_t nr;		     /* C */
	uint32_t pfn[SM__CPU_STACK]; /* C  top last */
} __attribute__((aligned(SM__CACHELINE)));

struct sm__pool {
	char *base;		  /* host address of frame 0; constant */
	struct sm__frame *frames; /* constant */
	uint32_t nr;		  /* frames there can be; constant */
	uint8_t page_shift;	  /* constant */
	bool is_private;	  /* constant */
	int fd;			  /* of the memfd, or -1; constant */
	uint32_t nr_cpus;
	struct sm__cpu_stack *cpu;

	struct sm__spin grow_lock; /* before lock: one thread at a time fills a shared pool */
	struct sm__spin lock __attribute__((aligned(SM__CACHELINE)));
	uint32_t top;			  /* P */
	uint32_t head[SM__MAX_ORDER + 1]; /* P  list of free blocks per order */
	uint32_t nr_poisoned;		  /* P  broken frames that nobody holds any more */
	uint32_t nr_free;		  /* P  frames in the lists */
	_Atomic uint32_t
		skip_large; /* A  blocks to come in small host pages: large ones were dear */
	_Atomic uint32_t dear_large; /* A  how many of those last taken were, one after the other */
	_Atomic uint32_t
		detached; /* A  the host process has forked: these frames are the parent's */
};

struct sm__pool_options {
	uint64_t bytes;
	uint8_t page_shift;
	bool is_private;
};

struct sm__pool_stats {
	uint64_t total, taken, free_buddy, free_cpu, poisoned, in_use; /* frames */
};

/* 0, -EINVAL, -ENOMEM, -EMFILE. bytes is rounded up to whole 2 MiB blocks. */
int sm__pool_create(const struct sm__pool_options *options, struct sm__pool **out);
/* Returns the number of frames that were still in use: 0 unless somebody lost one. */
uint64_t sm__pool_destroy(struct sm__pool *pool);

enum sm__alloc_flags { SM__ALLOC_ZERO = 1 };

/* One frame with refs 1 and no flags, or 0. Cost: one lock of the CPU's own, some ns when hot. */
uint32_t sm__frame_alloc(struct sm__pool *pool, enum sm__alloc_flags flags);
/* 1 << order frames, aligned, each with refs 1; 0 when there is no such block. */
uint32_t sm__frame_alloc_order(struct sm__pool *pool, unsigned order, enum sm__alloc_flags flags);
/* Gives frames back whose refs have reached 0. */
void sm__frame_free(struct sm__pool *pool, uint32_t pfn);
void sm__frame_free_many(struct sm__pool *pool, const uint32_t *pfns, uint32_t n);
/*
 * Copies from memory that guests may be writing to, a page of an object that is mapped elsewhere: each
 * word is one of those they had there, as memcpy gives, too. Said in a way that the thread sanitizer
 * understands, so that it goes on to tell of copies of what should stand still.
 */
static inline void sm__copy_live(void *to, const void *from, size_t bytes)
{
#if SM_TSAN
	for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
		((uint64_t *)to)[i] = __atomic_load_n((const uint64_t *)from + i, __ATOMIC_RELAXED);
	for (size_t i = bytes & ~(size_t)7; i < bytes; i++)
		((char *)to)[i] = __atomic_load_n((const char *)from + i, __ATOMIC_RELAXED);
#else
	__builtin_memcpy(to, from, bytes);
#endif
}

/* Drops a reference of a frame that holds zeros: if it was the last, its next holder need not zero
 * it. */
void sm__frame_put_clean(struct sm__pool *pool, uint32_t pfn);
/*
 * Returns free memory to the host, blocks of at least 64 frames at a time (returning single pages
 * costs more than they are worth). Context: sleeps in system calls. Return: bytes given back.
 */
uint64_t sm__pool_trim(struct sm__pool *pool);
void sm__pool_stats(struct sm__pool *pool, struct sm__pool_stats *out);
/* I1, I2: walks all descriptors. Context: exact only when nobody allocates. */
bool sm__pool_is_valid(struct sm__pool *pool);

/* buddy.c: the lists. Context: pool->lock held. */
/* known: of SM__F_KNOWN what is true of the whole block; other bits are passed over. */
void sm__buddy_free(struct sm__pool *pool, uint32_t pfn, unsigned order, uint32_t known);
uint32_t sm__buddy_alloc(struct sm__pool *pool, unsigned order, uint32_t *known);
bool sm__buddy_is_valid(struct sm__pool *pool);
void sm__buddy_unlink(struct sm__pool *pool, uint32_t pfn, unsigned order);
static inline unsigned sm__buddy_order(const struct sm__frame *f)
{
	return atomic_load_explicit(&f->flags, memory_order_relaxed) >> SM__F_ORDER_SHIFT;
}

static inline struct sm__frame *sm__frame(struct sm__pool *pool, uint32_t pfn)
{
	return &pool->frames[pfn];
}

static inline uint32_t sm__frame_pfn(struct sm__pool *pool, const struct sm__frame *f)
{
	return (uint32_t)(f - pool->frames);
}

static inline void *sm__frame_ptr(struct sm__pool *pool, uint32_t pfn)
{
	return pool->base + ((uint64_t)pfn << pool->page_shift);
}

static inline size_t sm__page_size(const struct sm__pool *pool)
{
	return (size_t)1 << pool->page_shift;
}

static inline uint32_t sm__frame_flags(const struct sm__frame *f)
{
	/* acquire: pairs with the release in set and clear */
	return atomic_load_explicit(&f->flags, memory_order_acquire);
}

static inline void sm__frame_set(struct sm__frame *f, uint32_t bits)
{
	atomic_fetch_or_explicit(&f->flags, bits, memory_order_acq_rel);
}

static inline void sm__frame_clear(struct sm__frame *f, uint32_t bits)
{
	atomic_fetch_and_explicit(&f->flags, ~bits, memory_order_acq_rel);
}

static inline void sm__frame_get(struct sm__frame *f)
{
	atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
}

/* True when this was the last reference: the caller frees. */
static inline bool sm__frame_drop(struct sm__frame *f)
{
	/* acquire: pairs with the release of the other droppers; a sole holder needs no locked add
	 * (I5) */
	if (atomic_load_explicit(&f->refs, memory_order_acquire) == 1) {
		atomic_store_explicit(&f->refs, 0, memory_order_relaxed);
		return true;
	}
	return atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) == 1;
}

static inline void sm__frame_put(struct sm__pool *pool, uint32_t pfn)
{
	if (sm__frame_drop(sm__frame(pool, pfn)))
		sm__frame_free(pool, pfn);
}

#endif
