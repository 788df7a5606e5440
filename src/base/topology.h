/* SPDX-License-Identifier: MIT */
/*
 * topology.h - how many CPUs there can be, and on which memory node each is; read from /sys once.
 *
 * I1 Counts are at least 1; a CPU number at or above sm__cpu_count() has no slot anywhere, and who
 *    meets one takes the path without slots.
 */
#ifndef SM_BASE_TOPOLOGY_H
#define SM_BASE_TOPOLOGY_H

#include "base/base.h"

unsigned int sm__cpu_count(void);
unsigned int sm__node_count(void);

/* Node of a CPU as an index below sm__node_count(); 0 for a CPU nobody knows. */
unsigned int sm__cpu_node(unsigned int cpu);

#endif
