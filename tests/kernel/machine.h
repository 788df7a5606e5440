/* SPDX-License-Identifier: MIT */
/*
 * machine.h - one table of functions over "who executes memory calls": the running kernel, or a space
 * of the library. The advice tests are written once against it, so that both answer the same questions
 * in the same words and the answers can be compared as text.
 *
 * M1 Calls return what the system call returns, an error as a negative errno.
 * M2 A machine is used by one thread. The kernel's machine is the calling process itself: what a test
 *    breaks there is confined by machine_run(), which runs it in a child process.
 * M3 Touches never kill: they report the signal.
 */
#ifndef TESTS_KERNEL_MACHINE_H
#define TESTS_KERNEL_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PAGE 4096ull
#define HUGE (2ull << 20)

/* What a mapping shows; MACHINE_ANON is no file. */
enum machine_file {
	MACHINE_ANON = -1,
	MACHINE_DATA,	/* 4 pages of 'f', read and write */
	MACHINE_DATA_R, /* the same file, opened for reading */
	MACHINE_SHORT,	/* 1 page of 'f' */
	MACHINE_MEMORY, /* memfd of 4 pages, zero; fresh in each machine_run */
	MACHINE_FILES,
};

enum { TOUCH_OK = 0, TOUCH_SEGV = 'S', TOUCH_BUS = 'B' };

struct machine_vma {
	uint64_t start, end;
	bool read, write, exec, shared;
	uint32_t letters; /* enum machine_letter */
};

/* The flags an advice or a lock can change, as /proc/PID/smaps abbreviates them. */
#define MACHINE_LETTERS(X) \
	X(sr)              \
	X(rr) X(dc) X(dd) X(wf) X(hg) X(nh) X(mg) X(lo) X(lf) X(sl)
#define MACHINE_LETTER_BIT(name) MACHINE_BIT_##name,
enum machine_letter_bit { MACHINE_LETTERS(MACHINE_LETTER_BIT) MACHINE_BITS };

struct machine_range {
	uint64_t addr, len;
};

struct machine;

struct machine_ops {
	const char *name;
	int64_t (*mmap)(struct machine *m, const uint64_t args[4], enum machine_file file,
			uint64_t off);
	int (*munmap)(struct machine *m, uint64_t addr, uint64_t len);
	int (*mprotect)(struct machine *m, uint64_t addr, uint64_t len, int prot);
	int (*madvise)(struct machine *m, uint64_t addr, uint64_t len, int advice);
	int (*mlock2)(struct machine *m, uint64_t addr, uint64_t len, int flags);
	int (*munlock)(struct machine *m, uint64_t addr, uint64_t len);
	int (*mlockall)(struct machine *m, int flags); /* 0: munlockall */
	int (*mseal)(struct machine *m, uint64_t addr, uint64_t len, uint64_t flags);
	int (*mincore)(struct machine *m, uint64_t addr, uint64_t len, uint8_t *vec);
	/* target NULL: the own space. */
	int64_t (*process_madvise)(struct machine *m, struct machine *target,
				   const struct machine_range *v, const uint64_t args[3]);
	/* Reads or writes one byte: TOUCH_*. */
	int (*peek)(struct machine *m, uint64_t addr, uint8_t *value);
	int (*poke)(struct machine *m, uint64_t addr, uint8_t value);
	/* The first VMA that ends above addr; false: none. */
	bool (*vma)(struct machine *m, uint64_t addr, struct machine_vma *out);
	/* An area no other VMA is near: its first address. */
	uint64_t (*window)(struct machine *m);
	/* The device range (the kernel's vvar): start and length; false: there is none. */
	bool (*device)(struct machine *m, uint64_t *addr, uint64_t *len);
	/* Runs fn on a fork of the machine; what it prints goes to out. */
	void (*in_fork)(struct machine *m, void (*fn)(struct machine *, FILE *, uint64_t),
			FILE *out, uint64_t arg);
	/* Runs fn with a second machine, a fork that does nothing, as the target of remote advice. */
	void (*beside)(struct machine *m,
		       void (*fn)(struct machine *, struct machine *, FILE *, uint64_t), FILE *out,
		       uint64_t arg);
	/* The caller becomes somebody who may not advise others (false) */
	bool (*drop_rights)(struct machine *m);
};

struct machine {
	const struct machine_ops *ops;
	void *priv;
};

/* Runs fn on a fresh machine of the kind; the text it printed is malloc-ed, never NULL. */
typedef void (*machine_fn)(struct machine *m, FILE *out, const void *arg);
char *kernel_run(machine_fn fn, const void *arg);
char *library_run(machine_fn fn, const void *arg);
/* The design of the library's spaces, as sm_design_parse reads it; NULL: the default. */
extern const char *library_design;
/* Spaces without pages: touches answer what the map says, and every byte reads as zero. */
extern bool library_has_no_pages;

/* Whether the running kernel has what the tests ask about; else the reason it has not. */
const char *kernel_lacks(void);

/* "0" or "ENOMEM" and so on; a number where there is no name. */
const char *errno_text(int64_t result);

/* ---- what the tests ask (advice_matrix.c, advice_stories.c) ---- */

struct advice_name {
	int value;
	const char *name;
};
extern const struct advice_name advice_names[];
extern const unsigned advice_count;

struct advice_cell {
	unsigned kind, advice;
};
extern const char *const kind_names[];
extern const unsigned kind_count;

/* One line: every shape of one kind and one advice. arg: struct advice_cell. */
void matrix_cell(struct machine *m, FILE *out, const void *arg);

struct story {
	const char *name;
	void (*tell)(struct machine *m, FILE *out);
};
extern const struct story stories[];
extern const unsigned story_count;
void story_tell(struct machine *m, FILE *out, const void *arg); /* arg: struct story */

/* Short forms for tests. */
int64_t map_at(struct machine *m, uint64_t addr, uint64_t len, int prot, int flags);
void fill(struct machine *m, uint64_t addr, uint64_t pages, uint8_t value);
/* One letter per page: 0 zero, a lower-case byte as it is, S, B, - for unmapped. */
void print_pages(struct machine *m, FILE *out, uint64_t addr, uint64_t pages);
/* [first-end letters ...] in pages relative to addr. */
void print_vmas(struct machine *m, FILE *out, uint64_t addr, uint64_t pages);

#endif
