/* SPDX-License-Identifier: MIT */
/*
 * cursor.c - the cursor: walks, steps, and its states.
 *
 *	            set, reset                      next finds nothing <= max
 *	  +-----------------------> START      +------------------------------> OVERFLOW
 *	  |                           | walk   |   <------------------------------+
 *	any                           v        |        next (larger max), prev
 *	  |   pause                 ACTIVE ----+
 *	  +-----------> PAUSE ------> ^  |     |   prev finds nothing >= min
 *	                  next, prev  |  |     +------------------------------> UNDERFLOW
 *	                              |  v empty tree
 *	                             NONE
 *
 * I1 In the states ACTIVE, OVERFLOW and UNDERFLOW the path leads to the leaf of [index, last], and
 *    slot[0] is the entry [index, last], or, with in_gap, the entry behind the gap [index, last].
 * I2 index <= last always.
 *
 * Guarantees to readers inside a read section:
 * G1 What a step returns was in the tree at some instant of the step: a value read from a leaf that
 *    is alive after the read (C3 of node.h), or reached by a walk.
 * G2 A step upwards returns a range that ends after the last one did, a step downwards one that
 *    begins before: an iteration ends, whatever writers do.
 * G3 A gap at the edge of a leaf takes its bound from pivots above; it is reported when all nodes
 *    of the path are alive after the leaf was read, and looked up again if not.
 */
#include <errno.h>
#include "maple/write.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* Takes the path to `key`; a writer's cursor remembers of which version. */
static struct sm__leaf *seek(struct sm_cursor *c, uint64_t key)
{
	if (c->writer)
		c->version = c->tree->version;
	return sm__path_walk(c->tree, &c->path, key);
}

static void *enter_none(struct sm_cursor *c)
{
	c->index = 0;
	c->last = SM__KEY_MAX;
	c->state = SM_CURSOR_NONE;
	return NULL;
}

/* The entry at slot[0] becomes the range. */
static ALWAYS_INLINE void enter_entry(struct sm_cursor *c, const struct sm__leaf *l, unsigned int i)
{
	c->path.slot[0] = (uint8_t)i;
	c->in_gap = 0;
	c->index = l->entry[i].first;
	c->last = l->last[i];
}

static ALWAYS_INLINE void enter_gap(struct sm_cursor *c, unsigned int i, uint64_t first,
				    uint64_t last)
{
	c->path.slot[0] = (uint8_t)i;
	c->in_gap = 1;
	c->index = first;
	c->last = last;
}

/* Entry i, or NULL if the leaf has none there. */
static ALWAYS_INLINE void *entry_at(const struct sm__leaf *l, unsigned int i)
{
	return i < LEAF_SLOTS ? sm__leaf_value(l, i) : NULL;
}

/*
 * To the range that contains key; its value or NULL. The state is ACTIVE, or NONE in an empty tree.
 */
static void *walk_to(struct sm_cursor *c, uint64_t key)
{
	const struct sm__leaf *l;
	unsigned int i;
	uint64_t first, last;
	void *value;

	do {
		l = seek(c, key);
		if (!l)
			return enter_none(c);
		i = c->path.slot[0];
		value = entry_at(l, i);
		c->state = SM_CURSOR_ACTIVE;
		if (value && l->entry[i].first <= key) {
			enter_entry(c, l, i);
			return value;
		}
		first = i ? l->last[i - 1] + 1 : sm__path_min(&c->path, 0);
		last = value ? l->entry[i].first - 1 : SM__KEY_MAX;
		/* Both bounds from the leaf: they belong together. Else the path has a say (G3). */
	} while ((!i || !value) && (sm__leaf_dead(l) || sm__path_stale(&c->path)));
	enter_gap(c, i, first, last);
	return NULL;
}

/* May the path be used for a step from here? */
static ALWAYS_INLINE bool usable(const struct sm_cursor *c, const struct sm__leaf *l)
{
	if (c->writer)
		return c->version == c->tree->version;
	return !sm__leaf_dead(l);
}

/* -------------------------------------------------------------------------------- next ---- */

enum step {
	STEP_ENTRY, /* on an entry */
	STEP_GAP,   /* on a gap */
	STEP_STALE, /* the path is old: walk */
};

/*
 * One step up, from a range that ends below max: to the next range, or, without `ranges`, over a
 * gap that ends below max to the entry behind it.
 */
