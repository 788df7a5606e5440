/* SPDX-License-Identifier: MIT */
/*
 * pool.c - the frame pool: host memory, CPU stacks, growing and trimming (invariants: frame.h).
 *
 * Lock order: CPU stack before pool. Neither is held over a system call.
 */
#include "memory/frame.h"
#include "base/inject.h"
#include "base/percpu.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Reserves bytes of host memory aligned to a huge frame; what it costs is only address space. */
static char *reserve(struct sm__pool *pool, size_t bytes)
{
	size_t align = (size_t)SM__HUGE_FRAMES << pool->page_shift;
	char *p = mmap(NULL, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		       -1, 0);
	int flags = pool->is_private ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	char *base;

	if (p == MAP_FAILED)
		return NULL;
	base = (char *)SM__ALIGN_UP((uintptr_t)p, align);
	if (base != p)
		munmap(p, (size_t)(base - p));
	munmap(base + bytes, (size_t)(p + bytes + align - (base + bytes)));
	if (mmap(base, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED | MAP_NORESERVE, pool->fd,
		 0) == MAP_FAILED) {
		munmap(base, bytes);
		return NULL;
	}
	/* Refusal does no harm. */
	if (pool->is_private)
		(void)madvise(base, bytes, MADV_HUGEPAGE);
	/* A child of the host process must never share frames by accident. */
	if (!pool->is_private)
		(void)madvise(base, bytes, MADV_DONTFORK);
	return base;
}

static int make_memory(struct sm__pool *pool, size_t bytes)
{
	pool->fd = -1;
	if (!pool->is_private) {
		pool->fd = memfd_create("samara-frames", MFD_CLOEXEC);
		if (pool->fd < 0)
			return -errno;
		if (ftruncate(pool->fd, (off_t)bytes))
			return -errno;
	}
	pool->base = reserve(pool, bytes);
	return pool->base ? 0 : -ENOMEM;
}

static int make_descriptors(struct sm__pool *pool)
{
	size_t bytes = (size_t)pool->nr * sizeof(struct sm__frame);
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	long cpus = sysconf(_SC_NPROCESSORS_CONF);

	if (p == MAP_FAILED)
		return -ENOMEM;
	pool->frames = p;
	pool->nr_cpus = cpus > 0 ? (uint32_t)cpus : 1;
	pool->cpu = sm__inject_fail()
			    ? NULL
			    : aligned_alloc(SM__CACHELINE, pool->nr_cpus * sizeof(*pool->cpu));
	if (!pool->cpu)
		return -ENOMEM;
	memset(pool->cpu, 0, pool->nr_cpus * sizeof(*pool->cpu));
	return 0;
}

