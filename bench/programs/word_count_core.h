/* SPDX-License-Identifier: MIT */
/*
 * word_count_core.h - word count as the map-reduce program of the published comparison does it,
 * over memory that is reached through wc_at() and obtained through a struct wc_system.
 *
 * The same source runs on the host kernel (programs/word_count.c) and on a space of this library
 * (word_count.c): who includes it defines
 *
 *   struct wc_mem    one thread's way to memory, with a member `const struct wc_system *sys`
 *   char *wc_at(struct wc_mem *m, uint64_t addr, bool write)
 *                    the byte at addr, usable to the end of its page until the next wc_at()
 *                    or wc_poll()
 *   void wc_poll(struct wc_mem *m)     a moment where no such pointer is held
 *   void wc_enter(m), wc_leave(m)      around each phase of a thread
 *
 * What it does to memory, after Phoenix's word_count (from its description):
 *   - the text is mapped private and writable; tasks of 64 KiB (a word belongs to the task it begins
 *     in); each letter is read, made upper case and written back, each word ended by a zero: a read
 *     fault, then a COW fault, per page;
 *   - each word is emitted as (pointer into the text, 1): 32 768 buckets per thread (768 KiB of their
 *     own mapping), keys and values in arrays that grow by doubling from 10, from a thread arena
 *     (arena.h): one mprotect and one anonymous fault per page of heap;
 *   - reduce: the buckets are shared out, values of equal keys of all threads summed.
 */
#ifndef BENCH_WORD_COUNT_CORE_H
#define BENCH_WORD_COUNT_CORE_H

#include "arena.h"
#include "measure.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WC_BUCKETS = 32768, WC_TASK = 65536, WC_FIRST_ROOM = 10, WC_THREADS = 64, WC_PIECE = 32 };

/* Sizes and members in the program's memory: 64-bit words, so none straddles a page. */
enum { BUCKET_ARRAY = 0, BUCKET_LENGTH = 8, BUCKET_ROOM = 16, BUCKET_SIZE = 24 };
enum { PAIR_KEY = 0, PAIR_VALUES = 8, PAIR_COUNT = 16, PAIR_ROOM = 24, PAIR_SIZE = 32 };

struct wc_job {
	uint64_t text, size; /* address, bytes */
	unsigned threads;
	uint64_t next; /* start of the next task, from text: atomic */
	uint64_t table[WC_THREADS];
	struct arena arena[WC_THREADS];
	struct wc_mem *mem[WC_THREADS];
	int error;		       /* any thread's failure */
	uint64_t words, distinct, sum; /* result: sum does not depend on the order */
	uint64_t partial[WC_THREADS][3];
};

static inline uint64_t wc_load(struct wc_mem *m, uint64_t addr)
{
	return *(uint64_t *)wc_at(m, addr, false);
}

static inline void wc_store(struct wc_mem *m, uint64_t addr, uint64_t value)
{
	*(uint64_t *)wc_at(m, addr, true) = value;
}

static inline void wc_failed(struct wc_job *job)
{
	__atomic_store_n(&job->error, -12,
			 __ATOMIC_RELAXED); /* read after the join, and as a hint */
}

static inline bool wc_letter(char c)
{
	return (unsigned char)((c | 0x20) - 'a') < 26;
}

