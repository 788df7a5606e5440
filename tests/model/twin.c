/* SPDX-License-Identifier: MIT */
/*
 * twin.c - the world of the twins, and the calls that lay VMAs out: mmap, munmap, mprotect, brk.
 *
 * A border between two VMAs is the `starts` mark of the page behind it:
 *
 *     page      0 1 2 3 4 5 6 7
 *     mapped    x x x x . x x x
 *     starts    S     S   S   S      VMAs [0,3) [3,4) [5,7) [7,8)
 *
 * cut(2) sets a mark, join(3) takes one away.
 */
#include "model/twin_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "samara/types.h"

#define STACK_GAP 256 /* pages kept free below a mapping that grows down */
#define HUGE	  512 /* pages of 2 MiB */

struct span span_of(const struct call *c, uint64_t addr, uint64_t len)
{
	uint64_t base = c->w->config.base, end = addr + len, limit = ops_end(&c->w->config);
	struct span s;

	addr = addr < base ? base : addr > limit ? limit : addr;
	end = end < addr ? addr : end > limit ? limit : end;
	s.first = (unsigned)((addr - base) / PAGE);
	s.end = (unsigned)((end - base) / PAGE);
	return s;
}

bool has_vma(const struct call *c, unsigned page)
{
	return page < c->pages && c->t->page[page].mapped;
}

struct span vma_at(const struct call *c, unsigned page)
{
	struct span s = { page, page + 1 };

	while (!c->t->page[s.first].starts)
		s.first--;
	while (has_vma(c, s.end) && !c->t->page[s.end].starts)
		s.end++;
	return s;
}

unsigned next_mapped(const struct call *c, unsigned from, unsigned end)
{
	while (from < end && !c->t->page[from].mapped)
		from++;
	return from;
}

unsigned count_vmas(const struct call *c)
{
	unsigned n = 0;

	for (unsigned i = 0; i < c->pages; i++)
		n += c->t->page[i].mapped && c->t->page[i].starts;
	return n;
}

int64_t count_pages(const struct call *c, struct span s, uint32_t set, uint32_t clear)
{
	int64_t n = 0;

	for (unsigned i = s.first; i < s.end; i++)
		n += c->t->page[i].mapped && (c->t->page[i].flags & (set | clear)) == set;
	return n;
}

int64_t count_mapped(const struct call *c)
{
	return count_pages(c, (struct span){ 0, c->pages }, 0, 0);
}

/* Private writable memory that is no stack counts as data. */
int64_t count_data(const struct call *c)
{
	return count_pages(c, (struct span){ 0, c->pages }, VF_WRITE, VF_SHARED | VF_GROWSDOWN);
}

bool is_data(uint32_t flags)
{
	return (flags & (VF_WRITE | VF_SHARED | VF_GROWSDOWN)) == VF_WRITE;
}

bool too_much(const struct call *c, uint32_t flags, int64_t more)
{
	const struct ops_config *f = &c->w->config;

	if (f->as_pages != ~0ULL && count_mapped(c) + more > (int64_t)f->as_pages)
		return true;
	return f->data_pages != ~0ULL && is_data(flags) &&
	       count_data(c) + more > (int64_t)f->data_pages;
}

bool too_much_locked(const struct call *c, uint32_t flags, int64_t more)
{
	const struct ops_config *f = &c->w->config;

	if (!(flags & VF_LOCKED) || f->memlock_pages == ~0ULL)
		return false;
	return count_pages(c, (struct span){ 0, c->pages }, VF_LOCKED, 0) + more >
	       (int64_t)f->memlock_pages;
}

bool no_split(const struct call *c)
{
	return c->w->config.map_count && count_vmas(c) >= c->w->config.map_count;
}

bool no_mmap(const struct call *c)
{
	return c->w->config.map_count && count_vmas(c) > c->w->config.map_count;
}

void cut(struct call *c, unsigned page)
{
	if (has_vma(c, page))
		c->t->page[page].starts = true;
}

