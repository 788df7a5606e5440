/* SPDX-License-Identifier: MIT */
/* replay_tables.c - texts and tables that the reports of a replay share (replay_tables.h). */
#include "replay_tables.h"
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

/* ---- one result ---- */

static const char *errno_name(int64_t result, char *buf, size_t size)
{
	const char *name = strerrorname_np((int)-result);

	if (name)
		snprintf(buf, size, "-1 %s", name);
	else
		snprintf(buf, size, "%lld", (long long)result);
	return buf;
}

const char *result_text(const struct sm__call *c, int64_t result, char *buf, size_t size)
{
	bool address = c->call == SM_SYS_MMAP || c->call == SM_SYS_MREMAP || c->call == SM_SYS_BRK;

	if (result < 0 && result >= -4095)
		return errno_name(result, buf, size);
	snprintf(buf, size, address ? "0x%llx" : "%lld", (unsigned long long)result);
	return buf;
}

const char *call_text(const struct sm__call *c, char *buf, size_t size)
{
	int len = snprintf(buf, size, "%s(", sm_trace_call_name((enum sm_trace_call)c->call));

	for (int i = 0; i < c->nargs && i < 6 && len < (int)size; i++)
		len += snprintf(buf + len, size - (size_t)len, "%s0x%llx", i ? ", " : "",
				(unsigned long long)c->args[i]);
	if (len < (int)size)
		snprintf(buf + len, size - (size_t)len, ")");
	return buf;
}

int64_t recorded_result(const struct sm__call *c)
{
	return c->error ? -(int64_t)c->error : c->result;
}

const struct sm__call *call_of(const struct shown *s, const struct sm__difference *d)
{
	return &s->rec->calls[d->call];
}

uint64_t count_differences(const struct sm__replay_result *r)
{
	uint64_t sum = 0;

	for (int w = 0; w < SM__WHY_COUNT; w++)
		sum += r->whys[w];
	return sum;
}

/* ---- the recording ---- */

size_t count_processes(const struct sm__recording *rec)
{
	size_t n = 0;

	for (size_t i = 0; i < rec->nthreads; i++) {
		uint32_t p = rec->threads[i].process;

		if (p != SM__NONE && p + 1 > n)
			n = p + 1;
	}
	return n;
}

/* ---- one design ---- */

static const struct sm__column call_columns[] = {
	{ "call", NULL, SM__LEFT, false },	   { "count", NULL, SM__RIGHT, false },
	{ "errors", NULL, SM__RIGHT, false },	   { "median_ns", "median", SM__RIGHT, false },
	{ "p99_ns", "p99", SM__RIGHT, false },	   { "max_ns", "max", SM__RIGHT, false },
	{ "total_ns", "total", SM__RIGHT, false },
};

static void call_row(struct sm__table *t, const char *name, const struct sm__kind_result *k)
{
	sm__table_row(t);
	sm__table_text(t, name);
	sm__table_count(t, k->count);
	sm__table_count(t, k->errors);
	sm__table_duration(t, k->median_ns);
	sm__table_duration(t, k->p99_ns);
	sm__table_duration(t, k->max_ns);
	sm__table_duration(t, k->total_ns);
}

struct sm__table *call_table(const struct sm__replay_result *r, bool with_sum)
{
	struct sm__table *t = sm__table_new(call_columns, SM__ARRAY_SIZE(call_columns));
	uint64_t errors = 0;

	for (int k = 0; k < SM_SYS_COUNT; k++) {
		if (!r->kinds[k].count)
			continue;
		call_row(t, sm_trace_call_name((enum sm_trace_call)k), &r->kinds[k]);
		errors += r->kinds[k].errors;
	}
	if (with_sum) {
		sm__table_row(t);
		sm__table_text(t, "all");
		sm__table_count(t, r->calls);
		sm__table_count(t, errors);
		sm__table_null(t);
		sm__table_null(t);
		sm__table_null(t);
		sm__table_duration(t, r->busy_ns);
	}
	return t;
}

/* ---- mmap_lock by the call that took it ---- */

const char *const lock_calls[SM_CALL_KINDS] = {
	[SM_CALL_MMAP] = "mmap",       [SM_CALL_MUNMAP] = "munmap", [SM_CALL_MPROTECT] = "mprotect",
	[SM_CALL_MREMAP] = "mremap",   [SM_CALL_BRK] = "brk",	    [SM_CALL_MADVISE] = "madvise",
	[SM_CALL_MLOCK] = "mlock",     [SM_CALL_MSEAL] = "mseal",   [SM_CALL_MSYNC] = "msync",
	[SM_CALL_MINCORE] = "mincore", [SM_CALL_FORK] = "fork",	    [SM_CALL_FAULT] = "fault",
	[SM_CALL_LOOKUP] = "lookup",   [SM_CALL_MAPS] = "maps",	    [SM_CALL_EXIT] = "exit",
};

