/* SPDX-License-Identifier: MIT */
/*
 * lookup.c - questions about the map that wait for nobody.
 *
 * maple designs: the tree holds a plain VMA under a word that says all there is to say with its place,
 * and any other under a record of which only the flags, one word, may change; so one load is one answer.
 * Questions about more than one VMA are validated against the sequence of mmap_lock.
 *
 * I1 sm_lookup: one tree load, and for a VMA that is not plain one copy of its record with one load of
 *    its flags; no lock, no loop of its own.
 * I2 sm_check_range: an answer that took several VMAs is given only if no writer was inside from
 *    before the first load to after the last.
 * I3 An iteration shows a gap only if no writer was inside while the gap was looked at, or under
 *    mmap_lock: else it could be patched together from two moments.
 * I4 rb and avl designs take mmap_lock for read.
 */
#include "space/lookup.h"
#include "base/thread.h"
#include "space/space.h"

#include <errno.h>
#include <string.h>

enum { CHECK_TRIES = 8, GAP_TRIES = 4 };

static void info_from_shown(const struct sm_space *s, const struct sm__shown *v,
			    struct sm_vma_info *info)
{
	info->start = v->start;
	info->end = v->end;
	info->flags = sm__shown_flags(v);
	info->offset = v->file ? v->pgoff << s->page_shift : 0;
	info->file = v->file;
	info->tag = v->tag;
	if (sm__likely(!v->name)) {
		info->name[0] = '\0';
		return;
	}
	/* the terminator is part of it: names are shorter than the field (advice.c) */
	memcpy(info->name, v->name->text, strlen(v->name->text) + 1);
}

static uint64_t flags_of(const struct sm__tree_found *f)
{
	return sm__likely(sm__word_is_direct(f->word)) ? sm__word_bits(f->word)
						       : sm__shown_flags(sm__shown_of(f->word));
}

static void info_from_found(const struct sm_space *s, const struct sm__tree_found *f,
			    struct sm_vma_info *info)
{
	if (sm__unlikely(!sm__word_is_direct(f->word))) {
		info_from_shown(s, sm__shown_of(f->word), info);
		return;
	}
	info->start = f->first;
	info->end = f->last + 1;
	info->flags = sm__word_bits(f->word);
	info->offset = 0;
	info->file = NULL;
	info->tag = 0;
	info->name[0] = '\0';
}

/* ---- one VMA */

static int lookup_locked(struct sm_space *s, sm_addr addr, struct sm_vma_info *info)
{
	struct sm__shown shown;
	struct sm__vma *v;
	uint64_t since;

	sm__thread_enter();
	sm__mmap_read_lock(&s->lock, SM_CALL_LOOKUP, false, &since);
	v = sm__find(s, addr);
	if (v) {
		sm__show(v, &shown);
		info_from_shown(s, &shown, info);
	}
	sm__mmap_read_unlock(&s->lock, since);
	return v ? 0 : -ENOENT;
}

/*
 * A thread that has never been here: attached now, unless this is a signal handler, which cannot be
 * told from the inside. Attaching is what ordinary calls do; a handler's thread has to be attached
 * before (sm_thread_attach), so a thread that is not gets the answer a handler must get.
 */
static bool may_read(void)
{
	return sm__thread_attached();
}

int sm_lookup(struct sm_space *s, sm_addr addr, struct sm_vma_info *info)
{
	struct sm__tree_found found;
	bool there;

	if (sm__unlikely(!s->tree.ops->rcu))
		return lookup_locked(s, addr, info);
	if (sm__unlikely(!may_read()))
		return -EAGAIN;
	sm__rcu_read_lock();
	there = s->tree.ops->load_rcu(&s->tree, addr, &found);
	if (there)
		info_from_found(s, &found, info);
	sm__rcu_read_unlock();
	return there ? 0 : -ENOENT;
}

/* ---- a range */

static bool grants(uint64_t flags, int access)
{
	if ((access & SM_ACCESS_WRITE) && !(flags & SM_VM_WRITE))
		return false;
	if ((access & SM_ACCESS_EXEC) && !(flags & SM_VM_EXEC))
		return false;
	return !(access & SM_ACCESS_READ) || (flags & (SM_VM_READ | SM_VM_WRITE | SM_VM_EXEC));
}

/* Inside an RCU section. one: whether a single VMA gave the answer. */
static int check_rcu(struct sm_space *s, sm_addr addr, sm_addr last, int access, bool *one)
{
	*one = true;
	for (;;) {
		struct sm__tree_found found;

		if (!s->tree.ops->load_rcu(&s->tree, addr, &found))
			return -ENOMEM;
		if (!grants(flags_of(&found), access))
			return -EACCES;
		if (found.last >= last)
			return 0;
		addr = found.last + 1;
		*one = false;
	}
}

static int check_locked(struct sm_space *s, sm_addr addr, sm_addr last, int access)
{
	struct sm__tree_cursor c = sm__cursor(&s->tree);
	struct sm__vma *v;

	for (v = sm__seek(&c, addr);; v = sm__next(&c)) {
		if (!v || v->start > addr)
			return -ENOMEM;
		if (!grants(v->flags, access))
			return -EACCES;
		if (v->end - 1 >= last)
			return 0;
		addr = v->end;
	}
}

