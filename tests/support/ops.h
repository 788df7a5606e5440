/* SPDX-License-Identifier: MIT */
/*
 * ops.h - one call on an address space as plain data, and what was seen after it.
 *
 * The same list of calls is given to several executors (the naive twin, the library, the running
 * kernel); each answers with one observation per call; two executors agree when their observations
 * are equal. All addresses are absolute and lie in a window [base, base + pages) that starts empty,
 * so that a list means the same to everybody, whole or shrunk.
 *
 * I1 A call is self-contained: no argument refers to the result of another call.
 * I2 ops_print and ops_parse are inverse: a failing list is a file that runs again.
 * I3 No call of a generated list changes memory outside the window.
 */
#ifndef TESTS_SUPPORT_OPS_H
#define TESTS_SUPPORT_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define OPS_PAGE      4096ULL
#define OPS_MAX_PAGES 2048 /* largest window */
#define OPS_MAX_ARGS  8
#define OPS_SPACES    4 /* the first space and its fork copies */

enum op_kind {
	OP_MMAP,     /* addr len prot flags fd off */
	OP_MUNMAP,   /* addr len */
	OP_MPROTECT, /* addr len prot */
	OP_MREMAP,   /* addr old_len new_len flags new_addr */
	OP_BRK,	     /* addr */
	OP_MADVISE,  /* addr len advice */
	OP_READ,     /* addr: reads the token of a page */
	OP_WRITE,    /* addr token: writes it */
	OP_MLOCK2,   /* addr len flags; flags 0 is mlock */
	OP_MUNLOCK,  /* addr len */
	OP_MSEAL,    /* addr len flags */
	OP_MINCORE,  /* addr len: which private pages without a file are there, as a token */
	OP_MSYNC,    /* addr len flags */
	OP_PMADVISE, /* addr len addr len addr len advice flags: three ranges of the own space */
	OP_TRUNCATE, /* fd size */
	OP_FORK,     /* space: the copy gets this number */
	OP_KINDS,
};

struct op {
	uint8_t kind;  /* enum op_kind */
	uint8_t space; /* who calls */
	uint64_t arg[OPS_MAX_ARGS];
};

/* The files a list may map, opened anew for every run. fd arguments are indices into this table. */
enum ops_fd {
	FD_RW = 0,    /* file 0, 16 pages, read and write */
	FD_BIG = 1,   /* file 1, 96 pages */
	FD_SHORT = 2, /* file 2, 1024 bytes */
	FD_RO = 3,    /* file 0 again, opened for reading only */
	FD_WO = 4,    /* file 0 again, opened for writing only */
	FD_DIR = 5,   /* a directory */
	FD_FILES = 6,
	FD_BAD = 999, /* no descriptor */
};
#define OPS_OBJECTS 3 /* files 0..2 */

struct ops_fd_spec {
	int object; /* index of the file, -1: a directory */
	bool read, write;
};
extern const struct ops_fd_spec ops_fd_table[FD_FILES];
extern const uint64_t ops_object_size[OPS_OBJECTS]; /* bytes */

/* The token a file's page holds before anybody wrote to it. */
static inline uint64_t ops_object_token(int object, uint64_t page)
{
	return ((uint64_t)(object + 1) << 32) | (page + 1);
}

/* What the window looks like to a run. */
struct ops_config {
	uint64_t base;	/* first address of the window */
	unsigned pages; /* its length */
	int brk_page; /* the heap starts at this page; -1: the heap is elsewhere, brk is not called */
	uint64_t
		as_pages; /* RLIMIT_AS, pages beyond those that exist before the first call; ~0: none */
	uint64_t data_pages;	/* RLIMIT_DATA likewise */
	uint64_t memlock_pages; /* RLIMIT_MEMLOCK for a caller that may not exceed it; ~0: it may */
	unsigned map_count;	/* VMAs the window may hold as vm.max_map_count; 0: plenty */
	bool contents;		/* tokens are compared */
	bool bare;		/* a map without pages: no end of a file, no guard marker is met */
};

static inline uint64_t ops_end(const struct ops_config *c)
{
	return c->base + c->pages * OPS_PAGE;
}

