/* SPDX-License-Identifier: MIT */
/* host.c - makes hosts, keeps the commit charge (overcommit modes of Linux), hands out caches. */
#include "space/host.h"
#include "base/base.h"
#include "base/inject.h"
#include "base/rcu.h"
#include "base/thread.h"
#include "space/vma.h"
#include "space/vma_lock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A frame has a number of 32 bits, and the pool grows by blocks of 512. */
static uint64_t frames_most(const struct sm_host_options *o)
{
	return (UINT32_MAX - 512ull) * o->page_size;
}

void sm_host_options_init(struct sm_host_options *o)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	memset(o, 0, sizeof(*o));
	o->size = sizeof(*o);
	o->page_size = size > 0 ? (uint64_t)size : 4096;
	o->max_map_count = 65530; /* 65535 - 5: what an ELF core file can number, less a margin */
	o->mmap_min_addr = 65536;
	o->stack_guard_gap = 256;
	o->overcommit_ratio = 50;
	o->ram = pages > 0 ? (uint64_t)pages * o->page_size : 1ull << 32;
	o->admin_reserve = 8ull << 20;
	o->user_reserve = 128ull << 20;
	o->huge_page = 2ull << 20;
	o->frame_bytes = o->ram / 2 < frames_most(o) ? o->ram / 2 : frames_most(o);
}

static const char *refuse(const struct sm_host_options *o)
{
	if (o->size != sizeof(*o))
		return "size: not that of struct sm_host_options";
	if (o->page_size != 4096 && o->page_size != 16384 && o->page_size != 65536)
		return "page_size: must be 4096, 16384 or 65536";
	if (o->mmap_min_addr % o->page_size)
		return "mmap_min_addr: not a multiple of page_size";
	if (o->stack_guard_gap > 1u << 20)
		return "stack_guard_gap: more than 2^20 pages";
	if (o->overcommit > SM_OVERCOMMIT_NEVER)
		return "overcommit: unknown mode";
	if (o->overcommit_ratio > 1000)
		return "overcommit_ratio: more than 1000 percent";
	if (o->huge_page && (o->huge_page & (o->huge_page - 1) || o->huge_page < o->page_size))
		return "huge_page: not a power of two above page_size";
	if (o->frames > SM_FRAMES_PRIVATE)
		return "frames: unknown kind";
	if (!o->frame_bytes || o->frame_bytes > frames_most(o))
		return "frame_bytes: none, or 2^32 pages and more";
	if (o->fake_nodes > SM_CACHE_FAKE_NODES_MAX)
		return "fake_nodes: too many";
	if (!o->memory.map != !o->memory.unmap)
		return "memory: map and unmap must both be set or both be NULL";
	return NULL;
}

struct sm_host *sm_host_create(const struct sm_host_options *options, const char **why)
{
	struct sm_host_options defaults;
	const char *text;
	struct sm_host *h;

	sm__thread_enter();
	if (!options) {
		sm_host_options_init(&defaults);
		options = &defaults;
	}
	text = refuse(options);
	if (why)
		*why = text ? text : "";
	if (text) {
		errno = EINVAL;
		return NULL;
	}
	h = sm__inject_fail() ? NULL : calloc(1, sizeof(*h));
	if (!h) {
		errno = ENOMEM;
		return NULL;
	}
	h->o = *options;
	h->page_shift = (unsigned)__builtin_ctzll(options->page_size);
	pthread_mutex_init(&h->lock, NULL);
	sm__list_init(&h->all);
	sm__host_enlist(h);
	return h;
}

int sm_host_destroy(struct sm_host *h)
{
	if (!h)
		return 0;
	if (atomic_load_explicit(&h->spaces, memory_order_acquire))
		return -EBUSY;
	sm__thread_enter();
	sm__host_delist(h);
	sm__rcu_barrier(); /* VMAs, names and spaces that wait for a grace period */
	if (h->memory_destroy)
		h->memory_destroy(h);
	for (int i = 0; i < SM__CACHES; i++) {
		for (int l = 0; l < 2; l++) {
			struct sm_cache *c =
				atomic_load_explicit(&h->caches[i][l], memory_order_relaxed);

			if (c && sm_cache_destroy(c))
				SM_ASSERT_MSG(false, "cache %d of a host has objects left", i);
		}
	}
	for (int i = 0; i < 4; i++) {
		struct sm_maple_pool *pool =
			atomic_load_explicit(&h->nodes[i / 2][i % 2], memory_order_relaxed);

		if (sm_maple_pool_destroy(pool))
			SM_ASSERT_MSG(false, "maple nodes of a host are held, pool %d", i);
	}
	pthread_mutex_destroy(&h->lock);
	free(h);
	return 0;
}

static uint64_t commit_limit(const struct sm_host *h)
{
	uint64_t ram = h->o.ram >> h->page_shift;

	return ram / 100 * h->o.overcommit_ratio + ram % 100 * h->o.overcommit_ratio / 100 +
	       (h->o.swap >> h->page_shift);
}

void sm_host_stats(const struct sm_host *h, struct sm_host_stats *out)
{
	int64_t c = atomic_load_explicit(&((struct sm_host *)h)->committed, memory_order_relaxed);

	out->committed = c > 0 ? (uint64_t)c : 0;
	out->commit_limit = commit_limit(h);
	out->spaces = atomic_load_explicit(&((struct sm_host *)h)->spaces, memory_order_relaxed);
	out->frames = out->frames_used = 0;
	if (h->memory_figures)
		h->memory_figures((struct sm_host *)h, out);
}

