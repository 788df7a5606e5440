/* SPDX-License-Identifier: MIT */
/* opgen.c - see opgen.h. Whatever is generated stays inside the window or fails on its arguments. */
#include "support/opgen.h"

#include <string.h>

#include "samara/types.h"

#define PAGE OPS_PAGE

static const uint8_t advice_table[] = {
	SM_MADV_NORMAL,		SM_MADV_RANDOM,		 SM_MADV_SEQUENTIAL,
	SM_MADV_WILLNEED,	SM_MADV_DONTNEED,	 SM_MADV_DONTNEED,
	SM_MADV_FREE,		SM_MADV_REMOVE,		 SM_MADV_DONTFORK,
	SM_MADV_DOFORK,		SM_MADV_MERGEABLE,	 SM_MADV_UNMERGEABLE,
	SM_MADV_HUGEPAGE,	SM_MADV_NOHUGEPAGE,	 SM_MADV_DONTDUMP,
	SM_MADV_DODUMP,		SM_MADV_WIPEONFORK,	 SM_MADV_KEEPONFORK,
	SM_MADV_COLD,		SM_MADV_DONTNEED_LOCKED, SM_MADV_POPULATE_READ,
	SM_MADV_POPULATE_WRITE, SM_MADV_GUARD_INSTALL,	 SM_MADV_GUARD_REMOVE,
};
#define ADVICES (sizeof(advice_table) / sizeof(advice_table[0]))

/* As many bytes as a number below n needs. */
static uint64_t below_input(struct opgen *g, uint64_t n)
{
	uint64_t value = 0;

	for (uint64_t range = 1; range < n && g->left; range <<= 8, g->left--)
		value = value << 8 | *g->input++;
	return value % n;
}

static uint64_t below(struct opgen *g, uint64_t n)
{
	if (g->input)
		return below_input(g, n);
	return sm__random_below(&g->random, n);
}

static bool one_in(struct opgen *g, unsigned n)
{
	return n && below(g, n) == 0;
}

/* A page of the window, mostly at or next to the border of a VMA. */
static unsigned pick_page(struct opgen *g, const struct observation *seen)
{
	const struct obs_vma *v;
	int64_t page;

	if (!seen->vmas || one_in(g, 4))
		return (unsigned)below(g, g->config.pages);
	v = &seen->vma[below(g, seen->vmas)];
	switch (below(g, 4)) {
	case 0:
		page = v->first + (int64_t)below(g, (uint64_t)(v->end - v->first));
		break;
	case 1:
		page = v->end;
		break;
	default:
		page = v->first;
		break;
	}
	if (one_in(g, 4))
		page += (int64_t)below(g, 3) - 1;
	if (page < 0)
		page = 0;
	return page >= g->config.pages ? g->config.pages - 1 : (unsigned)page;
}

static unsigned pick_length(struct opgen *g, unsigned room)
{
	unsigned n = 1 + (unsigned)below(g, one_in(g, 6) ? g->config.pages : 6);

	if (one_in(g, 40))
		n = 512;
	return n > room ? room : n;
}

/* Exactly a VMA, or exactly the hole behind it. */
static void pick_whole(struct opgen *g, const struct observation *seen, unsigned *page, unsigned *n)
{
	unsigned i = (unsigned)below(g, seen->vmas);
	const struct obs_vma *v = &seen->vma[i];
	unsigned next = i + 1 < seen->vmas ? v[1].first : g->config.pages;

	if (v->end < next && next - v->end <= 64 && one_in(g, 2)) {
		*page = v->end;
		*n = next - v->end;
	} else {
		*page = v->first;
		*n = (unsigned)(v->end - v->first);
	}
}

/* [*page, *page + *n) inside the window; often exactly a VMA, or up to the next border. */
static void pick_range(struct opgen *g, const struct observation *seen, unsigned *page, unsigned *n)
{
	unsigned end;

	if (seen->vmas && one_in(g, 5)) {
		pick_whole(g, seen, page, n);
		return;
	}
	*page = pick_page(g, seen);
	*n = pick_length(g, g->config.pages - *page);
	if (!seen->vmas || one_in(g, 2))
		return;
	end = seen->vma[below(g, seen->vmas)].end;
	if (end > *page && end - *page <= 64)
		*n = end - *page;
}

/* Bytes of n pages, now and then not a multiple of the page. */
static uint64_t bytes(struct opgen *g, unsigned n)
{
	return n * PAGE - (one_in(g, 12) ? below(g, PAGE) : 0);
}

static uint64_t pick_prot(struct opgen *g)
{
	static const uint8_t common[] = { 3, 3, 3, 3, 1, 1, 0, 0, 5, 7, 2, 6 };

	return common[below(g, sizeof(common))];
}

