/* SPDX-License-Identifier: MIT */
/*
 * space.c - spaces come and go.
 *
 * I1 A space's memory is freed after a grace period: readers of a recycled VMA may still wake its
 *    writer (vma_lock.h I4).
 */
#include "space/space.h"
#include "base/inject.h"
#include "base/thread.h"
#include "space/space_make.h"
#include "space/spaces.h"
#include "space/vma_lock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void sm_space_options_init(struct sm_space_options *o)
{
	memset(o, 0, sizeof(*o));
	o->size = sizeof(*o);
	o->range_end = 0x7ffffffff000; /* 2^47 less the guard page of x86-64 */
	o->limits =
		(struct sm_rlimits){ SM_RLIM_INFINITY, SM_RLIM_INFINITY, 8ull << 20, 8ull << 20 };
	(void)sm_design_preset("samara", &o->design);
}

/* Zero means the default of Linux without randomisation. */
static void fill_bases(const struct sm_host *h, struct sm_space_options *o)
{
	uint64_t page = h->o.page_size;

	if (!o->mmap_base) {
		uint64_t stack = o->limits.stack + (h->o.stack_guard_gap << h->page_shift);
		uint64_t least = 128ull << 20, most = o->range_end / 6 * 5;

		stack = stack < o->limits.stack || stack > most ? most : stack;
		stack = stack < least ? least : stack;
		o->mmap_base = (o->range_end - stack) & ~(page - 1);
	}
	if (!o->legacy_base)
		o->legacy_base = (o->range_end / 3 + page - 1) & ~(page - 1);
}

static const char *refuse(const struct sm_host *h, const struct sm_space_options *o)
{
	uint64_t page = h->o.page_size;

	if (o->size != sizeof(*o))
		return "size: not that of struct sm_space_options";
	if (o->range_end < 1ull << 20 || o->range_end > 1ull << 56 || o->range_end % page)
		return "range_end: not a page boundary between 1 MiB and 2^56";
	if (o->layout > SM_LAYOUT_LEGACY)
		return "layout: unknown";
	if (o->mmap_base % page || o->mmap_base > o->range_end)
		return "mmap_base: not a page boundary up to range_end";
	if (o->legacy_base % page || o->legacy_base > o->range_end)
		return "legacy_base: not a page boundary up to range_end";
	if (o->start_brk > o->range_end)
		return "start_brk: above range_end";
	if (o->backend > SM_BACKEND_SOFT || !sm__backend_of(o->backend))
		return "backend: unknown";
	return sm_design_validate(&o->design);
}

static const struct sm__tree_ops *tree_of(enum sm_design_tree t)
{
	switch (t) {
	case SM_TREE_RB:
		return &sm__tree_rb_ops;
	case SM_TREE_AVL:
		return &sm__tree_avl_ops;
	case SM_TREE_MAPLE:
		return &sm__tree_maple_ops;
	}
	return NULL;
}

static bool make_caches(struct sm_space *s)
{
	const struct sm_design *d = &s->design;
	bool typesafe =
		d->vma_free == SM_VMA_FREE_TYPESAFE || d->vma_free == SM_VMA_FREE_TYPESAFE_SHEAF;
	bool sheaf = d->vma_free == SM_VMA_FREE_SHEAF ||
		     d->vma_free == SM_VMA_FREE_TYPESAFE_SHEAF || d->layer == SM_DESIGN_LAYER_SHEAF;
	enum sm_cache_layer layer = sheaf ? SM_CACHE_LAYER_SHEAF : SM_CACHE_LAYER_SLAB;

	s->vma_layer = layer;
	s->vma_cache =
		sm__host_cache(s->host, typesafe ? SM__CACHE_VMA_TYPESAFE : SM__CACHE_VMA, layer);
	s->shown_cache = sm__host_cache(s->host, SM__CACHE_SHOWN, SM_CACHE_LAYER_SHEAF);
	s->lock_cache = d->vma_lock == SM_VMA_LOCK_OWN
				? sm__host_cache(s->host, SM__CACHE_VMA_LOCK, layer)
				: NULL;
	return s->vma_cache && s->shown_cache && (s->lock_cache || d->vma_lock != SM_VMA_LOCK_OWN);
}

static void set_limits(struct sm_space *s, const struct sm_rlimits *l)
{
	/* relaxed: each call reads each limit once; they are not read together */
	atomic_store_explicit(&s->limit_as, l->as, memory_order_relaxed);
	atomic_store_explicit(&s->limit_data, l->data, memory_order_relaxed);
	atomic_store_explicit(&s->limit_stack, l->stack, memory_order_relaxed);
	atomic_store_explicit(&s->limit_memlock, l->memlock, memory_order_relaxed);
}

struct sm_space *sm__space_new(struct sm_host *host, const struct sm_space_options *o)
{
	struct sm_space *s =
		sm__inject_fail() ? NULL : aligned_alloc(SM__CACHELINE * 2, sizeof(*s));

