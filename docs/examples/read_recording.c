/* SPDX-License-Identifier: MIT */
/* Reads a recording, call by call, and sums up what mmap gave and munmap took. */
#include <samara/trace.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char recording[] = "100 mmap(NULL, 8192, PROT_READ|PROT_WRITE, "
				"MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f0000000000\n"
				"100 munmap(0x7f0000000000, 4096 <unfinished ...>\n"
				"101 openat(AT_FDCWD, \"/etc/passwd\", O_RDONLY) = 3\n"
				"100 <... munmap resumed>) = 0 <0.000012>\n"
				"101 mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 3</etc/passwd>, 0) = "
				"-1 EACCES (Permission denied)\n"
				"a line that no strace ever wrote\n";

static void bad_line(void *arg, const char *file, uint64_t line, const char *reason)
{
	(void)arg;
	printf("%s:%" PRIu64 ": %s\n", file, line, reason);
}

int main(void)
{
	struct sm_trace_options options = { .bad_line = bad_line };
	struct sm_trace_event ev;
	struct sm_trace *trace;
	uint64_t given = 0, taken = 0;
	int r;

	if (sm_trace_open_memory(recording, strlen(recording), &options, &trace))
		return 1;
	while ((r = sm_trace_next(trace, &ev)) > 0) {
		if (ev.kind != SM_TRACE_CALL || !ev.returned || ev.error)
			continue;
		if (ev.call == SM_SYS_MMAP)
			given += ev.args[1];
		if (ev.call == SM_SYS_MUNMAP)
			taken += ev.args[1];
		printf("thread %u, lines %" PRIu64 " to %" PRIu64 ": %.*s\n", ev.tid, ev.entry_line,
		       ev.return_line, (int)ev.name_len, ev.name);
	}
	sm_trace_close(trace);
	printf("%" PRIu64 " bytes given, %" PRIu64 " taken\n", given, taken);
	return r || given != 8192 || taken != 4096;
}