/* One VMA instead of two: an anon identity of one becomes that of both. */
static void join(struct call *c, unsigned page)
{
	struct twin_page *p = c->t->page;
	struct span s;
	uint32_t anon = p[page - 1].anon ? p[page - 1].anon : p[page].anon;
	bool cloned = p[page - 1].anon ? p[page - 1].cloned : p[page].cloned;

	p[page].starts = false;
	s = vma_at(c, page);
	for (unsigned i = s.first; i < s.end; i++) {
		p[i].anon = anon;
		p[i].cloned = cloned;
	}
}

/* Same kind of memory on both sides of the border, anon identity aside. */
static bool alike(const struct call *c, unsigned page, uint32_t ignored)
{
	const struct twin_page *a, *b;

	if (page == 0 || !has_vma(c, page - 1) || !has_vma(c, page))
		return false;
	a = &c->t->page[page - 1];
	b = &c->t->page[page];
	return !((a->flags ^ b->flags) & ~ignored) && a->file == b->file &&
	       a->handle == b->handle && a->pgoff + 1 == b->pgoff;
}

/* An identity may be given to a VMA that has none, but for one that came through fork. */
static bool anon_mergeable(const struct twin_page *a, const struct twin_page *b)
{
	if (a->anon && b->anon)
		return a->anon == b->anon;
	return !(a->anon && a->cloned) && !(b->anon && b->cloned);
}

/*
 * Which of the two borders of a range may go, of those that are borders. Both neighbours may suit
 * the range and not each other: then only the left one is taken.
 */
static void may_join(const struct call *c, struct span s, bool *left, bool *right)
{
	const struct twin_page *p = c->t->page;

	*left = *left && alike(c, s.first, 0) && anon_mergeable(&p[s.first - 1], &p[s.first]);
	*right = *right && alike(c, s.end, 0) && anon_mergeable(&p[s.end - 1], &p[s.end]);
	if (*left && *right) {
		uint32_t a = p[s.first - 1].anon, b = p[s.end].anon;

		*right = !a || !b || a == b;
	}
}

void merge_new(struct call *c, struct span s)
{
	bool left = true, right = true;

	cut(c, s.first);
	cut(c, s.end);
	may_join(c, s, &left, &right);
	if (left)
		join(c, s.first);
	if (right)
		join(c, s.end);
}

static void set_flags(struct call *c, struct span s, uint32_t flags)
{
	for (unsigned i = s.first; i < s.end; i++)
		c->t->page[i].flags = flags;
}

int change_flags(struct call *c, struct span s, uint32_t flags)
{
	struct span v = vma_at(c, s.first);
	uint32_t old = c->t->page[s.first].flags;
	bool at_start = v.first == s.first, at_end = v.end == s.end;
	bool left = at_start, right = at_end;

	set_flags(c, s, flags);
	may_join(c, s, &left, &right);
	if (!left && !right) {
		set_flags(c, s, old);
		if (!at_start && no_split(c))
			return -ENOMEM;
		if (!at_start)
			cut(c, s.first);
		if (!at_end && no_split(c))
			return -ENOMEM;
		set_flags(c, s, flags);
	}
	if (!at_start)
		cut(c, s.first);
	if (!at_end)
		cut(c, s.end);
	if (left)
		join(c, s.first);
	if (right)
		join(c, s.end);
	return 0;
}

void drop_pages(struct call *c, struct span s)
{
	for (unsigned i = s.first; i < s.end; i++) {
		memset(&c->t->page[i], 0, sizeof(c->t->page[i]));
		c->t->page[i].file = -1;
	}
}

/* The splits come first and stay, whatever follows. */
static int unmap_prepare(struct call *c, struct span s)
{
	unsigned i = next_mapped(c, s.first, s.end);
	const struct twin_page *p = c->t->page;

	if (i == s.end)
		return 0;
	if (i == s.first && !p[i].starts) {
		if (s.end < vma_at(c, i).end && no_split(c))
			return -ENOMEM;
		if (p[i].flags & VF_SEALED)
			return -EPERM;
		cut(c, s.first);
	}
	while (i < s.end) {
		struct span v = vma_at(c, i);

		if (p[i].flags & VF_SEALED)
			return -EPERM;
		if (v.end > s.end)
			cut(c, s.end);
		i = next_mapped(c, v.end, s.end > v.end ? s.end : v.end);
	}
	return 0;
}

