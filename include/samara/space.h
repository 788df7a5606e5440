/* SPDX-License-Identifier: MIT */
/*
 * space.h - address spaces: the memory calls of Linux on a map that is yours.
 *
 * Calls that mirror a system call take what it takes and return what it returns: an address or 0,
 * or a negative errno. Behaviour is that of Linux 6.18 unless the comment says otherwise; argument
 * checks and their order too, so that a program that hosts other programs can pass results on.
 *
 * Context of every call here, where nothing else is said: any attached or fresh thread, never a
 * signal handler, no RCU read section of the library open; may sleep on the space's mmap_lock.
 */
#ifndef SAMARA_SPACE_H
#define SAMARA_SPACE_H

#include <samara/design.h>
#include <samara/host.h>
#include <samara/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sm_space;
struct sm_file; /* file.h */
struct sm_tlb;	/* tlb.h */

/* ---------------------------------------------------------------- making a space */

enum sm_layout {
	SM_LAYOUT_TOPDOWN = 0, /* search downwards from mmap_base, then upwards from legacy_base */
	SM_LAYOUT_LEGACY = 1,  /* search upwards from legacy_base */
};

enum sm_backend {
	SM_BACKEND_NONE = 0, /* the map alone: no page is ever there */
	SM_BACKEND_SOFT = 1, /* page tables and frames of the library */
};

/* What the owner of the space may do beyond an ordinary user. */
enum sm_capability {
	SM_CAP_RAWIO = 1,    /* map below mmap_min_addr */
	SM_CAP_IPC_LOCK = 2, /* exceed RLIMIT_MEMLOCK */
	SM_CAP_ADMIN = 4,    /* use the admin reserve; poison pages */
	SM_CAP_NICE = 8,     /* advise another space */
};

#define SM_RLIM_INFINITY UINT64_MAX

/* Bytes, as setrlimit() takes them. */
struct sm_rlimits {
	uint64_t as;
	uint64_t data;
	uint64_t stack;
	uint64_t memlock;
};

/* What a notifier is told: [start, end) no longer is what it was. */
enum sm_notice {
	SM_NOTICE_UNMAP,   /* the range is gone, or replaced */
	SM_NOTICE_PROTECT, /* a permission was taken away or given */
	SM_NOTICE_DISCARD, /* contents were dropped by an advice */
	SM_NOTICE_MOVE,	   /* mremap took the range away */
};

/*
 * Told of every range that an operation invalidates, after the operation has taken effect and
 * before it returns. Context: no lock of the library is held; it may call the library.
 */
struct sm_notifier {
	void (*invalidate)(void *arg, enum sm_notice what, sm_addr start, sm_addr end);
	void *arg;
};

/* sm_space_options_init() fills in the defaults named here. */
struct sm_space_options {
	size_t size; /* sizeof(struct sm_space_options) */

	sm_addr range_end;	  /* TASK_SIZE; 0x7ffffffff000 */
	enum sm_layout layout;	  /* top-down */
	sm_addr mmap_base;	  /* top of the search; range_end - 128 MiB - stack gap */
	sm_addr legacy_base;	  /* bottom of the upward search; range_end / 3, page aligned */
	sm_addr start_brk;	  /* 0: brk() always fails */
	sm_addr start_stack;	  /* the VMA at this address is shown as [stack]; 0: none */
	struct sm_rlimits limits; /* infinity, stack 8 MiB, memlock 8 MiB */
	uint32_t capabilities;	  /* enum sm_capability bits; 0 */
	bool deny_write_exec;	  /* prctl(PR_SET_MDWE); off */

	struct sm_design design; /* preset "samara" */
	enum sm_backend backend; /* none */
	bool lock_stats;	 /* wait and hold histograms of mmap_lock; off, costs clock reads */

	/*
	 * Asks the thread that runs guest code with this TLB to reach a checkpoint soon. It is like
	 * sending a signal: called under locks of the library, it calls nothing of it and does not wait.
	 */
	void (*kick)(void *arg, struct sm_tlb *tlb);
	void *kick_arg;
	struct sm_notifier notifier;
	/*
	 * Whether caller may advise this space from outside (sm_process_madvise): 0, or a negative errno
	 * (-EACCES). NULL: any space may. Context: as the call; no lock of the library is held.
	 */
	int (*may_advise)(void *arg, struct sm_space *caller, struct sm_space *target);
	void *may_advise_arg;
};

/* Context: any. */
SM_API void sm_space_options_init(struct sm_space_options *options);

