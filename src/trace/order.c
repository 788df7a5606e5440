/* SPDX-License-Identifier: MIT */
/*
 * order.c - the order in which the calls of a recording took effect (recording.h I3).
 *
 * What the text says is a partial order: a call that returned before another was entered came first.
 * Of calls that overlapped, the results tell: an address that was handed out again had been unmapped,
 * and Linux places top-down, so that a mapping lies in the highest gap there was. So the order is
 * searched for, depth first, along the order of return:
 *
 *   A |-----------------|  mmap = 0x7000       return order  B A C
 *   B    |-------|         munmap(0x7000)      B A C: A at 0x7000 needs B before it: consistent
 *   C         |-----------------|              ...
 *
 * At each step the candidates are the head (the first to return of those not done) and every call
 * entered before the head returned; the first one that fits the map so far is taken. When none fits,
 * the last choice is taken back and its next candidate tried.
 *
 * I1 A candidate overlaps the head, so taking it first is allowed by the text.
 * I2 When nothing that is done overlaps anything that is not, the choices are final: the search
 *    never goes back behind such a point, behind a fork or exec, nor further than STEPS_MAX calls.
 * I3 After so many vain steps back (BUDGET; half of it the next time, but BUDGET_LEAST) the call that does not fit is taken on weaker terms (first
 *    without asking where Linux would place, then without asking anything), so the search ends.
 */
#include "trace/occupancy.h"
#include "trace/recording.h"
#include "base/base.h"
#include "base/inject.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX    4096
#define BUDGET	     4000
#define BUDGET_LEAST 60
#define HUGE	     (2ull << 20) /* what Linux aligns to: a huge page of x86-64 */

/* What a call must agree with to be taken. */
enum terms { NO_TERMS, MUST_FIT, MUST_BE_PLACED };

struct map {
	struct sm__occupancy occupancy;
	sm_addr brk;
	bool started, complete; /* complete: a maps block said what was there */
};

struct step {
	uint32_t call;
	uint32_t candidate; /* which one it was */
	size_t head;
	uint64_t latest_ret; /* of all calls done before */
	size_t undos;
	sm_addr brk;
};

struct search {
	struct sm__recording *rec;
	struct map *maps;   /* by mm */
	uint32_t *by_ret;   /* calls, sorted by ret */
	uint8_t *terms;	    /* by call */
	bool *done;	    /* by call */
	struct step *steps; /* that can be taken back */
	size_t nsteps;
	struct sm__undo undo;
	size_t ndone;	     /* calls done; order[0..ndone) */
	size_t furthest;     /* the most that was ever done */
	size_t head;	     /* in by_ret: everything before it is done */
	uint64_t latest_ret; /* of all calls done */
	unsigned backs;	     /* steps back since furthest grew */
	unsigned budget;
};

/* ---- what a call touches ---- */

static uint64_t page_up(uint64_t x)
{
	return SM__ALIGN_UP(x, SM__TRACE_PAGE);
}

static bool extent(struct sm__extent *e, sm_addr start, uint64_t len)
{
	e->start = SM__ALIGN_DOWN(start, SM__TRACE_PAGE);
	e->end = page_up(start + len);
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

	n += extent(&out[n], c->args[0], c->args[1]);
	if (sm__call_succeeded(c))
		n += extent(&out[n], (sm_addr)c->result, c->args[2]);
	return n;
}

static unsigned brk_extents(const struct sm__mm *mm, const struct sm__call *c,
			    struct sm__extent out[2])
{
	sm_addr top = c->args[0] > (sm_addr)c->result ? c->args[0] : (sm_addr)c->result;
	sm_addr start = mm->start_brk ? mm->start_brk : top;

	return extent(out, start, top > start ? top - start + 1 : 1);
}

