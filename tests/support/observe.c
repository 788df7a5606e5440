/* SPDX-License-Identifier: MIT */
/* observe.c - observations: file numbers by first sight, comparison, text. */
#include "support/ops.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

const struct obs_flag_name obs_flag_names[] = {
	{ "rd", VF_READ },
	{ "wr", VF_WRITE },
	{ "ex", VF_EXEC },
	{ "sh", VF_SHARED },
	{ "ms", VF_MAYSHARE },
	{ "mw", VF_MAYWRITE },
	{ "gd", VF_GROWSDOWN },
	{ "nr", VF_NORESERVE },
	{ "ac", VF_ACCOUNT },
	{ "lo", VF_LOCKED },
	{ "lf", VF_ONFAULT },
	{ "sl", VF_SEALED },
	{ "dc", VF_DONTFORK },
	{ "wf", VF_WIPEONFORK },
	{ "dd", VF_DONTDUMP },
	{ "rr", VF_RANDOM },
	{ "sr", VF_SEQUENTIAL },
	{ "mg", VF_MERGEABLE },
	{ "hg", VF_HUGEPAGE },
	{ "nh", VF_NOHUGEPAGE },
	{ "dp", VF_DROPPABLE },
	{ "sf", VF_SYNC },
	{ NULL, 0 },
};

uint16_t obs_file_number(struct obs_files *files, uint64_t a, uint64_t b)
{
	for (unsigned i = files->count; i-- > 0;) {
		if (files->id[i].a == a && files->id[i].b == b)
			return (uint16_t)(i + 1);
	}
	if (files->count == OBS_MAX_FILES)
		return OBS_MAX_FILES + 1;
	files->id[files->count].a = a;
	files->id[files->count].b = b;
	return (uint16_t)++files->count;
}

static bool vma_equal(const struct obs_vma *a, const struct obs_vma *b)
{
	return a->first == b->first && a->end == b->end && a->prot == b->prot &&
	       a->shared == b->shared && a->file == b->file && a->off == b->off;
}

uint64_t obs_core_token(const struct ops_config *c, const struct observation *o,
			const struct op *op, const unsigned char *core)
{
	uint64_t first = (op->arg[0] - c->base) / OPS_PAGE, token = 1;
	uint64_t end = first + (op->arg[1] + OPS_PAGE - 1) / OPS_PAGE;

	for (unsigned v = 0; v < o->vmas && v < OBS_MAX_VMAS; v++) {
		for (uint64_t i = o->vma[v].first; i < o->vma[v].end; i++) {
			if (i >= first && i < end && !o->vma[v].file)
				token = token * 0x9e3779b97f4a7c15 + (core[i - first] & 1);
		}
	}
	return token;
}

bool obs_equal(const struct ops_config *c, const struct observation *a, const struct observation *b)
{
	if (a->result != b->result || a->vmas != b->vmas || a->total != b->total ||
	    a->data != b->data)
		return false;
	if (c->contents && a->token != b->token && !a->token_any && !b->token_any)
		return false;
	for (unsigned i = 0; i < a->vmas && i < OBS_MAX_VMAS; i++) {
		if (!vma_equal(&a->vma[i], &b->vma[i]))
			return false;
		if (a->has_flags && b->has_flags && a->vma[i].flags != b->vma[i].flags)
			return false;
	}
	return true;
}

static void print_result(FILE *out, const struct ops_config *c, int64_t result)
{
	uint64_t r = (uint64_t)result;

	if (result < 0 && result > -4096)
		fprintf(out, "%s", strerrorname_np((int)-result));
	else if (r >= c->base && r <= ops_end(c))
		fprintf(out, "W+0x%" PRIx64, r - c->base);
	else if (r >= OBS_SIGNAL(1, 0) && r < OBS_SIGNAL(64, 0))
		fprintf(out, "%s code %d (0x%" PRIx64 ")", sigabbrev_np((int)(r / 256)),
			(int)(r % 256), r);
	else
		fprintf(out, "0x%" PRIx64, r);
}

/* As in /proc/PID/smaps. */
static void print_flags(FILE *out, uint32_t flags)
{
	for (int i = 0; obs_flag_names[i].name; i++) {
		if (flags & obs_flag_names[i].flag)
			fprintf(out, " %s", obs_flag_names[i].name);
	}
}

void obs_print(FILE *out, const struct ops_config *c, const struct observation *o)
{
	fputs("result ", out);
	print_result(out, c, o->result);
	if (o->token || o->token_any)
		fprintf(out, " token %s%" PRIx64, o->token_any ? "any/" : "", o->token);
	fprintf(out, " total %" PRId64 " data %" PRId64 "\n", o->total, o->data);
	for (unsigned i = 0; i < o->vmas && i < OBS_MAX_VMAS; i++) {
		const struct obs_vma *v = &o->vma[i];

		fprintf(out, "    [%3u,%3u) %c%c%c%c", v->first, v->end, v->prot & 1 ? 'r' : '-',
			v->prot & 2 ? 'w' : '-', v->prot & 4 ? 'x' : '-', v->shared ? 's' : 'p');
		if (v->file)
			fprintf(out, " file %u + 0x%" PRIx64, v->file, v->off);
		if (o->has_flags)
			print_flags(out, v->flags);
		fputc('\n', out);
	}
}
