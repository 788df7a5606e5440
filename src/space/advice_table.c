/* SPDX-License-Identifier: MIT */
/*
 * advice_table.c - every advice: its lock, what it refuses, what it does. As Linux 6.18 answers
 * (tests/kernel/advice_6.18.txt is the record), with the VMA lock for guard pages of later kernels.
 *
 *      lock       VMA   pages go or become markers, the area stays as it is
 *                 READ  the area is looked at, its pages are worked on
 *                 WRITE the area itself changes
 */
#include "space/advice.h"
#include "base/inject.h"
#include "samara/file.h"

#include <errno.h>

static const uint64_t special = SM_VM_IO | SM_VM_DONTEXPAND | SM_VM_PFNMAP | SM_VM_MIXEDMAP;

static bool is_private_anonymous(const struct sm__vma *v)
{
	return !v->file && sm__flags_private(v->flags);
}

/* ---- what flags of the VMA alone cannot say ---- */

static int only_private_anonymous(const struct sm__vma *v)
{
	return is_private_anonymous(v) ? 0 : -EINVAL;
}

static int no_special_but_huge(const struct sm__vma *v)
{
	return (v->flags & special) && !(v->flags & SM_VM_HUGETLB) ? -EINVAL : 0;
}

static int removable(const struct sm__vma *v)
{
	if (!v->file || (sm_file_info(v->file)->mode & SM_FILE_DEVICE))
		return -EINVAL;
	/* shared, and the descriptor allows writing, whatever the protection is now */
	return (v->flags & (SM_VM_SHARED | SM_VM_MAYWRITE)) == (SM_VM_SHARED | SM_VM_MAYWRITE)
		       ? 0
		       : -EACCES;
}

/* ---- what is done ---- */

static int pages(struct sm__madvise *m, enum sm__page_advice what, struct sm__vma *v,
		 const sm_addr range[2])
{
	struct sm__advise *a = &m->work;

	if (!m->s->backend->advise)
		return 0;
	a->what = what;
	a->vma = v;
	a->start = range[0];
	a->end = range[1];
	if (m->row->traits & SM__ADVICE_GATHERS)
		a->gather = sm__op_gather(&m->op);
	return m->s->backend->advise(a);
}

static int discard(struct sm__madvise *m, struct sm__vma *v, sm_addr start, sm_addr end)
{
	if (v->flags & SM_VM_HUGETLB) {
		uint64_t huge = m->s->host->o.huge_page;

		if (start & (huge - 1))
			return -EINVAL;
		end &= ~(huge - 1);
		if (start >= end)
			return 0;
	}
	return pages(m, SM__PAGES_DISCARD, v, (const sm_addr[2]){ start, end });
}

static int lazyfree(struct sm__madvise *m, struct sm__vma *v, sm_addr start, sm_addr end)
{
	return pages(m, SM__PAGES_LAZYFREE, v, (const sm_addr[2]){ start, end });
}

static int age(struct sm__madvise *m, struct sm__vma *v, sm_addr start, sm_addr end)
{
	return pages(m, SM__PAGES_AGE, v, (const sm_addr[2]){ start, end });
}

static int page_out(struct sm__madvise *m, struct sm__vma *v, sm_addr start, sm_addr end)
{
	/* a file that the caller could not write either is none of the caller's business */
	if (v->file && (v->flags & SM_VM_MAYSHARE) &&
	    !(sm_file_info(v->file)->mode & SM_FILE_WRITE))
		return 0;
	return pages(m, SM__PAGES_OUT, v, (const sm_addr[2]){ start, end });
}

/* Which pages of its file [start, end) of v shows. */
static uint64_t file_page(const struct sm_space *s, const struct sm__vma *v, sm_addr addr)
{
	return v->pgoff + sm__pages(s, addr - v->start);
}

static int want(struct sm__madvise *m, struct sm__vma *v, sm_addr start, sm_addr end)
{
	struct sm__advise a = { .what = SM__PAGES_READ, .space = m->s };

	if (!m->s->backend->advise || (v->flags & (SM_VM_IO | SM_VM_PFNMAP)))
		return 0;
	if (!v->file)
		return pages(m, SM__PAGES_WANT, v, (const sm_addr[2]){ start, end });
	/* reading calls the file's functions: without a lock, and what fails is not reported */
	a.first = file_page(m->s, v, start);
	a.last = file_page(m->s, v, end) - 1;
	a.file = sm_file_get(v->file);
	sm__madvise_let_go(m);
	(void)m->s->backend->advise(&a);
	sm_file_put(a.file);
	return sm__madvise_lock_again(m);
}

static int punch(struct sm__madvise *m, struct sm__vma *v, sm_addr start, sm_addr end)
{
	uint64_t offset = file_page(m->s, v, start) << m->s->page_shift;
	struct sm_file *file = sm_file_get(v->file);
	struct sm__advise a = { .what = SM__PAGES_KNOW, .space = m->s, .file = file };
	int err = 0, again;

	sm__madvise_let_go(m);
	/* a file that was mapped and never touched does not know yet what is in the page cache */
	if (m->s->backend->advise)
		err = m->s->backend->advise(&a);
	if (!err)
		err = sm_file_punch(file, offset, end - start);
	sm_file_put(file);
	again = sm__madvise_lock_again(m);
	return err ? err : again;
}

