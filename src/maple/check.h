/* SPDX-License-Identifier: MIT */
/* check.h - validators that are cheap enough to run after every change when debugging. */
#ifndef SM_MAPLE_CHECK_H
#define SM_MAPLE_CHECK_H

#include "maple/write.h"

/*
 * The nodes on the path of a writer's cursor: NULL, or a text. Cost: one leaf and the nodes above.
 */
const char *sm__path_validate(const struct sm_cursor *c);

#endif
