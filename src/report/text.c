/* SPDX-License-Identifier: MIT */
/* text.c - UTF-8 and numbers for columns of text (rules: text.h). */
#include "report/text.h"
#include "base/base.h"

#include <math.h>
#include <string.h>

/* Length and least code point of the sequence that starts with byte b; length 0: no such start. */
static unsigned sequence(unsigned char b, uint32_t *least)
{
	if (b < 0x80) {
		*least = 0;
		return 1;
	}
	if (b >= 0xc2 && b <= 0xdf) {
		*least = 0x80;
		return 2;
	}
	if (b >= 0xe0 && b <= 0xef) {
		*least = 0x800;
		return 3;
	}
	if (b >= 0xf0 && b <= 0xf4) {
		*least = 0x10000;
		return 4;
	}
	return 0;
}

uint32_t sm__utf8_next(const char **s)
{
	const unsigned char *p = (const unsigned char *)*s;
	uint32_t least = 0, c;
	unsigned n = sequence(*p, &least);

	*s += 1;
	if (n == 1)
		return *p;
	if (n == 0)
		return SM__UTF8_REPLACEMENT;
	c = *p & (0x7fu >> n);
	for (unsigned i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80) /* also stops at the terminating zero */
			return SM__UTF8_REPLACEMENT;
		c = c << 6 | (p[i] & 0x3fu);
	}
	if (c < least || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return SM__UTF8_REPLACEMENT;
	*s += n - 1;
	return c;
}

unsigned sm__utf8_put(uint32_t c, char *buf)
{
	if (c < 0x80) {
		buf[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		buf[0] = (char)(0xc0 | c >> 6);
		buf[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		buf[0] = (char)(0xe0 | c >> 12);
		buf[1] = (char)(0x80 | (c >> 6 & 0x3f));
		buf[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	buf[0] = (char)(0xf0 | c >> 18);
	buf[1] = (char)(0x80 | (c >> 12 & 0x3f));
	buf[2] = (char)(0x80 | (c >> 6 & 0x3f));
	buf[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

struct span {
	uint32_t first, last;
};

/* The blocks that matter in file names; not the whole of Unicode's table. */
static const struct span zero_width[] = {
	{ 0x0300, 0x036f }, { 0x0483, 0x0489 }, { 0x0591, 0x05bd }, { 0x064b, 0x065f },
	{ 0x1ab0, 0x1aff }, { 0x1dc0, 0x1dff }, { 0x200b, 0x200f }, { 0x202a, 0x202e },
	{ 0x2060, 0x2064 }, { 0x20d0, 0x20ff }, { 0xfe00, 0xfe0f }, { 0xfe20, 0xfe2f },
	{ 0xfeff, 0xfeff },
};
static const struct span double_width[] = {
	{ 0x1100, 0x115f },   { 0x2e80, 0x303e },   { 0x3041, 0x33ff }, { 0x3400, 0x4dbf },
	{ 0x4e00, 0x9fff },   { 0xa000, 0xa4cf },   { 0xac00, 0xd7a3 }, { 0xf900, 0xfaff },
	{ 0xfe30, 0xfe6f },   { 0xff00, 0xff60 },   { 0xffe0, 0xffe6 }, { 0x1f300, 0x1f64f },
	{ 0x1f900, 0x1f9ff }, { 0x20000, 0x3fffd },
};

static bool in_spans(uint32_t c, const struct span *spans, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (c >= spans[i].first && c <= spans[i].last)
			return true;
	}
	return false;
}

bool sm__is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x202a && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069);
}

static unsigned width_of(uint32_t c)
{
	if (sm__is_control(c))
		return 1; /* printed as the replacement character */
	if (in_spans(c, zero_width, SM__ARRAY_SIZE(zero_width)))
		return 0;
	return in_spans(c, double_width, SM__ARRAY_SIZE(double_width)) ? 2 : 1;
}

unsigned sm__text_width(const char *s)
{
	unsigned width = 0;

	while (*s)
		width += width_of(sm__utf8_next(&s));
	return width;
}

static void spaces(FILE *out, unsigned n)
{
	while (n--)
		fputc(' ', out);
}

void sm__text_pad(FILE *out, const char *s, unsigned width, bool right)
{
	unsigned own = sm__text_width(s);
	unsigned pad = width > own ? width - own : 0;

	if (right)
		spaces(out, pad);
	while (*s) {
		uint32_t c = sm__utf8_next(&s);
		char buf[4];

		if (sm__is_control(c))
			c = SM__UTF8_REPLACEMENT;
		fwrite(buf, 1, sm__utf8_put(c, buf), out);
	}
	if (!right)
		spaces(out, pad);
}

/* Three significant digits where there are units to scale by; "n/a" for what is not a number. */
static char *scaled(double v, double step, const char *const *units, char *buf)
{
	unsigned i = 0;
	double a = fabs(v);

	if (!isfinite(v))
		return strcpy(buf, "n/a");
	while (a >= step * 0.9995 && units[i + 1]) {
		a /= step;
		v /= step;
		i++;
	}
	snprintf(buf, SM__TEXT_NUMBER, "%.*f %s",
		 a >= 99.95 || a == 0 ? 0
		 : a >= 9.995	      ? 1
				      : 2,
		 v, units[i]);
	return buf;
}

char *sm__text_duration(double ns, char *buf)
{
	static const char *const units[] = { "ns", "µs", "ms", "s", NULL };

	return scaled(ns, 1000, units, buf);
}

char *sm__text_bytes(double bytes, char *buf)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", NULL };

	return scaled(bytes, 1024, units, buf);
}

char *sm__text_count(double n, char *buf)
{
	char digits[32];
	unsigned len, out = 0;
	bool negative = n < 0;

	if (!isfinite(n) || fabs(n) >= 1e18)
		return strcpy(buf, "n/a");
	len = (unsigned)snprintf(digits, sizeof(digits), "%.0f", fabs(n));
	if (negative)
		buf[out++] = '-';
	for (unsigned i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			buf[out++] = ' ';
		buf[out++] = digits[i];
	}
	buf[out] = '\0';
	return buf;
}
