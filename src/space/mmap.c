/* SPDX-License-Identifier: MIT */
/*
 * mmap.c - a new mapping. The order of the checks is the kernel's: it decides which errno a call with
 * two faults in it gets.
 *
 * I1 Until the new VMA is stored, nothing of the old map has changed but splits at the range's ends.
 * I2 MAP_FIXED replaces in one step: readers see the old mapping or the new, never a hole.
 */
#include "space/space.h"
#include "memory/file.h"

#include <errno.h>

/* One call on its way. */
struct mapping {
	struct sm__op op;
	struct sm_space *s;
	/* in */
	sm_addr addr;
	uint64_t length; /* as given, then page aligned */
	int prot, flags;
	struct sm_file *file; /* of the caller, or made for shared anonymous memory */
	uint64_t offset;
	uint64_t tag; /* on the way */
	struct sm__tree_cursor cursor;
	struct sm__vma *next; /* above a place that was searched for */
	uint64_t vm_flags;
	uint64_t pgoff;
	bool own_file; /* made here: let go if the call fails */
	uint64_t charged;
	bool sealed; /* no new mapping may write to the file */
	/* out */
	bool populate;
};

uint64_t sm__prot_flags(int prot)
{
	/* PROT_READ, WRITE and EXEC have the values of SM_VM_READ, WRITE and EXEC */
	return (uint64_t)prot & (SM_PROT_READ | SM_PROT_WRITE | SM_PROT_EXEC);
}

/* What MAP_SHARED ignores and MAP_SHARED_VALIDATE accepts. */
static const int legacy_flags =
	SM_MAP_TYPE | SM_MAP_FIXED | SM_MAP_ANONYMOUS | SM_MAP_32BIT | SM_MAP_GROWSDOWN |
	SM_MAP_DENYWRITE | SM_MAP_EXECUTABLE | SM_MAP_LOCKED | SM_MAP_NORESERVE | SM_MAP_POPULATE |
	SM_MAP_NONBLOCK | SM_MAP_STACK | SM_MAP_HUGETLB | 0x7c000000 /* size of huge pages */;

static int check_arguments(struct mapping *m)
{
	struct sm_space *s = m->s;

	if (!sm__page_aligned(s, m->offset))
		return -EINVAL;
	if (!(m->flags & SM_MAP_ANONYMOUS) && !m->file)
		return -EBADF;
	if ((m->flags & SM_MAP_HUGETLB) && (m->flags & SM_MAP_ANONYMOUS))
		return -ENOMEM; /* a machine without reserved huge pages */
	if (m->flags & SM_MAP_ANONYMOUS)
		m->file = NULL;
	if (m->file && (m->flags & SM_MAP_TYPE) != SM_MAP_PRIVATE)
		m->sealed = sm__file_sealed(m->file);
	return 0;
}

static int check_length(struct mapping *m)
{
	struct sm_space *s = m->s;
	uint64_t min = s->host->o.mmap_min_addr;

	if (!m->length)
		return -EINVAL;
	if (m->flags & SM_MAP_FIXED_NOREPLACE)
		m->flags |= SM_MAP_FIXED;
	if (!(m->flags & SM_MAP_FIXED)) {
		sm_addr hint = m->addr & ~(s->page_size - 1);

		m->addr = hint && hint < min ? min : hint;
	}
	m->length = sm__page_align(s, m->length);
	if (!m->length)
		return -ENOMEM;
	if ((m->offset >> s->page_shift) + sm__pages(s, m->length) < (m->offset >> s->page_shift))
		return -EOVERFLOW;
	/* tested before a merge that would need no new VMA, as Linux does */
	return s->map_count > s->host->o.max_map_count ? -ENOMEM : 0;
}

static int place(struct mapping *m)
{
	struct sm__place p = {
		.addr = m->addr,
		.length = m->length,
		.flags = m->flags,
		.file = m->file,
		.offset = m->offset,
		.vm_flags = m->vm_flags,
		.c = &m->cursor,
	};
	int64_t addr = sm__place(m->s, &p);

	m->next = p.next;
	if (addr < 0)
		return (int)addr;
	m->addr = (sm_addr)addr;
	if (m->flags & SM_MAP_FIXED_NOREPLACE) {
		struct sm__vma *v = sm__seek(&m->cursor, m->addr);

		if (v && v->start < m->addr + m->length)
			return -EEXIST;
	}
	return 0;
}

