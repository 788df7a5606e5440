/* SPDX-License-Identifier: MIT */
/*
 * advice_stories.c - what a table of cells cannot ask: vectors, remote spaces, guard pages over time,
 * fork, seals, locks, population, huge pages. A story prints one line per question.
 */
#include "kernel/machine.h"

#include <string.h>
#include <sys/mman.h>

enum { A_WILLNEED = 3, A_DONTNEED = 4, A_FREE = 8, A_DONTFORK = 10, A_DOFORK = 11, A_WIPE = 18 };
enum { A_KEEP = 19, A_COLD = 20, A_PAGEOUT = 21, A_POP_READ = 22, A_POP_WRITE = 23 };
enum { A_DONTNEED_LOCKED = 24, A_COLLAPSE = 25, A_GUARD = 102, A_UNGUARD = 103, A_NONE = 9999 };

static const int RW = PROT_READ | PROT_WRITE;

static uint64_t area(struct machine *m, uint64_t pages)
{
	uint64_t at = m->ops->window(m);

	map_at(m, at, pages * PAGE, RW, MAP_PRIVATE);
	return at;
}

static void say(FILE *out, const char *what, int64_t result)
{
	fprintf(out, "%s=%s ", what, errno_text(result));
}

static int advise(struct machine *m, uint64_t at, uint64_t len, int advice)
{
	return m->ops->madvise(m, at, len, advice);
}

static int64_t vector(struct machine *m, const struct machine_range *v, uint64_t n, int advice)
{
	return m->ops->process_madvise(m, NULL, v, (const uint64_t[3]){ n, (uint64_t)advice, 0 });
}

/* ---- entry checks ---- */

static void entry(struct machine *m, FILE *out)
{
	uint64_t at = area(m, 8), low = PAGE;

	fill(m, at, 8, 'a');
	say(out, "zero-unknown", advise(m, at, 0, A_NONE));
	say(out, "zero-unaligned", advise(m, at + 1, 0, A_DONTNEED));
	say(out, "zero-unmapped", advise(m, low, 0, A_DONTNEED));
	say(out, "unaligned-unknown", advise(m, at + 1, PAGE, A_NONE));
	say(out, "rounds-to-zero", advise(m, at, UINT64_MAX, A_DONTNEED));
	say(out, "wraps", advise(m, at, -PAGE, A_DONTNEED));
	for (unsigned i = 0; i < advice_count; i++)
		say(out, advice_names[i].name, advise(m, low, PAGE, advice_names[i].value));
}

/* A rejecting VMA in the middle: what is before it stays done, what is after is not reached. */
static void partial(struct machine *m, FILE *out)
{
	for (unsigned i = 0; i < advice_count; i++) {
		uint64_t at = area(m, 9);

		fill(m, at, 9, 'a');
		m->ops->mlock2(m, at + 3 * PAGE, 3 * PAGE, 0);
		m->ops->munmap(m, at + PAGE, PAGE);
		say(out, advice_names[i].name, advise(m, at, 9 * PAGE, advice_names[i].value));
		print_vmas(m, out, at, 9);
		print_pages(m, out, at, 9);
		fputc(' ', out);
	}
}

/* ---- vectors ---- */

static void vector_arguments(struct machine *m, FILE *out)
{
	static struct machine_range v[1025];
	uint64_t at = area(m, 1100);

	for (int i = 0; i < 1025; i++)
		v[i] = (struct machine_range){ at + i * PAGE, PAGE };
	say(out, "n-0", vector(m, v, 0, A_DONTNEED));
	say(out, "n-1024", vector(m, v, 1024, A_DONTNEED));
	say(out, "n-1025", vector(m, v, 1025, A_DONTNEED));
	say(out, "n-huge", vector(m, v, UINT64_MAX, A_DONTNEED));
	say(out, "n-1025-unknown", vector(m, v, 1025, A_NONE));
	say(out, "flags",
	    m->ops->process_madvise(m, NULL, v, (const uint64_t[3]){ 1, A_DONTNEED, 1 }));
	say(out, "flags-first",
	    m->ops->process_madvise(m, NULL, v, (const uint64_t[3]){ 1025, A_NONE, 1 }));
	say(out, "unknown", vector(m, v, 1, A_NONE));
	say(out, "unknown-0", vector(m, v, 0, A_NONE));
	v[0].len = 0;
	say(out, "unknown-len-0", vector(m, v, 1, A_NONE));
}