static void unmake(struct sm__pool *pool)
{
	free(pool->cpu);
	if (pool->frames)
		munmap(pool->frames, (size_t)pool->nr * sizeof(struct sm__frame));
	if (pool->base)
		munmap(pool->base, (size_t)pool->nr << pool->page_shift);
	if (pool->fd >= 0)
		close(pool->fd);
	free(pool);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/*
 * Shared memory: writing zeros makes whole, up-to-date pages of the file at once, and a read of such
 * pages maps those around it too, writable. A fifth cheaper than fallocate and populate, which map
 * page by page. Where the host maps fewer around, the rest faults in when it is used.
 * Return: false when the host has no memory.
 */
static bool populate_shared(struct sm__pool *pool, char *block, size_t bytes)
{
	enum { ZEROS = 4096, PARTS = 64, HOST_AROUND = 65536 };
	static const char zeros[ZEROS];
	struct iovec part[PARTS];

	for (size_t i = 0; i < PARTS; i++)
		part[i] = (struct iovec){ (void *)(uintptr_t)zeros, ZEROS };
	for (size_t done = 0; done < bytes; done += PARTS * ZEROS)
		if (pwritev(pool->fd, part, PARTS, block - pool->base + (off_t)done) !=
		    PARTS * ZEROS)
			return false;
	for (size_t at = 0; at < bytes; at += HOST_AROUND)
		(void)*(volatile char *)(block + at);
	return true;
}

/*
 * Private memory: 512 faults of the host in one call. It comes in large host pages, four times
 * cheaper than small ones when the host has them at hand, and several times dearer when it must
 * make them; what the last three took decides about the next ones: a dear one now and then may be a time slice
 * that went to somebody else.
 * Return: as populate_shared.
 */
static bool populate_private(struct sm__pool *pool, char *block, size_t bytes)
{
	enum { DEAR_NS = 1000000, DEAR_MOST = 3, SKIP = 64 };
	uint64_t start = 0;
	bool ok;

	if (atomic_load_explicit(&pool->skip_large, memory_order_relaxed)) {
		atomic_fetch_sub_explicit(&pool->skip_large, 1, memory_order_relaxed);
		(void)madvise(block, bytes, MADV_NOHUGEPAGE);
	} else {
		start = now_ns();
	}
	/* EINVAL: a kernel before 5.14; the frames then fault in one by one. */
	ok = !madvise(block, bytes, MADV_POPULATE_WRITE) || errno == EINVAL;
	if (start && now_ns() - start <= DEAR_NS)
		atomic_store_explicit(&pool->dear_large, 0, memory_order_relaxed);
	else if (start &&
		 atomic_fetch_add_explicit(&pool->dear_large, 1, memory_order_relaxed) + 1 >=
			 DEAR_MOST)
		atomic_store_explicit(&pool->skip_large, SKIP, memory_order_relaxed);
	return ok;
}

/* Gets host memory for a block of 512 frames. */
static bool populate(struct sm__pool *pool, uint32_t first)
{
	size_t bytes = (size_t)SM__HUGE_FRAMES << pool->page_shift;
	char *block = sm__frame_ptr(pool, first);

	return pool->is_private ? populate_private(pool, block, bytes)
				: populate_shared(pool, block, bytes);
}

/* Takes the next 2 MiB and puts them into the lists. False: there is no more. */
static bool take_block(struct sm__pool *pool)
{
	uint32_t first;
	bool ok;

	sm__spin_lock(&pool->lock);
	first = pool->top;
	if (first == pool->nr) {
		sm__spin_unlock(&pool->lock);
		return false;
	}
	pool->top += SM__HUGE_FRAMES;
	sm__spin_unlock(&pool->lock);
	ok = populate(pool, first);
	sm__spin_lock(&pool->lock);
	if (!ok && pool->top == first + SM__HUGE_FRAMES) {
		pool->top = first;
	} else {
		/* If somebody grew further meanwhile the block stays, and faults in when it is
		 * used. */
		sm__buddy_free(pool, first, SM__MAX_ORDER, SM__F_CLEAN);
		ok = true;
	}
	sm__spin_unlock(&pool->lock);
	return ok;
}

static uint32_t top_of(struct sm__pool *pool)
{
	uint32_t top;

	sm__spin_lock(&pool->lock);
	top = pool->top;
	sm__spin_unlock(&pool->lock);
	return top;
}

/*
 * A block more, by this thread or another. The host fills a shared file under one lock of the file: who comes
 * second sleeps here, and finds what the first has brought. Private memory comes side by side.
 * Return: false when there is no more.
 */
static bool grow(struct sm__pool *pool)
{
	uint32_t seen;
	bool ok;

	/* Milliseconds, where the host must make the memory first. */
	sm__thread_leave();
	if (pool->is_private)
		return take_block(pool);
	seen = top_of(pool);
	sm__spin_lock(&pool->grow_lock);
	ok = top_of(pool) != seen || take_block(pool);
	sm__spin_unlock(&pool->grow_lock);
	return ok;
}

int sm__pool_create(const struct sm__pool_options *o, struct sm__pool **out)
{
	uint64_t huge = (uint64_t)SM__HUGE_FRAMES << o->page_shift;
	uint64_t bytes = SM__ALIGN_UP(o->bytes, huge);
	struct sm__pool *pool;
	int err = -ENOMEM;

	*out = NULL;
	if (!bytes || bytes < o->bytes || bytes >> o->page_shift > UINT32_MAX - SM__HUGE_FRAMES)
		return -EINVAL;
	if (sm__inject_fail())
		return -ENOMEM;
	pool = aligned_alloc(SM__CACHELINE, SM__ALIGN_UP(sizeof(*pool), (size_t)SM__CACHELINE));
	if (!pool)
		return -ENOMEM;
	memset(pool, 0, sizeof(*pool));
	pool->page_shift = o->page_shift;
	pool->is_private = o->is_private;
	pool->nr = (uint32_t)(bytes >> o->page_shift);
	err = make_memory(pool, bytes);
	if (!err)
		err = make_descriptors(pool);
	if (!err && !grow(pool))
		err = -ENOMEM;
	if (err) {
		unmake(pool);
		return err;
	}
	/* Frame 0 leaves the lists for good (I3): block 0 splits into 0 | 1 | 2..3 | 4..7 ... */
	sm__spin_lock(&pool->lock);
	sm__buddy_unlink(pool, 0, SM__MAX_ORDER);
	for (unsigned order = 0; order < SM__MAX_ORDER; order++)
		sm__buddy_free(pool, 1u << order, order, SM__F_CLEAN);
	atomic_store_explicit(&pool->frames[0].refs, 1, memory_order_relaxed);
	sm__spin_unlock(&pool->lock);
	*out = pool;
	return 0;
}

uint64_t sm__pool_destroy(struct sm__pool *pool)
{
	struct sm__pool_stats stats;

	sm__pool_stats(pool, &stats);
	unmake(pool);
	return stats.in_use;
}

#if SM_VALIDATE
/* Validating builds fill what is freed, and find who wrote to it afterwards when it is handed out.
 * */
#define FREED 0x6b6b6b6b6b6b6b6bull

static void fill_freed(struct sm__pool *pool, uint32_t pfn)
{
	memset(sm__frame_ptr(pool, pfn), 0x6b, sm__page_size(pool));
}

static void check_freed(struct sm__pool *pool, uint32_t pfn, unsigned order, bool clean)
{
	uint64_t freed = clean ? 0 : FREED;
	const uint64_t *p = sm__frame_ptr(pool, pfn);

	for (size_t i = 0; i < sm__page_size(pool) << order >> 3; i++)
		SM_ASSERT_MSG(!p[i] || p[i] == freed, "frame %u, word %zu written after free: %lx",
			      pfn, i, (unsigned long)p[i]);
}
#else
static void fill_freed(struct sm__pool *pool, uint32_t pfn)
{
	(void)pool;
	(void)pfn;
}

static void check_freed(struct sm__pool *pool, uint32_t pfn, unsigned order, bool clean)
{
	(void)pool;
	(void)pfn;
	(void)order;
	(void)clean;
}
#endif

static struct sm__cpu_stack *this_cpu(struct sm__pool *pool)
{
	uint32_t cpu = sm__percpu_cpu();

	return &pool->cpu[cpu >= pool->nr_cpus ? 0 : cpu];
}

/* Puts frames on the stack, what does not fit into the lists. */
static void push_many(struct sm__pool *pool, struct sm__cpu_stack *s, const uint32_t *pfns,
		      uint32_t n)
{
	uint32_t spill[SM__CPU_STACK], spilled = 0;

	sm__spin_lock(&s->lock);
	if (s->nr + n > SM__CPU_STACK) {
		/* The oldest go: they are the coldest. */
		spilled = SM__CPU_STACK / 2 > n ? SM__CPU_STACK / 2 : n;
		if (spilled > s->nr)
			spilled = s->nr;
		memcpy(spill, s->pfn, spilled * sizeof(*spill));
		memmove(s->pfn, s->pfn + spilled, (s->nr - spilled) * sizeof(*spill));
		s->nr -= spilled;
	}
	memcpy(s->pfn + s->nr, pfns, n * sizeof(*pfns));
	s->nr += n;
	sm__spin_unlock(&s->lock);
	if (!spilled)
		return;
	sm__spin_lock(&pool->lock);
	for (uint32_t i = 0; i < spilled; i++)
		sm__buddy_free(pool, spill[i], 0, sm__frame_flags(sm__frame(pool, spill[i])));
	sm__spin_unlock(&pool->lock);
}

/* Takes up to 32 frames out of the lists; marks the clean ones. */
static uint32_t take_batch(struct sm__pool *pool, uint32_t *pfns)
{
	uint32_t n = 0;
	uint32_t known;

	sm__spin_lock(&pool->lock);
	for (unsigned order = SM__CPU_REFILL_ORDER + 1; order-- > 0;) {
		uint32_t pfn = sm__buddy_alloc(pool, order, &known);

		if (!pfn)
			continue;
		for (uint32_t i = 1u << order; i-- > 0;) {
			pfns[n++] = pfn + i;
			atomic_store_explicit(&sm__frame(pool, pfn + i)->flags, known & SM__F_CLEAN,
					      memory_order_relaxed);
		}
		break;
	}
	sm__spin_unlock(&pool->lock);
	return n;
}

/* Other CPUs' stacks, when there is nothing else. */
static uint32_t steal(struct sm__pool *pool, uint32_t *pfns)
{
	uint32_t n = 0;

	for (uint32_t c = 0; c < pool->nr_cpus && !n; c++) {
		struct sm__cpu_stack *s = &pool->cpu[c];

		sm__spin_lock(&s->lock);
		while (s->nr && n < 1u << SM__CPU_REFILL_ORDER)
			pfns[n++] = s->pfn[--s->nr];
		sm__spin_unlock(&s->lock);
	}
	return n;
}

static SM__COLD uint32_t alloc_slow(struct sm__pool *pool)
{
	uint32_t pfns[1 << SM__CPU_REFILL_ORDER], n;

	do {
		n = take_batch(pool, pfns);
	} while (!n && grow(pool));
	if (!n)
		n = steal(pool, pfns);
	if (!n)
		return 0;
	if (n > 1)
		push_many(pool, this_cpu(pool), pfns, n - 1);
	return pfns[n - 1];
}

uint32_t sm__frame_alloc(struct sm__pool *pool, enum sm__alloc_flags flags)
{
	struct sm__cpu_stack *s = this_cpu(pool);
	struct sm__frame *f;
	uint32_t pfn = 0;
	bool clean;

	if (sm__inject_fail() ||
	    sm__unlikely(atomic_load_explicit(&pool->detached, memory_order_relaxed)))
		return 0;
	sm__spin_lock(&s->lock);
	if (sm__likely(s->nr))
		pfn = s->pfn[--s->nr];
	sm__spin_unlock(&s->lock);
	if (sm__unlikely(!pfn)) {
		pfn = alloc_slow(pool);
		if (!pfn)
			return 0;
	}
	f = sm__frame(pool, pfn);
	clean = atomic_load_explicit(&f->flags, memory_order_relaxed) & SM__F_CLEAN;
	check_freed(pool, pfn, 0, clean);
	if ((flags & SM__ALLOC_ZERO) && !clean)
		memset(sm__frame_ptr(pool, pfn), 0, sm__page_size(pool));
	atomic_store_explicit(&f->flags, 0, memory_order_relaxed);
	atomic_store_explicit(&f->refs, 1, memory_order_relaxed);
	return pfn;
}

/* Empties every CPU stack into the lists, so that blocks can form. */
static void drain(struct sm__pool *pool)
{
	for (uint32_t c = 0; c < pool->nr_cpus; c++) {
		struct sm__cpu_stack *s = &pool->cpu[c];

		sm__spin_lock(&s->lock);
		sm__spin_lock(&pool->lock);
		while (s->nr) {
			uint32_t pfn = s->pfn[--s->nr];

			sm__buddy_free(pool, pfn, 0, sm__frame_flags(sm__frame(pool, pfn)));
		}
		sm__spin_unlock(&pool->lock);
		sm__spin_unlock(&s->lock);
	}
}

uint32_t sm__frame_alloc_order(struct sm__pool *pool, unsigned order, enum sm__alloc_flags flags)
{
	bool clean, drained = false;
	uint32_t known = 0;
	uint32_t pfn;

	if (sm__inject_fail() || atomic_load_explicit(&pool->detached, memory_order_relaxed))
		return 0;
	for (;;) {
		sm__spin_lock(&pool->lock);
		pfn = sm__buddy_alloc(pool, order, &known);
		sm__spin_unlock(&pool->lock);
		if (pfn)
			break;
		if (grow(pool))
			continue;
		if (drained)
			return 0;
		drain(pool);
		drained = true;
	}
	clean = known & SM__F_CLEAN;
	check_freed(pool, pfn, order, clean);
	if ((flags & SM__ALLOC_ZERO) && !clean)
		memset(sm__frame_ptr(pool, pfn), 0, sm__page_size(pool) << order);
	for (uint32_t i = 0; i < 1u << order; i++) {
		atomic_store_explicit(&sm__frame(pool, pfn + i)->flags, 0, memory_order_relaxed);
		atomic_store_explicit(&sm__frame(pool, pfn + i)->refs, 1, memory_order_relaxed);
	}
	return pfn;
}

void sm__frame_free(struct sm__pool *pool, uint32_t pfn)
{
	sm__frame_free_many(pool, &pfn, 1);
}

/* Broken memory stays out of the lists for ever. */
static SM__COLD void bury(struct sm__pool *pool)
{
	sm__spin_lock(&pool->lock);
	pool->nr_poisoned++;
	sm__spin_unlock(&pool->lock);
}

/* flags: SM__F_CLEAN, when they hold zeros, or 0. */
static void free_many(struct sm__pool *pool, const uint32_t *pfns, uint32_t n, uint32_t flags)
{
	uint32_t part[SM__CPU_STACK / 2], nr = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct sm__frame *f = sm__frame(pool, pfns[i]);

		SM_ASSERT_MSG(pfns[i] && pfns[i] < pool->nr, "pfn %u", pfns[i]);
		SM_ASSERT_MSG(!atomic_load_explicit(&f->refs, memory_order_relaxed),
			      "pfn %u in use", pfns[i]);
		if (sm__unlikely(atomic_load_explicit(&f->flags, memory_order_relaxed) &
				 SM__F_POISON)) {
			bury(pool);
			continue;
		}
		if (!flags)
			fill_freed(pool, pfns[i]);
		atomic_store_explicit(&f->flags, flags, memory_order_relaxed);
		part[nr++] = pfns[i];
		if (nr == SM__ARRAY_SIZE(part)) {
			push_many(pool, this_cpu(pool), part, nr);
			nr = 0;
		}
	}
	if (nr)
		push_many(pool, this_cpu(pool), part, nr);
}

