/* SPDX-License-Identifier: MIT */
/* twin_touch.c - accesses, page faults, contents, files and fork. */
#include "model/twin_parts.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define STACK_GAP 256

/* Neighbours that differ in protection alone share an anon identity, so that they can merge later. */
static bool may_share_anon(const struct call *c, unsigned border)
{
	const struct twin_page *p = &c->t->page[border];

	return border > 0 && has_vma(c, border) && has_vma(c, border - 1) &&
	       !((p[-1].flags ^ p->flags) & ~(uint32_t)VF_ACCESS) && p[-1].file == p->file &&
	       p[-1].handle == p->handle && p[-1].pgoff + 1 == p->pgoff;
}

void anon_prepare(struct call *c, unsigned page)
{
	struct twin_page *p = c->t->page;
	struct span v = vma_at(c, page);
	uint32_t anon = 0;

	if (p[page].anon)
		return;
	if (may_share_anon(c, v.end) && !p[v.end].cloned)
		anon = p[v.end].anon;
	if (!anon && may_share_anon(c, v.first) && !p[v.first - 1].cloned)
		anon = p[v.first - 1].anon;
	if (!anon)
		anon = ++c->w->next_anon;
	for (unsigned i = v.first; i < v.end; i++)
		p[i].anon = anon;
}

static bool beyond_end(const struct call *c, const struct twin_page *p)
{
	return !c->w->config.bare && p->file >= 0 &&
	       p->pgoff >= page_align(c->w->file[p->file].size) / PAGE;
}

static uint64_t *file_token(const struct call *c, const struct twin_page *p)
{
	static uint64_t nowhere;
	struct twin_file *f = &c->w->file[p->file];

	if (p->pgoff < f->room)
		return &f->token[p->pgoff];
	if (!c->w->config.bare)
		abort();
	nowhere = 0;
	return &nowhere;
}

enum touch fault_in(struct call *c, unsigned page, bool write)
{
	struct twin_page *p = &c->t->page[page];

	if (p->guard)
		return TOUCH_SEGV;
	if (p->own)
		return TOUCH_OK;
	if (p->flags & VF_MAYSHARE || !write) {
		p->zero = p->file < 0;
		p->maybe = false;
		return beyond_end(c, p) ? TOUCH_BUS : TOUCH_OK;
	}
	anon_prepare(c, page);
	if (beyond_end(c, p))
		return TOUCH_BUS;
	p->token = p->file < 0 ? 0 : *file_token(c, p);
	p->own = true;
	p->zero = p->maybe = false;
	return TOUCH_OK;
}

int populate(struct call *c, struct span s, bool ignore_errors)
{
	for (unsigned i = s.first; i < s.end; i++) {
		const struct twin_page *p = &c->t->page[i];
		bool write = p->flags & VF_WRITE && !(p->flags & VF_SHARED);
		bool ok;

		if (!p->mapped)
			break;
		if (p->flags & VF_ONFAULT)
			continue;
		ok = p->flags & VF_ACCESS && fault_in(c, i, write) == TOUCH_OK;
		if (!ok && !ignore_errors)
			return -EFAULT;
		if (!ok) /* the rest of this VMA is left alone */
			i = vma_at(c, i).end - 1;
	}
	return 0;
}

/* An access below a mapping that grows down: true if it has grown to cover the page. */
static bool grow_down(struct call *c, unsigned page)
{
	unsigned above = next_mapped(c, page, c->pages), below = page;
	const struct twin_page *p = c->t->page;
	int64_t more = above - page;

	if (above == c->pages || !(p[above].flags & VF_GROWSDOWN))
		return false;
	while (below > 0 && !p[below - 1].mapped)
		below--;
	if (below > 0 && !(p[below - 1].flags & VF_GROWSDOWN) && p[below - 1].flags & VF_ACCESS &&
	    page - below < STACK_GAP)
		return false;
	anon_prepare(c, above);
	if ((uint64_t)more > p[above].pgoff || too_much(c, p[above].flags, more) ||
	    too_much_locked(c, p[above].flags, more))
		return false;
	for (unsigned i = above; i-- > page;) {
		struct twin_page *n = &c->t->page[i];

		*n = n[1];
		n->pgoff--;
		n->own = n->zero = n->maybe = n->lazy = n->guard = false;
		n->token = 0;
		n[1].starts = false;
	}
	return true;
}

