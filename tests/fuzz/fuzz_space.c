/* SPDX-License-Identifier: MIT */
/*
 * fuzz_space.c - bytes are the decisions of the generator of calls: which call, where, how long.
 * The list runs on the twin and on a space with pages, validators on; they must agree. Some inputs
 * make one allocation of the library fail instead: then it has to survive and stay valid.
 */
#include "base/inject.h"
#include "base/rcu.h"
#include "model/twin.h"
#include "support/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CALLS 80

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct library *library;
static struct op op[MAX_CALLS];
static struct observation *seen;

/* The first bytes: window, limits, profile, design of the test. */
struct header {
	uint8_t pages, brk, as, data, maps, profile, inject, inject_more;
};

static void configure(struct ops_config *c, const struct header *h)
{
	memset(c, 0, sizeof(*c));
	c->base = 0x200000000000;
	c->pages = h->pages & 1 ? 64 : 32;
	c->brk_page = h->brk & 1 ? h->brk >> 3 : -1;
	c->as_pages = h->as & 1 ? (uint64_t)h->as >> 1 : ~0ULL;
	c->data_pages = h->data & 1 ? (uint64_t)h->data >> 1 : ~0ULL;
	c->memlock_pages = ~0ULL;
	c->map_count = h->maps % 4 == 1 ? h->maps >> 2 : 0;
	c->contents = true;
}

/* The twin runs along: what it sees, the generator leans on. */
static size_t generate(struct opgen *g)
{
	static const struct observation nothing;
	const struct observation *last[OPS_SPACES] = { &nothing, &nothing, &nothing, &nothing };
	struct twin_world *w = twin_create(&g->config);
	size_t n;

	for (n = 0; n < MAX_CALLS && g->left; n++) {
		unsigned space = g->spaces ? *g->input % (g->spaces + 1) : 0;

		opgen_next(g, last[space], space, &op[n]);
		twin_apply(w, &op[n], &seen[n]);
		last[space] = &seen[n];
		if (op[n].kind == OP_FORK)
			last[op[n].arg[0]] = &seen[n];
	}
	twin_destroy(w);
	return n;
}

static void complain(const struct ops_config *c, size_t n, const struct observation *ours, long at)
{
	ops_print_all(stderr, op, n, c->base);
	if (at >= 0) {
		fprintf(stderr, "call %ld, twin: ", at);
		obs_print(stderr, c, &seen[at]);
		fprintf(stderr, "call %ld, library: ", at);
		obs_print(stderr, c, &ours[at]);
	}
	abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct observation *ours;
	struct ops_config config;
	struct header h;
	struct opgen g;
	bool injected;
	size_t n;

	if (!library) {
		library = library_open(MAX_CALLS, "samara", SM_BACKEND_SOFT);
		seen = calloc(MAX_CALLS, sizeof(*seen));
		if (!library || !seen)
			abort();
	}
	if (size < sizeof(h))
		return 0;
	memcpy(&h, data, sizeof(h));
	configure(&config, &h);
	opgen_init(&g, &config, (enum opgen_profile)(h.profile % PROFILES), 0);
	g.input = data + sizeof(h);
	g.left = size - sizeof(h);
	n = generate(&g);
	injected = h.inject % 4 == 1;
	if (injected)
		sm__inject_arm(1 + ((uint64_t)h.inject_more << 2 | h.inject >> 6));
	ours = library_run(library, &config, op, n);
	sm__inject_disarm();
	/* what waits for a grace period is known to memory that the leak checker does not look at */
	sm__rcu_barrier();
	if (injected)
		return 0;
	if (!ours)
		complain(&config, n, NULL, -1);
	if (differ_first(&config, seen, ours, n) >= 0)
		complain(&config, n, ours, differ_first(&config, seen, ours, n));
	return 0;
}
