/* SPDX-License-Identifier: MIT */
/* replay_report.c - what samara replay shows (replay_report.h). */
#include "replay_report.h"
#include "report/table.h"
#include "report/text.h"
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

static const char *result_text(const struct sm__call *c, int64_t result, char *buf, size_t size)
{
	bool address = c->call == SM_SYS_MMAP || c->call == SM_SYS_MREMAP || c->call == SM_SYS_BRK;

	if (result < 0 && result >= -4095)
		return errno_name(result, buf, size);
	snprintf(buf, size, address ? "0x%llx" : "%lld", (unsigned long long)result);
	return buf;
}

/* name(0x…, …) with as many arguments as the recording had */
static const char *call_text(const struct sm__call *c, char *buf, size_t size)
{
	int len = snprintf(buf, size, "%s(", sm_trace_call_name((enum sm_trace_call)c->call));

	for (int i = 0; i < c->nargs && i < 6 && len < (int)size; i++)
		len += snprintf(buf + len, size - (size_t)len, "%s0x%llx", i ? ", " : "",
				(unsigned long long)c->args[i]);
	if (len < (int)size)
		snprintf(buf + len, size - (size_t)len, ")");
	return buf;
}

static int64_t expected(const struct sm__call *c)
{
	return c->error ? -(int64_t)c->error : c->result;
}

static const struct sm__call *call_of(const struct shown *s, const struct sm__difference *d)
{
	return &s->rec->calls[d->call];
}

static void list_differences(FILE *out, const struct shown *s, const struct runs *runs)
{
	const struct sm__replay_result *r = runs->best;
	char call[256], want[64], got[64];
	unsigned told = 0;

	for (size_t i = 0; i < r->ndifferences && told < s->differences; i++) {
		const struct sm__difference *d = &r->differences[i];
		const struct sm__call *c = call_of(s, d);

		fprintf(out, "%s:%llu: %s: expected %s, got %s: %s\n", s->rec->files[c->file],
			(unsigned long long)c->line, call_text(c, call, sizeof(call)),
			result_text(c, expected(c), want, sizeof(want)),
			result_text(c, d->got, got, sizeof(got)), sm__why_text(d->why));
		told++;
	}
}

static uint64_t all_differences(const struct sm__replay_result *r)
{
	uint64_t sum = 0;

	for (int w = 0; w < SM__WHY_COUNT; w++)
		sum += r->whys[w];
	return sum;
}

/* ---- the recording ---- */

static size_t processes_of(const struct sm__recording *rec)
{
	size_t n = 0;

	for (size_t i = 0; i < rec->nthreads; i++) {
		uint32_t p = rec->threads[i].process;

		if (p != SM__NONE && p + 1 > n)
			n = p + 1;
	}
	return n;
}

