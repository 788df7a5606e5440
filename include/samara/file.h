/* SPDX-License-Identifier: MIT */
/*
 * file.h - what a mapping can show besides fresh memory: an object with a size, an identity and a
 * small table of functions. A file of the host process and an in-memory file are built in; an
 * embedder brings its own (an image in an archive, a remote object, a device) with sm_file_create.
 *
 * A file holds no pages. Its pages are in the page cache of the host object whose spaces map it,
 * shared by all of them, from the first mapping on; files with equal (device, inode) share pages.
 *
 * G1 A file lives while somebody holds a reference: its maker, every VMA that maps it, every page
 *    of it that is in use. close() runs once, after the last.
 * G2 read_page, write_page, punch, truncate and size of one file may be called by several threads
 *    at once, but never two read_page or write_page calls for the same page.
 *    While truncate or punch runs, no write_page of that range does and no other truncate or punch.
 * G3 No function of the table is called inside an RCU section or under a lock of the library, but for
 *    the page itself over read_page and write_page, and the object over truncate and punch (a file
 *    that says SM_FILE_NOWAIT may be called under any). So they must not touch the file's own pages
 *    through a space, nor truncate, punch or refresh it; whoever calls the functions below or takes
 *    a fault holds no lock that they take. Where memory is short, a fault may write pages of any file.
 */
#ifndef SAMARA_FILE_H
#define SAMARA_FILE_H

#include <samara/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sm_file;

/* How the file was opened and what it is: bits of sm_file_info.mode. */
enum sm_file_mode {
	SM_FILE_READ = 1,	/* opened for reading */
	SM_FILE_WRITE = 2,	/* opened for writing: MAP_SHARED with PROT_WRITE is allowed */
	SM_FILE_DIRECTORY = 4,	/* mmap answers ENODEV */
	SM_FILE_NOEXEC = 8,	/* on a noexec mount: PROT_EXEC answers EPERM */
	SM_FILE_APPEND = 16,	/* append-only: a shared writable mapping answers EACCES */
	SM_FILE_HUGETLB = 32,	/* pages of 2 MiB */
	SM_FILE_DEVICE = 64,	/* no pages: faults on it go to the embedder */
	SM_FILE_NOWAIT = 128,	/* its functions never block and call nothing of the library */
	SM_FILE_VOLATILE = 256, /* nothing behind the page cache: its pages are the only copy */
	SM_FILE_HUGE_ALIGN =
		512, /* a file system that aligns large mappings to huge pages (ext4, xfs) */
	SM_FILE_NO_MMAP = 1024, /* cannot be mapped (most of /proc and /sys, /dev/null): ENODEV */
};

/* What tells files apart, and what a maps line shows. Constant for the life of the file. */
struct sm_file_info {
	uint64_t ino;
	uint32_t dev_major, dev_minor;
	const char *name; /* the path column of a maps line */
	uint32_t mode;	  /* enum sm_file_mode */
};

/*
 * The functions of a file. Offsets and sizes are in bytes; offsets of pages are multiples of len.
 * Each returns 0 or a negative errno unless it says otherwise. NULL members: see the right column.
 */
struct sm_file_ops {
	/* Current size in bytes. Required. */
	uint64_t (*size)(void *arg);
	/* Fills len bytes at page from offset; what lies beyond the end is zeroed by the caller's
	 * side: page arrives zeroed. NULL: every page is born zero. -EIO and the like raise SIGBUS.
	 * */
	int (*read_page)(void *arg, uint64_t offset, void *page, size_t len);
	/* Writes len bytes, len cut at the file's size. Guests may write to the page meanwhile: what
	 * they write comes again. NULL: the file is read-only behind the cache. */
	int (*write_page)(void *arg, uint64_t offset, const void *page, size_t len);
	/* Makes a range read as zero, size kept. NULL: -EOPNOTSUPP. */
	int (*punch)(void *arg, uint64_t offset, uint64_t len);
	/* Sets the size. NULL: -EOPNOTSUPP. */
	int (*truncate)(void *arg, uint64_t size);
	/* Makes what was written durable (msync with MS_SYNC, sm_file_sync). NULL: nothing to do.
	 * */
	int (*sync)(void *arg);
	/* Called once, after the last use. NULL: nothing to do. */
	void (*close)(void *arg);
	/*
	 * Whether no new mapping may write to the file (F_SEAL_WRITE, F_SEAL_FUTURE_WRITE): a shared
	 * writable one answers EPERM, a shared read-only one can't be made writable. Asked by mmap of
	 * a shared mapping of a file opened for writing, before it takes any lock. NULL: never.
	 */
	bool (*sealed)(void *arg);
};

