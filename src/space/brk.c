/* SPDX-License-Identifier: MIT */
/*
 * brk.c - the program break. Never an errno: what cannot be done leaves the break where it was.
 *
 * I1 brk is M; the pages of [start_brk, page_align(brk)) are mapped unless someone unmapped them.
 */
#include "space/space.h"

#include <errno.h>

static const uint64_t heap_flags =
	SM_VM_READ | SM_VM_WRITE | SM_VM_MAYREAD | SM_VM_MAYWRITE | SM_VM_MAYEXEC | SM_VM_ACCOUNT;

static bool data_limit_allows(const struct sm_space *s, sm_addr brk)
{
	uint64_t limit =
		atomic_load_explicit((_Atomic uint64_t *)&s->limit_data, memory_order_relaxed);

	return limit == SM_RLIM_INFINITY || brk - s->o.start_brk <= limit;
}

static int grow(struct sm__op *op, sm_addr start, sm_addr end)
{
	struct sm_space *s = op->space;
	uint64_t pages = sm__pages(s, end - start), flags = heap_flags | s->def_flags;
	struct sm__merge m = { .op = op,
			       .start = start,
			       .end = end,
			       .flags = flags,
			       .pgoff = start >> s->page_shift,
			       .just_grow = true };

	if (!sm__may_expand(s, flags, pages) || s->map_count > s->host->o.max_map_count)
		return -ENOMEM;
	if (sm__charge(s, pages))
		return -ENOMEM;
	m.prev = sm__vma_before(s, start);
	if (m.prev && m.prev->end <= s->o.start_brk)
		m.prev = NULL; /* in front of the heap: not the heap's to grow */
	if (sm__merge_or_new(&m)) {
		sm__uncharge(s, pages);
		return -ENOMEM;
	}
	sm__account(s, flags, (int64_t)pages);
	if (flags & SM_VM_LOCKED)
		s->locked_vm += pages;
	return 0;
}

/* The heap keeps one page and the guard gap away from what follows it. */
static bool room(struct sm_space *s, sm_addr old_end, sm_addr new_end)
{
	struct sm__tree_cursor c = sm__cursor(&s->tree);
	struct sm__vma *v = sm__seek(&c, old_end);

	return new_end <= s->o.range_end && (!v || new_end + s->page_size <= sm__gap_start(s, v));
}

/* Where nothing is left of the heap there is nothing to give back, and the break stays. */
static bool shrink(struct sm__op *op, sm_addr start, sm_addr end)
{
	struct sm__tree_cursor c = sm__cursor(&op->space->tree);
	struct sm__vma *v = sm__seek(&c, start);

	return v && v->start < end && sm__unmap_locked(op, start, end) == 0;
}

static bool set_brk(struct sm__op *op, sm_addr brk, bool *populate)
{
	struct sm_space *s = op->space;
	sm_addr old_end = sm__page_align(s, s->brk), new_end = sm__page_align(s, brk);

	if (brk < s->o.start_brk || !data_limit_allows(s, brk))
		return false;
	if (old_end == new_end)
		return true;
	if (brk <= s->brk)
		return shrink(op, new_end, old_end);
	if (new_end < old_end || !sm__may_lock(s, s->def_flags, new_end - old_end))
		return false;
	if (!room(s, old_end, new_end) || grow(op, old_end, new_end))
		return false;
	*populate = s->def_flags & SM_VM_LOCKED;
	return true;
}

sm_addr sm_brk(struct sm_space *s, sm_addr brk)
{
	bool populate = false;
	struct sm__op op;
	sm_addr old, now;

	sm__op_init(&op, s, SM_CALL_BRK);
	if (sm__op_lock(&op, SM__WRITE, s->o.start_brk, s->o.range_end))
		return 0; /* interrupted: as Linux, an address that is no break */
	old = s->brk;
	if (s->o.start_brk && set_brk(&op, brk, &populate))
		s->brk = brk;
	now = s->brk;
	sm__op_unlock(&op);
	if (populate)
		sm__populate(s, sm__page_align(s, old), sm__page_align(s, now));
	return now;
}
