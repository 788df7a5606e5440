/* SPDX-License-Identifier: MIT */
/*
 * source.c - lines out of a file or a piece of memory, decompressed on the way (source.h).
 *
 * Most lines are handed out where they lie in the decompressor's block. Only a line that crosses
 * the end of a block, or carries colours, is copied.
 *
 *        block n                       block n+1
 *   ...\nline\nline\nbegin|            |ning of a line\nline\n...
 *        ^ in place       \__ carry ___/^ copied once
 */
#include "trace/source.h"
#include "base/inject.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BLOCK (256u << 10)

struct sm__source {
	struct archive *archive;
	const char *pos, *end; /* what is left of the block */
	char *carry;	       /* a line that does not lie in one block, '\n' after it */
	size_t carry_len, carry_room;
	uint64_t bytes;
	int fd;
	bool ended;
	char error[160];
};

static int fail(struct sm__source *s)
{
	const char *what = archive_error_string(s->archive);

	/* Of read(2) libarchive says the number of the descriptor; why is in its errno. */
	if (what && !strncmp(what, "Error reading", 13))
		what = strerror(archive_errno(s->archive));
	snprintf(s->error, sizeof(s->error), "%s", what ? what : "cannot be read");
	s->ended = true;
	return -EIO;
}

/* Only filters that libarchive has inside: none that would start a program. */
static int archive_start(struct sm__source *s, const void *data, size_t size)
{
	struct archive_entry *entry;
	int r;

	if (sm__inject_fail() || !(s->archive = archive_read_new()))
		return -ENOMEM;
	archive_read_support_filter_xz(s->archive);
	archive_read_support_filter_lzma(s->archive);
	archive_read_support_filter_gzip(s->archive);
	archive_read_support_filter_zstd(s->archive);
	archive_read_support_filter_bzip2(s->archive);
	archive_read_support_format_raw(s->archive);
	archive_read_support_format_empty(s->archive);
	if (s->fd >= 0)
		r = archive_read_open_fd(s->archive, s->fd, READ_BLOCK);
	else
		r = archive_read_open_memory(s->archive, data, size);
	if (r == ARCHIVE_OK)
		r = archive_read_next_header(s->archive, &entry);
	if (r == ARCHIVE_EOF)
		return -ENODATA;
	if (r < ARCHIVE_WARN) {
		fail(s);
		return 0;
	}
	return 0;
}

static int open_file(const char *path)
{
	struct stat st;
	int fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : dup(STDIN_FILENO);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		err = -errno;
	else if (S_ISDIR(st.st_mode))
		err = -EISDIR;
	if (err)
		close(fd);
	return err ? err : fd;
}

int sm__source_open(const char *path, const void *data, size_t size, struct sm__source **out)
{
	struct sm__source *s;
	int err = 0;

	*out = NULL;
	s = sm__calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->fd = -1;
	if (path) {
		s->fd = open_file(path);
		err = s->fd < 0 ? s->fd : 0;
	} else if (!size) {
		err = -ENODATA;
	}
	if (!err)
		err = archive_start(s, data, size);
	if (err) {
		sm__source_close(s);
		return err;
	}
	*out = s;
	return 0;
}

/* The next block into pos and end: 1, 0 at the end, -EIO. */
static int fill(struct sm__source *s)
{
	const void *block;
	size_t size;
	la_int64_t offset;
	int r;

	if (s->ended)
		return s->error[0] ? -EIO : 0;
	do {
		r = archive_read_data_block(s->archive, &block, &size, &offset);
		if (r == ARCHIVE_EOF) {
			s->ended = true;
			return 0;
		}
		if (r != ARCHIVE_OK)
			return fail(s);
	} while (!size);
	s->bytes += size;
	s->pos = block;
	s->end = s->pos + size;
	return 1;
}

/* Room for len bytes and a '\n' in the carry. */
static int carry_reserve(struct sm__source *s, size_t len)
{
	size_t room = s->carry_room ? s->carry_room : 4096;
	char *grown;

	if (len < s->carry_room)
		return 0;
	while (room <= len)
		room *= 2;
	grown = sm__inject_fail() ? NULL : realloc(s->carry, room);
	if (!grown)
		return -ENOMEM;
	s->carry = grown;
	s->carry_room = room;
	return 0;
}

static int carry_append(struct sm__source *s, const char *text, size_t len, bool *overlong)
{
	if (len > SM__LINE_MAX - s->carry_len) {
		len = SM__LINE_MAX - s->carry_len;
		*overlong = true;
	}
	if (carry_reserve(s, s->carry_len + len))
		return -ENOMEM;
	memcpy(s->carry + s->carry_len, text, len);
	s->carry_len += len;
	s->carry[s->carry_len] = '\n';
	return 0;
}

/* A line whose end is not in this block: collect it from as many blocks as it takes. */
static int long_line(struct sm__source *s, struct sm__line *line)
{
	s->carry_len = 0;
	for (;;) {
		const char *nl = s->pos < s->end ? memchr(s->pos, '\n', s->end - s->pos) : NULL;
		const char *stop = nl ? nl : s->end;
		int r;

		if (s->pos < stop || !s->carry) {
			r = carry_append(s, s->pos ? s->pos : "", stop - s->pos, &line->overlong);
			if (r)
				return r;
		}
		s->pos = nl ? nl + 1 : s->end;
		if (nl)
			break;
		r = fill(s);
		if (r < 0)
			return r;
		if (!r) {
			if (!s->carry_len)
				return 0;
			line->open = true;
			break;
		}
	}
	line->text = s->carry;
	line->len = s->carry_len;
	return 1;
}

/* Copies the line without ESC [ ... letter (I2). */
static int strip_colours(struct sm__source *s, struct sm__line *line)
{
	const char *from = line->text, *end = from + line->len;
	char *to;

	if (line->text != s->carry) {
		if (carry_reserve(s, line->len))
			return -ENOMEM;
	}
	to = s->carry;
	while (from < end) {
		if (*from != '\033') {
			*to++ = *from++;
			continue;
		}
		from++;
		if (from < end && *from == '[') {
			from++;
			while (from < end && !(*from >= '@' && *from <= '~'))
				from++;
			from += from < end;
		}
	}
	*to = '\n';
	line->text = s->carry;
	line->len = to - s->carry;
	return 1;
}

int sm__source_next(struct sm__source *s, struct sm__line *line)
{
	const char *nl = s->pos < s->end ? memchr(s->pos, '\n', s->end - s->pos) : NULL;

	*line = (struct sm__line){ 0 };
	if (nl) {
		line->text = s->pos;
		line->len = nl - s->pos;
		line->overlong = line->len > SM__LINE_MAX;
		s->pos = nl + 1;
	} else {
		int r = long_line(s, line);

		if (r <= 0)
			return r;
	}
	if (memchr(line->text, '\033', line->len))
		return strip_colours(s, line);
	return 1;
}

const char *sm__source_error(const struct sm__source *s)
{
	return s->error;
}

uint64_t sm__source_bytes(const struct sm__source *s)
{
	return s->bytes - (uint64_t)(s->end - s->pos);
}

uint64_t sm__source_offset(const struct sm__source *s)
{
	return s->archive ? (uint64_t)archive_filter_bytes(s->archive, -1) : 0;
}

void sm__source_close(struct sm__source *s)
{
	if (!s)
		return;
	if (s->archive)
		archive_read_free(s->archive);
	if (s->fd >= 0)
		close(s->fd);
	free(s->carry);
	free(s);
}