	if (!s)
		return NULL;
	memset(s, 0, sizeof(*s));
	s->host = host;
	s->o = *o;
	s->design = o->design;
	s->backend = sm__backend_of(o->backend);
	s->page_size = host->o.page_size;
	s->page_shift = host->page_shift;
	s->brk = o->start_brk;
	set_limits(s, &o->limits);
	s->tree.ops = tree_of(o->design.tree);
	if (o->design.tree == SM_TREE_MAPLE) {
		s->tree.nodes = sm__host_nodes(host, o->design.node_free, o->design.layer);
		if (!s->tree.nodes)
			goto free_space;
	}
	if (!make_caches(s) || sm__mmap_lock_init(&s->lock, o->lock_stats))
		goto free_space;
	if (s->tree.ops->init(&s->tree))
		goto free_lock;
	if (s->backend->attach && s->backend->attach(s))
		goto free_tree;
	atomic_fetch_add_explicit(&host->spaces, 1, memory_order_relaxed);
	sm__spaces_enlist(s);
	return s;
free_tree:
	s->tree.ops->destroy(&s->tree);
free_lock:
	sm__mmap_lock_destroy(&s->lock);
free_space:
	free(s);
	return NULL;
}

void sm__space_inherit(struct sm_space *child, const struct sm_space *parent)
{
	struct sm_space *p = (struct sm_space *)parent;
	const struct sm_rlimits limits = {
		atomic_load_explicit(&p->limit_as, memory_order_relaxed),
		atomic_load_explicit(&p->limit_data, memory_order_relaxed),
		atomic_load_explicit(&p->limit_stack, memory_order_relaxed),
		atomic_load_explicit(&p->limit_memlock, memory_order_relaxed),
	};

	child->brk = parent->brk;
	set_limits(child, &limits);
}

struct sm_space *sm_space_create(struct sm_host *host, const struct sm_space_options *options,
				 const char **why)
{
	struct sm_space_options o;
	const char *text;
	struct sm_space *s;

	sm__thread_enter();
	if (options)
		o = *options;
	else
		sm_space_options_init(&o);
	text = o.size == sizeof(o) ? NULL : "size: not that of struct sm_space_options";
	if (!text) {
		fill_bases(host, &o);
		text = refuse(host, &o);
	}
	if (!text && !tree_of(o.design.tree))
		text = "tree: not built in";
	if (why)
		*why = text ? text : "";
	if (text) {
		errno = EINVAL;
		return NULL;
	}
	s = sm__space_new(host, &o);
	if (!s)
		errno = ENOMEM;
	return s;
}

static void free_space(struct rcu_head *head)
{
	free(sm__container_of(head, struct sm_space, rcu));
}

/* Everything goes: pages first, as one gather, then the VMAs, which nobody can reach any more. */
static void unmap_all(struct sm__op *op)
{
	struct sm_space *s = op->space;
	struct sm__tree_cursor c = sm__cursor(&s->tree);
	struct sm__vma *v, *next;

	for (v = sm__seek(&c, 0); v; v = sm__next(&c)) {
		struct sm__step step = { .kind = SM__STEP_UNMAP,
					 .space = s,
					 .vma = v,
					 .start = v->start,
					 .end = v->end,
					 .old_flags = v->flags };

		/* at the end of a space the backend cuts nothing, so planning needs no memory */
		if (s->backend->plan && s->backend->plan(&step) == 0)
			s->backend->commit(&step, sm__op_gather(op));
	}
	for (v = sm__seek(&c, 0); v; v = sm__next(&c)) {
		sm__account(s, v->flags, -(int64_t)sm__pages(s, sm__vma_size(v)));
		sm__detach(op, v);
	}
	s->tree.ops->destroy(&s->tree);
	sm__uncharge(s, s->charged);
	sm__op_finish_gather(op);
	sm__mmap_write_unlock(&s->lock);
	op->mode = SM__UNLOCKED;
	for (v = op->gone; v; v = next) {
		next = v->gone_next;
		sm__vma_free(s, v, true);
	}
	op->gone = NULL;
}

void sm_space_destroy(struct sm_space *s)
{
	struct sm__op op;

	if (!s)
		return;
	sm__op_init(&op, s, SM_CALL_EXIT);
	sm__spaces_delist(s);
	sm__mmap_write_lock(&s->lock, SM_CALL_EXIT, false);
	op.mode = SM__WRITE;
	unmap_all(&op);
	sm__op_unlock(&op);
	if (s->backend->leave)
		s->backend->leave(s);
	if (s->backend->detach)
		s->backend->detach(s);
	sm__mmap_lock_destroy(&s->lock);
	/* release: pairs with sm_host_destroy, which then waits for the callbacks */
	atomic_fetch_sub_explicit(&s->host->spaces, 1, memory_order_release);
	sm__call_rcu(&s->rcu, free_space);
}

void sm_space_set_limits(struct sm_space *s, const struct sm_rlimits *limits)
{
	set_limits(s, limits);
}

const struct sm_design *sm_space_design(const struct sm_space *s)
{
	return &s->design;
}

struct sm_host *sm_space_host(const struct sm_space *s)
{
	return s->host;
}