static void vector_self(struct machine *m, FILE *out)
{
	for (unsigned i = 0; i < advice_count; i++) {
		uint64_t at = area(m, 2);
		struct machine_range v = { at, 2 * PAGE };

		fill(m, at, 2, 'a');
		say(out, advice_names[i].name, vector(m, &v, 1, advice_names[i].value));
	}
}

#define V(...)                                                          \
	((const struct machine_range[]){ __VA_ARGS__ }),                \
		sizeof((const struct machine_range[]){ __VA_ARGS__ }) / \
			sizeof(struct machine_range)

static void vector_rules(struct machine *m, FILE *out)
{
	uint64_t w = area(m, 8);

#define P(page) (w + (page)*PAGE)
	fill(m, w, 8, 'a');
	m->ops->munmap(m, P(2), PAGE);
	say(out, "hole-third",
	    vector(m, V({ P(0), PAGE }, { P(1), PAGE }, { P(2), PAGE }, { P(3), PAGE }),
		   A_DONTNEED));
	print_pages(m, out, w, 8);
	say(out, " hole-first", vector(m, V({ P(2), PAGE }, { P(3), PAGE }), A_DONTNEED));
	print_pages(m, out, w, 8);
	fill(m, w, 2, 'a');
	fill(m, P(3), 5, 'a');
	say(out, " spans-hole",
	    vector(m, V({ P(0), PAGE }, { P(1), 3 * PAGE }, { P(5), PAGE }), A_DONTNEED));
	print_pages(m, out, w, 8);
	say(out, " zero-middle",
	    vector(m, V({ P(3), PAGE }, { P(4), 0 }, { P(5), PAGE }), A_DONTNEED));
	print_pages(m, out, w, 8);
	say(out, " zero-first", vector(m, V({ P(4), 0 }, { P(6), PAGE }), A_DONTNEED));
	say(out, "zero-unaligned", vector(m, V({ P(4) + 1, 0 }), A_DONTNEED));
	say(out, "zero-unaligned-first", vector(m, V({ P(4) + 1, 0 }, { P(5), PAGE }), A_DONTNEED));
	say(out, "zero-unaligned-second",
	    vector(m, V({ P(5), PAGE }, { P(4) + 1, 0 }, { P(6), PAGE }), A_DONTNEED));
	say(out, "zero-unaligned-last", vector(m, V({ P(5), PAGE }, { P(4) + 1, 0 }), A_DONTNEED));
	say(out, "two-zero-first",
	    vector(m, V({ P(4), 0 }, { P(4) + 1, 0 }, { P(6), PAGE }), A_DONTNEED));
	say(out, "sub-page", vector(m, V({ P(3), 1 }, { P(3), PAGE }), A_DONTNEED));
	fill(m, P(3), 5, 'a');
	say(out, "unaligned-second",
	    vector(m, V({ P(3), PAGE }, { P(4) + 1, PAGE }, { P(5), PAGE }), A_DONTNEED));
	print_pages(m, out, w, 8);
	say(out, " raw-lengths", vector(m, V({ P(4), 100 }, { P(6), 1 }), A_DONTNEED));
	print_pages(m, out, w, 8);
	fill(m, P(3), 5, 'a');
	say(out, " kernel-address", vector(m, V({ P(3), PAGE }, { UINT64_MAX, PAGE }), A_DONTNEED));
	say(out, "beyond-user", vector(m, V({ P(3), PAGE }, { 1ull << 47, PAGE }), A_DONTNEED));
	say(out, "last-user-page",
	    vector(m, V({ P(3), PAGE }, { (1ull << 47) - PAGE, PAGE }), A_DONTNEED));
	fill(m, P(3), 1, 'a');
	say(out, "negative-length", vector(m, V({ P(3), PAGE }, { P(4), UINT64_MAX }), A_DONTNEED));
	say(out, "negative-length-unknown",
	    vector(m, V({ P(3), PAGE }, { P(4), 1ull << 63 }), A_NONE));
	say(out, "kernel-address-unknown", vector(m, V({ UINT64_MAX, PAGE }), A_NONE));
	say(out, "kernel-address-zero", vector(m, V({ UINT64_MAX, 0 }), A_DONTNEED));
	say(out, "kernel-address-zero-second",
	    vector(m, V({ P(3), PAGE }, { UINT64_MAX - 5, 0 }), A_DONTNEED));
	print_pages(m, out, w, 8);
	say(out, " duplicates",
	    vector(m, V({ P(3), 2 * PAGE }, { P(4), 2 * PAGE }, { P(3), PAGE }), A_DONTNEED));
	say(out, "guard", vector(m, V({ P(3), PAGE }, { P(5), PAGE }), A_GUARD));
	say(out, "discard-guarded", vector(m, V({ P(3), 4 * PAGE }), A_DONTNEED));
	print_pages(m, out, w, 8);
	say(out, " unguard", vector(m, V({ P(3), 4 * PAGE }), A_UNGUARD));
	print_pages(m, out, w, 8);
#undef P
}