static int check_file(struct mapping *m)
{
	const struct sm_file_info *info = sm_file_info(m->file);
	uint64_t limit = info->mode & SM_FILE_DIRECTORY ? UINT64_MAX : INT64_MAX;
	int type = m->flags & SM_MAP_TYPE;

	/* the pages must end within the signed 64-bit numbers, those of a directory within all */
	if (m->offset >> m->s->page_shift > (limit - m->length) >> m->s->page_shift)
		return -EOVERFLOW;
	switch (type) {
	case SM_MAP_SHARED_VALIDATE:
		if (m->flags & ~legacy_flags)
			return -EOPNOTSUPP;
		/* fallthrough */
	case SM_MAP_SHARED:
		if ((m->prot & SM_PROT_WRITE) && !(info->mode & SM_FILE_WRITE))
			return -EACCES;
		if ((info->mode & SM_FILE_APPEND) && (info->mode & SM_FILE_WRITE))
			return -EACCES;
		m->vm_flags |= SM_VM_SHARED | SM_VM_MAYSHARE;
		if (!(info->mode & SM_FILE_WRITE))
			m->vm_flags &= ~(uint64_t)(SM_VM_MAYWRITE | SM_VM_SHARED);
		if (m->sealed)
			m->vm_flags &= ~(uint64_t)SM_VM_MAYWRITE;
		break;
	case SM_MAP_PRIVATE:
		break;
	default:
		return -EINVAL;
	}
	if (!(info->mode & SM_FILE_READ))
		return -EACCES;
	if (info->mode & SM_FILE_NOEXEC) {
		if (m->vm_flags & SM_VM_EXEC)
			return -EPERM;
		m->vm_flags &= ~(uint64_t)SM_VM_MAYEXEC;
	}
	if (info->mode & (SM_FILE_DIRECTORY | SM_FILE_NO_MMAP))
		return -ENODEV;
	if (m->vm_flags & SM_VM_GROWSDOWN)
		return -EINVAL;
	if (m->sealed && (m->prot & SM_PROT_WRITE))
		return -EPERM;
	if (info->mode & SM_FILE_DEVICE) {
		m->vm_flags |= SM_VM_IO | SM_VM_PFNMAP | SM_VM_DONTEXPAND | SM_VM_DONTDUMP;
		m->vm_flags &= ~(uint64_t)(SM_VM_LOCKED | SM_VM_LOCKONFAULT);
	}
	m->pgoff = m->offset >> m->s->page_shift;
	return 0;
}

static int check_anonymous(struct mapping *m)
{
	switch (m->flags & SM_MAP_TYPE) {
	case SM_MAP_SHARED:
		if (m->vm_flags & SM_VM_GROWSDOWN)
			return -EINVAL;
		m->pgoff = 0;
		m->vm_flags |= SM_VM_SHARED | SM_VM_MAYSHARE;
		return 0;
	case SM_MAP_DROPPABLE:
		if (m->flags & (SM_MAP_LOCKED | SM_MAP_HUGETLB | SM_MAP_GROWSDOWN))
			return -EINVAL;
		m->vm_flags |=
			SM_VM_DROPPABLE | SM_VM_NORESERVE | SM_VM_WIPEONFORK | SM_VM_DONTDUMP;
		/* fallthrough */
	case SM_MAP_PRIVATE:
		m->pgoff = m->addr >> m->s->page_shift;
		return 0;
	default:
		return -EINVAL;
	}
}

static int check_under_lock(struct mapping *m)
{
	struct sm_space *s = m->s;
	int err = check_length(m);

	if (err)
		return err;
	m->vm_flags = sm__prot_flags(m->prot) | s->def_flags | SM_VM_MAYREAD | SM_VM_MAYWRITE |
		      SM_VM_MAYEXEC | (m->flags & SM_MAP_GROWSDOWN ? SM_VM_GROWSDOWN : 0) |
		      (m->flags & SM_MAP_LOCKED ? SM_VM_LOCKED : 0) |
		      (m->flags & SM_MAP_STACK ? SM_VM_NOHUGEPAGE : 0) |
		      (m->flags & SM_MAP_SYNC ? SM_VM_SYNC : 0);
	err = place(m);
	if (err)
		return err;
	if ((m->flags & SM_MAP_LOCKED) && !sm__lock_allowed(s))
		return -EPERM;
	if (!sm__may_lock(s, m->vm_flags, m->length))
		return -EAGAIN;
	err = m->file ? check_file(m) : check_anonymous(m);
	if (err)
		return err;
	if ((m->flags & SM_MAP_NORESERVE) && s->host->o.overcommit != SM_OVERCOMMIT_NEVER)
		m->vm_flags |= SM_VM_NORESERVE;
	if (s->o.deny_write_exec && (m->vm_flags & SM_VM_WRITE) && (m->vm_flags & SM_VM_EXEC))
		return -EACCES;
	return 0;
}

