/* SPDX-License-Identifier: MIT */
/*
 * twin.h - the naive twin: an address space as an array of pages, with the rules of Linux 6.18 for
 * results, layout, limits, accounting and contents. It is what the library is compared with, so it
 * shares no code with it and has nothing clever in it: every question is a loop over the pages.
 *
 * I1 A page is unmapped, or carries everything there is to know about it; a VMA is a run of pages
 *    of which only the first has `starts` set. All pages of a VMA are equal but for their contents,
 *    and their offsets count up.
 * I2 Only cut() and join() move the borders of VMAs, as splits and merges do.
 * I3 Everything outside the window is mapped by somebody else and never touched.
 */
#ifndef TESTS_MODEL_TWIN_H
#define TESTS_MODEL_TWIN_H

#include "support/ops.h"

struct twin_page {
	bool mapped;
	bool starts; /* first page of its VMA */
	bool cloned; /* the VMA's anon identity came through fork: it joins nobody without one */
	uint32_t flags;
	int file;	/* index in the world, -1: none */
	int handle;	/* which open of that file: only equal ones merge */
	uint64_t pgoff; /* page of the file; of private memory the page number it was first at */
	uint32_t anon;	/* anon identity of the VMA, 0: never faulted */

	bool own;  /* a private page is here, with this token */
	bool zero; /* no page is, but a read has found the page of zeroes */
	bool maybe; /* zero was inherited by fork: Linux copies that of areas with an identity only */
	bool lazy;  /* freed lazily: token or zero */
	bool guard; /* guard marker */
	uint64_t token;
};

struct twin {
	bool alive;
	uint64_t brk;
	uint64_t start_brk;
	struct twin_page page[OPS_MAX_PAGES];
};

struct twin_file {
	uint64_t size; /* bytes */
	uint64_t room; /* tokens there is memory for */
	uint64_t *token;
};

/* The machine the twins live on. */
struct twin_world {
	struct ops_config config;
	uint64_t task_size, min_addr;
	bool mremap_many; /* MREMAP_FIXED moves several VMAs (Linux 6.17) */
	bool guard_files; /* guard markers on file mappings (Linux 6.15) */
	unsigned files;
	unsigned file_room;
	struct twin_file *file;
	uint32_t next_anon;
	struct twin *space[OPS_SPACES];
	struct obs_files seen;
	unsigned char core[OPS_MAX_PAGES]; /* of the last mincore */
	bool core_any;			   /* it says nothing certain */
};

struct twin_world *twin_create(const struct ops_config *config);
void twin_destroy(struct twin_world *w);

/* Runs one call, and tells what is to be seen afterwards in the space that called. */
void twin_apply(struct twin_world *w, const struct op *op, struct observation *o);

/* Checks I1; NULL or what is wrong. */
const char *twin_check(const struct twin_world *w, const struct twin *t);

/* The list as an executor like the others. log has room for n. */
void twin_run(const struct ops_config *config, const struct op *ops, size_t n,
	      struct observation *log);

#endif