/* The total is cut at INT_MAX rounded down to a page. */
static void vector_cap(struct machine *m, FILE *out)
{
	uint64_t at = m->ops->window(m), big = 3ull << 30;

	/* a window is smaller than this: no other story runs on the machine */
	say(out, "map", map_at(m, at, big, RW, MAP_PRIVATE | MAP_NORESERVE) == (int64_t)at);
	say(out, "one", vector(m, V({ at, big }), A_WILLNEED));
	say(out, "second", vector(m, V({ at, PAGE }, { at + PAGE, big - PAGE }), A_WILLNEED));
	say(out, "third",
	    vector(m, V({ at, 1ull << 30 }, { at, 1ull << 30 }, { at, PAGE }), A_WILLNEED));
	say(out, "exact", vector(m, V({ at, 0x7ffff000 }, { at, PAGE }), A_WILLNEED));
	/* what the cut leaves is still one page more than nothing */
	say(out, "cut-within", vector(m, V({ at, 0x7fffe001 }, { at, 4 * PAGE }), A_WILLNEED));
	say(out, "cut-to-zero-unaligned",
	    vector(m, V({ at, 0x7ffff000 }, { at + 1, PAGE }), A_WILLNEED));
}

static void remote_each(struct machine *m, struct machine *other, FILE *out, uint64_t at)
{
	struct machine_range v = { at, 2 * PAGE };

	for (unsigned i = 0; i < advice_count; i++) {
		const uint64_t args[3] = { 1, (uint64_t)advice_names[i].value, 0 };

		say(out, advice_names[i].name, m->ops->process_madvise(m, other, &v, args));
	}
	say(out, "n-0-DONTNEED",
	    m->ops->process_madvise(m, other, &v, (const uint64_t[3]){ 0, A_DONTNEED, 0 }));
	say(out, "n-0-COLD",
	    m->ops->process_madvise(m, other, &v, (const uint64_t[3]){ 0, A_COLD, 0 }));
	v.addr++;
	say(out, "unaligned-COLD",
	    m->ops->process_madvise(m, other, &v, (const uint64_t[3]){ 1, A_COLD, 0 }));
}

static void vector_remote(struct machine *m, FILE *out)
{
	uint64_t at = area(m, 4);

	fill(m, at, 4, 'a');
	m->ops->beside(m, remote_each, out, at);
	print_pages(m, out, at, 4);
}

static void remote_without(struct machine *m, FILE *out)
{
	uint64_t at = area(m, 4);

	fill(m, at, 4, 'a');
	if (!m->ops->drop_rights(m)) {
		fprintf(out, "rights=none");
		return;
	}
	m->ops->beside(m, remote_each, out, at);
	say(out, "self", vector(m, V({ at, PAGE }), A_DONTNEED));
	print_pages(m, out, at, 4);
}

/* ---- guard pages ---- */

static void show(struct machine *m, FILE *out, uint64_t at)
{
	print_pages(m, out, at, 4);
}