static void gen_mmap(struct opgen *g, const struct observation *seen, struct op *op)
{
	static const uint64_t types[] = { SM_MAP_PRIVATE, SM_MAP_PRIVATE, SM_MAP_PRIVATE,
					  SM_MAP_SHARED,  SM_MAP_SHARED,  SM_MAP_SHARED_VALIDATE };
	static const uint8_t fds[] = {
		FD_RW, FD_RW, FD_RW, FD_BIG, FD_BIG, FD_SHORT, FD_RO, FD_RO
	};
	uint64_t flags = types[below(g, 6)], *a = op->arg;
	unsigned page, n;

	pick_range(g, seen, &page, &n);
	a[0] = g->config.base + page * PAGE;
	a[1] = bytes(g, n);
	a[2] = pick_prot(g);
	a[4] = FD_BAD;
	if (!one_in(g, 3)) {
		flags = one_in(g, 6) ? SM_MAP_SHARED : SM_MAP_PRIVATE;
		flags |= SM_MAP_ANONYMOUS;
		if (one_in(g, 30))
			flags = SM_MAP_DROPPABLE | SM_MAP_ANONYMOUS;
		if (one_in(g, 20))
			flags |= SM_MAP_GROWSDOWN;
	} else {
		a[4] = one_in(g, 30) ? below(g, FD_FILES) : fds[below(g, sizeof(fds))];
		/* so that files at neighbouring addresses are often contiguous */
		a[5] = (one_in(g, 2) ? page % 16 : below(g, 20)) * PAGE;
	}
	switch (below(g, 8)) {
	case 0:
		flags |= SM_MAP_FIXED_NOREPLACE;
		break;
	case 1:
		break; /* a hint */
	case 2:
		a[0] = 0;
		break;
	default:
		flags |= SM_MAP_FIXED;
	}
	if (one_in(g, 8))
		flags |= SM_MAP_NORESERVE;
	if (one_in(g, 16))
		flags |= SM_MAP_POPULATE;
	if (one_in(g, 40))
		flags |= one_in(g, 2) ? SM_MAP_STACK : SM_MAP_DENYWRITE;
	if (one_in(g, 24) && g->weight[OP_MLOCK2])
		flags |= SM_MAP_LOCKED;
	a[3] = flags;
}

static void gen_mremap(struct opgen *g, const struct observation *seen, struct op *op)
{
	unsigned page, n, to;
	uint64_t *a = op->arg;

	pick_range(g, seen, &page, &n);
	a[0] = g->config.base + page * PAGE;
	a[1] = bytes(g, n);
	switch (below(g, 4)) {
	case 0:
		a[2] = bytes(g, 1 + (unsigned)below(g, n));
		break;
	case 1:
		a[2] = a[1];
		break;
	default:
		a[2] = bytes(g, n + 1 + (unsigned)below(g, 8));
	}
	if (one_in(g, 20))
		a[1] = 0;
	a[3] = one_in(g, 4) ? 0 : SM_MREMAP_MAYMOVE;
	if (one_in(g, 2))
		a[3] |= SM_MREMAP_FIXED;
	/* Linux 6.18 counts locked pages twice once they moved so: no such moves under a limit */
	if (one_in(g, 6) && g->config.memlock_pages == ~0ULL) {
		a[3] |= SM_MREMAP_DONTUNMAP;
		a[2] = a[1];
	}
	if (one_in(g, 20))
		a[3] = below(g, g->config.memlock_pages == ~0ULL ? 16 : 4);
	to = pick_page(g, seen);
	/* next to where it comes from, so that it may merge again */
	if (one_in(g, 4))
		to = page + n;
	if (to + (a[2] + PAGE - 1) / PAGE > g->config.pages) {
		unsigned need = (unsigned)((a[2] + PAGE - 1) / PAGE);

		to = g->config.pages > need ? g->config.pages - need : 0;
		if (need > g->config.pages)
			a[2] = g->config.pages * PAGE;
	}
	a[4] = g->config.base + to * PAGE;
}

static void gen_brk(struct opgen *g, struct op *op)
{
	uint64_t heap = g->config.base + (unsigned)g->config.brk_page * PAGE;

	op->arg[0] = heap + below(g, 24 * PAGE);
	if (one_in(g, 2))
		op->arg[0] &= ~(PAGE - 1);
	if (one_in(g, 10))
		op->arg[0] = heap - below(g, 2 * PAGE);
	if (op->arg[0] > ops_end(&g->config))
		op->arg[0] = ops_end(&g->config);
}

