/* SPDX-License-Identifier: MIT */
/*
 * file_memory.c - in-memory files: a size and nothing behind the page cache, whose pages are the
 * only copy (SM_FILE_VOLATILE). A page that was never touched, or was punched, is born zero.
 *
 * I1 size only changes by truncate; its readers take whatever they find (the page cache orders a
 *    truncation against faults, not this number).
 */
#include "memory/file.h"
#include "base/inject.h"

#include <errno.h>
#include <stdlib.h>

struct memory_file {
	_Atomic uint64_t size;
};

static uint64_t memory_size(void *arg)
{
	struct memory_file *mf = arg;

	return atomic_load_explicit(&mf->size, memory_order_relaxed);
}

static int memory_truncate(void *arg, uint64_t size)
{
	struct memory_file *mf = arg;

	atomic_store_explicit(&mf->size, size, memory_order_relaxed);
	return 0;
}

/* The page cache drops the pages, and there is nothing else. */
static int memory_punch(void *arg, uint64_t offset, uint64_t len)
{
	(void)arg;
	(void)offset;
	(void)len;
	return 0;
}

static void memory_close(void *arg)
{
	free(arg);
}

static const struct sm_file_ops memory_ops = {
	.size = memory_size,
	.truncate = memory_truncate,
	.punch = memory_punch,
	.close = memory_close,
};

int sm_file_create_memory(const char *name, uint64_t size, struct sm_file **out)
{
	struct sm_file_info info = {
		.name = name ? name : "/dev/zero (deleted)",
		.mode = SM_FILE_READ | SM_FILE_WRITE | SM_FILE_NOWAIT | SM_FILE_VOLATILE,
	};
	struct memory_file *mf;
	int err;

	*out = NULL;
	if (sm__inject_fail())
		return -ENOMEM;
	mf = malloc(sizeof(*mf));
	if (!mf)
		return -ENOMEM;
	atomic_init(&mf->size, size);
	err = sm_file_create(&info, &memory_ops, mf, out);
	if (err)
		free(mf);
	return err;
}