static void describe(FILE *out, const struct shown *s)
{
	const struct sm__recording *rec = s->rec;
	char a[SM__TEXT_NUMBER], b[SM__TEXT_NUMBER];

	fprintf(out, "%s%s: %s calls on memory of %s, %zu thread%s, %zu process%s\n", rec->files[0],
		rec->nfiles > 1 ? " and others" : "", sm__text_count((double)rec->ncalls, a),
		sm__text_count((double)rec->stats.calls, b), rec->nthreads,
		rec->nthreads == 1 ? "" : "s", processes_of(rec),
		processes_of(rec) == 1 ? "" : "es");
	if (rec->stats.bad)
		fprintf(out, "  %llu lines could not be read and were skipped\n",
			(unsigned long long)rec->stats.bad);
	if (rec->unreturned)
		fprintf(out, "  %llu calls never returned and were not made\n",
			(unsigned long long)rec->unreturned);
	if (rec->stats.inferred)
		fprintf(out, "  %llu calls and faults with inferred arguments\n",
			(unsigned long long)rec->stats.inferred);
	if (rec->reordered)
		fprintf(out, "  %llu calls took effect before one that returned earlier\n",
			(unsigned long long)rec->reordered);
	if (rec->unordered)
		fprintf(out, "  %llu calls fit no order\n", (unsigned long long)rec->unordered);
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

static struct sm__table *call_table(const struct sm__replay_result *r, bool with_sum)
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

static const char *const lock_calls[SM_CALL_KINDS] = {
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

static void lock_table(FILE *out, const struct sm_lock_stats *l)
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
	fprintf(out, "\n");
	sm__table_print(t, out, SM__TABLE_TEXT);
	sm__table_free(t);
}

static double per_second(const struct sm__replay_result *r)
{
	return r->wall_ns > 0 ? (double)r->calls * 1e9 / r->wall_ns : 0;
}

static void figures(FILE *out, const struct shown *s, const struct runs *runs)
{
	const struct sm__replay_result *r = runs->best;
	char a[SM__TEXT_NUMBER], b[SM__TEXT_NUMBER], c[SM__TEXT_NUMBER];

	fprintf(out,
		"\ntime          %s from the first call to the last, %s in calls, %s calls/s\n",
		sm__text_duration(r->wall_ns, a), sm__text_duration(r->busy_ns, b),
		sm__text_count(per_second(r), c));
	if (runs->n > 1)
		fprintf(out, "              %u runs, %s to %s\n", runs->n,
			sm__text_duration(runs->wall_min_ns, a),
			sm__text_duration(runs->wall_max_ns, b));
	fprintf(out, "VMAs          %llu at the peak, %llu at the end; %llu merges, %llu splits\n",
		(unsigned long long)r->vmas_peak, (unsigned long long)r->vmas_final,
		(unsigned long long)r->merges, (unsigned long long)r->splits);
	if (r->inferred_maps)
		fprintf(out, "              %llu mappings were there before and were inferred\n",
			(unsigned long long)r->inferred_maps);
	fprintf(out, "lock waits    read %llu of %llu (%s), write %llu of %llu (%s)\n",
		(unsigned long long)r->lock.contended[SM_LOCK_READ],
		(unsigned long long)r->lock.acquired[SM_LOCK_READ],
		sm__text_duration((double)r->lock.wait[SM_LOCK_READ].sum, a),
		(unsigned long long)r->lock.contended[SM_LOCK_WRITE],
		(unsigned long long)r->lock.acquired[SM_LOCK_WRITE],
		sm__text_duration((double)r->lock.wait[SM_LOCK_WRITE].sum, b));
	fprintf(out, "lock holds    read %s, write %s\n",
		sm__text_duration((double)r->lock.hold[SM_LOCK_READ].sum, a),
		sm__text_duration((double)r->lock.hold[SM_LOCK_WRITE].sum, b));
	if (r->vma_lock_success + r->vma_lock_abort + r->vma_lock_retry + r->vma_lock_miss)
		fprintf(out, "VMA locks     %llu success, %llu abort, %llu retry, %llu miss\n",
			(unsigned long long)r->vma_lock_success,
			(unsigned long long)r->vma_lock_abort,
			(unsigned long long)r->vma_lock_retry,
			(unsigned long long)r->vma_lock_miss);
	fprintf(out, "order waits   %llu (%s)\n", (unsigned long long)r->order_waits,
		sm__text_duration(r->order_wait_ns, a));
	if (r->touches)
		fprintf(out, "pages touched %llu (--touch %s)\n", (unsigned long long)r->touches,
			s->touch);
	if (r->skipped)
		fprintf(out, "not made      %llu calls and faults without what it takes\n",
			(unsigned long long)r->skipped);
	fprintf(out, "differences   %llu unexplained, %llu explained\n",
		(unsigned long long)r->whys[SM__WHY_UNEXPLAINED],
		(unsigned long long)(all_differences(r) - r->whys[SM__WHY_UNEXPLAINED]));
	for (int w = SM__WHY_UNEXPLAINED + 1; w < SM__WHY_COUNT; w++) {
		if (r->whys[w])
			fprintf(out, "              %llu: %s\n", (unsigned long long)r->whys[w],
				sm__why_text((enum sm__why)w));
	}
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

static void compare_figures(struct sm__table *t, const struct runs *runs, unsigned n)
{
	static const char *const names[] = {
		"wall time",	    "time in calls",  "calls/s",	"lock waits read",
		"lock waits write", "lock wait time", "read hold time", "write hold time",
		"VMA lock success", "VMA lock abort", "VMA lock retry", "VMA lock miss",
		"order waits",	    "order wait time"
	};
	double v[SM__ARRAY_SIZE(names)][DESIGNS_MAX];

	for (unsigned i = 0; i < n; i++) {
		const struct sm__replay_result *r = runs[i].best;
		const double of[] = { r->wall_ns,
				      r->busy_ns,
				      per_second(r),
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
				      r->order_wait_ns };

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

static void compare(FILE *out, const struct runs *runs, unsigned n)
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
	sm__table_print(t, out, SM__TABLE_TEXT);
	sm__table_free(t);
	for (unsigned i = 0; i < n; i++) {
		const struct sm__replay_result *r = runs[i].best;

		fprintf(out, "%s: %llu differences unexplained, %llu explained\n", runs[i].design,
			(unsigned long long)r->whys[SM__WHY_UNEXPLAINED],
			(unsigned long long)(all_differences(r) - r->whys[SM__WHY_UNEXPLAINED]));
	}
}

void report_maps(FILE *out, const struct sm__recording *rec, const struct sm__replay_result *result,
		 uint32_t pid)
{
	for (size_t i = 0; i < result->nspaces; i++) {
		const struct sm__space_result *space = &result->spaces[i];
		const struct sm__mm *mm = &rec->mms[space->mm];

		if ((pid && mm->pid != pid) || !space->vmas)
			continue;
		fprintf(out, "# maps %u\n", mm->pid);
		if (mm->string != SM__NONE)
			fprintf(out, "# %s\n", sm__recording_string(rec, mm->string));
		fputs(space->maps ? space->maps : "", out);
	}
}

void report_text(FILE *out, const struct shown *s, const struct runs *runs, unsigned n)
{
	describe(out, s);
	fprintf(out, "\n");
	if (n == 1) {
		struct sm__table *t = call_table(runs->best, true);

		fprintf(out, "design %s, threads %s\n", runs->design, s->threads);
		sm__table_print(t, out, SM__TABLE_TEXT);
		sm__table_free(t);
		figures(out, s, runs);
		lock_table(out, &runs->best->lock);
	} else {
		fprintf(out, "threads %s\n", s->threads);
		compare(out, runs, n);
	}
	for (unsigned i = 0; i < n; i++)
		list_differences(out, s, &runs[i]);
	if (s->maps)
		report_maps(out, s->rec, runs->best, 0);
}

/* ---- JSON ---- */

static void json_differences(struct sm__json *j, const struct shown *s,
			     const struct sm__replay_result *r)
{
	char text[256], want[64], got[64];

	sm__json_open(j, "differences", '{');
	for (int w = 0; w < SM__WHY_COUNT; w++)
		sm__json_uint(j, sm__why_key((enum sm__why)w), r->whys[w]);
	sm__json_close(j);
	sm__json_open(j, "difference_list", '[');
	for (size_t i = 0; i < r->ndifferences; i++) {
		const struct sm__difference *d = &r->differences[i];
		const struct sm__call *c = call_of(s, d);

		sm__json_open(j, NULL, '{');
		sm__json_text(j, "file", s->rec->files[c->file]);
		sm__json_uint(j, "line", c->line);
		sm__json_text(j, "call", call_text(c, text, sizeof(text)));
		sm__json_text(j, "expected", result_text(c, expected(c), want, sizeof(want)));
		sm__json_text(j, "got", result_text(c, d->got, got, sizeof(got)));
		sm__json_text(j, "why", sm__why_key(d->why));
		sm__json_close(j);
	}
	sm__json_close(j);
}

/* Counts of the buckets [2^i, 2^(i+1)) ns, up to the last that is not empty. */
static void json_histogram(struct sm__json *j, const char *key, const struct sm_histogram *h)
{
	size_t n = SM__ARRAY_SIZE(h->bucket);

	while (n && !h->bucket[n - 1])
		n--;
	sm__json_open(j, key, '[');
	for (size_t i = 0; i < n; i++)
		sm__json_uint(j, NULL, h->bucket[i]);
	sm__json_close(j);
}

static void json_lock_calls(struct sm__json *j, const struct sm_lock_stats *l)
{
	sm__json_open(j, "by_call", '{');
	for (int k = 0; k < SM_CALL_KINDS; k++) {
		if (!l->hold_by_call[k].count)
			continue;
		sm__json_open(j, lock_calls[k], '{');
		sm__json_uint(j, "holds", l->hold_by_call[k].count);
		sm__json_uint(j, "waits", l->wait_by_call[k].count);
		sm__json_uint(j, "wait_ns", l->wait_by_call[k].sum);
		sm__json_uint(j, "hold_ns", l->hold_by_call[k].sum);
		json_histogram(j, "wait_histogram", &l->wait_by_call[k]);
		json_histogram(j, "hold_histogram", &l->hold_by_call[k]);
		sm__json_close(j);
	}
	sm__json_close(j);
}

static void json_locks(struct sm__json *j, const struct sm__replay_result *r)
{
	static const char *const sides[] = { "read", "write" };

	sm__json_open(j, "mmap_lock", '{');
	for (int side = 0; side < SM_LOCK_SIDES; side++) {
		sm__json_open(j, sides[side], '{');
		sm__json_uint(j, "acquired", r->lock.acquired[side]);
		sm__json_uint(j, "waits", r->lock.contended[side]);
		sm__json_uint(j, "wait_ns", r->lock.wait[side].sum);
		sm__json_uint(j, "hold_ns", r->lock.hold[side].sum);
		json_histogram(j, "wait_histogram", &r->lock.wait[side]);
		json_histogram(j, "hold_histogram", &r->lock.hold[side]);
		sm__json_close(j);
	}
	json_lock_calls(j, &r->lock);
	sm__json_close(j);
	sm__json_open(j, "vma_lock", '{');
	sm__json_uint(j, "success", r->vma_lock_success);
	sm__json_uint(j, "abort", r->vma_lock_abort);
	sm__json_uint(j, "retry", r->vma_lock_retry);
	sm__json_uint(j, "miss", r->vma_lock_miss);
	sm__json_close(j);
	sm__json_open(j, "order", '{');
	sm__json_uint(j, "waits", r->order_waits);
	sm__json_number(j, "wait_ns", r->order_wait_ns);
	sm__json_close(j);
}

static void json_spaces(struct sm__json *j, const struct shown *s,
			const struct sm__replay_result *r)
{
	sm__json_open(j, "spaces", '[');
	for (size_t i = 0; i < r->nspaces; i++) {
		const struct sm__space_result *space = &r->spaces[i];
		const struct sm__mm *mm = &s->rec->mms[space->mm];

		sm__json_open(j, NULL, '{');
		sm__json_uint(j, "pid", mm->pid);
		sm__json_text(j, "program",
			      mm->string == SM__NONE ? NULL
						     : sm__recording_string(s->rec, mm->string));
		sm__json_uint(j, "vmas_peak", space->peak);
		sm__json_uint(j, "vmas_final", space->vmas);
		sm__json_text(j, "maps", space->maps);
		sm__json_close(j);
	}
	sm__json_close(j);
}

static void json_run(struct sm__json *j, const struct shown *s, const struct runs *runs)
{
	const struct sm__replay_result *r = runs->best;
	struct sm__table *t = call_table(r, false);

	sm__json_open(j, NULL, '{');
	sm__json_text(j, "design", runs->design);
	sm__json_uint(j, "repeat", runs->n);
	sm__json_number(j, "wall_ns", r->wall_ns);
	sm__json_number(j, "wall_min_ns", runs->wall_min_ns);
	sm__json_number(j, "wall_max_ns", runs->wall_max_ns);
	sm__json_number(j, "busy_ns", r->busy_ns);
	sm__json_uint(j, "calls", r->calls);
	sm__json_uint(j, "not_made", r->skipped);
	sm__json_uint(j, "touches", r->touches);
	sm__json_number(j, "calls_per_second", per_second(r));
	sm__table_json(t, j, "kinds");
	sm__table_free(t);
	json_locks(j, r);
	sm__json_open(j, "vmas", '{');
	sm__json_uint(j, "peak", r->vmas_peak);
	sm__json_uint(j, "final", r->vmas_final);
	sm__json_uint(j, "merges", r->merges);
	sm__json_uint(j, "splits", r->splits);
	sm__json_uint(j, "inferred_mappings", r->inferred_maps);
	sm__json_open(j, "over_time", '[');
	for (size_t i = 0; i < r->nsamples; i++) {
		sm__json_open(j, NULL, '[');
		sm__json_uint(j, NULL, r->samples[i].call);
		sm__json_uint(j, NULL, r->samples[i].vmas);
		sm__json_close(j);
	}
	sm__json_close(j);
	sm__json_close(j);
	json_differences(j, s, r);
	json_spaces(j, s, r);
	sm__json_close(j);
}

void report_json(struct sm__json *j, const struct shown *s, const struct runs *runs, unsigned n)
{
	const struct sm__recording *rec = s->rec;

	sm__json_open(j, NULL, '{');
	sm__json_open(j, "files", '[');
	for (size_t i = 0; i < rec->nfiles; i++)
		sm__json_text(j, NULL, rec->files[i]);
	sm__json_close(j);
	sm__json_uint(j, "lines", rec->stats.lines);
	sm__json_uint(j, "bytes", rec->stats.bytes);
	sm__json_uint(j, "bad_lines", rec->stats.bad);
	sm__json_uint(j, "calls", rec->stats.calls);
	sm__json_uint(j, "memory_calls", rec->ncalls);
	sm__json_uint(j, "never_returned", rec->unreturned);
	sm__json_uint(j, "inferred_arguments", rec->stats.inferred);
	sm__json_uint(j, "reordered", rec->reordered);
	sm__json_uint(j, "unordered", rec->unordered);
	sm__json_uint(j, "recorded_threads", rec->nthreads);
	sm__json_uint(j, "processes", processes_of(rec));
	sm__json_text(j, "threads", s->threads);
	sm__json_text(j, "touch", s->touch);
	sm__json_open(j, "runs", '[');
	for (unsigned i = 0; i < n; i++)
		json_run(j, s, &runs[i]);
	sm__json_close(j);
	sm__json_close(j);
}
