/* SPDX-License-Identifier: MIT */
/* extents.c - what of a space each call works on (extents.h). */
#include "trace/extents.h"
#include "base/base.h"

bool sm__extent_of(struct sm__extent *e, sm_addr start, uint64_t len)
{
	e->start = SM__ALIGN_DOWN(start, SM__TRACE_PAGE);
	e->end = sm__page_up(start + len);
	return len && e->end > e->start;
}

bool sm__call_is_placed(const struct sm__call *c)
{
	if (!sm__call_succeeded(c))
		return false;
	if (c->call == SM_SYS_MMAP)
		return !(c->args[3] & (SM_MAP_FIXED | SM_MAP_FIXED_NOREPLACE));
	return c->call == SM_SYS_MREMAP && !(c->args[3] & SM_MREMAP_FIXED) &&
	       (sm_addr)c->result != c->args[0];
}

static unsigned mremap_extents(const struct sm__call *c, struct sm__extent out[2])
{
	unsigned n = 0;

	n += sm__extent_of(&out[n], c->args[0], c->args[1]);
	if (sm__call_succeeded(c))
		n += sm__extent_of(&out[n], (sm_addr)c->result, c->args[2]);
	return n;
}

static unsigned brk_extents(const struct sm__mm *mm, const struct sm__call *c,
			    struct sm__extent out[2])
{
	sm_addr top = c->args[0] > (sm_addr)c->result ? c->args[0] : (sm_addr)c->result;
	sm_addr start = mm->start_brk ? mm->start_brk : top;

	return sm__extent_of(out, start, top > start ? top - start + 1 : 1);
}

/* Calls that name memory which must be there, and leave it mapped. */
static bool named(const struct sm__call *c, struct sm__extent *e)
{
	switch (c->call) {
	case SM_SYS_MPROTECT:
	case SM_SYS_PKEY_MPROTECT:
	case SM_SYS_MADVISE:
	case SM_SYS_MSYNC:
	case SM_SYS_MINCORE:
	case SM_SYS_MLOCK:
	case SM_SYS_MLOCK2:
	case SM_SYS_MUNLOCK:
	case SM_SYS_MSEAL:
		return sm__extent_of(e, c->args[0], c->args[1]);
	case SM_SYS_PRCTL:
		return sm__extent_of(e, c->args[2], c->args[3]);
	case SM_SYS_PAGE_FAULT:
		return !(c->note & SM__NOTE_NO_TARGET) && sm__extent_of(e, c->args[0], 1);
	default:
		return false;
	}
}

unsigned sm__call_extents(const struct sm__mm *mm, const struct sm__call *c,
			  struct sm__extent out[2])
{
	switch (c->call) {
	case SM_SYS_MMAP:
		if (sm__call_succeeded(c))
			return sm__extent_of(out, (sm_addr)c->result, c->args[1]);
		return c->args[0] ? sm__extent_of(out, c->args[0], c->args[1]) : 0;
	case SM_SYS_MREMAP:
		return mremap_extents(c, out);
	case SM_SYS_BRK:
		return brk_extents(mm, c, out);
	case SM_SYS_MUNMAP:
	case SM_SYS_REMAP_FILE_PAGES:
		return sm__extent_of(out, c->args[0], c->args[1]);
	default:
		return named(c, out);
	}
}

bool sm__call_destination(const struct sm__call *c, struct sm__extent *e)
{
	if (!sm__call_succeeded(c))
		return false;
	if (c->call == SM_SYS_MMAP) {
		bool replaces =
			(c->args[3] & SM_MAP_FIXED) && !(c->args[3] & SM_MAP_FIXED_NOREPLACE);

		return !replaces && sm__extent_of(e, (sm_addr)c->result, c->args[1]);
	}
	if (c->call != SM_SYS_MREMAP || c->args[3] & SM_MREMAP_FIXED)
		return false;
	if ((sm_addr)c->result != c->args[0])
		return sm__extent_of(e, (sm_addr)c->result, c->args[2]);
	return sm__page_up(c->args[2]) > sm__page_up(c->args[1]) &&
	       sm__extent_of(e, c->args[0] + sm__page_up(c->args[1]),
			     sm__page_up(c->args[2]) - sm__page_up(c->args[1]));
}

bool sm__call_source(const struct sm__call *c, struct sm__extent *e)
{
	if (!sm__call_succeeded(c))
		return false;
	return c->call == SM_SYS_MREMAP ? sm__extent_of(e, c->args[0], c->args[1]) : named(c, e);
}
