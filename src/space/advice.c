/* SPDX-License-Identifier: MIT */
/*
 * advice.c - madvise: a table of what each advice is, and the walk over VMAs.
 *
 *      check arguments -> lock as the table says -> walk -> unlock
 *
 * I1 A hole is remembered (-ENOMEM) and the walk goes on; a VMA that refuses ends it with its errno.
 * I2 What was advised before an error stays advised.
 */
#include "space/advice.h"
#include "base/inject.h"
#include "samara/file.h"
#include "space/vma_lock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t special = SM_VM_IO | SM_VM_DONTEXPAND | SM_VM_PFNMAP | SM_VM_MIXEDMAP;

static bool is_private_anon(const struct sm__vma *v)
{
	return !v->file && sm__flags_private(v->flags);
}

static int refuse_special(const struct sm__advise *a)
{
	return a->vma->flags & special ? -EINVAL : 0;
}

static int refuse_dodump(const struct sm__advise *a)
{
	bool is_special = (a->vma->flags & special) && !(a->vma->flags & SM_VM_HUGETLB);

	return is_special || (a->vma->flags & SM_VM_DROPPABLE) ? -EINVAL : 0;
}

static int refuse_shared(const struct sm__advise *a)
{
	return a->vma->file || !sm__flags_private(a->vma->flags) ? -EINVAL : 0;
}

static int refuse_droppable(const struct sm__advise *a)
{
	return a->vma->flags & SM_VM_DROPPABLE ? -EINVAL : 0;
}

static int refuse_locked(const struct sm__advise *a)
{
	return a->vma->flags & (SM_VM_LOCKED | SM_VM_PFNMAP) ? -EINVAL : 0;
}

static int refuse_device(const struct sm__advise *a)
{
	return a->vma->flags & SM_VM_PFNMAP ? -EINVAL : 0;
}

static int refuse_free(const struct sm__advise *a)
{
	return !is_private_anon(a->vma) ? -EINVAL : refuse_locked(a);
}

static int refuse_reclaim(const struct sm__advise *a)
{
	return a->vma->flags & (SM_VM_LOCKED | SM_VM_PFNMAP | SM_VM_HUGETLB) ? -EINVAL : 0;
}

static int refuse_remove(const struct sm__advise *a)
{
	if ((a->vma->flags & SM_VM_LOCKED) || !a->vma->file)
		return -EINVAL;
	return (a->vma->flags & (SM_VM_SHARED | SM_VM_MAYWRITE)) == (SM_VM_SHARED | SM_VM_MAYWRITE)
		       ? 0
		       : -EACCES;
}

static int refuse_guard_install(const struct sm__advise *a)
{
	return a->vma->flags & (special | SM_VM_HUGETLB | SM_VM_LOCKED) ? -EINVAL : 0;
}

static int refuse_guard_remove(const struct sm__advise *a)
{
	return a->vma->flags & (special | SM_VM_HUGETLB) ? -EINVAL : 0;
}

static int refuse_collapse(const struct sm__advise *a)
{
	return a->vma->flags & (special | SM_VM_NOHUGEPAGE) || a->vma->file ? -EINVAL : 0;
}

/* Guard pages are pages: the area counts as written. */
static void give_identity(struct sm__advise *a)
{
	if (is_private_anon(a->vma))
		sm__anon_prepare(a->space, a->vma);
}

#define FLAGS(name, set_, clear_, refuse_)                                             \
	{                                                                              \
		.advice = SM_MADV_##name, .kind = SM__ADVICE_FLAGS, .lock = SM__WRITE, \
		.set = (set_), .clear = (clear_), .refuse = (refuse_)                  \
	}
#define PAGES(name, refuse_)                                                          \
	{                                                                             \
		.advice = SM_MADV_##name, .kind = SM__ADVICE_PAGES, .lock = SM__READ, \
		.refuse = (refuse_)                                                   \
	}

