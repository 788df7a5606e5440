/* SPDX-License-Identifier: MIT */
/*
 * validate.c - everything that must hold of a space between two operations, counted from scratch:
 * the tree's own rules, order and alignment, records, counts, sums, charge (space.h I2, I3; vma.h I1,
 * I2), and that no two neighbours that could be one remain where a merge was due is not demanded:
 * Linux leaves such pairs too.
 */
#include "space/space.h"
#include "space/vma_lock.h"

struct sums {
	uint64_t count, total, data, exec, stack, locked, accounted;
};

static bool says_the_same(const struct sm__shown *a, const struct sm__shown *b)
{
	return a->value.node == b->value.node && a->start == b->start && a->end == b->end &&
	       sm__shown_flags(a) == sm__shown_flags(b) && a->pgoff == b->pgoff &&
	       a->file == b->file && a->tag == b->tag && a->name == b->name;
}

/* What readers without a lock see: vma.h I2. */
static const char *check_word(struct sm_space *s, const struct sm__vma *v)
{
	struct sm__tree_found found;
	struct sm__shown now;

	if (!s->tree.ops->load_rcu(&s->tree, v->start, &found) || found.first != v->start ||
	    found.last != v->end - 1)
		return "readers see other bounds than the VMA's";
	if (sm__vma_is_plain(v) != !v->shown)
		return "a plain VMA has a record, or one that is not has none";
	if (!v->shown)
		return found.word == sm__word_direct(&v->node, v->flags)
			       ? NULL
			       : "a word differs from its VMA";
	sm__show(v, &now);
	return found.word == (uintptr_t)&v->shown->value && says_the_same(&now, v->shown)
		       ? NULL
		       : "a record differs from its VMA";
}

static const char *check_vma(struct sm_space *s, const struct sm__vma *v)
{
	struct sm__vma *w = (struct sm__vma *)v;

	if (v->start >= v->end)
		return "a VMA is empty";
	if (!sm__page_aligned(s, v->start) || !sm__page_aligned(s, v->end))
		return "a VMA is not page aligned";
	if (v->end > s->o.range_end)
		return "a VMA leaves the range";
	if (atomic_load_explicit(&w->space, memory_order_relaxed) != s)
		return "a VMA is of another space";
	if (s->design.vma_lock == SM_VMA_LOCK_REFCNT &&
	    !atomic_load_explicit(&w->lock.refcnt, memory_order_relaxed))
		return "a VMA in the tree is detached";
	if (!s->tree.ops->rcu)
		return NULL;
	return check_word(s, v);
}

static void add(struct sums *t, const struct sm_space *s, const struct sm__vma *v)
{
	uint64_t pages = sm__pages(s, sm__vma_size(v)), f = v->flags;

	t->count++;
	t->total += pages;
	if ((f & (SM_VM_EXEC | SM_VM_WRITE | SM_VM_GROWSDOWN)) == SM_VM_EXEC)
		t->exec += pages;
	else if (f & SM_VM_GROWSDOWN)
		t->stack += pages;
	else if ((f & (SM_VM_WRITE | SM_VM_SHARED)) == SM_VM_WRITE)
		t->data += pages;
	if (f & SM_VM_LOCKED)
		t->locked += pages;
	if (f & SM_VM_ACCOUNT)
		t->accounted += pages;
}

const char *sm__space_check(struct sm_space *s)
{
	struct sm__tree_cursor c = sm__cursor(&s->tree);
	const char *why = s->tree.ops->validate(&s->tree);
	struct sums t = { 0 };
	sm_addr end = 0;

	if (why)
		return why;
	for (struct sm__vma *v = sm__seek(&c, 0); v; v = sm__next(&c)) {
		if (v->start < end)
			return "VMAs overlap or are out of order";
		if (sm__find(s, v->start) != v || sm__find(s, v->end - 1) != v)
			return "the tree holds a VMA under other bounds than its own";
		why = check_vma(s, v);
		if (why)
			return why;
		add(&t, s, v);
		end = v->end;
	}
	if (t.count != s->map_count)
		return "map_count is wrong";
	if (t.total != s->total_vm || t.data != s->data_vm || t.exec != s->exec_vm ||
	    t.stack != s->stack_vm || t.locked != s->locked_vm)
		return "a sum of pages is wrong";
	if (t.accounted != s->charged)
		return "the commit charge is wrong";
	return NULL;
}

#if SM_VALIDATE
enum { ALWAYS_BELOW = 64, ONE_IN = 64 };

/* Whole while the map is small; of a large one, about one operation in 64. */
void sm__space_validate(struct sm_space *s)
{
	static _Thread_local unsigned turn;
	const char *why;

	if (s->map_count > ALWAYS_BELOW && ++turn % ONE_IN)
		return;
	why = sm__space_check(s);
	SM_ASSERT_MSG(!why, "space %p: %s (%llu VMAs, charged %llu)", (void *)s, why,
		      (unsigned long long)s->map_count, (unsigned long long)s->charged);
}
#endif