int unmap(struct call *c, struct span s)
{
	int err = unmap_prepare(c, s);

	if (!err)
		drop_pages(c, s);
	return err;
}

/* Free, and not in the gap that a mapping which grows down keeps below itself. */
static bool is_free(const struct call *c, unsigned first, unsigned n)
{
	unsigned above;

	if (next_mapped(c, first, first + n) != first + n)
		return false;
	above = next_mapped(c, first + n, c->pages);
	return above == c->pages || !(c->t->page[above].flags & VF_GROWSDOWN) ||
	       first + n + STACK_GAP <= above;
}

/* Highest free run of n pages below `high`, -1: none. */
static int highest_gap(const struct call *c, unsigned n, int high)
{
	for (int first = high - (int)n; first >= 0; first--) {
		if (next_mapped(c, (unsigned)first, (unsigned)first + n) == (unsigned)first + n)
			return first;
	}
	return -1;
}

/*
 * From the top down. A gap too near to a mapping that grows down makes the search go on below all
 * of the room kept for that mapping, other mappings in there or not.
 */
static int64_t search(const struct call *c, unsigned n)
{
	int first, high = (int)c->pages;

	while ((first = highest_gap(c, n, high)) >= 0) {
		unsigned above = next_mapped(c, (unsigned)first + n, c->pages);

		if (above == c->pages || !(c->t->page[above].flags & VF_GROWSDOWN) ||
		    (unsigned)first + n + STACK_GAP <= above)
			return (int64_t)addr_of(c, (unsigned)first);
		high = (int)above - STACK_GAP;
	}
	return -ENOMEM;
}

/* Private memory of whole huge pages is aligned to them, if there is room for that. */
static int64_t search_aligned(const struct call *c, unsigned n)
{
	int64_t at = search(c, n + HUGE);
	uint64_t huge = HUGE * PAGE, sub;

	if (at < 0)
		return at;
	sub = (0 - (uint64_t)at) & (huge - 1);
	return at + (int64_t)(sub ? sub : huge);
}

int64_t place(struct call *c, uint64_t hint, uint64_t len, uint64_t flags, bool file)
{
	uint64_t task = c->w->task_size;
	unsigned n;

	if (len > task)
		return -ENOMEM;
	if (flags & SM_MAP_FIXED) {
		if (hint > task - len)
			return -ENOMEM;
		if (hint % PAGE)
			return -EINVAL;
		return hint < c->w->min_addr ? -EPERM : (int64_t)hint;
	}
	if (flags & SM_MAP_32BIT || len > c->pages * PAGE)
		return -ENOMEM;
	hint &= ~(PAGE - 1);
	n = (unsigned)(len / PAGE);
	if (hint && page_at(c, hint) >= 0 && len <= ops_end(&c->w->config) - hint &&
	    is_free(c, (unsigned)page_at(c, hint), n))
		return (int64_t)hint;
	if (!file && !hint && n % HUGE == 0) {
		int64_t at = search_aligned(c, n);

		if (at > 0)
			return at;
	}
	return search(c, n);
}

/* In bytes: regular files end at 2^63. */
static uint64_t largest_file(uint64_t fd)
{
	return ops_fd_table[fd].object >= 0 ? INT64_MAX : UINT64_MAX;
}

/* What the descriptor and the type of the mapping allow: 0 or -errno; adds to *vm. */
static int check_file(uint64_t fd, uint64_t prot, uint64_t flags, uint32_t *vm)
{
	const struct ops_fd_spec *f = &ops_fd_table[fd];
	/* the flags from before MAP_SHARED_VALIDATE, sizes of huge pages (bits 26 to 30) among them */
	const uint64_t known = 0x7c07f9f3;

	switch (flags & SM_MAP_TYPE) {
	case SM_MAP_SHARED_VALIDATE:
		if (flags & ~known)
			return -EOPNOTSUPP;
		__attribute__((fallthrough));
	case SM_MAP_SHARED:
		if (prot & SM_PROT_WRITE && !f->write)
			return -EACCES;
		*vm |= f->write ? VF_SHARED | VF_MAYSHARE : VF_MAYSHARE;
		if (!f->write)
			*vm &= ~(uint32_t)VF_MAYWRITE;
		break;
	case SM_MAP_PRIVATE:
		break;
	default:
		return -EINVAL;
	}
	if (!f->read)
		return -EACCES;
	if (f->object < 0)
		return -ENODEV;
	return flags & SM_MAP_GROWSDOWN ? -EINVAL : 0;
}

