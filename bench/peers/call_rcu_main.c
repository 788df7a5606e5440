/* SPDX-License-Identifier: MIT */
/*
 * call_rcu_main.c - malloc, call_rcu, free: what one does with liburcu (flavour memb) and no cache. Linked with
 * glibc's malloc, or with another that is named in the program's name.
 */
#include <stdlib.h>

#define RCU_MEMBARRIER
#define _LGPL_SOURCE
#include <urcu.h>

#include "peer.h"

enum { OBJECT_SIZE = 256 };

struct object {
	struct rcu_head head;
	char rest[OBJECT_SIZE - sizeof(struct rcu_head)];
};

static void reclaim(struct rcu_head *head)
{
	free(head);
}

/* Allocation, deferred free; at the end everything has been freed. */
static uint64_t alloc_free_rcu(const char *arg, uint64_t n)
{
	uint64_t start;

	(void)arg;
	rcu_register_thread();
	start = bench_now();
	for (uint64_t i = 0; i < n; i++) {
		struct object *o = malloc(sizeof(*o));

		if (!o)
			return peer_fail("out of memory");
		BENCH_KEEP(o);
		call_rcu(&o->head, reclaim);
	}
	rcu_barrier();
	start = bench_now() - start;
	rcu_unregister_thread();
	return start;
}

int main(int argc, char **argv)
{
	static const struct peer_case cases[] = {
		{ "alloc-free_rcu", alloc_free_rcu },
		{ NULL, NULL },
	};

	return peer_main(argc, argv, cases);
}
