/* SPDX-License-Identifier: MIT */
/*
 * advice.h - inside of madvise: the table, one call on its way, and the page half that a backend does.
 *
 *      sm_madvise           check -> lock -> do -> unlock
 *      sm_process_madvise   lock -> { check -> do } for each range -> unlock       (by design: stages)
 *
 * I1 What an advice is, is in one row of the table (advice_table.c): lock, refusals, seal rule, TLB work.
 * I2 The lock mode only ever goes from VMA to READ, and stays there for the rest of the call.
 * I3 Ranges before a failing one are done; so are the mapped parts of a range with a hole, which
 *    answers ENOMEM, unless a VMA refuses: then that errno counts and nothing after it is reached.
 * I4 Frames that an advice frees are freed after the flush that covers them (memory/gather.h I1).
 */
#ifndef SM_SPACE_ADVICE_H
#define SM_SPACE_ADVICE_H

#include "space/space.h"

/* ---- the table ---- */

enum sm__advice_lock {
	SM__ADVICE_NO_LOCK, /* page by page, through faults */
	SM__ADVICE_VMA,	    /* VMA read lock where the range lies in one VMA, else READ */
	SM__ADVICE_READ,
	SM__ADVICE_WRITE,
};

enum sm__advice_traits {
	SM__ADVICE_GATHERS = 1, /* its TLB work may wait for the end of the call */
	SM__ADVICE_REMOTE = 2,	/* may be given for another space */
	SM__ADVICE_DISCARDS =
		4,	      /* refused on sealed anonymous memory that the caller cannot write */
	SM__ADVICE_TELLS = 8, /* contents change: the notifier is told */
	SM__ADVICE_BY_PAGE = 16, /* not walked by VMA (populate, poison) */
};

struct sm__madvise;

struct sm__advice_row {
	const char *name;
	uint8_t lock;	/* enum sm__advice_lock */
	uint8_t traits; /* enum sm__advice_traits */
	int8_t advice;
	uint64_t refuses;    /* a VMA with any of these flags: EINVAL */
	uint64_t set, clear; /* flags, where the advice is about flags */
	/* What flags cannot say: 0 or the errno. NULL: nothing. */
	int (*check)(const struct sm__vma *v);
	/* Does [start, end) of v; 0 or a negative errno. NULL: sets and clears flags. */
	int (*apply)(struct sm__madvise *m, struct sm__vma *v, sm_addr start, sm_addr end);
};

/* NULL: no such advice. */
const struct sm__advice_row *sm__advice_row(int advice);

/* ---- the page half (backend.advise) ---- */

enum sm__page_advice {
	SM__PAGES_DISCARD,  /* DONTNEED: nothing is there any more, markers stay */
	SM__PAGES_LAZYFREE, /* FREE */
	SM__PAGES_AGE,	    /* COLD */
	SM__PAGES_OUT,	    /* PAGEOUT; count: pages taken */
	SM__PAGES_RECLAIM,  /* of these only what was not used lately; count likewise */
	SM__PAGES_WANT,	    /* WILLNEED on private memory: swapped pages come back */
	SM__PAGES_READ, /* WILLNEED on an object: its pages come into the page cache; no lock held */
	SM__PAGES_KNOW, /* pages of the file that came by other descriptors are its own too; no lock */
	SM__PAGES_GUARD,
	SM__PAGES_UNGUARD,
	SM__PAGES_COLLAPSE, /* one block of 2 MiB */
	SM__PAGES_UNMERGE,  /* every page its own again */
	SM__PAGES_POISON,   /* one page; no lock held */
	SM__PAGES_OFFLINE,  /* likewise */
	SM__PAGES_PRESENT,  /* vec[i]: the page is in memory */
};

struct sm__advise {
	enum sm__page_advice what;
	struct sm_space *space;
	struct sm__vma
		*vma;	    /* locked, at least for reading; not with READ, KNOW, POISON, OFFLINE */
	sm_addr start, end; /* inside vma */
	struct sm__gather *gather; /* DISCARD, LAZYFREE, AGE, OUT, RECLAIM, GUARD */
	unsigned char *vec;	   /* PRESENT */
	struct sm_file *file;	   /* READ, KNOW */
	uint64_t first, last;	   /* READ: pages of the file */
	uint64_t count;		   /* out */
};

/* ---- one call on its way ---- */

struct sm__madvise {
	const struct sm__advice_row *row;
	struct sm_space *s;
	sm_addr start, end; /* the range that is being done */
	uint8_t lock;	    /* enum sm__advice_lock, as it is now */
	bool remote;
	bool flush_once;	/* one flush for the whole call */
	struct sm__vma *vma;	/* the VMA that is read-locked (lock VMA), or last seen (READ) */
	struct sm__vma *prev;	/* WRITE: what ends where the rest of the range begins */
	struct sm__name *name;	/* for sm_set_anon_name */
	struct sm__advise work; /* what the backend is asked; space is set once */
	struct sm__op op;	/* last: its gather is large and not initialised */
};

void sm__madvise_init(struct sm__madvise *m, struct sm_space *s, const struct sm__advice_row *row);
/* 0, or -EINTR (nothing is held then). */
int sm__madvise_lock(struct sm__madvise *m);
/* 1: m->start and m->end are set; 0: nothing to do; -EINVAL. No lock needed. */
int sm__madvise_check(struct sm__madvise *m, sm_addr addr, uint64_t length);
int sm__madvise_do(struct sm__madvise *m);
void sm__madvise_unlock(struct sm__madvise *m);
/* Gives a range of v other flags or another name. -EAGAIN where that needed memory or a split. */
int sm__madvise_change(struct sm__madvise *m, struct sm__vma *v, const sm_addr range[2],
		       uint64_t flags, struct sm__name *name);

/* Lets the lock go and takes it again; -EINTR: it is not held. */
void sm__madvise_let_go(struct sm__madvise *m);
int sm__madvise_lock_again(struct sm__madvise *m);

/* ---- flags of a range: advice_flags.c, used by mlock and mseal too ---- */

struct sm__change {
	struct sm__op *op;    /* mmap_lock held for write */
	struct sm__vma *vma;  /* in: the VMA; out: the one that covers the range now */
	struct sm__vma *prev; /* ends at or before start; NULL */
	sm_addr start, end;
	uint64_t flags;
	struct sm__name *name;
};
/* 0, -ENOMEM, -EINTR. A VMA that has the flags already is not touched. */
int sm__change(struct sm__change *c);

/* ---- pages of a range through faults: advice_populate.c ---- */

enum sm__populate_kind {
	SM__POPULATE_READ,   /* MADV_POPULATE_READ */
	SM__POPULATE_WRITE,  /* MADV_POPULATE_WRITE */
	SM__POPULATE_LOCK,   /* mlock: each area as it allows; ends at the first failure */
	SM__POPULATE_TRY,    /* mlockall, MAP_POPULATE: what can be had */
	SM__POPULATE_LOCKED, /* mprotect: the same, in locked areas only */
};
/* 0, -EINVAL, -ENOMEM, -EFAULT, -EHWPOISON, -EINTR. Context: no lock held. */
int sm__populate_range(struct sm_space *s, sm_addr start, sm_addr end, enum sm__populate_kind kind);

#endif