unsigned int sm_host_cache_stats(struct sm_host *h, struct sm_cache_stats *out, unsigned int max)
{
	struct sm_cache_stats all[SM_HOST_CACHES];
	unsigned int n = 0;

	_Static_assert(SM__ARRAY_SIZE(h->caches) * SM__ARRAY_SIZE(h->caches[0]) +
				       2 * SM__ARRAY_SIZE(h->nodes) * SM__ARRAY_SIZE(h->nodes[0]) <=
			       SM_HOST_CACHES,
		       "room for each");
	for (unsigned int i = 0; i < SM__CACHES * 2; i++) {
		/* Acquire: pairs with the release of whoever made it. */
		struct sm_cache *c =
			atomic_load_explicit(&h->caches[i / 2][i % 2], memory_order_acquire);

		if (c)
			sm_cache_stats(c, &all[n++]);
	}
	for (unsigned int i = 0; i < 4; i++) {
		struct sm_maple_pool *p =
			atomic_load_explicit(&h->nodes[i / 2][i % 2], memory_order_acquire);

		if (p) {
			sm_maple_pool_stats(p, &all[n], &all[n + 1]);
			n += 2;
		}
	}
	memcpy(out, all, (n < max ? n : max) * sizeof(*out));
	return n;
}

static struct sm_cache *make_cache(struct sm_host *h, enum sm__host_cache which,
				   enum sm_cache_layer layer)
{
	static const struct {
		const char *name;
		size_t size;
		bool type_stable;
	} kinds[SM__CACHES] = {
		[SM__CACHE_VMA] = { "vma", sizeof(struct sm__vma), false },
		[SM__CACHE_VMA_TYPESAFE] = { "vma_typesafe", sizeof(struct sm__vma), true },
		[SM__CACHE_VMA_LOCK] = { "vma_lock", sizeof(struct sm__vma_rwlock), false },
		[SM__CACHE_SHOWN] = { "vma_shown", sizeof(struct sm__shown), false },
	};
	const struct sm_cache_options o = {
		.name = kinds[which].name,
		.size = kinds[which].size,
		.align = SM__CACHELINE,
		.layer = layer,
		.type_stable = kinds[which].type_stable,
		.fake_nodes = h->o.fake_nodes,
		.owner = h,
	};

	return sm_cache_create(&o);
}

struct sm_cache *sm__host_cache(struct sm_host *h, enum sm__host_cache which,
				enum sm_cache_layer layer)
{
	_Atomic(struct sm_cache *) *slot = &h->caches[which][layer];
	struct sm_cache *c = atomic_load_explicit(slot, memory_order_acquire); /* pairs below */

	if (c)
		return c;
	pthread_mutex_lock(&h->lock);
	c = atomic_load_explicit(slot, memory_order_relaxed);
	if (!c) {
		c = make_cache(h, which, layer);
		atomic_store_explicit(slot, c, memory_order_release);
	}
	pthread_mutex_unlock(&h->lock);
	return c;
}

struct sm_maple_pool *sm__host_nodes(struct sm_host *h, enum sm_design_node_free node_free,
				     enum sm_design_layer layer)
{
	/* Nodes that are freed by sheaf have sheaves, whatever the other caches have. */
	const bool sheaf = node_free == SM_NODE_FREE_SHEAF;
	const bool slab = layer == SM_DESIGN_LAYER_SLAB && !sheaf;
	const struct sm_maple_pool_options o = {
		.name = "maple",
		.node_free = sheaf ? SM_MAPLE_FREE_SHEAF : SM_MAPLE_FREE_CALL_RCU,
		.slab_layer = slab,
		.owner = h,
	};
	_Atomic(struct sm_maple_pool *) *slot = &h->nodes[sheaf][slab];
	struct sm_maple_pool *pool;

	pool = atomic_load_explicit(slot, memory_order_acquire); /* pairs below */
	if (pool)
		return pool;
	pthread_mutex_lock(&h->lock);
	pool = atomic_load_explicit(slot, memory_order_relaxed);
	if (!pool) {
		pool = sm_maple_pool_create(&o);
		atomic_store_explicit(slot, pool, memory_order_release);
	}
	pthread_mutex_unlock(&h->lock);
	return pool;
}

int sm__host_charge(struct sm_host *h, uint64_t pages, uint64_t total_vm, bool admin)
{
	uint64_t allowed, reserve;
	int64_t now;

	if (!pages)
		return 0;
	now = atomic_fetch_add_explicit(&h->committed, (int64_t)pages, memory_order_relaxed) +
	      (int64_t)pages;
	if (h->o.overcommit == SM_OVERCOMMIT_ALWAYS)
		return 0;
	if (h->o.overcommit == SM_OVERCOMMIT_GUESS) {
		if (pages <= (h->o.ram + h->o.swap) >> h->page_shift)
			return 0;
		sm__host_uncharge(h, pages);
		return -ENOMEM;
	}
	allowed = commit_limit(h);
	reserve = admin ? 0 : h->o.admin_reserve >> h->page_shift;
	allowed -= reserve < allowed ? reserve : allowed;
	reserve = h->o.user_reserve >> h->page_shift;
	if (reserve > total_vm / 32)
		reserve = total_vm / 32;
	allowed -= reserve < allowed ? reserve : allowed;
	if (now >= 0 && (uint64_t)now < allowed)
		return 0;
	sm__host_uncharge(h, pages);
	return -ENOMEM;
}

void sm__host_uncharge(struct sm_host *h, uint64_t pages)
{
	atomic_fetch_sub_explicit(&h->committed, (int64_t)pages, memory_order_relaxed);
}
