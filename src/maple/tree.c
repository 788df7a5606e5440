/* SPDX-License-Identifier: MIT */
/*
 * tree.c - the whole-tree calls, by key, and the cursor's stores with their checks.
 *
 * I1 Arguments are judged before anything is touched; a refused call changes nothing.
 */
#include <errno.h>
#include "maple/write.h"
#include "base/inject.h"
#include "base/rcu.h"
#include "base/thread.h"

int sm_maple_init(struct sm_maple *t, struct sm_maple_pool *pool)
{
	t->own_pool = !pool;
	if (!pool) {
		pool = sm_maple_pool_create(NULL);
		if (!pool)
			return -ENOMEM;
	}
	t->root = 0;
	t->pool = pool;
	t->version = 1;
	atomic_fetch_add_explicit(&pool->trees, 1, memory_order_relaxed);
	return 0;
}

void sm_maple_clear(struct sm_maple *t)
{
	uintptr_t root = t->root;

	if (!root)
		return;
	sm__root_publish(t, 0);
	t->version++;
	sm__subtree_retire(t->pool, sm__root_node(root), sm__root_height(root) - 1);
}

void sm_maple_destroy(struct sm_maple *t)
{
	struct sm_maple_pool *pool = t->pool;

	sm_maple_clear(t);
	/* Release: pairs with the acquire in sm_maple_pool_destroy. */
	atomic_fetch_sub_explicit(&pool->trees, 1, memory_order_release);
	t->pool = NULL;
	if (t->own_pool)
		sm_maple_pool_destroy(pool);
}

bool sm_maple_empty(const struct sm_maple *t)
{
	return !sm__root_load(t);
}

unsigned int sm_maple_height(const struct sm_maple *t)
{
	return sm__root_height(sm__root_load(t));
}

/* ----------------------------------------------------------------------------- readers ---- */

static void section_enter(void)
{
	sm__thread_enter();
	sm__rcu_read_lock();
}

void *sm_maple_load(const struct sm_maple *t, uint64_t key)
{
	void *value;

	section_enter();
	value = sm_maple_load_held(t, key);
	sm__rcu_read_unlock();
	return value;
}

void *sm_maple_find(const struct sm_maple *t, uint64_t *key, uint64_t max)
{
	struct sm_cursor c;
	void *value;

	if (*key > max)
		return NULL;
	section_enter();
	sm_cursor_init(&c, (struct sm_maple *)t, *key, *key);
	do
		value = sm_cursor_find(&c, max);
	while (value == SM_MAPLE_ZERO);
	sm__rcu_read_unlock();
	if (value)
		*key = c.last + 1;
	return value;
}

void *sm_maple_find_after(const struct sm_maple *t, uint64_t *key, uint64_t max)
{
	return *key ? sm_maple_find(t, key, max) : NULL;
}

void *sm_maple_next(const struct sm_maple *t, uint64_t key, uint64_t max)
{
	struct sm_cursor c;
	void *value;

	section_enter();
	sm_cursor_init(&c, (struct sm_maple *)t, key, key);
	do
		value = sm_cursor_next(&c, max);
	while (value == SM_MAPLE_ZERO);
	sm__rcu_read_unlock();
	return value;
}

void *sm_maple_prev(const struct sm_maple *t, uint64_t key, uint64_t min)
{
	struct sm_cursor c;
	void *value;

	section_enter();
	sm_cursor_init(&c, (struct sm_maple *)t, key, key);
	do
		value = sm_cursor_prev(&c, min);
	while (value == SM_MAPLE_ZERO);
	sm__rcu_read_unlock();
	return value;
}

/* ----------------------------------------------------------------------- cursor stores ---- */

static int check_store(const struct sm_cursor *c, const void *entry)
{
	if (c->index > c->last || (sm__entry_is_reserved(entry) && entry != SM_MAPLE_ZERO))
		return -EINVAL;
	return 0;
}

int sm_cursor_store(struct sm_cursor *c, void *entry)
{
	int ret = check_store(c, entry);

	if (ret)
		return ret;
	sm__write_seek(c);
	return sm__write_at(c, entry);
}

int sm_cursor_erase(struct sm_cursor *c)
{
	const struct sm__leaf *l = sm__write_seek(c);
	uint64_t index = c->index, last = c->last;
	unsigned int i = c->path.slot[0];
	int ret;

	c->replaced = NULL;
	if (!l || i == LEAF_SLOTS || !sm__leaf_value(l, i) || l->entry[i].first > c->index)
		return 0;
	c->index = l->entry[i].first;
	c->last = l->last[i];
	ret = sm__write_at(c, NULL);
	if (ret) {
		c->index = index;
		c->last = last;
	}
	return ret;
}

/* ------------------------------------------------------------------------- spare nodes ---- */

void sm_cursor_release(struct sm_cursor *c)
{
	struct sm_maple_pool *pool = c->tree->pool;

	if (c->spare[SM__NODE_LEAF])
		sm_sheaf_return(pool->leaf, c->spare[SM__NODE_LEAF]);
	if (c->spare[SM__NODE_INNER])
		sm_sheaf_return(pool->inner, c->spare[SM__NODE_INNER]);
	c->spare[SM__NODE_LEAF] = NULL;
	c->spare[SM__NODE_INNER] = NULL;
}

