/* SPDX-License-Identifier: MIT */
/* soft_tlb.c - TLBs of a space: made, ended, filled (samara/tlb.h; protocol: memory/tlb.h). */
#include "space/soft.h"
#include "base/thread.h"

#include <errno.h>

int sm_tlb_create(struct sm_space *s, struct sm_tlb **out)
{
	struct sm__mm *mm = sm__space_mm(s);

	sm__thread_enter();
	*out = NULL;
	if (!mm)
		return -EOPNOTSUPP;
	*out = sm__tlb_new(&mm->tlb, mm->page_shift, s);
	return *out ? 0 : -ENOMEM;
}

void sm_tlb_destroy(struct sm_tlb *tlb)
{
	sm__thread_enter();
	if (tlb)
		sm__tlb_free(tlb);
}

struct sm_fault_result sm_tlb_fill(struct sm_tlb *tlb, sm_addr addr, enum sm_access access,
				   void **out)
{
	struct sm__mm *mm = tlb->space->backend_state;
	struct sm_fault_result r;
	struct sm__fault f;

	*out = NULL;
	/* One kind of access: nothing allows none, or two at once. */
	if (sm__unlikely(access != SM_ACCESS_READ && access != SM_ACCESS_WRITE &&
			 access != SM_ACCESS_EXEC))
		return (struct sm_fault_result){ .error = -EINVAL, .addr = addr };
	r.flags = 0;
	/* Not sm__thread_enter: what is looked up here needs no lock, so nothing need be parked. */
	if (sm__unlikely(!sm__thread_attached()))
		sm__thread_enter();
	for (;;) {
		if (!sm__tlb_resume(tlb))
			return (struct sm_fault_result){ .error = -EINVAL, .addr = addr };
		/* A guest that faults often and checks in seldom: nobody waits longer for it. */
		sm_tlb_checkpoint(tlb);
		*out = sm__mm_fill(mm, tlb, addr, access, &f.seen);
		if (*out)
			break;
		f.space = tlb->space;
		f.addr = addr;
		f.access = access;
		f.tlb = tlb;
		sm__fault_perform(&f, &r);
		*out = f.host;
		if (f.host)
			break;
		if (r.error || r.signo || (r.flags & SM_FAULT_DEVICE))
			return r;
	}
	/* Member by member: a copy would wait for the narrow stores that made r. */
	return (struct sm_fault_result){ .flags = r.flags, .addr = addr };
}