static const struct sm__column lock_columns[] = {
	{ "call", "mmap_lock", SM__LEFT, false },
	{ "waits", NULL, SM__RIGHT, false },
	{ "mean_wait_ns", "mean wait", SM__RIGHT, false },
	{ "max_wait_ns", "max wait", SM__RIGHT, false },
	{ "total_wait_ns", "waited", SM__RIGHT, false },
	{ "holds", NULL, SM__RIGHT, false },
	{ "mean_hold_ns", "mean hold", SM__RIGHT, false },
	{ "max_hold_ns", "max hold", SM__RIGHT, false },
	{ "total_hold_ns", "held", SM__RIGHT, false },
};

static void lock_cells(struct sm__table *t, const struct sm_histogram *h)
{
	sm__table_count(t, h->count);
	if (h->count) {
		sm__table_duration(t, (double)h->sum / (double)h->count);
		sm__table_duration(t, (double)h->max);
		sm__table_duration(t, (double)h->sum);
	} else {
		for (int i = 0; i < 3; i++)
			sm__table_null(t);
	}
}

struct sm__table *lock_table(const struct sm_lock_stats *l)
{
	struct sm__table *t = sm__table_new(lock_columns, SM__ARRAY_SIZE(lock_columns));

	for (int k = 0; k < SM_CALL_KINDS; k++) {
		if (!l->hold_by_call[k].count)
			continue;
		sm__table_row(t);
		sm__table_text(t, lock_calls[k]);
		lock_cells(t, &l->wait_by_call[k]);
		lock_cells(t, &l->hold_by_call[k]);
	}
	return t;
}

/* ---- the object caches ---- */

static const struct sm__column cache_columns[] = {
	{ "cache", NULL, SM__LEFT, false },
	{ "object_bytes", "object", SM__RIGHT, false },
	{ "allocated", NULL, SM__RIGHT, false },
	{ "alloc_slow", "slow", SM__RIGHT, false },
	{ "freed", NULL, SM__RIGHT, false },
	{ "free_slow", "slow", SM__RIGHT, false },
	{ "free_rcu", "by RCU", SM__RIGHT, false },
	{ "borrowed", "sheaves borrowed", SM__RIGHT, false },
	{ "barn_get", "barn get", SM__RIGHT, false },
	{ "barn_put", "barn put", SM__RIGHT, false },
	{ "slabs_made", "slabs made", SM__RIGHT, false },
};

struct sm__table *cache_table(const struct sm__replay_result *r)
{
	struct sm__table *t = sm__table_new(cache_columns, SM__ARRAY_SIZE(cache_columns));

	for (unsigned i = 0; i < r->ncaches; i++) {
		const struct sm_cache_stats *c = &r->caches[i];
		uint64_t borrowed =
			c->sheaf_prefill_fast + c->sheaf_prefill_slow + c->sheaf_prefill_oversize;

		if (!(c->alloc_fastpath + c->alloc_slowpath + borrowed))
			continue;
		sm__table_row(t);
		sm__table_text(t, c->name);
		sm__table_bytes(t, (double)c->object_size);
		sm__table_count(t, c->alloc_fastpath + c->alloc_slowpath);
		sm__table_count(t, c->alloc_slowpath);
		sm__table_count(t, c->free_fastpath + c->free_slowpath);
		sm__table_count(t, c->free_slowpath);
		sm__table_count(t, c->free_rcu_sheaf + c->free_rcu_sheaf_fail);
		sm__table_count(t, borrowed);
		sm__table_count(t, c->barn_get);
		sm__table_count(t, c->barn_put);
		sm__table_count(t, c->slab_alloc);
	}
	return t;
}

/* ---- differences ---- */

static const struct sm__column difference_columns[] = {
	{ "place", NULL, SM__LEFT, false },    { "call", NULL, SM__LEFT, false },
	{ "expected", NULL, SM__LEFT, false }, { "got", NULL, SM__LEFT, false },
	{ "why", NULL, SM__LEFT, false },
};

struct sm__table *difference_table(const struct shown *s, const struct sm__replay_result *r)
{
	struct sm__table *t = sm__table_new(difference_columns, SM__ARRAY_SIZE(difference_columns));
	char text[256], place[512];