static int check_anon(uint64_t flags, uint32_t *vm)
{
	switch (flags & SM_MAP_TYPE) {
	case SM_MAP_SHARED:
		if (flags & SM_MAP_GROWSDOWN)
			return -EINVAL;
		*vm |= VF_SHARED | VF_MAYSHARE;
		return 0;
	case SM_MAP_DROPPABLE:
		if (flags & (SM_MAP_GROWSDOWN | SM_MAP_LOCKED))
			return -EINVAL;
		*vm |= VF_DROPPABLE | VF_NORESERVE | VF_WIPEONFORK | VF_DONTDUMP;
		return 0;
	case SM_MAP_PRIVATE:
		return 0;
	default:
		return -EINVAL;
	}
}

static uint32_t vm_flags(uint64_t prot, uint64_t flags)
{
	uint32_t vm = (uint32_t)(prot & VF_ACCESS) | VF_MAYWRITE;

	vm |= flags & SM_MAP_GROWSDOWN ? VF_GROWSDOWN : 0;
	vm |= flags & SM_MAP_LOCKED ? VF_LOCKED : 0;
	vm |= flags & SM_MAP_STACK ? VF_NOHUGEPAGE : 0;
	vm |= flags & SM_MAP_SYNC ? VF_SYNC : 0;
	return vm;
}

int twin_new_file(struct twin_world *w, uint64_t size)
{
	if (w->files == w->file_room) {
		w->file_room = w->file_room ? 2 * w->file_room : 64;
		w->file = realloc(w->file, w->file_room * sizeof(*w->file));
		if (!w->file)
			abort();
	}
	w->file[w->files].size = size;
	w->file[w->files].room = size / PAGE < 128 ? 128 : size / PAGE + 1;
	w->file[w->files].token = calloc(w->file[w->files].room, sizeof(uint64_t));
	if (!w->file[w->files].token)
		abort();
	return (int)w->files++;
}

/* What a new mapping shows. */
struct backing {
	int file, handle;
	uint64_t pgoff;
};

/* Everything is checked: fills the pages. */
static int map_pages(struct call *c, struct span s, uint32_t vm, const struct backing *b)
{
	int64_t fresh = s.end - s.first - count_pages(c, s, 0, 0);
	int err = unmap_prepare(c, s);

	if (err)
		return err;
	if (too_much(c, vm, fresh))
		return -ENOMEM;
	drop_pages(c, s);
	if ((vm & (VF_NORESERVE | VF_SHARED | VF_WRITE)) == VF_WRITE)
		vm |= VF_ACCOUNT;
	for (unsigned i = s.first; i < s.end; i++) {
		struct twin_page *p = &c->t->page[i];

		p->mapped = true;
		p->flags = vm;
		p->file = b->file;
		p->handle = b->handle;
		p->pgoff = b->pgoff + (i - s.first);
	}
	merge_new(c, s);
	return 0;
}