/*
 * Makes an empty space.
 * options: NULL for the defaults. why: receives a constant text naming a refused option, or NULL.
 * Return: the space, or NULL with errno EINVAL or ENOMEM.
 */
SM_API struct sm_space *sm_space_create(struct sm_host *host,
					const struct sm_space_options *options, const char **why);

/*
 * Ends a space: everything is unmapped, files are let go, the memory follows after a grace period.
 * Context: no other call on the space runs or follows; sm_lookup in an RCU section that began
 *          before may still run.
 */
SM_API void sm_space_destroy(struct sm_space *space);

/*
 * A copy of the space as fork() makes it: MADV_DONTFORK areas are left out, MADV_WIPEONFORK areas
 * are there and empty, locks (mlock) are not inherited, private writable memory is charged again.
 * Return: the child, or NULL with errno ENOMEM; the parent is unchanged then.
 * Cost: linear in the number of VMAs.
 */
SM_API struct sm_space *sm_fork(struct sm_space *parent);

/* ---------------------------------------------------------------- the calls */

/*
 * mmap(2). file: what the descriptor would name; it is referenced while mapped. NULL without
 * SM_MAP_ANONYMOUS is the bad descriptor. offset in bytes.
 * Return: the address, or -EINVAL, -ENOMEM, -EOVERFLOW, -EEXIST, -EBADF, -EACCES, -ENODEV,
 *         -EOPNOTSUPP, -EPERM, -EAGAIN, -EINTR as the manual page and Linux 6.18 say.
 */
SM_API int64_t sm_mmap(struct sm_space *space, sm_addr addr, uint64_t length, int prot, int flags,
		       struct sm_file *file, uint64_t offset);

/*
 * sm_mmap() with a tag: 64 bits of the embedder's, kept with the VMA; unequal tags do not merge.
 * Return: as sm_mmap.
 */
SM_API int64_t sm_mmap_tagged(struct sm_space *space, sm_addr addr, uint64_t length, int prot,
			      int flags, struct sm_file *file, uint64_t offset, uint64_t tag);

/* munmap(2). Return: 0, -EINVAL, -ENOMEM (a split would exceed the map count), -EPERM (sealed). */
SM_API int sm_munmap(struct sm_space *space, sm_addr addr, uint64_t length);

/* mprotect(2). Return: 0, -EINVAL, -ENOMEM, -EACCES, -EPERM; the part before a hole is changed. */
SM_API int sm_mprotect(struct sm_space *space, sm_addr addr, uint64_t length, int prot);

/*
 * mremap(2), with the move of several VMAs of Linux 6.17.
 * Return: the new address, or -EINVAL, -EFAULT, -ENOMEM, -EAGAIN, -EPERM.
 */
SM_API int64_t sm_mremap(struct sm_space *space, sm_addr addr, uint64_t old_length,
			 uint64_t new_length, int flags, sm_addr new_addr);

/* The brk system call (not the C library's). Return: the new break; the old one when it cannot be. */
SM_API sm_addr sm_brk(struct sm_space *space, sm_addr brk);

/*
 * madvise(2), every advice of Linux 6.18. Advice about pages finds none with backend none. The
 * figures and pages are those of this space; what an advice means for each kind of mapping is in
 * docs/design/advice.md.
 * Return: 0, -EINVAL, -ENOMEM (a hole; the mapped parts are done), -EPERM (sealed; HWPOISON without
 *         SM_CAP_ADMIN), -EAGAIN, -EBADF, -EACCES, -EFAULT, -EHWPOISON, -EINTR, what punching the
 *         file said (REMOVE).
 * Cost: DONTNEED, FREE and the guard pages take no mmap_lock where one VMA is enough and the design
 *       says so.
 */
SM_API int sm_madvise(struct sm_space *space, sm_addr addr, uint64_t length, int advice);

/* One range of a vector, laid out as struct iovec. */
struct sm_range {
	sm_addr addr;
	uint64_t length; /* bytes */
};

/*
 * process_madvise(2): advice for up to 1024 ranges of target. On the own space (caller == target)
 * every advice is allowed; on another COLD, PAGEOUT, WILLNEED and COLLAPSE, if target's may_advise
 * agrees and caller has SM_CAP_NICE. caller NULL: the embedder itself, with every right, but as
 * "another". At most 0x7ffff000 bytes are advised; flags must be 0. How often it locks and flushes
 * is the design's choice (advice=).
 * Return: the bytes of the ranges before the first that failed, or, when that is none, its errno;
 *         -EINVAL, -EFAULT (a range outside the space), -EPERM, what may_advise said.
 */
