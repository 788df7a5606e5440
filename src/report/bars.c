/* SPDX-License-Identifier: MIT */
/* bars.c - see bars.h. */
#include "report/bars.h"
#include "report/text.h"

#include <stdbool.h>
#include <string.h>

enum { POWERS = 65, BAR_WIDTH = 40 };

/* Power of two that holds v: 0 for 0, else 1 + floor(log2 v). */
static unsigned power_of(uint64_t v)
{
	return v ? 64 - (unsigned)__builtin_clzll(v) : 0;
}

static void bound(char *buf, unsigned power)
{
	if (power == 0)
		strcpy(buf, "0 ns");
	else
		sm__text_duration((double)(1ULL << (power - 1)), buf);
}

void sm__bars_print(FILE *out, const struct sm__bar *bars, unsigned n)
{
	uint64_t sums[POWERS] = { 0 }, most = 0;
	unsigned first = POWERS, last = 0;

	for (unsigned i = 0; i < n; i++) {
		unsigned p = power_of(bars[i].low);

		if (!bars[i].count)
			continue;
		sums[p] += bars[i].count;
		most = sums[p] > most ? sums[p] : most;
		first = p < first ? p : first;
		last = p > last ? p : last;
	}
	for (unsigned p = first; p <= last && most; p++) {
		char low[SM__TEXT_NUMBER], high[SM__TEXT_NUMBER], count[SM__TEXT_NUMBER];
		char label[2 * SM__TEXT_NUMBER + 8];
		unsigned width = (unsigned)((__uint128_t)sums[p] * BAR_WIDTH / most);

		bound(low, p);
		if (p == POWERS - 1)
			strcpy(high, "...");
		else
			bound(high, p + 1);
		snprintf(label, sizeof(label), "[%s, %s)", low, high);
		sm__text_pad(out, label, 20, 0);
		sm__text_pad(out, sm__text_count((double)sums[p], count), 14, 1);
		fputs("  |", out);
		for (unsigned i = 0; i < BAR_WIDTH; i++)
			fputc(i < width ? '@' : ' ', out);
		fputs("|\n", out);
	}
}