static ALWAYS_INLINE enum step step_up(struct sm_cursor *c, uint64_t max, bool ranges, void **value)
{
	const struct sm__leaf *l = sm__path_leaf(&c->path);
	unsigned int i = c->path.slot[0] + !c->in_gap;
	uint64_t from = c->last + 1, first;
	bool crossed = false;
	void *v = entry_at(l, i);

	if (sm__unlikely(!usable(c, l)))
		return STEP_STALE;
	if (sm__unlikely(!v)) {
		enum sm__path_step moved = sm__path_right(&c->path, 0);

		if (moved == SM__PATH_END) {
			enter_gap(c, i, from, SM__KEY_MAX);
			return STEP_GAP;
		}
		/* Not simply entry 0: the leaf may be newer than the bound we came over (G2). */
		l = sm__path_leaf(&c->path);
		i = moved == SM__PATH_MOVED && l->last[0] < from ? sm__leaf_find(l, from) : 0;
		v = entry_at(l, i);
		if (sm__unlikely(moved == SM__PATH_STALE || !v))
			return STEP_STALE;
		crossed = true;
	}
	*value = v;
	first = l->entry[i].first;
	if (first > from && (ranges || first > max)) {
		if (crossed && !c->writer && sm__path_stale(&c->path))
			return STEP_STALE;
		enter_gap(c, i, from, first - 1);
		return STEP_GAP;
	}
	enter_entry(c, l, i);
	return STEP_ENTRY;
}

/* From ACTIVE: the next value that begins at or below max, or with `ranges` the next range. */
static ALWAYS_INLINE void *go_up(struct sm_cursor *c, uint64_t max, bool ranges)
{
	enum step step;
	void *value = NULL;

	for (;;) {
		if (c->last >= max) {
			c->state = SM_CURSOR_OVERFLOW;
			return NULL;
		}
		step = step_up(c, max, ranges, &value);
		if (sm__unlikely(step == STEP_STALE)) {
			value = walk_to(c, c->last + 1);
			if (c->state == SM_CURSOR_NONE)
				return NULL;
			step = value ? STEP_ENTRY : STEP_GAP;
		}
		if (step == STEP_ENTRY)
			return value;
		if (ranges)
			return NULL;
	}
}

/* Brings a cursor of any state to ACTIVE for a step up. True: *value is the answer already. */
static bool setup_up(struct sm_cursor *c, void **value)
{
	*value = NULL;
	switch ((enum sm_cursor_state)c->state) {
	case SM_CURSOR_ACTIVE:
		return false;
	case SM_CURSOR_OVERFLOW:
		c->state = SM_CURSOR_ACTIVE;
		return false;
	case SM_CURSOR_UNDERFLOW:
		*value = walk_to(c, c->index);
		return *value || c->state == SM_CURSOR_NONE;
	case SM_CURSOR_ERROR:
		return true;
	case SM_CURSOR_PAUSE:
		walk_to(c, c->last);
		return c->state == SM_CURSOR_NONE;
	default:
		walk_to(c, c->index);
		return c->state == SM_CURSOR_NONE;
	}
}

/* What next, or find, does when the way is not the short one below. */
static __attribute__((noinline)) void *next_slow(struct sm_cursor *c, uint64_t max)
{
	void *value;

	if (sm__unlikely(c->state != SM_CURSOR_ACTIVE) && setup_up(c, &value))
		return value;
	return go_up(c, max, false);
}

/* The short way: from an entry to the next one of the same leaf. NULL: take the long one. */
static ALWAYS_INLINE void *next_in_leaf(struct sm_cursor *c, uint64_t max)
{
	const struct sm__leaf *l = sm__path_leaf(&c->path);
	unsigned int i = c->path.slot[0] + 1u;
	void *value;

	if (sm__unlikely(c->state != SM_CURSOR_ACTIVE || c->in_gap || i >= LEAF_SLOTS))
		return NULL;
	value = sm__leaf_value(l, i);
	if (sm__unlikely(!value || !usable(c, l) || l->entry[i].first > max))
		return NULL;
	/*
	 * Not enter_entry(): in_gap is 0, and a store of it would stall the next load of all flags.
	 */
	c->path.slot[0] = (uint8_t)i;
	c->index = l->entry[i].first;
	c->last = l->last[i];
	return value;
}

void *sm_cursor_next(struct sm_cursor *c, uint64_t max)
{
	void *value = next_in_leaf(c, max);

	return sm__likely(value) ? value : next_slow(c, max);
}

void *sm_cursor_next_range(struct sm_cursor *c, uint64_t max)
{
	void *value;

	if (sm__unlikely(c->state != SM_CURSOR_ACTIVE) && setup_up(c, &value))
		return value;
	return go_up(c, max, true);
}

/* -------------------------------------------------------------------------------- prev ---- */

/* The mirror of step_up, from a range that begins above min. */
static ALWAYS_INLINE enum step step_down(struct sm_cursor *c, uint64_t min, bool ranges,
					 void **value)
{
	const struct sm__leaf *l = sm__path_leaf(&c->path);
	unsigned int i = c->path.slot[0];
	uint64_t to = c->index - 1, first;

	if (sm__likely(i > 0)) {
		i--;
	} else {
		if (sm__unlikely(!usable(c, l)))
			return STEP_STALE;
		first = sm__path_min(&c->path, 0);
		if (!c->in_gap && first <= to && (ranges || first <= min)) {
			if (!c->writer && sm__path_stale(&c->path))
				return STEP_STALE;
			enter_gap(c, 0, first, to);
			return STEP_GAP;
		}
		if (sm__path_left(&c->path, 0) != SM__PATH_MOVED)
			return STEP_STALE;
		/* It ends in front of our leaf; if it does not, it is newer than the bound (G2). */
		l = sm__path_leaf(&c->path);
		first = first <= to ? first - 1 : to;
		i = sm__leaf_find(l, first);
		if (sm__unlikely(!entry_at(l, i) || l->entry[i].first > first))
			return STEP_STALE;
	}
	*value = sm__leaf_value(l, i);
	if (sm__unlikely(!usable(c, l)))
		return STEP_STALE;
	if (l->last[i] < to && (ranges || l->last[i] < min)) {
		enter_gap(c, i + 1, l->last[i] + 1, to);
		return STEP_GAP;
	}
	enter_entry(c, l, i);
	return STEP_ENTRY;
}

