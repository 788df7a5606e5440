/* SPDX-License-Identifier: MIT */
/* soft_advise.h - advice on pages, entered in the table of the soft backend. */
#ifndef SM_SPACE_SOFT_ADVISE_H
#define SM_SPACE_SOFT_ADVISE_H

#include "space/advice.h"

int sm__soft_advise(struct sm__advise *a);

#endif
