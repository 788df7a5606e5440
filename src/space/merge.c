/* SPDX-License-Identifier: MIT */
/*
 * merge.c - when neighbours become one VMA, and how. Rules of Linux 6.18.
 *
 * A range takes attributes that its neighbours have: the neighbours grow over it.
 *
 *      new range                         range of an existing VMA (middle)
 *      PPPP....NNNN  both   PPPPPPPPPP   PPPPmmmmNNNN  both           PPPPPPPPPPPP
 *      PPPP....      left   PPPPPPPP     PPPPmmmm      left, whole    PPPPPPPP
 *          ....NNNN  right      NNNNNNNN PPPPmmMMMM    left, part     PPPPPPMMMM
 *                                        mmmmNNNN      right, whole   NNNNNNNN
 *                                        MMMMmmNNNN    right, part    MMMMNNNNNN
 *
 * I1 Two areas may be one if flags, file, name and tag are equal, the file offsets continue, neither is
 *    special, and their identities agree: equal, or one has none and the other is not from a fork.
 * I2 For "both", the identities of prev and next must agree too, or it is "left" only.
 * I3 Readers see each address covered by the old VMA or the new, never by none: the grown VMA is stored
 *    over its neighbour, in one step with what remains of the neighbour.
 * I4 Everything that can fail is done before the first store.
 */
#include "space/space.h"
#include "samara/file.h"
#include "space/vma_lock.h"

#include <errno.h>

static const uint64_t special = SM_VM_IO | SM_VM_DONTEXPAND | SM_VM_PFNMAP | SM_VM_MIXEDMAP;

void sm__merge_from(struct sm__merge *m, struct sm__op *op, const struct sm__vma *v)
{
	m->op = op;
	m->start = v->start;
	m->end = v->end;
	m->flags = v->flags;
	m->pgoff = v->pgoff;
	m->anon = sm__anon_of(v);
	m->tag = v->tag;
	m->file = v->file;
	m->name = v->name;
	m->prev = m->middle = m->next = m->result = NULL;
	m->just_grow = false;
	m->prep = NULL;
	m->c = NULL;
	m->error = 0;
}

/* What a store of the range takes. */
static unsigned records(const struct sm__merge *m)
{
	return sm__is_plain(m->flags, m->file, m->tag, m->name) ? 0 : 1;
}

static bool attributes_equal(const struct sm__merge *m, const struct sm__vma *v)
{
	return v->flags == m->flags && v->file == m->file && v->tag == m->tag &&
	       sm__name_equal(v->name, m->name);
}

static bool identities_agree(uint64_t a, uint64_t b)
{
	if (a && b)
		return a == b;
	return !((a | b) & SM__ANON_FORKED);
}

static bool fits_left(const struct sm__merge *m)
{
	const struct sm__vma *p = m->prev;

	return p && p->end == m->start && attributes_equal(m, p) &&
	       p->pgoff + sm__pages(m->op->space, sm__vma_size(p)) == m->pgoff &&
	       identities_agree(sm__anon_of(p), m->anon);
}

static bool fits_right(const struct sm__merge *m)
{
	const struct sm__vma *n = m->next;

	return n && n->start == m->end && attributes_equal(m, n) &&
	       n->pgoff == m->pgoff + sm__pages(m->op->space, m->end - m->start) &&
	       identities_agree(sm__anon_of(n), m->anon);
}

/* I2 */
static bool fits_across(const struct sm__merge *m)
{
	uint64_t p = sm__anon_of(m->prev), n = sm__anon_of(m->next);

	return !p || !n || p == n;
}

/* A VMA that grows over one with an identity takes it, if it has none. */
static void inherit(struct sm__vma *v, uint64_t anon)
{
	if (!sm__anon_of(v) && anon)
		/* relaxed: v is write-locked, its readers come after the unlock */
		atomic_store_explicit(&v->anon, anon, memory_order_relaxed);
}

static void set_end(struct sm__vma *v, sm_addr end)
{
	v->end = end;
}

static void set_start(const struct sm_space *s, struct sm__vma *v, sm_addr start)
{
	/* modulo arithmetic: start may move either way */
	v->pgoff += (uint64_t)((int64_t)(start - v->start) >> s->page_shift);
	v->start = start;
}

struct sm__vma *sm__merge_new(struct sm__merge *m)
{
	struct sm_space *s = m->op->space;
	bool left = fits_left(m), right = !m->just_grow && fits_right(m);
	struct sm__prep own, *prep = m->prep ? m->prep : &own;

	m->result = NULL;
	m->error = 0;
	if ((m->flags & special) || (!left && !right))
		return NULL;
	if (left && right && !fits_across(m))
		right = false;
	m->error = m->prep ? 0 : sm__prepare(s, &own, records(m), 1);
	if (m->error)
		return NULL;
	m->result = left ? m->prev : m->next;
	sm__vma_start_write(s, m->result);
	if (left && right) {
		sm__vma_start_write(s, m->next);
		inherit(m->prev, sm__anon_of(m->next));
		sm__adopt(s, m->prev, m->next);
		set_end(m->prev, m->next->end);
	} else if (left) {
		set_end(m->prev, m->end);
	} else {
		set_start(s, m->next, m->start);
	}
	inherit(m->result, m->anon);
	sm__store(s, prep, m->result, m->c);
	if (!m->prep)
		sm__unprepare(s, &own);
	if (left && right)
		sm__detach(m->op, m->next);
	s->merges++;
	return m->result;
}

