/* SPDX-License-Identifier: MIT */
/* ops.c - calls as text: one table says what each argument is, printing and parsing follow it. */
#include "support/ops.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "samara/types.h"

const struct ops_fd_spec ops_fd_table[FD_FILES] = {
	[FD_RW] = { 0, true, true },  [FD_BIG] = { 1, true, true }, [FD_SHORT] = { 2, true, true },
	[FD_RO] = { 0, true, false }, [FD_WO] = { 0, false, true }, [FD_DIR] = { -1, true, false },
};
const uint64_t ops_object_size[OPS_OBJECTS] = { 16 * OPS_PAGE, 96 * OPS_PAGE, 1024 };

enum arg_kind {
	ARG_NONE,
	ARG_ADDR,
	ARG_NUMBER,
	ARG_FD,
	ARG_PROT,
	ARG_MAP,
	ARG_MREMAP,
	ARG_ADVICE,
	ARG_MS,
};

static const struct {
	const char *name;
	enum arg_kind arg[OPS_MAX_ARGS];
} calls[OP_KINDS] = {
	[OP_MMAP] = { "mmap", { ARG_ADDR, ARG_NUMBER, ARG_PROT, ARG_MAP, ARG_FD, ARG_NUMBER } },
	[OP_MUNMAP] = { "munmap", { ARG_ADDR, ARG_NUMBER } },
	[OP_MPROTECT] = { "mprotect", { ARG_ADDR, ARG_NUMBER, ARG_PROT } },
	[OP_MREMAP] = { "mremap", { ARG_ADDR, ARG_NUMBER, ARG_NUMBER, ARG_MREMAP, ARG_ADDR } },
	[OP_BRK] = { "brk", { ARG_ADDR } },
	[OP_MADVISE] = { "madvise", { ARG_ADDR, ARG_NUMBER, ARG_ADVICE } },
	[OP_READ] = { "read", { ARG_ADDR } },
	[OP_WRITE] = { "write", { ARG_ADDR, ARG_NUMBER } },
	[OP_MLOCK2] = { "mlock2", { ARG_ADDR, ARG_NUMBER, ARG_NUMBER } },
	[OP_MUNLOCK] = { "munlock", { ARG_ADDR, ARG_NUMBER } },
	[OP_MSEAL] = { "mseal", { ARG_ADDR, ARG_NUMBER, ARG_NUMBER } },
	[OP_MINCORE] = { "mincore", { ARG_ADDR, ARG_NUMBER } },
	[OP_MSYNC] = { "msync", { ARG_ADDR, ARG_NUMBER, ARG_MS } },
	[OP_PMADVISE] = { "process_madvise",
			  { ARG_ADDR, ARG_NUMBER, ARG_ADDR, ARG_NUMBER, ARG_ADDR, ARG_NUMBER,
			    ARG_ADVICE, ARG_NUMBER } },
	[OP_TRUNCATE] = { "ftruncate", { ARG_FD, ARG_NUMBER } },
	[OP_FORK] = { "fork", { ARG_NUMBER } },
};

const char *ops_name(unsigned kind)
{
	return calls[kind].name;
}

struct name {
	const char *name;
	uint64_t value;
};
#define ENTRY(n) { #n, SM_##n },
static const struct name prot_names[] = { SM__PROT_NAMES(ENTRY){ NULL, 0 } };
static const struct name map_names[] = { SM__MAP_FLAG_NAMES(ENTRY){ NULL, 0 } };
static const struct name type_names[] = { SM__MAP_TYPE_NAMES(ENTRY){ NULL, 0 } };
static const struct name mremap_names[] = { SM__MREMAP_NAMES(ENTRY){ NULL, 0 } };
static const struct name advice_names[] = { SM__MADV_NAMES(ENTRY){ NULL, 0 } };
/* Only read, never printed: shorter words for cases written by hand. */
static const struct name alias_names[] = {
	{ "RW", SM_PROT_READ | SM_PROT_WRITE },
	{ "RX", SM_PROT_READ | SM_PROT_EXEC },
	{ "ANON", SM_MAP_PRIVATE | SM_MAP_ANONYMOUS },
	{ "SHANON", SM_MAP_SHARED | SM_MAP_ANONYMOUS },
	{ "NOFD", FD_BAD },
	{ "PROT_NONE", SM_PROT_NONE },
	{ NULL, 0 },
};
static const struct name ms_names[] = { SM__MS_NAMES(ENTRY){ NULL, 0 } };

/* Prints the names of the bits that have one, then the rest as a number. */
static void print_bits(FILE *out, const struct name *names, uint64_t value, const char *sep)
{
	bool any = *sep;

	for (; names->name; names++) {
		if ((value & names->value) != names->value)
			continue;
		fprintf(out, "%s%s", any ? "|" : "", names->name);
		value &= ~names->value;
		any = true;
	}
	if (value || !any)
		fprintf(out, "%s0x%" PRIx64, any ? "|" : "", value);
}

static void print_map_flags(FILE *out, uint64_t flags)
{
	uint64_t type = flags & SM_MAP_TYPE;

	for (const struct name *t = type_names; t->name; t++) {
		if (t->value != type)
			continue;
		fputs(t->name, out);
		print_bits(out, map_names, flags & ~(uint64_t)SM_MAP_TYPE, "|");
		return;
	}
	print_bits(out, map_names, flags, "");
}

static void print_one_of(FILE *out, const struct name *names, uint64_t value)
{
	for (; names->name; names++) {
		if (names->value == value) {
			fputs(names->name, out);
			return;
		}
	}
	fprintf(out, "0x%" PRIx64, value);
}

