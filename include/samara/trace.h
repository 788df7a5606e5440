/* SPDX-License-Identifier: MIT */
/*
 * trace.h - reads recordings of system calls: the text of strace in every form it has, the text of
 * `perf trace -F all`, plain or compressed (xz, gzip, zstd, bzip2).
 *
 * A reader is pulled: one struct sm_trace_event at a time, a joined call each, in the order in
 * which the calls returned. It keeps what threads have begun and not finished, and one block of text:
 * its memory does not grow with the recording.
 *
 * The clock is the position in the file: a call has the line it was entered on and the line it
 * returned on (the same, unless another thread's line came between). Call A came before call B if
 * A.return_line < B.entry_line; otherwise they overlapped and the text does not say. A perf trace
 * is different: its lines are grouped by CPU, and its time stamps, taken inside the kernel, are the
 * clock; sm_trace_event.stamped says so.
 *
 * A reader belongs to one thread at a time. The format is described in samara-trace(5).
 */
#ifndef SAMARA_TRACE_H
#define SAMARA_TRACE_H

#include <samara/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The calls whose arguments are read: X(NAME, name). Everything else is SM_SYS_OTHER and arrives
 * with its name, result and times only.
 */
#define SM_TRACE_CALLS(X)                     \
	X(MMAP, mmap)                         \
	X(MUNMAP, munmap)                     \
	X(MPROTECT, mprotect)                 \
	X(PKEY_MPROTECT, pkey_mprotect)       \
	X(MREMAP, mremap)                     \
	X(BRK, brk)                           \
	X(MADVISE, madvise)                   \
	X(PROCESS_MADVISE, process_madvise)   \
	X(MSYNC, msync)                       \
	X(MINCORE, mincore)                   \
	X(MLOCK, mlock)                       \
	X(MLOCK2, mlock2)                     \
	X(MUNLOCK, munlock)                   \
	X(MLOCKALL, mlockall)                 \
	X(MUNLOCKALL, munlockall)             \
	X(MSEAL, mseal)                       \
	X(REMAP_FILE_PAGES, remap_file_pages) \
	X(SHMAT, shmat)                       \
	X(SHMDT, shmdt)                       \
	X(PRCTL, prctl)                       \
	X(PAGE_FAULT, page_fault)             \
	X(CLONE, clone)                       \
	X(CLONE3, clone3)                     \
	X(FORK, fork)                         \
	X(VFORK, vfork)                       \
	X(EXECVE, execve)                     \
	X(EXECVEAT, execveat)                 \
	X(EXIT, exit)                         \
	X(EXIT_GROUP, exit_group)

enum sm_trace_call {
	SM_SYS_OTHER,
#define SM_TRACE_CALL_VALUE(NAME, name) SM_SYS_##NAME,
	SM_TRACE_CALLS(SM_TRACE_CALL_VALUE)
#undef SM_TRACE_CALL_VALUE
		SM_SYS_COUNT
};

enum sm_trace_kind {
	SM_TRACE_CALL,	 /* a call, finished or not */
	SM_TRACE_SIGNAL, /* a signal was delivered; result is its number, 0 if not known */
	SM_TRACE_DEATH, /* the thread is gone; result: exit status, 256 + signal, or -1: superseded */
	SM_TRACE_MAP,	/* one line of a "# maps" block: an initial mapping */
};

/* How much of a page fault the recording did not say and the reader filled in. */
enum sm_trace_inferred {
	SM_TRACE_INFERRED_ACCESS = 1, /* read, write or exec is a guess: see samara-trace(5) */
	SM_TRACE_INFERRED_ADDR = 2,   /* only path and file offset are known: args[2], path */
	SM_TRACE_INFERRED_FLAGS = 4,  /* clone3 without its flags: taken for a new thread */
};

struct sm_trace_range {
	sm_addr start;
	uint64_t len; /* bytes */
};

/*
 * One event. Arguments stand in the order of the system call:
 *   MMAP addr len prot flags fd off       MREMAP old old_len new_len flags new
 *   BRK addr   CLONE, CLONE3, FORK, VFORK: args[0] the CLONE_* flags
 *   PROCESS_MADVISE pidfd vec n advice flags, the vector in ranges
 *   PAGE_FAULT addr, enum sm_access bits, file offset (perf trace, with SM_TRACE_INFERRED_ADDR)
 *   PRCTL option arg2 .. arg5, the string of PR_SET_VMA_ANON_NAME in text
 *   EXECVE the program's path in text
 *   MAP start end prot flags offset (flags: MAP_SHARED or MAP_PRIVATE), the name in path
 * Pointers are valid until the next call on the reader.
 */