unsigned sm__call_extents(const struct sm__mm *mm, const struct sm__call *c,
			  struct sm__extent out[2])
{
	switch (c->call) {
	case SM_SYS_MMAP:
		if (sm__call_succeeded(c))
			return extent(out, (sm_addr)c->result, c->args[1]);
		return c->args[0] ? extent(out, c->args[0], c->args[1]) : 0;
	case SM_SYS_MREMAP:
		return mremap_extents(c, out);
	case SM_SYS_BRK:
		return brk_extents(mm, c, out);
	case SM_SYS_MUNMAP:
	case SM_SYS_MPROTECT:
	case SM_SYS_PKEY_MPROTECT:
	case SM_SYS_MADVISE:
	case SM_SYS_MSYNC:
	case SM_SYS_MINCORE:
	case SM_SYS_MLOCK:
	case SM_SYS_MLOCK2:
	case SM_SYS_MUNLOCK:
	case SM_SYS_MSEAL:
	case SM_SYS_REMAP_FILE_PAGES:
		return extent(out, c->args[0], c->args[1]);
	case SM_SYS_PRCTL:
		return extent(out, c->args[2], c->args[3]);
	case SM_SYS_PAGE_FAULT:
		return c->note & SM__NOTE_NO_TARGET ? 0 : extent(out, c->args[0], 1);
	default:
		return 0;
	}
}

/* ---- does a call fit the map so far, and where would Linux place it ---- */

static uint64_t file_alignment(uint64_t len, uint64_t offset)
{
	uint64_t first = SM__ALIGN_UP(offset, HUGE);

	return offset + len > first && offset + len - first >= HUGE ? HUGE : 0;
}

