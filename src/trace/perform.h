/* SPDX-License-Identifier: MIT */
/* perform.h - one recorded call made on a space of the library; and the space as it began. */
#ifndef SM_TRACE_PERFORM_H
#define SM_TRACE_PERFORM_H

#include "trace/replay.h"

/* The spaces and files of one replay. Pointers of spaces are written by the call that makes them,
 * read by calls that waited for it (footprint.h G2). */
struct sm__stage {
	const struct sm__recording *rec;
	const struct sm__replay_options *options;
	struct sm_host *host;
	struct sm_space **spaces; /* by mm */
	struct sm_file **files;	  /* by string */
	struct sm_file *unknown;  /* behind inferred mappings */
	bool maps_low;		  /* spaces may map below mmap_min_addr */
	const char *why;	  /* the option that was refused, or NULL */
};

/* 0, -errno; closed by the caller in either case. */
int sm__stage_open(struct sm__stage *stage, const struct sm__recording *rec,
		   const struct sm__replay_options *options);
void sm__stage_close(struct sm__stage *stage);
/* The space of an mm that is not a fork's, with the mappings it began with. 0, -errno. */
int sm__stage_begin(struct sm__stage *stage, uint32_t mm);

struct sm__performed {
	int64_t got;	  /* what the call returned here */
	int64_t searched; /* what the address search found, before the recorded address was taken */
	bool made;	  /* false: nothing there to be made */
	bool failed;	  /* a space could not be made: got is the errno */
};

/* One call, without its time. exact: the search's answer is part of the result. */
struct sm__performed sm__perform(struct sm__stage *stage, const struct sm__call *c, bool exact);
/* The pages that the call gave access to: 0 of them, the first, or all. Returns how many. */
uint64_t sm__touch(struct sm__stage *stage, const struct sm__call *c);
/* Whether the result is the recorded one; if not, why. */
bool sm__agrees(const struct sm__call *c, int64_t got, enum sm__why *why);

#endif
