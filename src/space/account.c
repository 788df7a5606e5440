/* SPDX-License-Identifier: MIT */
/*
 * account.c - what a space may have and what it has: RLIMIT_AS, RLIMIT_DATA, RLIMIT_MEMLOCK, the
 * commit charge, and the sums by kind.
 *
 * Kinds, as Linux counts them: stack grows down; data is private, writable and no stack; exec is
 * executable and neither writable nor stack.
 */
#include "space/space.h"

#include <errno.h>

static bool is_data(uint64_t flags)
{
	return (flags & (SM_VM_WRITE | SM_VM_SHARED | SM_VM_GROWSDOWN)) == SM_VM_WRITE;
}

static bool is_exec(uint64_t flags)
{
	return (flags & (SM_VM_EXEC | SM_VM_WRITE | SM_VM_GROWSDOWN)) == SM_VM_EXEC;
}

static uint64_t limit_pages(const struct sm_space *s, const _Atomic uint64_t *bytes)
{
	return atomic_load_explicit((_Atomic uint64_t *)bytes, memory_order_relaxed) >>
	       s->page_shift;
}

bool sm__may_expand(const struct sm_space *s, uint64_t flags, uint64_t pages)
{
	if (s->total_vm + pages > limit_pages(s, &s->limit_as))
		return false;
	if (is_data(flags) && s->data_vm + pages > limit_pages(s, &s->limit_data)) {
		/* a limit of 0 is how Valgrind asks not to be limited: Linux lets it pass */
		return limit_pages(s, &s->limit_data) == 0;
	}
	return true;
}

void sm__account(struct sm_space *s, uint64_t flags, int64_t pages)
{
	s->total_vm += (uint64_t)pages;
	if (is_exec(flags))
		s->exec_vm += (uint64_t)pages;
	else if (flags & SM_VM_GROWSDOWN)
		s->stack_vm += (uint64_t)pages;
	else if (is_data(flags))
		s->data_vm += (uint64_t)pages;
	if (s->total_vm > s->peak_vm)
		s->peak_vm = s->total_vm;
}

/* Whether a new mapping with these flags is charged. */
bool sm__accountable(uint64_t flags)
{
	return !(flags & SM_VM_HUGETLB) &&
	       (flags & (SM_VM_NORESERVE | SM_VM_SHARED | SM_VM_WRITE)) == SM_VM_WRITE;
}

int sm__charge(struct sm_space *s, uint64_t pages)
{
	int err = sm__host_charge(s->host, pages, s->total_vm, s->o.capabilities & SM_CAP_ADMIN);

	if (!err)
		s->charged += pages;
	return err;
}

void sm__uncharge(struct sm_space *s, uint64_t pages)
{
	SM_ASSERT_MSG(s->charged >= pages, "charged %llu, uncharge %llu",
		      (unsigned long long)s->charged, (unsigned long long)pages);
	s->charged -= pages;
	sm__host_uncharge(s->host, pages);
}

bool sm__may_lock(const struct sm_space *s, uint64_t flags, uint64_t bytes)
{
	if (!(flags & SM_VM_LOCKED) || (s->o.capabilities & SM_CAP_IPC_LOCK))
		return true;
	return s->locked_vm + sm__pages(s, bytes) <= limit_pages(s, &s->limit_memlock);
}

bool sm__lock_allowed(const struct sm_space *s)
{
	return (s->o.capabilities & SM_CAP_IPC_LOCK) ||
	       atomic_load_explicit((_Atomic uint64_t *)&s->limit_memlock, memory_order_relaxed);
}
