/* SPDX-License-Identifier: MIT */
/* guest.c - see guest.h. */
#include "guest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int guest_open(struct bench *b, const char *design, int kind, struct guest *g)
{
	return guest_open_areas(b, design, kind, 0, g);
}

int guest_open_areas(struct bench *b, const char *design, int kind, uint64_t areas, struct guest *g)
{
	struct sm_space_options options;
	struct sm_host_options host;
	const char *reason = NULL;
	char why[160] = "";

	memset(g, 0, sizeof(*g));
	sm_space_options_init(&options);
	if (sm_design_parse(design, &options.design, why, sizeof(why)))
		return bench_error(b, 0, "design %s: %s", design, why);
	options.backend = kind & GUEST_MAP_ONLY ? SM_BACKEND_NONE : SM_BACKEND_SOFT;
	options.lock_stats = kind & GUEST_LOCK_STATS;
	options.start_brk = 0x10000000;
	sm_host_options_init(&host);
	if (areas)
		host.max_map_count = (uint32_t)areas;
	g->host = sm_host_create(&host, &reason);
	if (g->host)
		g->space = sm_space_create(g->host, &options, &reason);
	if (!g->space) {
		int error = -errno;

		guest_close(g);
		return bench_error(b, error, "design %s: %s", design, reason ? reason : "no space");
	}
	return 0;
}

void guest_close(struct guest *g)
{
	if (g->space)
		sm_space_destroy(g->space);
	if (g->file)
		sm_file_put(g->file);
	if (g->host)
		sm_host_destroy(g->host);
	memset(g, 0, sizeof(*g));
}

int guest_file(struct bench *b, struct guest *g, int fd)
{
	int error = sm_file_open_fd(fd, NULL, &g->file);

	return error ? bench_error(b, error, "a file as the guest sees it") : 0;
}

void *guest_fill(struct sm_tlb *tlb, sm_addr addr, enum sm_access access)
{
	void *p = NULL;
	struct sm_fault_result r = sm_tlb_fill(tlb, addr, access, &p);

	return r.error || r.signo ? NULL : p;
}

void guest_designs(const struct bench *b, const char *otherwise, struct guest_designs *d)
{
	char *rest;
	unsigned n = 0, most = bench_options(b)->quick && !bench_text(b, "designs", NULL)
				       ? GUEST_DESIGNS_QUICK
				       : GUEST_DESIGNS;

	memset(d, 0, sizeof(*d));
	d->text = strdup(bench_text(b, "designs", otherwise));
	rest = d->text;
	for (char *name; n < most && rest && (name = strsep(&rest, ":"));) {
		if (*name)
			d->name[n++] = name;
	}
}

void guest_designs_free(struct guest_designs *d)
{
	free(d->text);
}