static void guard(struct machine *m, FILE *out)
{
	uint64_t at = area(m, 4), file = m->ops->window(m);
	const uint64_t args[4] = { file, 4 * PAGE, (uint64_t)RW, MAP_SHARED | MAP_FIXED };

	fill(m, at, 4, 'a');
	say(out, "install", advise(m, at + PAGE, PAGE, A_GUARD));
	show(m, out, at);
	print_vmas(m, out, at, 4);
	say(out, " again", advise(m, at, 2 * PAGE, A_GUARD));
	show(m, out, at);
	say(out, " remove-0", advise(m, at, PAGE, A_UNGUARD));
	show(m, out, at);
	fill(m, at, 1, 'b');
	say(out, " dontneed", advise(m, at, 4 * PAGE, A_DONTNEED));
	show(m, out, at);
	m->ops->in_fork(m, show, out, at);
	fill(m, at, 4, 'c');
	say(out, " free", advise(m, at, 4 * PAGE, A_FREE));
	fill(m, at, 4, 'd');
	show(m, out, at);
	say(out, " populate-guard", advise(m, at + PAGE, PAGE, A_POP_WRITE));
	say(out, "populate-read-guard", advise(m, at + PAGE, PAGE, A_POP_READ));
	say(out, "populate-all", advise(m, at, 4 * PAGE, A_POP_WRITE));
	say(out, "protect-none", m->ops->mprotect(m, at, 4 * PAGE, PROT_NONE));
	say(out, "protect-rw", m->ops->mprotect(m, at, 4 * PAGE, RW));
	show(m, out, at);
	say(out, " willneed", advise(m, at, 4 * PAGE, A_WILLNEED));
	say(out, "cold", advise(m, at, 4 * PAGE, A_COLD));
	say(out, "pageout", advise(m, at, 4 * PAGE, A_PAGEOUT));
	show(m, out, at);
	say(out, " wipe", advise(m, at, 4 * PAGE, A_WIPE));
	m->ops->in_fork(m, show, out, at);
	say(out, " keep", advise(m, at, 4 * PAGE, A_KEEP));
	say(out, "remove-all", advise(m, at, 4 * PAGE, A_UNGUARD));
	show(m, out, at);
	say(out, " lock", m->ops->mlock2(m, at, 2 * PAGE, 0));
	say(out, "install-locked", advise(m, at, PAGE, A_GUARD));
	say(out, "install-2", advise(m, at + 2 * PAGE, PAGE, A_GUARD));
	say(out, "lock-over-guard", m->ops->mlock2(m, at, 4 * PAGE, 0));
	say(out, "remove-locked", advise(m, at, 4 * PAGE, A_UNGUARD));
	say(out, "unmap", m->ops->munmap(m, at, 4 * PAGE));
	map_at(m, at, 4 * PAGE, RW, MAP_PRIVATE);
	show(m, out, at);
	m->ops->mmap(m, args, MACHINE_DATA, 0);
	fill(m, file, 4, 'w');
	say(out, " file", advise(m, file + PAGE, 2 * PAGE, A_GUARD));
	show(m, out, file);
	say(out, " file-remove", advise(m, file + PAGE, PAGE, A_UNGUARD));
	show(m, out, file);
}

/* ---- fork ---- */

static void forked(struct machine *m, FILE *out, uint64_t at)
{
	print_pages(m, out, at, 8);
	print_vmas(m, out, at, 8);
}

static void fork_advice(struct machine *m, FILE *out)
{
	uint64_t at = area(m, 8);

	fill(m, at, 8, 'a');
	say(out, "wipe", advise(m, at + PAGE, PAGE, A_WIPE));
	say(out, "dontfork", advise(m, at + 2 * PAGE, PAGE, A_DONTFORK));
	say(out, "lock", m->ops->mlock2(m, at + 4 * PAGE, PAGE, 0));
	m->ops->in_fork(m, forked, out, at);
	say(out, " keep", advise(m, at, 8 * PAGE, A_KEEP));
	say(out, "dofork", advise(m, at, 8 * PAGE, A_DOFORK));
	m->ops->in_fork(m, forked, out, at);
	fill(m, at, 4, 'b');
	m->ops->in_fork(m, forked, out, at);
	forked(m, out, at);
}

/* Lazily freed pages, and what a child or a second write makes of them. */
static void free_write(struct machine *m, FILE *out)
{
	uint64_t at = area(m, 4);

	fill(m, at, 4, 'a');
	say(out, "free", advise(m, at, 4 * PAGE, A_FREE));
	fill(m, at, 2, 'b');
	show(m, out, at);
	say(out, " dontneed", advise(m, at + PAGE, 2 * PAGE, A_DONTNEED));
	show(m, out, at);
}

/* ---- seals ---- */

static void seal_advice(struct machine *m, FILE *out)
{
	for (unsigned i = 0; i < advice_count; i++) {
		uint64_t at = area(m, 4), file = m->ops->window(m);
		const uint64_t args[4] = { file, 4 * PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED };
		int advice = advice_names[i].value;

		fill(m, at, 4, 'a');
		m->ops->mprotect(m, at + 2 * PAGE, 2 * PAGE, PROT_READ);
		m->ops->mseal(m, at, 4 * PAGE, 0);
		m->ops->mmap(m, args, MACHINE_DATA, 0);
		m->ops->mseal(m, file, 4 * PAGE, 0);
		fprintf(out, "%s: ", advice_names[i].name);
		say(out, "writable", advise(m, at, PAGE, advice));
		say(out, "read-only", advise(m, at + 2 * PAGE, PAGE, advice));
		say(out, "both", advise(m, at + PAGE, 2 * PAGE, advice));
		say(out, "file", advise(m, file, PAGE, advice));
		show(m, out, at);
		fprintf(out, "; ");
	}
}

