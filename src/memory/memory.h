/* SPDX-License-Identifier: MIT */
/*
 * memory.h - what the spaces of one host share: the frame pool, the page cache, the swap file.
 *
 * Letters: H memory->lock (lists of objects and files); never held over a callback or a wait.
 */
#ifndef SM_MEMORY_MEMORY_H
#define SM_MEMORY_MEMORY_H

#include "memory/frame.h"
#include "memory/mm.h"
#include "memory/rmap.h"

enum { SM__PAGES_BUCKETS = 256 };

struct sm__swap;

struct sm__memory {
	struct sm__pool *pool;
	struct sm__spin lock;
	struct sm__list objects[SM__PAGES_BUCKETS];    /* H  page caches by device and inode */
	struct sm__rmap_bucket rmap[SM__RMAP_BUCKETS]; /* mappers by object and mm */
	struct sm__list link;		 /* of all memories of the process, hostfork.c */
	_Atomic(struct sm__swap *) swap; /* A  set once */
};

struct sm__memory_options {
	uint64_t bytes; /* of the pool */
	uint8_t page_shift;
	bool is_private; /* memory that a fork of the host process copies */
};

/* 0, -EINVAL, -ENOMEM, -EMFILE. */
int sm__memory_create(const struct sm__memory_options *options, struct sm__memory **out);
/* Context: no space, no file with pages left. Return: frames that were never given back: 0. */
uint64_t sm__memory_destroy(struct sm__memory *memory);
/*
 * Gets frames back when there are none: pages of the page cache, dirty ones after writing them to their
 * files, tables that wait for a grace period. Context: no lock, no RCU section; waits; calls
 * ops->write_page. Return: whether a new try is worth it.
 */
bool sm__memory_reclaim(struct sm__memory *memory);

/* hostfork.c: what a fork of the host process holds still and hands to the child. */
void sm__memory_enlist(struct sm__memory *memory);
void sm__memory_delist(struct sm__memory *memory);

/* ---- swap (swap.c): slots of one page in a file ---- */

/* bytes of fd (duplicated) become swap. 0, -EBUSY (there is one), -ENOMEM, -EMFILE, -EINVAL. */
int sm__swap_on(struct sm__memory *memory, int fd, uint64_t bytes);
void sm__swap_off(struct sm__memory *memory);
/* A slot with one reference, written from frame pfn. Context: system call. Return: slot, or
 * negative errno: -ENOSPC (no swap, or full), -EIO. */
int64_t sm__swap_out(struct sm__memory *memory, uint32_t pfn);
/* 0 or -EIO. Context: system call; the slot is referenced. */
int sm__swap_in(struct sm__memory *memory, uint64_t slot, uint32_t pfn);
void sm__swap_get(struct sm__memory *memory, uint64_t slot);
void sm__swap_free(struct sm__memory *memory, uint64_t slot);
/* Around a fork of the host process. */
void sm__swap_hold(struct sm__memory *memory);
void sm__swap_release(struct sm__memory *memory);
/* Slots with references. */
uint64_t sm__swap_used(struct sm__memory *memory);

#endif