SM_API int64_t sm_process_madvise(struct sm_space *caller, struct sm_space *target,
				  const struct sm_range *ranges, size_t n, int advice,
				  unsigned flags);

/*
 * mlock(2), mlock2(2) with SM_MLOCK_ONFAULT, munlock(2): the range is widened to whole pages.
 * Return: 0, -EINVAL, -ENOMEM (limit, hole, a page that cannot come: the flags stay), -EPERM
 *         (RLIMIT_MEMLOCK is 0), -EAGAIN (no memory), -EINTR.
 */
SM_API int sm_mlock(struct sm_space *space, sm_addr addr, uint64_t length);
SM_API int sm_mlock2(struct sm_space *space, sm_addr addr, uint64_t length, int flags);
SM_API int sm_munlock(struct sm_space *space, sm_addr addr, uint64_t length);

/* mlockall(2) with SM_MCL_*, munlockall(2). Return: 0, -EINVAL, -ENOMEM, -EPERM, -EINTR. */
SM_API int sm_mlockall(struct sm_space *space, int flags);
SM_API int sm_munlockall(struct sm_space *space);

/*
 * mincore(2). vec: one byte a page, bit 0 set where an access would find the page in memory.
 * Return: 0, -EINVAL (unaligned), -ENOMEM (a hole; what precedes it is answered).
 */
SM_API int sm_mincore(struct sm_space *space, sm_addr addr, uint64_t length, unsigned char *vec);

/*
 * msync(2): with SM_MS_SYNC what was written through shared mappings of the range is written to
 * their files, and the files made durable. SM_MS_ASYNC checks only: write-back is the page cache's.
 * Return: 0, -EINVAL, -ENOMEM (a hole; what is mapped is done), -EBUSY (SM_MS_INVALIDATE on locked
 *         memory), -EINTR, or what the file's functions said.
 * Context: calls the file's functions; no lock is held over that.
 */
SM_API int sm_msync(struct sm_space *space, sm_addr addr, uint64_t length, int flags);

/*
 * mseal(2): no unmapping, moving, replacing, new protection, or discarding of memory that the caller
 * could not write, for good. Return: 0, -EINVAL, -ENOMEM (a hole; nothing is sealed), -EINTR.
 */
SM_API int sm_mseal(struct sm_space *space, sm_addr addr, uint64_t length, uint64_t flags);

/*
 * Names anonymous memory, as prctl(PR_SET_VMA_ANON_NAME). name: up to 79 printable characters
 * without \ ` $ [ ]; NULL takes the name away.
 * Return: 0, -EINVAL, -ENOMEM (a hole; the mapped parts are named), -EAGAIN (no memory, or the map
 *         count), -EBADF (a file mapping), -EINTR.
 */
SM_API int sm_set_anon_name(struct sm_space *space, sm_addr addr, uint64_t length,
			    const char *name);

/* ---------------------------------------------------------------- faults and look-up */

enum sm_fault_flags {
	SM_FAULT_MAJOR = 1,	/* it had to wait for a page */
	SM_FAULT_UNDER_VMA = 2, /* mmap_lock was not needed */
	SM_FAULT_GREW = 4,	/* a stack was grown */
	SM_FAULT_DEVICE =
		8, /* a device range: the embedder performs the access, nothing was mapped */
};

/* signo, code and addr are what Linux would put into siginfo; signo 0 means the access may go on. */
struct sm_fault_result {
	int32_t error;	/* 0; -ENOMEM: no frame or node to be had; -EINTR: a wait was given up */
	int32_t signo;	/* 0, SIGSEGV, SIGBUS */
	int32_t code;	/* SEGV_MAPERR, SEGV_ACCERR, BUS_ADRERR, BUS_MCEERR_AR */
	uint32_t flags; /* enum sm_fault_flags */
	sm_addr addr;
};

/*
 * What the page fault handler does for one access: finds the VMA, grows a stack, checks
 * permissions, gives private memory its identity, brings the page in (soft backend).
 * access: one of enum sm_access.
 * Context: may sleep on mmap_lock where the design or the fault needs it.
 * Return: what Linux would do; the result's error is 0, -ENOMEM or -EINTR.
 * Cost: with a per-VMA lock, one tree walk and two atomic operations on the VMA.
 */
SM_API struct sm_fault_result sm_fault(struct sm_space *space, sm_addr addr, enum sm_access access);

