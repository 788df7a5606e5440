/* SPDX-License-Identifier: MIT */
/*
 * perform.c - one recorded call made on a space of the library (perform.h).
 *
 * I1 Files are stand-ins by name: endless, readable and writable, aligned to huge pages as the large
 *    file systems do it. What a real file would refuse is not refused here (SM__WHY_FILE).
 * I2 An address that the recorded kernel chose is taken after the library's own search has run, if
 *    it is free here.
 * I3 What the recorded kernel refused for want of memory does not stay mapped here, or everything that
 *    was placed later would lie elsewhere.
 */
#include "trace/perform.h"
#include "trace/extents.h"
#include "base/base.h"
#include "base/inject.h"
#include "space/space.h"

#include <samara/file.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MINCORE_PAGES_MAX = 1 << 24, TOUCH_PAGES_MAX = 1 << 18 /* of one call: 1 GiB */ };

static uint64_t endless(void *arg)
{
	(void)arg;
	return INT64_MAX & ~(SM__TRACE_PAGE - 1);
}

/* What is written back goes nowhere: nobody reads it again. */
static int forget(void *arg, uint64_t offset, const void *page, size_t len)
{
	(void)arg;
	(void)offset;
	(void)page;
	(void)len;
	return 0;
}

static const struct sm_file_ops stand_in = { .size = endless, .write_page = forget };

static struct sm_file *make_file(const char *name, uint64_t inode)
{
	struct sm_file_info info = { .ino = inode,
				     .dev_major = 254,
				     .name = name,
				     .mode = SM_FILE_READ | SM_FILE_WRITE | SM_FILE_HUGE_ALIGN };
	struct sm_file *file;

	return sm_file_create(&info, &stand_in, NULL, &file) ? NULL : file;
}

/* Only strings that name a mapped file become files. */
static int make_files(struct sm__stage *stage)
{
	const struct sm__recording *rec = stage->rec;

	stage->unknown = make_file("[inferred]", rec->nstrings + 1);
	if (!stage->unknown)
		return -ENOMEM;
	for (size_t i = 0; i < rec->ncalls; i++) {
		uint32_t s = rec->calls[i].string;

		if (rec->calls[i].call != SM_SYS_MMAP || s == SM__NONE || stage->files[s])
			continue;
		stage->files[s] = make_file(rec->strings[s], s + 1);
		if (!stage->files[s])
			return -ENOMEM;
	}
	for (size_t m = 0; m < rec->nmms; m++) {
		for (size_t i = 0; i < rec->mms[m].ninitial; i++) {
			uint32_t s = rec->mms[m].initial[i].string;

			if (s == SM__NONE || stage->files[s] || rec->strings[s][0] == '[')
				continue;
			stage->files[s] = make_file(rec->strings[s], s + 1);
			if (!stage->files[s])
				return -ENOMEM;
		}
	}
	return 0;
}

/* The first page of a host makes its frame pool: outside of the times of the calls. */
static int warm_up(struct sm__stage *stage)
{
	struct sm_space_options o;
	struct sm_space *space;
	int64_t at;

	if (stage->options->backend != SM_BACKEND_SOFT)
		return 0;
	sm_space_options_init(&o);
	o.design = stage->options->design;
	o.backend = SM_BACKEND_SOFT;
	space = sm_space_create(stage->host, &o, &stage->why);
	if (!space)
		return -errno;
	at = sm_mmap(space, 0, SM__TRACE_PAGE, SM_PROT_READ | SM_PROT_WRITE,
		     SM_MAP_PRIVATE | SM_MAP_ANONYMOUS, NULL, 0);
	if (at > 0)
		sm_fault(space, (sm_addr)at, SM_ACCESS_WRITE);
	sm_space_destroy(space);
	return at > 0 ? 0 : (int)at;
}

