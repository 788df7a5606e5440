/* SPDX-License-Identifier: MIT */
/*
 * scan.h - the small scanners that both recording formats are read with.
 *
 * I1 Every text ends with '\n' (source.h I1) and no scanner passes it.
 * I2 A scanner returns the place after what it read, or NULL where it could read nothing.
 */
#ifndef SM_TRACE_SCAN_H
#define SM_TRACE_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sm__value_kind {
	SM__VALUE_NONE,	   /* nothing, "..." */
	SM__VALUE_NUMBER,  /* a number, or constants joined by | */
	SM__VALUE_UNKNOWN, /* constants, one of which has no known value: text names it */
	SM__VALUE_STRING,  /* text: what stands between the quotes, escapes and all */
	SM__VALUE_GROUP,   /* a structure, an array: text with its brackets */
};

struct sm__value {
	enum sm__value_kind kind;
	uint64_t number;
	const char *text;
	size_t len;
	const char *path; /* of a descriptor, or NULL */
	size_t path_len;
};

static inline const char *sm__skip_blanks(const char *p)
{
	while (*p == ' ' || *p == '\t' || *p == '\r')
		p++;
	return p;
}

static inline bool sm__is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool sm__is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || sm__is_digit(c) || c == '_';
}

/* Decimal digits; wraps beyond 64 bits. */
static inline const char *sm__scan_decimal(const char *p, uint64_t *out)
{
	uint64_t n = 0;

	if (!sm__is_digit(*p))
		return NULL;
	for (; sm__is_digit(*p); p++)
		n = n * 10 + (uint64_t)(*p - '0');
	*out = n;
	return p;
}

/* Decimal, 0x hexadecimal or 0 octal, with a sign: the negative as its two's complement. */
const char *sm__scan_number(const char *p, uint64_t *out);
/* Hexadecimal digits without 0x. */
const char *sm__scan_hex(const char *p, uint64_t *out);
/* seconds[.fraction] in ns; fraction of any precision. */
const char *sm__scan_seconds(const char *p, uint64_t *ns);
/* An argument up to the ',' or ')' behind it; prefix as in struct sm__arg_spec. */
const char *sm__scan_value(const char *p, const char *prefix, struct sm__value *v);
/* From an opening bracket past the one that closes it, over strings and comments. */
const char *sm__skip_group(const char *p);

#endif