/* Neighbouring tasks may look at one byte while its owner rewrites it: a letter stays one. */
static inline char wc_byte(const char *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static inline uint64_t wc_to_page_end(uint64_t addr)
{
	return ARENA_PAGE - addr % ARENA_PAGE;
}

/*
 * Zero-ended words a and b are equal. A piece of a is copied before b is looked at: two pages may
 * share the one entry of a TLB, so two pointers cannot be had at a time.
 */
static bool wc_equal(struct wc_mem *m, uint64_t a, uint64_t b)
{
	for (;;) {
		uint64_t run = wc_to_page_end(a), other = wc_to_page_end(b);
		char piece[WC_PIECE];
		const char *p;

		run = run < other ? run : other;
		run = run < WC_PIECE ? run : WC_PIECE;
		p = wc_at(m, a, false);
		for (uint64_t i = 0; i < run; i++) {
			piece[i] = wc_byte(p + i);
			if (!piece[i])
				break;
		}
		p = wc_at(m, b, false);
		for (uint64_t i = 0; i < run; i++) {
			if (piece[i] != wc_byte(p + i))
				return false;
			if (!piece[i])
				return true;
		}
		a += run;
		b += run;
	}
}

static uint64_t wc_hash_step(uint64_t hash, char c)
{
	return hash * 33 + (unsigned char)c;
}

/* A larger array with the old contents; 0 if memory ran out (the old one stays). */
static uint64_t wc_grow(struct wc_job *job, unsigned t, uint64_t old, uint64_t words, uint64_t more)
{
	struct wc_mem *m = job->mem[t];
	uint64_t got = arena_alloc(&job->arena[t], m, more * 8);

	if (!got) {
		wc_failed(job);
		return 0;
	}
	for (uint64_t i = 0; i < words; i++)
		wc_store(m, got + i * 8, wc_load(m, old + i * 8));
	arena_free(&job->arena[t], m, old, words * 8);
	return got;
}

/* The pair of key in a bucket, added if it is new; 0 if memory ran out. */
static uint64_t wc_pair(struct wc_job *job, unsigned t, uint64_t bucket, uint64_t key)
{
	struct wc_mem *m = job->mem[t];
	uint64_t array = wc_load(m, bucket + BUCKET_ARRAY);
	uint64_t length = wc_load(m, bucket + BUCKET_LENGTH);
	uint64_t room = wc_load(m, bucket + BUCKET_ROOM), pair;

	for (uint64_t i = 0; i < length; i++) {
		if (wc_equal(m, wc_load(m, array + i * PAIR_SIZE + PAIR_KEY), key))
			return array + i * PAIR_SIZE;
	}
	if (length == room) {
		room = room ? room * 2 : WC_FIRST_ROOM;
		array = wc_grow(job, t, array, length * (PAIR_SIZE / 8), room * (PAIR_SIZE / 8));
		if (!array)
			return 0;
		wc_store(m, bucket + BUCKET_ARRAY, array);
		wc_store(m, bucket + BUCKET_ROOM, room);
	}
	wc_store(m, bucket + BUCKET_LENGTH, length + 1);
	pair = array + length * PAIR_SIZE;
	wc_store(m, pair + PAIR_KEY, key);
	for (unsigned at = PAIR_VALUES; at < PAIR_SIZE; at += 8)
		wc_store(m, pair + at, 0);
	return pair;
}

static void wc_emit(struct wc_job *job, unsigned t, uint64_t key, uint64_t hash)
{
	struct wc_mem *m = job->mem[t];
	uint64_t pair = wc_pair(job, t, job->table[t] + hash % WC_BUCKETS * BUCKET_SIZE, key);
	uint64_t count, room, values;

	if (!pair)
		return;
	count = wc_load(m, pair + PAIR_COUNT);
	room = wc_load(m, pair + PAIR_ROOM);
	values = wc_load(m, pair + PAIR_VALUES);
	if (count == room) {
		room = room ? room * 2 : WC_FIRST_ROOM;
		values = wc_grow(job, t, values, count, room);
		if (!values)
			return;
		wc_store(m, pair + PAIR_VALUES, values);
		wc_store(m, pair + PAIR_ROOM, room);
	}
	wc_store(m, values + count * 8, 1);
	wc_store(m, pair + PAIR_COUNT, count + 1);
}

static inline bool wc_letter_at(struct wc_mem *m, uint64_t addr)
{
	return wc_letter(wc_byte(wc_at(m, addr, false)));
}

/*
 * One task: the words that begin in [start, end) of the text. A word that began before start
 * belongs to the task before; the last one is followed beyond end. (Letters stay letters and
 * separators stay none while others rewrite them, so neighbours agree without a lock.)
 */
static void wc_map_task(struct wc_job *job, unsigned t, uint64_t start, uint64_t end)
{
	struct wc_mem *m = job->mem[t];
	uint64_t at = job->text + start, stop = job->text + end, last = job->text + job->size;

	if (start && wc_letter_at(m, at - 1)) {
		while (at < last && wc_letter_at(m, at))
			at++;
	}
	while (at < stop) {
		uint64_t word = at, hash = 5381;
		char c;

		while (at < last && wc_letter(c = wc_byte(wc_at(m, at, false)))) {
			c = (char)(c & ~0x20);
			__atomic_store_n(wc_at(m, at, true), c, __ATOMIC_RELAXED);
			hash = wc_hash_step(hash, c);
			at++;
		}
		if (at > word) { /* at == last: the spare byte behind the text */
			__atomic_store_n(wc_at(m, at, true), 0, __ATOMIC_RELAXED);
			wc_emit(job, t, word, hash);
			wc_poll(m);
		}
		at++;
	}
}

/* First phase, thread t. */
static void wc_map(struct wc_job *job, unsigned t)
{
	struct wc_mem *m = job->mem[t];
	uint64_t start, end;

	if (arena_new_heap(&job->arena[t], m->sys) ||
	    !(job->table[t] = arena_alloc(&job->arena[t], m, WC_BUCKETS * BUCKET_SIZE))) {
		wc_failed(job);
		return;
	}
	while (!__atomic_load_n(&job->error, __ATOMIC_RELAXED)) {
		start = __atomic_fetch_add(&job->next, WC_TASK, __ATOMIC_RELAXED);
		if (start >= job->size)
			break;
		end = start + WC_TASK < job->size ? start + WC_TASK : job->size;
		wc_map_task(job, t, start, end);
	}
}

static uint64_t wc_word_hash(struct wc_mem *m, uint64_t key)
{
	uint64_t hash = 1469598103934665603ULL;
	char c;

	while ((c = wc_byte(wc_at(m, key++, false))))
		hash = (hash ^ (unsigned char)c) * 1099511628211ULL;
	return hash;
}

static uint64_t wc_sum_values(struct wc_mem *m, uint64_t pair)
{
	uint64_t count = wc_load(m, pair + PAIR_COUNT), values = wc_load(m, pair + PAIR_VALUES),
		 sum = 0;

	for (uint64_t i = 0; i < count; i++)
		sum += wc_load(m, values + i * 8);
	return sum;
}

/* Adds one bucket of every thread into a fresh one of t's, then into t's part of the result. */
static void wc_reduce_bucket(struct wc_job *job, unsigned t, uint64_t merged, unsigned b)
{
	struct wc_mem *m = job->mem[t];

	for (unsigned at = 0; at < BUCKET_SIZE; at += 8)
		wc_store(m, merged + at, 0);
	for (unsigned from = 0; from < job->threads; from++) {
		uint64_t bucket = job->table[from] + (uint64_t)b * BUCKET_SIZE;
		uint64_t array = wc_load(m, bucket + BUCKET_ARRAY);
		uint64_t length = wc_load(m, bucket + BUCKET_LENGTH);

		for (uint64_t i = 0; i < length; i++) {
			uint64_t key = wc_load(m, array + i * PAIR_SIZE + PAIR_KEY);
			uint64_t into = wc_pair(job, t, merged, key);

			if (!into)
				return;
			wc_store(m, into + PAIR_COUNT,
				 wc_load(m, into + PAIR_COUNT) +
					 wc_sum_values(m, array + i * PAIR_SIZE));
		}
	}
	for (uint64_t i = 0; i < wc_load(m, merged + BUCKET_LENGTH); i++) {
		uint64_t pair = wc_load(m, merged + BUCKET_ARRAY) + i * PAIR_SIZE;
		uint64_t count = wc_load(m, pair + PAIR_COUNT);

		job->partial[t][0] += count;
		job->partial[t][1] += 1;
		job->partial[t][2] += count * wc_word_hash(m, wc_load(m, pair + PAIR_KEY));
	}
}

/* Second phase, thread t: its share of the buckets. */
static void wc_reduce(struct wc_job *job, unsigned t)
{
	struct wc_mem *m = job->mem[t];
	uint64_t merged;

	if (__atomic_load_n(&job->error, __ATOMIC_RELAXED))
		return;
	merged = arena_alloc(&job->arena[t], m, BUCKET_SIZE);
	if (!merged) {
		wc_failed(job);
		return;
	}
	for (unsigned b = t; b < WC_BUCKETS; b += job->threads) {
		wc_reduce_bucket(job, t, merged, b);
		wc_poll(m);
	}
}

static void wc_phase_map(void *arg, unsigned t, uint64_t n)
{
	struct wc_job *job = arg;

	(void)n;
	wc_enter(job->mem[t]);
	wc_map(job, t);
	wc_leave(job->mem[t]);
}

static void wc_phase_reduce(void *arg, unsigned t, uint64_t n)
{
	struct wc_job *job = arg;

	(void)n;
	wc_enter(job->mem[t]);
	wc_reduce(job, t);
	wc_leave(job->mem[t]);
}

/*
 * How much of a text of size bytes can be counted: a last word without an end after it is ended in
 * the byte behind the text, which is not there when the text fills its last page. Such a word is
 * left out.
 */
static uint64_t wc_countable(int fd, uint64_t size)
{
	char c;

	if (size % ARENA_PAGE)
		return size;
	while (size && pread(fd, &c, 1, (off_t)size - 1) == 1 && wc_letter(c))
		size--;
	return size;
}

static void wc_total(struct wc_job *job)
{
	job->words = job->distinct = job->sum = 0;
	for (unsigned t = 0; t < job->threads; t++) {
		job->words += job->partial[t][0];
		job->distinct += job->partial[t][1];
		job->sum += job->partial[t][2];
	}
}

/* Gives back what the phases have taken: arenas, tables. */
static void wc_release(struct wc_job *job)
{
	for (unsigned t = 0; t < job->threads; t++) {
		if (job->table[t])
			arena_free(&job->arena[t], job->mem[t], job->table[t],
				   WC_BUCKETS * BUCKET_SIZE);
		arena_end(&job->arena[t], job->mem[t]->sys);
	}
}

#endif
