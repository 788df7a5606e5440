/* SPDX-License-Identifier: MIT */
/* tree_binary.c - the part of the binary trees that does not depend on how they are kept low. */
#include "space/tree_binary.h"

#include <errno.h>

static sm_addr gap_start(const struct sm__tree *t, const struct sm__tree_node *n)
{
	return n->prev == &t->ends ? 0 : n->prev->last + 1;
}

static uint64_t gap_before(const struct sm__tree *t, const struct sm__tree_node *n)
{
	return n->first - gap_start(t, n);
}

static uint64_t computed_gap(const struct sm__tree *t, const struct sm__tree_node *n)
{
	uint64_t g = gap_before(t, n);

	if (n->left && n->left->subtree_gap > g)
		g = n->left->subtree_gap;
	if (n->right && n->right->subtree_gap > g)
		g = n->right->subtree_gap;
	return g;
}

/* Redoes the gaps from n to the root; stops where nothing changes. */
static void propagate(const struct sm__tree *t, struct sm__tree_node *n)
{
	for (; n; n = sm__binary_parent(n)) {
		uint64_t g = computed_gap(t, n);

		if (n->subtree_gap == g)
			return;
		n->subtree_gap = g;
	}
}

/* As propagate, to the root in any case: below, more than one node changed. */
static void propagate_all(const struct sm__tree *t, struct sm__tree_node *n)
{
	for (; n; n = sm__binary_parent(n))
		n->subtree_gap = computed_gap(t, n);
}

static void set_parent(struct sm__tree_node *n, struct sm__tree_node *p)
{
	n->parent_and_colour = (uintptr_t)p | sm__binary_bits(n);
}

static void replace_child(struct sm__tree *t, struct sm__tree_node *parent,
			  struct sm__tree_node *old, struct sm__tree_node *new)
{
	if (!parent)
		t->root = new;
	else if (parent->left == old)
		parent->left = new;
	else
		parent->right = new;
}

/*
 *      n                r
 *     / \              / \
 *    a   r     =>     n   c        (left; right is the mirror)
 *       / \          / \
 *      b   c        a   b
 */
void sm__binary_rotate(struct sm__tree *t, struct sm__tree_node *n, bool left)
{
	struct sm__tree_node *r = left ? n->right : n->left;
	struct sm__tree_node *b = left ? r->left : r->right;
	struct sm__tree_node *p = sm__binary_parent(n);

	if (left) {
		n->right = b;
		r->left = n;
	} else {
		n->left = b;
		r->right = n;
	}
	if (b)
		set_parent(b, n);
	set_parent(r, p);
	set_parent(n, r);
	replace_child(t, p, n, r);
	r->subtree_gap = n->subtree_gap;
	n->subtree_gap = computed_gap(t, n);
}

void sm__binary_link(struct sm__tree *t, struct sm__tree_node *n, struct sm__tree_node *before,
		     unsigned int bits)
{
	struct sm__tree_node *after = before->next, *p;

	n->prev = before;
	n->next = after;
	before->next = n;
	after->prev = n;
	n->left = n->right = NULL;
	if (before != &t->ends && !before->right) {
		p = before;
		p->right = n;
	} else if (after != &t->ends) {
		p = after; /* its left is empty: n's predecessor would be there */
		p->left = n;
	} else {
		p = NULL;
		t->root = n;
	}
	n->parent_and_colour = (uintptr_t)p | bits;
	n->subtree_gap = computed_gap(t, n);
	propagate_all(t, p);
	if (after != &t->ends)
		propagate(t, after);
	t->count++;
}

struct sm__binary_hole sm__binary_unlink(struct sm__tree *t, struct sm__tree_node *n)
{
	struct sm__tree_node *p = sm__binary_parent(n), *x, *after = n->next;
	struct sm__tree_node *deepest; /* gaps are wrong from here upwards */
	unsigned int lost = sm__binary_bits(n);
	bool left = p && p->left == n;

