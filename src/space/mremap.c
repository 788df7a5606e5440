/* SPDX-License-Identifier: MIT */
/*
 * mremap.c - growing, shrinking, moving; Linux 6.18, with the move of several VMAs of 6.17.
 *
 *      no new address   same size: nothing    shrink: unmap the tail    grow: in place, else move
 *      FIXED            target is unmapped; shrink; then move; same size: VMA by VMA, holes kept
 *      DONTUNMAP        the source stays, empty
 *
 * I1 A move is ready before it begins: source cut out, target VMA and tree nodes in hand, pages
 *    planned. Readers then see the target appear, and after it the source go: never neither.
 * I2 The charge moves with the pages: the source gives back nothing, the target asks for growth only.
 */
#include "space/space.h"
#include "samara/file.h"
#include "space/vma_lock.h"

#include <errno.h>

struct remap {
	struct sm__op op;
	struct sm_space *s;
	sm_addr addr, new_addr;
	uint64_t old_length, new_length; /* page aligned */
	int flags;
	struct sm__vma *vma; /* at addr */
	uint64_t vm_flags;   /* of it */
	/* out */
	sm_addr populate_start, populate_end;
};

static bool new_address_given(const struct remap *r)
{
	return r->flags & (SM_MREMAP_FIXED | SM_MREMAP_DONTUNMAP);
}

static bool overlaps(const struct remap *r)
{
	return r->addr + r->old_length > r->new_addr && r->new_addr + r->new_length > r->addr;
}

static int check_arguments(struct remap *r)
{
	const int known = SM_MREMAP_MAYMOVE | SM_MREMAP_FIXED | SM_MREMAP_DONTUNMAP;
	struct sm_space *s = r->s;

	if ((r->flags & ~known) || !sm__page_aligned(s, r->addr) || !r->new_length ||
	    r->new_length > s->o.range_end)
		return -EINVAL;
	if (!new_address_given(r))
		return 0;
	if (r->new_addr > s->o.range_end - r->new_length || !sm__page_aligned(s, r->new_addr) ||
	    !(r->flags & SM_MREMAP_MAYMOVE))
		return -EINVAL;
	if ((r->flags & SM_MREMAP_DONTUNMAP) && r->old_length != r->new_length)
		return -EINVAL;
	if (overlaps(r))
		return -EINVAL;
	return 0;
}

/* A move may split the source in three and the target's neighbours: Linux wants that many spare. */
static bool count_allows(const struct sm_space *s, uint64_t more)
{
	return s->map_count + more + 3 < s->host->o.max_map_count;
}

static int check_growth(const struct remap *r)
{
	struct sm_space *s = r->s;
	uint64_t delta = r->new_length - r->old_length;
	uint64_t pgoff = r->vma->pgoff + sm__pages(s, r->addr - r->vma->start);

	if (pgoff + sm__pages(s, r->new_length) < pgoff)
		return -EINVAL;
	if (r->vma->flags & (SM_VM_DONTEXPAND | SM_VM_PFNMAP))
		return -EFAULT;
	if (!sm__may_lock(s, r->vma->flags, delta))
		return -EAGAIN;
	return sm__may_expand(s, r->vma->flags, sm__pages(s, delta)) ? 0 : -ENOMEM;
}

/* r->vma is set, or there is none. */
static int check_vma(struct remap *r)
{
	uint64_t moved;

	if (!r->vma)
		return -EFAULT;
	r->vm_flags = r->vma->flags;
	if (r->vma->flags & SM_VM_SEALED)
		return -EPERM;
	if ((r->flags & SM_MREMAP_DONTUNMAP) && (r->vma->flags & (SM_VM_DONTEXPAND | SM_VM_PFNMAP)))
		return -EINVAL;
	if (!r->old_length && !(r->vma->flags & (SM_VM_SHARED | SM_VM_MAYSHARE)))
		return -EINVAL;
	if (!new_address_given(r) && r->new_length <= r->old_length)
		return 0; /* nothing, or a shrink: may reach over other VMAs */
	/* when it shrinks, the tail goes first, over whatever VMAs and holes it spans */
	moved = r->old_length < r->new_length ? r->old_length : r->new_length;
	if (moved > r->vma->end - r->addr)
		return -EFAULT;
	return r->new_length > r->old_length ? check_growth(r) : 0;
}

/* ---- in place */

static bool ends_in_free_space(struct remap *r)
{
	struct sm_space *s = r->s;
	uint64_t delta = r->new_length - r->old_length;
	sm_addr end = r->vma->end + delta;
	struct sm__tree_cursor c = sm__cursor(&s->tree);
	struct sm__vma *next;

	if (r->old_length != r->vma->end - r->addr || end < r->vma->end || end > s->o.range_end)
		return false;
	next = sm__seek(&c, r->vma->end);
	return !next || next->start >= end;
}

