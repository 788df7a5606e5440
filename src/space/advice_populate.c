/* SPDX-License-Identifier: MIT */
/*
 * advice_populate.c - pages of a range are brought in by faults: MADV_POPULATE_*, mlock, MAP_POPULATE.
 *
 * I1 No lock is held over a fault. An area is judged once; a fault that fails is judged again by what
 *    is mapped there then.
 */
#include "space/advice.h"
#include "base/thread.h"

#include <errno.h>
#include <signal.h>

struct populate {
	struct sm_space *s;
	enum sm__populate_kind kind;
	sm_addr at, end;
	/* the area that at lies in */
	sm_addr area_start, area_end;
	uint64_t flags;
};

static const uint64_t any_access = SM_VM_READ | SM_VM_WRITE | SM_VM_EXEC;

static bool is_locking(const struct populate *p)
{
	return p->kind >= SM__POPULATE_LOCK;
}

/* The area at or above at; false: there is none in the range. */
static bool look(struct populate *p)
{
	struct sm__tree_cursor c = sm__cursor(&p->s->tree);
	struct sm__vma *v;
	uint64_t since;

	sm__mmap_read_lock(&p->s->lock, SM_CALL_FAULT, false, &since);
	v = sm__seek(&c, p->at);
	if (v && v->start < p->end) {
		p->area_start = v->start;
		p->area_end = v->end < p->end ? v->end : p->end;
		p->flags = v->flags;
	} else {
		v = NULL;
	}
	sm__mmap_read_unlock(&p->s->lock, since);
	return v;
}

/* Whether the area may be populated. 0 with *skip where it is passed over. */
static int judge(const struct populate *p, bool *skip)
{
	*skip = false;
	if (is_locking(p)) {
		*skip = p->flags & (SM_VM_IO | SM_VM_PFNMAP | SM_VM_LOCKONFAULT) ||
			(p->kind == SM__POPULATE_LOCKED && !(p->flags & SM_VM_LOCKED));
		return *skip || (p->flags & any_access) ? 0 : -EFAULT;
	}
	if (p->flags & (SM_VM_IO | SM_VM_PFNMAP))
		return -EINVAL;
	return p->flags & (p->kind == SM__POPULATE_WRITE ? SM_VM_WRITE : SM_VM_READ) ? 0 : -EINVAL;
}

static enum sm_access access_of(const struct populate *p)
{
	if (p->kind == SM__POPULATE_WRITE)
		return SM_ACCESS_WRITE;
	/* a page that will be written is better its own at once */
	if (is_locking(p) && (p->flags & (SM_VM_WRITE | SM_VM_SHARED)) == SM_VM_WRITE)
		return SM_ACCESS_WRITE;
	return SM_ACCESS_READ;
}

/* What a fault that failed means to who asked. */
static int failed(struct populate *p, const struct sm_fault_result *r)
{
	bool skip;

	if (r->error)
		return r->error;
	if (r->signo == SIGBUS)
		return r->code == BUS_MCEERR_AR ? -EHWPOISON : -EFAULT;
	if (!look(p) || p->area_start > p->at)
		return -ENOMEM;
	return judge(p, &skip) ? judge(p, &skip) : -EFAULT; /* a guard page */
}

/* Without pages one access gives the area its identity, and that is all there is. */
static uint64_t step(const struct populate *p)
{
	return p->s->backend->advise ? p->s->page_size : p->area_end - p->at;
}

static int populate_area(struct populate *p)
{
	enum sm_access access = access_of(p);
	sm_addr end = p->area_end;

	while (p->at < end) {
		struct sm_fault_result r = sm_fault(p->s, p->at, access);

		if (sm__unlikely(r.error || r.signo))
			return failed(p, &r);
		p->at += step(p);
	}
	return 0;
}

int sm__populate_range(struct sm_space *s, sm_addr start, sm_addr end, enum sm__populate_kind kind)
{
	struct populate p = { .s = s, .kind = kind, .at = start, .end = end };
	int err = 0;

	sm__thread_enter();
	while (p.at < end) {
		sm_addr before = p.at;
		bool skip;

		if (!look(&p))
			return is_locking(&p) ? err : -ENOMEM;
		if (p.area_start > p.at) {
			if (!is_locking(&p))
				return -ENOMEM;
			p.at = p.area_start;
		}
		err = judge(&p, &skip);
		if (!err && skip)
			p.at = p.area_end;
		else if (!err)
			err = populate_area(&p);
		if (err && kind < SM__POPULATE_TRY)
			return err;
		if (err) /* the rest of the area is given up, as Linux does */
			p.at = p.area_end > before ? p.area_end : end;
		err = 0;
	}
	return 0;
}

void sm__populate(struct sm_space *s, sm_addr start, sm_addr end)
{
	(void)sm__populate_range(s, start, end, SM__POPULATE_TRY);
}
