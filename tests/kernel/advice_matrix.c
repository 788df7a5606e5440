/* SPDX-License-Identifier: MIT */
/*
 * advice_matrix.c - every advice on every kind of VMA in every shape of range: what the call answers,
 * what the pages hold afterwards, and what the map looks like.
 *
 *      area of 4 pages     0   1   2   3
 *      whole               [0         4)          part       [1     3)
 *      hole                page 2 is not mapped   tail       [2         6): runs off the end
 *      unaligned           page 1 + 1 byte        len-1      one byte at page 1
 *      zero                no length              wrap       the end wraps
 */
#include "kernel/machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 8
#endif
#include <sys/mman.h>

const struct advice_name advice_names[] = {
	{ 0, "NORMAL" },	  { 1, "RANDOM" },
	{ 2, "SEQUENTIAL" },	  { 3, "WILLNEED" },
	{ 4, "DONTNEED" },	  { 8, "FREE" },
	{ 9, "REMOVE" },	  { 10, "DONTFORK" },
	{ 11, "DOFORK" },	  { 12, "MERGEABLE" },
	{ 13, "UNMERGEABLE" },	  { 14, "HUGEPAGE" },
	{ 15, "NOHUGEPAGE" },	  { 16, "DONTDUMP" },
	{ 17, "DODUMP" },	  { 18, "WIPEONFORK" },
	{ 19, "KEEPONFORK" },	  { 20, "COLD" },
	{ 21, "PAGEOUT" },	  { 22, "POPULATE_READ" },
	{ 23, "POPULATE_WRITE" }, { 24, "DONTNEED_LOCKED" },
	{ 25, "COLLAPSE" },	  { 102, "GUARD_INSTALL" },
	{ 103, "GUARD_REMOVE" },  { 5, "5" },
	{ 104, "104" },
};
const unsigned advice_count = sizeof(advice_names) / sizeof(advice_names[0]);

enum kind {
	ANON,
	ANON_UNTOUCHED,
	ANON_NONE,
	ANON_READ,
	ANON_SHARED,
	FILE_PRIVATE_READ,
	FILE_PRIVATE,
	FILE_SHARED,
	FILE_SHARED_READ,
	MEMFD_SHARED,
	LOCKED,
	HUGETLB,
	DEVICE,
	SEALED_READ,
	DROPPABLE,
	BEYOND_END,
	KINDS
};
const char *const kind_names[] = { "anon",	     "anon-untouched",	 "anon-none",
				   "anon-read",	     "anon-shared",	 "file-private-read",
				   "file-private",   "file-shared",	 "file-shared-read",
				   "memfd-shared",   "anon-locked",	 "hugetlb",
				   "device",	     "anon-read-sealed", "droppable",
				   "file-beyond-end" };
const unsigned kind_count = KINDS;

enum shape { WHOLE, PART, HOLE, TAIL, UNALIGNED, ONE, ZERO, WRAP, SHAPES };
static const char *const shape_names[] = { "whole",	"part",	 "hole", "tail",
					   "unaligned", "len-1", "zero", "wrap" };

const char *errno_text(int64_t result)
{
	static char number[8][24];
	static unsigned turn;
	const char *name = result < 0 ? strerrorname_np((int)-result) : NULL;

	if (name)
		return name;
	turn = (turn + 1) % 8;
	snprintf(number[turn], sizeof(number[turn]), "%lld", (long long)result);
	return number[turn];
}

int64_t map_at(struct machine *m, uint64_t addr, uint64_t len, int prot, int flags)
{
	const uint64_t args[4] = { addr, len, (uint64_t)prot,
				   (uint64_t)(flags | MAP_FIXED | MAP_ANONYMOUS) };

	return m->ops->mmap(m, args, MACHINE_ANON, 0);
}

void fill(struct machine *m, uint64_t addr, uint64_t pages, uint8_t value)
{
	for (uint64_t i = 0; i < pages; i++)
		m->ops->poke(m, addr + i * PAGE, value);
}

void print_pages(struct machine *m, FILE *out, uint64_t addr, uint64_t pages)
{
	for (uint64_t i = 0; i < pages; i++) {
		struct machine_vma v;
		uint64_t a = addr + i * PAGE;
		uint8_t value = 0;
		int touch;

		if (!m->ops->vma(m, a, &v) || v.start > a) {
			fputc('-', out);
			continue;
		}
		touch = m->ops->peek(m, a, &value);
		fputc(touch ? touch : value ? value : '0', out);
	}
}

void print_vmas(struct machine *m, FILE *out, uint64_t addr, uint64_t pages)
{
#define LETTER_NAME(name) #name,
	static const char *const names[] = { MACHINE_LETTERS(LETTER_NAME) };
	uint64_t end = addr + pages * PAGE;
	struct machine_vma v;

	fputc('[', out);
	for (uint64_t a = addr; a < end && m->ops->vma(m, a, &v) && v.start < end; a = v.end) {
		fprintf(out, "%s%lld-%lld", a == addr ? "" : " ",
			(long long)(v.start - addr) / (long long)PAGE,
			(long long)(v.end - addr) / (long long)PAGE);
		for (unsigned i = 0; i < MACHINE_BITS; i++)
			if (v.letters & 1u << i)
				fprintf(out, ",%s", names[i]);
	}
	fputc(']', out);
}

static int64_t map_file(struct machine *m, uint64_t addr, int prot, int flags,
			enum machine_file file)
{
	const uint64_t args[4] = { addr, 4 * PAGE, (uint64_t)prot, (uint64_t)(flags | MAP_FIXED) };