static void seal_calls(struct machine *m, FILE *out)
{
	uint64_t at = area(m, 8);

	fill(m, at, 8, 'a');
	say(out, "flags", m->ops->mseal(m, at, PAGE, 1));
	say(out, "unaligned", m->ops->mseal(m, at + 1, PAGE, 0));
	say(out, "zero", m->ops->mseal(m, at, 0, 0));
	say(out, "zero-unmapped", m->ops->mseal(m, PAGE, 0, 0));
	say(out, "zero-unaligned", m->ops->mseal(m, at + 1, 0, 0));
	say(out, "rounds-to-zero", m->ops->mseal(m, at, UINT64_MAX, 0));
	say(out, "wraps", m->ops->mseal(m, at, -PAGE, 0));
	say(out, "flags-unaligned", m->ops->mseal(m, at + 1, PAGE, 1));
	say(out, "one", m->ops->mseal(m, at + 2 * PAGE, 1, 0));
	say(out, "again", m->ops->mseal(m, at + 2 * PAGE, PAGE, 0));
	print_vmas(m, out, at, 8);
	m->ops->munmap(m, at + 5 * PAGE, PAGE);
	say(out, " hole", m->ops->mseal(m, at, 8 * PAGE, 0));
	say(out, "tail", m->ops->mseal(m, at + 7 * PAGE, 2 * PAGE, 0));
	print_vmas(m, out, at, 8);
	say(out, " munmap", m->ops->munmap(m, at + PAGE, 2 * PAGE));
	say(out, "mprotect", m->ops->mprotect(m, at, 4 * PAGE, PROT_READ));
	say(out, "lock", m->ops->mlock2(m, at, 4 * PAGE, 0));
	print_vmas(m, out, at, 8);
	say(out, " unlock", m->ops->munlock(m, at, 4 * PAGE));
	print_vmas(m, out, at, 8);
	say(out, " all", m->ops->mseal(m, at, 5 * PAGE, 0));
	print_vmas(m, out, at, 8);
}

/* ---- locks and residence ---- */

static void core(struct machine *m, FILE *out, uint64_t at, uint64_t pages)
{
	uint8_t vec[16];

	memset(vec, 9, sizeof(vec));
	say(out, "mincore", m->ops->mincore(m, at, pages * PAGE, vec));
	for (uint64_t i = 0; i < pages; i++)
		fprintf(out, "%d", vec[i] & 1);
	fputc(' ', out);
}

static void lock_calls(struct machine *m, FILE *out)
{
	uint64_t at = area(m, 8), none = m->ops->window(m);

	core(m, out, at, 8);
	say(out, "lock", m->ops->mlock2(m, at + PAGE, PAGE, 0));
	core(m, out, at, 8);
	say(out, "onfault", m->ops->mlock2(m, at + 3 * PAGE, PAGE, 1));
	core(m, out, at, 8);
	print_vmas(m, out, at, 8);
	say(out, " flags", m->ops->mlock2(m, at, PAGE, 2));
	say(out, "unaligned", m->ops->mlock2(m, at + 4 * PAGE + 7, PAGE, 0));
	print_vmas(m, out, at, 8);
	say(out, " zero", m->ops->mlock2(m, at, 0, 0));
	say(out, "zero-unmapped", m->ops->mlock2(m, PAGE, 0, 0));
	say(out, "rounds", m->ops->mlock2(m, at, UINT64_MAX, 0));
	say(out, "wraps", m->ops->mlock2(m, at, -PAGE, 0));
	say(out, "unmapped", m->ops->mlock2(m, none, PAGE, 0));
	say(out, "unlock", m->ops->munlock(m, at, 8 * PAGE));
	print_vmas(m, out, at, 8);
	m->ops->munmap(m, at + 6 * PAGE, PAGE);
	say(out, " hole", m->ops->mlock2(m, at + 5 * PAGE, 3 * PAGE, 0));
	print_vmas(m, out, at, 8);
	say(out, " unlock-hole", m->ops->munlock(m, at, 8 * PAGE));
	print_vmas(m, out, at, 8);
	map_at(m, none, 4 * PAGE, PROT_NONE, MAP_PRIVATE);
	say(out, " lock-none", m->ops->mlock2(m, none, 2 * PAGE, 0));
	print_vmas(m, out, none, 4);
	map_at(m, none, 4 * PAGE, PROT_READ, MAP_PRIVATE);
	say(out, " lock-read", m->ops->mlock2(m, none, 2 * PAGE, 0));
	core(m, out, none, 4);
	say(out, "unlock-unaligned", m->ops->munlock(m, none + 5, 1));
	print_vmas(m, out, none, 4);
	say(out, " unlock-unmapped", m->ops->munlock(m, none + 4 * PAGE, PAGE));
}