/*
 * Makes a file of the embedder's.
 * info: copied, the name too. An inode of 0 means "like no other": a fresh one is chosen (device
 *       0:1). ops: kept by pointer, must outlive the file. arg: handed to every function.
 * Context: any thread; allocates.
 * Return: 0 and one reference in *out, -ENOMEM (arg is not closed then), -EINVAL (no size function
 *         on a file that is neither a directory nor a device, unknown mode bits).
 */
SM_API int sm_file_create(const struct sm_file_info *info, const struct sm_file_ops *ops, void *arg,
			  struct sm_file **out);

/*
 * A file of the host process. The descriptor is duplicated: the caller may close its own. One that
 * appends (O_APPEND) is opened again without it, through /proc/self/fd.
 * name: what a maps line shows; NULL reads the descriptor's path from /proc/self/fd.
 * A device's faults go to the embedder, /dev/zero's too: for that one, map anonymous memory instead.
 * Whether it can be mapped is asked by mapping it for a moment, without access. Seals of a memfd count
 * from when they are set; where guests have the file mapped writable by then (Linux would refuse
 * F_SEAL_WRITE with EBUSY), what they write can't be written back: EPERM from msync, pages stay dirty.
 * Context: any thread; system calls; allocates.
 * Return: 0 and one reference in *out; -EBADF (O_PATH too, as mmap answers), -ENOMEM, -EMFILE;
 *         -ENODEV for what is neither a regular file, a directory, nor a device; what open answers
 *         where an appending file can't be opened again.
 */
SM_API int sm_file_open_fd(int fd, const char *name, struct sm_file **out);

/*
 * An in-memory file of size bytes, all zero, readable and writable; also what is behind
 * MAP_SHARED|MAP_ANONYMOUS. It costs no descriptor, and no memory until it is touched.
 * name: NULL means "/dev/zero (deleted)", as Linux shows shared anonymous memory.
 * Context: any thread; allocates.
 * Return: 0 and one reference in *out, -ENOMEM.
 */
SM_API int sm_file_create_memory(const char *name, uint64_t size, struct sm_file **out);

/*
 * One more reference, one less.
 * Context: any thread, inside RCU sections and callbacks too, no lock of the embedder that close() takes.
 * Return: the file. Cost: one atomic add; the last put closes the file.
 */
SM_API struct sm_file *sm_file_get(struct sm_file *file);
SM_API void sm_file_put(struct sm_file *file);

/* What the file was made with. Context: any, signal-safe. Return: lives as long as the file. */
SM_API const struct sm_file_info *sm_file_info(const struct sm_file *file);

/*
 * The size in bytes: for a file of the host process what fstat says now.
 * Context: any thread, no lock of the library held; calls ops->size. Return: the size.
 */
SM_API uint64_t sm_file_size(const struct sm_file *file);

/*
 * Sets the size, in every space at once: pages beyond the new end, and private copies of them, are
 * unmapped (an access there raises SIGBUS); the rest of the last page reads as zero. When it grows,
 * what guests wrote behind the old end reads as zero; an in-memory file keeps it, as tmpfs does.
 * Pages that are being read or written are waited for.
 * Context: no lock of the library held; waits for TLBs and for other resizes of the object.
 * Return: 0, -EOPNOTSUPP, or what the file's truncate says: nothing has changed then.
 */
SM_API int sm_file_truncate(struct sm_file *file, uint64_t size);

/*
 * Makes [offset, offset + length) read as zero, as FALLOC_FL_PUNCH_HOLE; private copies stay.
 * Context and Return: as sm_file_truncate, and -EINVAL for an empty or wrapping range.
 */
SM_API int sm_file_punch(struct sm_file *file, uint64_t offset, uint64_t length);

/*
 * Writes what guests have changed in the range through write_page; durable: and calls sync.
 * Context: as sm_file_truncate. Return: 0, or the first error of the file's functions.
 */
SM_API int sm_file_sync(struct sm_file *file, uint64_t offset, uint64_t length, bool durable);

/*
 * Tells the page cache that the object may have changed its size by other means; faults that miss
 * the cache ask by themselves. After growth the rest of the old last page is read anew; if that
 * fails, the size stays as it was known until the next try.
 * Context: as sm_file_truncate.
 */
SM_API void sm_file_refresh(struct sm_file *file);

#ifdef __cplusplus
}
#endif
#endif
