/* SPDX-License-Identifier: MIT */
/*
 * tree_work.h - the work that every range container is given in `samara bench tree`: one generator
 * for the library and for the peers in C++, so that all of them store, erase and look for the same
 * ranges.
 *
 * n ranges are in the container, n/4 more fit into the gaps between them. Page-aligned, 3 to 18
 * pages long, spread at random over 47 bits of addresses: between any two there is a gap.
 */
#ifndef BENCH_TREE_WORK_H
#define BENCH_TREE_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct tree_range {
	uint64_t first, last;
};

/*
 * What a container points to: two lines, as the head of a VMA is. A tree that links its objects has
 * the first of them; what the object is about is in the second.
 */
struct tree_object {
	uint64_t links[8];
	struct tree_range range;
	uint64_t zero; /* always 0; added to the next index, so that look-ups wait for each other */
	uint64_t pad[5];
};

struct tree_work {
	size_t n, extra;	  /* ranges in the container; more that fit */
	struct tree_object *base; /* n; where an object lies in memory says nothing of its range */
	struct tree_object *more; /* extra, none overlaps any of base */
	uint32_t *ascending;	  /* base by range */
	struct tree_object *part; /* 2 * n: the parts that a split makes */
	uint32_t *order;	  /* a random order of base */
	uint32_t *pick;		  /* TREE_PICKS random places of base, for look-ups */
	size_t at;		  /* the next pick: goes on from one sample to the next */
	uint32_t *more_in, *more_out; /* two random orders of more */
	uint64_t random;
};

/* So many look-ups before one repeats: a branch predictor learns a few thousand by heart. */
enum { TREE_PICKS = 1 << 18 };

static const uint64_t TREE_PAGE = 4096;
static const uint64_t TREE_TOP = (uint64_t)1 << 47;

static inline uint64_t tree_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static inline int tree_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static inline void tree_shuffle(uint32_t *order, size_t n, uint64_t *random)
{
	for (size_t i = 0; i < n; i++)
		order[i] = (uint32_t)i;
	for (size_t i = n; i > 1; i--) {
		size_t j = (size_t)(tree_random(random) % i);
		uint32_t t = order[i - 1];

		order[i - 1] = order[j];
		order[j] = t;
	}
}

/* Large arrays lie on huge pages where there are some: the kernel's objects do. */
static inline void *tree_array(size_t n, size_t size)
{
	const size_t huge = (size_t)2 << 20;
	size_t align = n * size < huge ? 64 : huge;
	size_t bytes = (n * size + align) / align * align;
	void *p = aligned_alloc(align, bytes);

	if (p && align == huge)
		madvise(p, bytes, MADV_HUGEPAGE);
	if (p)
		memset(p, 0, n * size);
	return p;
}

static inline void tree_work_free(struct tree_work *w)
{
	free(w->base);
	free(w->more);
	free(w->part);
	free(w->ascending);
	free(w->order);
	free(w->pick);
	free(w->more_in);
	free(w->more_out);
}

static inline bool tree_work_make(struct tree_work *w, size_t n, uint64_t seed)
{
	size_t extra = n / 4, all = n + extra, b = 0, m = 0;
	uint64_t *start = (uint64_t *)tree_array(all + 1, sizeof(*start));
	uint32_t *deal = (uint32_t *)tree_array(all, sizeof(*deal));

	memset(w, 0, sizeof(*w));
	w->n = n;
	w->extra = extra;
	w->random = seed;
	w->base = (struct tree_object *)tree_array(n, sizeof(*w->base));
	w->more = (struct tree_object *)tree_array(extra, sizeof(*w->more));
	w->part = (struct tree_object *)tree_array(2 * n, sizeof(*w->part));
	w->ascending = (uint32_t *)tree_array(n, sizeof(*w->ascending));
	w->order = (uint32_t *)tree_array(n, sizeof(*w->order));
	w->pick = (uint32_t *)tree_array(TREE_PICKS, sizeof(*w->pick));
	w->more_in = (uint32_t *)tree_array(extra, sizeof(*w->more_in));
	w->more_out = (uint32_t *)tree_array(extra, sizeof(*w->more_out));
	if (!start || !deal || !w->base || !w->more || !w->part || !w->ascending || !w->order ||
	    !w->pick || !w->more_in || !w->more_out) {
		free(start);
		free(deal);
		tree_work_free(w);
		return false;
	}
	/* Starts at least 20 pages apart. */
	for (size_t i = 0; i < all; i++)
		start[i] = tree_random(&w->random) % (TREE_TOP / TREE_PAGE - 20 * (all + 1));
	qsort(start, all, sizeof(*start), tree_compare);
	for (size_t i = 0; i < all; i++)
		start[i] = (start[i] + 20 * i) * TREE_PAGE;
	tree_shuffle(deal, all, &w->random);
	tree_shuffle(w->order, n, &w->random);
	tree_shuffle(w->more_in, extra, &w->random);
	for (size_t i = 0; i < all; i++) {
		struct tree_object *o;

		if (deal[i] < n) {
			w->ascending[b] = w->order[b];
			o = &w->base[w->order[b++]];
		} else {
			o = &w->more[w->more_in[m++]];
		}
		o->range.first = start[i];
		o->range.last = start[i] + (3 + tree_random(&w->random) % 16) * TREE_PAGE - 1;
	}
	tree_shuffle(w->order, n, &w->random);
	tree_shuffle(w->more_in, extra, &w->random);
	tree_shuffle(w->more_out, extra, &w->random);
	for (size_t i = 0; i < TREE_PICKS; i++)
		w->pick[i] = (uint32_t)(tree_random(&w->random) % n);
	free(start);
	free(deal);
	return true;
}

#endif
