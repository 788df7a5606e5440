/* SPDX-License-Identifier: MIT */
/*
 * rcu_registry.c - the one file that knows what an entry of liburcu's registry looks like: after a
 * fork the readers of the parent's other threads have to leave the child's list, which the memb
 * flavour does not do by itself.
 */
#define RCU_MEMBARRIER 1
#define _LGPL_SOURCE   1
#include <urcu.h>

void *sm__rcu_reader_self(void);
void sm__rcu_reader_forget(void *reader);

void *sm__rcu_reader_self(void)
{
	return &URCU_TLS(urcu_memb_reader);
}

void sm__rcu_reader_forget(void *reader)
{
	struct urcu_reader *r = reader;

	cds_list_del(&r->node);
	r->ctr = 0;
}
