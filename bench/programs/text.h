/* SPDX-License-Identifier: MIT */
/*
 * text.h - a text like a natural one, made from a seed: words of a vocabulary, used by Zipf's law.
 */
#ifndef BENCH_TEXT_H
#define BENCH_TEXT_H

#include <stdint.h>

/*
 * Writes bytes of text to fd from its start. The same seed gives the same text. Return: 0, -errno.
 */
int bench_text_write(int fd, uint64_t bytes, uint64_t seed);

#endif