static ALWAYS_INLINE void *go_down(struct sm_cursor *c, uint64_t min, bool ranges)
{
	enum step step;
	void *value = NULL;

	for (;;) {
		if (c->index <= min) {
			c->state = SM_CURSOR_UNDERFLOW;
			return NULL;
		}
		step = step_down(c, min, ranges, &value);
		if (sm__unlikely(step == STEP_STALE)) {
			value = walk_to(c, c->index - 1);
			if (c->state == SM_CURSOR_NONE)
				return NULL;
			step = value ? STEP_ENTRY : STEP_GAP;
		}
		if (step == STEP_ENTRY)
			return value;
		if (ranges)
			return NULL;
	}
}

static bool setup_down(struct sm_cursor *c, void **value)
{
	*value = NULL;
	switch ((enum sm_cursor_state)c->state) {
	case SM_CURSOR_ACTIVE:
		return false;
	case SM_CURSOR_UNDERFLOW:
		c->state = SM_CURSOR_ACTIVE;
		return false;
	case SM_CURSOR_OVERFLOW:
		*value = walk_to(c, c->index);
		return *value || c->state == SM_CURSOR_NONE;
	case SM_CURSOR_ERROR:
		return true;
	default:
		walk_to(c, c->index);
		return c->state == SM_CURSOR_NONE;
	}
}

void *sm_cursor_prev(struct sm_cursor *c, uint64_t min)
{
	void *value;

	if (sm__unlikely(c->state != SM_CURSOR_ACTIVE) && setup_down(c, &value))
		return value;
	return go_down(c, min, false);
}

void *sm_cursor_prev_range(struct sm_cursor *c, uint64_t min)
{
	void *value;

	if (sm__unlikely(c->state != SM_CURSOR_ACTIVE) && setup_down(c, &value))
		return value;
	return go_down(c, min, true);
}

/* ----------------------------------------------------------------------- walk and find ---- */

void *sm_cursor_walk(struct sm_cursor *c)
{
	if (c->state == SM_CURSOR_ERROR)
		return NULL;
	return walk_to(c, c->index);
}

static void *find_up(struct sm_cursor *c, uint64_t max, bool ranges)
{
	void *value;

	switch ((enum sm_cursor_state)c->state) {
	case SM_CURSOR_ERROR:
		return NULL;
	case SM_CURSOR_ACTIVE:
		break;
	case SM_CURSOR_PAUSE:
	case SM_CURSOR_OVERFLOW:
		if (c->last >= max)
			return NULL;
		c->index = ++c->last;
		goto walk;
	case SM_CURSOR_NONE:
		c->index = c->last;
		goto walk;
	default:
	walk:
		if (c->index > max)
			return NULL;
		value = walk_to(c, c->index);
		if (value || c->state == SM_CURSOR_NONE || ranges)
			return value;
	}
	value = go_up(c, max, ranges);
	if (c->state == SM_CURSOR_OVERFLOW)
		c->state = SM_CURSOR_ACTIVE;
	return value;
}

static void *find_down(struct sm_cursor *c, uint64_t min, bool ranges)
{
	void *value;

	switch ((enum sm_cursor_state)c->state) {
	case SM_CURSOR_ERROR:
		return NULL;
	case SM_CURSOR_ACTIVE:
		break;
	case SM_CURSOR_PAUSE:
	case SM_CURSOR_UNDERFLOW:
		if (c->index <= min)
			return NULL;
		c->last = --c->index;
		goto walk;
	case SM_CURSOR_NONE:
		c->last = c->index;
		goto walk;
	default:
	walk:
		if (c->index < min)
			return NULL;
		value = walk_to(c, c->index);
		if (value || c->state == SM_CURSOR_NONE || ranges)
			return value;
	}
	value = go_down(c, min, ranges);
	if (c->state == SM_CURSOR_UNDERFLOW)
		c->state = SM_CURSOR_ACTIVE;
	return value;
}

void *sm_cursor_find(struct sm_cursor *c, uint64_t max)
{
	void *value = next_in_leaf(c, max);

	return sm__likely(value) ? value : find_up(c, max, false);
}

void *sm_cursor_find_range(struct sm_cursor *c, uint64_t max)
{
	return find_up(c, max, true);
}

void *sm_cursor_find_rev(struct sm_cursor *c, uint64_t min)
{
	return find_down(c, min, false);
}

void *sm_cursor_find_range_rev(struct sm_cursor *c, uint64_t min)
{
	return find_down(c, min, true);
}