/* The bits of a VMA, with the meaning of the letters in /proc/PID/smaps. */
enum sm_vm_flags {
	SM_VM_READ = 1 << 0,
	SM_VM_WRITE = 1 << 1,
	SM_VM_EXEC = 1 << 2,
	SM_VM_SHARED = 1 << 3, /* writes reach the file */
	SM_VM_MAYREAD = 1 << 4,
	SM_VM_MAYWRITE = 1 << 5,
	SM_VM_MAYEXEC = 1 << 6,
	SM_VM_MAYSHARE = 1 << 7, /* mapped with MAP_SHARED */
	SM_VM_GROWSDOWN = 1 << 8,
	SM_VM_NOHUGEPAGE = 1 << 9,
	SM_VM_LOCKED = 1 << 10,
	SM_VM_LOCKONFAULT = 1 << 11,
	SM_VM_HUGEPAGE = 1 << 12,
	SM_VM_SEQ_READ = 1 << 13,
	SM_VM_RAND_READ = 1 << 14,
	SM_VM_DONTCOPY = 1 << 15,
	SM_VM_DONTEXPAND = 1 << 16,
	SM_VM_ACCOUNT = 1 << 17,
	SM_VM_NORESERVE = 1 << 18,
	SM_VM_HUGETLB = 1 << 19,
	SM_VM_DONTDUMP = 1 << 20,
	SM_VM_WIPEONFORK = 1 << 21,
	/* what memory seldom has: with a bit from here up a look-up reads a line more */
	SM_VM_IO = 1 << 22,
	SM_VM_PFNMAP = 1 << 23, /* device range */
	SM_VM_MERGEABLE = 1 << 24,
	SM_VM_DROPPABLE = 1 << 25,
	SM_VM_SEALED = 1 << 26,
	SM_VM_MIXEDMAP = 1 << 27,
	SM_VM_SYNC = 1 << 28,
};

/* One VMA as it was at one instant. */
struct sm_vma_info {
	sm_addr start, end;   /* end is the first address after it */
	uint64_t flags;	      /* enum sm_vm_flags */
	uint64_t offset;      /* bytes into the file; 0 for anonymous memory */
	struct sm_file *file; /* NULL for anonymous; an identity: use it only while it is mapped */
	uint64_t tag;
	char name[80]; /* of anonymous memory, "" where there is none */
};

/*
 * The VMA at addr.
 * Context: maple designs take no lock and never wait: any attached thread, signal handlers too, also
 *          one that interrupted a writer of the same space on the same thread. Designs with tree=rb
 *          or avl take mmap_lock for read: no signal handler there.
 * Return: 0, -ENOENT (nothing mapped there), -EAGAIN (maple designs: a thread that is not attached;
 *         a signal handler must not attach it, so this call does not either: sm_thread_attach()).
 */
SM_API int sm_lookup(struct sm_space *space, sm_addr addr, struct sm_vma_info *info);

/*
 * Whether every byte of [addr, addr + length) is mapped and allows access (enum sm_access bits).
 * The answer was true of one instant within the call.
 * Context: as sm_lookup.
 * Return: 0, -ENOMEM (a hole), -EACCES, -EINVAL (the range wraps), -EAGAIN (a writer kept
 *         interfering).
 */
SM_API int sm_check_range(struct sm_space *space, sm_addr addr, uint64_t length, int access);

/* The same under mmap_lock. Context: may sleep. Return: as sm_check_range, but never -EAGAIN. */
SM_API int sm_check_range_wait(struct sm_space *space, sm_addr addr, uint64_t length, int access);

/*
 * Calls visit for each VMA that intersects [start, end), in ascending order, until it returns
 * non-zero. Each VMA is shown as it was at one instant; no gap is shown that never was.
 * Context: visit runs without any lock and may call the library.
 * Return: 0, or what visit returned, or -ENOMEM.
 */
SM_API int sm_for_each(struct sm_space *space, sm_addr start, sm_addr end,
		       int (*visit)(void *arg, const struct sm_vma_info *info), void *arg);

/*
 * Writes the map as /proc/PID/maps shows it, byte for byte, one line per VMA.
 * buf may be NULL when size is 0. Return: the length without the terminator, as snprintf; the text
 * is cut at size; negative errno -ENOMEM.
 */
SM_API int64_t sm_maps(struct sm_space *space, char *buf, size_t size);

/* ---------------------------------------------------------------- giving up */

/*
 * Names a word of the calling thread that, while it is not zero, ends its waits for mmap_lock and for the
 * readers of a VMA: calls then answer -EINTR, as Linux does for a task that is being killed, having done
 * nothing (sm_mprotect and sm_fork: what was done before stays, the child is not made). NULL, the
 * initial state: waits last until the lock comes.
 * Context: any thread, not in a signal handler; the word must outlive its being named. Whoever raises it may
 *          send the thread a signal, else it is looked at every 10 ms of a wait.
 */
