/* SPDX-License-Identifier: MIT */
/*
 * stats.h - what a set of samples says: middle, spread, and whether two sets differ.
 *
 * Quantiles interpolate linearly between order statistics (R's type 7, the default of NumPy too).
 */
#ifndef SM_REPORT_STATS_H
#define SM_REPORT_STATS_H

#include <stddef.h>

struct sm__stats {
	unsigned n;
	double min, p25, median, p75, max;
	double mean, stdev; /* stdev of the sample (n - 1); 0 when n < 2 */
};

/* Sorts values (they stay sorted). n == 0 gives NaN everywhere. */
struct sm__stats sm__stats_of(double *values, unsigned n);
/* Quantile q in [0, 1] of sorted values; NaN when n == 0. */
double sm__quantile(const double *sorted, unsigned n, double q);
/*
 * Two-sided p-value of Welch's t-test, from summaries (so that two files can be compared). NaN when
 * a side has fewer than two samples; 1 when both are constant and equal, 0 when constant and
 * different.
 */
double sm__welch_p(const struct sm__stats *a, const struct sm__stats *b);

#endif
