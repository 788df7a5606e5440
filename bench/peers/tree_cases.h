/* SPDX-License-Identifier: MIT */
/*
 * tree_cases.h - what is measured of a range container. A file that includes it defines before:
 *
 *	struct side;                               the container
 *	struct side *side_make(how);               empty; NULL: exhausted
 *	void side_free(s);
 *	struct tree_object *side_load(s, key);     what covers the key, or NULL
 *	void side_store(s, object);                object->range into a gap
 *	void side_erase(s, object);
 *	void side_split(s, object, part);          part[0] over the middle of object; what is
 *	                                           behind it is part[1], where one is needed
 *	void side_merge(s, object, part);          object over all of its range again
 *	uint64_t side_walk(s);                     touches every object in order; how many
 *	uint64_t side_gap(s, size, max);           the highest free range below max, or 0
 *	struct side *side_copy(s);
 *	double side_bytes(s);                      of the index, objects left out
 *
 * and gets tree_case(): nanoseconds of n operations of a case, TREE_CASES in this order.
 */
#include "measure.h"
#include "tree_work.h"

enum tree_case_id {
	TREE_LOAD,
	TREE_STORE_GAP,
	TREE_ERASE,
	TREE_SPLIT,
	TREE_MERGE,
	TREE_STEP,
	TREE_GAP16,
	TREE_GAP4096,
	TREE_COPY,
	TREE_CASES
};

struct tree_run {
	struct side *side;
	const void *how;
	struct tree_work work;
};

static bool tree_run_make(struct tree_run *r, size_t n, const void *how)
{
	if (!tree_work_make(&r->work, n, 42))
		return false;
	r->how = how;
	r->side = side_make(how);
	if (!r->side) {
		tree_work_free(&r->work);
		return false;
	}
	for (size_t i = 0; i < n; i++)
		side_store(r->side, &r->work.base[r->work.order[i]]);
	for (size_t i = 0; i < n; i++) {
		struct tree_object *o = &r->work.base[i];
		uint64_t pages = (o->range.last + 1 - o->range.first) / TREE_PAGE;

		r->work.part[2 * i].range.first = o->range.first + pages / 3 * TREE_PAGE;
		r->work.part[2 * i].range.last = o->range.first + (pages / 3 + 1) * TREE_PAGE - 1;
		r->work.part[2 * i + 1].range.first = r->work.part[2 * i].range.last + 1;
		r->work.part[2 * i + 1].range.last = o->range.last;
	}
	return true;
}

static void tree_run_free(struct tree_run *r)
{
	side_free(r->side);
	tree_work_free(&r->work);
}

static uint64_t tree_load(struct tree_run *r, uint64_t n)
{
	struct tree_work *w = &r->work;
	uint64_t start = bench_now(), next = 0;

	for (uint64_t i = 0; i < n; i++) {
		struct tree_object *o = &w->base[w->pick[w->at + next]];

		next = side_load(r->side, o->range.first + TREE_PAGE)->zero;
		w->at = (w->at + 1) % TREE_PICKS;
	}
	BENCH_KEEP(next);
	return bench_now() - start;
}

/* All of `more` in and out again, in random order; the half that is asked for is timed. */
static uint64_t tree_gap_stores(struct tree_run *r, uint64_t n, bool erase)
{
	struct tree_work *w = &r->work;
	uint64_t time = 0;

	while (n) {
		uint64_t batch = n < w->extra ? n : w->extra, start, middle;

		tree_shuffle(w->more_in, w->extra, &w->random);
		tree_shuffle(w->more_out, w->extra, &w->random);
		start = bench_now();
		for (uint64_t i = 0; i < batch; i++)
			side_store(r->side, &w->more[w->more_in[i]]);
		middle = bench_now();
		if (!erase)
			time += middle - start;
		if (batch < w->extra) {
			for (uint64_t i = 0; i < batch; i++)
				side_erase(r->side, &w->more[w->more_in[i]]);
		} else {
			for (uint64_t i = 0; i < batch; i++)
				side_erase(r->side, &w->more[w->more_out[i]]);
		}
		if (erase)
			time += bench_now() - middle;
		n -= batch;
	}
	return time;
}

