/* SPDX-License-Identifier: MIT */
/*
 * pagecache.h - the pages of an object (an inode, an in-memory file), shared by every space of the
 * host that maps it.
 *
 *      sm_file --\                        root -> [64 slots] -> [64 slots] -> frame
 *      sm_file ---> sm__pages (dev, ino) -+
 *                      |  mappers
 *                      +-> mm, mm, mm
 *
 * I1 A frame in a slot has SM__F_FILE, this object and this index, and one reference for the slot.
 * I2 An entry that maps a page of the object is made under the lock of its table alone, from a slot
 *    that was read under that lock. Whoever empties a slot (GONE first) then unmaps the page from
 *    every mm that may map it, waits for the TLBs, and only then drops the slot's reference. So an entry made
 *    from a slot that was just being emptied is found: who unmaps locks the table after its maker,
 *    or before, and then the maker sees the slot empty. One that finds no table there (it locks
 *    nothing) emptied the slot before it looked; who links a table does so before anybody reads a
 *    slot under its lock; these four accesses are sequentially consistent.
 * I3 A mapping of a shared page that lets writes through has D, and its frame has SM__F_DIRTY,
 *    unless a write-back of the page is on its way to take both away. (Not for SM_FILE_VOLATILE.)
 * I4 BUSY is held by at most one thread; contents are filled and written back only by its holder, who
 *    looks after he has it whether the page is gone. A slot is emptied by its holder, or while nobody
 *    has it: so the file never has two calls for one page (samara/file.h G2).
 * I5 An area is in the reverse map before its first entry maps a page of the object (rmap.h I1).
 * I6 Inner nodes are freed with the object only, so that a walk over all pages (sm__pages_each)
 *    needs no lock; a look-up that takes a reference does (frame.h I5).
 * I7 READY in a slot: the frame is up to date, which it stays. A fault need not look at the
 *    descriptors of the 16 frames that it maps, which lie in 8 lines.
 * I8 One resize of an object at a time (truncate, punch, a size learnt anew: pages_resize.c) holds
 *    pages of it. While it changes the file, none of those is on its way there: it waits for who has
 *    one BUSY, and who takes BUSY to write looks whether the page is held, lets go and waits.
 * I9 The size changes under O by who resizes, and a page enters a slot only below it, under O: one
 *    that lies beyond the new end is there when the resize walks, or never.
 *
 * Lock order: a table's lock before the object's lock.
 * Letters: A atomic; O the object's lock; H memory->lock.
 */
#ifndef SM_MEMORY_PAGECACHE_H
#define SM_MEMORY_PAGECACHE_H

#include "memory/file.h"
#include "memory/memory.h"

enum { SM__NODE_BITS = 6, SM__NODE_SLOTS = 1 << SM__NODE_BITS, SM__AROUND = 16 };

/* A slot holds a frame as an entry would, READY where P is: with permission bits it is one. */
#define SM__SLOT_READY SM__PTE_P
static inline uintptr_t sm__slot_make(uint32_t pfn, bool ready)
{
	return (uint64_t)pfn << 12 | (ready ? SM__SLOT_READY : 0);
}
static inline uint32_t sm__slot_pfn(uintptr_t slot)
{
	return (uint32_t)(slot >> 12);
}

struct sm__pages_node {
	/* A  a node, or at shift 0 a frame and READY; the 16 of a fault lie in two lines */
	_Atomic uintptr_t slot[SM__NODE_SLOTS] __attribute__((aligned(SM__CACHELINE)));
	uint8_t shift; /* index bits below this node's */
};

_Static_assert(sizeof(uintptr_t) == 8, "a slot holds what an entry holds");

struct sm__pages {
	struct sm__memory *memory; /* constant */
	uint64_t ino; /* constant, with the device and whether it is private to a file */
	uint32_t dev_major, dev_minor;
	bool is_volatile; /* constant: no write-back, born zero */
	uint8_t page_shift;
	uint32_t files;		 /* H  files that share the object */
	struct sm__list bucket;	 /* H */
	struct sm__list mappers; /* O  rmap.h */

