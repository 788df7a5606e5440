/* SPDX-License-Identifier: MIT */
/*
 * file.h (private) - the file object as the rooms memory and space see it.
 *
 * I1 refs >= 1 while anybody can reach the file; 0 happens once and runs close.
 * I2 pages is NULL until the file is first mapped with real pages, then constant until refs is 0.
 * I3 The memory of a closed file is freed after a grace period: an RCU reader that found a file in
 *    a map may still read its info.
 */
#ifndef SM_MEMORY_FILE_H
#define SM_MEMORY_FILE_H

#include "base/base.h"
#include "base/rcu.h"

#include <samara/file.h>

struct sm__pages; /* the page cache of one object, pagecache.h */

struct sm_file {
	_Atomic uint64_t refs;
	const struct sm_file_ops *ops;
	void *arg;
	struct sm_file_info info;
	_Atomic(struct sm__pages *) pages; /* A  set once, under memory->lock (letter H) */
	struct sm__list in_pages;	   /* H  among the files of pages */
	struct rcu_head rcu;
	char name[];
};

/* Whether no new mapping may write to the file. Context: no lock held. */
static inline bool sm__file_sealed(const struct sm_file *file)
{
	return (file->info.mode & SM_FILE_WRITE) && file->ops->sealed &&
	       file->ops->sealed(file->arg);
}

#endif
