/* SPDX-License-Identifier: MIT */
/*
 * link.c - VMAs in and out of the tree: the only place where the tree and map_count change.
 *
 * I1 After prepare, the announced changes cannot fail.
 * I2 A record is in the tree exactly as long as its VMA says so in `shown`; a replaced one waits for a
 *    grace period. Flags alone change in place: inside the record, or in the word of a plain VMA.
 * I3 A VMA is attached before the store that makes it visible, and marked detached after the change
 *    that made it invisible.
 */
#include "space/space.h"
#include "space/vma_lock.h"

#include <errno.h>

int sm__prepare(struct sm_space *s, struct sm__prep *p, unsigned records, unsigned changes)
{
	int err;

	p->n = 0;
	if (!s->tree.ops->rcu)
		return changes ? s->tree.ops->reserve(&s->tree, changes) : 0;
	while (p->n < records) {
		struct sm__shown *shown = sm_cache_alloc(s->shown_cache);

		if (!shown) {
			sm__unprepare(s, p);
			return -ENOMEM;
		}
		p->shown[p->n++] = shown;
	}
	err = changes ? s->tree.ops->reserve(&s->tree, changes) : 0;
	if (err)
		sm__unprepare(s, p);
	return err;
}

void sm__unprepare(struct sm_space *s, struct sm__prep *p)
{
	while (p->n)
		sm_cache_free(s->shown_cache, p->shown[--p->n]);
	s->tree.ops->release(&s->tree);
}

void sm__show(const struct sm__vma *v, struct sm__shown *out)
{
	out->value.node = (struct sm__tree_node *)&v->node;
	out->start = v->start;
	out->end = v->end;
	/* relaxed: the store in the tree publishes it */
	atomic_store_explicit(&out->flags, v->flags, memory_order_relaxed);
	out->pgoff = v->pgoff;
	out->file = v->file;
	out->tag = v->tag;
	out->name = v->name;
}

/* The word of v as it is now, with a record if it takes one; the record it had, to be freed after the store,
 * or NULL. */
static struct sm__shown *renew(struct sm_space *s, struct sm__prep *p, struct sm__vma *v,
			       struct sm__tree_item *item)
{
	struct sm__shown *old = v->shown;

	*item = (struct sm__tree_item){ &v->node, 0, v->start, v->end - 1 };
	SM_ASSERT_MSG(v->start < v->end, "%#llx-%#llx", (unsigned long long)v->start,
		      (unsigned long long)v->end);
	SM_ASSERT_MSG(s->design.vma_lock == SM_VMA_LOCK_NONE || sm__vma_is_stamped(s, v),
		      "VMA %#llx is stored without its write lock", (unsigned long long)v->start);
	if (!s->tree.ops->rcu)
		return NULL;
	if (sm__vma_is_plain(v)) {
		v->shown = NULL;
		item->word = sm__word_direct(&v->node, v->flags);
	} else {
		SM_ASSERT(p->n > 0);
		v->shown = p->shown[--p->n];
		sm__show(v, v->shown);
		item->word = (uintptr_t)&v->shown->value;
	}
	return old;
}

void sm__store(struct sm_space *s, struct sm__prep *p, struct sm__vma *v, struct sm__tree_cursor *c)
{
	struct sm__tree_cursor own;
	struct sm__tree_item item;
	struct sm__shown *old = renew(s, p, v, &item);

	sm__delay();
	if (!c) {
		own = sm__cursor(&s->tree);
		c = &own;
	}
	s->tree.ops->store(c, &item);
	if (old)
		sm_cache_free_rcu(s->shown_cache, old);
}

void sm__store_cut(struct sm_space *s, struct sm__prep *p, struct sm__vma *v,
		   struct sm__vma *const sides[2], struct sm__tree_cursor *c)
{
	uint64_t words[2] = { 0, 0 };
	struct sm__shown *old[3] = { NULL, NULL, NULL };
	struct sm__tree_item item;
	struct sm__tree_cursor own;

