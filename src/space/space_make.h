/* SPDX-License-Identifier: MIT */
/* space_make.h - making spaces, for sm_space_create and sm_fork. */
#ifndef SM_SPACE_MAKE_H
#define SM_SPACE_MAKE_H

#include "space/space.h"

/* An empty space with options that have been checked; NULL: no memory. */
struct sm_space *sm__space_new(struct sm_host *host, const struct sm_space_options *o);
/* What a child has from its parent besides VMAs: break and limits as they are now. */
void sm__space_inherit(struct sm_space *child, const struct sm_space *parent);

#endif
