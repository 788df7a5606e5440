/* SPDX-License-Identifier: MIT */
/*
 * replay.h - makes the calls of a recording on spaces of the library and compares what they return.
 *
 * G1 One thread: the calls are made in the order of the recording, one after another; the result is
 *    the same every time.
 * G2 As recorded: each recorded thread is a thread; a call waits for those of footprint.h and for
 *    nothing else; the address search runs and then the recorded address is taken, so the final maps
 *    are those of G1.
 * G3 A recorded thread starts when the call that made it is made here.
 * G4 Times are of the calls alone: waits for order, comparison and statistics stand outside.
 */
#ifndef SM_TRACE_REPLAY_H
#define SM_TRACE_REPLAY_H

#include <samara/cache.h>
#include <samara/host.h>
#include <samara/space.h>

#include "trace/recording.h"

enum sm__touch_pages { SM__TOUCH_NONE, SM__TOUCH_FIRST, SM__TOUCH_ALL };

struct sm__replay_options {
	struct sm_design design;
	bool parallel;
	enum sm__touch_pages
		touch; /* after calls that give memory; a recording with faults has its own */
	enum sm_backend backend;
	bool lock_stats;
	bool timeline;	     /* when each call began and how long it waited before */
	bool samples;	     /* the number of VMAs after each call (one thread only) */
	uint64_t stop_after; /* calls; UINT64_MAX: all */
	void (*progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
};

/* Why a result is not the recorded one. */
#define SM__WHYS(X)                                                               \
	X(UNEXPLAINED, "unexplained")                                             \
	X(UNKNOWN_PLACE, "placed beside memory that the recording does not show") \
	X(UNKNOWN_MAP, "works on memory that the recording does not show")        \
	X(LIMIT, "a limit of the recorded machine")                               \
	X(FILE, "a property of the file")                                         \
	X(KERNEL, "a feature that the recorded kernel did not have")              \
	X(ORDER, "overlapped other calls, and no order of them explains it")

enum sm__why {
#define SM__WHY_VALUE(NAME, text) SM__WHY_##NAME,
	SM__WHYS(SM__WHY_VALUE)
#undef SM__WHY_VALUE
		SM__WHY_COUNT
};

const char *sm__why_text(enum sm__why why);
const char *sm__why_key(enum sm__why why); /* lower case, for programs */

struct sm__difference {
	uint32_t call;
	enum sm__why why;
	int64_t got; /* as the library returned it */
};

struct sm__kind_result {
	uint64_t count;	  /* made */
	uint64_t errors;  /* of these, the library returned an error */
	uint64_t skipped; /* in the recording, but not to be made: see sm__replay_result.skipped */
	double total_ns, median_ns, p99_ns, max_ns;
};

struct sm__space_result {
	uint32_t mm;
	uint64_t vmas, peak; /* at the end, and the most */
	bool ended;	     /* all its calls were made; false: the replay stopped before */
	char *maps;
};

/* One call on the clock of the replay, nanoseconds from its beginning. took UINT32_MAX: not made. */
struct sm__moment {
	uint64_t start;
	uint32_t waited; /* for order, right before start */
	uint32_t took;
};

enum { SM__DIFFERENCES_MAX = 1000, SM__SAMPLES_MAX = 512 };

struct sm__replay_result {
	struct sm__kind_result kinds[SM_SYS_COUNT];
	uint64_t calls;	  /* made */
	uint64_t touches; /* pages touched by sm__replay_options.touch */
	uint64_t
		skipped; /* without effect here: vectors not printed, shmat, faults without target */
	double wall_ns;	 /* from the first call to the end of the last */
	double busy_ns;	 /* in calls, all threads */
	uint64_t order_waits;
	double order_wait_ns;
	struct sm_lock_stats lock; /* of all spaces */
	uint64_t vma_lock_success, vma_lock_abort, vma_lock_retry, vma_lock_miss;
	struct sm_cache_stats caches[SM_HOST_CACHES]; /* of the spaces, after all of them went */
	unsigned ncaches;
	uint64_t merges, splits;
	uint64_t vmas_peak;  /* of the largest space */
	uint64_t vmas_final; /* of all, each at its end */
	uint64_t inferred_maps;
	uint64_t whys[SM__WHY_COUNT];
	struct sm__difference differences[SM__DIFFERENCES_MAX]; /* the first ones */
	size_t ndifferences;
	struct sm__space_result *spaces; /* by first call; without those that never held a VMA */
	size_t nspaces;
	struct sm__moment *timeline; /* by call, if asked for */
	struct {
		uint64_t call, vmas;
	} samples[SM__SAMPLES_MAX];
	size_t nsamples;
	char error[128];
};

/* 0; -ENOMEM, -EAGAIN (no thread could be started), -EINVAL (design or backend): result->error. */
int sm__replay(const struct sm__recording *rec, const struct sm__replay_options *options,
	       struct sm__replay_result *result);
void sm__replay_result_free(struct sm__replay_result *result);

#endif
