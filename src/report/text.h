/* SPDX-License-Identifier: MIT */
/*
 * text.h - UTF-8 in columns: decoding that never fails, width on a terminal, numbers for people.
 *
 * I1 Any byte string is acceptable: a byte that is not part of well-formed UTF-8 (overlong forms,
 *    surrogates, beyond U+10FFFF) decodes alone as U+FFFD.
 * I2 Control characters never reach a terminal: tables print them as U+FFFD, width 1.
 */
#ifndef SM_REPORT_TEXT_H
#define SM_REPORT_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Decodes one character at *s (not at the end), moves *s behind it. Return: the code point (I1). */
uint32_t sm__utf8_next(const char **s);

/* What stands for a byte that is no text, and for a control character. */
enum { SM__UTF8_REPLACEMENT = 0xfffd };

/* Control characters, and those that turn the direction of what follows. */
bool sm__is_control(uint32_t c);

/* Writes a code point as UTF-8 to buf (at least 4 bytes). Return: bytes written. */
unsigned sm__utf8_put(uint32_t c, char *buf);

/* Columns the string takes on a terminal: 0 for combining marks, 2 for wide characters. */
unsigned sm__text_width(const char *s);

/*
 * Prints s, control characters replaced (I2), padded with spaces to width; left- or right-aligned.
 */
void sm__text_pad(FILE *out, const char *s, unsigned width, bool right);

/*
 * Numbers for people, into buf (at least SM__TEXT_NUMBER bytes). Return: buf.
 * duration: ns scaled to ns/µs/ms/s with three digits ("1.24 ms"); bytes: B/KiB/MiB/GiB;
 * count: digits in groups of three ("1 234 567").
 */
#define SM__TEXT_NUMBER 40
char *sm__text_duration(double ns, char *buf);
char *sm__text_bytes(double bytes, char *buf);
char *sm__text_count(double n, char *buf);

#endif
