/* SPDX-License-Identifier: MIT */
/*
 * model.h - the map of a recorded space so far, as the calls before show it. Small on purpose, and no space
 * of the library: it takes steps back, and does not share its code with what it judges.
 */
#ifndef SM_TRACE_MODEL_H
#define SM_TRACE_MODEL_H

#include "trace/extents.h"
#include "trace/occupancy.h"

struct sm__model {
	struct sm__occupancy occupancy;
	sm_addr brk;
	bool started, complete; /* complete: a maps block said what was there */
};

/* What a call must agree with to be taken. */
enum sm__terms { SM__NO_TERMS, SM__MUST_FIT, SM__MUST_BE_PLACED };

/* The address that Linux's search gives an mmap or mremap, 0: none. */
sm_addr sm__model_place(const struct sm__model *m, const struct sm__call *c);
bool sm__model_fits(const struct sm__model *m, const struct sm__call *c, enum sm__terms terms);
/* What a call that succeeded does to the map. undo may be NULL. 0, -ENOMEM. */
int sm__model_apply(struct sm__model *m, const struct sm__call *c, struct sm__undo *undo);

/* By mm: the map with which the space begins, if it has not begun. 0, -ENOMEM. */
int sm__model_start(struct sm__recording *rec, struct sm__model *models, uint32_t index);
/* The child's map is a copy of its parent's. 0, -ENOMEM. */
int sm__model_fork(struct sm__recording *rec, struct sm__model *models,
		   const struct sm__call *fork);
/* Every space is as if it had not begun. */
void sm__models_clear(struct sm__recording *rec, struct sm__model *models);

#endif
