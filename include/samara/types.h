/* SPDX-License-Identifier: MIT */
/*
 * types.h - the words every part of samara shares: addresses, access kinds, and the constants of
 * the Linux system-call interface by value, so that a program can use them on any host.
 */
#ifndef SAMARA_TYPES_H
#define SAMARA_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Marks what the shared library exports. Only declarations in include/samara carry it. */
#define SM_API __attribute__((visibility("default")))

/* A guest address, in bytes. Full 64 bits; a space may be configured for less. */
typedef uint64_t sm_addr;

/* What a fault, a check or a translation wants to do. Bits, so that a check can ask for several. */
enum sm_access {
	SM_ACCESS_READ = 1,
	SM_ACCESS_WRITE = 2,
	SM_ACCESS_EXEC = 4,
};

/*
 * PROT_*, MAP_*, MREMAP_*, MADV_*, MS_*, MLOCK_*, MCL_*: the values of Linux (generic and x86-64).
 * SM_PROT_READ == PROT_READ and so on; either spelling may be passed to the library.
 */
enum sm_uapi {
	SM_PROT_NONE = 0,
	SM_PROT_READ = 0x1,
	SM_PROT_WRITE = 0x2,
	SM_PROT_EXEC = 0x4,
	SM_PROT_SEM = 0x8,
	SM_PROT_GROWSDOWN = 0x01000000,
	SM_PROT_GROWSUP = 0x02000000,

	SM_MAP_SHARED = 0x01,
	SM_MAP_PRIVATE = 0x02,
	SM_MAP_SHARED_VALIDATE = 0x03,
	SM_MAP_DROPPABLE = 0x08,
	SM_MAP_TYPE = 0x0f,
	SM_MAP_FIXED = 0x10,
	SM_MAP_ANONYMOUS = 0x20,
	SM_MAP_32BIT = 0x40,
	SM_MAP_GROWSDOWN = 0x0100,
	SM_MAP_DENYWRITE = 0x0800,
	SM_MAP_EXECUTABLE = 0x1000,
	SM_MAP_LOCKED = 0x2000,
	SM_MAP_NORESERVE = 0x4000,
	SM_MAP_POPULATE = 0x8000,
	SM_MAP_NONBLOCK = 0x10000,
	SM_MAP_STACK = 0x20000,
	SM_MAP_HUGETLB = 0x40000,
	SM_MAP_SYNC = 0x80000,
	SM_MAP_FIXED_NOREPLACE = 0x100000,

	SM_MREMAP_MAYMOVE = 1,
	SM_MREMAP_FIXED = 2,
	SM_MREMAP_DONTUNMAP = 4,

	SM_MS_ASYNC = 1,
	SM_MS_INVALIDATE = 2,
	SM_MS_SYNC = 4,

	SM_MLOCK_ONFAULT = 1,
	SM_MCL_CURRENT = 1,
	SM_MCL_FUTURE = 2,
	SM_MCL_ONFAULT = 4,

	SM_MADV_NORMAL = 0,
	SM_MADV_RANDOM = 1,
	SM_MADV_SEQUENTIAL = 2,
	SM_MADV_WILLNEED = 3,
	SM_MADV_DONTNEED = 4,
	SM_MADV_FREE = 8,
	SM_MADV_REMOVE = 9,
	SM_MADV_DONTFORK = 10,
	SM_MADV_DOFORK = 11,
	SM_MADV_MERGEABLE = 12,
	SM_MADV_UNMERGEABLE = 13,
	SM_MADV_HUGEPAGE = 14,
	SM_MADV_NOHUGEPAGE = 15,
	SM_MADV_DONTDUMP = 16,
	SM_MADV_DODUMP = 17,
	SM_MADV_WIPEONFORK = 18,
	SM_MADV_KEEPONFORK = 19,
	SM_MADV_COLD = 20,
	SM_MADV_PAGEOUT = 21,
	SM_MADV_POPULATE_READ = 22,
	SM_MADV_POPULATE_WRITE = 23,
	SM_MADV_DONTNEED_LOCKED = 24,
	SM_MADV_COLLAPSE = 25,
	SM_MADV_HWPOISON = 100,
	SM_MADV_SOFT_OFFLINE = 101,
	SM_MADV_GUARD_INSTALL = 102,
	SM_MADV_GUARD_REMOVE = 103,
};

#ifdef __cplusplus
}
#endif
#endif
