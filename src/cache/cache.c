/* SPDX-License-Identifier: MIT */
/* cache.c - creation, destruction, and the calls. */
#include "base/osmem.h"
#include "base/topology.h"
#include "cache/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char error_text[128];

const char *sm_cache_error(void)
{
	return error_text;
}

static bool absurd(const char *text)
{
	snprintf(error_text, sizeof(error_text), "%s", text);
	errno = EINVAL;
	return true;
}

static bool options_are_absurd(const struct sm_cache_options *o)
{
	if (!o)
		return absurd("options: NULL");
	if (!o->size || o->size > SM_CACHE_SIZE_MAX)
		return absurd("size: not between 1 and 131072 bytes");
	if (o->align & (o->align - 1) || o->align > SM_CACHE_ALIGN_MAX)
		return absurd("align: not a power of two up to 4096");
	if (o->capacity > SM_CACHE_CAPACITY_MAX)
		return absurd("capacity: more than 4096 objects");
	if (o->barn_full > SM_CACHE_BARN_MAX)
		return absurd("barn_full: more than 65536 sheaves");
	if (o->barn_empty > SM_CACHE_BARN_MAX)
		return absurd("barn_empty: more than 65536 sheaves");
	if (o->fake_nodes > SM_CACHE_FAKE_NODES_MAX)
		return absurd("fake_nodes: more than 64");
	if (o->layer != SM_CACHE_LAYER_SHEAF && o->layer != SM_CACHE_LAYER_SLAB)
		return absurd("layer: neither sheaf nor slab");
	return false;
}

struct sm_cache *sm_cache_create(const struct sm_cache_options *o)
{
	struct sm_cache *c;
	size_t align;

	error_text[0] = '\0';
	if (options_are_absurd(o))
		return NULL;
	c = sm__os_map(sizeof(*c) + sizeof(struct sm__slab_node) * (o->fake_nodes + 1));
	if (!c) {
		snprintf(error_text, sizeof(error_text), "out of memory");
		errno = ENOMEM;
		return NULL;
	}
	c->map_bytes = sizeof(*c) + sizeof(struct sm__slab_node) * (o->fake_nodes + 1);
	c->nodes = (void *)SM__ALIGN_UP((uintptr_t)(c + 1), SM__CACHELINE);
	c->options = *o;
	c->capacity = o->capacity ? o->capacity : 28;
	align = o->align > 16 ? o->align : 16;
	snprintf(c->name, sizeof(c->name), "%s", o->name ? o->name : "unnamed");
	sm__slab_class_init(&c->objects,
			    &(struct sm__slab_shape){ .slot = SM__ALIGN_UP(o->size, align),
						      .chunk_shift = 21,
						      .nodes = 1,
						      .type_stable = o->type_stable,
						      .ctor = o->ctor },
			    c->nodes);
	return c;
}

void *sm_cache_alloc(struct sm_cache *c)
{
	void *p;

	return sm__slab_alloc(&c->objects, 0, 1, &p, true) ? p : NULL;
}

void sm_cache_free(struct sm_cache *c, void *object)
{
	if (object)
		sm__slab_free(&c->objects, 1, &object);
}

void sm_cache_free_rcu(struct sm_cache *c, void *object)
{
	if (object)
		sm__slab_free_deferred(&c->objects, object);
}

size_t sm_cache_alloc_bulk(struct sm_cache *c, size_t n, void **out)
{
	return sm__slab_alloc(&c->objects, 0, n, out, true);
}

void sm_cache_free_bulk(struct sm_cache *c, size_t n, void *const *in)
{
	for (size_t i = 0; i < n; i++)
		sm_cache_free(c, in[i]);
}

struct sm_sheaf *sm_cache_borrow(struct sm_cache *c, size_t n)
{
	size_t capacity = n > c->capacity ? n : c->capacity;
	size_t bytes = sizeof(struct sm_sheaf) + capacity * sizeof(void *);
	struct sm_sheaf *s = sm__os_map(bytes);

	if (!s)
		return NULL;
	s->bytes = bytes;
	s->cache = c;
	s->capacity = (uint32_t)capacity;
	s->size = (uint32_t)sm__slab_alloc(&c->objects, 0, n, s->objects, true);
	if (s->size < n) {
		sm_sheaf_return(c, s);
		return NULL;
	}
	return s;
}

void *sm_sheaf_take(struct sm_sheaf *s)
{
	return s->size ? s->objects[--s->size] : NULL;
}

size_t sm_sheaf_size(const struct sm_sheaf *s)
{
	return s->size;
}

int sm_sheaf_refill(struct sm_cache *c, struct sm_sheaf **s, size_t n)
{
	struct sm_sheaf *bigger;

	if ((*s)->size >= n)
		return 0;
	bigger = sm_cache_borrow(c, n);
	if (!bigger)
		return -ENOMEM;
	sm_sheaf_return(c, *s);
	*s = bigger;
	return 0;
}

void sm_sheaf_return(struct sm_cache *c, struct sm_sheaf *s)
{
	if (!s)
		return;
	sm__slab_free(&c->objects, s->size, s->objects);
	sm__os_unmap(s, s->bytes);
}

void sm_cache_barrier(struct sm_cache *c)
{
	while (atomic_load_explicit(&c->objects.nr_deferred, memory_order_acquire))
		sm__rcu_barrier();
}

void sm_cache_shrink(struct sm_cache *c)
{
	sm__slab_shrink(&c->objects);
}

int sm_cache_destroy(struct sm_cache *c)
{
	if (!c)
		return 0;
	sm_cache_barrier(c);
	if (sm__slab_count(&c->objects).taken)
		return -EBUSY;
	sm__slab_class_fini(&c->objects);
	sm__os_unmap(c, c->map_bytes);
	return 0;
}

void sm_cache_stats(struct sm_cache *c, struct sm_cache_stats *out)
{
	struct sm__slab_count count = sm__slab_count(&c->objects);

	memset(out, 0, sizeof(*out));
	memcpy(out->name, c->name, sizeof(out->name));
	out->object_size = c->options.size;
	out->slot_size = c->objects.slot;
	out->capacity = c->capacity;
	out->nodes = 1;
	out->slabs = count.slabs;
	out->objects_taken = count.taken;
}