	struct sm__spin lock;
	/* A  written under O: a node, and its shift in the low bits, so that a look-up touches one
	 * line a level */
	_Atomic uintptr_t root;
	_Atomic uint64_t size; /* A  bytes, as last learnt; written under O (I9) */
	_Atomic uint64_t nr;   /* A  pages */
	struct sm__list open;  /* H  files that share the object */

	_Atomic uint32_t resize; /* A  enum sm__resize; a futex; written under O */
	uint64_t held_first;	 /* O  pages that are not written to the file meanwhile (I8) */
	uint64_t held_last;
};

enum sm__resize { SM__RESIZE_HELD = 1, SM__RESIZE_SLEEPERS = 2, SM__RESIZE_COUNT = 4 };

static inline struct sm__pages_node *sm__root_node(uintptr_t root)
{
	return (struct sm__pages_node *)(root & ~(uintptr_t)(SM__CACHELINE - 1));
}
static inline unsigned sm__root_shift(uintptr_t root)
{
	return root & (SM__CACHELINE - 1);
}

/* ---- objects ---- */

/*
 * The object of a file, made when this is the first file of its identity.
 * Context: no lock; calls ops->size. Return: 0, -ENOMEM, -EXDEV (the file is in use with the memory
 * of another host).
 */
int sm__pages_of(struct sm__memory *memory, struct sm_file *file, struct sm__pages **out);
/* The object that sm__pages_of has found before, or NULL. */
static inline struct sm__pages *sm__pages_bound(const struct sm_file *file)
{
	/* acquire: pairs with the publication in sm__pages_of */
	return atomic_load_explicit(&file->pages, memory_order_acquire);
}
/* The same, read so that of a file that is just being bound and a caller that has just changed it one
 * sees the other. */
struct sm__pages *sm__pages_bound_since(struct sm_file *file);
/* The file closes: writes back what is dirty; the last file of an object ends it. */
void sm__pages_detach_file(struct sm__pages *pages, struct sm_file *file);
/* In the child of a fork of the host process: nobody walks over mappings any more. */
void sm__pages_end_truncations(struct sm__memory *memory);

/* ---- pages ---- */

/* The frame of a page, with a reference, or 0; it may be BUSY. */
uint32_t sm__pages_get(struct sm__pages *pages, uint64_t index);
/* Whether the page could be mapped just now: in its slot, up to date. */
bool sm__pages_is_ready(struct sm__pages *pages, uint64_t index);
/* The frame is up to date: from now on it may be mapped, if it still is in its slot (I7). */
void sm__pages_mark_ready(struct sm__pages *pages, uint64_t index, uint32_t pfn);
/* The slot of index, or NULL; those of the aligned SM__NODE_SLOTS around it lie beside it. Stays
 * valid as long as the object (I6). */
static inline _Atomic uintptr_t *sm__pages_slot(struct sm__pages *pages, uint64_t index)
{
	/* acquire, twice: pairs with the release that linked the node */
	uintptr_t root = atomic_load_explicit(&pages->root, memory_order_acquire);
	struct sm__pages_node *n = sm__root_node(root);
	unsigned shift = sm__root_shift(root);

	if (!n || index >> shift >> SM__NODE_BITS)
		return NULL;
	for (;; shift -= SM__NODE_BITS) {
		_Atomic uintptr_t *slot = &n->slot[index >> shift & (SM__NODE_SLOTS - 1)];

		if (!shift)
			return slot;
		n = (struct sm__pages_node *)atomic_load_explicit(slot, memory_order_acquire);
		if (!n)
			return NULL;
	}
}
static inline bool sm__page_is_ready(uint32_t flags)
{
	return (flags & (SM__F_UPTODATE | SM__F_ERROR | SM__F_POISON | SM__F_GONE)) ==
	       SM__F_UPTODATE;
}
/* The page of an object that is born zero; made if it is missing. 0: no memory. May hold a table.
 * */
uint32_t sm__pages_make(struct sm__pages *pages, uint64_t index);
/*
 * Makes a page up to date, reading it if it must, and its neighbours of the same 16.
 * Context: no lock of the library, no RCU section: calls ops->read_page and ops->size.
 * Return: 0 (look again; beyond the end nothing was done), -ENOMEM, or what read_page said.
 */
