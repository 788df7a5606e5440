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
 * I3 After so many vain steps back (BUDGET; half of it the next time, but BUDGET_LEAST) the call that
 *    does not fit is taken on weaker terms (first without asking where Linux would place, then without
 *    asking anything), so the search ends.
 */
#include "trace/order.h"
#include "base/base.h"
#include "base/inject.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 4096, BUDGET = 4000, BUDGET_LEAST = 60 };

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
	struct sm__model *models; /* by mm */
	uint32_t *by_ret;	  /* calls, sorted by ret */
	uint8_t *terms;		  /* by call */
	bool *done;		  /* by call */
	struct step *steps;	  /* that can be taken back */
	size_t nsteps;
	struct sm__undo undo;
	size_t ndone;	     /* calls done; order[0..ndone) */
	size_t furthest;     /* the most that was ever done */
	size_t head;	     /* in by_ret: everything before it is done */
	uint64_t latest_ret; /* of all calls done */
	unsigned backs;	     /* steps back since furthest grew */
	unsigned budget;
};

/* A damaged recording may name any address. */
static bool is_below_top(sm_addr start, uint64_t len)
{
	return start <= SM__TRACE_TOP && len <= SM__TRACE_TOP - start;
}

/* Top of the search and start of the heap, from the first calls that show them. */
static void find_bases(struct search *s)
{
	for (size_t i = 0; i < s->rec->ncalls; i++) {
		const struct sm__call *c = &s->rec->calls[s->by_ret[i]];
		struct sm__mm *mm = &s->rec->mms[c->mm];

		if (!mm->base && c->call == SM_SYS_MMAP && !c->args[0] && sm__call_is_placed(c) &&
		    is_below_top((sm_addr)c->result, c->args[1]))
			mm->base = sm__page_up((sm_addr)c->result + c->args[1]);
		if (!mm->start_brk && c->call == SM_SYS_BRK && c->result &&
		    is_below_top((sm_addr)c->result, 0))
			mm->start_brk = (sm_addr)c->result;
		if (c->new_mm != SM__NONE && s->rec->mms[c->new_mm].origin == SM__MM_FORK) {
			s->rec->mms[c->new_mm].base = mm->base;
			s->rec->mms[c->new_mm].start_brk = mm->start_brk;
		}
	}
}

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
	struct sm__model *m = &s->models[c->mm];
	struct step *step = &s->steps[s->nsteps];
	size_t frames = 0, before;
	int r;

	*step = (struct step){ index, n, s->head, s->latest_ret, 0, m->brk };
	before = s->undo.n;
	r = sm__model_apply(m, c, &s->undo);
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
	struct sm__model *m = &s->models[s->rec->calls[step->call].mm];

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
	const struct sm__model *m = &s->models[head->mm];
	size_t open;

	if (!*n && sm__model_fits(m, head, s->terms[first]))
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
		if (sm__model_fits(m, c, s->terms[index])) {
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
	if (s->terms[stuck] == SM__NO_TERMS && !(c->note & SM__NOTE_UNORDERED)) {
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

		r = sm__model_start(s->rec, s->models, s->rec->calls[head].mm);
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
				r = sm__model_fork(s->rec, s->models, c);
			commit(s);
		}
	}
	return r;
}

int sm__recording_order(struct sm__recording *rec)
{
	size_t n = rec->ncalls ? rec->ncalls : 1;
	struct search s = { .rec = rec, .budget = BUDGET };
	int r = -ENOMEM;

	rec->order = sm__calloc(n, sizeof(*rec->order));
	s.by_ret = sm__calloc(n, sizeof(*s.by_ret));
	s.terms = sm__calloc(n, sizeof(*s.terms));
	s.done = sm__calloc(n, sizeof(*s.done));
	s.steps = sm__calloc(STEPS_MAX, sizeof(*s.steps));
	s.models = sm__calloc(rec->nmms, sizeof(*s.models));
	if (!rec->order || !s.by_ret || !s.terms || !s.done || !s.steps || !s.models)
		goto out;
	memset(s.terms, SM__MUST_BE_PLACED, n);
	for (size_t i = 0; i < rec->ncalls; i++)
		s.by_ret[i] = (uint32_t)i;
	qsort_r(s.by_ret, rec->ncalls, sizeof(*s.by_ret), by_ret_order, rec->calls);
	find_bases(&s);
	r = sm__resolve_faults(rec, s.by_ret);
	if (!r)
		r = search_order(&s);
	if (!r)
		r = sm__conclude(rec, s.models);
out:
	if (s.models) {
		sm__models_clear(rec, s.models);
		free(s.models);
	}
	free(s.by_ret);
	free(s.terms);
	free(s.done);
	free(s.steps);
	free(s.undo.spans);
	return r;
}
