/* SPDX-License-Identifier: MIT */
/*
 * backend.h - what stands behind the map: nothing ("none"), or page tables and frames ("soft").
 *
 * Every change that touches pages is a step in two phases:
 *
 *      plan      may fail, allocate, call the system; nothing that anybody can see has changed
 *      commit    cannot fail; called after the map has changed; what must be flushed and freed
 *                goes into the gather
 *      abort     undoes plan; nothing has changed
 *
 * I1 No shared field of the space changes before plan has succeeded for every step of an operation.
 * I2 Between plan and commit/abort of a step the operation holds mmap_lock (for write; after a
 *    downgrade for read) and the VMAs concerned are write-locked or detached, so that no fault can
 *    reach the range.
 * I3 gather_finish comes before the operation returns and before any frame of the gather is freed;
 *    it waits for running TLBs and is called with mmap_lock held (read or write), never with a VMA
 *    read lock or in an RCU section.
 * I4 A backend never takes mmap_lock or a VMA lock, never calls the embedder from plan, commit,
 *    abort, fault or fork (see SM__FAULT_WAIT). Except kick, which is like a signal: it may come from
 *    wherever a shoot-down waits, and calls nothing back.
 */
#ifndef SM_SPACE_BACKEND_H
#define SM_SPACE_BACKEND_H

#include "base/base.h"
#include "samara/space.h"
#include "space/vma.h"

enum sm__step_kind {
	/*
	 * [start, end) of vma goes away; at commit vma is detached, its fields intact, or has let go of the
	 * range, one end of it
	 */
	SM__STEP_UNMAP,
	SM__STEP_PROTECT, /* [start, end) takes new_flags; vma->flags are the old ones at plan */
	SM__STEP_MOVE,	  /* pages of [start, end) of vma move to new_start in to */
	SM__STEP_SPLIT, /* vma is about to end at start and a new one to begin there (huge pages) */
};

struct sm__step {
	enum sm__step_kind kind;
	struct sm_space *space;
	struct sm__vma *vma;
	sm_addr start, end;
	uint64_t old_flags, new_flags; /* PROTECT */
	struct sm__vma *to;	       /* MOVE, at commit: the area that receives */
	sm_addr new_start;	       /* MOVE */
	void *priv[4];		       /* of the backend, from plan to commit or abort */
};

/* TLB work and frames of one operation; lives on the stack of the operation. */
struct sm__gather {
	struct sm_space *space;
	bool active;	      /* begin has run, finish has not */
	uint64_t opaque[256]; /* of the backend; not initialised before gather_begin */
};

enum sm__fault_outcome {
	SM__FAULT_DONE,
	SM__FAULT_NOMEM,     /* no frame, no table */
	SM__FAULT_BUS,	     /* SIGBUS, BUS_ADRERR at addr */
	SM__FAULT_SEGV,	     /* SIGSEGV, SEGV_MAPERR at addr (guard page) */
	SM__FAULT_POISON,    /* SIGBUS, BUS_MCEERR_AR at addr */
	SM__FAULT_DEVICE,    /* the embedder performs the access */
	SM__FAULT_NEED_MMAP, /* must be done under mmap_lock: never returned when under_vma is false */
	SM__FAULT_WAIT,	     /* release all locks, call wait(f), start the fault anew */
};

/* One fault on its way down. The lock (VMA or mmap_lock for read) is the caller's: never released below. */
struct sm__fault {
	struct sm_space *space;
	struct sm__vma *vma; /* stable until fault() returns */
	sm_addr addr;	     /* as given */
	enum sm_access access;
	bool under_vma; /* VMA lock held, mmap_lock not */
	unsigned tries; /* how often it has started anew */
	bool major;	/* set by the backend */
	/*
	 * sm_tlb_fill: tlb runs on this thread, and goes on running as long as nothing is waited
	 * for; seen is the entry as its walk found it, first time only. host: set when the backend
	 * has put the page into tlb.
	 */
	struct sm_tlb *tlb;
	uint64_t seen;
	void *host;
	int (*wait)(struct sm__fault *f); /* set with SM__FAULT_WAIT: 0, or -ENOMEM or -EIO */
	void *priv[6];
};

/*
 * sm_fault without leaving the guest: space, addr, access and tlb (with seen, or NULL) are filled in.
 * f->host says afterwards whether the TLB has the page.
 */
void sm__fault_perform(struct sm__fault *f, struct sm_fault_result *r);

struct sm__advise; /* advice.h */

struct sm__backend {
	const char *name;
	/* Makes and destroys space->backend_state. */
	int (*attach)(struct sm_space *space);
	/* The VMAs are gone: waits for who came through a file and still looks for one. No lock held. */
	void (*leave)(struct sm_space *space);
	void (*detach)(struct sm_space *space);

	int (*plan)(struct sm__step *step); /* 0 or -ENOMEM */
	void (*commit)(struct sm__step *step, struct sm__gather *g);
	void (*abort)(struct sm__step *step);

	void (*gather_begin)(struct sm__gather *g, struct sm_space *space);
	void (*gather_finish)(struct sm__gather *g);

	enum sm__fault_outcome (*fault)(struct sm__fault *f);
	/* A guard marker stands there: fault() will refuse, whatever the area lacks. Cheap, no lock. */
	bool (*marked)(const struct sm__fault *f);
	/* Advice that works on pages, on a range of one VMA; mmap_lock or the VMA lock is held. */
	int (*advise)(struct sm__advise *a);
	/*
	 * VMAs with a file. adopt: to, attached, gets a part of the range of from, which is in the tree or
	 * was until now. leave_map: v is detached; its range was adopted, or its pages are about to go.
	 * mmap_lock is held for write. forget: they are gone; no lock held.
	 */
	void (*adopt)(struct sm__vma *to, const struct sm__vma *from);
	void (*leave_map)(struct sm__vma *v);
	void (*forget)(struct sm__vma *v);
	/* Copies the pages of one VMA; parent write-locked. g is the parent's gather (COW takes W away). */
	int (*fork)(struct sm__vma *child, struct sm__vma *parent, struct sm__gather *g);
};

/* Any member may be NULL where there is nothing to do; plan and commit are both set or both NULL. */
extern const struct sm__backend sm__backend_none;
extern const struct sm__backend sm__backend_soft;

/* NULL: not built in. */
const struct sm__backend *sm__backend_of(enum sm_backend b);

#endif
