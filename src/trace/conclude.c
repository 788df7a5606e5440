/* SPDX-License-Identifier: MIT */
/*
 * conclude.c - what the order of the calls shows: mappings that were there before the recording, places
 * that depend on what it does not show, the target of faults of which only file and offset are known.
 */
#include "trace/order.h"

#include <stdlib.h>
#include <string.h>

static uint32_t origin_of(const struct sm__recording *rec, uint32_t mm)
{
	while (rec->mms[mm].origin == SM__MM_FORK)
		mm = rec->mms[mm].parent;
	return mm;
}

/* The unknown parts of [start, end) were mapped from the beginning, or the call had failed. */
static int infer(struct sm__recording *rec, const struct sm__model *m, const struct sm__call *c,
		 struct sm__extent e)
{
	struct sm__mm *mm = &rec->mms[origin_of(rec, c->mm)];
	bool is_stack = !strcmp(sm__recording_string(rec, c->string), "[stack]");
	sm_addr at = e.start;
	size_t i;

	e.end = e.end < SM__TRACE_TOP ? e.end : SM__TRACE_TOP;
	i = sm__occupancy_find(&m->occupancy, e.start);

	while (at < e.end) {
		bool more = i < m->occupancy.n && m->occupancy.spans[i].start < e.end;
		sm_addr stop = more ? m->occupancy.spans[i].start : e.end;

		if (stop > at) {
			struct sm__initial map = { at,
						   stop,
						   at,
						   SM_PROT_READ | SM_PROT_WRITE,
						   SM_MAP_PRIVATE,
						   is_stack ? c->string : SM__NONE,
						   true };
			int r = sm__mm_add_initial(mm, map);

			if (r)
				return r;
		}
		at = more ? m->occupancy.spans[i++].end : e.end;
	}
	return 0;
}

/* Gives the file of a map its name, in all parts of it that were mapped at one load address. */
static void name_file(struct sm__recording *rec, const uint32_t *file_maps, size_t n,
		      const struct sm__call *map, uint32_t name)
{
	uint32_t was = map->string, mm = map->mm;
	uint64_t base = (uint64_t)map->result - map->args[5];

	for (size_t i = 0; i < n; i++) {
		struct sm__call *part = &rec->calls[file_maps[i]];

		if (part->mm == mm && part->string == was &&
		    (uint64_t)part->result - part->args[5] == base)
			part->string = name;
	}
}

/* A fault of which only path and offset are known: the newest map of that path, or else the newest
 * one whose file has no name, which gets it. */
static void resolve_fault(struct sm__recording *rec, const uint32_t *file_maps, size_t n,
			  struct sm__call *c)
{
	struct sm__call *unnamed = NULL;

	for (size_t i = n; i--;) {
		struct sm__call *map = &rec->calls[file_maps[i]];
		uint64_t offset = map->args[5];

		if (map->mm != c->mm || c->args[2] < offset ||
		    c->args[2] - offset >= sm__page_up(map->args[1]))
			continue;
		if (map->string == c->string) {
			unnamed = map;
			break;
		}
		if (!unnamed && !strncmp(sm__recording_string(rec, map->string), "fd:", 3))
			unnamed = map;
	}
	if (!unnamed) {
		c->note |= SM__NOTE_NO_TARGET;
		return;
	}
	name_file(rec, file_maps, n, unnamed, c->string);
	c->args[0] = (sm_addr)unnamed->result + (c->args[2] - unnamed->args[5]);
	c->note |= SM__NOTE_RESOLVED;
}

int sm__resolve_faults(struct sm__recording *rec, const uint32_t *by_ret)
{
	uint32_t *maps = NULL;
	size_t n = 0, room = 0;
	int r = 0;

	for (size_t i = 0; !r && i < rec->ncalls; i++) {
		struct sm__call *c = &rec->calls[by_ret[i]];

		if (c->call == SM_SYS_MMAP && sm__call_succeeded(c) && c->string != SM__NONE) {
			r = sm__grow(&maps, n, &room, sizeof(*maps));
			if (!r)
				maps[n++] = by_ret[i];
		} else if (c->call == SM_SYS_PAGE_FAULT && c->inferred & SM_TRACE_INFERRED_ADDR) {
			resolve_fault(rec, maps, n, c);
		}
	}
	free(maps);
	return r;
}

static int conclude_call(struct sm__recording *rec, struct sm__model *maps, struct sm__call *c)
{
	struct sm__model *m = &maps[c->mm];
	struct sm__extent e;
	int r = sm__model_start(rec, maps, c->mm);

	if (!r && sm__call_source(c, &e) && !m->complete)
		r = infer(rec, m, c, e);
	if (!r && sm__call_is_placed(c)) {
		sm_addr place = sm__model_place(m, c);
		uint64_t len = sm__page_up(c->call == SM_SYS_MMAP ? c->args[1] : c->args[2]);

		if (place != (sm_addr)c->result &&
		    (!place || (sm_addr)c->result + len > m->occupancy.base ||
		     sm__occupied_any(&m->occupancy, place, place + len, SM__UNKNOWN)))
			c->note |= SM__NOTE_UNKNOWN_PLACE;
	}
	if (!r)
		r = sm__model_apply(m, c, NULL);
	if (!r && c->new_mm != SM__NONE && rec->mms[c->new_mm].origin == SM__MM_FORK)
		r = sm__model_fork(rec, maps, c);
	return r;
}

/* A second walk, in the order found, over fresh maps. */
int sm__conclude(struct sm__recording *rec, struct sm__model *models)
{
	uint64_t latest = 0;
	int r = 0;

	sm__models_clear(rec, models);
	for (size_t i = 0; !r && i < rec->ncalls; i++) {
		struct sm__call *c = &rec->calls[rec->order[i]];

		r = conclude_call(rec, models, c);
		if (c->ret < latest) {
			for (size_t k = i; k-- && rec->calls[rec->order[k]].ret > c->ret;) {
				if (rec->calls[rec->order[k]].mm == c->mm) {
					rec->calls[rec->order[k]].note |= SM__NOTE_REORDERED;
				}
			}
		} else {
			latest = c->ret;
		}
		rec->threads[c->thread].ncalls++;
		rec->mms[c->mm].ncalls++;
	}
	for (size_t i = 0; i < rec->ncalls; i++)
		rec->reordered += (rec->calls[i].note & SM__NOTE_REORDERED) != 0;
	return r;
}