static int64_t grow_in_place(struct remap *r)
{
	struct sm_space *s = r->s;
	uint64_t delta = r->new_length - r->old_length, pages = sm__pages(s, delta);
	struct sm__vma *v = r->vma;
	struct sm__tree_cursor c = sm__cursor(&s->tree);
	struct sm__merge m;
	sm_addr end = v->end;

	if ((v->flags & SM_VM_ACCOUNT) && sm__charge(s, pages))
		return -ENOMEM;
	sm__merge_from(&m, &r->op, v);
	m.pgoff += sm__pages(s, sm__vma_size(v));
	m.start = end;
	m.end = end + delta;
	m.prev = v;
	m.next = sm__seek(&c, end);
	if (!sm__merge_new(&m)) {
		if (r->vm_flags & SM_VM_ACCOUNT)
			sm__uncharge(s, pages);
		return -ENOMEM;
	}
	sm__account(s, r->vm_flags, (int64_t)pages);
	if (r->vm_flags & SM_VM_LOCKED) {
		s->locked_vm += pages;
		r->populate_start = end;
		r->populate_end = end + delta;
	}
	return (int64_t)r->addr;
}

/* ---- moving */

/* One move on its way. */
struct move {
	struct remap *r;
	struct sm__tree_cursor cursor;
	struct sm__unmap source; /* unless DONTUNMAP, or a copy (old_length 0) */
	bool takes_source;
	sm_addr rest_start, rest_end; /* of the source VMA before it was cut */
	uint64_t charged;
	uint64_t pgoff;
	struct sm__vma *fresh; /* the target, should it not merge */
	struct sm__prep prep;
	struct sm__step step;
	bool planned;
};

static int set_new_address(struct remap *r)
{
	struct sm_space *s = r->s;
	struct sm__tree_cursor c = sm__cursor(&s->tree);
	struct sm__place p = {
		.addr = new_address_given(r) ? r->new_addr : 0,
		.length = r->new_length,
		.flags = (r->flags & SM_MREMAP_FIXED ? SM_MAP_FIXED : 0) |
			 (r->vma->flags & SM_VM_MAYSHARE ? SM_MAP_SHARED : 0),
		.file = r->vma->file,
		.offset = (r->vma->pgoff << s->page_shift) + (r->addr - r->vma->start),
	};
	int64_t addr;

	p.c = &c;
	addr = sm__place(s, &p);

	if (addr < 0)
		return (int)addr;
	r->new_addr = (sm_addr)addr;
	return 0;
}

static int charge_move(struct move *v)
{
	struct remap *r = v->r;
	uint64_t bytes =
		r->flags & SM_MREMAP_DONTUNMAP ? r->new_length : r->new_length - r->old_length;

	if (!(r->vm_flags & SM_VM_ACCOUNT))
		return 0;
	if (sm__charge(r->s, sm__pages(r->s, bytes)))
		return -ENOMEM;
	v->charged = sm__pages(r->s, bytes);
	return 0;
}

/* Cuts the source out of its VMA (it stays in the tree) and has everything ready. */
static int get_ready(struct move *v)
{
	struct remap *r = v->r;
	struct sm_space *s = r->s;
	int err;

	v->cursor = sm__cursor(&s->tree);
	v->source = (struct sm__unmap){ .op = &r->op,
					.c = &v->cursor,
					.start = r->addr,
					.end = r->addr + r->old_length,
					.what = SM_NOTICE_MOVE,
					.keep_charge = true };
	if (v->takes_source) {
		err = sm__unmap_gather(&v->source);
		if (err)
			return err;
		r->vma = sm__find(s, r->addr);
	}
	v->step = (struct sm__step){ .kind = SM__STEP_MOVE,
				     .space = s,
				     .vma = r->vma,
				     .start = r->addr,
				     .end = r->addr + r->old_length,
				     .new_start = r->new_addr };
	if (r->old_length && s->backend->plan) {
		err = s->backend->plan(&v->step);
		if (err)
			return err;
		v->planned = true;
	}
	v->fresh = sm__vma_copy(s, r->vma);
	/* the target's store; the source's erase, or the store that takes its lock flag away */
	return !v->fresh || sm__prepare(s, &v->prep, sm__records(r->vma, 2), 2) ? -ENOMEM : 0;
}

