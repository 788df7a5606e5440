/* SPDX-License-Identifier: MIT */
/* twin_mremap.c - mremap: grow, shrink, move, duplicate. */
#include "model/twin_parts.h"

#include <errno.h>
#include <string.h>

#include "samara/types.h"

/* The arguments, which a move of several VMAs narrows to one of them after the other. */
struct move {
	uint64_t addr, old_len, new_len, flags, to;
};

static bool has_target(const struct move *m)
{
	return m->flags & (SM_MREMAP_FIXED | SM_MREMAP_DONTUNMAP);
}

/* A move may need three VMAs more than it ends with, and some calls two on top of that. */
static bool no_move(const struct call *c, int more)
{
	int limit = (int)c->w->config.map_count;

	return limit && (int)count_vmas(c) + more >= limit - 3;
}

static int check_arguments(const struct call *c, const struct move *m)
{
	const uint64_t known = SM_MREMAP_MAYMOVE | SM_MREMAP_FIXED | SM_MREMAP_DONTUNMAP;
	uint64_t task = c->w->task_size;

	if (m->flags & ~known || m->addr % PAGE || !m->new_len || m->new_len > task)
		return -EINVAL;
	if (!has_target(m))
		return 0;
	if (m->to > task - m->new_len || m->to % PAGE || !(m->flags & SM_MREMAP_MAYMOVE))
		return -EINVAL;
	if (m->flags & SM_MREMAP_DONTUNMAP && m->old_len != m->new_len)
		return -EINVAL;
	if (m->addr + m->old_len > m->to && m->to + m->new_len > m->addr)
		return -EINVAL;
	return no_move(c, 2) ? -ENOMEM : 0;
}

/* What the VMA at the address says to it. */
static int check_vma(const struct call *c, const struct move *m)
{
	int page = page_at(c, m->addr);
	int64_t more = ((int64_t)m->new_len - (int64_t)m->old_len) / (int64_t)PAGE;
	const struct twin_page *p;

	if (page < 0 || !has_vma(c, (unsigned)page))
		return -EFAULT;
	p = &c->t->page[page];
	if (p->flags & VF_SEALED)
		return -EPERM;
	if (more <= 0 && !has_target(m))
		return 0;
	if (!m->old_len && !(p->flags & VF_MAYSHARE))
		return -EINVAL;
	if ((more < 0 ? m->new_len : m->old_len) >
	    (vma_at(c, (unsigned)page).end - (unsigned)page) * PAGE)
		return -EFAULT;
	if (more > 0 && too_much_locked(c, p->flags, more))
		return -EAGAIN;
	return more > 0 && too_much(c, p->flags, more) ? -ENOMEM : 0;
}

static int shrink(struct call *c, const struct move *m)
{
	uint64_t from = m->addr + m->new_len, len = m->old_len - m->new_len;

	if (from > c->w->task_size || len > c->w->task_size - from)
		return -EINVAL;
	return unmap(c, span_of(c, from, len));
}

/* Fills the target with what the VMA of `from` would show there. */
static void copy_vma(struct call *c, struct span from, struct span to)
{
	struct twin_page *p = c->t->page, first = p[from.first];

	for (unsigned i = 0; i < to.end - to.first; i++) {
		struct twin_page *d = &p[to.first + i];

		memset(d, 0, sizeof(*d));
		d->mapped = true;
		d->flags = first.flags;
		d->file = first.file;
		d->handle = first.handle;
		d->anon = first.anon;
		d->cloned = first.cloned;
		d->pgoff = (first.file < 0 && !first.anon ? addr_of(c, to.first) / PAGE
							  : first.pgoff) +
			   i;
		if (i < from.end - from.first) {
			struct twin_page *s = &p[from.first + i];

			d->own = s->own;
			d->zero = s->zero;
			d->maybe = s->maybe;
			d->lazy = s->lazy;
			d->guard = s->guard;
			d->token = s->token;
			s->own = s->zero = s->maybe = s->lazy = s->guard = false;
			s->token = 0;
		}
	}
	merge_new(c, to);
}

/* The source of a move that leaves it mapped. */
static void keep_source(struct call *c, struct span from)
{
	struct span v = vma_at(c, from.first);
	bool forget = v.first == from.first && v.end == from.end;

	for (unsigned i = v.first; i < v.end; i++) {
		c->t->page[i].flags &= ~(uint32_t)(VF_LOCKED | VF_ONFAULT);
		if (forget) {
			c->t->page[i].anon = 0;
			c->t->page[i].cloned = false;
		}
	}
}

