/* SPDX-License-Identifier: MIT */
/*
 * file.c - the file object: creation, references, identity.
 *
 * I1 refs counts the holders of G1 in samara/file.h; the thread that takes it to 0 closes.
 */
#include "memory/file.h"
#include "memory/pagecache.h"
#include "base/inject.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ALL_MODES                                                                             \
	(SM_FILE_READ | SM_FILE_WRITE | SM_FILE_DIRECTORY | SM_FILE_NOEXEC | SM_FILE_APPEND | \
	 SM_FILE_HUGETLB | SM_FILE_DEVICE | SM_FILE_NOWAIT | SM_FILE_VOLATILE |               \
	 SM_FILE_HUGE_ALIGN | SM_FILE_NO_MMAP)

/* Inode numbers of files that brought none: never reused, as a tmpfs numbers its files. */
static _Atomic uint64_t next_ino = 1024;

int sm_file_create(const struct sm_file_info *info, const struct sm_file_ops *ops, void *arg,
		   struct sm_file **out)
{
	static const struct sm_file_ops no_ops;
	const char *name = info->name ? info->name : "";
	size_t len = strlen(name) + 1;
	struct sm_file *file;

	*out = NULL;
	if (info->mode & ~(uint32_t)ALL_MODES)
		return -EINVAL;
	if (!(ops && ops->size) && !(info->mode & (SM_FILE_DIRECTORY | SM_FILE_DEVICE)))
		return -EINVAL;
	if (sm__inject_fail())
		return -ENOMEM;
	file = malloc(sizeof(*file) + len);
	if (!file)
		return -ENOMEM;
	memcpy(file->name, name, len);
	atomic_init(&file->refs, 1);
	atomic_init(&file->pages, NULL);
	file->ops = ops ? ops : &no_ops;
	file->arg = arg;
	file->info = *info;
	file->info.name = file->name;
	if (!info->ino) {
		file->info.ino = atomic_fetch_add_explicit(&next_ino, 1, memory_order_relaxed);
		file->info.dev_major = 0;
		file->info.dev_minor = 1;
	}
	*out = file;
	return 0;
}

struct sm_file *sm_file_get(struct sm_file *file)
{
	/* Relaxed: the caller holds a reference, so nothing is published by this one. */
	atomic_fetch_add_explicit(&file->refs, 1, memory_order_relaxed);
	return file;
}

static void free_file(struct rcu_head *head)
{
	free(sm__container_of(head, struct sm_file, rcu));
}

void sm_file_put(struct sm_file *file)
{
	struct sm__pages *pages;

	/* acq_rel: the last put comes after everything other holders did to the file. */
	if (atomic_fetch_sub_explicit(&file->refs, 1, memory_order_acq_rel) != 1)
		return;
	pages = sm__pages_bound(file);
	if (pages)
		sm__pages_detach_file(pages, file);
	if (file->ops->close)
		file->ops->close(file->arg);
	sm__call_rcu(&file->rcu, free_file);
}

const struct sm_file_info *sm_file_info(const struct sm_file *file)
{
	return &file->info;
}

uint64_t sm_file_size(const struct sm_file *file)
{
	return file->ops->size ? file->ops->size(file->arg) : 0;
}
