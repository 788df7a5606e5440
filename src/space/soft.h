/* SPDX-License-Identifier: MIT */
/* soft.h - what the files of the soft backend share. */
#ifndef SM_SPACE_SOFT_H
#define SM_SPACE_SOFT_H

#include "memory/gather.h"
#include "memory/memory.h"
#include "memory/pagefault.h"
#include "space/space.h"

/* The pages of a space, or NULL when its backend has none. */
static inline struct sm__mm *sm__space_mm(struct sm_space *s)
{
	return s->o.backend == SM_BACKEND_SOFT ? s->backend_state : NULL;
}

/* Pool and page cache of a host, made on first use. NULL: no memory, or options refused. */
struct sm__memory *sm__host_memory(struct sm_host *host);

/* The mmu gather inside the space's. */
static inline struct sm__mmu_gather *sm__soft_gather(struct sm__gather *g)
{
	return (struct sm__mmu_gather *)(void *)g->opaque;
}

_Static_assert(sizeof(struct sm__mmu_gather) <= sizeof(((struct sm__gather *)0)->opaque),
	       "an operation has room for the gather");

static inline int sm__prot_of(uint64_t flags)
{
	return (flags & SM_VM_READ ? SM_PROT_READ : 0) | (flags & SM_VM_WRITE ? SM_PROT_WRITE : 0) |
	       (flags & SM_VM_EXEC ? SM_PROT_EXEC : 0);
}

/* The page of the object behind v at addr. */
static inline uint64_t sm__index_of(const struct sm__vma *v, sm_addr addr, unsigned page_shift)
{
	return v->pgoff + ((addr - v->start) >> page_shift);
}

#endif
