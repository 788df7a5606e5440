/* SPDX-License-Identifier: MIT */
/* backend_none.c - bookkeeping only: no page is ever there, every allowed access is done at once. */
#include "space/backend.h"

const struct sm__backend sm__backend_none = { .name = "none" };

const struct sm__backend *sm__backend_of(enum sm_backend b)
{
	switch (b) {
	case SM_BACKEND_NONE:
		return &sm__backend_none;
	case SM_BACKEND_SOFT:
		return &sm__backend_soft;
	}
	return NULL;
}