static int64_t twin_mmap(struct call *c, const struct op *op)
{
	uint64_t addr = op->arg[0], len = op->arg[1], prot = op->arg[2], flags = op->arg[3];
	uint64_t fd = op->arg[4], off = op->arg[5];
	bool anon = flags & SM_MAP_ANONYMOUS;
	uint32_t vm = vm_flags(prot, flags);
	struct span s;
	int64_t at;
	struct backing b = { -1, 0, 0 };
	int err;

	if (off % PAGE)
		return -EINVAL;
	if (!anon && fd >= FD_FILES)
		return -EBADF;
	if (!len)
		return -EINVAL;
	if (flags & SM_MAP_FIXED_NOREPLACE)
		flags |= SM_MAP_FIXED;
	len = page_align(len);
	if (!len || no_mmap(c))
		return -ENOMEM;
	at = place(c, addr, len, flags, !anon || (flags & SM_MAP_TYPE) == SM_MAP_SHARED);
	if (at < 0)
		return at;
	s = span_of(c, (uint64_t)at, len);
	if (flags & SM_MAP_FIXED_NOREPLACE && next_mapped(c, s.first, s.end) != s.end)
		return -EEXIST;
	if (flags & SM_MAP_LOCKED && c->w->config.memlock_pages == 0)
		return -EPERM;
	if (too_much_locked(c, vm, s.end - s.first))
		return -EAGAIN;
	if (!anon && off / PAGE > (largest_file(fd) - len) / PAGE)
		return -EOVERFLOW;
	err = anon ? check_anon(flags, &vm) : check_file(fd, prot, op->arg[3], &vm);
	if (err)
		return err;
	vm |= flags & SM_MAP_NORESERVE ? VF_NORESERVE : 0;
	if (!anon)
		b = (struct backing){ ops_fd_table[fd].object, (int)fd, off / PAGE };
	else if (vm & VF_SHARED)
		b.file = twin_new_file(c->w, len);
	else
		b.pgoff = (uint64_t)at / PAGE;
	err = map_pages(c, s, vm, &b);
	if (err)
		return err;
	if ((flags & (SM_MAP_POPULATE | SM_MAP_NONBLOCK)) == SM_MAP_POPULATE || vm & VF_LOCKED)
		populate(c, s, true);
	return at;
}

static int64_t twin_munmap(struct call *c, uint64_t addr, uint64_t len)
{
	uint64_t task = c->w->task_size;

	if (addr % PAGE || addr > task || len > task - addr || !page_align(len))
		return -EINVAL;
	return unmap(c, span_of(c, addr, page_align(len)));
}

/* One VMA's part of an mprotect. */
static int protect_part(struct call *c, struct span s, uint32_t prot)
{
	const struct twin_page *p = &c->t->page[s.first];
	uint32_t old = p->flags, flags = (old & ~(uint32_t)VF_ACCESS) | prot;
	int64_t n = s.end - s.first;
	int err;

	if (prot & VF_WRITE && !(old & VF_MAYWRITE))
		return -EACCES;
	if (old & VF_SEALED)
		return -EPERM;
	if (flags == old)
		return 0;
	if (flags & VF_WRITE) {
		if (too_much(c, flags, n) && !too_much(c, old, n))
			return -ENOMEM;
		if (!(old & (VF_ACCOUNT | VF_WRITE | VF_SHARED | VF_NORESERVE)))
			flags |= VF_ACCOUNT;
	} else if (old & VF_ACCOUNT && p->file < 0 && !p->anon) {
		flags &= ~(uint32_t)VF_ACCOUNT;
	}
	err = change_flags(c, s, flags);
	if (!err && (old & (VF_WRITE | VF_SHARED | VF_LOCKED)) == VF_LOCKED && flags & VF_WRITE)
		populate(c, s, true);
	return err;
}

static int64_t twin_mprotect(struct call *c, uint64_t addr, uint64_t len, uint64_t prot)
{
	uint64_t grows = prot & (SM_PROT_GROWSDOWN | SM_PROT_GROWSUP), end;
	struct span s;
	unsigned at;

	prot &= ~grows;
	if (grows == (SM_PROT_GROWSDOWN | SM_PROT_GROWSUP) || addr % PAGE)
		return -EINVAL;
	if (!len)
		return 0;
	end = addr + page_align(len);
	if (end <= addr)
		return -ENOMEM;
	if (prot & ~(uint64_t)(VF_ACCESS | SM_PROT_SEM))
		return -EINVAL;
	s = span_of(c, addr, end - addr);
	at = next_mapped(c, s.first, s.end);
	if (at == s.end)
		return -ENOMEM;
	if (grows == SM_PROT_GROWSDOWN) {
		if (!(c->t->page[at].flags & VF_GROWSDOWN))
			return -EINVAL;
		s.first = vma_at(c, at).first;
	} else if (at > s.first) {
		return -ENOMEM;
	} else if (grows) {
		return -EINVAL;
	}
	for (at = s.first; at < s.end;) {
		struct span v;
		int err;

		if (!has_vma(c, at))
			return -ENOMEM;
		v.first = at;
		v.end = vma_at(c, at).end < s.end ? vma_at(c, at).end : s.end;
		err = protect_part(c, v, (uint32_t)prot & VF_ACCESS);
		if (err)
			return err;
		at = v.end;
	}
	return 0;
}