static uint64_t pick_advice(struct opgen *g)
{
	unsigned i;

	do
		i = (unsigned)below(g, ADVICES);
	while (!(g->advices >> i & 1));
	return advice_table[i];
}

static void gen_process_madvise(struct opgen *g, const struct observation *seen, struct op *op)
{
	for (int i = 0; i < 3; i++) {
		unsigned page, n;

		pick_range(g, seen, &page, &n);
		op->arg[2 * i] = g->config.base + page * PAGE + (one_in(g, 20) ? 1 : 0);
		op->arg[2 * i + 1] = one_in(g, 6) ? 0 : bytes(g, n);
	}
	op->arg[6] = one_in(g, 30) ? 77 : pick_advice(g);
	op->arg[7] = one_in(g, 40);
}

/* Arguments that are refused before anything happens. */
static void gen_absurd(struct opgen *g, struct op *op)
{
	static const uint64_t lengths[] = { 0, ~0ULL, ~0ULL - 4096, 1ULL << 48, ~0ULL - 8192 };
	uint64_t *a = op->arg, len = lengths[below(g, 5)];
	bool bad_len = one_in(g, 2);

	switch (op->kind) {
	case OP_MMAP:
		if (bad_len)
			a[1] = len;
		else if (one_in(g, 3))
			a[5] += 1;
		else if (one_in(g, 2))
			a[5] = one_in(g, 2) ? 0x7ffffffffffff000 : 0xfffffffffffff000;
		else
			a[3] = (a[3] & ~(uint64_t)SM_MAP_TYPE) | below(g, 16);
		if (one_in(g, 3))
			a[4] = below(g, FD_FILES + 1);
		if (one_in(g, 4))
			a[0] += 1 + below(g, PAGE - 1);
		if (one_in(g, 6))
			a[3] |= one_in(g, 2) ? SM_MAP_SYNC : 0x4000000;
		if (one_in(g, 6) && a[3] & SM_MAP_FIXED)
			a[0] = 0x7ffffffff000;
		break;
	case OP_MREMAP:
		if (bad_len)
			a[2] = one_in(g, 2) ? 0 : ~0ULL;
		else
			a[one_in(g, 2) ? 0 : 4] += 1;
		break;
	case OP_MUNMAP:
		if (bad_len)
			a[1] = len;
		else
			a[0] = one_in(g, 2) ? 1ULL << 48 : a[0] + 1;
		break;
	case OP_MPROTECT:
		if (bad_len)
			a[1] = one_in(g, 2) ? 0 : ~0ULL - 8192;
		else if (one_in(g, 2))
			a[2] |= one_in(g, 2) ? 0x10 : SM_PROT_GROWSUP | SM_PROT_GROWSDOWN;
		else
			a[0] += 1;
		break;
	case OP_MADVISE:
		if (bad_len)
			a[1] = one_in(g, 2) ? 0 : ~0ULL - below(g, 8192);
		else if (one_in(g, 2))
			a[2] = one_in(g, 2) ? 77 : 9999;
		else
			a[0] += 1;
		break;
	case OP_MSEAL:
		a[bad_len ? 2 : 0] += 1;
		break;
	case OP_MLOCK2:
	case OP_MSYNC:
		a[2] = below(g, 16);
		break;
	case OP_MINCORE:
		a[bad_len ? 1 : 0] = bad_len ? 1ULL << 48 : a[0] + 1;
		break;
	default:
		break;
	}
}

static void gen_range_call(struct opgen *g, const struct observation *seen, struct op *op)
{
	unsigned page, n;
	uint64_t *a = op->arg;

	pick_range(g, seen, &page, &n);
	a[0] = g->config.base + page * PAGE;
	a[1] = bytes(g, n);
	switch (op->kind) {
	case OP_MPROTECT:
		a[2] = pick_prot(g);
		if (one_in(g, 20))
			a[2] |= one_in(g, 4) ? SM_PROT_GROWSUP : SM_PROT_GROWSDOWN;
		break;
	case OP_MADVISE:
		a[2] = pick_advice(g);
		break;
	case OP_MLOCK2:
		a[2] = one_in(g, 4);
		break;
	case OP_MSYNC:
		a[2] = below(g, 3) ? SM_MS_SYNC : SM_MS_ASYNC | SM_MS_INVALIDATE;
		break;
	case OP_READ:
		a[1] = 0;
		break;
	case OP_WRITE:
		a[1] = (1ULL << 40) + ++g->token;
		break;
	default:
		break;
	}
}

