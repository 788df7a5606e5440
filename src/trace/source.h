/* SPDX-License-Identifier: MIT */
/*
 * source.h - lines out of a file or a piece of memory, decompressed on the way.
 *
 * I1 A line is followed by '\n' in memory, always: scanners need no end pointer, '\n' stops them.
 * I2 A line holds no '\n', and no escape sequence that sets colours.
 * I3 Memory: one block of the decompressor and one line of at most SM__LINE_MAX bytes.
 */
#ifndef SM_TRACE_SOURCE_H
#define SM_TRACE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* strace prints at most 32 bytes of a string unless told otherwise; a line this long is no line. */
#define SM__LINE_MAX (1u << 20)

struct sm__source;

struct sm__line {
	const char *text;
	size_t len;
	bool open;     /* the file ended inside this line */
	bool overlong; /* more than SM__LINE_MAX bytes: text holds the beginning only */
};

/* path or, if path is NULL, size bytes at data. 0, -ENOMEM, -ENODATA (empty), -errno of open(2). */
int sm__source_open(const char *path, const void *data, size_t size, struct sm__source **out);
/* 1 and a line, valid until the next call; 0 at the end; -EIO, -ENOMEM. */
int sm__source_next(struct sm__source *s, struct sm__line *line);
/* Why the last call failed. */
const char *sm__source_error(const struct sm__source *s);
uint64_t sm__source_bytes(const struct sm__source *s);	/* of text */
uint64_t sm__source_offset(const struct sm__source *s); /* in the file */
void sm__source_close(struct sm__source *s);

#endif
