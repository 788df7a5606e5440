/* SPDX-License-Identifier: MIT */
/* lookup.h - steps of an iteration over what readers are shown (lookup.c), for maps.c too. */
#ifndef SM_SPACE_LOOKUP_H
#define SM_SPACE_LOOKUP_H

#include "space/vma.h"

/* use runs inside an RCU section or under mmap_lock: it must not block or call the library. */
struct sm__step_over {
	void (*use)(struct sm__step_over *step, const struct sm__shown *shown);
};

/* The first VMA that ends above addr. 1, or 0 when there is none. */
int sm__next_shown(struct sm_space *s, sm_addr addr, struct sm__step_over *step);

#endif
