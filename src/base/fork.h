/* SPDX-License-Identifier: MIT */
/*
 * fork.h - what has to be held still across fork, in one order.
 *
 * I1 prepare runs in ascending level, after in descending level; a level is registered once.
 * I2 A level may wait for what lower levels keep still, never the other way round.
 */
#ifndef SM_BASE_FORK_H
#define SM_BASE_FORK_H

#include "base/base.h"

enum sm__fork_level {
	SM__FORK_RCU,	/* no callback runs, nobody registers, no grace period is open */
	SM__FORK_SPACE, /* mmap_lock and its like */
	SM__FORK_MEMORY,
	SM__FORK_CACHE, /* slots, barns, slabs */
	SM__FORK_LEVELS,
};

struct sm__fork_ops {
	void (*prepare)(void);
	void (*after)(bool in_child);
};

/* Ordinary context. Registering a level again changes nothing. */
void sm__fork_register(enum sm__fork_level level, const struct sm__fork_ops *ops);

#endif
