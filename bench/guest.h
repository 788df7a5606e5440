/* SPDX-License-Identifier: MIT */
/* guest.h - a host and a space for a benchmark, and memory of it reached as
 * guest code reaches it. */
#ifndef BENCH_GUEST_H
#define BENCH_GUEST_H

#include "harness.h"

#include <samara/samara.h>

struct guest {
	struct sm_host *host;
	struct sm_space *space;
	struct sm_file *file; /* of guest_file(), or NULL */
};

enum guest_kind {
	GUEST_PAGES = 0, /* soft backend */
	GUEST_MAP_ONLY = 1,
	GUEST_LOCK_STATS = 2, /* wait and hold times of mmap_lock are measured */
};

/* design as sm_design_parse() reads it; kind: bits. Return: 0, or -errno after
 * bench_error(). */
int guest_open(struct bench *b, const char *design, int kind, struct guest *g);
/* The same with room for so many areas (vm.max_map_count). */
int guest_open_areas(struct bench *b, const char *design, int kind, uint64_t areas,
		     struct guest *g);
void guest_close(struct guest *g);
/* Maps a descriptor's file: g->file. */
int guest_file(struct bench *b, struct guest *g, int fd);

/* Slow side of guest_at(): a fault or a refill; NULL when the access is a
 * signal or memory ran out. */
void *guest_fill(struct sm_tlb *tlb, sm_addr addr, enum sm_access access);

/* The host address of a guest byte, as sm_translate(), brought in if it is not
 * there. */
static inline void *guest_at(struct sm_tlb *tlb, sm_addr addr, enum sm_access access)
{
	void *p = sm_translate(tlb, addr, access);

	return __builtin_expect(p != NULL, 1) ? p : guest_fill(tlb, addr, access);
}

/* The presets of --designs (comma-free names separated by ':'), or the given
 * ones. NULL-terminated. */
enum { GUEST_DESIGNS = 24, GUEST_DESIGNS_QUICK = 2 }; /* --quick: the first ones only */
struct guest_designs {
	const char *name[GUEST_DESIGNS + 1];
	char *text;
};
void guest_designs(const struct bench *b, const char *otherwise, struct guest_designs *d);
void guest_designs_free(struct guest_designs *d);

#endif
