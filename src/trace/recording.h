/* SPDX-License-Identifier: MIT */
/*
 * recording.h - a recording in memory: its calls, the threads and processes that made them, the
 * address spaces they worked on, and the order in which the calls took effect.
 *
 *   lines ──reader──> events ──load──> calls, threads ──processes──> spaces ──order──> order[]
 *
 * I1 entry < ret for every call; positions of different calls are comparable: lines, or kernel time
 *    stamps where those are the clock (perf trace, and the files of strace -ff).
 * I2 The clone, fork or vfork that made a thread has ret below the entry of the thread's first call.
 * I3 order[] is a linear extension: if a.ret < b.entry, a comes first. Calls of one thread keep their
 *    order.
 * I4 Memory is linear in the number of calls: about 150 bytes for each, as much as its text.
 */
#ifndef SM_TRACE_RECORDING_H
#define SM_TRACE_RECORDING_H

#include <samara/trace.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SM__NONE UINT32_MAX

/* What the order found out about a call. */
enum sm__call_note {
	SM__NOTE_UNKNOWN_PLACE =
		1,		 /* placed where the recording shows no map: not to be predicted */
	SM__NOTE_UNORDERED = 2,	 /* overlapped others, and no order of them explains the results */
	SM__NOTE_NO_TARGET = 4,	 /* a fault of which only a file offset is known, in no known map */
	SM__NOTE_RESOLVED = 8,	 /* the same, and the map was found by path and offset */
	SM__NOTE_REORDERED = 16, /* took effect before another call that returned earlier */
};

struct sm__call {
	uint64_t entry, ret; /* the clock */
	uint64_t args[6];
	int64_t result;
	uint64_t line, return_line; /* in file */
	uint64_t duration_ns;	    /* UINT64_MAX: unknown */
	uint32_t thread;
	uint32_t mm;	 /* the space it works on */
	uint32_t child;	 /* the thread it made, or SM__NONE */
	uint32_t new_mm; /* fork: the copy; exec: the fresh space; or SM__NONE */
	uint32_t string; /* path or name, index into strings; SM__NONE */
	uint32_t ranges; /* index of the first, nranges of them */
	uint32_t nranges;
	int error;
	uint16_t file; /* which of the files */
	uint8_t call;  /* enum sm_trace_call; SM_SYS_OTHER: a line of a maps block (until loaded) */
	uint8_t nargs;
	uint8_t inferred; /* enum sm_trace_inferred */
	uint8_t note;	  /* enum sm__call_note */
	bool returned;
};

struct sm__thread {
	uint32_t tid;
	uint32_t process;     /* index, SM__NONE: not yet known */
	uint32_t parent_call; /* the call that made it, SM__NONE for the first */
	uint64_t first_entry;
	uint32_t ncalls; /* in order[] */
	bool dead;
};

/* A mapping that was there before the first call. */
struct sm__initial {
	sm_addr start, end;
	uint64_t offset;
	int prot, flags; /* MAP_SHARED or MAP_PRIVATE */
	uint32_t string; /* its name in the maps block, or SM__NONE */
	bool inferred;	 /* nobody wrote it down: the first call that touched it tells */
};

enum sm__mm_origin { SM__MM_FIRST, SM__MM_FORK, SM__MM_EXEC };

struct sm__mm {
	enum sm__mm_origin origin;
	uint32_t parent; /* FORK: copied from */
	uint32_t pid;	 /* of the process that got it */
	uint32_t string; /* EXEC: the program */
	uint32_t ncalls; /* in order[], those that need the space */
	sm_addr base;	 /* top of the address search, 0: unknown */
	sm_addr start_brk;
	struct sm__initial *initial;
	size_t ninitial, initial_room;
};

struct sm__recording {
	char **files;
	size_t nfiles;
	struct sm__call *calls; /* by entry */
	size_t ncalls, calls_room;
	uint32_t *order; /* of calls: how they took effect */
	struct sm__thread *threads;
	size_t nthreads, threads_room;
	struct sm__mm *mms;
	size_t nmms, mms_room;
	char **strings;
	size_t nstrings, strings_room;
	uint32_t *string_table; /* open addressing over strings, index + 1 */
	size_t string_slots;
	struct sm_trace_range *ranges;
	size_t nranges, ranges_room;
	struct sm_trace_stats stats;   /* summed over the files */
	uint64_t counts[SM_SYS_COUNT]; /* calls of each kind in the text */
	uint64_t unreturned;	       /* memory calls that never returned */
	uint64_t reordered, unordered; /* calls with that note */
	bool stamped;		       /* positions are time stamps */
	char error[512];
};

struct sm__load_options {
	void (*bad_line)(void *arg, const char *file, uint64_t line, const char *reason);
	/* Now and then while loading: bytes of the files consumed. May be NULL. */
	void (*progress)(void *arg, uint64_t done);
	void *arg;
	bool strict;
};

/*
 * Loads one recording: one file, or the files OUT.PID that strace -ff wrote. 0, or the errors of
 * sm_trace_open and sm_trace_next; *out is there in either case (its error field tells) unless it is
 * -ENOMEM, and is freed by the caller.
 */
int sm__recording_load(const char *const *files, size_t n, const struct sm__load_options *options,
		       struct sm__recording **out);
/* The same for a recording in memory. */
int sm__recording_load_memory(const void *data, size_t size, const struct sm__load_options *options,
			      struct sm__recording **out);
void sm__recording_free(struct sm__recording *rec);

/* Threads to processes, calls to spaces; calls sorted by entry. 0, -ENOMEM. (processes.c) */
int sm__recording_processes(struct sm__recording *rec);
/* order[], notes, inferred mappings. 0, -ENOMEM. (order.c) */
int sm__recording_order(struct sm__recording *rec);

/* The n-th string, "" for SM__NONE. */
const char *sm__recording_string(const struct sm__recording *rec, uint32_t index);
/* Room for one more element: 0, -ENOMEM. */
int sm__grow(void *array, size_t n, size_t *room, size_t size);
int sm__mm_add_initial(struct sm__mm *mm, struct sm__initial initial);

#endif