/* What a VMA is, as bits. The first three are PROT_ values. */
enum vma_flag {
	VF_READ = 1,
	VF_WRITE = 2,
	VF_EXEC = 4,
	VF_SHARED = 8,	    /* stores go to the file */
	VF_MAYSHARE = 0x10, /* mapped with MAP_SHARED, whatever the descriptor allows */
	VF_MAYWRITE = 0x20,
	VF_GROWSDOWN = 0x40,
	VF_NORESERVE = 0x80,
	VF_ACCOUNT = 0x100,
	VF_LOCKED = 0x200,
	VF_ONFAULT = 0x400,
	VF_SEALED = 0x800,
	VF_DONTFORK = 0x1000,
	VF_WIPEONFORK = 0x2000,
	VF_DONTDUMP = 0x4000,
	VF_RANDOM = 0x8000,
	VF_SEQUENTIAL = 0x10000,
	VF_MERGEABLE = 0x20000,
	VF_HUGEPAGE = 0x40000,
	VF_NOHUGEPAGE = 0x80000,
	VF_DROPPABLE = 0x100000,
	VF_SYNC = 0x200000,
};
#define VF_ACCESS (VF_READ | VF_WRITE | VF_EXEC)

struct obs_vma {
	uint16_t first, end; /* pages of the window */
	uint8_t prot;	     /* PROT_ bits */
	bool shared;
	uint16_t file;	/* 0: none; else numbered in the order of first sight */
	uint64_t off;	/* bytes, 0 without a file */
	uint32_t flags; /* VF_ bits, if the executor knows them */
};

/* The letters of /proc/PID/smaps for them. */
struct obs_flag_name {
	const char *name;
	uint32_t flag;
};
extern const struct obs_flag_name obs_flag_names[];

/* A touch that raised a signal has this result. */
#define OBS_SIGNAL(sig, code) ((int64_t)(sig)*256 + (code))
#define OBS_MAX_VMAS	      (OPS_MAX_PAGES / 4)

struct observation {
	int64_t result; /* of the call, or -errno; 0 or OBS_SIGNAL of a touch */
	uint64_t token; /* what a read saw */
	bool token_any; /* the token may have any value (lazily freed) */
	bool has_flags; /* every vma[].flags is known */
	bool truncated; /* more VMAs than vma[] holds */
	int64_t total;	/* pages mapped now, relative to the start */
	int64_t data;	/* private writable pages now, relative to the start */
	unsigned vmas;
	struct obs_vma vma[OBS_MAX_VMAS];
};

/* Maps raw file identities to small numbers in the order of first sight. */
#define OBS_MAX_FILES 1024
struct obs_files {
	unsigned count;
	struct {
		uint64_t a, b;
	} id[OBS_MAX_FILES];
};
uint16_t obs_file_number(struct obs_files *files, uint64_t a, uint64_t b);

/* What mincore said of the private pages without a file, folded into a token. o: the window then. */
uint64_t obs_core_token(const struct ops_config *c, const struct observation *o,
			const struct op *op, const unsigned char *core);

/* Prints one call as `space: name(arguments)` without a newline; addresses near base as W+0x... */
const char *ops_name(unsigned kind);
void ops_print(FILE *out, const struct op *op, uint64_t base);
void ops_print_all(FILE *out, const struct op *ops, size_t n, uint64_t base);

/* Reads what ops_print wrote (after it, a comment). Returns 0, or -1 on a line that is no call. */
int ops_parse(const char *line, uint64_t base, struct op *op);

/*
 * One argument: W (the base), names of constants and numbers, joined by | + and -; a number followed
 * by P counts pages. Returns what follows it, or NULL.
 */
const char *ops_parse_number(const char *p, uint64_t base, uint64_t *value);

/* Reads a file of calls. Returns their number, or -1. *out is malloc-ed. */
long ops_load(const char *path, uint64_t base, struct op **out);

bool obs_equal(const struct ops_config *c, const struct observation *a,
	       const struct observation *b);
void obs_print(FILE *out, const struct ops_config *c, const struct observation *o);

/*
 * Shrinks ops[0..n) in place (ddmin: chunks, then single calls, then simpler arguments) to a list
 * that still fails; returns the new length. fails() is called on candidates, in the same memory.
 */
typedef bool (*ops_fails)(void *arg, const struct op *ops, size_t n);
size_t ops_shrink(struct op *ops, size_t n, ops_fails fails, void *arg);

#endif
