/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a recording: the reader, and what is made of the events (threads, processes, order,
 * footprints). Nothing may crash, leak, hang, or read outside the input.
 */
#include "trace/footprint.h"
#include "trace/recording.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever an event points to must be readable. */
static unsigned touch(const char *text, size_t len)
{
	unsigned sum = 0;

	for (size_t i = 0; text && i < len; i++)
		sum += (unsigned char)text[i];
	return sum;
}

static void check_order(const struct sm__recording *rec)
{
	bool *done = calloc(rec->ncalls + 1, sizeof(*done));

	if (!done)
		abort();
	for (size_t i = 0; i < rec->ncalls; i++) {
		if (rec->order[i] >= rec->ncalls || done[rec->order[i]])
			abort(); /* not a permutation */
		done[rec->order[i]] = true;
		if (rec->calls[rec->order[i]].mm >= rec->nmms)
			abort();
	}
	free(done);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct sm__load_options options;
	struct sm_trace *trace;
	struct sm_trace_event ev;
	struct sm__recording *rec;
	struct sm__footprints f;
	unsigned sum = 0;

	if (!sm_trace_open_memory(data, size, NULL, &trace)) {
		while (sm_trace_next(trace, &ev) > 0) {
			sum ^= touch(ev.name, ev.name_len) + touch(ev.path, ev.path_len) +
			       touch(ev.text, ev.text_len);
			for (size_t i = 0; i < ev.nranges; i++)
				sum ^= (unsigned)ev.ranges[i].len;
		}
		sm_trace_close(trace);
	}
	if (!sm__recording_load_memory(data, size, &options, &rec)) {
		check_order(rec);
		if (!sm__footprints_make(rec, &f))
			sm__footprints_free(&f);
	}
	sm__recording_free(rec);
	__asm__ volatile("" : : "r"(sum)); /* used: the reads stay */
	return 0;
}