void opgen_next(struct opgen *g, const struct observation *seen, unsigned space, struct op *op)
{
	unsigned sum = 0, pick, kind = 0;

	memset(op, 0, sizeof(*op));
	op->space = (uint8_t)space;
	for (int k = 0; k < OP_KINDS; k++)
		sum += g->weight[k];
	for (pick = (unsigned)below(g, sum); pick >= g->weight[kind]; kind++)
		pick -= g->weight[kind];
	op->kind = (uint8_t)kind;
	switch (kind) {
	case OP_MMAP:
		gen_mmap(g, seen, op);
		break;
	case OP_MREMAP:
		gen_mremap(g, seen, op);
		break;
	case OP_BRK:
		gen_brk(g, op);
		break;
	case OP_PMADVISE:
		gen_process_madvise(g, seen, op);
		break;
	case OP_TRUNCATE:
		op->arg[0] = below(g, 3);
		op->arg[1] = below(g, 24) * PAGE + (one_in(g, 4) ? 512 : 0);
		break;
	case OP_FORK:
		if (g->spaces + 1 >= OPS_SPACES)
			op->kind = OP_READ, op->arg[0] = g->config.base;
		else
			op->arg[0] = ++g->spaces;
		break;
	default:
		gen_range_call(g, seen, op);
	}
	if (one_in(g, g->absurd))
		gen_absurd(g, op);
}

void opgen_init(struct opgen *g, const struct ops_config *config, enum opgen_profile profile,
		uint64_t seed)
{
	static const unsigned weights[PROFILES][OP_KINDS] = {
		[PROFILE_LAYOUT] = { [OP_MMAP] = 24,
				     [OP_MUNMAP] = 14,
				     [OP_MPROTECT] = 20,
				     [OP_MREMAP] = 16,
				     [OP_BRK] = 6,
				     [OP_MADVISE] = 8,
				     [OP_READ] = 3,
				     [OP_WRITE] = 12 },
		[PROFILE_LOCKS] = { [OP_MMAP] = 24,
				    [OP_MUNMAP] = 10,
				    [OP_MPROTECT] = 14,
				    [OP_MREMAP] = 12,
				    [OP_BRK] = 4,
				    [OP_MADVISE] = 12,
				    [OP_READ] = 3,
				    [OP_WRITE] = 16,
				    [OP_MLOCK2] = 6,
				    [OP_MUNLOCK] = 4,
				    [OP_MSEAL] = 1,
				    [OP_MINCORE] = 4,
				    [OP_MSYNC] = 2,
				    [OP_PMADVISE] = 4 },
		[PROFILE_CONTENTS] = { [OP_MMAP] = 10,
				       [OP_MUNMAP] = 4,
				       [OP_MPROTECT] = 8,
				       [OP_MREMAP] = 8,
				       [OP_MADVISE] = 16,
				       [OP_READ] = 30,
				       [OP_WRITE] = 30,
				       [OP_TRUNCATE] = 2,
				       [OP_FORK] = 1 },
	};

	memset(g, 0, sizeof(*g));
	sm__random_seed(&g->random, seed);
	g->config = *config;
	memcpy(g->weight, weights[profile], sizeof(g->weight));
	if (config->brk_page < 0)
		g->weight[OP_BRK] = 0;
	g->advices = (1ULL << ADVICES) - 1;
	g->absurd = 25;
}

void opgen_limit_maps(struct opgen *g)
{
	if (one_in(g, g->few_maps))
		g->config.map_count = 1 + (unsigned)below(g, 30);
}

void opgen_without_advice(struct opgen *g, uint64_t advice, bool may_stay)
{
	for (unsigned i = 0; i < ADVICES; i++) {
		if (advice_table[i] == advice && !may_stay)
			g->advices &= ~(1ULL << i);
	}
}

void opgen_config(struct ops_config *config, uint64_t base, uint64_t seed)
{
	static const unsigned sizes[] = { 32, 64, 64, 64, 128, 128, 320, 1600 };
	struct sm__random r;

	sm__random_seed(&r, seed ^ 0x636f6e666967ULL);
	memset(config, 0, sizeof(*config));
	config->base = base;
	config->pages = sizes[sm__random_below(&r, 8)];
	config->brk_page = sm__random_below(&r, 2) ? (int)sm__random_below(&r, 24) : -1;
	config->as_pages = config->data_pages = config->memlock_pages = ~0ULL;
	if (sm__random_below(&r, 5) == 0)
		config->as_pages = sm__random_below(&r, config->pages);
	if (sm__random_below(&r, 5) == 0)
		config->data_pages = sm__random_below(&r, config->pages);
	if (sm__random_below(&r, 5) == 0)
		config->memlock_pages = sm__random_below(&r, 40);
}