static void not_ready(struct move *v)
{
	struct sm_space *s = v->r->s;

	if (v->fresh)
		sm__vma_free(s, v->fresh, false);
	if (v->planned && s->backend->abort)
		s->backend->abort(&v->step);
	if (v->takes_source)
		sm__unmap_abort(&v->source);
	sm__uncharge(s, v->charged);
}

/* The target, merged with what is there or a VMA of its own. */
static struct sm__vma *store_target(struct move *v)
{
	struct remap *r = v->r;
	struct sm_space *s = r->s;
	struct sm__tree_cursor c = sm__cursor(&s->tree);
	struct sm__merge m;

	sm__merge_from(&m, &r->op, r->vma);
	m.start = r->new_addr;
	m.end = r->new_addr + r->new_length;
	m.pgoff = v->pgoff;
	m.prep = &v->prep;
	m.c = &c;
	m.next = sm__seek(&c, m.end);
	sm__seek(&c, m.start);
	m.prev = sm__prev(&c);
	/* what is about to go is nobody's neighbour */
	if (v->takes_source && m.prev == r->vma)
		m.prev = NULL;
	if (v->takes_source && m.next == r->vma)
		m.next = NULL;
	if (sm__merge_new(&m)) {
		sm__vma_free(s, v->fresh, false);
		return m.result;
	}
	v->fresh->start = m.start;
	v->fresh->end = m.end;
	v->fresh->pgoff = v->pgoff;
	sm__store_new(s, &v->prep, v->fresh, &c);
	return v->fresh;
}

/* DONTUNMAP: what stays behind is not locked, and when all of a VMA went, it has no identity. */
static void leave_source(struct move *v)
{
	struct remap *r = v->r;
	struct sm_space *s = r->s;
	struct sm__vma *src = sm__find(s, r->addr); /* the target may have merged with it */

	sm__vma_start_write(s, src);
	if (src->start == r->addr && src->end == r->addr + r->old_length)
		atomic_store_explicit(&src->anon, 0, memory_order_relaxed);
	if (src->flags & SM_VM_LOCKED) {
		s->locked_vm -= sm__pages(s, sm__vma_size(src));
		src->flags &= ~(uint64_t)(SM_VM_LOCKED | SM_VM_LOCKONFAULT);
		sm__store(s, &v->prep, src, NULL);
	}
	sm__op_notice(&r->op, SM_NOTICE_MOVE, r->addr, r->addr + r->old_length);
}

static void give_identity(struct sm_space *s, sm_addr addr, uint64_t anon)
{
	struct sm__vma *rest = sm__find(s, addr);

	sm__vma_start_write(s, rest);
	atomic_store_explicit(&rest->anon, anon, memory_order_relaxed);
}

/*
 * Linux merges the target before the source goes: with a source that begins where the target ends
 * or the other way round, too. What stays of a source that was never written then has the identity
 * that the target found on its other side.
 */
static void share_identity(struct move *v)
{
	struct remap *r = v->r;
	struct sm__vma *target = v->step.to;
	uint64_t anon = sm__anon_of(target);

	if (!v->takes_source || r->vma->file || sm__anon_of(r->vma) || !anon ||
	    (v->rest_end != r->new_addr && v->rest_start != r->new_addr + r->new_length))
		return;
	if (v->rest_start < v->source.start)
		give_identity(r->s, v->source.start - 1, anon);
	if (v->rest_end > v->source.end)
		give_identity(r->s, v->source.end, anon);
}

static void carry_out(struct move *v)
{
	struct remap *r = v->r;
	struct sm_space *s = r->s;
	uint64_t pages = sm__pages(s, r->new_length);

	sm__vma_start_write(s, r->vma);
	v->step.to = store_target(v);
	sm__adopt(s, v->step.to, r->vma);
	share_identity(v);
	if (v->takes_source) {
		sm__erase(s, v->source.start, v->source.end, NULL);
		sm__unmap_detach(&v->source);
	}
	sm__account(s, r->vm_flags, (int64_t)pages);
	if (r->vm_flags & SM_VM_LOCKED) {
		s->locked_vm += pages;
		if (r->new_length > r->old_length) {
			r->populate_start = r->new_addr + r->old_length;
			r->populate_end = r->new_addr + r->new_length;
		}
	}
	if (v->planned)
		s->backend->commit(&v->step, sm__op_gather(&r->op));
	if (v->takes_source)
		sm__unmap_finish(&v->source);
	else if (r->flags & SM_MREMAP_DONTUNMAP)
		leave_source(v);
	sm__unprepare(s, &v->prep);
}