/* A quarter of the ranges is split, in random order, and made whole again. */
static uint64_t tree_overwrites(struct tree_run *r, uint64_t n, bool merge)
{
	struct tree_work *w = &r->work;
	uint64_t time = 0;

	while (n) {
		uint64_t batch = n < w->extra ? n : w->extra, start, middle;

		tree_shuffle(w->order, w->n, &w->random);
		start = bench_now();
		for (uint64_t i = 0; i < batch; i++)
			side_split(r->side, &w->base[w->order[i]], &w->part[2 * w->order[i]]);
		middle = bench_now();
		if (!merge)
			time += middle - start;
		for (uint64_t i = 0; i < batch; i++)
			side_merge(r->side, &w->base[w->order[batch - 1 - i]],
				   &w->part[2 * w->order[batch - 1 - i]]);
		if (merge)
			time += bench_now() - middle;
		n -= batch;
	}
	return time;
}

static uint64_t tree_steps(struct tree_run *r, uint64_t n)
{
	uint64_t start = bench_now(), done = 0;

	while (done < n)
		done += side_walk(r->side);
	return (uint64_t)((double)(bench_now() - start) * (double)n / (double)done);
}

static uint64_t tree_gaps(struct tree_run *r, uint64_t n, uint64_t size)
{
	struct tree_work *w = &r->work;
	uint64_t start = bench_now(), sum = 0;

	for (uint64_t i = 0; i < n; i++) {
		/* Below a random range; sum & 0 makes the searches wait for each other. */
		sum = side_gap(r->side, size, w->base[w->pick[w->at + (sum & 0)]].range.last);
		w->at = (w->at + 1) % TREE_PICKS;
	}
	BENCH_KEEP(sum);
	return bench_now() - start;
}

static uint64_t tree_copies(struct tree_run *r, uint64_t n)
{
	uint64_t time = 0, done = 0;

	while (done < n) {
		uint64_t start = bench_now();
		struct side *copy = side_copy(r->side);

		time += bench_now() - start;
		if (!copy)
			return UINT64_MAX;
		side_free(copy);
		done += r->work.n;
	}
	return (uint64_t)((double)time * (double)n / (double)done);
}

static uint64_t tree_case(struct tree_run *r, enum tree_case_id id, uint64_t n)
{
	switch (id) {
	case TREE_LOAD:
		return tree_load(r, n);
	case TREE_STORE_GAP:
		return tree_gap_stores(r, n, false);
	case TREE_ERASE:
		return tree_gap_stores(r, n, true);
	case TREE_SPLIT:
		return tree_overwrites(r, n, false);
	case TREE_MERGE:
		return tree_overwrites(r, n, true);
	case TREE_STEP:
		return tree_steps(r, n);
	case TREE_GAP16:
		return tree_gaps(r, n, 16 * TREE_PAGE);
	case TREE_GAP4096:
		return tree_gaps(r, n, 4096 * TREE_PAGE);
	case TREE_COPY:
		return tree_copies(r, n);
	default:
		return 0;
	}
}

enum tree_fill { TREE_ASCENDING, TREE_RANDOM, TREE_CHURN };

/* Bytes per range: filled in ascending order, at random, after eight times n random changes. */
static double tree_bytes(size_t n, enum tree_fill fill, const void *how)
{
	struct tree_work w;
	struct side *side = side_make(how);
	unsigned char *in;
	double bytes = -1;

	if (!tree_work_make(&w, n, 43)) {
		side_free(side);
		return bytes;
	}
	in = (unsigned char *)calloc(n + w.extra, 1);
	for (size_t i = 0; i < n; i++)
		side_store(side, &w.base[fill == TREE_ASCENDING ? w.ascending[i] : w.order[i]]);
	for (size_t i = 0; fill == TREE_CHURN && in && i < 8 * n; i++) {
		size_t k = (size_t)(tree_random(&w.random) % (n + w.extra));
		struct tree_object *o = k < n ? &w.base[k] : &w.more[k - n];

		/* in[]: changed from how it began. */
		if ((k < n) == !in[k])
			side_erase(side, o);
		else
			side_store(side, o);
		in[k] = !in[k];
	}
	for (size_t k = 0; in && k < n + w.extra; k++) {
		if (in[k] && k < n)
			side_store(side, &w.base[k]);
		else if (in[k])
			side_erase(side, &w.more[k - n]);
	}
	bytes = side_bytes(side) / (double)n;
	free(in);
	side_free(side);
	tree_work_free(&w);
	return bytes;
}