/* clang-format off */
static const struct sm__advice table[] = {
	FLAGS(NORMAL, 0, SM_VM_RAND_READ | SM_VM_SEQ_READ, NULL),
	FLAGS(RANDOM, SM_VM_RAND_READ, SM_VM_SEQ_READ, NULL),
	FLAGS(SEQUENTIAL, SM_VM_SEQ_READ, SM_VM_RAND_READ, NULL),
	{ .advice = SM_MADV_DONTFORK, .kind = SM__ADVICE_FLAGS, .lock = SM__WRITE, .discards = true,
	  .set = SM_VM_DONTCOPY },
	FLAGS(DOFORK, 0, SM_VM_DONTCOPY, refuse_special),
	FLAGS(DONTDUMP, SM_VM_DONTDUMP, 0, NULL),
	FLAGS(DODUMP, 0, SM_VM_DONTDUMP, refuse_dodump),
	{ .advice = SM_MADV_WIPEONFORK, .kind = SM__ADVICE_FLAGS, .lock = SM__WRITE, .discards = true,
	  .set = SM_VM_WIPEONFORK, .refuse = refuse_shared },
	FLAGS(KEEPONFORK, 0, SM_VM_WIPEONFORK, refuse_droppable),
	FLAGS(MERGEABLE, SM_VM_MERGEABLE, 0, NULL),
	FLAGS(UNMERGEABLE, 0, SM_VM_MERGEABLE, NULL),
	FLAGS(HUGEPAGE, SM_VM_HUGEPAGE, SM_VM_NOHUGEPAGE, NULL),
	FLAGS(NOHUGEPAGE, SM_VM_NOHUGEPAGE, SM_VM_HUGEPAGE, NULL),
	PAGES(WILLNEED, NULL),
	{ .advice = SM_MADV_DONTNEED, .kind = SM__ADVICE_PAGES, .lock = SM__READ, .discards = true,
	  .gathers = true, .refuse = refuse_locked },
	{ .advice = SM_MADV_DONTNEED_LOCKED, .kind = SM__ADVICE_PAGES, .lock = SM__READ,
	  .discards = true, .gathers = true, .refuse = refuse_device },
	{ .advice = SM_MADV_FREE, .kind = SM__ADVICE_PAGES, .lock = SM__READ, .discards = true,
	  .gathers = true, .refuse = refuse_free },
	{ .advice = SM_MADV_REMOVE, .kind = SM__ADVICE_PAGES, .lock = SM__READ, .discards = true,
	  .refuse = refuse_remove },
	PAGES(COLD, refuse_reclaim),
	PAGES(PAGEOUT, refuse_reclaim),
	PAGES(COLLAPSE, refuse_collapse),
	{ .advice = SM_MADV_GUARD_INSTALL, .kind = SM__ADVICE_PAGES, .lock = SM__READ,
	  .discards = true, .refuse = refuse_guard_install, .map = give_identity },
	PAGES(GUARD_REMOVE, refuse_guard_remove),
	{ .advice = SM_MADV_POPULATE_READ, .kind = SM__ADVICE_POPULATE, .lock = SM__UNLOCKED },
	{ .advice = SM_MADV_POPULATE_WRITE, .kind = SM__ADVICE_POPULATE, .lock = SM__UNLOCKED },
};
/* clang-format on */

const struct sm__advice *sm__advice_of(int advice)
{
	for (size_t i = 0; i < SM__ARRAY_SIZE(table); i++)
		if (table[i].advice == advice)
			return &table[i];
	return NULL;
}

static bool cannot_merge_pages(const struct sm__vma *v)
{
	return !sm__flags_private(v->flags) ||
	       (v->flags & (special | SM_VM_HUGETLB | SM_VM_DROPPABLE));
}

/* Gives the range new flags (and the name, when naming). */
static int change_flags(struct sm__advise *a, uint64_t flags, struct sm__name *name)
{
	struct sm_space *s = a->space;
	struct sm__tree_cursor c = sm__cursor(&s->tree);
	struct sm__merge m;
	struct sm__prep prep;
	struct sm__vma *v;

	if (flags == a->vma->flags && sm__name_equal(name, a->vma->name))
		return 0;
	sm__merge_from(&m, a->op, a->vma);
	m.pgoff += sm__pages(s, a->start - a->vma->start);
	m.start = a->start;
	m.end = a->end;
	m.flags = flags;
	m.name = name;
	m.middle = a->vma;
	m.prev = a->start == a->vma->start ? sm__vma_before(s, a->start) : NULL;
	m.next = a->end == a->vma->end ? sm__seek(&c, a->end) : NULL;
	v = sm__modify(&m);
	if (m.error || (v->flags == flags && sm__name_equal(name, v->name)))
		return m.error;
	if (sm__prepare(s, &prep, 1, 1))
		return -ENOMEM;
	sm__vma_start_write(s, v);
	v->flags = flags;
	if (!sm__name_equal(name, v->name)) {
		struct sm__name *old = v->name;

		v->name = sm__name_get(name);
		sm__store(s, &prep, v);
		sm__name_put(
			old); /* after the store: readers of the old record are in RCU sections */
	} else {
		sm__store(s, &prep, v);
	}
	sm__unprepare(s, &prep);
	return 0;
}

static bool sealed_against(const struct sm__advice *t, const struct sm__vma *v)
{
	return t->discards && (v->flags & SM_VM_SEALED) && !v->file && !(v->flags & SM_VM_WRITE);
}

static int advise_vma(struct sm__advise *a, const struct sm__advice *t)
{
	int err;

	if (sealed_against(t, a->vma))
		return -EPERM;
	err = t->refuse ? t->refuse(a) : 0;
	if (err)
		return err;
	if (t->kind == SM__ADVICE_FLAGS) {
		uint64_t flags = (a->vma->flags & ~t->clear) | t->set;

		if (t->advice == SM_MADV_MERGEABLE && cannot_merge_pages(a->vma))
			return 0;
		err = change_flags(a, flags, a->vma->name);
		return err == -ENOMEM ? -EAGAIN : err;
	}
	if (t->map)
		t->map(a);
	if (t->discards)
		sm__op_notice(a->op, SM_NOTICE_DISCARD, a->start, a->end);
	return a->space->backend->advise ? a->space->backend->advise(a) : 0;
}

