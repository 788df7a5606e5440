/* SPDX-License-Identifier: MIT */
/*
 * osmem.h - memory straight from the system, never from malloc: an allocator under a cache would be
 * a second cache, and would falsify what is measured above it.
 *
 * Every mapping passes sm__inject_fail_below(): whose failure it is, is decided above. errno is left as it was.
 */
#ifndef SM_BASE_OSMEM_H
#define SM_BASE_OSMEM_H

#include "base/base.h"

/* Zeroed, private, page-aligned memory; NULL on exhaustion. bytes is rounded up to pages. */
void *sm__os_map(size_t bytes);

/* The same, aligned to align (a power of two of at least a page). */
void *sm__os_map_aligned(size_t bytes, size_t align);

/* Gives back what sm__os_map or sm__os_map_aligned returned, with the same size. */
void sm__os_unmap(void *p, size_t bytes);

/* Drops the pages; they read as zero when touched again. p and bytes are page-aligned. */
void sm__os_discard(void *p, size_t bytes);

/* Asks for huge pages; a refusal is no error. */
void sm__os_advise_huge(void *p, size_t bytes);

#endif
