/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a recording, replayed: whatever calls it holds, the spaces stay valid (the validators
 * run after each call) and nothing leaks. The first byte picks the design.
 */
#include "trace/replay.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct sm__load_options load;
	static struct sm__replay_result result;
	struct sm__replay_options options = { .stop_after = UINT64_MAX, .samples = true };
	struct sm__recording *rec;

	if (!size)
		return 0;
	sm_design_preset(sm_design_preset_name(*data % sm_design_preset_count()), &options.design);
	if (!sm__recording_load_memory(data, size, &load, &rec) && rec->ncalls) {
		if (sm__replay(rec, &options, &result) && !result.error[0])
			abort(); /* a failure says why */
		sm__replay_result_free(&result);
	}
	sm__recording_free(rec);
	return 0;
}