static int put_aside(struct sm_cursor *c, enum sm__node_kind kind, size_t n)
{
	struct sm_maple_pool *pool = c->tree->pool;
	struct sm_cache *cache = kind == SM__NODE_LEAF ? pool->leaf : pool->inner;

	if (!n)
		return 0;
	if (sm__inject_fail())
		return -ENOMEM;
	if (c->spare[kind])
		return sm_sheaf_refill(cache, &c->spare[kind], n);
	c->spare[kind] = sm_cache_borrow(cache, n);
	return c->spare[kind] ? 0 : -ENOMEM;
}

int sm_cursor_preallocate(struct sm_cursor *c, void *entry)
{
	unsigned int need[2];
	int ret = check_store(c, entry);

	if (ret)
		return ret;
	sm__write_seek(c);
	sm__write_need(c, entry, need);
	ret = put_aside(c, SM__NODE_LEAF, need[0]);
	if (!ret)
		ret = put_aside(c, SM__NODE_INNER, need[1]);
	if (ret)
		sm_cursor_release(c);
	return ret;
}

void sm_cursor_store_prealloc(struct sm_cursor *c, void *entry)
{
	int ret;

	sm__write_seek(c);
	ret = sm__write_at(c, entry);
	SM_ASSERT_MSG(!ret, "a prepared store failed: %d", ret);
	(void)ret;
	sm_cursor_release(c);
}

int sm_cursor_expect(struct sm_cursor *c, size_t n)
{
	/*
	 * A store adds a level at most, and a new root has two or three children: it takes thirteen more,
	 * of which one store brings two, before there is another.
	 */
	size_t height = sm_maple_height(c->tree) + 1 + n / 6;
	int ret;

	if (height > SM_MAPLE_HEIGHT_MAX)
		height = SM_MAPLE_HEIGHT_MAX;
	ret = put_aside(c, SM__NODE_LEAF, n * LEAF_WORST);
	return ret ? ret : put_aside(c, SM__NODE_INNER, n * INNER_WORST(height));
}

/* ---------------------------------------------------------------------- writers by key ---- */

int sm_maple_store_range(struct sm_maple *t, uint64_t first, uint64_t last, void *entry)
{
	struct sm_cursor c;

	if (first > last || sm__entry_is_reserved(entry))
		return -EINVAL;
	sm_cursor_init(&c, t, first, last);
	return sm_cursor_store(&c, entry);
}

int sm_maple_store(struct sm_maple *t, uint64_t key, void *entry)
{
	return sm_maple_store_range(t, key, key, entry);
}

int sm_maple_insert_range(struct sm_maple *t, uint64_t first, uint64_t last, void *entry)
{
	struct sm_cursor c;

	if (first > last || !entry || sm__entry_is_reserved(entry))
		return -EINVAL;
	sm_cursor_init_writer(&c, t, first, last);
	if (sm_cursor_walk(&c) || (c.state != SM_CURSOR_NONE && c.last < last))
		return -EEXIST;
	sm_cursor_retarget(&c, first, last);
	return sm_cursor_store(&c, entry);
}

int sm_maple_insert(struct sm_maple *t, uint64_t key, void *entry)
{
	return sm_maple_insert_range(t, key, key, entry);
}

int sm_maple_erase(struct sm_maple *t, uint64_t key, void **old)
{
	struct sm_cursor c;
	int ret;

	sm_cursor_init(&c, t, key, key);
	ret = sm_cursor_erase(&c);
	if (old)
		*old = c.replaced;
	return ret;
}

int sm_maple_alloc_lowest(struct sm_maple *t, void *entry, uint64_t size,
			  struct sm_maple_window window, uint64_t *start)
{
	struct sm_cursor c;
	int ret;

	if (!entry || sm__entry_is_reserved(entry))
		return -EINVAL;
	sm_cursor_init_writer(&c, t, 0, 0);
	ret = sm_cursor_gap_lowest(&c, window, size);
	if (!ret)
		ret = sm_cursor_store(&c, entry);
	if (!ret)
		*start = c.index;
	return ret;
}

int sm_maple_alloc_highest(struct sm_maple *t, void *entry, uint64_t size,
			   struct sm_maple_window window, uint64_t *start)
{
	struct sm_cursor c;
	int ret;

	if (!entry || sm__entry_is_reserved(entry))
		return -EINVAL;
	sm_cursor_init_writer(&c, t, 0, 0);
	ret = sm_cursor_gap_highest(&c, window, size);
	if (!ret)
		ret = sm_cursor_store(&c, entry);
	if (!ret)
		*start = c.index;
	return ret;
}

int sm_maple_alloc_cyclic(struct sm_maple *t, void *entry, struct sm_maple_window window,
			  uint64_t *next, uint64_t *key)
{
	struct sm_maple_window rest = window;
	int ret = -EBUSY, wrapped = 0;

	if (window.min > window.max)
		return -EINVAL;
	if (*next > window.min)
		rest.min = *next;
	if (rest.min <= rest.max)
		ret = sm_maple_alloc_lowest(t, entry, 1, rest, key);
	if (ret == -EBUSY && rest.min > window.min) {
		ret = sm_maple_alloc_lowest(t, entry, 1, window, key);
		wrapped = 1;
	}
	if (ret)
		return ret;
	*next = *key + 1;
	return wrapped;
}