int sm_check_range_wait(struct sm_space *s, sm_addr addr, uint64_t length, int access)
{
	uint64_t since;
	int err;

	sm__thread_enter();
	if (addr + length < addr)
		return -EINVAL;
	if (!length)
		return 0;
	sm__mmap_read_lock(&s->lock, SM_CALL_LOOKUP, false, &since);
	err = check_locked(s, addr, addr + length - 1, access);
	sm__mmap_read_unlock(&s->lock, since);
	return err;
}

int sm_check_range(struct sm_space *s, sm_addr addr, uint64_t length, int access)
{
	int err = -EAGAIN;

	if (sm__unlikely(!s->tree.ops->rcu))
		return sm_check_range_wait(s, addr, length, access);
	if (addr + length < addr)
		return -EINVAL;
	if (!length)
		return 0;
	if (sm__unlikely(!may_read()))
		return -EAGAIN;
	sm__rcu_read_lock();
	for (int i = 0; i < CHECK_TRIES; i++) {
		bool steady, one;
		uint64_t seq;

		steady = sm__mmap_speculate_begin(&s->lock, &seq);
		err = check_rcu(s, addr, addr + length - 1, access, &one);
		if (one || (steady && !sm__mmap_speculate_retry(&s->lock, seq)))
			break; /* I2 */
		err = -EAGAIN;
	}
	sm__rcu_read_unlock();
	return err;
}

/* ---- iteration */

/* The first VMA that ends above addr, under mmap_lock. */
static bool next_locked(struct sm_space *s, sm_addr addr, struct sm__shown *out)
{
	struct sm__tree_cursor c = sm__cursor(&s->tree);
	struct sm__vma *v = sm__seek(&c, addr);

	if (v)
		sm__show(v, out);
	return v != NULL;
}

/* As a record says it. The flags once, as everywhere: what is made of the copy is of one moment. */
static void show_found(struct sm__shown *out, const struct sm__tree_found *f)
{
	const struct sm__shown *v;

	if (sm__word_is_direct(f->word)) {
		*out = (struct sm__shown){ .value.node = sm__word_node(f->word),
					   .start = f->first,
					   .end = f->last + 1,
					   .flags = sm__word_bits(f->word) };
		return;
	}
	v = sm__shown_of(f->word);
	out->value = v->value;
	out->start = v->start;
	out->end = v->end;
	atomic_store_explicit(&out->flags, sm__shown_flags(v), memory_order_relaxed);
	out->pgoff = v->pgoff;
	out->file = v->file;
	out->tag = v->tag;
	out->name = v->name;
}

/*
 * The same without it. -EAGAIN: a writer kept interfering with a gap (I3). The record is copied; its
 * file and name live as long as the RCU section that the caller has opened.
 */
static int next_rcu(struct sm_space *s, sm_addr addr, struct sm__shown *out)
{
	for (int i = 0; i < GAP_TRIES; i++) {
		uint64_t seq;
		bool steady = sm__mmap_speculate_begin(&s->lock, &seq);
		struct sm__tree_found found;
		bool there = s->tree.ops->next_rcu(&s->tree, addr, &found);

		if (there)
			show_found(out, &found);
		if (there && out->start <= addr)
			return 1;
		if (steady && !sm__mmap_speculate_retry(&s->lock, seq))
			return there;
	}
	return -EAGAIN;
}

/*
 * One step of an iteration: calls use() with the record inside the section that keeps file and name.
 * Return: 1, or 0 at the end.
 */
int sm__next_shown(struct sm_space *s, sm_addr addr, struct sm__step_over *step)
{
	struct sm__shown shown;
	uint64_t since;
	int got;

	if (s->tree.ops->rcu) {
		sm__rcu_read_lock();
		got = next_rcu(s, addr, &shown);
		if (got > 0)
			step->use(step, &shown);
		sm__rcu_read_unlock();
		if (got >= 0)
			return got;
	}
	sm__mmap_read_lock(&s->lock, SM_CALL_MAPS, false, &since);
	got = next_locked(s, addr, &shown);
	if (got)
		step->use(step, &shown);
	sm__mmap_read_unlock(&s->lock, since);
	return got;
}

struct each {
	struct sm__step_over step;
	struct sm_space *s;
	struct sm_vma_info info;
};

static void take_info(struct sm__step_over *step, const struct sm__shown *shown)
{
	struct each *e = sm__container_of(step, struct each, step);

	info_from_shown(e->s, shown, &e->info);
}

int sm_for_each(struct sm_space *s, sm_addr start, sm_addr end,
		int (*visit)(void *arg, const struct sm_vma_info *info), void *arg)
{
	struct each e = { .step.use = take_info, .s = s };

	sm__thread_enter();
	while (start < end && sm__next_shown(s, start, &e.step)) {
		int err;

		if (e.info.start >= end)
			break;
		err = visit(arg, &e.info);
		if (err)
			return err;
		start = e.info.end;
	}
	return 0;
}
