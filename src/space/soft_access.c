/* SPDX-License-Identifier: MIT */
/*
 * soft_access.c - copies and atomics on guest memory by whoever runs no TLB.
 *
 * I1 A host address is used only while the table that maps the page is locked, for at most one
 *    page: no operation that takes the page or a permission away can return in between, and none
 *    waits longer than a copy of a page takes.
 * I2 Two tables are never locked at once: a copy between guest pages goes through the stack.
 */
#include "space/soft.h"
#include "base/thread.h"

#include <errno.h>
#include <string.h>

enum { BOUNCE = 4096 };

struct access {
	struct sm_space *space;
	struct sm__mm *mm;
	enum sm_access kind;
	struct sm_fault_result *why;
	int err; /* -EFAULT, -ENOMEM */
};

static int begin(struct access *a, struct sm_space *s, enum sm_access kind,
		 struct sm_fault_result *why)
{
	sm__thread_enter();
	a->space = s;
	a->mm = sm__space_mm(s);
	a->kind = kind;
	a->why = why;
	a->err = 0;
	if (why)
		*why = (struct sm_fault_result){ 0 };
	return a->mm ? 0 : -EOPNOTSUPP;
}

/* Host address with the table locked, or NULL and a->err. */
static char *hold(struct access *a, sm_addr addr, struct sm__slot *slot)
{
	for (;;) {
		char *p = sm__mm_hold(a->mm, addr, a->kind, slot);
		struct sm_fault_result r;

		if (p)
			return p;
		r = sm_fault(a->space, addr, a->kind);
		if (!r.error && !r.signo && !(r.flags & SM_FAULT_DEVICE))
			continue;
		if (a->why)
			*a->why = r;
		a->err = r.error ? r.error : -EFAULT;
		return NULL;
	}
}

static uint64_t to_page_end(const struct sm__mm *mm, sm_addr addr, uint64_t length)
{
	uint64_t page = 1ull << mm->page_shift, left = page - (addr & (page - 1));

	return left < length ? left : length;
}

static int64_t result(const struct access *a, uint64_t done)
{
	return done ? (int64_t)done : a->err;
}

int64_t sm_read(struct sm_space *s, sm_addr addr, void *buf, uint64_t length,
		struct sm_fault_result *why)
{
	uint64_t done = 0;
	struct access a;
	int err = begin(&a, s, SM_ACCESS_READ, why);

	if (err)
		return err;
	while (done < length) {
		uint64_t n = to_page_end(a.mm, addr + done, length - done);
		struct sm__slot slot;
		char *p = hold(&a, addr + done, &slot);

		if (!p)
			break;
		memcpy((char *)buf + done, p, n);
		sm__pt_unlock(&slot);
		done += n;
	}
	return result(&a, done);
}

int64_t sm_write(struct sm_space *s, sm_addr addr, const void *buf, uint64_t length,
		 struct sm_fault_result *why)
{
	uint64_t done = 0;
	struct access a;
	int err = begin(&a, s, SM_ACCESS_WRITE, why);

	if (err)
		return err;
	while (done < length) {
		uint64_t n = to_page_end(a.mm, addr + done, length - done);
		struct sm__slot slot;
		char *p = hold(&a, addr + done, &slot);

		if (!p)
			break;
		memcpy(p, (const char *)buf + done, n);
		sm__pt_unlock(&slot);
		done += n;
	}
	return result(&a, done);
}

int64_t sm_copy(struct sm_space *to, sm_addr to_addr, struct sm_space *from, sm_addr from_addr,
		uint64_t length)
{
	char bounce[BOUNCE];
	uint64_t done = 0;

	while (done < length) {
		uint64_t n = length - done < BOUNCE ? length - done : BOUNCE;
		int64_t got = sm_read(from, from_addr + done, bounce, n, NULL), put;

		if (got <= 0)
			return done ? (int64_t)done : got;
		put = sm_write(to, to_addr + done, bounce, (uint64_t)got, NULL);
		if (put <= 0)
			return done ? (int64_t)done : put;
		done += (uint64_t)put;
		if (put < (int64_t)n)
			break;
	}
	return (int64_t)done;
}

