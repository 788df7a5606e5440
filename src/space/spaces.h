/* SPDX-License-Identifier: MIT */
/*
 * spaces.h - the spaces of a host, for work on all of them: reclaim, merging equal pages.
 *
 * I1 A space that is visited is not destroyed: sm_space_destroy takes it off the list and waits for its
 *    visitors first. A visitor holds no lock over a visit, so the two cannot wait for each other.
 */
#ifndef SM_SPACE_SPACES_H
#define SM_SPACE_SPACES_H

#include "space/space.h"

void sm__spaces_enlist(struct sm_space *s);
/* Waits for visitors. Context: sleeps; no lock. */
void sm__spaces_delist(struct sm_space *s);

/*
 * The space after prev (NULL: the first), visited; prev is visited no longer. NULL at the end. keep:
 * prev stays visited, and has to be left with sm__spaces_leave.
 */
struct sm_space *sm__spaces_next(struct sm_host *h, struct sm_space *prev, bool keep);
void sm__spaces_leave(struct sm_space *s);

#endif
