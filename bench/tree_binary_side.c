/* SPDX-License-Identifier: MIT */
/*
 * tree_binary_side.c - the red-black and the AVL tree of a space: nodes in the objects, largest
 * gaps in the nodes, a list through them. No readers without a lock, so nothing is deferred and
 * nothing allocated.
 */
#include "peers/tree_work.h"
#include "space/tree.h"
#include "tree_kinds.h"

struct side {
	struct sm__tree tree;
	const struct sm__tree_ops *ops;
	struct tree_object *copies; /* of a copy */
};

_Static_assert(sizeof(struct sm__tree_node) <= sizeof(((struct tree_object *)0)->links),
	       "a node fits into the links of an object");

static struct sm__tree_node *node_of(struct tree_object *o)
{
	return (struct sm__tree_node *)o->links;
}

static struct tree_object *object_of(struct sm__tree_node *n)
{
	return (struct tree_object *)n;
}

static struct side *side_make(const void *how)
{
	struct side *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->ops = how;
	s->tree.ops = how;
	s->ops->init(&s->tree);
	return s;
}

static void side_free(struct side *s)
{
	s->ops->destroy(&s->tree);
	free(s->copies);
	free(s);
}

static inline struct tree_object *side_load(struct side *s, uint64_t key)
{
	return object_of(s->ops->find(&s->tree, key));
}

static inline void store(struct side *s, struct tree_object *o, uint64_t first, uint64_t last)
{
	const struct sm__tree_item item = { node_of(o), 0, first, last };
	struct sm__tree_cursor c = sm__cursor(&s->tree);

	s->ops->store(&c, &item);
}

static inline void side_store(struct side *s, struct tree_object *o)
{
	store(s, o, o->range.first, o->range.last);
}

static inline void side_erase(struct side *s, struct tree_object *o)
{
	struct sm__tree_cursor c = sm__cursor(&s->tree);

	s->ops->erase(&c, o->range.first, o->range.last);
}

static inline void side_split(struct side *s, struct tree_object *o, struct tree_object *part)
{
	(void)o;
	side_store(s, &part[1]);
	side_store(s, &part[0]);
}

static inline void side_merge(struct side *s, struct tree_object *o, struct tree_object *part)
{
	(void)part;
	side_store(s, o);
}

static uint64_t side_walk(struct side *s)
{
	struct sm__tree_cursor c = sm__cursor(&s->tree);
	struct sm__tree_node *n;
	uint64_t count = 0, zero = 0;

	for (n = s->ops->seek(&c, 0); n; n = s->ops->next(&c)) {
		zero += object_of(n)->zero;
		count++;
	}
	return count + zero;
}

static uint64_t side_gap(struct side *s, uint64_t size, uint64_t max)
{
	const sm_addr limits[2] = { TREE_PAGE, max };
	sm_addr at;

	return s->ops->gap_highest(&s->tree, size, limits, &at) ? 0 : at;
}

/* As fork did with this tree: an object for each, linked at the end. */
static struct side *side_copy(struct side *s)
{
	struct side *d = side_make(s->ops);
	struct sm__tree_cursor c = sm__cursor(&s->tree);
	struct sm__tree_node *n;
	size_t i = 0;

	if (!d)
		return NULL;
	d->copies = tree_array(s->tree.count, sizeof(*d->copies));
	if (!d->copies) {
		side_free(d);
		return NULL;
	}
	for (n = s->ops->seek(&c, 0); n; n = s->ops->next(&c)) {
		const struct sm__tree_item item = { node_of(&d->copies[i++]), 0, n->first,
						    n->last };

		s->ops->load(&d->tree, &item, 1);
	}
	return d;
}

static double side_bytes(struct side *s)
{
	return (double)(s->tree.count * sizeof(struct sm__tree_node));
}

#include "peers/tree_cases.h"

TREE_KIND_FUNCTIONS

const struct tree_kind bench_tree_rb = { "rb",	    &sm__tree_rb_ops, kind_make,
					 kind_free, kind_measure,     kind_bytes };
const struct tree_kind bench_tree_avl = { "avl",     &sm__tree_avl_ops, kind_make,
					  kind_free, kind_measure,	kind_bytes };
