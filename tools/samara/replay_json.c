/* SPDX-License-Identifier: MIT */
/* replay_json.c - a replay as JSON (replay_report.h; the members are in samara-replay(1)). */
#include "replay_tables.h"
#include "base/base.h"

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
		sm__json_text(j, "expected",
			      result_text(c, recorded_result(c), want, sizeof(want)));
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
	sm__json_number(j, "calls_per_second", calls_per_second(r));
	sm__table_json(t, j, "kinds");
	sm__table_free(t);
	json_locks(j, r);
	t = cache_table(r);
	sm__table_json(t, j, "caches");
	sm__table_free(t);
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
	sm__json_uint(j, "processes", count_processes(rec));
	sm__json_text(j, "threads", s->threads);
	sm__json_text(j, "touch", s->touch);
	sm__json_open(j, "runs", '[');
	for (unsigned i = 0; i < n; i++)
		json_run(j, s, &runs[i]);
	sm__json_close(j);
	sm__json_close(j);
}