static int install_guards(struct sm__madvise *m, struct sm__vma *v, sm_addr start, sm_addr end)
{
	/* so that fork copies the markers; under the VMA lock it has one already (advice.c) */
	if (!v->file && !sm__anon_of(v))
		sm__anon_prepare(m->s, v);
	return pages(m, SM__PAGES_GUARD, v, (const sm_addr[2]){ start, end });
}

static int remove_guards(struct sm__madvise *m, struct sm__vma *v, sm_addr start, sm_addr end)
{
	return pages(m, SM__PAGES_UNGUARD, v, (const sm_addr[2]){ start, end });
}

/* What one entry of the second level maps: 2 MiB where pages are 4 KiB. 0: no huge pages here. */
static uint64_t huge_size(const struct sm_space *s)
{
	return s->host->o.huge_page ? s->page_size << 9 : 0;
}

static int may_be_huge(const struct sm_space *s, const struct sm__vma *v)
{
	uint64_t huge = huge_size(s);

	if (!huge || (v->flags & (special | SM_VM_HUGETLB | SM_VM_NOHUGEPAGE)) ||
	    !is_private_anonymous(v))
		return -EINVAL;
	return SM__ALIGN_UP(v->start, huge) < SM__ALIGN_DOWN(v->end, huge) ? 0 : -EINVAL;
}

/* Goes on after a block that cannot be had; the last failure is the answer. */
static int collapse(struct sm__madvise *m, struct sm__vma *v, sm_addr start, sm_addr end)
{
	uint64_t huge = huge_size(m->s);
	int err = may_be_huge(m->s, v);

	if (err)
		return err;
	for (sm_addr at = SM__ALIGN_UP(start, huge); at + huge <= end; at += huge) {
		const sm_addr block[2] = { at, at + huge };
		int one = m->s->backend->advise ? pages(m, SM__PAGES_COLLAPSE, v, block) : -EINVAL;

		if (one)
			err = one;
		if (one == -ENOMEM)
			break;
	}
	return err;
}

static int merge_equal(struct sm__madvise *m, struct sm__vma *v, sm_addr start, sm_addr end)
{
	const uint64_t never =
		special | SM_VM_SHARED | SM_VM_MAYSHARE | SM_VM_HUGETLB | SM_VM_DROPPABLE;
	const sm_addr range[2] = { start, end };

	if (v->flags & never) {
		m->prev = v;
		return 0;
	}
	return sm__madvise_change(m, v, range, v->flags | SM_VM_MERGEABLE, v->name);
}

static int unmerge(struct sm__madvise *m, struct sm__vma *v, sm_addr start, sm_addr end)
{
	const sm_addr range[2] = { start, end };
	int err;

	if (!(v->flags & SM_VM_MERGEABLE)) {
		m->prev = v;
		return 0;
	}
	err = pages(m, SM__PAGES_UNMERGE, v, range);
	if (err)
		return err == -ENOMEM ? -EAGAIN : err;
	return sm__madvise_change(m, v, range, v->flags & ~(uint64_t)SM_VM_MERGEABLE, v->name);
}

/* ---- the rows ---- */

#define FLAG_ROW(n, s, c, ...)                      \
	[SM_MADV_##n] = { .name = #n,               \
			  .advice = SM_MADV_##n,    \
			  .lock = SM__ADVICE_WRITE, \
			  .set = (s),               \
			  .clear = (c),             \
			  __VA_ARGS__ }

enum { LAST_ADVICE = SM_MADV_GUARD_REMOVE };

