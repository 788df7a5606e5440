/* SPDX-License-Identifier: MIT */
/*
 * ksm.c - equal pages of MADV_MERGEABLE areas become one.
 *
 *      scan    a table's worth of pages at a time, under the space's lock: hash of each
 *      pair    hash known from a page of this pass, or a merged page: compare, share
 *
 *      first page with the hash    { hash, space, address }
 *      second                      the first is write-protected: { hash, frame }, and shared
 *      third ...                   shared
 *
 * I1 One pass at a time per host: a second one would find what the first does. Every space with mergeable
 *    pages stays visited until the pass is over, so that the first page of a pair can still be found.
 * I2 At most one space is locked at a time.
 * I3 The pass holds a reference of each frame in its table. Equal means compared byte by byte, with
 *    both pages write-protected; the hash only finds candidates.
 */
#include "base/inject.h"
#include "base/thread.h"
#include "space/advice.h"
#include "space/soft.h"
#include "space/spaces.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 512 };

struct candidate {
	uint64_t hash; /* 0: empty */
	struct sm_space *space;
	sm_addr addr;
	uint32_t pfn; /* not 0: shared, and referenced by the pass */
};

struct pass {
	struct sm__pool *pool;
	struct candidate *table;
	size_t size, used; /* size: a power of two */
	uint64_t merged;
	bool full; /* no memory for the table: what is in it goes on being used */
};

struct seen {
	sm_addr addr;
	uint64_t hash;
	uint32_t pfn; /* merged in an earlier pass: its frame, referenced */
};

static uint64_t hash_page(const void *page, size_t size)
{
	const uint64_t *w = page;
	uint64_t h[4] = { 1, 2, 3, 4 }, sum = 0;

	for (size_t i = 0; i < size / sizeof(*w); i += 4)
		for (size_t k = 0; k < 4; k++)
			/* relaxed: a guest may be writing it */
			h[k] = (h[k] ^ __atomic_load_n(&w[i + k], __ATOMIC_RELAXED)) *
			       0x9e3779b97f4a7c15ull;
	for (size_t k = 0; k < 4; k++)
		sum = (sum ^ h[k] ^ h[k] >> 29) * 0xbf58476d1ce4e5b9ull;
	return sum ? sum : 1;
}

/* ---- the table ---- */

static struct candidate *slot_of(struct candidate *table, size_t size, uint64_t hash)
{
	size_t i = hash & (size - 1);

	while (table[i].hash && table[i].hash != hash)
		i = (i + 1) & (size - 1);
	return &table[i];
}

static void grow(struct pass *p)
{
	size_t size = p->size ? p->size * 2 : 1024;
	struct candidate *table = sm__inject_fail() ? NULL : calloc(size, sizeof(*table));

	if (!table) {
		p->full = true;
		return;
	}
	for (size_t i = 0; i < p->size; i++)
		if (p->table[i].hash)
			*slot_of(table, size, p->table[i].hash) = p->table[i];
	free(p->table);
	p->table = table;
	p->size = size;
}

/* The entry of a hash, new ones empty but for it; NULL: no room. */
static struct candidate *lookup(struct pass *p, uint64_t hash, bool *found)
{
	struct candidate *c;

	if (p->used * 2 >= p->size && !p->full)
		grow(p);
	*found = false;
	if (!p->size)
		return NULL;
	c = slot_of(p->table, p->size, hash);
	*found = c->hash != 0;
	if (*found)
		return c;
	if (p->used + 1 >= p->size)
		return NULL;
	p->used++;
	c->hash = hash;
	return c;
}

static void drop_table(struct pass *p)
{
	for (size_t i = 0; i < p->size; i++)
		if (p->table[i].pfn)
			sm__frame_put(p->pool, p->table[i].pfn);
	free(p->table);
}

/* ---- one page, its space locked ---- */

static bool is_mergeable(const struct sm__vma *v)
{
	return v && (v->flags & SM_VM_MERGEABLE) && sm__flags_private(v->flags);
}

/* Calls sm__mm_merge_stable or sm__mm_merge under the lock of the space, if addr is still mergeable. */
static bool with_page(struct sm_space *s, sm_addr addr, uint32_t *pfn)
{
	struct sm__mm *mm = s->backend_state;
	struct sm__op op;
	bool done = false;

	sm__op_init(&op, s, SM_CALL_MADVISE);
	if (sm__op_lock(&op, SM__READ, addr, addr + s->page_size))
		return false;
	if (is_mergeable(sm__find(s, addr))) {
		if (*pfn) {
			done = sm__mm_merge(mm, addr, *pfn, sm__soft_gather(sm__op_gather(&op)));
		} else {
			*pfn = sm__mm_merge_stable(mm, addr);
			done = *pfn;
		}
	}
	sm__op_unlock(&op);
	return done;
}

/* The page is the first with its hash, or takes the place of one that is not there any more. */
static void enter(struct candidate *c, struct sm_space *s, struct seen *seen)
{
	c->space = s;
	c->addr = seen->addr;
	c->pfn = seen->pfn; /* its reference goes with it */
	seen->pfn = 0;
}