	n->prev->next = after;
	after->prev = n->prev;
	if (!n->left || !n->right) {
		x = n->left ? n->left : n->right;
		if (x)
			set_parent(x, p);
		replace_child(t, p, n, x);
		deepest = p;
	} else {
		/* the successor takes n's place and colour */
		struct sm__tree_node *y = after;
		struct sm__tree_node *yp = sm__binary_parent(y);

		x = y->right;
		lost = sm__binary_bits(y);
		left = yp != n;
		if (yp == n) {
			yp = y;
		} else {
			yp->left = x;
			if (x)
				set_parent(x, yp);
			y->right = n->right;
			set_parent(y->right, y);
		}
		y->left = n->left;
		set_parent(y->left, y);
		y->parent_and_colour = n->parent_and_colour;
		replace_child(t, p, n, y);
		deepest = yp;
		p = yp;
	}
	propagate_all(t, deepest);
	if (after != &t->ends)
		propagate_all(t, after);
	n->prev = n->next = n->left = n->right = NULL;
	n->parent_and_colour = 0;
	t->count--;
	return (struct sm__binary_hole){ x, p, left, lost };
}

static void set_bounds(struct sm__tree *t, struct sm__tree_node *n, sm_addr first, sm_addr last)
{
	n->first = first;
	n->last = last;
	propagate(t, n);
	if (n->next != &t->ends)
		propagate(t, n->next);
}

int sm__binary_init(struct sm__tree *t)
{
	t->root = NULL;
	t->count = 0;
	t->ends.prev = t->ends.next = &t->ends;
	return 0;
}

void sm__binary_destroy(struct sm__tree *t)
{
	sm__binary_init(t);
}

/* The first node whose range ends at or after addr. */
static struct sm__tree_node *lower_bound(struct sm__tree *t, sm_addr addr)
{
	struct sm__tree_node *n = t->root, *best = NULL;

	while (n) {
		if (n->last >= addr) {
			best = n;
			if (n->first <= addr)
				break;
			n = n->left;
		} else {
			n = n->right;
		}
	}
	return best;
}

struct sm__tree_node *sm__binary_find(struct sm__tree *t, sm_addr addr)
{
	struct sm__tree_node *n = lower_bound(t, addr);

	return n && n->first <= addr ? n : NULL;
}

struct sm__tree_node *sm__binary_seek(struct sm__tree_cursor *c, sm_addr addr)
{
	return c->node = lower_bound(c->tree, addr);
}

struct sm__tree_node *sm__binary_next(struct sm__tree_cursor *c)
{
	struct sm__tree_node *n = c->node ? c->node->next : &c->tree->ends;

	return c->node = n == &c->tree->ends ? NULL : n;
}

struct sm__tree_node *sm__binary_prev(struct sm__tree_cursor *c)
{
	struct sm__tree_node *n = c->node ? c->node->prev : c->tree->ends.prev;

	return c->node = n == &c->tree->ends ? NULL : n;
}

void sm__binary_around(struct sm__tree_cursor *c, struct sm__tree_node *out[2])
{
	const struct sm__tree_node *ends = &c->tree->ends;

	out[0] = c->node->prev == ends ? NULL : c->node->prev;
	out[1] = c->node->next == ends ? NULL : c->node->next;
}

int sm__binary_reserve(struct sm__tree *t, unsigned changes)
{
	(void)t;
	(void)changes;
	return 0;
}

void sm__binary_release(struct sm__tree *t)
{
	(void)t;
}

void sm__binary_store(struct sm__tree_cursor *c, const struct sm__tree_item *item,
		      const struct sm__binary_balance *b)
{
	struct sm__tree *t = c->tree;
	struct sm__tree_node *n = lower_bound(t, item->first), *next;
	struct sm__tree_node *before = n ? n->prev : t->ends.prev;

	for (; n && n->first <= item->last; n = next) {
		next = n->next == &t->ends ? NULL : n->next;
		if (n == item->node)
			continue;
		if (n->first >= item->first && n->last <= item->last) {
			b->unlink(t, n);
		} else if (n->first < item->first) {
			SM_ASSERT_MSG(n->last <= item->last, "store inside %#llx-%#llx",
				      (unsigned long long)n->first, (unsigned long long)n->last);
			set_bounds(t, n, n->first, item->first - 1);
			before = n;
		} else {
			set_bounds(t, n, item->last + 1, n->last);
		}
	}
	if (item->node->next) { /* linked: it was among them, or grows into free space */
		set_bounds(t, item->node, item->first, item->last);
	} else {
		item->node->first = item->first;
		item->node->last = item->last;
		b->link(t, item->node, before);
	}
	c->node = item->node;
}

void sm__binary_erase(struct sm__tree_cursor *c, sm_addr first, sm_addr last,
		      const struct sm__binary_balance *b)
{
	struct sm__tree *t = c->tree;
	struct sm__tree_node *n = lower_bound(t, first), *next;

	for (; n && n->first <= last; n = next) {
		SM_ASSERT(n->first >= first && n->last <= last);
		next = n->next == &t->ends ? NULL : n->next;
		b->unlink(t, n);
	}
	c->node = n;
}

