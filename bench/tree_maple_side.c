/* SPDX-License-Identifier: MIT */
/*
 * tree_maple_side.c - the maple tree as users of the library have it: RCU mode, nodes from sheaves,
 * retired ones through free_rcu, a read section around every look-up and walk.
 */
#include "samara/maple.h"
#include "samara/rcu.h"
#include "peers/tree_work.h"
#include "tree_kinds.h"

struct side {
	struct sm_maple tree;
};

static struct side *side_make(const void *how)
{
	struct side *s = aligned_alloc(64, sizeof(*s));

	(void)how;
	if (s && sm_maple_init(&s->tree, NULL)) {
		free(s);
		s = NULL;
	}
	return s;
}

static void side_free(struct side *s)
{
	sm_maple_destroy(&s->tree);
	free(s);
}

static inline struct tree_object *side_load(struct side *s, uint64_t key)
{
	return sm_maple_load(&s->tree, key);
}

static inline void side_store(struct side *s, struct tree_object *o)
{
	if (sm_maple_store_range(&s->tree, o->range.first, o->range.last, o))
		abort();
}

static inline void side_erase(struct side *s, struct tree_object *o)
{
	if (sm_maple_erase(&s->tree, o->range.first, NULL))
		abort();
}

static inline void side_split(struct side *s, struct tree_object *o, struct tree_object *part)
{
	(void)o;
	side_store(s, part);
}

static inline void side_merge(struct side *s, struct tree_object *o, struct tree_object *part)
{
	(void)part;
	side_store(s, o);
}

static uint64_t side_walk(struct side *s)
{
	uint64_t n = 0, zero = 0;
	struct tree_object *o;
	struct sm_cursor c;

	sm_rcu_read_lock();
	sm_cursor_init(&c, &s->tree, 0, 0);
	for (o = sm_cursor_find(&c, UINT64_MAX); o; o = sm_cursor_next(&c, UINT64_MAX)) {
		zero += o->zero;
		n++;
	}
	sm_rcu_read_unlock();
	return n + zero;
}

static uint64_t side_gap(struct side *s, uint64_t size, uint64_t max)
{
	const struct sm_maple_window w = { TREE_PAGE, max };
	struct sm_cursor c;

	sm_cursor_init_writer(&c, &s->tree, 0, 0);
	return sm_cursor_gap_highest(&c, w, size) ? 0 : c.index;
}

/* A copy from the same pool, as fork makes it. */
static struct side *side_copy(struct side *s)
{
	struct side *d = aligned_alloc(64, sizeof(*d));

	if (!d)
		return NULL;
	if (sm_maple_init(&d->tree, s->tree.pool) || sm_maple_copy(&d->tree, &s->tree)) {
		free(d);
		return NULL;
	}
	return d;
}

static double side_bytes(struct side *s)
{
	struct sm_maple_memory m;

	sm_maple_memory(&s->tree, &m);
	return (double)m.bytes;
}

#include "peers/tree_cases.h"

TREE_KIND_FUNCTIONS

const struct tree_kind bench_tree_maple = { "maple",   NULL,	     kind_make,
					    kind_free, kind_measure, kind_bytes };
