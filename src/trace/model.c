/* SPDX-License-Identifier: MIT */
/* model.c - the map so far: does a call fit it, where would Linux place, what does it do (model.h). */
#include "trace/model.h"

#include <string.h>

#define HUGE (2ull << 20) /* what Linux aligns to: a huge page of x86-64 */

static uint64_t file_alignment(uint64_t len, uint64_t offset)
{
	uint64_t first = SM__ALIGN_UP(offset, HUGE);

	return offset + len > first && offset + len - first >= HUGE ? HUGE : 0;
}

sm_addr sm__model_place(const struct sm__model *m, const struct sm__call *c)
{
	bool is_mmap = c->call == SM_SYS_MMAP;
	uint64_t len = sm__page_up(is_mmap ? c->args[1] : c->args[2]), alignment = 0, offset = 0;
	sm_addr hint = is_mmap ? SM__ALIGN_DOWN(c->args[0], SM__TRACE_PAGE) : 0;

	if (hint && hint + len > hint &&
	    !sm__occupied_any(&m->occupancy, hint, hint + len, SM__MAPPED))
		return hint;
	if (is_mmap && !(c->args[3] & SM_MAP_ANONYMOUS)) {
		offset = c->args[5];
		alignment = file_alignment(len, offset);
	} else if (!hint && len % HUGE == 0 &&
		   (!is_mmap || (c->args[3] & SM_MAP_TYPE) == SM_MAP_PRIVATE)) {
		alignment = HUGE;
	}
	return sm__occupancy_place(&m->occupancy, len, alignment, offset);
}

bool sm__model_fits(const struct sm__model *m, const struct sm__call *c, enum sm__terms terms)
{
	struct sm__extent e;

	if (terms == SM__NO_TERMS)
		return true;
	if (sm__call_destination(c, &e) &&
	    sm__occupied_any(&m->occupancy, e.start, e.end, SM__MAPPED))
		return false;
	if (sm__call_source(c, &e) && sm__occupied_any(&m->occupancy, e.start, e.end, SM__FREE))
		return false;
	if (terms == SM__MUST_FIT)
		return true;
	if (sm__call_is_placed(c) && m->occupancy.base)
		return sm__model_place(m, c) == (sm_addr)c->result;
	if (c->call == SM_SYS_MUNMAP && sm__call_succeeded(c) &&
	    sm__extent_of(&e, c->args[0], c->args[1]))
		return sm__occupied_any(&m->occupancy, e.start, e.end, SM__MAPPED) ||
		       sm__occupied_any(&m->occupancy, e.start, e.end, SM__UNKNOWN);
	return true;
}

static int apply_brk(struct sm__model *m, const struct sm__call *c, struct sm__undo *undo)
{
	sm_addr before = sm__page_up(m->brk), after = sm__page_up((sm_addr)c->result);

	if (!m->brk)
		before = after;
	m->brk = (sm_addr)c->result;
	if (after >= before)
		return sm__occupy(&m->occupancy, before, after, SM__MAPPED, undo);
	return sm__occupy(&m->occupancy, after, before, SM__FREE, undo);
}

int sm__model_apply(struct sm__model *m, const struct sm__call *c, struct sm__undo *undo)
{
	struct sm__extent e;
	int r = 0;

	if (!sm__call_succeeded(c))
		return 0;
	switch (c->call) {
	case SM_SYS_MMAP:
		if (sm__extent_of(&e, (sm_addr)c->result, c->args[1]))
			r = sm__occupy(&m->occupancy, e.start, e.end, SM__MAPPED, undo);
		return r;
	case SM_SYS_MUNMAP:
		if (sm__extent_of(&e, c->args[0], c->args[1]))
			r = sm__occupy(&m->occupancy, e.start, e.end, SM__FREE, undo);
		return r;
	case SM_SYS_MREMAP:
		if (!(c->args[3] & SM_MREMAP_DONTUNMAP) &&
		    sm__extent_of(&e, c->args[0], c->args[1]))
			r = sm__occupy(&m->occupancy, e.start, e.end, SM__FREE, undo);
		if (!r && sm__extent_of(&e, (sm_addr)c->result, c->args[2]))
			r = sm__occupy(&m->occupancy, e.start, e.end, SM__MAPPED, undo);
		return r;
	case SM_SYS_BRK:
		return apply_brk(m, c, undo);
	default:
		if (sm__call_source(c, &e) &&
		    sm__occupied_any(&m->occupancy, e.start, e.end, SM__UNKNOWN))
			r = sm__occupy(&m->occupancy, e.start, e.end, SM__MAPPED, undo);
		return r;
	}
}

/* ---- the beginning of a space ---- */

static bool is_special(const char *name)
{
	return !strcmp(name, "[stack]") || !strncmp(name, "[vdso", 5) ||
	       !strncmp(name, "[vvar", 5) || !strncmp(name, "[vsyscall", 9);
}

/* A maps block: everything is known, and the dynamic linker, mapped first, shows the top. */
static int start_from_block(struct sm__recording *rec, struct sm__mm *mm, struct sm__model *m)
{
	int r = sm__occupy(&m->occupancy, 0, 1ull << 47, SM__FREE, NULL);

	m->complete = true;
	mm->base = 0;
	for (size_t i = 0; !r && i < mm->ninitial; i++) {
		const struct sm__initial *map = &mm->initial[i];
		const char *name = sm__recording_string(rec, map->string);

		if (map->end > SM__TRACE_TOP)
			continue;
		r = sm__occupy(&m->occupancy, map->start, map->end, SM__MAPPED, NULL);
		if (!is_special(name) && map->end > mm->base)
			mm->base = map->end;
		if (!strcmp(name, "[heap]")) {
			mm->start_brk = map->start;
			m->brk = map->end;
		}
	}
	m->occupancy.base = mm->base;
	return r;
}

int sm__model_start(struct sm__recording *rec, struct sm__model *maps, uint32_t index)
{
	struct sm__mm *mm = &rec->mms[index];
	struct sm__model *m = &maps[index];

	if (m->started)
		return 0;
	m->started = true;
	m->occupancy.base = mm->base;
	if (mm->ninitial && !mm->initial[0].inferred)
		return start_from_block(rec, mm, m);
	return 0;
}

int sm__model_fork(struct sm__recording *rec, struct sm__model *maps, const struct sm__call *fork)
{
	struct sm__model *to = &maps[fork->new_mm], *from = &maps[fork->mm];
	int r = sm__model_start(rec, maps, fork->mm);

	if (r)
		return r;
	sm__occupancy_free(&to->occupancy);
	*to = *from;
	rec->mms[fork->new_mm].base = rec->mms[fork->mm].base;
	rec->mms[fork->new_mm].start_brk = rec->mms[fork->mm].start_brk;
	return sm__occupancy_copy(&to->occupancy, &from->occupancy);
}

void sm__models_clear(struct sm__recording *rec, struct sm__model *maps)
{
	for (size_t i = 0; i < rec->nmms; i++) {
		sm__occupancy_free(&maps[i].occupancy);
		maps[i] = (struct sm__model){ 0 };
	}
}