static void lock_file(struct machine *m, FILE *out)
{
	uint64_t at = m->ops->window(m), device, size;
	const uint64_t args[4] = { at, 4 * PAGE, (uint64_t)RW, MAP_PRIVATE | MAP_FIXED };

	m->ops->mmap(m, args, MACHINE_SHORT, 0);
	say(out, "beyond-end", m->ops->mlock2(m, at, 4 * PAGE, 0));
	print_vmas(m, out, at, 4);
	m->ops->munlock(m, at, 4 * PAGE);
	m->ops->mmap(m, args, MACHINE_DATA, 0);
	say(out, " private", m->ops->mlock2(m, at, 2 * PAGE, 0));
	show(m, out, at);
	fill(m, at, 1, 'b');
	say(out, " discard", advise(m, at, 2 * PAGE, A_DONTNEED_LOCKED));
	show(m, out, at);
	if (m->ops->device(m, &device, &size)) {
		say(out, " device", m->ops->mlock2(m, device, PAGE, 0));
		say(out, "device-unlock", m->ops->munlock(m, device, PAGE));
	}
}

static void lock_all(struct machine *m, FILE *out)
{
	uint64_t at = area(m, 4), later = m->ops->window(m);

	say(out, "none", m->ops->mlockall(m, 8));
	say(out, "onfault-alone", m->ops->mlockall(m, 4));
	say(out, "current-onfault", m->ops->mlockall(m, 1 | 4));
	print_vmas(m, out, at, 4);
	core(m, out, at, 4);
	say(out, "current", m->ops->mlockall(m, 1));
	print_vmas(m, out, at, 4);
	core(m, out, at, 4);
	map_at(m, later, 2 * PAGE, RW, MAP_PRIVATE);
	print_vmas(m, out, later, 2);
	say(out, " future", m->ops->mlockall(m, 2));
	map_at(m, later, 2 * PAGE, RW, MAP_PRIVATE);
	print_vmas(m, out, later, 2);
	core(m, out, later, 2);
	print_vmas(m, out, at, 4);
	say(out, " future-onfault", m->ops->mlockall(m, 2 | 4));
	map_at(m, later, 2 * PAGE, RW, MAP_PRIVATE);
	print_vmas(m, out, later, 2);
	core(m, out, later, 2);
	say(out, "unlock", m->ops->mlockall(m, 0));
	print_vmas(m, out, at, 4);
	map_at(m, later, 2 * PAGE, RW, MAP_PRIVATE);
	print_vmas(m, out, later, 2);
}

static void residence(struct machine *m, FILE *out)
{
	uint64_t at = area(m, 8), file = m->ops->window(m);
	const uint64_t args[4] = { file, 4 * PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED };
	uint8_t vec[16], value;

	fill(m, at, 2, 'a');
	core(m, out, at, 8);
	m->ops->peek(m, at + 3 * PAGE, &value);
	core(m, out, at, 8);
	advise(m, at, PAGE, A_DONTNEED);
	advise(m, at + 4 * PAGE, PAGE, A_GUARD);
	core(m, out, at, 8);
	say(out, "unaligned", m->ops->mincore(m, at + 1, PAGE, vec));
	say(out, "zero", m->ops->mincore(m, at, 0, vec));
	say(out, "zero-unmapped", m->ops->mincore(m, PAGE, 0, vec));
	say(out, "one", m->ops->mincore(m, at, 1, vec));
	say(out, "unmapped", m->ops->mincore(m, PAGE, PAGE, vec));
	say(out, "negative", m->ops->mincore(m, at, UINT64_MAX, vec));
	say(out, "wraps", m->ops->mincore(m, at, -PAGE, vec));
	say(out, "beyond-user", m->ops->mincore(m, 1ull << 47, PAGE, vec));
	m->ops->munmap(m, at + 5 * PAGE, PAGE);
	core(m, out, at, 8);
	m->ops->mprotect(m, at + PAGE, PAGE, PROT_NONE);
	core(m, out, at, 4);
	/* an access brings the pages around it too */
	m->ops->mmap(m, args, MACHINE_DATA_R, 0);
	m->ops->peek(m, file, &value);
	core(m, out, file, 4);
	m->ops->mmap(m, args, MACHINE_SHORT, 0);
	m->ops->peek(m, file, &value);
	core(m, out, file, 4);
	m->ops->mmap(m, args, MACHINE_MEMORY, 0);
	core(m, out, file, 4);
}