/* I1 */
static int walk(struct sm__advise *a, sm_addr start, sm_addr end,
		int (*one)(struct sm__advise *a, const void *arg), const void *arg)
{
	int remembered = 0;

	while (start < end) {
		struct sm__tree_cursor c = sm__cursor(&a->space->tree);
		int err;

		a->vma = sm__seek(&c, start);
		if (!a->vma)
			return -ENOMEM;
		if (a->vma->start > start) {
			remembered = -ENOMEM;
			start = a->vma->start;
			if (start >= end)
				break;
		}
		a->start = start;
		a->end = a->vma->end < end ? a->vma->end : end;
		start = a->end; /* the VMA may be merged away */
		err = one(a, arg);
		if (err)
			return err;
	}
	return remembered;
}

static int advise_one(struct sm__advise *a, const void *arg)
{
	return advise_vma(a, arg);
}

/* Page by page, stopping at the first that cannot be: as an access by the caller. */
static int populate(struct sm_space *s, sm_addr start, sm_addr end, bool write)
{
	while (start < end) {
		struct sm_vma_info info;
		struct sm_fault_result r;

		if (sm_lookup(s, start, &info))
			return -ENOMEM;
		if ((info.flags & (SM_VM_IO | SM_VM_PFNMAP)) ||
		    !(info.flags & (write ? SM_VM_WRITE : SM_VM_READ)))
			return -EINVAL;
		r = sm_fault(s, start, write ? SM_ACCESS_WRITE : SM_ACCESS_READ);
		if (r.error)
			return r.error;
		if (r.signo)
			return -EFAULT;
		start = s->backend == &sm__backend_none ? info.end : start + s->page_size;
	}
	return 0;
}

int sm_madvise(struct sm_space *s, sm_addr addr, uint64_t length, int advice)
{
	const struct sm__advice *t = sm__advice_of(advice);
	sm_addr end = addr + sm__page_align(s, length);
	struct sm__op op;
	struct sm__advise a = { .op = &op, .space = s, .advice = advice };
	int err;

	sm__op_init(&op, s, SM_CALL_MADVISE);
	if (!t || !sm__page_aligned(s, addr))
		return -EINVAL;
	if (length && !sm__page_align(s, length))
		return -EINVAL;
	if (end < addr)
		return -EINVAL;
	if (end == addr)
		return 0;
	if (t->kind == SM__ADVICE_POPULATE)
		return populate(s, addr, end, advice == SM_MADV_POPULATE_WRITE);
	err = sm__op_lock(&op, t->lock, addr, end);
	if (err)
		return err;
	err = walk(&a, addr, end, advise_one, t);
	sm__op_unlock(&op);
	return err;
}

/* ---- names */

enum { NAME_MAX_LENGTH = 79 };

static bool name_is_fine(const char *name)
{
	size_t n = strnlen(name, NAME_MAX_LENGTH + 1);

	if (n > NAME_MAX_LENGTH)
		return false;
	for (size_t i = 0; i < n; i++)
		if (name[i] < ' ' || name[i] > '~' || strchr("\\`$[]", name[i]))
			return false;
	return true;
}

static struct sm__name *name_new(const char *text)
{
	size_t n = strlen(text) + 1;
	struct sm__name *name = sm__inject_fail() ? NULL : malloc(sizeof(*name) + n);

	if (!name)
		return NULL;
	atomic_init(&name->refs, 1);
	memcpy(name->text, text, n);
	return name;
}

static int name_one(struct sm__advise *a, const void *arg)
{
	int err;

	(void)arg;
	if (a->vma->file && !(sm_file_info(a->vma->file)->mode & SM_FILE_VOLATILE))
		return -EBADF;
	err = change_flags(a, a->vma->flags, a->name);
	return err == -ENOMEM ? -EAGAIN : err;
}

int sm_set_anon_name(struct sm_space *s, sm_addr addr, uint64_t length, const char *name)
{
	sm_addr end = addr + sm__page_align(s, length);
	struct sm__op op;
	struct sm__advise a = { .op = &op, .space = s };
	int err;

	sm__op_init(&op, s, SM_CALL_MADVISE);
	if (name && !name_is_fine(name))
		return -EINVAL;
	if (!sm__page_aligned(s, addr) || (length && !sm__page_align(s, length)) || end < addr)
		return -EINVAL;
	if (end == addr)
		return 0;
	if (name) {
		a.name = name_new(name);
		if (!a.name)
			return -ENOMEM;
	}
	err = sm__op_lock(&op, SM__WRITE, addr, end);
	if (!err) {
		err = walk(&a, addr, end, name_one, NULL);
		sm__op_unlock(&op);
	}
	sm__name_put(a.name);
	return err;
}
