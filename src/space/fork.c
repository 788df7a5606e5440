/* SPDX-License-Identifier: MIT */
/*
 * fork.c - a copy of a space.
 *
 * I1 The parent is write-locked, space and every VMA that is copied: no fault changes what is copied.
 * I2 The child is private to the caller until it is returned: its tree is filled in one go.
 * I3 On failure the child is destroyed like any space; the parent's map was never touched.
 */
#include "space/space.h"
#include "base/inject.h"
#include "space/space_make.h"
#include "space/vma_lock.h"

#include <errno.h>
#include <stdlib.h>

struct forking {
	struct sm__op op; /* on the parent */
	struct sm_space *parent, *child;
	struct sm__tree_item *items;
	struct sm__vma **from; /* which VMA of the parent each is a copy of */
	size_t n;
};

/* Every copied area of written memory gets an identity of its own, below that of the parent. */
static uint64_t child_identity(struct sm_space *child, const struct sm__vma *v)
{
	if (!sm__anon_of(v) || (v->flags & SM_VM_WIPEONFORK))
		return 0;
	return sm__anon_new(child) | SM__ANON_FORKED;
}

/* n has its record already, if it takes one. */
static uint64_t word_of(const struct sm_space *child, const struct sm__vma *n)
{
	if (!child->tree.ops->rcu)
		return 0;
	return n->shown ? (uintptr_t)&n->shown->value : sm__word_direct(&n->node, n->flags);
}

static int copy_vma(struct forking *f, struct sm__vma *v)
{
	struct sm_space *child = f->child;
	uint64_t pages = sm__pages(child, sm__vma_size(v));
	bool record = child->tree.ops->rcu && !sm__vma_is_plain(v);
	struct sm__shown *shown = NULL;
	struct sm__vma *n;

	if ((v->flags & SM_VM_ACCOUNT) && sm__charge(child, pages))
		return -ENOMEM;
	n = sm__vma_copy(child, v);
	if (n && record)
		shown = sm_cache_alloc(child->shown_cache);
	if (!n || (record && !shown)) {
		if (n)
			sm__vma_free(child, n, true);
		if (v->flags & SM_VM_ACCOUNT)
			sm__uncharge(child, pages);
		return -ENOMEM;
	}
	n->flags &= ~(uint64_t)(SM_VM_LOCKED | SM_VM_LOCKONFAULT);
	atomic_store_explicit(&n->anon, child_identity(child, v), memory_order_relaxed);
	if (shown)
		sm__show(n, shown);
	n->shown = shown;
	sm__account(child, n->flags, (int64_t)pages);
	f->from[f->n] = v;
	f->items[f->n++] =
		(struct sm__tree_item){ &n->node, word_of(child, n), n->start, n->end - 1 };
	return 0;
}

/* The records that load() gives to readers; and the VMAs become attached. The child is write-locked. */
static int fill(struct forking *f)
{
	struct sm_space *child = f->child;
	int err;

	for (size_t i = 0; i < f->n; i++) {
		struct sm__vma *v = sm__vma_of(f->items[i].node);

		sm__vma_start_write(child, v);
		sm__vma_mark_attached(child, v);
	}
	err = child->tree.ops->load(&child->tree, f->items, f->n);
	if (!err)
		child->map_count = child->map_peak = f->n;
	return err;
}

static void drop_items(struct forking *f, bool attached)
{
	struct sm_space *child = f->child;

	for (size_t i = 0; i < f->n; i++) {
		struct sm__vma *v = sm__vma_of(f->items[i].node);

		if (attached) {
			sm__vma_start_write(child, v);
			sm__vma_mark_detached(child, v);
		}
		if (v->shown)
			sm_cache_free(child->shown_cache, v->shown);
		v->shown = NULL;
		sm__vma_free(child, v, true);
	}
	sm__uncharge(child, child->charged);
	f->n = 0;
}

static int copy_all(struct forking *f)
{
	struct sm_space *p = f->parent;
	struct sm__tree_cursor c = sm__cursor(&p->tree);
	int err = 0;

	f->items = sm__inject_fail() ? NULL : malloc((p->map_count + 1) * sizeof(*f->items));
	f->from = sm__inject_fail() ? NULL : malloc((p->map_count + 1) * sizeof(*f->from));
	if (!f->items || !f->from)
		return -ENOMEM;
	for (struct sm__vma *v = sm__seek(&c, 0); v && !err; v = sm__next(&c)) {
		err = sm__vma_start_write_interruptible(p, v);
		if (!err && !(v->flags & SM_VM_DONTCOPY))
			err = copy_vma(f, v);
	}
	if (err) {
		drop_items(f, false);
		return err;
	}
	err = fill(f);
	if (err)
		drop_items(f, true);
	return err;
}

/* The pages, once the child's map stands: on failure the child is unmapped as a whole. */
static int copy_pages(struct forking *f)
{
	const struct sm__backend *b = f->parent->backend;
	int err = 0;

	for (size_t i = 0; b->fork && i < f->n && !err; i++) {
		struct sm__vma *v = sm__vma_of(f->items[i].node);

		if (!(v->flags & SM_VM_WIPEONFORK))
			err = b->fork(v, f->from[i], sm__op_gather(&f->op));
	}
	return err;
}

struct sm_space *sm_fork(struct sm_space *parent)
{
	struct forking f = { .parent = parent };
	int err;

	sm__op_init(&f.op, parent, SM_CALL_FORK);
	err = sm__op_lock(&f.op, SM__WRITE, 0, parent->o.range_end);
	if (err) {
		errno = -err;
		return NULL;
	}
	f.child = sm__space_new(parent->host, &parent->o);
	err = f.child ? 0 : -ENOMEM;
	if (!err) {
		/*
		 * The host's passes (reclaim, merging) find the child from now on: they must not touch its
		 * pages before the parent's TLBs have lost the right to write them.
		 */
		(void)sm__mmap_write_lock(&f.child->lock, SM_CALL_FORK, false);
		sm__space_inherit(f.child, parent);
		err = copy_all(&f);
		if (!err)
			err = copy_pages(&f);
	}
	sm__op_unlock(&f.op);
	if (f.child)
		sm__mmap_write_unlock(&f.child->lock);
	free(f.items);
	free(f.from);
	if (err) {
		if (f.child)
			sm_space_destroy(f.child);
		errno = -err;
		return NULL;
	}
	return f.child;
}
