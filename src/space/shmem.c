/* SPDX-License-Identifier: MIT */
/*
 * shmem.c - the file behind MAP_SHARED|MAP_ANONYMOUS: no name but "/dev/zero (deleted)", charged to
 * the host as a whole when it is made, given back with its last reference.
 */
#include "space/space.h"
#include "base/inject.h"
#include "samara/file.h"

#include <errno.h>
#include <stdlib.h>

struct shmem {
	struct sm_host *host;
	uint64_t size;
	uint64_t charged; /* pages */
};

static uint64_t shmem_size(void *arg)
{
	return ((struct shmem *)arg)->size;
}

/* Its pages are in the page cache only: dropping them there is all. */
static int shmem_punch(void *arg, uint64_t offset, uint64_t length)
{
	(void)arg;
	(void)offset;
	(void)length;
	return 0;
}

static void shmem_close(void *arg)
{
	struct shmem *m = arg;

	sm__host_uncharge(m->host, m->charged);
	free(m);
}

static const struct sm_file_ops shmem_ops = {
	.size = shmem_size,
	.punch = shmem_punch,
	.close = shmem_close,
};

int sm__shmem_create(struct sm_space *s, uint64_t size, bool reserve, struct sm_file **out)
{
	const struct sm_file_info info = {
		.name = "/dev/zero (deleted)",
		.dev_minor = 1, /* the kernel's internal tmpfs: 00:01 */
		.mode = SM_FILE_READ | SM_FILE_WRITE | SM_FILE_NOWAIT | SM_FILE_VOLATILE,
	};
	struct shmem *m = sm__inject_fail() ? NULL : malloc(sizeof(*m));
	int err;

	if (!m)
		return -ENOMEM;
	m->host = s->host;
	m->size = size;
	m->charged = reserve ? sm__pages(s, size) : 0;
	err = sm__host_charge(s->host, m->charged, s->total_vm, s->o.capabilities & SM_CAP_ADMIN);
	if (!err) {
		err = sm_file_create(&info, &shmem_ops, m, out);
		if (!err)
			return 0;
		sm__host_uncharge(s->host, m->charged);
	}
	free(m);
	return err;
}
