/* SPDX-License-Identifier: MIT */
/* advice.h - one advice on one range of one VMA, and the table that says what each advice is. */
#ifndef SM_SPACE_ADVICE_H
#define SM_SPACE_ADVICE_H

#include "space/space.h"

/* One madvise on its way; the range of the present VMA is [start, end). */
struct sm__advise {
	struct sm__op *op;
	struct sm_space *space;
	int advice;
	struct sm__vma *vma;
	sm_addr start, end;    /* clipped to vma */
	struct sm__name *name; /* of sm_set_anon_name only */
	struct sm__gather *gather;
};

enum sm__advice_kind {
	SM__ADVICE_FLAGS,    /* changes flags of the map */
	SM__ADVICE_PAGES,    /* works on pages under the lock */
	SM__ADVICE_POPULATE, /* brings pages in, without the lock */
	SM__ADVICE_POISON,   /* for testing memory failure; refused */
};

struct sm__advice {
	int advice;
	enum sm__advice_kind kind;
	enum sm__lock_mode lock;
	bool discards; /* refused on sealed memory that the caller may not write */
	bool gathers;  /* one TLB flush may serve many ranges */
	/* 0 or the errno with which it refuses this VMA. NULL: takes all. */
	int (*refuse)(const struct sm__advise *a);
	/* FLAGS: the new flags. */
	uint64_t set, clear;
	/* PAGES: what the map itself must know before the backend works. NULL: nothing. */
	void (*map)(struct sm__advise *a);
};

/* NULL: no such advice. */
const struct sm__advice *sm__advice_of(int advice);

#endif