/* ---- population ---- */

static void populate(struct machine *m, FILE *out)
{
	uint64_t at = area(m, 8);
	static const int prots[] = { PROT_NONE, PROT_READ, PROT_WRITE, RW, PROT_EXEC };

	for (unsigned i = 0; i < sizeof(prots) / sizeof(prots[0]); i++) {
		map_at(m, at, 2 * PAGE, prots[i], MAP_PRIVATE);
		fprintf(out, "%d: ", prots[i]);
		say(out, "read", advise(m, at, 2 * PAGE, A_POP_READ));
		say(out, "write", advise(m, at, 2 * PAGE, A_POP_WRITE));
		core(m, out, at, 2);
	}
	map_at(m, at, 8 * PAGE, RW, MAP_PRIVATE);
	m->ops->munmap(m, at + 3 * PAGE, PAGE);
	say(out, "hole", advise(m, at, 8 * PAGE, A_POP_WRITE));
	core(m, out, at, 3);
	core(m, out, at + 4 * PAGE, 4);
	m->ops->mprotect(m, at + 5 * PAGE, PAGE, PROT_NONE);
	say(out, "reject", advise(m, at + 4 * PAGE, 4 * PAGE, A_POP_WRITE));
	core(m, out, at + 4 * PAGE, 4);
	say(out, "read-past", advise(m, at + 6 * PAGE, 4 * PAGE, A_POP_READ));
	core(m, out, at + 4 * PAGE, 4);
	say(out, "unmapped", advise(m, at + 3 * PAGE, PAGE, A_POP_READ));
}

static void populate_file(struct machine *m, FILE *out)
{
	uint64_t at = m->ops->window(m);
	const uint64_t args[4] = { at, 4 * PAGE, (uint64_t)RW, MAP_PRIVATE | MAP_FIXED };
	const uint64_t shared[4] = { at, 4 * PAGE, (uint64_t)RW, MAP_SHARED | MAP_FIXED };

	m->ops->mmap(m, args, MACHINE_SHORT, 0);
	say(out, "beyond-read", advise(m, at, 4 * PAGE, A_POP_READ));
	say(out, "beyond-write", advise(m, at, 4 * PAGE, A_POP_WRITE));
	say(out, "inside-write", advise(m, at, PAGE, A_POP_WRITE));
	m->ops->mmap(m, args, MACHINE_DATA, 0);
	say(out, "private-write", advise(m, at, 4 * PAGE, A_POP_WRITE));
	show(m, out, at);
	m->ops->mmap(m, shared, MACHINE_DATA, 0);
	fill(m, at, 4, 'n');
	m->ops->mmap(m, args, MACHINE_DATA, 0);
	show(m, out, at);
}

/* REMOVE reaches every mapping of the object. */
static void remove_shared(struct machine *m, FILE *out)
{
	uint64_t a = m->ops->window(m), b = m->ops->window(m);
	const uint64_t first[4] = { a, 4 * PAGE, (uint64_t)RW, MAP_SHARED | MAP_FIXED };
	const uint64_t second[4] = { b, 4 * PAGE, (uint64_t)RW, MAP_PRIVATE | MAP_FIXED };

	m->ops->mmap(m, first, MACHINE_MEMORY, 0);
	m->ops->mmap(m, second, MACHINE_MEMORY, 0);
	fill(m, a, 4, 'a');
	show(m, out, b);
	fill(m, b + 2 * PAGE, 1, 'p');
	show(m, out, b);
	say(out, " remove", advise(m, a + PAGE, 2 * PAGE, 9));
	show(m, out, a);
	fputc(' ', out);
	show(m, out, b);
	say(out, " remove-private", advise(m, b, PAGE, 9));
	m->ops->mprotect(m, a, PAGE, PROT_READ);
	say(out, "remove-read-only", advise(m, a, PAGE, 9));
	show(m, out, a);
}

/* ---- huge pages ---- */