	if (!s->tree.ops->rcu) {
		sm__store(s, p, v, c);
		for (int i = 0; i < 2; i++)
			if (sides[i])
				sm__store(s, p, sides[i], c);
		return;
	}
	for (int i = 0; i < 2; i++) {
		if (sides[i]) {
			old[i] = renew(s, p, sides[i], &item);
			words[i] = item.word;
		}
	}
	old[2] = renew(s, p, v, &item);
	if (!c) {
		own = sm__cursor(&s->tree);
		c = &own;
	}
	sm__delay();
	s->tree.ops->store_cut(c, &item, words);
	for (int i = 0; i < 3; i++)
		if (old[i])
			sm_cache_free_rcu(s->shown_cache, old[i]);
}

void sm__store_without(struct sm_space *s, struct sm__prep *p, struct sm__vma *v, sm_addr start,
		       sm_addr end, struct sm__tree_cursor *c)
{
	bool front = v->start == start;
	struct sm__tree_item item, hole = { NULL, 0, start, end - 1 };
	uint64_t words[2] = { 0, 0 };
	struct sm__shown *old;

	SM_ASSERT(front ? end < v->end : v->start < start && end == v->end);
	if (front) {
		v->pgoff += sm__pages(s, end - start);
		v->start = end;
	} else {
		v->end = start;
	}
	if (!s->tree.ops->rcu) {
		sm__store(s, p, v, c);
		return;
	}
	old = renew(s, p, v, &item);
	words[front] = item.word;
	sm__delay();
	s->tree.ops->store_cut(c, &hole, words);
	if (old)
		sm_cache_free_rcu(s->shown_cache, old);
}

int sm__store_flags(struct sm_space *s, struct sm__vma *v, uint64_t flags,
		    struct sm__tree_cursor *c)
{
	bool plain = sm__is_plain(flags, v->file, v->tag, v->name);
	struct sm__prep prep = { .n = 0 };

	SM_ASSERT_MSG(s->design.vma_lock == SM_VMA_LOCK_NONE || sm__vma_is_stamped(s, v),
		      "VMA %#llx changes without its write lock", (unsigned long long)v->start);
	if (s->tree.ops->rcu && (plain || !v->shown)) {
		if (!plain && sm__prepare(s, &prep, 1, 0))
			return -ENOMEM;
		v->flags = flags;
		sm__store(s, &prep, v, c); /* its bounds stay: no node */
		return 0;
	}
	v->flags = flags;
	sm__delay();
	if (s->tree.ops->rcu)
		/* release: pairs with sm__shown_flags (G3 of mmap_lock.h) */
		atomic_store_explicit(&v->shown->flags, flags, memory_order_release);
	return 0;
}

void sm__attach(struct sm_space *s, struct sm__vma *v)
{
	sm__vma_start_write(s, v);
	sm__vma_mark_attached(s, v);
	if (++s->map_count > s->map_peak)
		s->map_peak = s->map_count;
}

void sm__adopt(struct sm_space *s, struct sm__vma *to, const struct sm__vma *from)
{
	if (from->file && s->backend->adopt)
		s->backend->adopt(to, from);
}

void sm__store_new(struct sm_space *s, struct sm__prep *p, struct sm__vma *v,
		   struct sm__tree_cursor *c)
{
	sm__attach(s, v);
	sm__store(s, p, v, c);
}

void sm__erase(struct sm_space *s, sm_addr start, sm_addr end, struct sm__tree_cursor *c)
{
	struct sm__tree_cursor own;

	if (!c) {
		own = sm__cursor(&s->tree);
		c = &own;
	}
	s->tree.ops->erase(c, start, end - 1);
}

void sm__detach(struct sm__op *op, struct sm__vma *v)
{
	struct sm_space *s = op->space;

	sm__vma_start_write(s, v);
	sm__vma_mark_detached(s, v);
	if (v->shown) {
		sm_cache_free_rcu(s->shown_cache, v->shown);
		v->shown = NULL;
	}
	if (v->file && s->backend->leave_map)
		s->backend->leave_map(v);
	s->map_count--;
	v->gone_next = op->gone;
	op->gone = v;
}

struct sm__vma *sm__vma_before(struct sm_space *s, sm_addr start)
{
	struct sm__tree_cursor c = sm__cursor(&s->tree);

	sm__seek(&c, start);
	return sm__prev(&c);
}