struct sm_trace_event {
	enum sm_trace_kind kind;
	enum sm_trace_call call;
	uint32_t tid;	  /* as the line says; 0: the only thread so far, which no line names */
	uint16_t nargs;	  /* how many of args were there */
	uint8_t inferred; /* enum sm_trace_inferred */
	bool returned;	  /* false: "= ?", or the other half never came */
	bool nameless;	  /* its earlier events, if any, had tid 0 */
	bool stamped;	  /* perf trace: start_ns orders, not the lines */
	int error;	  /* errno, positive; 0 if the call succeeded or did not return */
	int64_t result;	  /* the value returned; -1 with error set */
	uint64_t args[6];
	uint64_t entry_line, return_line; /* 1 is the first line */
	uint64_t start_ns, duration_ns;	  /* UINT64_MAX: not in the recording */
	const char *name;		  /* of the call */
	size_t name_len;
	const char *path; /* of the descriptor (strace -y) or of the fault's target, or NULL */
	size_t path_len;
	const char *text; /* see PRCTL and EXECVE, or NULL */
	size_t text_len;
	const struct sm_trace_range *ranges; /* of process_madvise */
	size_t nranges;
};

struct sm_trace_options {
	/* Told of every line that could not be read, with the reason. May be NULL. */
	void (*bad_line)(void *arg, const char *file, uint64_t line, const char *reason);
	void *arg;
	/* The first bad line ends the reading with -EBADMSG. */
	bool strict;
	/* The thread of lines that name none (strace -ff writes a file OUT.TID per thread). */
	uint32_t tid;
};

struct sm_trace_stats {
	uint64_t lines;	      /* read so far */
	uint64_t bytes;	      /* of text, after decompression */
	uint64_t calls;	      /* events of kind SM_TRACE_CALL */
	uint64_t bad;	      /* lines that could not be read */
	uint64_t unfinished;  /* calls that never returned */
	uint64_t inferred;    /* events with anything in sm_trace_event.inferred */
	bool truncated;	      /* the last line had no end and made no sense */
	uint64_t file_offset; /* bytes of the file consumed, for a progress line */
};

struct sm_trace;

/*
 * Opens a recording; "-" is the standard input. options may be NULL.
 *
 * Context: may sleep; not for signal handlers.
 * Return: 0 and *out; -errno of open(2) and read(2); -ENOMEM; -EISDIR; -ENODATA for an empty file.
 * On failure *out is NULL; what cannot be decompressed shows at the first sm_trace_next.
 */
SM_API int sm_trace_open(const char *path, const struct sm_trace_options *options,
			 struct sm_trace **out);

/*
 * The same for a recording in memory, which must stay there until the reader is closed. Compressed
 * contents are fine.
 *
 * Context: may sleep. Return: 0 and *out, -ENOMEM, -ENODATA.
 */
SM_API int sm_trace_open_memory(const void *data, size_t size,
				const struct sm_trace_options *options, struct sm_trace **out);

/*
 * The next event.
 *
 * Context: may sleep (reads). The event's pointers live until the next call on this reader.
 * Return: 1 and *event; 0 at the end (calls that never returned come last); -EBADMSG: a bad line
 * and options.strict; -EILSEQ: this is no recording at all (nothing readable within the first 64 KiB
 * of text, or in a shorter file); -EIO: cannot be read or decompressed further (the calls that were
 * open then come before it); -ENOMEM. sm_trace_error says more. After an error the reader stays at its
 * end.
 * Cost: about 0.25 us for a line of 100 bytes.
 */
SM_API int sm_trace_next(struct sm_trace *trace, struct sm_trace_event *event);

/*
 * "file:line: reason" of the last failure or bad line; "" if there was none.
 * Context: the reader's thread. Return: never NULL; valid until the next call on the reader.
 */
SM_API const char *sm_trace_error(const struct sm_trace *trace);

/* Counts so far. Context: any. */
SM_API void sm_trace_stats(const struct sm_trace *trace, struct sm_trace_stats *out);

/* Closes; NULL is fine. Context: may sleep. */
SM_API void sm_trace_close(struct sm_trace *trace);

/* Return: the name of a call, "other" for SM_SYS_OTHER and beyond. Context: any, signal-safe. */
SM_API const char *sm_trace_call_name(enum sm_trace_call call);

#ifdef __cplusplus
}
#endif
#endif
