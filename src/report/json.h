/* SPDX-License-Identifier: MIT */
/*
 * json.h - a write-only JSON emitter (RFC 8259).
 *
 * I1 Whatever is passed in, the output is one well-formed JSON text: strings are escaped, bytes
 *    that are not UTF-8 become U+FFFD, a number that is not finite becomes null.
 * I2 Numbers read back to the same double (shortest of 15 to 17 digits), integers to the same
 *    64-bit integer; the locale's decimal point never shows.
 * I3 A member's key is given inside an object and NULL inside an array (asserted: it is our code
 *    that calls, never input). Depth is at most SM__JSON_DEPTH.
 *
 *   struct sm__json j;
 *   sm__json_init(&j, stdout);
 *   sm__json_open(&j, NULL, '{');
 *   sm__json_text(&j, "case", "pair");
 *   sm__json_number(&j, "ratio", 0.5);
 *   sm__json_open(&j, "rows", '[');
 *   sm__json_close(&j);
 *   sm__json_close(&j);
 *   if (sm__json_finish(&j)) ...       the stream had an error
 */
#ifndef SM_REPORT_JSON_H
#define SM_REPORT_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { SM__JSON_DEPTH = 16 };

struct sm__json {
	FILE *out;
	unsigned depth;
	char closer[SM__JSON_DEPTH]; /* what closes the level: '}' or ']' */
	bool filled[SM__JSON_DEPTH]; /* the level has a member */
};

void sm__json_init(struct sm__json *j, FILE *out);
/* Opens an object ('{') or an array ('['). */
void sm__json_open(struct sm__json *j, const char *key, char kind);
void sm__json_close(struct sm__json *j);
/* text NULL writes null. */
void sm__json_text(struct sm__json *j, const char *key, const char *text);
void sm__json_number(struct sm__json *j, const char *key, double value);
void sm__json_uint(struct sm__json *j, const char *key, uint64_t value);
void sm__json_bool(struct sm__json *j, const char *key, bool value);
void sm__json_null(struct sm__json *j, const char *key);
/* Ends the text with a newline and flushes. Return: 0, or -EIO when the stream has an error. */
int sm__json_finish(struct sm__json *j);

/* The shortest form that reads back equal; value is finite. buf: at least 32 bytes. */
char *sm__json_format(double value, char *buf);

#endif