/* Whether the recorded program had leave to map below mmap_min_addr: it did. */
static bool maps_low(const struct sm__recording *rec, uint64_t min_addr)
{
	for (size_t i = 0; i < rec->ncalls; i++) {
		const struct sm__call *c = &rec->calls[i];

		if ((c->call == SM_SYS_MMAP || c->call == SM_SYS_MREMAP) && sm__call_succeeded(c) &&
		    (uint64_t)c->result < min_addr)
			return true;
	}
	for (size_t m = 0; m < rec->nmms; m++) {
		for (size_t i = 0; i < rec->mms[m].ninitial; i++) {
			if (rec->mms[m].initial[i].start < min_addr)
				return true;
		}
	}
	return false;
}

int sm__stage_open(struct sm__stage *stage, const struct sm__recording *rec,
		   const struct sm__replay_options *options)
{
	struct sm_host_options host;
	int r;

	*stage = (struct sm__stage){ .rec = rec, .options = options };
	sm_host_options_init(&host);
	host.page_size = SM__TRACE_PAGE;
	/* The recorded machine's limits are not known; where it met one, its result says so. */
	host.overcommit = SM_OVERCOMMIT_ALWAYS;
	host.max_map_count = INT32_MAX;
	stage->maps_low = maps_low(rec, host.mmap_min_addr);
	stage->host = sm_host_create(&host, &stage->why);
	if (!stage->host)
		return -errno;
	stage->spaces = sm__calloc(rec->nmms, sizeof(struct sm_space *));
	stage->files = sm__calloc(rec->nstrings + 1, sizeof(struct sm_file *));
	r = stage->spaces && stage->files ? make_files(stage) : -ENOMEM;
	return r ? r : warm_up(stage);
}

void sm__stage_close(struct sm__stage *stage)
{
	for (size_t i = 0; stage->spaces && i < stage->rec->nmms; i++) {
		if (stage->spaces[i])
			sm_space_destroy(stage->spaces[i]);
	}
	for (size_t i = 0; stage->files && i < stage->rec->nstrings; i++) {
		if (stage->files[i])
			sm_file_put(stage->files[i]);
	}
	if (stage->unknown)
		sm_file_put(stage->unknown);
	if (stage->host)
		sm_host_destroy(stage->host);
	free(stage->spaces);
	free(stage->files);
	stage->spaces = NULL;
	stage->files = NULL;
	stage->host = NULL;
}

/* ---- the recorded address ---- */

struct chosen {
	bool wanted;
	sm_addr recorded;
	int64_t searched;
};

static _Thread_local struct chosen chosen;

/* Called by the address search with what it found (space.h). */
static int64_t choose_recorded(void *arg, int64_t found)
{
	(void)arg;
	chosen.searched = found;
	return chosen.wanted ? (int64_t)chosen.recorded : found;
}

/* ---- the beginning of a space ---- */

static int map_initial(struct sm__stage *stage, struct sm_space *space,
		       const struct sm__initial *map)
{
	const char *name = sm__recording_string(stage->rec, map->string);
	struct sm_file *file = NULL;
	int flags = map->flags | SM_MAP_FIXED;
	uint64_t offset = map->offset;
	int64_t r;

	if (map->end > SM__TRACE_TOP)
		return 0; /* [vsyscall], or a damaged line */
	if (!strcmp(name, "[heap]"))
		return sm_brk(space, map->end) == map->end ? 0 : -ENOMEM;
	if (map->inferred && map->string == SM__NONE)
		file = stage->unknown;
	else if (map->string != SM__NONE)
		file = stage->files[map->string];
	if (!file) {
		flags |= SM_MAP_ANONYMOUS;
		offset = 0;
	}
	if (!strcmp(name, "[stack]"))
		flags |= SM_MAP_GROWSDOWN;
	r = sm_mmap(space, map->start, map->end - map->start, map->prot, flags, file, offset);
	return r < 0 ? (int)r : 0;
}

