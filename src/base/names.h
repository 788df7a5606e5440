/* SPDX-License-Identifier: MIT */
/*
 * names.h - the constants of the system-call interface as X-macro lists: one table for whoever
 * prints or parses their names. X(NAME) has the value SM_##NAME of types.h. (The names are macros in
 * <sys/mman.h>, so a user of these lists must not include it before expanding them.)
 */
#ifndef SM_BASE_NAMES_H
#define SM_BASE_NAMES_H

/* clang-format off */
#define SM__PROT_NAMES(X) \
	X(PROT_READ) \
	X(PROT_WRITE) \
	X(PROT_EXEC) \
	X(PROT_SEM) \
	X(PROT_GROWSDOWN) \
	X(PROT_GROWSUP)

#define SM__MAP_TYPE_NAMES(X) \
	X(MAP_SHARED) \
	X(MAP_PRIVATE) \
	X(MAP_SHARED_VALIDATE) \
	X(MAP_DROPPABLE)

#define SM__MAP_FLAG_NAMES(X) \
	X(MAP_FIXED) \
	X(MAP_ANONYMOUS) \
	X(MAP_32BIT) \
	X(MAP_GROWSDOWN) \
	X(MAP_DENYWRITE) \
	X(MAP_EXECUTABLE) \
	X(MAP_LOCKED) \
	X(MAP_NORESERVE) \
	X(MAP_POPULATE) \
	X(MAP_NONBLOCK) \
	X(MAP_STACK) \
	X(MAP_HUGETLB) \
	X(MAP_SYNC) \
	X(MAP_FIXED_NOREPLACE)

#define SM__MREMAP_NAMES(X) \
	X(MREMAP_MAYMOVE) \
	X(MREMAP_FIXED) \
	X(MREMAP_DONTUNMAP)

#define SM__MADV_NAMES(X) \
	X(MADV_NORMAL) \
	X(MADV_RANDOM) \
	X(MADV_SEQUENTIAL) \
	X(MADV_WILLNEED) \
	X(MADV_DONTNEED) \
	X(MADV_FREE) \
	X(MADV_REMOVE) \
	X(MADV_DONTFORK) \
	X(MADV_DOFORK) \
	X(MADV_MERGEABLE) \
	X(MADV_UNMERGEABLE) \
	X(MADV_HUGEPAGE) \
	X(MADV_NOHUGEPAGE) \
	X(MADV_DONTDUMP) \
	X(MADV_DODUMP) \
	X(MADV_WIPEONFORK) \
	X(MADV_KEEPONFORK) \
	X(MADV_COLD) \
	X(MADV_PAGEOUT) \
	X(MADV_POPULATE_READ) \
	X(MADV_POPULATE_WRITE) \
	X(MADV_DONTNEED_LOCKED) \
	X(MADV_COLLAPSE) \
	X(MADV_HWPOISON) \
	X(MADV_SOFT_OFFLINE) \
	X(MADV_GUARD_INSTALL) \
	X(MADV_GUARD_REMOVE)

#define SM__MS_NAMES(X) \
	X(MS_ASYNC) \
	X(MS_INVALIDATE) \
	X(MS_SYNC)

#define SM__MCL_NAMES(X) \
	X(MCL_CURRENT) \
	X(MCL_FUTURE) \
	X(MCL_ONFAULT)
/* clang-format on */

#endif
