/* SPDX-License-Identifier: MIT */
/*
 * embedder_file.h - a file as an embedder would bring it: an array of words behind functions that
 * take their time, fail now and then, and see that they are called as samara/file.h G2 promises.
 *
 *   read_page, write_page   one call for a page at a time
 *   truncate, punch         one at a time, and no write_page of their range meanwhile
 */
#ifndef TESTS_TORTURE_EMBEDDER_FILE_H
#define TESTS_TORTURE_EMBEDDER_FILE_H

#include "torture/torture.h"
#include "base/delay.h"

#include <errno.h>
#include <sched.h>
#include <samara/samara.h>

enum { EMBEDDER_PAGES = 48, EMBEDDER_WORDS = 4096 / 8 };

struct embedder_file {
	struct sm_file *file;
	_Atomic bool fails; /* one call in 64 */
	_Atomic uint64_t calls, size;
	_Atomic uint32_t at_work[EMBEDDER_PAGES]; /* read_page and write_page calls */
	_Atomic uint32_t writes[EMBEDDER_PAGES];
	_Atomic bool resizing;
	_Atomic uint64_t resized_first, resized_end;		/* pages */
	_Atomic uint64_t word[EMBEDDER_PAGES * EMBEDDER_WORDS]; /* a read may meet a truncate */
};

static inline bool embedder_waits_and_fails(struct embedder_file *e)
{
	uint64_t n = atomic_fetch_add_explicit(&e->calls, 1, memory_order_relaxed);

	sm__delay();
	if (n % 8 == 0)
		sched_yield();
	return n % 64 == 5 && atomic_load(&e->fails);
}

static inline uint64_t embedder_size(void *arg)
{
	struct embedder_file *e = arg;

	return atomic_load(&e->size);
}

static inline unsigned embedder_begin(struct embedder_file *e, uint64_t offset)
{
	unsigned page = (unsigned)(offset >> 12);

	if (offset >> 12 >= EMBEDDER_PAGES)
		FAIL("offset %llx is beyond every end", (unsigned long long)offset);
	page %= EMBEDDER_PAGES;
	if (atomic_fetch_add(&e->at_work[page], 1))
		FAIL("two calls for page %u", page);
	return page;
}

static inline int embedder_read(void *arg, uint64_t offset, void *page, size_t len)
{
	struct embedder_file *e = arg;
	unsigned at = embedder_begin(e, offset);
	bool fails = embedder_waits_and_fails(e);

	for (size_t i = 0; !fails && i < len / 8; i++)
		((uint64_t *)page)[i] = atomic_load_explicit(&e->word[at * EMBEDDER_WORDS + i],
							     memory_order_relaxed);
	atomic_fetch_sub(&e->at_work[at], 1);
	return fails ? -EIO : 0;
}

static inline bool embedder_is_resized(struct embedder_file *e, unsigned page)
{
	return atomic_load(&e->resizing) && page >= atomic_load(&e->resized_first) &&
	       page < atomic_load(&e->resized_end);
}

static inline int embedder_write(void *arg, uint64_t offset, const void *page, size_t len)
{
	struct embedder_file *e = arg;
	unsigned at = embedder_begin(e, offset);
	bool fails;

	atomic_fetch_add(&e->writes[at], 1);
	if (embedder_is_resized(e, at))
		FAIL("page %u is written while its range is resized", at);
	fails = embedder_waits_and_fails(e);
	/* Guests write to the page meanwhile. */
	for (size_t i = 0; !fails && i < len / 8; i++)
		atomic_store_explicit(&e->word[at * EMBEDDER_WORDS + i],
				      __atomic_load_n((const uint64_t *)page + i, __ATOMIC_RELAXED),
				      memory_order_relaxed);
	atomic_fetch_sub(&e->writes[at], 1);
	atomic_fetch_sub(&e->at_work[at], 1);
	return fails ? -EIO : 0;
}

/* Zeroes pages [first, end); 0 or -EIO, nothing done. */
static inline int embedder_clear(struct embedder_file *e, uint64_t first, uint64_t end)
{
	bool fails;

	if (atomic_load(&e->resizing))
		FAIL("two truncate or punch calls");
	atomic_store(&e->resized_first, first);
	atomic_store(&e->resized_end, end);
	atomic_store(&e->resizing, true);
	fails = embedder_waits_and_fails(e);
	for (uint64_t page = first; page < end; page++) {
		if (atomic_load(&e->writes[page]))
			FAIL("page %u is resized while it is written", (unsigned)page);
		for (unsigned i = 0; !fails && i < EMBEDDER_WORDS; i++)
			atomic_store_explicit(&e->word[page * EMBEDDER_WORDS + i], 0,
					      memory_order_relaxed);
	}
	sm__delay();
	return fails ? -EIO : 0;
}

static inline int embedder_truncate(void *arg, uint64_t size)
{
	struct embedder_file *e = arg;
	int err = embedder_clear(e, size >> 12, EMBEDDER_PAGES);

	if (!err)
		atomic_store(&e->size, size);
	atomic_store(&e->resizing, false);
	return err;
}

static inline int embedder_punch(void *arg, uint64_t offset, uint64_t len)
{
	struct embedder_file *e = arg;
	uint64_t end = (offset + len) >> 12;
	int err = embedder_clear(e, offset >> 12, end < EMBEDDER_PAGES ? end : EMBEDDER_PAGES);

	atomic_store(&e->resizing, false);
	return err;
}

/* Sizes, holes and lengths are whole pages here. */
static const struct sm_file_ops embedder_ops = {
	.size = embedder_size,
	.read_page = embedder_read,
	.write_page = embedder_write,
	.truncate = embedder_truncate,
	.punch = embedder_punch,
};

static inline int embedder_file_make(struct embedder_file *e)
{
	struct sm_file_info info = { .name = "embedder", .mode = SM_FILE_READ | SM_FILE_WRITE };

	memset(e, 0, sizeof(*e));
	atomic_init(&e->size, EMBEDDER_PAGES * 4096ull);
	atomic_init(&e->fails, true);
	return sm_file_create(&info, &embedder_ops, e, &e->file);
}

#endif