int sm__stage_begin(struct sm__stage *stage, uint32_t index)
{
	const struct sm__mm *mm = &stage->rec->mms[index];
	struct sm_space_options o;
	struct sm_space *space;
	int r = 0;

	sm_space_options_init(&o);
	o.design = stage->options->design;
	o.backend = stage->options->backend;
	o.lock_stats = stage->options->lock_stats;
	o.limits.stack = SM_RLIM_INFINITY;
	o.limits.memlock = SM_RLIM_INFINITY;
	o.start_brk = mm->start_brk;
	o.capabilities = stage->maps_low ? SM_CAP_RAWIO : 0;
	if (mm->base)
		o.mmap_base = mm->base;
	space = sm_space_create(stage->host, &o, &stage->why);
	if (!space)
		return -errno;
	space->on_place = choose_recorded;
	for (size_t i = 0; !r && i < mm->ninitial; i++)
		r = map_initial(stage, space, &mm->initial[i]);
	if (r) {
		stage->why = "what was mapped before the recording cannot be mapped here";
		sm_space_destroy(space);
		return r;
	}
	stage->spaces[index] = space;
	return 0;
}

/* ---- the calls ---- */

static int64_t perform_mmap(struct sm__stage *stage, struct sm_space *space,
			    const struct sm__call *c)
{
	struct sm_file *file = NULL;
	uint64_t offset = c->args[5];
	int64_t got;

	if (!(c->args[3] & SM_MAP_ANONYMOUS) && c->string != SM__NONE)
		file = stage->files[c->string];
	got = sm_mmap(space, c->args[0], c->args[1], (int)c->args[2], (int)c->args[3], file,
		      offset);
	/* I3; what MAP_FIXED has replaced is lost either way */
	if (got >= 0 && c->error && !(c->args[3] & SM_MAP_FIXED))
		sm_munmap(space, (sm_addr)got, c->args[1]);
	return got;
}

/* There, but not here. */
static bool brk_was_refused(const struct sm__call *c, int64_t got)
{
	return c->call == SM_SYS_BRK && (sm_addr)got == c->args[0] && c->result < got;
}

static int64_t perform_brk(struct sm_space *space, const struct sm__call *c)
{
	sm_addr got = sm_brk(space, c->args[0]);

	if (brk_was_refused(c, (int64_t)got)) /* I3 */
		sm_brk(space, (sm_addr)c->result);
	return (int64_t)got;
}

/* PR_SET_VMA_ANON_NAME: as the C string that strace escaped. */
static int64_t perform_name(struct sm__stage *stage, struct sm_space *space,
			    const struct sm__call *c)
{
	if (c->args[1])
		return -EINVAL;
	return sm_set_anon_name(space, c->args[2], c->args[3],
				c->string == SM__NONE ? NULL : stage->rec->strings[c->string]);
}

static int64_t perform_fault(struct sm_space *space, const struct sm__call *c)
{
	struct sm_fault_result f = sm_fault(space, c->args[0], (enum sm_access)c->args[1]);

	return f.error ? f.error : f.signo ? -EFAULT : 0;
}

static int64_t perform_fork(struct sm__stage *stage, struct sm_space *space,
			    const struct sm__call *c, struct sm__performed *p)
{
	struct sm_space *child;

	if (c->new_mm == SM__NONE)
		return c->result; /* a thread, or vfork: nothing happens to the map */
	child = sm_fork(space);
	if (!child) {
		p->failed = true;
		return -errno;
	}
	child->on_place = choose_recorded;
	stage->spaces[c->new_mm] = child;
	return c->result;
}

static int64_t perform_exec(struct sm__stage *stage, const struct sm__call *c,
			    struct sm__performed *p)
{
	int r;

	if (c->new_mm == SM__NONE) /* it failed, and the map stayed */
		return -c->error;
	r = sm__stage_begin(stage, c->new_mm);
	p->failed = r != 0;
	return r;
}

/* The answer is about pages, which are others here: only the checks are compared. */
static int64_t perform_mincore(struct sm_space *space, const struct sm__call *c,
			       struct sm__performed *p)
{
	uint64_t pages = c->args[1] / SM__TRACE_PAGE + 1;
	unsigned char *vec;
	int64_t r;