static int64_t move_vma(struct call *c, struct move *m)
{
	unsigned page = (unsigned)page_at(c, m->addr);
	struct span from = { page, page + (unsigned)(m->old_len / PAGE) }, to;
	uint64_t hint = has_target(m) ? m->to : 0;
	int64_t at = place(c, hint, m->new_len, m->flags & SM_MREMAP_FIXED ? SM_MAP_FIXED : 0,
			   c->t->page[page].file >= 0);

	if (at < 0)
		return at;
	if (no_move(c, 0))
		return -ENOMEM;
	to = span_of(c, (uint64_t)at, m->new_len);
	copy_vma(c, from, to);
	if (m->flags & SM_MREMAP_DONTUNMAP)
		keep_source(c, from);
	else if (m->old_len)
		unmap(c, from);
	if (m->new_len > m->old_len && c->t->page[to.first].flags & VF_LOCKED) {
		to.first += from.end - from.first;
		populate(c, to, true);
	}
	return at;
}

static int64_t move_to(struct call *c, struct move *m)
{
	int err;

	if (m->flags & SM_MREMAP_FIXED) {
		err = unmap(c, span_of(c, m->to, m->new_len));
		if (err)
			return err;
		if (!has_vma(c, (unsigned)page_at(c, m->addr)))
			return -EFAULT; /* a duplicate over its own source */
	}
	if (m->old_len > m->new_len) {
		err = shrink(c, m);
		if (err)
			return err;
		m->old_len = m->new_len;
	}
	if (m->flags & SM_MREMAP_DONTUNMAP &&
	    too_much(c, c->t->page[page_at(c, m->addr)].flags, (int64_t)(m->old_len / PAGE)))
		return -ENOMEM;
	return move_vma(c, m);
}

/* A pure move to a fixed address takes every VMA of the range, gaps between them included. */
static int64_t move_many(struct call *c, const struct move *all)
{
	uint64_t end = all->addr + all->old_len, at = all->addr;
	int64_t result = -EFAULT;

	while (at < end) {
		struct span s = span_of(c, at, end - at);
		unsigned page = next_mapped(c, s.first, s.end);
		struct move m = *all;
		struct span v;
		int64_t r;

		if (page == s.end)
			break;
		m.addr = addr_of(c, page);
		if (m.addr != all->addr && at == all->addr)
			return -EFAULT;
		v = vma_at(c, page);
		m.old_len = addr_of(c, v.end) < end ? addr_of(c, v.end) - m.addr : end - m.addr;
		m.new_len = m.old_len;
		m.to = all->to + (m.addr - all->addr);
		r = check_vma(c, &m);
		if (!r)
			r = move_to(c, &m);
		if (r < 0)
			return r;
		if (at == all->addr)
			result = r;
		at = m.addr + m.old_len;
	}
	return result;
}

static int64_t grow(struct call *c, struct move *m)
{
	unsigned page = (unsigned)page_at(c, m->addr), n = (unsigned)(m->old_len / PAGE);
	struct span v = vma_at(c, page);
	struct span more = { v.end, v.end + (unsigned)((m->new_len - m->old_len) / PAGE) };

	if (m->new_len / PAGE <= c->pages && page + n == v.end && more.end <= c->pages &&
	    next_mapped(c, more.first, more.end) == more.end) {
		for (unsigned i = more.first; i < more.end; i++) {
			struct twin_page *p = &c->t->page[i];

			*p = p[-1];
			p->pgoff++;
			p->starts = p->own = p->zero = p->maybe = p->lazy = p->guard = false;
			p->token = 0;
		}
		merge_new(c, more);
		if (c->t->page[page].flags & VF_LOCKED)
			populate(c, more, true);
		return (int64_t)m->addr;
	}
	if (!(m->flags & SM_MREMAP_MAYMOVE))
		return -ENOMEM;
	return move_vma(c, m);
}

int64_t twin_mremap(struct call *c, const struct op *op)
{
	struct move m = { op->arg[0], page_align(op->arg[1]), page_align(op->arg[2]), op->arg[3],
			  op->arg[4] };
	int err = check_arguments(c, &m);

	if (err)
		return err;
	if (c->w->mremap_many && m.flags & SM_MREMAP_FIXED && m.old_len == m.new_len)
		return move_many(c, &m);
	err = check_vma(c, &m);
	if (err)
		return err;
	if (has_target(&m))
		return move_to(c, &m);
	if (m.old_len > m.new_len)
		err = shrink(c, &m);
	else if (m.old_len < m.new_len)
		return grow(c, &m);
	return err ? err : (int64_t)m.addr;
}