static void print_arg(FILE *out, enum arg_kind kind, uint64_t v, uint64_t base)
{
	switch (kind) {
	case ARG_ADDR:
		if (v >= base && v - base < 1ULL << 32)
			fprintf(out, "W+0x%" PRIx64, v - base);
		else if (v < base && base - v < 1ULL << 32)
			fprintf(out, "W-0x%" PRIx64, base - v);
		else
			fprintf(out, "0x%" PRIx64, v);
		break;
	case ARG_PROT:
		print_bits(out, prot_names, v, "");
		break;
	case ARG_MAP:
		print_map_flags(out, v);
		break;
	case ARG_MREMAP:
		print_bits(out, mremap_names, v, "");
		break;
	case ARG_MS:
		print_bits(out, ms_names, v, "");
		break;
	case ARG_ADVICE:
		print_one_of(out, advice_names, v);
		break;
	case ARG_FD:
		fprintf(out, "%d", (int)v);
		break;
	default:
		fprintf(out, "0x%" PRIx64, v);
		break;
	}
}

void ops_print(FILE *out, const struct op *op, uint64_t base)
{
	const enum arg_kind *kind = calls[op->kind].arg;

	fprintf(out, "%u: %s(", op->space, calls[op->kind].name);
	for (int i = 0; i < OPS_MAX_ARGS && kind[i]; i++) {
		if (i)
			fputs(", ", out);
		print_arg(out, kind[i], op->arg[i], base);
	}
	fputc(')', out);
}

void ops_print_all(FILE *out, const struct op *ops, size_t n, uint64_t base)
{
	for (size_t i = 0; i < n; i++) {
		ops_print(out, &ops[i], base);
		fputc('\n', out);
	}
}

static bool find_name(const char *word, size_t len, uint64_t *value)
{
	static const struct name *const tables[] = { prot_names,   map_names,	 type_names,
						     mremap_names, advice_names, ms_names,
						     alias_names };

	for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
		for (const struct name *n = tables[t]; n->name; n++) {
			if (strlen(n->name) == len && !memcmp(n->name, word, len)) {
				*value = n->value;
				return true;
			}
		}
	}
	return false;
}

/* One term: W, a name, or a number with an optional minus. */
static const char *parse_term(const char *p, uint64_t base, uint64_t *value)
{
	const char *start = p;
	char *end;

	if (isupper((unsigned char)*p)) {
		while (isalnum((unsigned char)*p) || *p == '_')
			p++;
		if (p - start == 1 && *start == 'W')
			*value = base;
		else if (!find_name(start, (size_t)(p - start), value))
			return NULL;
		return p;
	}
	errno = 0;
	if (*p == '-')
		*value = (uint64_t)strtoll(p, &end, 0);
	else
		*value = strtoull(p, &end, 0);
	if (end == p || errno)
		return NULL;
	if (*end == 'P') { /* pages */
		*value *= OPS_PAGE;
		end++;
	}
	return end;
}

/* term {('|' | '+' | '-') term} */
static const char *parse_arg(const char *p, uint64_t base, uint64_t *value)
{
	uint64_t sum, term;

	p = parse_term(p, base, &sum);
	while (p && (*p == '|' || *p == '+' || *p == '-')) {
		char op = *p;

		p = parse_term(p + 1, base, &term);
		sum = op == '|' ? sum | term : op == '+' ? sum + term : sum - term;
	}
	*value = sum;
	return p;
}

static int find_call(const char *name, size_t len)
{
	for (int k = 0; k < OP_KINDS; k++) {
		if (strlen(calls[k].name) == len && !memcmp(calls[k].name, name, len))
			return k;
	}
	return -1;
}

int ops_parse(const char *line, uint64_t base, struct op *op)
{
	const char *p = line, *open;
	char *end;
	int kind;

	memset(op, 0, sizeof(*op));
	op->space = (uint8_t)strtoul(p, &end, 10);
	if (end == p || *end != ':' || op->space >= OPS_SPACES)
		return -1;
	p = end + 1 + strspn(end + 1, " ");
	open = strchr(p, '(');
	kind = open ? find_call(p, (size_t)(open - p)) : -1;
	if (kind < 0)
		return -1;
	op->kind = (uint8_t)kind;
	p = open + 1;
	for (int i = 0; i < OPS_MAX_ARGS && calls[kind].arg[i]; i++) {
		if (i && *p++ != ',')
			return -1;
		p += strspn(p, " ");
		p = parse_arg(p, base, &op->arg[i]);
		if (!p)
			return -1;
		if (calls[kind].arg[i] == ARG_FD)
			op->arg[i] = (uint64_t)(int64_t)(int)op->arg[i];
	}
	return *p == ')' ? 0 : -1;
}

const char *ops_parse_number(const char *p, uint64_t base, uint64_t *value)
{
	return parse_arg(p, base, value);
}

long ops_load(const char *path, uint64_t base, struct op **out)
{
	FILE *in = fopen(path, "r");
	size_t n = 0, room = 64;
	struct op *ops = in ? malloc(room * sizeof(*ops)) : NULL;
	char line[512];

	if (!ops) {
		if (in)
			fclose(in);
		return -1;
	}
	while (fgets(line, sizeof(line), in)) {
		if (line[strspn(line, " \t\n")] == '\0' || line[0] == '#')
			continue;
		if (n == room) {
			struct op *more = realloc(ops, (room *= 2) * sizeof(*ops));

			if (!more)
				goto fail;
			ops = more;
		}
		if (ops_parse(line, base, &ops[n])) {
			fprintf(stderr, "%s: not a call: %s", path, line);
			goto fail;
		}
		n++;
	}
	fclose(in);
	*out = ops;
	return (long)n;
fail:
	fclose(in);
	free(ops);
	return -1;
}
