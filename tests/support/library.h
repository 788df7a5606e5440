/* SPDX-License-Identifier: MIT */
/*
 * library.h - samara as an executor of calls. A run makes a space that is filled up but for the
 * window, as the kernel's child is (kernel/oracle.h), so that placement has to answer the same.
 */
#ifndef TESTS_SUPPORT_LIBRARY_H
#define TESTS_SUPPORT_LIBRARY_H

#include "support/differ.h"

#include <samara/space.h>

struct library;

/* design: as sm_design_parse takes it. Room for lists of max_ops. NULL with a reason on stderr. */
struct library *library_open(size_t max_ops, const char *design, enum sm_backend backend);
void library_close(struct library *l);

/* An executor's run; arg is the library. */
const struct observation *library_run(void *arg, const struct ops_config *config,
				      const struct op *ops, size_t n);

/* Takes out of the stream what the library does not do yet with this backend. */
void library_restrict(struct library *l, struct opgen *g);

#endif