/* Grows the heap by the pages [s): 0 if something is in the way. */
static bool brk_grow(struct call *c, struct span s)
{
	const uint32_t vm = VF_READ | VF_WRITE | VF_MAYWRITE | VF_ACCOUNT;
	unsigned above;

	if (s.end > c->pages || ops_end(&c->w->config) < addr_of(c, s.end) + PAGE)
		return false;
	above = next_mapped(c, s.first, c->pages);
	if (above < c->pages) {
		unsigned gap = c->t->page[above].flags & VF_GROWSDOWN ? STACK_GAP : 0;

		if (s.end + 1 + gap > above)
			return false;
	}
	if (too_much(c, vm, s.end - s.first) || no_mmap(c))
		return false;
	for (unsigned i = s.first; i < s.end; i++) {
		struct twin_page *p = &c->t->page[i];

		p->mapped = true;
		p->flags = vm;
		p->pgoff = addr_of(c, i) / PAGE;
	}
	/* what ends where the heap begins is not looked at */
	cut(c, s.first);
	if (addr_of(c, s.first) > c->t->start_brk)
		merge_new(c, s);
	return true;
}

/* RLIMIT_DATA is no limit for the heap alone: whoever calls has more data outside the window. */
static int64_t twin_brk(struct call *c, uint64_t addr)
{
	struct twin *t = c->t;
	uint64_t from = page_align(t->brk), to = page_align(addr);
	const struct ops_config *f = &c->w->config;
	struct span s;

	if (addr < t->start_brk)
		return (int64_t)t->brk;
	if (addr > t->brk && from != to) {
		if (addr > ops_end(f) || !brk_grow(c, span_of(c, from, to - from)))
			return (int64_t)t->brk;
	} else if (from != to) {
		s = span_of(c, to, from - to);
		if (next_mapped(c, s.first, s.end) == s.end || unmap(c, s))
			return (int64_t)t->brk;
	}
	t->brk = addr;
	return (int64_t)addr;
}

static int64_t dispatch(struct call *c, const struct op *op, struct observation *o)
{
	const uint64_t *a = op->arg;

	switch ((enum op_kind)op->kind) {
	case OP_MMAP:
		return twin_mmap(c, op);
	case OP_MUNMAP:
		return twin_munmap(c, a[0], a[1]);
	case OP_MPROTECT:
		return twin_mprotect(c, a[0], a[1], a[2]);
	case OP_MREMAP:
		return twin_mremap(c, op);
	case OP_BRK:
		return twin_brk(c, a[0]);
	case OP_MADVISE:
		return twin_madvise(c, a[0], a[1], a[2]);
	case OP_READ:
	case OP_WRITE:
		o->token = a[1];
		return twin_touch(c, a[0], op->kind == OP_WRITE, o);
	case OP_MLOCK2:
		return twin_mlock(c, a[0], a[1], a[2]);
	case OP_MUNLOCK:
		return twin_munlock(c, a[0], a[1]);
	case OP_MSEAL:
		return twin_mseal(c, a[0], a[1], a[2]);
	case OP_MINCORE:
		return twin_mincore(c, a[0], a[1], c->w->core);
	case OP_MSYNC:
		return twin_msync(c, a[0], a[1], a[2]);
	case OP_PMADVISE:
		return twin_process_madvise(c, op);
	case OP_TRUNCATE:
		return twin_truncate(c, a[0], a[1]);
	case OP_FORK:
		return twin_fork(c, (unsigned)a[0]);
	case OP_KINDS:
		break;
	}
	return -ENOSYS;
}

