/* SPDX-License-Identifier: MIT */
/* text.c - see text.h. A rank drawn as V^u, u uniform, has probability proportional to 1/rank. */
#include "text.h"
#include "base/random.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VOCABULARY = 20000, LETTERS = 14, BLOCK = 1 << 16 };

struct vocabulary {
	char word[VOCABULARY][LETTERS + 2];
};

/* Frequent words are short: two letters at the top of the list, up to fourteen at its end. */
static void invent(struct vocabulary *v, struct sm__random *r)
{
	static const char letters[] = "etaoinshrdlucmfwypvbgkjqxzETAOI";

	for (unsigned i = 0; i < VOCABULARY; i++) {
		unsigned length = 2 + (unsigned)(log2(i + 1.0) / 2);

		length += (unsigned)sm__random_below(r, 5);
		length = length > LETTERS ? LETTERS : length;
		for (unsigned c = 0; c < length; c++)
			v->word[i][c] = letters[sm__random_below(r, sizeof(letters) - 1)];
		v->word[i][length] = '\0';
	}
}

static const char *draw(const struct vocabulary *v, struct sm__random *r)
{
	double u = (double)(sm__random_next(r) >> 11) / (double)(1ULL << 53);

	return v->word[(unsigned)(exp(u * log((double)VOCABULARY)) - 1)];
}

static int write_all(int fd, const char *data, size_t size)
{
	while (size) {
		ssize_t wrote = write(fd, data, size);

		if (wrote <= 0)
			return errno ? -errno : -EIO;
		data += wrote;
		size -= (size_t)wrote;
	}
	return 0;
}

int bench_text_write(int fd, uint64_t bytes, uint64_t seed)
{
	struct vocabulary *v = malloc(sizeof(*v));
	char *block = malloc(BLOCK + LETTERS + 4);
	struct sm__random r;
	unsigned words = 0;
	int error = v && block ? 0 : -ENOMEM;

	sm__random_seed(&r, seed);
	if (!error)
		invent(v, &r);
	while (bytes && !error) {
		size_t at = 0;

		while (at < BLOCK) {
			at += (size_t)sprintf(block + at, "%s%s", draw(v, &r),
					      ++words % 12 ? " " : ".\n");
		}
		at = at < bytes ? at : bytes;
		if (at == bytes)
			block[at - 1] = '\n'; /* the last word ends inside the text */
		error = write_all(fd, block, at);
		bytes -= at;
	}
	free(block);
	free(v);
	return error;
}
