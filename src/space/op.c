/* SPDX-License-Identifier: MIT */
/*
 * op.c - the frame of every operation: lock for a footprint, gather, unlock, free, tell.
 *
 *      init -> lock -> (work) -> [downgrade -> (work)] -> unlock
 *
 * Today the footprint chooses nothing: mmap_lock covers the space. A range lock would be taken here.
 */
#include "space/space.h"
#include "base/thread.h"

#include <string.h>

void sm__op_init(struct sm__op *op, struct sm_space *s, enum sm_call_kind kind)
{
	sm__thread_enter();
	op->space = s;
	op->kind = kind;
	op->start = op->end = 0;
	op->mode = SM__UNLOCKED;
	op->since = 0;
	op->gone = NULL;
	op->notices = 0;
	op->gather.space = s;
	op->gather.active = false;
}

int sm__op_lock(struct sm__op *op, enum sm__lock_mode mode, sm_addr start, sm_addr end)
{
	struct sm_space *s = op->space;
	int err;

	op->start = start;
	op->end = end;
	err = mode == SM__WRITE ? sm__mmap_write_lock(&s->lock, op->kind, true)
				: sm__mmap_read_lock(&s->lock, op->kind, true, &op->since);
	if (!err)
		op->mode = mode;
	return err;
}

void sm_interrupt_word(const uint32_t *word)
{
	sm__interrupt_flag = (const _Atomic uint32_t *)word;
}

struct sm__gather *sm__op_gather(struct sm__op *op)
{
	if (!op->gather.active) {
		op->gather.active = true;
		if (op->space->backend->gather_begin)
			op->space->backend->gather_begin(&op->gather, op->space);
	}
	return &op->gather;
}

void sm__op_finish_gather(struct sm__op *op)
{
	if (!op->gather.active)
		return;
	if (op->space->backend->gather_finish)
		op->space->backend->gather_finish(&op->gather);
	op->gather.active = false;
}

void sm__op_downgrade(struct sm__op *op)
{
	SM_ASSERT(op->mode == SM__WRITE);
	sm__space_validate(op->space);
	op->since = sm__mmap_downgrade(&op->space->lock);
	op->mode = SM__READ;
}

void sm__op_notice(struct sm__op *op, enum sm_notice what, sm_addr start, sm_addr end)
{
	if (!op->space->o.notifier.invalidate || start >= end)
		return;
	if (op->notices == SM__NOTICES_MAX) {
		/* many small ranges: one that covers the last of them says no less */
		unsigned last = SM__NOTICES_MAX - 1;

		if (start < op->notice[last].start)
			op->notice[last].start = start;
		if (end > op->notice[last].end)
			op->notice[last].end = end;
		op->notice[last].what = SM_NOTICE_UNMAP;
		return;
	}
	op->notice[op->notices].what = what;
	op->notice[op->notices].start = start;
	op->notice[op->notices].end = end;
	op->notices++;
}

static void deliver(struct sm__op *op)
{
	const struct sm_notifier *n = &op->space->o.notifier;

	for (unsigned i = 0; i < op->notices; i++)
		n->invalidate(n->arg, op->notice[i].what, op->notice[i].start, op->notice[i].end);
	op->notices = 0;
}

void sm__op_unlock(struct sm__op *op)
{
	struct sm_space *s = op->space;

	sm__op_finish_gather(op);
	if (op->mode == SM__WRITE) {
		sm__space_validate(s);
		sm__mmap_write_unlock(&s->lock);
	} else if (op->mode == SM__READ) {
		sm__mmap_read_unlock(&s->lock, op->since);
	}
	op->mode = SM__UNLOCKED;
	while (op->gone) {
		struct sm__vma *v = op->gone;

		op->gone = v->gone_next;
		sm__vma_free(s, v, false);
	}
	if (sm__unlikely(op->notices))
		deliver(op);
}