static int64_t move_vma(struct remap *r)
{
	struct move v = { .r = r };
	int err;

	if (!count_allows(r->s, 0))
		return -ENOMEM;
	err = charge_move(&v);
	if (err)
		return err;
	v.takes_source = r->old_length && !(r->flags & SM_MREMAP_DONTUNMAP);
	v.rest_start = r->vma->start;
	v.rest_end = r->vma->end;
	/* never written: it may as well be at home where it goes, and merge there */
	v.pgoff = r->vma->pgoff + sm__pages(r->s, r->addr - r->vma->start);
	if (!r->vma->file && !sm__anon_of(r->vma))
		v.pgoff = r->new_addr >> r->s->page_shift;
	err = get_ready(&v);
	if (err) {
		not_ready(&v);
		return err;
	}
	carry_out(&v);
	return (int64_t)r->new_addr;
}

static int shrink(struct remap *r)
{
	struct sm_space *s = r->s;
	sm_addr start = r->addr + r->new_length;
	uint64_t length = r->old_length - r->new_length;

	if (start > s->o.range_end || length > s->o.range_end - start)
		return -EINVAL;
	return sm__unmap_locked(&r->op, start, start + length);
}

static int64_t move_to(struct remap *r)
{
	struct sm_space *s = r->s;
	int err;

	if (r->flags & SM_MREMAP_FIXED) {
		err = sm__unmap_locked(&r->op, r->new_addr, r->new_addr + r->new_length);
		if (err)
			return err;
		r->vma = sm__find(s, r->addr);
		if (!r->vma)
			return -EFAULT;
	}
	if (r->old_length > r->new_length) {
		err = shrink(r);
		if (err)
			return err;
		r->old_length = r->new_length;
		r->vma = sm__find(s, r->addr);
	}
	if ((r->flags & SM_MREMAP_DONTUNMAP) &&
	    !sm__may_expand(s, r->vma->flags, sm__pages(s, r->old_length)))
		return -ENOMEM;
	err = set_new_address(r);
	return err ? err : move_vma(r);
}

static int64_t remap_here(struct remap *r)
{
	int err;

	if (r->new_length == r->old_length)
		return (int64_t)r->addr;
	if (r->new_length < r->old_length) {
		err = shrink(r);
		return err ? err : (int64_t)r->addr;
	}
	if (ends_in_free_space(r))
		return grow_in_place(r);
	if (!(r->flags & SM_MREMAP_MAYMOVE))
		return -ENOMEM;
	err = set_new_address(r);
	return err ? err : move_vma(r);
}

/* Same size, new place: every VMA of the range, at the same distances. */
static int64_t move_range(struct remap *r)
{
	struct sm_space *s = r->s;
	sm_addr at = r->addr, end = at + r->old_length, to = r->new_addr, first = at;
	int64_t result = -EFAULT;

	while (at < end) {
		struct sm__tree_cursor c = sm__cursor(&s->tree);
		struct sm__vma *v = sm__seek(&c, at);
		sm_addr start;
		int64_t res;
		int err;

		if (!v || v->start >= end)
			break;
		start = v->start > at ? v->start : at;
		if (at == first && start > first)
			return -EFAULT;
		r->vma = v;
		r->addr = start;
		r->new_addr = to + (start - first);
		r->old_length = r->new_length = (v->end < end ? v->end : end) - start;
		at = start + r->old_length;
		err = check_vma(r);
		res = err ? err : move_to(r);
		if (res < 0)
			return res;
		if (start == first)
			result = res;
	}
	return result;
}

int64_t sm_mremap(struct sm_space *s, sm_addr addr, uint64_t old_length, uint64_t new_length,
		  int flags, sm_addr new_addr)
{
	struct remap r;
	int64_t result;
	int err;

	sm__op_init(&r.op, s, SM_CALL_MREMAP);
	r.s = s;
	r.addr = addr;
	r.new_addr = new_addr;
	r.old_length = sm__page_align(s, old_length);
	r.new_length = sm__page_align(s, new_length);
	r.flags = flags;
	r.populate_start = r.populate_end = 0;
	err = check_arguments(&r);
	if (err)
		return err;
	err = sm__op_lock(&r.op, SM__WRITE, 0, s->o.range_end);
	if (err)
		return err;
	r.vma = sm__find(s, addr);
	if (new_address_given(&r) && !count_allows(s, 2)) {
		result = -ENOMEM;
	} else if ((flags & SM_MREMAP_FIXED) && r.old_length == r.new_length) {
		result = move_range(&r);
	} else {
		result = check_vma(&r);
		if (!result)
			result = new_address_given(&r) ? move_to(&r) : remap_here(&r);
	}
	sm__op_unlock(&r.op);
	if (sm__unlikely(r.populate_end) && result >= 0)
		sm__populate(s, r.populate_start, r.populate_end);
	return result;
}