SM_API void sm_interrupt_word(const uint32_t *word);

/* ---------------------------------------------------------------- limits and figures */

/* setrlimit(2) for this space. Context: takes effect for calls that begin after it returns. */
SM_API void sm_space_set_limits(struct sm_space *space, const struct sm_rlimits *limits);

/* Power-of-two histogram: bucket i counts values in [2^i, 2^(i+1)) nanoseconds; 0 holds 0 and 1. */
struct sm_histogram {
	uint64_t count, sum, max;
	uint64_t bucket[48];
};

enum sm_lock_side {
	SM_LOCK_READ,
	SM_LOCK_WRITE,
	SM_LOCK_SIDES,
};

/* Who took mmap_lock. */
enum sm_call_kind {
	SM_CALL_MMAP,
	SM_CALL_MUNMAP,
	SM_CALL_MPROTECT,
	SM_CALL_MREMAP,
	SM_CALL_BRK,
	SM_CALL_MADVISE,
	SM_CALL_MLOCK,
	SM_CALL_MSEAL,
	SM_CALL_MSYNC,
	SM_CALL_MINCORE,
	SM_CALL_FORK,
	SM_CALL_FAULT,
	SM_CALL_LOOKUP,
	SM_CALL_MAPS,
	SM_CALL_EXIT,
	SM_CALL_KINDS,
};

struct sm_lock_stats {
	uint64_t acquired[SM_LOCK_SIDES];  /* always counted when lock_stats is on */
	uint64_t contended[SM_LOCK_SIDES]; /* of these, how many had to wait */
	struct sm_histogram wait[SM_LOCK_SIDES];
	struct sm_histogram hold[SM_LOCK_SIDES];
	struct sm_histogram wait_by_call[SM_CALL_KINDS]; /* both sides */
	struct sm_histogram
		hold_by_call[SM_CALL_KINDS]; /* a downgrade ends one hold, begins another */
};

/* Why a fault gave up the VMA lock or did not get it. X(name, text). */
#define SM_FALLBACK_REASONS(X)                                                       \
	X(no_vma, "nothing mapped there, or a stack to grow")                        \
	X(write_locked, "a writer holds the VMA")                                    \
	X(writer_waits, "a writer waits for the VMA's readers")                      \
	X(recycled, "the VMA now belongs to another space")                          \
	X(moved, "the VMA's bounds have moved")                                      \
	X(detached, "the VMA was taken out after it was found; looked up again")     \
	X(design, "the design does not handle this fault under the VMA lock")        \
	X(identity, "no identity yet, and mmap_lock was not free to look at others") \
	X(backend, "the backend asked for mmap_lock")                                \
	X(wait, "the page had to be waited for")

enum sm_fallback {
#define SM_FALLBACK_ENUM(name, text) SM_FALLBACK_##name,
	SM_FALLBACK_REASONS(SM_FALLBACK_ENUM)
#undef SM_FALLBACK_ENUM
		SM_FALLBACKS,
};

/* Pages unless said otherwise. */
struct sm_space_stats {
	uint64_t map_count; /* VMAs now */
	uint64_t map_peak;
	uint64_t total_vm, data_vm, exec_vm, stack_vm, locked_vm;
	uint64_t committed; /* charged by this space */
	uint64_t peak_vm;   /* VmPeak */
	uint64_t merges, splits;
	uint64_t faults;
	uint64_t rss_anon, rss_file,
		swapped; /* pages there are: private, of files, in the swap file */

	/* How faults locked, with the kernel's meaning (CONFIG_PER_VMA_LOCK_STATS). */
	uint64_t vma_lock_success, vma_lock_abort, vma_lock_retry, vma_lock_miss;
	uint64_t fallback
		[SM_FALLBACKS]; /* the same, by reason; a lost count under heavy sharing is possible */
	bool has_lock_stats;
	struct sm_lock_stats lock; /* zero unless has_lock_stats */
};

/* Context: any thread; takes mmap_lock for read for the figures of the map. */
SM_API void sm_space_stats(struct sm_space *space, struct sm_space_stats *out);

/* What the space was made with. Context: any, signal-safe. Return: lives as long as the space. */
SM_API const struct sm_design *sm_space_design(const struct sm_space *space);
SM_API struct sm_host *sm_space_host(const struct sm_space *space);

#ifdef __cplusplus
}
#endif
#endif