static void observe(struct call *c, struct observation *o)
{
	const struct twin_page *p = c->t->page;

	o->vmas = 0;
	for (unsigned i = 0; i < c->pages;) {
		struct obs_vma *v = &o->vma[o->vmas];

		if (!p[i].mapped) {
			i++;
			continue;
		}
		v->first = (uint16_t)i;
		v->end = (uint16_t)vma_at(c, i).end;
		v->prot = (uint8_t)(p[i].flags & VF_ACCESS);
		v->shared = p[i].flags & VF_MAYSHARE;
		v->file = p[i].file < 0 ? 0 : obs_file_number(&c->w->seen, (uint64_t)p[i].file, 0);
		v->off = p[i].file < 0 ? 0 : p[i].pgoff * PAGE;
		v->flags = p[i].flags;
		i = v->end;
		if (++o->vmas == OBS_MAX_VMAS)
			break;
	}
	o->has_flags = true;
	o->total = count_mapped(c);
	o->data = count_pages(c, (struct span){ 0, c->pages }, VF_WRITE, VF_SHARED);
	o->data += count_pages(c, (struct span){ 0, c->pages }, VF_GROWSDOWN, VF_WRITE);
}

void twin_apply(struct twin_world *w, const struct op *op, struct observation *o)
{
	struct call c = { w, w->space[op->space], w->config.pages };

	memset(o, 0, offsetof(struct observation, vma));
	if (!c.t || !c.t->alive) {
		o->result = -ESRCH;
		return;
	}
	o->result = dispatch(&c, op, o);
	if (op->kind == OP_WRITE)
		o->token = 0;
	observe(&c, o);
	if (op->kind == OP_MINCORE && o->result == 0)
		o->token = obs_core_token(&w->config, o, op, w->core);
	o->token_any |= op->kind == OP_MINCORE && w->core_any;
}

const char *twin_check(const struct twin_world *w, const struct twin *t)
{
	for (unsigned i = 0; i < w->config.pages; i++) {
		const struct twin_page *p = &t->page[i];

		if (!p->mapped && (p->starts || p->flags || p->own || p->anon))
			return "an unmapped page carries something";
		if (!p->mapped || p->starts)
			continue;
		if (i == 0 || !p[-1].mapped)
			return "a VMA has no first page";
		if (p->flags != p[-1].flags || p->file != p[-1].file || p->anon != p[-1].anon ||
		    p->cloned != p[-1].cloned || p->pgoff != p[-1].pgoff + 1)
			return "the pages of a VMA differ";
	}
	return NULL;
}

struct twin_world *twin_create(const struct ops_config *config)
{
	struct twin_world *w = calloc(1, sizeof(*w));
	struct twin *t = calloc(1, sizeof(*t));

	if (!w || !t)
		abort();
	w->config = *config;
	w->task_size = 0x7ffffffff000;
	w->min_addr = 0;
	w->mremap_many = w->guard_files = true;
	w->space[0] = t;
	for (int i = 0; i < OPS_OBJECTS; i++) {
		int f = twin_new_file(w, ops_object_size[i]);

		for (uint64_t p = 0; p * PAGE < ops_object_size[i]; p++)
			w->file[f].token[p] = ops_object_token(i, p);
	}
	for (unsigned i = 0; i < OPS_MAX_PAGES; i++)
		t->page[i].file = -1;
	t->alive = true;
	if (config->brk_page >= 0)
		t->brk = t->start_brk = config->base + (unsigned)config->brk_page * PAGE;
	return w;
}

void twin_destroy(struct twin_world *w)
{
	for (unsigned i = 0; i < w->files; i++)
		free(w->file[i].token);
	for (int i = 0; i < OPS_SPACES; i++)
		free(w->space[i]);
	free(w->file);
	free(w);
}

void twin_run(const struct ops_config *config, const struct op *ops, size_t n,
	      struct observation *log)
{
	struct twin_world *w = twin_create(config);

	for (size_t i = 0; i < n; i++)
		twin_apply(w, &ops[i], &log[i]);
	twin_destroy(w);
}
