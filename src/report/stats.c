/* SPDX-License-Identifier: MIT */
/* stats.c - see stats.h. The t distribution comes from the regularised incomplete beta function. */
#include "report/stats.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double sm__quantile(const double *sorted, unsigned n, double q)
{
	double at = q * (n - 1.0);
	unsigned low;

	if (!n)
		return NAN;
	low = (unsigned)at;
	if (low + 1 >= n)
		return sorted[n - 1];
	return sorted[low] + (at - low) * (sorted[low + 1] - sorted[low]);
}

struct sm__stats sm__stats_of(double *values, unsigned n)
{
	struct sm__stats s = { .n = n };
	double sum = 0, squares = 0;

	qsort(values, n, sizeof(*values), ascending);
	s.min = sm__quantile(values, n, 0);
	s.p25 = sm__quantile(values, n, 0.25);
	s.median = sm__quantile(values, n, 0.5);
	s.p75 = sm__quantile(values, n, 0.75);
	s.max = sm__quantile(values, n, 1);
	for (unsigned i = 0; i < n; i++)
		sum += values[i];
	s.mean = n ? sum / n : NAN;
	for (unsigned i = 0; i < n; i++)
		squares += (values[i] - s.mean) * (values[i] - s.mean);
	s.stdev = n > 1 ? sqrt(squares / (n - 1)) : n ? 0 : NAN;
	return s;
}

/* Continued fraction of the incomplete beta function (modified Lentz). */
static double beta_fraction(double a, double b, double x)
{
	double c = 1, d = 1 - (a + b) * x / (a + 1), h;

	if (fabs(d) < DBL_MIN)
		d = DBL_MIN;
	d = 1 / d;
	h = d;
	for (int m = 1; m <= 300; m++) {
		double step, even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));

		for (int half = 0; half < 2; half++) {
			double k = half ? odd : even;

			d = 1 + k * d;
			c = 1 + k / c;
			d = 1 / (fabs(d) < DBL_MIN ? DBL_MIN : d);
			c = fabs(c) < DBL_MIN ? DBL_MIN : c;
			step = d * c;
			h *= step;
		}
		if (fabs(step - 1) < 1e-14)
			break;
	}
	return h;
}

static double incomplete_beta(double a, double b, double x)
{
	double front;

	if (x <= 0 || x >= 1)
		return x <= 0 ? 0 : 1;
	front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
	if (x < (a + 1) / (a + b + 2))
		return front * beta_fraction(a, b, x) / a;
	return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double sm__welch_p(const struct sm__stats *a, const struct sm__stats *b)
{
	double va, vb, t2, freedom;

	if (a->n < 2 || b->n < 2)
		return NAN;
	va = a->stdev * a->stdev / a->n;
	vb = b->stdev * b->stdev / b->n;
	if (va + vb <= 0)
		return a->mean == b->mean ? 1 : 0;
	t2 = (a->mean - b->mean) * (a->mean - b->mean) / (va + vb);
	freedom = (va + vb) * (va + vb) / (va * va / (a->n - 1) + vb * vb / (b->n - 1));
	return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t2));
}
