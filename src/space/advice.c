/* SPDX-License-Identifier: MIT */
/*
 * advice.c - madvise in four parts, and the walk over the VMAs of a range.
 *
 *      lock      by the row: nothing, VMA (taken per range, below), read, write
 *      check     the range alone: alignment, rounding, overflow
 *      do        each VMA of the range in turn; holes are remembered
 *      unlock    flush what was gathered, let the lock go, tell the notifier
 *
 *      VMA lock   +-------------+-------------+------------------------+
 *      range 1    | locked      |             | the lock is kept while the next range lies in the
 *      range 2    | kept        |             | same VMA and no writer waits for it; else it is
 *      range 3                  | let go, new | let go first: one VMA at a time, so no order
 *
 * I1 The VMA lock is let go before the flush: nobody waits for a TLB with it (backend.h I3). Early
 *    flushes of a full gather are the exception, and harmless: a running TLB waits for no lock. Who
 *    comes to the same pages before the flush makes up for it (memory/gather.h I3).
 * I2 With the VMA lock the area cannot change; its identity is not made under it (GUARD_INSTALL).
 */
#include "space/advice.h"
#include "base/thread.h"
#include "space/vma_lock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the VMA lock ---- */

static void end_vma(struct sm__madvise *m)
{
	if (m->lock == SM__ADVICE_VMA && m->vma) {
		sm__vma_end_read(m->vma, m->s->design.vma_lock);
		m->vma = NULL;
	}
}

static bool writer_waits(const struct sm__madvise *m)
{
	enum sm_design_vma_lock form = m->s->design.vma_lock;
	_Atomic uint32_t *word =
		form == SM_VMA_LOCK_REFCNT ? &m->vma->lock.refcnt : sm__vma_word(m->vma, form);

	/* relaxed: a hint; the writer sleeps until the count says so */
	return atomic_load_explicit(word, memory_order_relaxed) & SM__VMA_FLAG;
}

/* The VMA that holds the whole range, read-locked; NULL: mmap_lock it is. */
static struct sm__vma *lock_vma(struct sm__madvise *m)
{
	struct sm_space *s = m->s;
	enum sm__vma_try got = SM__VMA_DETACHED;
	struct sm__tree_found found;
	struct sm__vma *v = NULL;

	sm__rcu_read_lock();
	if (s->tree.ops->load_rcu(&s->tree, m->start, &found)) {
		v = sm__vma_of(sm__word_node(found.word));
		sm__delay();
		got = sm__vma_start_read(s, v, s->design.vma_lock);
	}
	sm__rcu_read_unlock();
	if (got != SM__VMA_LOCKED_BY_US)
		return NULL;
	if (m->start >= v->start && m->end <= v->end &&
	    (m->row->advice != SM_MADV_GUARD_INSTALL || v->file || sm__anon_of(v)))
		return v;
	sm__vma_end_read(v, s->design.vma_lock);
	return NULL;
}

/* Before each range. After it the lock is VMA with m->vma, or READ. */
static int take_vma(struct sm__madvise *m)
{
	if (m->vma) {
		if (m->start >= m->vma->start && m->end <= m->vma->end && !writer_waits(m))
			return 0;
		end_vma(m);
	}
	m->vma = lock_vma(m);
	if (sm__likely(m->vma != NULL))
		return 0;
	m->lock = SM__ADVICE_READ; /* and it stays so for the rest of the call */
	return sm__op_lock(&m->op, SM__READ, m->start, m->end);
}

static bool may_use_vma_lock(const struct sm__madvise *m)
{
	return m->s->design.advice == SM_ADVICE_VMA_LOCK_AND_BATCHED && !m->remote &&
	       m->s->design.vma_lock != SM_VMA_LOCK_NONE && m->s->tree.ops->rcu;
}

/* ---- the parts ---- */