/* A page's token lies at its start; the rest of the page is zero and never written. */
static void access_token(struct call *c, struct twin_page *p, bool write, struct observation *o)
{
	uint64_t *token = p->own ? &p->token : p->file >= 0 ? file_token(c, p) : NULL;

	if (write) {
		*token = o->token;
		p->lazy = false;
	} else {
		o->token = token ? *token : 0;
		o->token_any = p->own && p->lazy;
	}
}

int64_t twin_touch(struct call *c, uint64_t addr, bool write, struct observation *o)
{
	int at = page_at(c, addr);
	unsigned page = (unsigned)at;
	struct twin_page *p;

	if (!write)
		o->token = 0;
	if (at < 0 || (!has_vma(c, page) && !grow_down(c, page)))
		return OBS_SIGNAL(SIGSEGV, SEGV_MAPERR);
	p = &c->t->page[page];
	if (!(p->flags & (write ? VF_WRITE : VF_ACCESS)))
		return OBS_SIGNAL(SIGSEGV, SEGV_ACCERR);
	switch (fault_in(c, page, write)) {
	case TOUCH_BUS:
		return OBS_SIGNAL(SIGBUS, BUS_ADRERR);
	case TOUCH_SEGV:
		return OBS_SIGNAL(SIGSEGV, SEGV_MAPERR);
	case TOUCH_OK:
		break;
	}
	if (addr % PAGE == 0)
		access_token(c, p, write, o);
	return 0;
}

/* Pages past the new end are gone everywhere, private copies too. */
int64_t twin_truncate(struct call *c, uint64_t fd, uint64_t size)
{
	const struct ops_fd_spec *spec = fd < FD_FILES ? &ops_fd_table[fd] : NULL;
	struct twin_file *f;
	uint64_t keep;

	if (!spec)
		return -EBADF;
	if (spec->object < 0 || !spec->write)
		return -EINVAL;
	f = &c->w->file[spec->object];
	keep = page_align(size) / PAGE;
	f->size = size;
	for (uint64_t i = keep; i < f->room; i++)
		f->token[i] = 0;
	if (size % PAGE && size % PAGE < sizeof(uint64_t))
		abort();
	for (int n = 0; n < OPS_SPACES; n++) {
		struct twin *t = c->w->space[n];

		for (unsigned i = 0; t && i < c->pages; i++) {
			if (t->page[i].file == spec->object && t->page[i].pgoff >= keep) {
				t->page[i].own = t->page[i].lazy = false;
				t->page[i].token = 0;
			}
		}
	}
	return 0;
}

/*
 * The copy has no locks, no memory that was not to be copied, and an anon identity of its own per
 * VMA. Its VMAs that have one never take in neighbours without.
 */
int64_t twin_fork(struct call *c, unsigned number)
{
	struct twin *t;

	if (number == 0 || number >= OPS_SPACES || c->w->space[number])
		return -EAGAIN;
	t = malloc(sizeof(*t));
	if (!t)
		abort();
	*t = *c->t;
	c->w->space[number] = t;
	for (unsigned i = 0; i < c->pages; i++) {
		struct twin_page *p = &t->page[i];

		p->flags &= ~(uint32_t)(VF_LOCKED | VF_ONFAULT);
		if (p->anon) {
			p->cloned = true;
			p->anon = p->starts ? ++c->w->next_anon : p[-1].anon;
		}
		p->maybe = p->zero || p->maybe;
		p->zero = false;
		if (p->flags & VF_WIPEONFORK) {
			p->own = p->maybe = p->lazy = p->guard = p->cloned = false;
			p->token = 0;
			p->anon = 0;
		}
	}
	for (unsigned i = 0; i < c->pages; i++) {
		if (t->page[i].flags & VF_DONTFORK) {
			memset(&t->page[i], 0, sizeof(t->page[i]));
			t->page[i].file = -1;
		}
	}
	return number;
}
