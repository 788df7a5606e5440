/* SPDX-License-Identifier: MIT */
/* json.c - the emitter of json.h. One member a line, two spaces a level. */
#include "report/json.h"
#include "report/text.h"
#include "base/base.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void sm__json_init(struct sm__json *j, FILE *out)
{
	memset(j, 0, sizeof(*j));
	j->out = out;
}

static void quote(FILE *out, const char *s)
{
	fputc('"', out);
	while (*s) {
		uint32_t c = sm__utf8_next(&s);
		char buf[4];

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", (char)c);
		else if (c == '\n')
			fputs("\\n", out);
		else if (c == '\t')
			fputs("\\t", out);
		else if (c < 0x20 || c == 0x7f)
			fprintf(out, "\\u%04x", c);
		else
			fwrite(buf, 1, sm__utf8_put(c, buf), out);
	}
	fputc('"', out);
}

static void indent(struct sm__json *j)
{
	fputc('\n', j->out);
	for (unsigned i = 0; i < j->depth; i++)
		fputs("  ", j->out);
}

/* The comma, the line and the key before a value. */
static void before(struct sm__json *j, const char *key)
{
	if (!j->depth) {
		SM_ASSERT(!key);
		return;
	}
	SM_ASSERT((j->closer[j->depth - 1] == '}') == (key != NULL)); /* I3 */
	if (j->filled[j->depth - 1])
		fputc(',', j->out);
	j->filled[j->depth - 1] = true;
	indent(j);
	if (key) {
		quote(j->out, key);
		fputs(": ", j->out);
	}
}

void sm__json_open(struct sm__json *j, const char *key, char kind)
{
	SM_ASSERT(kind == '{' || kind == '[');
	SM_ASSERT(j->depth < SM__JSON_DEPTH);
	before(j, key);
	fputc(kind, j->out);
	j->closer[j->depth] = kind == '{' ? '}' : ']';
	j->filled[j->depth] = false;
	j->depth++;
}

void sm__json_close(struct sm__json *j)
{
	SM_ASSERT(j->depth);
	j->depth--;
	if (j->filled[j->depth])
		indent(j);
	fputc(j->closer[j->depth], j->out);
}

void sm__json_text(struct sm__json *j, const char *key, const char *text)
{
	before(j, key);
	if (text)
		quote(j->out, text);
	else
		fputs("null", j->out);
}

char *sm__json_format(double value, char *buf)
{
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(buf, 32, "%.*g", digits, value);
		if (strtod(buf, NULL) == value)
			break;
	}
	for (char *p = buf; *p; p++) {
		if (*p == ',')
			*p = '.'; /* I2: a locale with a decimal comma */
	}
	return buf;
}

void sm__json_number(struct sm__json *j, const char *key, double value)
{
	char buf[32];

	before(j, key);
	fputs(isfinite(value) ? sm__json_format(value, buf) : "null", j->out);
}

void sm__json_uint(struct sm__json *j, const char *key, uint64_t value)
{
	before(j, key);
	fprintf(j->out, "%" PRIu64, value);
}

void sm__json_bool(struct sm__json *j, const char *key, bool value)
{
	before(j, key);
	fputs(value ? "true" : "false", j->out);
}

void sm__json_null(struct sm__json *j, const char *key)
{
	before(j, key);
	fputs("null", j->out);
}

int sm__json_finish(struct sm__json *j)
{
	SM_ASSERT(!j->depth);
	fputc('\n', j->out);
	return fflush(j->out) || ferror(j->out) ? -EIO : 0;
}
