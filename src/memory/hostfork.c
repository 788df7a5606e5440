/* SPDX-License-Identifier: MIT */
/*
 * hostfork.c - the host process forks: its pools are held still meanwhile, and the child's are its
 * own.
 *
 *      private memory   the kernel copies it: the child's spaces hold what the parent's held
 *      memfd            detached: the child has zeroes there and gets no frames; its spaces look
 *                       empty, can be destroyed, and never touch the parent's memory
 *
 * I1 prepare takes, per memory: tables from the root down (a table cannot be linked below a locked
 *    one), memory->lock, the reverse map's buckets, the objects' locks, swap, the growing, CPU stacks, pool. All of them are the child's to
 *    let go.
 * I2 What threads that do not exist in the child were about to do is undone: pages being read
 *    failed, truncations are over.
 */
#include "memory/memory.h"
#include "memory/pagecache.h"
#include "base/fork.h"
#include "base/thread.h"

#include <sys/mman.h>

static struct sm__spin list_lock;
static struct sm__list memories = { &memories, &memories }; /* guarded by list_lock */

/* Calls visit for the tables of a level, ascending. */
static void each_table(struct sm__pool *pool, unsigned level, void (*visit)(struct sm__spin *lock))
{
	for (uint32_t p = 1; p < pool->top; p++) {
		struct sm__frame *f = sm__frame(pool, p);

		if ((sm__frame_flags(f) & SM__F_TABLE) && f->table.level == level)
			visit(&f->table.lock);
	}
}

static void each_object(struct sm__memory *m, void (*visit)(struct sm__spin *lock))
{
	for (unsigned i = 0; i < SM__PAGES_BUCKETS; i++) {
		struct sm__pages *p;

		sm__list_for_each_entry (p, &m->objects[i], bucket)
			visit(&p->lock);
	}
}

static void lock_memory(struct sm__memory *m)
{
	struct sm__pool *pool = m->pool;

	for (unsigned level = SM__PT_LEVELS; level-- > 0;)
		each_table(pool, level, sm__spin_lock);
	sm__spin_lock(&m->lock);
	for (unsigned i = 0; i < SM__RMAP_BUCKETS; i++)
		sm__spin_lock(&m->rmap[i].lock);
	each_object(m, sm__spin_lock);
	sm__swap_hold(m);
	sm__spin_lock(&pool->grow_lock);
	for (uint32_t c = 0; c < pool->nr_cpus; c++)
		sm__spin_lock(&pool->cpu[c].lock);
	sm__spin_lock(&pool->lock);
}

static void unlock_memory(struct sm__memory *m)
{
	struct sm__pool *pool = m->pool;

	sm__spin_unlock(&pool->lock);
	for (uint32_t c = 0; c < pool->nr_cpus; c++)
		sm__spin_unlock(&pool->cpu[c].lock);
	sm__spin_unlock(&pool->grow_lock);
	sm__swap_release(m);
	each_object(m, sm__spin_unlock);
	for (unsigned i = 0; i < SM__RMAP_BUCKETS; i++)
		sm__spin_unlock(&m->rmap[i].lock);
	sm__spin_unlock(&m->lock);
	for (unsigned level = 0; level < SM__PT_LEVELS; level++)
		each_table(pool, level, sm__spin_unlock);
}

/* I2 */
static void forget_others(struct sm__memory *m)
{
	struct sm__pool *pool = m->pool;

	for (uint32_t p = 1; p < pool->top; p++) {
		struct sm__frame *f = sm__frame(pool, p);
		uint32_t flags = sm__frame_flags(f);

		if (!(flags & SM__F_FILE) || !(flags & SM__F_BUSY))
			continue;
		if (!(flags & SM__F_UPTODATE))
			sm__frame_set(f, SM__F_ERROR);
		sm__frame_clear(f, SM__F_BUSY | SM__F_WAITERS);
	}
	sm__pages_end_truncations(m);
}

/* Zeroes in place of what is the parent's: nothing there was inherited (MADV_DONTFORK). */
static void detach_pool(struct sm__pool *pool)
{
	size_t bytes = (size_t)pool->nr << pool->page_shift;

	(void)mmap(pool->base, bytes, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	atomic_store_explicit(&pool->detached, 1, memory_order_relaxed);
}

static void prepare(void)
{
	struct sm__memory *m;

	/* A guest on this thread must not be waited for by who holds a table. */
	sm__thread_enter();
	sm__spin_lock(&list_lock);
	sm__list_for_each_entry (m, &memories, link)
		lock_memory(m);
}

static void after(bool in_child)
{
	struct sm__memory *m;

	sm__list_for_each_entry (m, &memories, link) {
		unlock_memory(m);
		if (!in_child)
			continue;
		forget_others(m);
		if (!m->pool->is_private)
			detach_pool(m->pool);
	}
	sm__spin_unlock(&list_lock);
}

void sm__memory_enlist(struct sm__memory *m)
{
	static const struct sm__fork_ops ops = { prepare, after };

	sm__fork_register(SM__FORK_MEMORY, &ops);
	sm__spin_lock(&list_lock);
	sm__list_add_tail(&memories, &m->link);
	sm__spin_unlock(&list_lock);
}

void sm__memory_delist(struct sm__memory *m)
{
	sm__spin_lock(&list_lock);
	sm__list_del(&m->link);
	sm__spin_unlock(&list_lock);
}