static void pair(struct pass *p, struct sm_space *s, struct seen *seen)
{
	bool found;
	struct candidate *c = lookup(p, seen->hash, &found);

	if (!c)
		return;
	if (!found) {
		enter(c, s, seen);
		return;
	}
	if (!c->pfn && seen->pfn) {
		/* merged in an earlier pass: the first page joins it */
		struct candidate first = *c;

		enter(c, s, seen);
		p->merged += with_page(first.space, first.addr, &c->pfn);
		return;
	}
	if (c->pfn == seen->pfn && c->pfn)
		return;
	if (!c->pfn) {
		uint32_t pfn = 0;

		if (!with_page(c->space, c->addr, &pfn)) {
			enter(c, s, seen);
			return;
		}
		c->pfn = pfn;
	}
	if (with_page(s, seen->addr, &c->pfn))
		p->merged++;
}

/* ---- scanning ---- */

static bool see(struct sm__mm *mm, sm_addr addr, struct seen *seen)
{
	struct sm__slot slot;
	sm__pte e;
	bool is_own;

	if (sm__pt_lock(mm, addr, false, &slot))
		return false;
	e = atomic_load_explicit(slot.entry, memory_order_relaxed);
	is_own = !slot.level && sm__pte_present(e) && (e & SM__PTE_ANON) && !(e & SM__PTE_SPECIAL);
	if (is_own) {
		struct sm__frame *f = sm__frame(mm->pool, sm__pte_pfn(e));

		seen->addr = addr;
		/* a TLB may write meanwhile: then the hash finds nothing, or the comparison says no */
		seen->hash =
			hash_page(sm__frame_ptr(mm->pool, sm__pte_pfn(e)), sm__page_size(mm->pool));
		seen->pfn = sm__frame_flags(f) & SM__F_MERGED ? sm__pte_pfn(e) : 0;
		/* the entry's own reference stands while its table is locked */
		if (seen->pfn)
			sm__frame_get(f);
	}
	sm__pt_unlock(&slot);
	return is_own;
}

/* Sees up to CHUNK pages from *at on; moves *at; returns how many. */
static unsigned scan(struct sm_space *s, sm_addr *at, struct seen *seen)
{
	struct sm__tree_cursor c;
	unsigned n = 0, looked = 0;
	struct sm__op op;

	sm__op_init(&op, s, SM_CALL_MADVISE);
	if (sm__op_lock(&op, SM__READ, *at, s->o.range_end)) {
		*at = s->o.range_end;
		return 0;
	}
	c = sm__cursor(&s->tree);
	for (struct sm__vma *v = sm__seek(&c, *at); looked < CHUNK; v = sm__next(&c)) {
		if (!v) {
			*at = s->o.range_end;
			break;
		}
		if (v->start > *at)
			*at = v->start;
		if (!is_mergeable(v)) {
			*at = v->end;
			continue;
		}
		for (; *at < v->end && looked < CHUNK; *at += s->page_size, looked++)
			n += see(s->backend_state, *at, &seen[n]);
	}
	sm__op_unlock(&op);
	return n;
}

/* True: the space has mergeable pages, and stays visited. */
static bool one_space(struct pass *p, struct sm_space *s)
{
	struct sm__mm *mm = sm__space_mm(s);
	struct seen seen[CHUNK];
	bool any = false;
	sm_addr at = 0;

	if (!mm)
		return false;
	p->pool = mm->pool;
	while (at < s->o.range_end) {
		unsigned n = scan(s, &at, seen);

		for (unsigned i = 0; i < n; i++) {
			pair(p, s, &seen[i]);
			if (seen[i].pfn)
				sm__frame_put(p->pool, seen[i].pfn);
		}
		any = any || n;
	}
	return any;
}

/* Room for one more space that stays visited; without memory the space is passed over. */
static bool make_room(struct sm_space ***kept, size_t n)
{
	struct sm_space **more;

	if (n & (n - 1)) /* doubled at powers of two */
		return true;
	more = sm__inject_fail() ? NULL : realloc(*kept, (n ? 2 * n : 1) * sizeof(**kept));
	if (more)
		*kept = more;
	return more;
}

uint64_t sm_merge_pass(struct sm_host *host)
{
	struct pass p = { .pool = NULL };
	struct sm_space *s = NULL, **kept = NULL;
	size_t n = 0;
	bool keep = false;

	sm__thread_enter();
	/* acquire: pairs with the release of the pass before */
	if (atomic_exchange_explicit(&host->merging, true, memory_order_acquire))
		return 0;
	while ((s = sm__spaces_next(host, s, keep))) {
		keep = make_room(&kept, n) && one_space(&p, s);
		if (keep)
			kept[n++] = s;
	}
	while (n)
		sm__spaces_leave(kept[--n]);
	free(kept);
	drop_table(&p);
	atomic_store_explicit(&host->merging, false, memory_order_release);
	return p.merged;
}