	for (size_t i = 0; i < r->ndifferences && i < s->differences; i++) {
		const struct sm__difference *d = &r->differences[i];
		const struct sm__call *c = call_of(s, d);

		snprintf(place, sizeof(place), "%s:%llu", s->rec->files[c->file],
			 (unsigned long long)c->line);
		sm__table_row(t);
		sm__table_text(t, place);
		sm__table_text(t, call_text(c, text, sizeof(text)));
		sm__table_text(t, result_text(c, recorded_result(c), text, sizeof(text)));
		sm__table_text(t, result_text(c, d->got, text, sizeof(text)));
		sm__table_text(t, sm__why_text(d->why));
	}
	return t;
}

double calls_per_second(const struct sm__replay_result *r)
{
	return r->wall_ns > 0 ? (double)r->calls * 1e9 / r->wall_ns : 0;
}

/* ---- several designs: a column each, and its ratio to the first ---- */

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

static void compare_row(struct sm__table *t, const char *name, const double *values, unsigned n,
			bool is_time)
{
	sm__table_row(t);
	sm__table_text(t, name);
	for (unsigned i = 0; i < n; i++) {
		if (is_time)
			sm__table_duration(t, values[i]);
		else
			sm__table_count(t, (uint64_t)values[i]);
		if (i && values[0] > 0)
			sm__table_number(t, ratio(values[i], values[0]), 2);
		else if (i)
			sm__table_null(t);
	}
}

struct cache_sum {
	uint64_t fast, slow, slabs;
};

static struct cache_sum sum_caches(const struct sm__replay_result *r)
{
	struct cache_sum sum = { 0 };

	for (unsigned i = 0; i < r->ncaches; i++) {
		sum.fast += r->caches[i].alloc_fastpath;
		sum.slow += r->caches[i].alloc_slowpath;
		sum.slabs += r->caches[i].slab_alloc;
	}
	return sum;
}

static void compare_figures(struct sm__table *t, const struct runs *runs, unsigned n)
{
	static const char *const names[] = {
		"wall time",	    "time in calls",   "calls/s",	    "lock waits read",
		"lock waits write", "lock wait time",  "read hold time",    "write hold time",
		"VMA lock success", "VMA lock abort",  "VMA lock retry",    "VMA lock miss",
		"order waits",	    "order wait time", "objects allocated", "of these slowly",
		"slabs made"
	};
	double v[SM__ARRAY_SIZE(names)][DESIGNS_MAX];

	for (unsigned i = 0; i < n; i++) {
		const struct sm__replay_result *r = runs[i].best;
		const struct cache_sum caches = sum_caches(r);
		const double of[] = { r->wall_ns,
				      r->busy_ns,
				      calls_per_second(r),
				      (double)r->lock.contended[SM_LOCK_READ],
				      (double)r->lock.contended[SM_LOCK_WRITE],
				      (double)(r->lock.wait[SM_LOCK_READ].sum +
					       r->lock.wait[SM_LOCK_WRITE].sum),
				      (double)r->lock.hold[SM_LOCK_READ].sum,
				      (double)r->lock.hold[SM_LOCK_WRITE].sum,
				      (double)r->vma_lock_success,
				      (double)r->vma_lock_abort,
				      (double)r->vma_lock_retry,
				      (double)r->vma_lock_miss,
				      (double)r->order_waits,
				      r->order_wait_ns,
				      (double)caches.fast + (double)caches.slow,
				      (double)caches.slow,
				      (double)caches.slabs };

		for (unsigned k = 0; k < SM__ARRAY_SIZE(names); k++)
			v[k][i] = of[k];
	}
	for (unsigned k = 0; k < SM__ARRAY_SIZE(names); k++) {
		bool any = false;

		for (unsigned i = 0; i < n; i++)
			any |= v[k][i] != 0;
		if (any)
			compare_row(t, names[k], v[k], n, strstr(names[k], "time") != NULL);
	}
}

struct sm__table *compare_table(const struct runs *runs, unsigned n)
{
	struct sm__column columns[2 * DESIGNS_MAX] = { { "call", "median per call", SM__LEFT,
							 false } };
	double values[DESIGNS_MAX];
	unsigned ncolumns = 1;
	struct sm__table *t;

	for (unsigned i = 0; i < n; i++) {
		columns[ncolumns++] = (struct sm__column){ runs[i].design, NULL, SM__RIGHT, false };
		if (i)
			columns[ncolumns++] =
				(struct sm__column){ "ratio", NULL, SM__RIGHT, false };
	}
	t = sm__table_new(columns, ncolumns);
	for (int k = 0; k < SM_SYS_COUNT; k++) {
		if (!runs[0].best->kinds[k].count)
			continue;
		for (unsigned i = 0; i < n; i++)
			values[i] = runs[i].best->kinds[k].median_ns;
		compare_row(t, sm_trace_call_name((enum sm_trace_call)k), values, n, true);
	}
	compare_figures(t, runs, n);
	return t;
}