void sm__madvise_init(struct sm__madvise *m, struct sm_space *s, const struct sm__advice_row *row)
{
	sm__op_init(&m->op, s, SM_CALL_MADVISE);
	m->row = row;
	m->s = s;
	m->lock = row->lock;
	m->remote = false;
	m->flush_once = (row->traits & SM__ADVICE_GATHERS) && s->design.advice >= SM_ADVICE_BATCHED;
	m->vma = m->prev = NULL;
	m->name = NULL;
	m->work.space = s;
}

int sm__madvise_lock(struct sm__madvise *m)
{
	sm_addr page = m->s->page_size;

	if (m->lock == SM__ADVICE_VMA) {
		if (may_use_vma_lock(m))
			return 0;
		m->lock = SM__ADVICE_READ;
	}
	if (m->lock == SM__ADVICE_NO_LOCK)
		return 0;
	if (m->lock == SM__ADVICE_WRITE)
		return sm__op_lock(&m->op, SM__WRITE, m->start - page, m->end + page);
	return sm__op_lock(&m->op, SM__READ, m->start, m->end);
}

int sm__madvise_check(struct sm__madvise *m, sm_addr addr, uint64_t length)
{
	uint64_t len = sm__page_align(m->s, length);

	if (!sm__page_aligned(m->s, addr) || (length && !len) || addr + len < addr)
		return -EINVAL;
	m->start = addr;
	m->end = addr + len;
	return len != 0;
}

void sm__madvise_unlock(struct sm__madvise *m)
{
	end_vma(m);
	sm__op_unlock(&m->op);
}

void sm__madvise_let_go(struct sm__madvise *m)
{
	sm__op_unlock(&m->op);
	m->vma = NULL;
}

int sm__madvise_lock_again(struct sm__madvise *m)
{
	return sm__op_lock(&m->op, SM__READ, m->start, m->end);
}

/* ---- one VMA ---- */

/* Sealed memory that the caller could not clear by writing must not be cleared by advice. */
static bool sealed(const struct sm__madvise *m, const struct sm__vma *v)
{
	return (m->row->traits & SM__ADVICE_DISCARDS) && (v->flags & SM_VM_SEALED) && !v->file &&
	       !(v->flags & SM_VM_WRITE);
}

int sm__madvise_change(struct sm__madvise *m, struct sm__vma *v, const sm_addr range[2],
		       uint64_t flags, struct sm__name *name)
{
	struct sm__change c = { .op = &m->op,
				.vma = v,
				.prev = m->prev,
				.start = range[0],
				.end = range[1],
				.flags = flags,
				.name = name };
	int err = sm__change(&c);

	m->prev = c.vma;
	return err == -ENOMEM ? -EAGAIN : err;
}

static int apply_flags(struct sm__madvise *m, struct sm__vma *v, sm_addr start, sm_addr end)
{
	const sm_addr range[2] = { start, end };

	return sm__madvise_change(m, v, range, (v->flags & ~m->row->clear) | m->row->set, v->name);
}

static int apply(struct sm__madvise *m, struct sm__vma *v, sm_addr start, sm_addr end)
{
	const struct sm__advice_row *row = m->row;
	int err;

	if (sm__unlikely(v->flags & (SM_VM_SEALED | row->refuses))) {
		if (sealed(m, v))
			return -EPERM;
		if (v->flags & row->refuses)
			return -EINVAL;
	}
	if (row->check) {
		err = row->check(v);
		if (err)
			return err;
	}
	err = row->apply ? row->apply(m, v, start, end) : apply_flags(m, v, start, end);
	if (!m->flush_once && m->op.gather.active)
		sm__op_finish_gather(&m->op);
	return err;
}

/* ---- one range ---- */

/* Where the walk begins. With the read lock held since, the VMA of the range before may do. */
static struct sm__vma *first_vma(struct sm__madvise *m, struct sm__tree_cursor *c)
{
	struct sm__vma *v = m->vma;