	if (pages > MINCORE_PAGES_MAX) {
		p->made = false;
		return 0;
	}
	vec = sm__inject_fail() ? NULL : malloc(pages);
	if (!vec) {
		p->failed = true;
		return -ENOMEM;
	}
	r = sm_mincore(space, c->args[0], c->args[1], vec);
	free(vec);
	return r;
}

static int64_t perform_advice(struct sm__stage *stage, struct sm_space *space,
			      const struct sm__call *c, struct sm__performed *p)
{
	struct sm_range *ranges;
	int64_t r;

	if (!c->nranges && c->args[2]) { /* only a pointer was printed */
		p->made = false;
		return 0;
	}
	ranges = sm__calloc(c->nranges + 1, sizeof(*ranges));
	if (!ranges) {
		p->failed = true;
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < c->nranges; i++) {
		const struct sm_trace_range *from = &stage->rec->ranges[c->ranges + i];

		ranges[i] = (struct sm_range){ from->start, from->len };
	}
	r = sm_process_madvise(space, space, ranges, c->nranges, (int)c->args[3],
			       (unsigned)c->args[4]);
	free(ranges);
	return r;
}

static int64_t dispatch(struct sm__stage *stage, struct sm_space *space, const struct sm__call *c,
			struct sm__performed *p)
{
	const uint64_t *a = c->args;

	switch (c->call) {
	case SM_SYS_MMAP:
		return perform_mmap(stage, space, c);
	case SM_SYS_MUNMAP:
		return sm_munmap(space, a[0], a[1]);
	case SM_SYS_MPROTECT:
		return sm_mprotect(space, a[0], a[1], (int)a[2]);
	case SM_SYS_PKEY_MPROTECT: /* keys are not modelled */
		return sm_mprotect(space, a[0], a[1], (int)a[2]);
	case SM_SYS_MREMAP:
		return sm_mremap(space, a[0], a[1], a[2], (int)a[3], a[4]);
	case SM_SYS_BRK:
		return perform_brk(space, c);
	case SM_SYS_MADVISE:
		return sm_madvise(space, a[0], a[1], (int)a[2]);
	case SM_SYS_PROCESS_MADVISE:
		return perform_advice(stage, space, c, p);
	case SM_SYS_MSYNC:
		return sm_msync(space, a[0], a[1], (int)a[2]);
	case SM_SYS_MINCORE:
		return perform_mincore(space, c, p);
	case SM_SYS_MLOCK:
		return sm_mlock(space, a[0], a[1]);
	case SM_SYS_MLOCK2:
		return sm_mlock2(space, a[0], a[1], (int)a[2]);
	case SM_SYS_MUNLOCK:
		return sm_munlock(space, a[0], a[1]);
	case SM_SYS_MLOCKALL:
		return sm_mlockall(space, (int)a[0]);
	case SM_SYS_MUNLOCKALL:
		return sm_munlockall(space);
	case SM_SYS_MSEAL:
		return sm_mseal(space, a[0], a[1], a[2]);
	case SM_SYS_PRCTL:
		return perform_name(stage, space, c);
	case SM_SYS_PAGE_FAULT:
		if (c->note & SM__NOTE_NO_TARGET)
			break;
		return perform_fault(space, c);
	case SM_SYS_CLONE:
	case SM_SYS_CLONE3:
	case SM_SYS_FORK:
	case SM_SYS_VFORK:
		if (c->child == SM__NONE)
			return c->error ? -c->error : c->result;
		return perform_fork(stage, space, c, p);
	case SM_SYS_EXECVE:
	case SM_SYS_EXECVEAT:
		return perform_exec(stage, c, p);
	default:
		break;
	}
	p->made = false;
	return 0;
}

struct sm__performed sm__perform(struct sm__stage *stage, const struct sm__call *c, bool exact)
{
	struct sm__performed p = { .made = true };

	chosen = (struct chosen){ sm__call_is_placed(c), (sm_addr)c->result, 0 };
	if (stage->spaces[c->mm])
		p.got = dispatch(stage, stage->spaces[c->mm], c, &p);
	else /* of a process whose making is not in the recording */
		p.made = false;
	p.searched = chosen.searched;
	if (exact && chosen.wanted && p.got == c->result && chosen.searched)
		p.got = chosen.searched;
	chosen.wanted = false;
	return p;
}