static int store_new_vma(const struct sm__merge *m)
{
	struct sm_space *s = m->op->space;
	struct sm__vma *v = sm__vma_new(s);
	struct sm__prep prep;

	if (!v)
		return -ENOMEM;
	if (sm__prepare(s, &prep, records(m), 1)) {
		sm__vma_free(s, v, false);
		return -ENOMEM;
	}
	v->start = m->start;
	v->end = m->end;
	v->flags = m->flags;
	v->pgoff = m->pgoff;
	v->tag = m->tag;
	v->file = m->file ? sm_file_get(m->file) : NULL;
	v->name = sm__name_get(m->name);
	sm__store_new(s, &prep, v, m->c);
	sm__unprepare(s, &prep);
	return 0;
}

int sm__merge_or_new(struct sm__merge *m)
{
	/* without memory for the merge a VMA of its own will do, if there is memory for that */
	return sm__merge_new(m) ? 0 : store_new_vma(m);
}

/* m->middle keeps a part of itself: the border moves from one end of the range to the other. */
static int merge_part(struct sm__merge *m, bool left)
{
	struct sm_space *s = m->op->space;
	struct sm__vma *grown = m->result, *rest = m->middle;
	struct sm__vma *sides[2] = { left ? NULL : rest, left ? rest : NULL };
	struct sm__prep prep;
	struct sm__step step;
	int err = sm__prepare(s, &prep, records(m) + sm__records(rest, 1), 1);

	if (err)
		return err;
	err = sm__plan_border(m->op, &step, rest, left ? m->end : m->start);
	if (err) {
		sm__unprepare(s, &prep);
		return err;
	}
	sm__vma_start_write(s, grown);
	sm__vma_start_write(s, rest);
	inherit(grown, m->anon);
	sm__adopt(s, grown, rest);
	if (left) {
		set_end(grown, m->end);
		set_start(s, rest, m->end);
	} else {
		set_start(s, grown, m->start);
		set_end(rest, m->start);
	}
	sm__store_cut(s, &prep, grown, sides, m->c);
	sm__unprepare(s, &prep);
	sm__commit_border(m->op, &step);
	return 0;
}

/* m->middle goes, and with `both` m->next too. */
static int merge_whole(struct sm__merge *m, bool left, bool both)
{
	struct sm_space *s = m->op->space;
	struct sm__vma *grown = m->result;
	struct sm__prep prep;
	int err = sm__prepare(s, &prep, records(m), 1);

	if (err)
		return err;
	sm__vma_start_write(s, grown);
	sm__vma_start_write(s, m->middle);
	sm__adopt(s, grown, m->middle);
	if (both) {
		sm__vma_start_write(s, m->next);
		inherit(grown, sm__anon_of(m->next));
		sm__adopt(s, grown, m->next);
	}
	inherit(grown, m->anon);
	if (both)
		set_end(grown, m->next->end);
	else if (left)
		set_end(grown, m->end);
	else
		set_start(s, grown, m->start);
	sm__store(s, &prep, grown, m->c);
	sm__unprepare(s, &prep);
	sm__detach(m->op, m->middle);
	if (both)
		sm__detach(m->op, m->next);
	return 0;
}

static struct sm__vma *merge_existing(struct sm__merge *m)
{
	struct sm__vma *v = m->middle;
	bool left = v->start == m->start && fits_left(m);
	bool right = v->end == m->end && fits_right(m);
	bool whole = v->start == m->start && v->end == m->end;

	m->result = NULL;
	m->error = 0;
	if ((m->flags & special) || (!left && !right))
		return NULL;
	if (left && right && !fits_across(m))
		right = false;
	m->result = left ? m->prev : m->next;
	m->error = whole ? merge_whole(m, left, left && right) : merge_part(m, left);
	if (m->error)
		m->result = NULL;
	else
		m->op->space->merges++;
	return m->result;
}

struct sm__vma *sm__modify(struct sm__merge *m)
{
	struct sm__vma *v = m->middle;

	if (merge_existing(m))
		return m->result;
	if (m->error)
		return NULL;
	/* with room for both new ones under the limit; else the first is made and the second refused */
	if (v->start < m->start && v->end > m->end &&
	    m->op->space->map_count + 1 < m->op->space->host->o.max_map_count) {
		m->error = sm__split_out(m->op, v, m->start, m->end, m->c);
		return m->result = m->error ? NULL : v;
	}
	if (v->start < m->start) {
		m->error = sm__split(m->op, v, m->start, true);
		if (m->error)
			return NULL;
	}
	if (v->end > m->end) {
		m->error = sm__split(m->op, v, m->end, false);
		if (m->error)
			return NULL;
	}
	return m->result = v;
}