/* Limits and charge for the range, less what the mappings there give back. */
static int take_charge(struct mapping *m, struct sm__unmap *u)
{
	struct sm_space *s = m->s;
	uint64_t pages = sm__pages(s, m->length);

	if (!sm__may_expand(s, m->vm_flags, pages - u->pages))
		return -ENOMEM;
	if (sm__accountable(m->vm_flags)) {
		/* only the difference is asked for; what is over goes back when the old ones go */
		uint64_t kept = pages < u->accounted ? pages : u->accounted;

		if (sm__charge(s, pages - kept))
			return -ENOMEM;
		m->charged = pages - kept;
		u->accounted -= kept;
		m->vm_flags |= SM_VM_ACCOUNT;
	}
	if ((m->vm_flags & SM_VM_MAYSHARE) && !m->file) {
		bool reserve = !(m->vm_flags & SM_VM_NORESERVE);
		int err = sm__shmem_create(s, m->length, reserve, &m->file);

		if (err)
			return err;
		m->own_file = true;
	}
	return 0;
}

static int store(struct mapping *m, const struct sm__unmap *u)
{
	struct sm__merge merge = {
		.op = &m->op,
		.start = m->addr,
		.end = m->addr + m->length,
		.flags = m->vm_flags,
		.pgoff = m->pgoff,
		.tag = m->tag,
		.file = m->file,
		.prev = u->prev,
		.next = u->next,
		.c = &m->cursor,
	};

	return sm__merge_or_new(&merge);
}

static int map_locked(struct mapping *m)
{
	struct sm_space *s = m->s;
	struct sm__unmap u = {
		.op = &m->op, .c = &m->cursor, .start = m->addr, .end = m->addr + m->length
	};
	int err;

	if (m->flags & SM_MAP_FIXED) {
		err = sm__unmap_gather(&u);
		if (err)
			return err;
		sm__unmap_neighbours(&u);
	} else { /* free, and the cursor is there */
		u.next = m->next;
		u.prev = sm__prev(&m->cursor);
	}
	err = take_charge(m, &u);
	if (!err)
		err = store(m, &u);
	if (err) {
		sm__unmap_abort(&u);
		sm__uncharge(s, m->charged);
		return err;
	}
	if (u.count) {
		sm__unmap_detach(&u);
		sm__unmap_finish(&u);
	}
	sm__account(s, m->vm_flags, (int64_t)sm__pages(s, m->length));
	if (m->vm_flags & SM_VM_LOCKED)
		s->locked_vm += sm__pages(s, m->length);
	m->populate = (m->vm_flags & SM_VM_LOCKED) ||
		      (m->flags & (SM_MAP_POPULATE | SM_MAP_NONBLOCK)) == SM_MAP_POPULATE;
	return 0;
}

int64_t sm_mmap_tagged(struct sm_space *s, sm_addr addr, uint64_t length, int prot, int flags,
		       struct sm_file *file, uint64_t offset, uint64_t tag)
{
	struct mapping m;
	int err;

	sm__op_init(&m.op, s, SM_CALL_MMAP);
	m.s = s;
	m.addr = addr;
	m.length = length;
	m.prot = prot;
	m.flags = flags;
	m.file = file;
	m.offset = offset;
	m.tag = tag;
	m.cursor = sm__cursor(&s->tree);
	m.pgoff = m.charged = 0;
	m.own_file = m.populate = m.sealed = false;
	err = check_arguments(&m);
	if (err)
		return err;
	/* a search may end anywhere */
	err = sm__op_lock(&m.op, SM__WRITE, 0, s->o.range_end);
	if (err)
		return err;
	err = check_under_lock(&m);
	if (!err)
		err = map_locked(&m);
	sm__op_unlock(&m.op);
	if (m.own_file)
		sm_file_put(m.file); /* the VMA has its own reference */
	if (err)
		return err;
	if (sm__unlikely(m.populate))
		sm__populate(s, m.addr, m.addr + m.length);
	return (int64_t)m.addr;
}

int64_t sm_mmap(struct sm_space *s, sm_addr addr, uint64_t length, int prot, int flags,
		struct sm_file *file, uint64_t offset)
{
	return sm_mmap_tagged(s, addr, length, prot, flags, file, offset, 0);
}