static const struct sm__advice_row rows[LAST_ADVICE + 1] = {
	FLAG_ROW(NORMAL, 0, SM_VM_RAND_READ | SM_VM_SEQ_READ),
	FLAG_ROW(RANDOM, SM_VM_RAND_READ, SM_VM_SEQ_READ),
	FLAG_ROW(SEQUENTIAL, SM_VM_SEQ_READ, SM_VM_RAND_READ),
	FLAG_ROW(DONTFORK, SM_VM_DONTCOPY, 0, .traits = SM__ADVICE_DISCARDS),
	FLAG_ROW(DOFORK, 0, SM_VM_DONTCOPY, .refuses = SM_VM_IO),
	FLAG_ROW(DONTDUMP, SM_VM_DONTDUMP, 0),
	FLAG_ROW(DODUMP, 0, SM_VM_DONTDUMP, .refuses = SM_VM_DROPPABLE,
		 .check = no_special_but_huge),
	FLAG_ROW(WIPEONFORK, SM_VM_WIPEONFORK, 0, .traits = SM__ADVICE_DISCARDS,
		 .check = only_private_anonymous),
	FLAG_ROW(KEEPONFORK, 0, SM_VM_WIPEONFORK, .refuses = SM_VM_DROPPABLE),
	FLAG_ROW(HUGEPAGE, SM_VM_HUGEPAGE, SM_VM_NOHUGEPAGE),
	FLAG_ROW(NOHUGEPAGE, SM_VM_NOHUGEPAGE, SM_VM_HUGEPAGE),
	FLAG_ROW(MERGEABLE, 0, 0, .apply = merge_equal),
	FLAG_ROW(UNMERGEABLE, 0, 0, .apply = unmerge),

	[SM_MADV_WILLNEED] = { "WILLNEED", SM__ADVICE_READ, SM__ADVICE_REMOTE, SM_MADV_WILLNEED,
			       .apply = want },
	[SM_MADV_DONTNEED] = { "DONTNEED", SM__ADVICE_VMA,
			       SM__ADVICE_GATHERS | SM__ADVICE_DISCARDS | SM__ADVICE_TELLS,
			       SM_MADV_DONTNEED, .refuses = SM_VM_LOCKED | SM_VM_PFNMAP,
			       .apply = discard },
	[SM_MADV_DONTNEED_LOCKED] = { "DONTNEED_LOCKED", SM__ADVICE_VMA,
				      SM__ADVICE_GATHERS | SM__ADVICE_DISCARDS | SM__ADVICE_TELLS,
				      SM_MADV_DONTNEED_LOCKED, .refuses = SM_VM_PFNMAP,
				      .apply = discard },
	[SM_MADV_FREE] = { "FREE", SM__ADVICE_VMA,
			   SM__ADVICE_GATHERS | SM__ADVICE_DISCARDS | SM__ADVICE_TELLS,
			   SM_MADV_FREE, .refuses = SM_VM_LOCKED | SM_VM_PFNMAP | SM_VM_HUGETLB,
			   .check = only_private_anonymous, .apply = lazyfree },
	[SM_MADV_REMOVE] = { "REMOVE", SM__ADVICE_READ, SM__ADVICE_DISCARDS | SM__ADVICE_TELLS,
			     SM_MADV_REMOVE, .refuses = SM_VM_LOCKED, .check = removable,
			     .apply = punch },
	[SM_MADV_COLD] = { "COLD", SM__ADVICE_READ, SM__ADVICE_GATHERS | SM__ADVICE_REMOTE,
			   SM_MADV_COLD, .refuses = SM_VM_LOCKED | SM_VM_PFNMAP | SM_VM_HUGETLB,
			   .apply = age },
	[SM_MADV_PAGEOUT] = { "PAGEOUT", SM__ADVICE_READ, SM__ADVICE_GATHERS | SM__ADVICE_REMOTE,
			      SM_MADV_PAGEOUT,
			      .refuses = SM_VM_LOCKED | SM_VM_PFNMAP | SM_VM_HUGETLB,
			      .apply = page_out },
	[SM_MADV_POPULATE_READ] = { "POPULATE_READ", SM__ADVICE_NO_LOCK, SM__ADVICE_BY_PAGE,
				    SM_MADV_POPULATE_READ, .refuses = 0 },
	[SM_MADV_POPULATE_WRITE] = { "POPULATE_WRITE", SM__ADVICE_NO_LOCK, SM__ADVICE_BY_PAGE,
				     SM_MADV_POPULATE_WRITE, .refuses = 0 },
	[SM_MADV_COLLAPSE] = { "COLLAPSE", SM__ADVICE_READ, SM__ADVICE_REMOTE, SM_MADV_COLLAPSE,
			       .apply = collapse },
	[SM_MADV_HWPOISON] = { "HWPOISON", SM__ADVICE_NO_LOCK, SM__ADVICE_BY_PAGE, SM_MADV_HWPOISON,
			       .refuses = 0 },
	[SM_MADV_SOFT_OFFLINE] = { "SOFT_OFFLINE", SM__ADVICE_NO_LOCK, SM__ADVICE_BY_PAGE,
				   SM_MADV_SOFT_OFFLINE, .refuses = 0 },
	[SM_MADV_GUARD_INSTALL] = { "GUARD_INSTALL", SM__ADVICE_VMA,
				    SM__ADVICE_GATHERS | SM__ADVICE_DISCARDS | SM__ADVICE_TELLS,
				    SM_MADV_GUARD_INSTALL,
				    .refuses = special | SM_VM_HUGETLB | SM_VM_LOCKED,
				    .apply = install_guards },
	[SM_MADV_GUARD_REMOVE] = { "GUARD_REMOVE", SM__ADVICE_VMA, SM__ADVICE_GATHERS,
				   SM_MADV_GUARD_REMOVE, .refuses = special | SM_VM_HUGETLB,
				   .apply = remove_guards },
};

const struct sm__advice_row *sm__advice_row(int advice)
{
	if (advice < 0 || advice > LAST_ADVICE || !rows[advice].name)
		return NULL;
	return &rows[advice];
}