#define CMPXCHG(type)                                                                          \
	do {                                                                                   \
		type found = (type)*expected;                                                  \
		done = __atomic_compare_exchange_n((type *)(void *)p, &found, (type)desired,   \
						   false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
		*expected = found;                                                             \
	} while (0)

static bool exchange(char *p, unsigned size, uint64_t *expected, uint64_t desired)
{
	bool done;

	switch (size) {
	case 1:
		CMPXCHG(uint8_t);
		break;
	case 2:
		CMPXCHG(uint16_t);
		break;
	case 4:
		CMPXCHG(uint32_t);
		break;
	default:
		CMPXCHG(uint64_t);
		break;
	}
	return done;
}

int sm_cmpxchg(struct sm_space *s, sm_addr addr, unsigned size, uint64_t *expected,
	       uint64_t desired)
{
	struct sm__slot slot;
	struct access a;
	bool done;
	char *p;
	int err;

	if (!size || size > 8 || (size & (size - 1)) || (addr & (size - 1)))
		return -EINVAL;
	err = begin(&a, s, SM_ACCESS_WRITE, NULL);
	if (err)
		return err;
	p = hold(&a, addr, &slot);
	if (!p)
		return a.err;
	done = exchange(p, size, expected, desired);
	sm__pt_unlock(&slot);
	return done;
}

/*
 * Touches the word as the kernel does before it looks what is behind it: for writing, or where that is
 * not allowed for reading. It also binds the file, which calls its functions, so under no lock.
 */
static int touch(struct sm_space *s, sm_addr addr, bool *read_only)
{
	for (unsigned kind = 0; kind < 2; kind++) {
		struct sm_fault_result r =
			sm_fault(s, addr, kind ? SM_ACCESS_READ : SM_ACCESS_WRITE);

		if (r.error)
			return r.error;
		*read_only = kind;
		if (!r.signo)
			return r.flags & SM_FAULT_DEVICE ? -EFAULT : 0;
	}
	return -EFAULT;
}

/* What is behind the word now. -EAGAIN: not what was touched. */
static int shared_key(struct sm_space *s, sm_addr addr, bool read_only, struct sm_futex_key *out)
{
	struct sm__vma *v;
	struct sm__op op;
	int err;

	sm__op_init(&op, s, SM_CALL_LOOKUP);
	err = sm__op_lock(&op, SM__READ, addr, addr + 4);
	if (err)
		return err;
	v = sm__find(s, addr);
	if (!v) {
		err = -EAGAIN;
	} else if (v->file && ((v->flags & SM_VM_MAYSHARE) || read_only)) {
		struct sm__pages *pages = sm__pages_bound(v->file);

		if (!pages && sm__space_mm(s))
			err = -EAGAIN;
		out->object = pages ? (uintptr_t)pages : (uintptr_t)v->file;
		out->offset = (v->pgoff << s->page_shift) + (addr - v->start);
		out->shared = true;
	} else if (read_only) {
		err = -EFAULT;
	}
	sm__op_unlock(&op);
	return err;
}

int sm_futex_key(struct sm_space *s, sm_addr addr, bool shared, struct sm_futex_key *out)
{
	bool read_only = false;
	int err;

	if (addr & 3)
		return -EINVAL;
	if (addr >= s->o.range_end)
		return -EFAULT;
	do {
		*out = (struct sm_futex_key){ .object = (uintptr_t)s, .offset = addr };
		err = shared ? touch(s, addr, &read_only) : 0;
		if (!err && shared)
			err = shared_key(s, addr, read_only, out);
	} while (err == -EAGAIN);
	return err;
}
