/* SPDX-License-Identifier: MIT */
/* scan.c - the small scanners that both recording formats are read with (scan.h). */
#include "trace/scan.h"
#include "trace/symbols.h"

#include <string.h>

static inline int hex_digit(char c)
{
	if (sm__is_digit(c))
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

const char *sm__scan_hex(const char *p, uint64_t *out)
{
	uint64_t n = 0;
	int d = hex_digit(*p);

	if (d < 0)
		return NULL;
	for (; d >= 0; d = hex_digit(*++p))
		n = n << 4 | (uint64_t)d;
	*out = n;
	return p;
}

const char *sm__scan_number(const char *p, uint64_t *out)
{
	bool minus = *p == '-';
	uint64_t n = 0;

	p += minus;
	if (!sm__is_digit(*p))
		return NULL;
	if (*p == '0' && (p[1] | 0x20) == 'x' && hex_digit(p[2]) >= 0) {
		p = sm__scan_hex(p + 2, &n);
	} else if (*p == '0') {
		for (; *p >= '0' && *p <= '7'; p++)
			n = n << 3 | (uint64_t)(*p - '0');
	} else {
		p = sm__scan_decimal(p, &n);
	}
	*out = minus ? 0 - n : n;
	return p;
}

const char *sm__scan_seconds(const char *p, uint64_t *ns)
{
	uint64_t seconds, unit = 1000000000;

	p = sm__scan_decimal(p, &seconds);
	if (!p)
		return NULL;
	*ns = seconds * unit;
	if (*p == '.' && sm__is_digit(p[1])) {
		for (p++; sm__is_digit(*p); p++) {
			unit /= 10;
			*ns += unit * (uint64_t)(*p - '0');
		}
	}
	return p;
}

/* Past the closing quote, or at the '\n' that came first. */
static const char *skip_string(const char *p)
{
	for (p++; *p != '"' && *p != '\n'; p++) {
		if (*p == '\\' && p[1] != '\n')
			p++;
	}
	return *p == '"' ? p + 1 : p;
}

static const char *skip_comment(const char *p)
{
	for (p += 2; *p != '\n'; p++) {
		if (*p == '*' && p[1] == '/')
			return p + 2;
	}
	return p;
}

const char *sm__skip_group(const char *p)
{
	size_t depth = 0;

	while (*p != '\n') {
		switch (*p) {
		case '(':
		case '[':
		case '{':
			depth++;
			p++;
			break;
		case ')':
		case ']':
		case '}':
			p++;
			if (!--depth)
				return p;
			break;
		case '"':
			p = skip_string(p);
			break;
		case '/':
			p = p[1] == '*' ? skip_comment(p) : p + 1;
			break;
		default:
			p++;
		}
	}
	return p;
}

/* </path>, <TCP:[a->b]>, <t> after a number; strace writes < and > of a path as escapes. */
static const char *scan_path(const char *p, struct sm__value *v)
{
	size_t depth = 0;

	v->path = ++p;
	for (; *p != '\n' && (*p != '>' || depth); p++) {
		if (*p == '[')
			depth++;
		else if (*p == ']' && depth)
			depth--;
	}
	v->path_len = (size_t)(p - v->path);
	if (*p == '>')
		p++;
	if (!strncmp(p, "(deleted)", 9))
		p += 9;
	return p;
}

static const char *scan_word(const char *p, const char *prefix, struct sm__value *v)
{
	const char *word = p;
	uint64_t n;
	size_t len;

	while (sm__is_word(*p))
		p++;
	len = (size_t)(p - word);
	if (sm__symbol_find("", word, len, &n) ||
	    (prefix && sm__symbol_find(prefix, word, len, &n))) {
		v->number |= n;
	} else if (v->kind != SM__VALUE_UNKNOWN) {
		v->kind = SM__VALUE_UNKNOWN;
		v->text = word;
		v->len = len;
	}
	return p;
}

/* n, n<<MAP_HUGE_SHIFT, n</path> */
static const char *scan_term(const char *p, struct sm__value *v)
{
	uint64_t n;

	p = sm__scan_number(p, &n);
	if (!p)
		return NULL;
	if (p[0] == '<' && p[1] == '<') {
		for (p += 2; sm__is_word(*p); p++)
			;
		n <<= 26; /* MAP_HUGE_SHIFT is the only shift that is printed */
	} else if (*p == '<') {
		p = scan_path(p, v);
	}
	v->number |= n;
	return p;
}

/* number, constants and both joined by |, each with a comment behind it */
static const char *scan_terms(const char *p, const char *prefix, struct sm__value *v)
{
	v->kind = SM__VALUE_NUMBER;
	for (;;) {
		if (sm__is_digit(*p) || *p == '-') {
			p = scan_term(p, v);
			if (!p)
				return NULL;
		} else if (sm__is_word(*p)) {
			p = scan_word(p, prefix, v);
			if (*p == '<')
				p = scan_path(p, v);
			else if (*p == '(')
				p = sm__skip_group(p);
		} else {
			return NULL;
		}
		p = sm__skip_blanks(p);
		if (p[0] == '/' && p[1] == '*')
			p = sm__skip_blanks(skip_comment(p));
		if (*p != '|')
			return p;
		p = sm__skip_blanks(p + 1);
	}
}

/* -N, --arg-names: name= before the value */
static const char *skip_name(const char *p)
{
	const char *q = p;

	while (sm__is_word(*q))
		q++;
	return q > p && *q == '=' && q[1] != '>' ? q + 1 : p;
}

const char *sm__scan_value(const char *p, const char *prefix, struct sm__value *v)
{
	*v = (struct sm__value){ SM__VALUE_NONE, 0, NULL, 0, NULL, 0 };
	p = sm__skip_blanks(p);
	if (!sm__is_digit(*p))
		p = skip_name(p);
	if (*p == '~' || *p == '&')
		p++;
	if (*p == '"') {
		v->kind = SM__VALUE_STRING;
		v->text = p + 1;
		p = skip_string(p);
		v->len = (size_t)(p - v->text) - (p[-1] == '"' && p > v->text);
	} else if (*p == '[' || *p == '{') {
		v->kind = SM__VALUE_GROUP;
		v->text = p;
		p = sm__skip_group(p);
		v->len = (size_t)(p - v->text);
	} else if (*p != '.') {
		p = scan_terms(p, prefix, v);
		if (!p)
			return NULL;
	}
	if (!strncmp(p, "...", 3))
		p += 3;
	p = sm__skip_blanks(p);
	if (p[0] == '/' && p[1] == '*')
		p = sm__skip_blanks(skip_comment(p));
	if (p[0] == '=' && p[1] == '>') { /* what the kernel wrote there */
		p = sm__skip_blanks(p + 2);
		p = *p == '[' || *p == '{' ? sm__skip_group(p) : p + strcspn(p, ",)\n");
		p = sm__skip_blanks(p);
	}
	return p;
}
