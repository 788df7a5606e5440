/* SPDX-License-Identifier: MIT */
/*
 * process_madvise.c - advice for a vector of ranges, of the own space or another one.
 *
 *      stage                  lock                       flush
 *      per-range              each range                 each VMA
 *      batched-lock           once                       each VMA
 *      batched                once                       once
 *      vma-lock+batched       the VMA of each range,     once
 *                             kept while it is the same
 *
 * I1 Arguments are judged before anything is done: flags, the vector, the right, the advice.
 * I2 The total is cut at bytes_max; what is cut off is not there.
 * I3 An element without length is judged where the walk stands on it, which is only at the start: after
 *    a range the elements without length are skipped unseen.
 * I4 The answer is the sum of the lengths, as given, of the ranges before the one that failed.
 */
#include "space/advice.h"

#include <errno.h>

enum { RANGES_MAX = 1024 }; /* IOV_MAX */

static const uint64_t bytes_max = 0x7ffff000; /* INT_MAX rounded down to a page of 4 KiB */

struct vector {
	const struct sm_range *ranges;
	size_t n;
	uint64_t total; /* after the cut */
	size_t at;
	uint64_t done;
};

static int import(const struct sm_space *s, struct vector *v)
{
	for (size_t i = 0; i < v->n; i++)
		if (v->ranges[i].length >> 63)
			return -EINVAL;
	v->total = 0;
	for (size_t i = 0; i < v->n; i++) {
		const struct sm_range *r = &v->ranges[i];

		if (r->addr + r->length < r->addr || r->addr + r->length > s->o.range_end)
			return -EFAULT;
		v->total += r->length < bytes_max - v->total ? r->length : bytes_max - v->total;
	}
	return 0;
}

/* What is left of the current range after the cut. */
static uint64_t length_at(const struct vector *v)
{
	uint64_t left = v->total - v->done, length = v->ranges[v->at].length;

	return length < left ? length : left;
}

static void advance(struct vector *v, uint64_t length)
{
	v->done += length;
	do
		v->at++;
	while (v->at < v->n && !v->ranges[v->at].length);
}

/* One range with the lock as it is. */
static int do_one(struct sm__madvise *m, const struct vector *v)
{
	int err = sm__madvise_check(m, v->ranges[v->at].addr, length_at(v));

	return err > 0 ? sm__madvise_do(m) : err;
}

static int each_locked(struct sm__madvise *m, struct vector *v)
{
	bool remote = m->remote;

	while (v->done < v->total) {
		int err;

		sm__madvise_init(m, m->s, m->row);
		m->remote = remote;
		err = sm__madvise_check(m, v->ranges[v->at].addr, length_at(v));
		if (err > 0) {
			err = sm__madvise_lock(m);
			if (err)
				return err;
			err = sm__madvise_do(m);
			sm__madvise_unlock(m);
		}
		if (err)
			return err;
		advance(v, length_at(v));
	}
	return 0;
}

static int all_locked(struct sm__madvise *m, struct vector *v)
{
	int err;

	m->start = 0;
	m->end = m->s->o.range_end;
	err = sm__madvise_lock(m);
	if (err)
		return err;
	while (!err && v->done < v->total) {
		err = do_one(m, v);
		if (!err)
			advance(v, length_at(v));
	}
	sm__madvise_unlock(m);
	return err;
}

/* May caller advise target so? The order is Linux's: access, advice, capability. */
static int may_advise(struct sm_space *caller, struct sm_space *target,
		      const struct sm__advice_row *row)
{
	int err = 0;

	if (caller == target)
		return 0;
	if (caller && target->o.may_advise)
		err = target->o.may_advise(target->o.may_advise_arg, caller, target);
	if (err)
		return err;
	if (!row || !(row->traits & SM__ADVICE_REMOTE))
		return -EINVAL;
	return !caller || (caller->o.capabilities & SM_CAP_NICE) ? 0 : -EPERM;
}

int64_t sm_process_madvise(struct sm_space *caller, struct sm_space *target,
			   const struct sm_range *ranges, size_t n, int advice, unsigned flags)
{
	const struct sm__advice_row *row = sm__advice_row(advice);
	struct vector v = { .ranges = ranges, .n = n };
	struct sm__madvise m;
	int err;

	if (flags || n > RANGES_MAX)
		return -EINVAL;
	err = import(target, &v);
	if (!err)
		err = may_advise(caller, target, row);
	if (err || !v.total)
		return err;
	if (!row)
		return -EINVAL;
	sm__madvise_init(&m, target, row);
	m.remote = caller != target;
	err = target->design.advice == SM_ADVICE_PER_RANGE ? each_locked(&m, &v)
							   : all_locked(&m, &v);
	return v.done ? (int64_t)v.done : err;
}