int sm__binary_load(struct sm__tree *t, const struct sm__tree_item *items, size_t n,
		    const struct sm__binary_balance *b)
{
	for (size_t i = 0; i < n; i++) {
		items[i].node->first = items[i].first;
		items[i].node->last = items[i].last;
		b->link(t, items[i].node, t->ends.prev);
	}
	return 0;
}

/*
 * The leftmost node with a gap of size in front of it, of which the end is at least min_first - 1.
 */
static struct sm__tree_node *leftmost_gap(struct sm__tree *t, struct sm__tree_node *n,
					  uint64_t size, sm_addr min_first)
{
	struct sm__tree_node *r;

	while (n && n->subtree_gap >= size) {
		if (n->first >= min_first) {
			r = leftmost_gap(t, n->left, size, min_first);
			if (r)
				return r;
			if (gap_before(t, n) >= size)
				return n;
		}
		n = n->right;
	}
	return NULL;
}

static struct sm__tree_node *rightmost_gap(struct sm__tree *t, struct sm__tree_node *n,
					   uint64_t size, sm_addr max_start)
{
	struct sm__tree_node *r;

	while (n && n->subtree_gap >= size) {
		if (gap_start(t, n) <= max_start) {
			r = rightmost_gap(t, n->right, size, max_start);
			if (r)
				return r;
			if (gap_before(t, n) >= size)
				return n;
		}
		n = n->left;
	}
	return NULL;
}

static bool limits_fit(uint64_t size, const sm_addr limits[2])
{
	return size && limits[0] <= limits[1] && limits[1] - limits[0] >= size - 1;
}

int sm__binary_gap_lowest(struct sm__tree *t, uint64_t size, const sm_addr limits[2], sm_addr *addr)
{
	struct sm__tree_node *n, *last = t->ends.prev;
	sm_addr start;

	if (!limits_fit(size, limits))
		return -ENOENT;
	n = leftmost_gap(t, t->root, size, limits[0] + size);
	if (n) {
		start = gap_start(t, n);
	} else {
		start = last == &t->ends ? 0 : last->last + 1;
		if (last != &t->ends && start == 0)
			return -ENOENT; /* the last range ends at the top of the keys */
	}
	if (start < limits[0])
		start = limits[0];
	if (start > limits[1] - (size - 1))
		return -ENOENT;
	*addr = start;
	return 0;
}

int sm__binary_gap_highest(struct sm__tree *t, uint64_t size, const sm_addr limits[2],
			   sm_addr *addr)
{
	struct sm__tree_node *n, *last = t->ends.prev;
	sm_addr tail = last == &t->ends ? 0 : last->last + 1, top = limits[1] - (size - 1), at;

	if (!limits_fit(size, limits))
		return -ENOENT;
	if ((last == &t->ends || tail) && tail <= top) {
		*addr = top;
		return 0;
	}
	n = rightmost_gap(t, t->root, size, top);
	if (!n)
		return -ENOENT;
	at = n->first - size < top ? n->first - size : top;
	if (at < limits[0])
		return -ENOENT;
	*addr = at;
	return 0;
}

bool sm__binary_check(struct sm__tree *t, struct sm__tree_node *n, size_t *count)
{
	if (!n)
		return true;
	(*count)++;
	if ((n->left && sm__binary_parent(n->left) != n) ||
	    (n->right && sm__binary_parent(n->right) != n))
		return false;
	if ((n->left && n->left->last >= n->first) || (n->right && n->right->first <= n->last))
		return false;
	return n->subtree_gap == computed_gap(t, n) && sm__binary_check(t, n->left, count) &&
	       sm__binary_check(t, n->right, count);
}

const char *sm__binary_check_list(struct sm__tree *t, size_t in_tree)
{
	size_t in_list = 0;
	sm_addr end = 0;
	bool any = false;

	for (struct sm__tree_node *n = t->ends.next; n != &t->ends; n = n->next) {
		if (n->first > n->last || (any && n->first < end))
			return "the list is out of order";
		if (n->next->prev != n)
			return "the list is not linked both ways";
		end = n->last + 1;
		any = true;
		in_list++;
	}
	if (in_tree != t->count || in_list != t->count)
		return "tree, list and count differ";
	return NULL;
}
