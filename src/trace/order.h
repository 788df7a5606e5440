/* SPDX-License-Identifier: MIT */
/* order.h - the parts of sm__recording_order(): before the search, and after it. */
#ifndef SM_TRACE_ORDER_H
#define SM_TRACE_ORDER_H

#include "trace/model.h"

/* Gives faults of which only path and offset are known an address. by_ret: calls by their return. 0, -ENOMEM. */
int sm__resolve_faults(struct sm__recording *rec, const uint32_t *by_ret);
/* Notes, inferred mappings, counts: a second walk, in the order found, over fresh models. 0, -ENOMEM. */
int sm__conclude(struct sm__recording *rec, struct sm__model *models);

#endif