int sm__pages_fetch(struct sm__pages *pages, struct sm_file *file, uint64_t index);
static inline uint64_t sm__pages_count(struct sm__pages *pages)
{
	uint64_t size = atomic_load_explicit(&pages->size, memory_order_acquire);

	return (size >> pages->page_shift) + !!(size & ((1ull << pages->page_shift) - 1));
}
/*
 * Learns the size anew; when the object has shrunk, its lost pages are unmapped everywhere, when it has
 * grown, the rest of its last page is read. Return: 0, or why that could not be read: the size is as
 * it was then. Context: as fetch.
 */
int sm__pages_refresh(struct sm__pages *pages, struct sm_file *file);
/* Whether a resize holds the page (I8). Context: its BUSY is the caller's. */
bool sm__pages_is_held(struct sm__pages *pages, uint64_t index);
/* Waits until nobody reads or writes the page. Context: no lock, no BUSY. */
void sm__pages_settle(struct sm__pages *pages, uint64_t index);
/* Context: no lock, no BUSY. */
void sm__pages_wait_for_resize(struct sm__pages *pages);
/* Drops pages [first, last] and unmaps them. Context: as unmap. */
void sm__pages_drop(struct sm__pages *pages, uint64_t first, uint64_t last, unsigned zap_flags);
/* Writes dirty pages [first, last] back through file. 0 or the first error. Context: as fetch. */
int sm__pages_write_back(struct sm__pages *pages, struct sm_file *file, uint64_t first,
			 uint64_t last);
/* The page is broken: out of its slot, out of every mm. Context: as truncate. */
void sm__pages_lose(struct sm__pages *pages, uint64_t index, uint32_t pfn);
/*
 * Drops clean pages of all objects, unmapping them, then dirty ones after writing them to their files,
 * until `wanted` frames have become free or there are no more.
 * Context: no lock; calls ops->write_page. Return: frames that became free.
 */
uint64_t sm__pages_shrink(struct sm__memory *memory, uint64_t wanted);
/* An open file of the object that takes write-backs, with a reference, or NULL. */
struct sm_file *sm__pages_writer(struct sm__pages *pages);
/* I1 over all slots, and nr. Context: nobody uses the object. */
bool sm__pages_is_valid(struct sm__pages *pages);

/* Calls visit for each page in [first, last] until it returns false. Slots may change meanwhile. */
typedef bool (*sm__pages_visit)(struct sm__pages *pages, uint64_t index, uint32_t pfn, void *arg);
void sm__pages_each(struct sm__pages *pages, uint64_t first, uint64_t last, sm__pages_visit visit,
		    void *arg);
/*
 * Takes the page out of its slot, unless it has one of the flags (GONE then stands for a moment, under O).
 * The slot's reference goes to the caller, who unmaps before dropping it (I2).
 * Return: 0, -ENOENT when the slot holds something else, -EBUSY.
 */
int sm__pages_remove(struct sm__pages *pages, uint64_t index, uint32_t pfn, uint32_t unless);
/* Whether a page is out of its slot for good. Context: no lock of the object. */
bool sm__pages_is_gone(struct sm__pages *pages, const struct sm__frame *f);
/* DIRTY, if the page has it, becomes "to be written". */
void sm__pages_mark_for_writing(struct sm__pages *pages, uint64_t index, uint32_t pfn);
/* 0, -EEXIST, -ENXIO (beyond the end), -ENOMEM. On success the slot has taken its own reference. */
int sm__pages_insert(struct sm__pages *pages, uint64_t index, uint32_t pfn);
/* Takes BUSY, sleeping for it. Context: no lock. */
void sm__frame_lock(struct sm__frame *f);
void sm__frame_unlock(struct sm__frame *f);
/* Unmaps (or cleans) pages [first, last] in every mm that maps the object. Context: no lock. */
void sm__pages_unmap(struct sm__pages *pages, uint64_t first, uint64_t last, unsigned zap_flags);
void sm__pages_clean(struct sm__pages *pages, uint64_t first, uint64_t last);

#endif