	return m->ops->mmap(m, args, file, 0);
}

static int64_t map_kind(struct machine *m, enum kind kind, uint64_t at)
{
	const int rw = PROT_READ | PROT_WRITE;

	switch (kind) {
	case ANON_SHARED:
		return map_at(m, at, 4 * PAGE, rw, MAP_SHARED);
	case FILE_PRIVATE_READ:
		return map_file(m, at, PROT_READ, MAP_PRIVATE, MACHINE_DATA_R);
	case FILE_PRIVATE:
		return map_file(m, at, rw, MAP_PRIVATE, MACHINE_DATA);
	case FILE_SHARED:
		return map_file(m, at, rw, MAP_SHARED, MACHINE_DATA);
	case FILE_SHARED_READ:
		return map_file(m, at, PROT_READ, MAP_SHARED, MACHINE_DATA_R);
	case MEMFD_SHARED:
		return map_file(m, at, rw, MAP_SHARED, MACHINE_MEMORY);
	case BEYOND_END:
		return map_file(m, at, rw, MAP_PRIVATE, MACHINE_SHORT);
	case HUGETLB:
		return map_at(m, at, HUGE, rw, MAP_PRIVATE | MAP_HUGETLB);
	case DROPPABLE:
		return map_at(m, at, 4 * PAGE, rw, MAP_DROPPABLE);
	default:
		return map_at(m, at, 4 * PAGE, rw, MAP_PRIVATE);
	}
}

/* Contents, then what must come after them. false: the machine cannot make the kind. */
static bool make_kind(struct machine *m, enum kind kind, uint64_t at, bool hole)
{
	if (map_kind(m, kind, at) < 0)
		return false;
	if (kind == HUGETLB)
		return m->ops->poke(m, at, 'a') == TOUCH_OK;
	if (kind != ANON_UNTOUCHED && kind != FILE_PRIVATE_READ && kind != FILE_SHARED_READ &&
	    kind != BEYOND_END)
		fill(m, at, 4, 'a');
	if (kind == FILE_PRIVATE_READ || kind == FILE_SHARED_READ) {
		uint8_t value;

		for (int i = 0; i < 4; i++)
			m->ops->peek(m, at + i * PAGE, &value);
	}
	if (hole)
		m->ops->munmap(m, at + 2 * PAGE, PAGE);
	for (int i = 0; i < 4; i++) {
		if (hole && i == 2)
			continue;
		if (kind == LOCKED && m->ops->mlock2(m, at + i * PAGE, PAGE, 0))
			return false;
		if (kind == ANON_NONE)
			m->ops->mprotect(m, at + i * PAGE, PAGE, PROT_NONE);
		if (kind == ANON_READ || kind == SEALED_READ)
			m->ops->mprotect(m, at + i * PAGE, PAGE, PROT_READ);
		if (kind == SEALED_READ && m->ops->mseal(m, at + i * PAGE, PAGE, 0))
			return false;
	}
	return true;
}

static void shape_range(enum shape shape, uint64_t at, uint64_t size, struct machine_range *r)
{
	const struct machine_range ranges[] = {
		[WHOLE] = { at, size },
		[PART] = { at + PAGE, 2 * PAGE },
		[HOLE] = { at, size },
		[TAIL] = { at + 2 * PAGE, size },
		[UNALIGNED] = { at + PAGE + 1, PAGE },
		[ONE] = { at + PAGE, 1 },
		[ZERO] = { at + PAGE, 0 },
		[WRAP] = { at, (uint64_t)-PAGE },
	};

	*r = ranges[shape];
}

/* What a device range shows differs from machine to machine: only the answer is printed. */
static void device_shape(struct machine *m, FILE *out, enum shape shape, int advice)
{
	struct machine_range r;
	uint64_t at, size;

	if (!m->ops->device(m, &at, &size)) {
		fprintf(out, "none");
		return;
	}
	shape_range(shape, at, size, &r);
	fprintf(out, "%s", errno_text(m->ops->madvise(m, r.addr, r.len, advice)));
}

void matrix_cell(struct machine *m, FILE *out, const void *arg)
{
	const struct advice_cell *cell = arg;
	const int advice = advice_names[cell->advice].value;

	fprintf(out, "%s %s:", kind_names[cell->kind], advice_names[cell->advice].name);
	for (enum shape s = 0; s < SHAPES; s++) {
		uint64_t at = m->ops->window(m), size = cell->kind == HUGETLB ? HUGE : 4 * PAGE;
		struct machine_range r;

		/* a device range and a huge page are not cut by unmapping */
		if ((s == HOLE || s == TAIL || s == PART) &&
		    (cell->kind == DEVICE || cell->kind == HUGETLB))
			continue;
		fprintf(out, " %s=", shape_names[s]);
		if (cell->kind == DEVICE) {
			device_shape(m, out, s, advice);
			continue;
		}
		if (!make_kind(m, cell->kind, at, s == HOLE)) {
			fprintf(out, "none");
			continue;
		}
		shape_range(s, at, size, &r);
		fprintf(out, "%s", errno_text(m->ops->madvise(m, r.addr, r.len, advice)));
		if (s >= UNALIGNED && s != ONE)
			continue;
		fputc('/', out);
		print_vmas(m, out, at, size / PAGE);
		fputc('/', out);
		print_pages(m, out, at, cell->kind == HUGETLB ? 1 : 4);
	}
	fputc('\n', out);
}
