/* SPDX-License-Identifier: MIT */
/*
 * pte.h - one entry of a page table, laid out as x86-64 does it.
 *
 *      63 62      52 51                      12 11 10  9  8  7  6  5  4  3  2  1  0
 *      NX  -         frame number               F  A  S  -  PS D  A  -  -  U  W  P      present
 *      -   -         payload                    -  -  -  -  -  -  [   type    ]   0     not present
 *
 * I1 0 is "nothing here": the next access faults and the VMA decides.
 * I2 P without U is PROT_NONE over a page that is kept.
 * I3 S (special) is the shared zero page: no reference is counted.
 * I4 A (anon) says that the frame is private memory, so that who walks need not look at the frame.
 * I5 D is set before a writable translation is handed to anybody: an entry without D has not been
 *    written through since D was cleared and the TLBs were told.
 */
#ifndef SM_MEMORY_PTE_H
#define SM_MEMORY_PTE_H

#include "base/base.h"
#include "samara/types.h"

#define SM__PTE_P	(1ull << 0)
#define SM__PTE_W	(1ull << 1)
#define SM__PTE_U	(1ull << 2)
#define SM__PTE_A	(1ull << 5)
#define SM__PTE_D	(1ull << 6)
#define SM__PTE_PS	(1ull << 7)
#define SM__PTE_SPECIAL (1ull << 9)
#define SM__PTE_ANON	(1ull << 10)
#define SM__PTE_NX	(1ull << 63)
#define SM__PTE_PERMS	(SM__PTE_W | SM__PTE_U | SM__PTE_NX)
#define SM__PTE_FRAME	0x000ffffffffff000ull

enum sm__pte_type {
	SM__PTE_GUARD = 1,  /* MADV_GUARD_INSTALL: every access is SIGSEGV */
	SM__PTE_POISON = 2, /* the page was lost to broken memory: SIGBUS, BUS_MCEERR_AR */
	SM__PTE_SWAP = 3,   /* private memory in the swap file; payload is the slot */
};

typedef uint64_t sm__pte;

static inline sm__pte sm__pte_make(uint32_t pfn, uint64_t bits)
{
	return (uint64_t)pfn << 12 | bits | SM__PTE_P;
}

static inline uint32_t sm__pte_pfn(sm__pte e)
{
	return (uint32_t)((e & SM__PTE_FRAME) >> 12);
}

static inline bool sm__pte_present(sm__pte e)
{
	return e & SM__PTE_P;
}

static inline sm__pte sm__pte_marker(enum sm__pte_type type, uint64_t payload)
{
	return payload << 12 | (uint64_t)type << 1;
}

/* Of a non-present, non-zero entry. */
static inline enum sm__pte_type sm__pte_type(sm__pte e)
{
	return (enum sm__pte_type)(e >> 1 & 0x1f);
}

static inline uint64_t sm__pte_payload(sm__pte e)
{
	return e >> 12;
}

/* Permission bits for SM_PROT_*; W is taken away by the caller where a write must be noticed. */
static inline uint64_t sm__pte_perms(int prot)
{
	uint64_t bits = prot & SM_PROT_EXEC ? 0 : SM__PTE_NX;

	if (prot & (SM_PROT_READ | SM_PROT_WRITE | SM_PROT_EXEC))
		bits |= SM__PTE_U;
	if (prot & SM_PROT_WRITE)
		bits |= SM__PTE_W;
	return bits;
}

#endif