void sm__frame_free_many(struct sm__pool *pool, const uint32_t *pfns, uint32_t n)
{
	free_many(pool, pfns, n, 0);
}

void sm__frame_put_clean(struct sm__pool *pool, uint32_t pfn)
{
	if (sm__frame_drop(sm__frame(pool, pfn)))
		free_many(pool, &pfn, 1, SM__F_CLEAN);
}

/* Takes one block of at least 64 frames that has memory of the host out of the lists. */
static uint32_t take_backed_block(struct sm__pool *pool, unsigned *order)
{
	uint32_t found = 0;

	sm__spin_lock(&pool->lock);
	for (*order = SM__MAX_ORDER; *order >= 6 && !found; (*order)--)
		for (uint32_t p = pool->head[*order]; p && !found;
		     p = sm__frame(pool, p)->buddy.next)
			if (!(sm__frame_flags(sm__frame(pool, p)) & SM__F_GIVEN))
				found = p;
	(*order)++;
	if (found)
		sm__buddy_unlink(pool, found, *order);
	sm__spin_unlock(&pool->lock);
	return found;
}

uint64_t sm__pool_trim(struct sm__pool *pool)
{
	uint64_t given = 0;
	unsigned order;
	uint32_t pfn;

	drain(pool);
	while ((pfn = take_backed_block(pool, &order))) {
		size_t bytes = sm__page_size(pool) << order;
		bool ok = !madvise(sm__frame_ptr(pool, pfn), bytes,
				   pool->is_private ? MADV_DONTNEED : MADV_REMOVE);

		/* Given back, the block reads as zero and faults in again when it is used. */
		sm__spin_lock(&pool->lock);
		sm__buddy_free(pool, pfn, order, ok ? SM__F_KNOWN : 0);
		sm__spin_unlock(&pool->lock);
		if (!ok)
			break;
		given += bytes;
	}
	return given;
}