static void collapse(struct machine *m, FILE *out)
{
	uint64_t at = m->ops->window(m), small = m->ops->window(m);

	map_at(m, at, 8 * HUGE, RW, MAP_PRIVATE);
	say(out, "untouched", advise(m, at, HUGE, A_COLLAPSE));
	fill(m, at, 1, 'a');
	say(out, "one-page", advise(m, at, HUGE, A_COLLAPSE));
	show(m, out, at);
	say(out, " again", advise(m, at, HUGE, A_COLLAPSE));
	say(out, "sub-range", advise(m, at + HUGE, PAGE, A_COLLAPSE));
	fill(m, at + HUGE, 1, 'b');
	say(out, "second-untouched", advise(m, at + HUGE, 2 * HUGE, A_COLLAPSE));
	fill(m, at + 4 * HUGE, 1, 'c');
	say(out, "first-untouched", advise(m, at + 3 * HUGE, 2 * HUGE, A_COLLAPSE));
	say(out, "vector", vector(m, V({ at, HUGE }), A_COLLAPSE));
	fill(m, at, 4, 'd');
	say(out, "discard-part", advise(m, at + PAGE, PAGE, A_DONTNEED));
	show(m, out, at);
	m->ops->munmap(m, at + HUGE + PAGE, PAGE);
	fputc(' ', out);
	show(m, out, at + HUGE);
	say(out, " after-unmap", advise(m, at + HUGE, HUGE, A_COLLAPSE));
	map_at(m, small, 4 * PAGE, RW, MAP_PRIVATE);
	say(out, "small", advise(m, small, 4 * PAGE, A_COLLAPSE));
	say(out, "nohuge", advise(m, at + 5 * HUGE, HUGE, 15));
	fill(m, at + 5 * HUGE, 1, 'e');
	say(out, "collapse-nohuge", advise(m, at + 5 * HUGE, HUGE, A_COLLAPSE));
	say(out, "huge", advise(m, at + 5 * HUGE, HUGE, 14));
	say(out, "collapse-huge", advise(m, at + 5 * HUGE, HUGE, A_COLLAPSE));
	show(m, out, at + 5 * HUGE);
	say(out, " guard-in-block", advise(m, at + 6 * HUGE, PAGE, A_GUARD));
	fill(m, at + 6 * HUGE + PAGE, 1, 'g');
	say(out, "collapse-guard", advise(m, at + 6 * HUGE, HUGE, A_COLLAPSE));
	say(out, "read-only", m->ops->mprotect(m, at, HUGE, PROT_READ));
	say(out, "collapse-read-only", advise(m, at, HUGE, A_COLLAPSE));
	show(m, out, at);
	m->ops->in_fork(m, show, out, at);
}

static void huge_fault(struct machine *m, FILE *out)
{
	uint64_t at = m->ops->window(m);
	uint8_t vec[4];

	map_at(m, at, 2 * HUGE, RW, MAP_PRIVATE);
	say(out, "advise", advise(m, at, HUGE, 14));
	fill(m, at, 1, 'a');
	fill(m, at + HUGE, 1, 'b');
	m->ops->mincore(m, at + 4 * PAGE, PAGE, vec);
	fprintf(out, "inside=%d ", vec[0] & 1);
	m->ops->mincore(m, at + HUGE + 4 * PAGE, PAGE, vec);
	fprintf(out, "outside=%d ", vec[0] & 1);
	fill(m, at, 4, 'c');
	say(out, "protect", m->ops->mprotect(m, at + PAGE, PAGE, PROT_READ));
	show(m, out, at);
	say(out, " write", m->ops->poke(m, at + PAGE, 'x'));
	m->ops->munmap(m, at + 2 * PAGE, PAGE);
	show(m, out, at);
	m->ops->mincore(m, at + 8 * PAGE, PAGE, vec);
	fprintf(out, " rest=%d ", vec[0] & 1);
	m->ops->in_fork(m, show, out, at);
	fill(m, at, 1, 'z');
	show(m, out, at);
}

const struct story stories[] = {
	{ "entry", entry },
	{ "partial", partial },
	{ "vector-arguments", vector_arguments },
	{ "vector-self", vector_self },
	{ "vector-rules", vector_rules },
	{ "vector-cap", vector_cap },
	{ "vector-remote", vector_remote },
	{ "remote-without-rights", remote_without },
	{ "guard", guard },
	{ "fork", fork_advice },
	{ "free-write", free_write },
	{ "seal-advice", seal_advice },
	{ "seal-calls", seal_calls },
	{ "lock-calls", lock_calls },
	{ "lock-file", lock_file },
	{ "lock-all", lock_all },
	{ "residence", residence },
	{ "populate", populate },
	{ "populate-file", populate_file },
	{ "remove-shared", remove_shared },
	{ "collapse", collapse },
	{ "huge-fault", huge_fault },
};
const unsigned story_count = sizeof(stories) / sizeof(stories[0]);

void story_tell(struct machine *m, FILE *out, const void *arg)
{
	const struct story *story = arg;

	fprintf(out, "%s: ", story->name);
	story->tell(m, out);
	fputc('\n', out);
}
