/* SPDX-License-Identifier: MIT */
/* twin_parts.h - what the files of the twin share. */
#ifndef TESTS_MODEL_TWIN_PARTS_H
#define TESTS_MODEL_TWIN_PARTS_H

#include "model/twin.h"

#define PAGE OPS_PAGE

/* Pages [first, end) of the window. */
struct span {
	unsigned first, end;
};

/* One call under way. */
struct call {
	struct twin_world *w;
	struct twin *t;
	unsigned pages; /* of the window */
};

static inline uint64_t page_align(uint64_t x)
{
	return (x + PAGE - 1) & ~(PAGE - 1);
}

/* The window's page at addr, or -1. */
static inline int page_at(const struct call *c, uint64_t addr)
{
	uint64_t base = c->w->config.base;

	return addr >= base && addr < ops_end(&c->w->config) ? (int)((addr - base) / PAGE) : -1;
}

static inline uint64_t addr_of(const struct call *c, unsigned page)
{
	return c->w->config.base + page * PAGE;
}

/* The part of [addr, addr + len) that lies in the window; len is a multiple of the page. */
struct span span_of(const struct call *c, uint64_t addr, uint64_t len);

bool has_vma(const struct call *c, unsigned page);
/* The VMA around a mapped page. */
struct span vma_at(const struct call *c, unsigned page);
/* First mapped page in [from, end), or end. */
unsigned next_mapped(const struct call *c, unsigned from, unsigned end);
unsigned count_vmas(const struct call *c);
/* Pages of [s) that have all of the bits in `set` and none in `clear`. */
int64_t count_pages(const struct call *c, struct span s, uint32_t set, uint32_t clear);
int64_t count_mapped(const struct call *c);
int64_t count_data(const struct call *c);
bool is_data(uint32_t flags);

/* True if `more` pages with these flags exceed RLIMIT_AS or RLIMIT_DATA. */
bool too_much(const struct call *c, uint32_t flags, int64_t more);
bool too_much_locked(const struct call *c, uint32_t flags, int64_t more);
/* True if a split is refused: vm.max_map_count. */
bool no_split(const struct call *c);
bool no_mmap(const struct call *c);

/* Splits before page, if a VMA goes through there. */
void cut(struct call *c, unsigned page);
/* Pages [s) have just been filled as one VMA: merges it with its neighbours where Linux does. */
void merge_new(struct call *c, struct span s);
/* Gives [s), which lies in one VMA, new flags: merge, else split. 0 or -ENOMEM. */
int change_flags(struct call *c, struct span s, uint32_t flags);
/* Unmaps the pages: 0, -EPERM or -ENOMEM. */
int unmap(struct call *c, struct span s);
void drop_pages(struct call *c, struct span s);
/* Address for a new mapping or -errno. */
int64_t place(struct call *c, uint64_t hint, uint64_t len, uint64_t flags, bool file);

/* Gives the VMA at page an anon identity, its own or a neighbour's. */
void anon_prepare(struct call *c, unsigned page);
enum touch { TOUCH_OK, TOUCH_BUS, TOUCH_SEGV };
/* A page fault of a mapped page whose access is allowed. */
enum touch fault_in(struct call *c, unsigned page, bool write);
/* As MAP_POPULATE and mlock do it. 0 or -errno of the first page that failed, then stops. */
int populate(struct call *c, struct span s, bool ignore_errors);

int64_t twin_touch(struct call *c, uint64_t addr, bool write, struct observation *o);
int64_t twin_madvise(struct call *c, uint64_t addr, uint64_t len, uint64_t advice);
int64_t twin_process_madvise(struct call *c, const struct op *op);
int64_t twin_mlock(struct call *c, uint64_t addr, uint64_t len, uint64_t flags);
int64_t twin_munlock(struct call *c, uint64_t addr, uint64_t len);
int64_t twin_mseal(struct call *c, uint64_t addr, uint64_t len, uint64_t flags);
int64_t twin_mincore(struct call *c, uint64_t addr, uint64_t len, unsigned char *core);
int64_t twin_msync(struct call *c, uint64_t addr, uint64_t len, uint64_t flags);
int64_t twin_mremap(struct call *c, const struct op *op);
int64_t twin_truncate(struct call *c, uint64_t fd, uint64_t size);
int64_t twin_fork(struct call *c, unsigned number);
int twin_new_file(struct twin_world *w, uint64_t size);

#endif