void sm__pool_stats(struct sm__pool *pool, struct sm__pool_stats *out)
{
	memset(out, 0, sizeof(*out));
	out->total = pool->nr - 1;
	for (uint32_t c = 0; c < pool->nr_cpus; c++) {
		sm__spin_lock(&pool->cpu[c].lock);
		out->free_cpu += pool->cpu[c].nr;
		sm__spin_unlock(&pool->cpu[c].lock);
	}
	sm__spin_lock(&pool->lock);
	out->taken = pool->top - 1;
	out->free_buddy = pool->nr_free;
	out->poisoned = pool->nr_poisoned;
	sm__spin_unlock(&pool->lock);
	out->in_use = out->taken - out->free_buddy - out->free_cpu - out->poisoned;
}

bool sm__pool_is_valid(struct sm__pool *pool)
{
	struct sm__pool_stats stats;
	uint64_t held = 0;
	bool ok;

	sm__pool_stats(pool, &stats);
	sm__spin_lock(&pool->lock);
	ok = sm__buddy_is_valid(pool);
	for (uint32_t p = 1; p < pool->top; p++)
		held += atomic_load_explicit(&pool->frames[p].refs, memory_order_relaxed) > 0;
	sm__spin_unlock(&pool->lock);
	return ok && held == stats.in_use;
}
