/* SPDX-License-Identifier: MIT */
/*
 * place.c - where a mapping goes: fixed, hinted, or searched for; x86-64 Linux 6.18.
 *
 * I1 A searched or hinted place keeps the guard gap below a growing stack free; MAP_FIXED does not.
 * I2 Top-down: the highest fit below mmap_base, else the lowest fit from legacy_base on.
 * I3 Anonymous private memory of a multiple of the huge page size, without a hint, is aligned to it
 *    (congruent to its offset), if padding for that can be found at all; so is a mapping of a file
 *    whose file system does that (SM_FILE_HUGE_ALIGN), if it holds a whole huge page.
 */
#include "space/space.h"
#include <samara/file.h>

#include <errno.h>

sm_addr sm__gap_start(const struct sm_space *s, const struct sm__vma *v)
{
	uint64_t gap = s->host->o.stack_guard_gap << s->page_shift;

	if (!(v->flags & SM_VM_GROWSDOWN))
		return v->start;
	return v->start > gap ? v->start - gap : 0;
}

static bool hint_fits(struct sm_space *s, struct sm__place *p, sm_addr addr, uint64_t length)
{
	struct sm__vma *v = p->next = sm__seek(p->c, addr);

	return !v || addr + length <= sm__gap_start(s, v);
}

/* A free range and, in p, the VMA above it. */
static int find_gap(struct sm_space *s, struct sm__place *p, const sm_addr limits[2], bool highest,
		    sm_addr *addr)
{
	const struct sm__tree_ops *ops = s->tree.ops;
	uint64_t length = p->searched;
	int err;

	if (ops->gap_at) {
		err = ops->gap_at(p->c, length, limits, highest, addr);
		p->next = err ? NULL : sm__vma_of(p->c->node);
		return err;
	}
	err = (highest ? ops->gap_highest : ops->gap_lowest)(&s->tree, length, limits, addr);
	if (!err)
		p->next = sm__seek(p->c, *addr);
	return err;
}

/* The highest fit in [low, high), or -ENOMEM. */
static int64_t search_down(struct sm_space *s, struct sm__place *p, uint64_t length, sm_addr low,
			   sm_addr high)
{
	p->searched = length;
	while (high > low && high - low >= length) {
		sm_addr limits[2] = { low, high - 1 }, addr;
		struct sm__vma *v;

		if (find_gap(s, p, limits, true, &addr))
			break;
		v = p->next;
		if (!v || addr + length <= sm__gap_start(s, v))
			return (int64_t)addr;
		high = sm__gap_start(s, v); /* below the guard gap of that stack */
	}
	return -ENOMEM;
}

static int64_t search_up(struct sm_space *s, struct sm__place *p, uint64_t length, sm_addr low,
			 sm_addr high)
{
	p->searched = length;
	while (high > low && high - low >= length) {
		sm_addr limits[2] = { low, high - 1 }, addr;
		struct sm__vma *v;

		if (find_gap(s, p, limits, false, &addr))
			break;
		v = p->next;
		if (!v || addr + length <= sm__gap_start(s, v))
			return (int64_t)addr;
		low = v->end; /* above that stack */
	}
	return -ENOMEM;
}

/* MAP_32BIT: [1 GiB, 2 GiB), as the x86-64 small code model wanted it. */
static const sm_addr low_begin = 0x40000000, low_end = 0x80000000;

static int64_t search_legacy(struct sm_space *s, struct sm__place *p, uint64_t length)
{
	bool low = p->flags & SM_MAP_32BIT;
	sm_addr begin = low ? low_begin : s->o.legacy_base, end = low ? low_end : s->o.range_end;
	sm_addr hint = sm__page_align(s, p->addr);

	if (length > end)
		return -ENOMEM;
	if (p->addr && end - length >= hint && hint_fits(s, p, hint, length))
		return (int64_t)hint;
	return search_up(s, p, length, begin, end);
}

static int64_t search(struct sm_space *s, struct sm__place *p, uint64_t length)
{
	sm_addr hint = p->addr & ~(s->page_size - 1), floor = s->host->o.mmap_min_addr;
	int64_t addr;

	if (s->o.layout == SM_LAYOUT_LEGACY || (p->flags & SM_MAP_32BIT))
		return search_legacy(s, p, length);
	if (length > s->o.range_end)
		return -ENOMEM;
	if (hint && s->o.range_end - length >= hint && hint_fits(s, p, hint, length))
		return (int64_t)hint;
	addr = search_down(s, p, length, floor > s->page_size ? floor : s->page_size,
			   s->o.mmap_base);
	if (addr >= 0)
		return addr;
	return search_legacy(s, p, length);
}

/* I3. -ENOMEM: no place with room for the padding, the plain search decides. */
static int64_t search_huge(struct sm_space *s, struct sm__place *p)
{
	uint64_t huge = s->host->o.huge_page, end = p->offset + p->length, first, shift;
	int64_t addr;

	first = (p->offset + huge - 1) & ~(huge - 1);
	if (end <= first || end - first < huge || end < p->offset || p->length + huge < p->length)
		return -ENOMEM;
	addr = search(s, p, p->length + huge);
	if (addr < 0)
		return addr;
	if ((sm_addr)addr == p->addr)
		return addr;
	shift = (p->offset - (uint64_t)addr) & (huge - 1);
	if (s->o.layout == SM_LAYOUT_TOPDOWN && !shift)
		return addr + (int64_t)huge;
	return addr + (int64_t)shift;
}

static bool wants_huge(const struct sm_space *s, const struct sm__place *p)
{
	uint64_t huge = s->host->o.huge_page;

	if (!huge || (p->flags & SM_MAP_FIXED))
		return false;
	if (p->file)
		return sm_file_info(p->file)->mode & SM_FILE_HUGE_ALIGN;
	return !p->addr && (p->flags & SM_MAP_TYPE) != SM_MAP_SHARED && !(p->length & (huge - 1));
}

/* The address that on_place names instead of the one found. */
static int64_t ask(struct sm_space *s, struct sm__place *p, int64_t found)
{
	int64_t addr = s->on_place(s->on_place_arg, found);
	struct sm__vma *v;

	if (addr == found || addr < 0 || !sm__page_aligned(s, (uint64_t)addr) ||
	    p->length > s->o.range_end || (sm_addr)addr > s->o.range_end - p->length)
		return found;
	v = sm__seek(p->c, (sm_addr)addr);
	if (v && v->start < (sm_addr)addr + p->length)
		addr = found;
	if (addr >= 0)
		p->next = sm__seek(p->c, (sm_addr)addr);
	return addr;
}

int64_t sm__place(struct sm_space *s, struct sm__place *p)
{
	int64_t addr;

	if (p->length > s->o.range_end)
		return -ENOMEM;
	if (p->flags & SM_MAP_FIXED) {
		addr = (int64_t)p->addr;
	} else {
		addr = wants_huge(s, p) ? search_huge(s, p) : -ENOMEM;
		if (addr < 0)
			addr = search(s, p, p->length);
		if (sm__unlikely(s->on_place != NULL))
			addr = ask(s, p, addr);
		if (addr < 0)
			return addr;
	}
	if ((sm_addr)addr > s->o.range_end - p->length)
		return -ENOMEM;
	if (!sm__page_aligned(s, (uint64_t)addr))
		return -EINVAL;
	if ((sm_addr)addr < s->host->o.mmap_min_addr && !(s->o.capabilities & SM_CAP_RAWIO))
		return -EPERM;
	return addr;
}