	if (m->lock == SM__ADVICE_READ && v && m->start >= v->start && m->end <= v->end)
		return v;
	v = sm__seek(c, m->start);
	if (m->lock == SM__ADVICE_WRITE) {
		if (v && v->start < m->start) {
			m->prev = v;
		} else {
			struct sm__tree_cursor before = *c;

			m->prev = sm__prev(&before);
		}
	} else {
		m->vma = v;
	}
	return v;
}

static int walk(struct sm__madvise *m)
{
	struct sm__tree_cursor c = sm__cursor(&m->s->tree);
	struct sm__vma *v = first_vma(m, &c);
	sm_addr at = m->start;
	int hole = 0;

	for (;;) {
		sm_addr stop;
		int err;

		if (!v)
			return -ENOMEM;
		if (at < v->start) {
			hole = -ENOMEM;
			at = v->start;
			if (at >= m->end)
				break;
		}
		stop = v->end < m->end ? v->end : m->end;
		err = apply(m, v, at, stop);
		if (err)
			return err;
		at = stop;
		if (at >= m->end)
			break;
		c = sm__cursor(&m->s->tree);
		v = sm__seek(&c, at); /* the map may have changed under a lock let go, or by us */
	}
	return hole;
}

/* ---- broken memory, without a lock ---- */

static int poison_page(struct sm__madvise *m, sm_addr addr)
{
	struct sm_fault_result r = sm_fault(m->s, addr, SM_ACCESS_READ);
	struct sm__advise a = { .what = m->row->advice == SM_MADV_HWPOISON ? SM__PAGES_POISON
									   : SM__PAGES_OFFLINE,
				.space = m->s,
				.start = addr,
				.end = addr + m->s->page_size };
	int err;

	if (r.error)
		return r.error;
	if (r.signo)
		return -EFAULT;
	/* by address alone: where it has been unmapped meanwhile there is nothing to break */
	err = m->s->backend->advise(&a);
	sm__op_notice(&m->op, SM_NOTICE_DISCARD, a.start, a.end);
	return err == -ENOENT ? -EIO : err;
}

static int poison(struct sm__madvise *m)
{
	if (!(m->s->o.capabilities & SM_CAP_ADMIN))
		return -EPERM;
	if (!m->s->backend->advise)
		return -EINVAL; /* no page that could break */
	for (sm_addr at = m->start; at < m->end; at += m->s->page_size) {
		int err = poison_page(m, at);

		if (err)
			return err;
	}
	return 0;
}

static int by_page(struct sm__madvise *m)
{
	switch (m->row->advice) {
	case SM_MADV_POPULATE_READ:
		return sm__populate_range(m->s, m->start, m->end, SM__POPULATE_READ);
	case SM_MADV_POPULATE_WRITE:
		return sm__populate_range(m->s, m->start, m->end, SM__POPULATE_WRITE);
	default:
		return poison(m);
	}
}

int sm__madvise_do(struct sm__madvise *m)
{
	int err;

	if (m->row->traits & SM__ADVICE_BY_PAGE)
		return by_page(m);
	if (m->lock == SM__ADVICE_VMA) {
		err = take_vma(m);
		if (err)
			return err;
	}
	err = m->lock == SM__ADVICE_VMA ? apply(m, m->vma, m->start, m->end) : walk(m);
	if ((m->row->traits & SM__ADVICE_TELLS) && m->s->o.notifier.invalidate)
		sm__op_notice(&m->op, SM_NOTICE_DISCARD, m->start, m->end);
	return err;
}

int sm_madvise(struct sm_space *s, sm_addr addr, uint64_t length, int advice)
{
	const struct sm__advice_row *row = sm__advice_row(advice);
	struct sm__madvise m;
	int err;

	if (!row)
		return -EINVAL;
	sm__madvise_init(&m, s, row);
	err = sm__madvise_check(&m, addr, length);
	if (err <= 0)
		return err;
	err = sm__madvise_lock(&m);
	if (err)
		return err;
	err = sm__madvise_do(&m);
	sm__madvise_unlock(&m);
	return err;
}
