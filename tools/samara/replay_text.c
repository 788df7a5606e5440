/* SPDX-License-Identifier: MIT */
/* replay_text.c - a replay as text for a terminal (replay_report.h). */
#include "replay_tables.h"
#include "report/text.h"
#include "base/base.h"

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
			result_text(c, recorded_result(c), want, sizeof(want)),
			result_text(c, d->got, got, sizeof(got)), sm__why_text(d->why));
		told++;
	}
}

static void tell(FILE *out, uint64_t n, const char *one, const char *many)
{
	if (n)
		fprintf(out, "  %llu %s\n", (unsigned long long)n, n == 1 ? one : many);
}

void report_description(FILE *out, const struct shown *s)
{
	const struct sm__recording *rec = s->rec;
	char a[SM__TEXT_NUMBER], b[SM__TEXT_NUMBER];

	fprintf(out, "%s%s: %s calls on memory of %s, %zu thread%s, %zu process%s\n", rec->files[0],
		rec->nfiles > 1 ? " and others" : "", sm__text_count((double)rec->ncalls, a),
		sm__text_count((double)rec->stats.calls, b), rec->nthreads,
		rec->nthreads == 1 ? "" : "s", count_processes(rec),
		count_processes(rec) == 1 ? "" : "es");
	tell(out, rec->stats.bad, "line could not be read and was skipped",
	     "lines could not be read and were skipped");
	tell(out, rec->unreturned, "call never returned and was not made",
	     "calls never returned and were not made");
	tell(out, rec->stats.inferred, "call or fault with inferred arguments",
	     "calls and faults with inferred arguments");
	tell(out, rec->reordered, "call took effect before one that returned earlier",
	     "calls took effect before one that returned earlier");
	tell(out, rec->unordered, "call fits no order", "calls fit no order");
}

void report_figures(FILE *out, const struct shown *s, const struct runs *runs)
{
	const struct sm__replay_result *r = runs->best;
	char a[SM__TEXT_NUMBER], b[SM__TEXT_NUMBER], c[SM__TEXT_NUMBER];

	fprintf(out, "time          %s from the first call to the last, %s in calls, %s calls/s\n",
		sm__text_duration(r->wall_ns, a), sm__text_duration(r->busy_ns, b),
		sm__text_count(calls_per_second(r), c));
	if (runs->n > 1)
		fprintf(out, "              %u runs, %s to %s\n", runs->n,
			sm__text_duration(runs->wall_min_ns, a),
			sm__text_duration(runs->wall_max_ns, b));
	fprintf(out, "VMAs          %llu at the peak, %llu at the end; %llu merges, %llu splits\n",
		(unsigned long long)r->vmas_peak, (unsigned long long)r->vmas_final,
		(unsigned long long)r->merges, (unsigned long long)r->splits);
	if (r->inferred_maps)
		fprintf(out, "              %llu mapping%s there before, and inferred\n",
			(unsigned long long)r->inferred_maps,
			r->inferred_maps == 1 ? " was" : "s were");
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
		(unsigned long long)(count_differences(r) - r->whys[SM__WHY_UNEXPLAINED]));
	for (int w = SM__WHY_UNEXPLAINED + 1; w < SM__WHY_COUNT; w++) {
		if (r->whys[w])
			fprintf(out, "              %llu: %s\n", (unsigned long long)r->whys[w],
				sm__why_text((enum sm__why)w));
	}
}

static void print_table(struct sm__table *t, FILE *out)
{
	sm__table_print(t, out, SM__TABLE_TEXT);
	sm__table_free(t);
}

static void compare(FILE *out, const struct runs *runs, unsigned n)
{
	print_table(compare_table(runs, n), out);
	for (unsigned i = 0; i < n; i++) {
		const struct sm__replay_result *r = runs[i].best;

		fprintf(out, "%s: %llu differences unexplained, %llu explained\n", runs[i].design,
			(unsigned long long)r->whys[SM__WHY_UNEXPLAINED],
			(unsigned long long)(count_differences(r) - r->whys[SM__WHY_UNEXPLAINED]));
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
	report_description(out, s);
	fprintf(out, "\n");
	if (n == 1) {
		fprintf(out, "design %s, threads %s\n", runs->design, s->threads);
		print_table(call_table(runs->best, true), out);
		fprintf(out, "\n");
		report_figures(out, s, runs);
		fprintf(out, "\n");
		print_table(lock_table(&runs->best->lock), out);
		fprintf(out, "\n");
		print_table(cache_table(runs->best), out);
	} else {
		fprintf(out, "threads %s\n", s->threads);
		compare(out, runs, n);
	}
	for (unsigned i = 0; i < n; i++)
		list_differences(out, s, &runs[i]);
	if (s->maps)
		report_maps(out, s->rec, runs->best, 0);
}