static sm_addr predicted(const struct map *m, const struct sm__call *c)
{
	bool is_mmap = c->call == SM_SYS_MMAP;
	uint64_t len = page_up(is_mmap ? c->args[1] : c->args[2]), alignment = 0, offset = 0;
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

/* The part of a destination that must have been free. */
static bool destination(const struct sm__call *c, struct sm__extent *e)
{
	if (!sm__call_succeeded(c))
		return false;
	if (c->call == SM_SYS_MMAP) {
		bool replaces =
			(c->args[3] & SM_MAP_FIXED) && !(c->args[3] & SM_MAP_FIXED_NOREPLACE);

		return !replaces && extent(e, (sm_addr)c->result, c->args[1]);
	}
	if (c->call != SM_SYS_MREMAP || c->args[3] & SM_MREMAP_FIXED)
		return false;
	if ((sm_addr)c->result != c->args[0])
		return extent(e, (sm_addr)c->result, c->args[2]);
	return page_up(c->args[2]) > page_up(c->args[1]) &&
	       extent(e, c->args[0] + page_up(c->args[1]),
		      page_up(c->args[2]) - page_up(c->args[1]));
}

/* The part that must have been mapped. */
static bool source(const struct sm__call *c, struct sm__extent *e)
{
	switch (sm__call_succeeded(c) ? c->call : SM_SYS_OTHER) {
	case SM_SYS_MPROTECT:
	case SM_SYS_PKEY_MPROTECT:
	case SM_SYS_MADVISE:
	case SM_SYS_MSYNC:
	case SM_SYS_MINCORE:
	case SM_SYS_MLOCK:
	case SM_SYS_MLOCK2:
	case SM_SYS_MUNLOCK:
	case SM_SYS_MSEAL:
	case SM_SYS_MREMAP:
		return extent(e, c->args[0], c->args[1]);
	case SM_SYS_PRCTL:
		return extent(e, c->args[2], c->args[3]);
	case SM_SYS_PAGE_FAULT:
		return !(c->note & SM__NOTE_NO_TARGET) && extent(e, c->args[0], 1);
	default:
		return false;
	}
}

static bool fits(const struct map *m, const struct sm__call *c, enum terms terms)
{
	struct sm__extent e;

	if (terms == NO_TERMS)
		return true;
	if (destination(c, &e) && sm__occupied_any(&m->occupancy, e.start, e.end, SM__MAPPED))
		return false;
	if (source(c, &e) && sm__occupied_any(&m->occupancy, e.start, e.end, SM__FREE))
		return false;
	if (terms == MUST_FIT)
		return true;
	if (sm__call_is_placed(c) && m->occupancy.base)
		return predicted(m, c) == (sm_addr)c->result;
	if (c->call == SM_SYS_MUNMAP && sm__call_succeeded(c) && extent(&e, c->args[0], c->args[1]))
		return sm__occupied_any(&m->occupancy, e.start, e.end, SM__MAPPED) ||
		       sm__occupied_any(&m->occupancy, e.start, e.end, SM__UNKNOWN);
	return true;
}

static int apply_brk(struct map *m, const struct sm__call *c, struct sm__undo *undo)
{
	sm_addr before = page_up(m->brk), after = page_up((sm_addr)c->result);

	if (!m->brk)
		before = after;
	m->brk = (sm_addr)c->result;
	if (after >= before)
		return sm__occupy(&m->occupancy, before, after, SM__MAPPED, undo);
	return sm__occupy(&m->occupancy, after, before, SM__FREE, undo);
}

/* What a call that succeeded does to the map. */
static int apply(struct map *m, const struct sm__call *c, struct sm__undo *undo)
{
	struct sm__extent e;
	int r = 0;

	if (!sm__call_succeeded(c))
		return 0;
	switch (c->call) {
	case SM_SYS_MMAP:
		if (extent(&e, (sm_addr)c->result, c->args[1]))
			r = sm__occupy(&m->occupancy, e.start, e.end, SM__MAPPED, undo);
		return r;
	case SM_SYS_MUNMAP:
		if (extent(&e, c->args[0], c->args[1]))
			r = sm__occupy(&m->occupancy, e.start, e.end, SM__FREE, undo);
		return r;
	case SM_SYS_MREMAP:
		if (!(c->args[3] & SM_MREMAP_DONTUNMAP) && extent(&e, c->args[0], c->args[1]))
			r = sm__occupy(&m->occupancy, e.start, e.end, SM__FREE, undo);
		if (!r && extent(&e, (sm_addr)c->result, c->args[2]))
			r = sm__occupy(&m->occupancy, e.start, e.end, SM__MAPPED, undo);
		return r;
	case SM_SYS_BRK:
		return apply_brk(m, c, undo);
	default:
		if (source(c, &e) && sm__occupied_any(&m->occupancy, e.start, e.end, SM__UNKNOWN))
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
static int start_from_block(struct sm__recording *rec, struct sm__mm *mm, struct map *m)
{
	int r = sm__occupy(&m->occupancy, 0, 1ull << 47, SM__FREE, NULL);

	m->complete = true;
	mm->base = 0;
	for (size_t i = 0; !r && i < mm->ninitial; i++) {
		const struct sm__initial *map = &mm->initial[i];
		const char *name = sm__recording_string(rec, map->string);

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

static int start_map(struct sm__recording *rec, struct map *maps, uint32_t index)
{
	struct sm__mm *mm = &rec->mms[index];
	struct map *m = &maps[index];

	if (m->started)
		return 0;
	m->started = true;
	m->occupancy.base = mm->base;
	if (mm->ninitial && !mm->initial[0].inferred)
		return start_from_block(rec, mm, m);
	return 0;
}

static int copy_map(struct sm__recording *rec, struct map *maps, const struct sm__call *fork)
{
	struct map *to = &maps[fork->new_mm], *from = &maps[fork->mm];
	int r = start_map(rec, maps, fork->mm);

	if (r)
		return r;
	sm__occupancy_free(&to->occupancy);
	*to = *from;
	rec->mms[fork->new_mm].base = rec->mms[fork->mm].base;
	rec->mms[fork->new_mm].start_brk = rec->mms[fork->mm].start_brk;
	return sm__occupancy_copy(&to->occupancy, &from->occupancy);
}

/* Top of the search and start of the heap, from the first calls that show them. */
static void find_bases(struct search *s)
{
	for (size_t i = 0; i < s->rec->ncalls; i++) {
		const struct sm__call *c = &s->rec->calls[s->by_ret[i]];
		struct sm__mm *mm = &s->rec->mms[c->mm];

		if (!mm->base && c->call == SM_SYS_MMAP && !c->args[0] && sm__call_is_placed(c))
			mm->base = page_up((sm_addr)c->result + c->args[1]);
		if (!mm->start_brk && c->call == SM_SYS_BRK && c->result)
			mm->start_brk = (sm_addr)c->result;
		if (c->new_mm != SM__NONE && s->rec->mms[c->new_mm].origin == SM__MM_FORK) {
			s->rec->mms[c->new_mm].base = mm->base;
			s->rec->mms[c->new_mm].start_brk = mm->start_brk;
		}
	}
}

/* ---- the search ---- */

static int by_ret_order(const void *a, const void *b, void *arg)
{
	const struct sm__call *calls = arg;
	const struct sm__call *x = &calls[*(const uint32_t *)a], *y = &calls[*(const uint32_t *)b];

	if (x->ret != y->ret)
		return x->ret < y->ret ? -1 : 1;
	if (x->entry != y->entry)
		return x->entry < y->entry ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* How many calls were entered before a position: calls are sorted by entry. */
static size_t entered_before(const struct search *s, uint64_t position)
{
	size_t low = 0, high = s->rec->ncalls;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (s->rec->calls[mid].entry < position)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Whether the order of the two can matter: one changes what is mapped, or both touch one place. */
static bool competes(const struct search *s, const struct sm__call *c, const struct sm__call *head)
{
	struct sm__extent a[2], b[2];
	unsigned na, nb;

	if (c->mm != head->mm)
		return false;
	if (c->call == SM_SYS_MMAP || c->call == SM_SYS_MUNMAP || c->call == SM_SYS_MREMAP ||
	    c->call == SM_SYS_BRK)
		return true;
	na = sm__call_extents(&s->rec->mms[c->mm], c, a);
	nb = sm__call_extents(&s->rec->mms[c->mm], head, b);
	for (unsigned i = 0; i < na; i++) {
		for (unsigned k = 0; k < nb; k++) {
			if (a[i].start < b[k].end && b[k].start < a[i].end)
				return true;
		}
	}
	return false;
}

static int take(struct search *s, uint32_t index, uint32_t n)
{
	struct sm__call *c = &s->rec->calls[index];
	struct map *m = &s->maps[c->mm];
	struct step *step = &s->steps[s->nsteps];
	size_t frames = 0, before;
	int r;

	*step = (struct step){ index, n, s->head, s->latest_ret, 0, m->brk };
	before = s->undo.n;
	r = apply(m, c, &s->undo);
	if (r)
		return r;
	/* Frames are counted from the end: each says how many spans lie under it. */
	for (size_t at = s->undo.n; at > before; frames++)
		at -= 1 + (size_t)s->undo.spans[at - 1].state;
	step->undos = frames;
	s->nsteps++;
	s->done[index] = true;
	s->rec->order[s->ndone++] = index;
	if (c->ret > s->latest_ret)
		s->latest_ret = c->ret;
	while (s->head < s->rec->ncalls && s->done[s->by_ret[s->head]])
		s->head++;
	if (s->ndone > s->furthest) {
		s->furthest = s->ndone;
		s->backs = 0;
	}
	return 0;
}

/* Takes the last step back. */
static void take_back(struct search *s)
{
	const struct step *step = &s->steps[--s->nsteps];
	struct map *m = &s->maps[s->rec->calls[step->call].mm];

	for (size_t i = 0; i < step->undos; i++)
		sm__occupy_undo(&m->occupancy, &s->undo);
	m->brk = step->brk;
	s->done[step->call] = false;
	s->ndone--;
	s->head = step->head;
	s->latest_ret = step->latest_ret;
}

static void commit(struct search *s)
{
	s->nsteps = 0;
	s->undo.n = 0;
}

/* I2. */
static bool is_final(const struct search *s)
{
	const struct sm__call *last = &s->rec->calls[s->rec->order[s->ndone - 1]];

	return last->new_mm != SM__NONE || s->nsteps == STEPS_MAX ||
	       entered_before(s, s->latest_ret) == s->ndone;
}

/* From candidate n on (0 is the head), the first that fits, and which one it is; or SM__NONE. */
static uint32_t choose(const struct search *s, uint32_t *n)
{
	const struct sm__call *calls = s->rec->calls;
	uint32_t first = s->by_ret[s->head], k = 0;
	const struct sm__call *head = &calls[first];
	const struct map *m = &s->maps[head->mm];
	size_t open;

	if (!*n && fits(m, head, s->terms[first]))
		return first;
	open = entered_before(s, head->ret) - s->ndone;
	for (size_t i = s->head + 1; open > 1 && i < s->rec->ncalls; i++) {
		uint32_t index = s->by_ret[i];
		const struct sm__call *c = &calls[index];

		if (s->done[index] || c->entry >= head->ret)
			continue;
		open--;
		if (!competes(s, c, head) || ++k < *n)
			continue;
		if (fits(m, c, s->terms[index])) {
			*n = k;
			return index;
		}
	}
	return SM__NONE;
}

/* Nothing fits: the next candidate of the last step that has one. */
static uint32_t retreat(struct search *s, uint32_t *n)
{
	while (s->nsteps && s->backs < s->budget) {
		uint32_t index;

		*n = s->steps[s->nsteps - 1].candidate + 1;
		take_back(s);
		s->backs++;
		index = choose(s, n);
		if (index != SM__NONE)
			return index;
	}
	return SM__NONE;
}

/*
 * I3: the call where the search got stuck gets easier terms, and the search begins anew. A head on no
 * terms always fits, so one that is stuck has terms to lose: this happens at most twice per call.
 */
static void relax(struct search *s, uint32_t stuck)
{
	struct sm__call *c = &s->rec->calls[stuck];

	while (s->nsteps)
		take_back(s);
	if (s->backs >= s->budget && s->budget / 2 >= BUDGET_LEAST)
		s->budget /= 2;
	s->backs = 0;
	s->terms[stuck]--;
	if (s->terms[stuck] == NO_TERMS && !(c->note & SM__NOTE_UNORDERED)) {
		c->note |= SM__NOTE_UNORDERED;
		s->rec->unordered++;
	}
}

static int search_order(struct search *s)
{
	uint32_t stuck = SM__NONE;
	size_t deepest = 0;
	int r = 0;

	while (!r && s->ndone < s->rec->ncalls) {
		uint32_t n = 0, head = s->by_ret[s->head], index;

		r = start_map(s->rec, s->maps, s->rec->calls[head].mm);
		if (r)
			break;
		index = choose(s, &n);
		if (index == SM__NONE) {
			if (stuck == SM__NONE || s->ndone >= deepest) {
				stuck = head;
				deepest = s->ndone;
			}
			index = retreat(s, &n);
		}
		if (index == SM__NONE) {
			relax(s, stuck);
			stuck = SM__NONE;
			continue;
		}
		r = take(s, index, n);
		if (!r && is_final(s)) {
			const struct sm__call *c = &s->rec->calls[s->rec->order[s->ndone - 1]];

			stuck = SM__NONE; /* what failed before this point is past */
			if (c->new_mm != SM__NONE && s->rec->mms[c->new_mm].origin == SM__MM_FORK)
				r = copy_map(s->rec, s->maps, c);
			commit(s);
		}
	}
	return r;
}

/* ---- what the order shows: inferred mappings, unknown places ---- */

static uint32_t origin_of(const struct sm__recording *rec, uint32_t mm)
{
	while (rec->mms[mm].origin == SM__MM_FORK)
		mm = rec->mms[mm].parent;
	return mm;
}

/* The unknown parts of [start, end) were mapped from the beginning, or the call had failed. */
static int infer(struct sm__recording *rec, const struct map *m, const struct sm__call *c,
		 struct sm__extent e)
{
	struct sm__mm *mm = &rec->mms[origin_of(rec, c->mm)];
	bool is_stack = !strcmp(sm__recording_string(rec, c->string), "[stack]");
	sm_addr at = e.start;
	size_t i = sm__occupancy_find(&m->occupancy, e.start);

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
		    c->args[2] - offset >= page_up(map->args[1]))
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

static int resolve_faults(struct search *s)
{
	uint32_t *maps = NULL;
	size_t n = 0, room = 0;
	int r = 0;

	for (size_t i = 0; !r && i < s->rec->ncalls; i++) {
		struct sm__call *c = &s->rec->calls[s->by_ret[i]];

		if (c->call == SM_SYS_MMAP && sm__call_succeeded(c) && c->string != SM__NONE) {
			r = sm__grow(&maps, n, &room, sizeof(*maps));
			if (!r)
				maps[n++] = s->by_ret[i];
		} else if (c->call == SM_SYS_PAGE_FAULT && c->inferred & SM_TRACE_INFERRED_ADDR) {
			resolve_fault(s->rec, maps, n, c);
		}
	}
	free(maps);
	return r;
}

static int conclude_call(struct sm__recording *rec, struct map *maps, struct sm__call *c)
{
	struct map *m = &maps[c->mm];
	struct sm__extent e;
	int r = start_map(rec, maps, c->mm);

	if (!r && source(c, &e) && !m->complete)
		r = infer(rec, m, c, e);
	if (!r && sm__call_is_placed(c)) {
		sm_addr place = predicted(m, c);
		uint64_t len = page_up(c->call == SM_SYS_MMAP ? c->args[1] : c->args[2]);

		if (place != (sm_addr)c->result &&
		    (!place || (sm_addr)c->result + len > m->occupancy.base ||
		     sm__occupied_any(&m->occupancy, place, place + len, SM__UNKNOWN)))
			c->note |= SM__NOTE_UNKNOWN_PLACE;
	}
	if (!r)
		r = apply(m, c, NULL);
	if (!r && c->new_mm != SM__NONE && rec->mms[c->new_mm].origin == SM__MM_FORK)
		r = copy_map(rec, maps, c);
	return r;
}

static void free_maps(struct sm__recording *rec, struct map *maps)
{
	for (size_t i = 0; i < rec->nmms; i++) {
		sm__occupancy_free(&maps[i].occupancy);
		maps[i] = (struct map){ 0 };
	}
}

/* A second walk, in the order found, over fresh maps. */
static int conclude(struct search *s)
{
	struct sm__recording *rec = s->rec;
	uint64_t latest = 0;
	int r = 0;

	free_maps(rec, s->maps);
	for (size_t i = 0; !r && i < rec->ncalls; i++) {
		struct sm__call *c = &rec->calls[rec->order[i]];

		r = conclude_call(rec, s->maps, c);
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

int sm__recording_order(struct sm__recording *rec)
{
	size_t n = rec->ncalls ? rec->ncalls : 1;
	struct search s = { .rec = rec, .budget = BUDGET };
	int r = -ENOMEM;

	if (sm__inject_fail())
		return -ENOMEM;
	rec->order = calloc(n, sizeof(*rec->order));
	s.by_ret = calloc(n, sizeof(*s.by_ret));
	s.terms = malloc(n);
	s.done = calloc(n, sizeof(*s.done));
	s.steps = calloc(STEPS_MAX, sizeof(*s.steps));
	s.maps = calloc(rec->nmms, sizeof(*s.maps));
	if (!rec->order || !s.by_ret || !s.terms || !s.done || !s.steps || !s.maps)
		goto out;
	memset(s.terms, MUST_BE_PLACED, n);
	for (size_t i = 0; i < rec->ncalls; i++)
		s.by_ret[i] = (uint32_t)i;
	qsort_r(s.by_ret, rec->ncalls, sizeof(*s.by_ret), by_ret_order, rec->calls);
	find_bases(&s);
	r = resolve_faults(&s);
	if (!r)
		r = search_order(&s);
	if (!r)
		r = conclude(&s);
out:
	if (s.maps) {
		free_maps(rec, s.maps);
		free(s.maps);
	}
	free(s.by_ret);
	free(s.terms);
	free(s.done);
	free(s.steps);
	free(s.undo.spans);
	return r;
}
