/* SPDX-License-Identifier: MIT */
/*
 * file_host.c - files of the host process: a duplicated descriptor behind the function table.
 *
 * I1 The descriptor is ours alone (dup with close-on-exec) and is closed with the file.
 * I2 It does not append: with O_APPEND pwrite writes at the end whatever its offset says.
 * I3 Only a file that may still be sealed is asked for its seals at each mapping (sealable_ops).
 */
#include "memory/file.h"
#include "memory/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static int fd_of(void *arg)
{
	return (int)(intptr_t)arg;
}

static uint64_t host_size(void *arg)
{
	struct stat st;

	return fstat(fd_of(arg), &st) ? 0 : (uint64_t)st.st_size;
}

static int host_read_page(void *arg, uint64_t offset, void *page, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n =
			pread(fd_of(arg), (char *)page + done, len - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		done += (size_t)n;
	}
	return 0;
}

/* Guests may be writing to the page (sm__copy_live): what the thread sanitizer sees stands still. */
static ssize_t write_some(int fd, const char *from, size_t len, off_t at)
{
#if SM_TSAN
	char still[4096];

	if (len > sizeof(still))
		len = sizeof(still);
	sm__copy_live(still, from, len);
	from = still;
#endif
	return pwrite(fd, from, len, at);
}

static int host_write_page(void *arg, uint64_t offset, const void *page, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = write_some(fd_of(arg), (const char *)page + done, len - done,
				       (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			return -EIO;
		done += (size_t)n;
	}
	return 0;
}

static int host_punch(void *arg, uint64_t offset, uint64_t len)
{
	int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

	return fallocate(fd_of(arg), mode, (off_t)offset, (off_t)len) ? -errno : 0;
}

static int host_truncate(void *arg, uint64_t size)
{
	return ftruncate(fd_of(arg), (off_t)size) ? -errno : 0;
}

static int host_sync(void *arg)
{
	/* What has no disk behind it (memfd on some kernels) answers EINVAL: nothing to make
	 * durable. */
	return fdatasync(fd_of(arg)) && errno != EINVAL ? -errno : 0;
}

static void host_close(void *arg)
{
	close(fd_of(arg));
}

static bool host_sealed(void *arg)
{
	int seals = fcntl(fd_of(arg), F_GET_SEALS);

	return seals > 0 && (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE));
}

#define HOST_OPS                                                                       \
	.size = host_size, .read_page = host_read_page, .write_page = host_write_page, \
	.punch = host_punch, .truncate = host_truncate, .sync = host_sync, .close = host_close

static const struct sm_file_ops host_ops = { HOST_OPS };
static const struct sm_file_ops sealable_ops = { HOST_OPS, .sealed = host_sealed };

/* I3. Files of a tmpfs have seals too, but no more can be added: they are born with F_SEAL_SEAL. */
static const struct sm_file_ops *ops_of(int fd)
{
	const int of_interest = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals < 0 || (seals & of_interest) == F_SEAL_SEAL ? &host_ops : &sealable_ops;
}

/* Whether mmap refuses the file whatever is asked. One that can't be read says EACCES before that. */
static bool refuses_mmap(int fd)
{
	size_t length = (size_t)sysconf(_SC_PAGESIZE);
	void *at = mmap(NULL, length, PROT_NONE, MAP_PRIVATE, fd, 0);

	if (at == MAP_FAILED)
		return errno == ENODEV || errno == EIO; /* EIO: some files of /proc */
	munmap(at, length);
	return false;
}

/* The mode bits of an open descriptor, or -EBADF, -ENODEV. */
static int mode_of(int fd, const struct stat *st)
{
	int flags = fcntl(fd, F_GETFL);
	struct statvfs vfs;
	int mode = 0;

	if (flags < 0)
		return -errno;
	if (flags & O_PATH)
		return -EBADF;
	if ((flags & O_ACCMODE) != O_WRONLY)
		mode |= SM_FILE_READ;
	if ((flags & O_ACCMODE) != O_RDONLY)
		mode |= SM_FILE_WRITE;
	if (S_ISDIR(st->st_mode))
		mode |= SM_FILE_DIRECTORY;
	else if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
		mode |= SM_FILE_DEVICE;
	else if (!S_ISREG(st->st_mode))
		return -ENODEV;
	if (!fstatvfs(fd, &vfs) && (vfs.f_flag & ST_NOEXEC))
		mode |= SM_FILE_NOEXEC;
	if (!S_ISDIR(st->st_mode) && refuses_mmap(fd))
		mode |= SM_FILE_NO_MMAP;
	return mode;
}

/* The path behind a descriptor as /proc shows it; an empty name where there is no /proc. */
static void path_of(int fd, char *path, size_t size)
{
	char link[sizeof("/proc/self/fd/") + 3 * sizeof(int)];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, size - 1);
	path[n < 0 ? 0 : n] = '\0';
}

/* A descriptor of our own (I1, I2), or -errno. */
static int own_descriptor(int fd, mode_t type)
{
	int flags = fcntl(fd, F_GETFL), own;

	if (S_ISREG(type) && flags >= 0 && (flags & O_APPEND) && (flags & O_ACCMODE) != O_RDONLY) {
		char link[sizeof("/proc/self/fd/") + 3 * sizeof(int)];

		/* A new open file description: to clear the flag would clear the caller's. */
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		own = open(link, (flags & O_ACCMODE) | O_CLOEXEC);
	} else {
		own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	}
	return own < 0 ? -errno : own;
}

int sm_file_open_fd(int fd, const char *name, struct sm_file **out)
{
	struct sm_file_info info = { 0 };
	char path[PATH_MAX];
	struct stat st;
	int own, mode, err;

	*out = NULL;
	if (fstat(fd, &st))
		return -errno;
	mode = mode_of(fd, &st);
	if (mode < 0)
		return mode;
	if (!name) {
		path_of(fd, path, sizeof(path));
		name = path;
	}
	info.name = name;
	info.ino = st.st_ino;
	info.dev_major = major(st.st_dev);
	info.dev_minor = minor(st.st_dev);
	info.mode = (uint32_t)mode;
	own = own_descriptor(fd, st.st_mode);
	if (own < 0)
		return own;
	err = sm_file_create(&info, ops_of(own), (void *)(intptr_t)own, out);
	if (err)
		close(own);
	return err;
}