/* ---- touching ---- */

/* What the call made accessible. */
static bool given(const struct sm__call *c, struct sm__extent *e, int *prot)
{
	if (!sm__call_succeeded(c))
		return false;
	*prot = SM_PROT_READ | SM_PROT_WRITE;
	switch (c->call) {
	case SM_SYS_MMAP:
		*prot = (int)c->args[2];
		*e = (struct sm__extent){ (sm_addr)c->result, (sm_addr)c->result + c->args[1] };
		return *prot != 0;
	case SM_SYS_MPROTECT:
		*prot = (int)c->args[2];
		*e = (struct sm__extent){ c->args[0], c->args[0] + c->args[1] };
		return *prot != 0;
	case SM_SYS_MREMAP:
		if (c->args[2] <= c->args[1])
			return false;
		*e = (struct sm__extent){ (sm_addr)c->result + c->args[1],
					  (sm_addr)c->result + c->args[2] };
		return true;
	default:
		return false;
	}
}

uint64_t sm__touch(struct sm__stage *stage, const struct sm__call *c)
{
	struct sm_space *space = stage->spaces[c->mm];
	enum sm_access access;
	struct sm__extent e;
	uint64_t n = 0;
	int prot;

	if (stage->options->touch == SM__TOUCH_NONE || !given(c, &e, &prot))
		return 0;
	access = prot & SM_PROT_WRITE  ? SM_ACCESS_WRITE
		 : prot & SM_PROT_READ ? SM_ACCESS_READ
				       : SM_ACCESS_EXEC;
	for (sm_addr at = e.start; at < e.end && n < TOUCH_PAGES_MAX; at += SM__TRACE_PAGE) {
		struct sm_fault_result f = sm_fault(space, at, access);

		n++;
		if (f.error || f.signo || stage->options->touch == SM__TOUCH_FIRST)
			break;
	}
	return n;
}

/* ---- comparison ---- */

static int64_t expected(const struct sm__call *c)
{
	return c->error ? -(int64_t)c->error : c->result;
}

static enum sm__why why_refused(const struct sm__call *c)
{
	switch (c->error) {
	case ENOMEM:
	case EAGAIN:
		return SM__WHY_LIMIT;
	case ENOSYS:
	case EOPNOTSUPP:
		return SM__WHY_KERNEL;
	case EACCES:
	case EPERM:
	case ENODEV:
	case EBADF:
	case ETXTBSY:
	case ENXIO:
	case EOVERFLOW:
		return c->call == SM_SYS_MMAP && !(c->args[3] & SM_MAP_ANONYMOUS)
			       ? SM__WHY_FILE
			       : SM__WHY_UNEXPLAINED;
	case EINVAL:
		return c->call == SM_SYS_MADVISE || c->call == SM_SYS_PROCESS_MADVISE ||
				       c->call == SM_SYS_PRCTL
			       ? SM__WHY_KERNEL
			       : SM__WHY_UNEXPLAINED;
	default:
		return SM__WHY_UNEXPLAINED;
	}
}

bool sm__agrees(const struct sm__call *c, int64_t got, enum sm__why *why)
{
	if (got == expected(c))
		return true;
	if (c->note & SM__NOTE_UNORDERED)
		*why = SM__WHY_ORDER;
	else if (c->note & SM__NOTE_UNKNOWN_PLACE)
		*why = SM__WHY_UNKNOWN_PLACE;
	else if (c->call == SM_SYS_PAGE_FAULT && c->inferred)
		*why = SM__WHY_UNKNOWN_MAP;
	else if (c->error && got >= 0)
		*why = why_refused(c);
	else if (brk_was_refused(c, got)) /* RLIMIT_DATA, overcommit, or what the recording hides */
		*why = SM__WHY_LIMIT;
	else
		*why = SM__WHY_UNEXPLAINED;
	return false;
}
