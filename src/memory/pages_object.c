/* SPDX-License-Identifier: MIT */
/*
 * pages_object.c - which object a file means, and reaching every mapping of its pages.
 */
#include "memory/gather.h"
#include "memory/pagecache.h"
#include "memory/rmap.h"
#include "base/inject.h"

#include <errno.h>
#include <stdlib.h>

static struct sm__list *bucket_of(struct sm__memory *m, const struct sm_file_info *info)
{
	uint64_t h =
		(info->ino ^ (uint64_t)info->dev_major << 40 ^ (uint64_t)info->dev_minor << 32) *
		0x9e3779b97f4a7c15ull;

	return &m->objects[h >> 56 & (SM__PAGES_BUCKETS - 1)];
}

static struct sm__pages *find(struct sm__memory *m, const struct sm_file_info *info)
{
	struct sm__pages *p;

	sm__list_for_each_entry (p, bucket_of(m, info), bucket) {
		if (p->ino == info->ino && p->dev_major == info->dev_major &&
		    p->dev_minor == info->dev_minor)
			return p;
	}
	return NULL;
}

static struct sm__pages *new_pages(struct sm__memory *m, struct sm_file *file)
{
	struct sm__pages *p = sm__inject_fail() ? NULL : calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->memory = m;
	p->ino = file->info.ino;
	p->dev_major = file->info.dev_major;
	p->dev_minor = file->info.dev_minor;
	p->is_volatile = file->info.mode & SM_FILE_VOLATILE;
	p->page_shift = m->pool->page_shift;
	p->files = 1;
	sm__list_init(&p->mappers);
	sm__list_init(&p->open);
	sm__spin_init(&p->lock);
	atomic_init(&p->resize, 0);
	atomic_init(&p->size, sm_file_size(file));
	return p;
}

int sm__pages_of(struct sm__memory *m, struct sm_file *file, struct sm__pages **out)
{
	struct sm__pages *bound = sm__pages_bound(file), *fresh, *p;
	bool is_first = false;

	*out = bound;
	if (bound)
		return bound->memory == m ? 0 : -EXDEV;
	fresh = new_pages(m, file);
	if (!fresh)
		return -ENOMEM;
	sm__spin_lock(&m->lock);
	bound = sm__pages_bound(file);
	if (!bound) {
		p = find(m, &file->info);
		if (p) {
			p->files++;
		} else {
			p = fresh;
			fresh = NULL;
			sm__list_add(bucket_of(m, &file->info), &p->bucket);
		}
		sm__list_add(&p->open, &file->in_pages);
		/* RMW, release: pairs with the acquire in sm__pages_bound, and with bound_since */
		atomic_exchange_explicit(&file->pages, p, memory_order_acq_rel);
		bound = p;
		is_first = true;
	}
	sm__spin_unlock(&m->lock);
	free(fresh);
	/* Who truncated it meanwhile may not have seen that it is mapped. */
	if (is_first)
		(void)sm__pages_refresh(bound, file);
	*out = bound;
	return bound->memory == m ? 0 : -EXDEV;
}

struct sm__pages *sm__pages_bound_since(struct sm_file *file)
{
	struct sm__pages *pages = NULL;

	/* RMW: of this and the one in sm__pages_of, the later sees the earlier */
	atomic_compare_exchange_strong_explicit(&file->pages, &pages, NULL, memory_order_acq_rel,
						memory_order_acquire);
	return pages;
}

struct sm_file *sm__pages_writer(struct sm__pages *pages)
{
	struct sm_file *file, *found = NULL;

	sm__spin_lock(&pages->memory->lock);
	sm__list_for_each_entry (file, &pages->open, in_pages) {
		uint64_t refs = atomic_load_explicit(&file->refs, memory_order_relaxed);

		if (!(file->info.mode & SM_FILE_WRITE) || !file->ops->write_page)
			continue;
		/* One that is closing writes by itself. */
		while (refs && !atomic_compare_exchange_weak_explicit(&file->refs, &refs, refs + 1,
								      memory_order_relaxed,
								      memory_order_relaxed))
			;
		if (refs) {
			found = file;
			break;
		}
	}
	sm__spin_unlock(&pages->memory->lock);
	return found;
}

static void free_nodes(struct sm__pages *pages, struct sm__pages_node *n)
{
	for (unsigned i = 0; i < SM__NODE_SLOTS; i++) {
		uintptr_t v = atomic_load_explicit(&n->slot[i], memory_order_relaxed);

		if (v && n->shift)
			free_nodes(pages, (struct sm__pages_node *)v);
		else if (v)
			sm__frame_put(pages->memory->pool, sm__slot_pfn(v));
	}
	free(n);
}

void sm__pages_detach_file(struct sm__pages *pages, struct sm_file *file)
{
	struct sm__memory *m = pages->memory;
	struct sm__pages_node *root;
	bool last;

	if (file && (file->info.mode & SM_FILE_WRITE))
		(void)sm__pages_write_back(pages, file, 0, UINT64_MAX);
	sm__spin_lock(&m->lock);
	if (file)
		sm__list_del(&file->in_pages);
	last = !--pages->files;
	if (last)
		sm__list_del(&pages->bucket);
	sm__spin_unlock(&m->lock);
	if (!last)
		return;
	/* Whatever maps it has a file of it. */
	SM_ASSERT(sm__list_empty(&pages->mappers));
	root = sm__root_node(atomic_load_explicit(&pages->root, memory_order_acquire));
	if (root)
		free_nodes(pages, root);
	free(pages);
}

void sm__pages_end_truncations(struct sm__memory *m)
{
	for (unsigned i = 0; i < SM__PAGES_BUCKETS; i++) {
		struct sm__pages *p;

		sm__list_for_each_entry (p, &m->objects[i], bucket) {
			uint32_t word = atomic_load_explicit(&p->resize, memory_order_relaxed);

			atomic_store_explicit(
				&p->resize,
				(word & ~(uint32_t)(SM__RESIZE_HELD | SM__RESIZE_SLEEPERS)) +
					SM__RESIZE_COUNT,
				memory_order_relaxed);
			sm__rmap_forget_others(p);
		}
	}
}

/* ---------------------------------------------------------------- every mapping of a page */

struct each {
	struct sm__mmu_gather g;
	struct sm__pages *pages;
	uint64_t first, last;
	unsigned zap_flags;
	bool clean;
};

static void visit_mapping(struct sm__mm *mm, sm_addr start, sm_addr end, bool shared, void *arg)
{
	struct each *each = arg;

	if (!each->clean)
		sm__mm_zap(mm, start, end, each->zap_flags, &each->g);
	else if (shared)
		sm__mm_clean(mm, start, end, &each->g);
}

static void visit_mm(struct sm__mm *mm, void *arg)
{
	struct each *each = arg;

	sm__mmu_gather_begin(&each->g, mm);
	sm__mmu_gather_announce(&each->g);
	mm->ops->each_mapping(mm, each->pages, each->first, each->last, visit_mapping, each);
	sm__mmu_gather_finish(&each->g);
}

void sm__pages_unmap(struct sm__pages *pages, uint64_t first, uint64_t last, unsigned zap_flags)
{
	struct each each = { .pages = pages, .first = first, .last = last, .zap_flags = zap_flags };

	sm__rmap_each_mm(pages, visit_mm, &each);
}

void sm__pages_clean(struct sm__pages *pages, uint64_t first, uint64_t last)
{
	struct each each = { .pages = pages, .first = first, .last = last, .clean = true };

	sm__rmap_each_mm(pages, visit_mm, &each);
}
