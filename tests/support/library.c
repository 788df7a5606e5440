/* SPDX-License-Identifier: MIT */
/* library.c - see library.h. */
#include "support/library.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <samara/file.h>
#include <samara/host.h>
#include <samara/tlb.h>

#define TASK_END   0x7ffffffff000ULL
#define MIN_ADDR   OPS_PAGE
#define STRIP	   (16 * OPS_PAGE)
#define OTHER_DATA (8192 * OPS_PAGE) /* data outside the window, as every program has */

/* A file of the test: bytes and a size, shown through descriptors of several modes. */
struct object {
	uint64_t size;
	unsigned char bytes[128 * OPS_PAGE];
};

struct library {
	struct sm_design design;
	enum sm_backend backend;
	struct sm_host *host;
	unsigned host_map_count;
	struct sm_space *space[OPS_SPACES];
	struct sm_file *file[FD_FILES];
	struct object object[OPS_OBJECTS];
	struct obs_files seen;
	int64_t total0, data0;
	const struct ops_config *config;
	size_t room;
	struct observation *log;
	unsigned char core[OPS_MAX_PAGES]; /* of the last mincore */
};

static uint64_t object_size(void *arg)
{
	return ((struct object *)arg)->size;
}

static int object_read(void *arg, uint64_t offset, void *page, size_t len)
{
	const struct object *o = arg;

	if (offset >= o->size)
		return -EIO;
	memcpy(page, o->bytes + offset, len);
	return 0;
}

static int object_write(void *arg, uint64_t offset, const void *page, size_t len)
{
	struct object *o = arg;

	if (offset < o->size)
		memcpy(o->bytes + offset, page, len);
	return 0;
}

static int object_punch(void *arg, uint64_t offset, uint64_t len)
{
	struct object *o = arg;

	if (offset < sizeof(o->bytes))
		memset(o->bytes + offset, 0,
		       len < sizeof(o->bytes) - offset ? len : sizeof(o->bytes) - offset);
	return 0;
}

static int object_truncate(void *arg, uint64_t size)
{
	struct object *o = arg;

	o->size = size;
	memset(o->bytes + size, 0, sizeof(o->bytes) - size);
	return 0;
}

static const struct sm_file_ops object_ops = {
	.size = object_size,
	.read_page = object_read,
	.write_page = object_write,
	.punch = object_punch,
	.truncate = object_truncate,
};

static bool open_files(struct library *l)
{
	for (int i = 0; i < OPS_OBJECTS; i++) {
		struct object *o = &l->object[i];

		memset(o, 0, sizeof(*o));
		o->size = ops_object_size[i];
		for (uint64_t p = 0; p * OPS_PAGE < o->size; p++) {
			uint64_t token = ops_object_token(i, p);

			memcpy(o->bytes + p * OPS_PAGE, &token, sizeof(token));
		}
	}
	for (int i = 0; i < FD_FILES; i++) {
		const struct ops_fd_spec *s = &ops_fd_table[i];
		struct sm_file_info info = {
			.ino = s->object < 0 ? 2 : (uint64_t)s->object + 10,
			.dev_major = 9,
			.name = "/object (deleted)",
			.mode = s->object < 0 ? SM_FILE_DIRECTORY | SM_FILE_READ
					      : (s->read ? SM_FILE_READ : 0) |
							(s->write ? SM_FILE_WRITE : 0),
		};

		if (sm_file_create(&info, &object_ops, &l->object[s->object < 0 ? 0 : s->object],
				   &l->file[i]))
			return false;
	}
	return true;
}

static bool make_host(struct library *l, unsigned map_count)
{
	struct sm_host_options options;
	const char *why = "";

	if (l->host && l->host_map_count == map_count)
		return true;
	if (l->host && sm_host_destroy(l->host))
		return false;
	sm_host_options_init(&options);
	options.mmap_min_addr = MIN_ADDR;
	options.frame_bytes = 64 << 20;
	if (map_count)
		options.max_map_count = map_count;
	l->host = sm_host_create(&options, &why);
	l->host_map_count = map_count;
	if (!l->host)
		fprintf(stderr, "library: host: %s\n", why);
	return l->host;
}

static bool fill(struct library *l, uint64_t from, uint64_t to, int prot, int type)
{
	return from >= to ||
	       sm_mmap(l->space[0], from, to - from, prot,
		       type | SM_MAP_ANONYMOUS | SM_MAP_NORESERVE | SM_MAP_FIXED_NOREPLACE, NULL,
		       0) == (int64_t)from;
}

/* low | filled | strip | window | strip | filled | data */
static bool fill_everything(struct library *l)
{
	uint64_t base = l->config->base, end = ops_end(l->config), data = TASK_END - OTHER_DATA;

	return fill(l, MIN_ADDR, base - STRIP, SM_PROT_NONE, SM_MAP_PRIVATE) &&
	       fill(l, base - STRIP, base, SM_PROT_NONE, SM_MAP_SHARED) &&
	       fill(l, end, end + STRIP, SM_PROT_NONE, SM_MAP_SHARED) &&
	       fill(l, end + STRIP, data, SM_PROT_NONE, SM_MAP_PRIVATE) &&
	       fill(l, data, TASK_END, SM_PROT_READ | SM_PROT_WRITE, SM_MAP_PRIVATE);
}
#define FILL_VMAS 5

static void sizes(struct sm_space *space, int64_t *total, int64_t *data)
{
	struct sm_space_stats s;

	sm_space_stats(space, &s);
	*total = (int64_t)s.total_vm;
	*data = (int64_t)(s.data_vm + s.stack_vm);
}

static void limit(uint64_t *value, int64_t have, uint64_t more)
{
	*value = more == ~0ULL ? SM_RLIM_INFINITY : ((uint64_t)have + more) * OPS_PAGE;
}

static bool make_space(struct library *l)
{
	const struct ops_config *c = l->config;
	struct sm_space_options options;
	struct sm_rlimits limits;
	const char *why = "";

	sm_space_options_init(&options);
	options.range_end = TASK_END;
	options.design = l->design;
	options.backend = l->backend;
	options.capabilities = SM_CAP_RAWIO | (c->memlock_pages == ~0ULL ? SM_CAP_IPC_LOCK : 0);
	options.limits.as = options.limits.data = SM_RLIM_INFINITY;
	options.limits.memlock = SM_RLIM_INFINITY;
	if (c->brk_page >= 0)
		options.start_brk = c->base + (unsigned)c->brk_page * OPS_PAGE;
	l->space[0] = sm_space_create(l->host, &options, &why);
	if (!l->space[0] || !fill_everything(l)) {
		fprintf(stderr, "library: space: %s\n", why);
		return false;
	}
	sizes(l->space[0], &l->total0, &l->data0);
	limits = options.limits;
	limit(&limits.as, l->total0, c->as_pages);
	limit(&limits.data, l->data0, c->data_pages);
	limit(&limits.memlock, 0, c->memlock_pages);
	sm_space_set_limits(l->space[0], &limits);
	return true;
}

static int64_t fault_result(struct sm_fault_result r)
{
	if (r.error)
		return r.error;
	return r.signo ? OBS_SIGNAL(r.signo, r.code) : 0;
}

static int64_t touch(struct library *l, const struct op *op, struct observation *o)
{
	bool write = op->kind == OP_WRITE;
	struct sm_space *s = l->space[op->space];
	struct sm_fault_result why = { 0 };
	uint64_t token = op->arg[1];
	int64_t n;

	if (l->backend == SM_BACKEND_NONE)
		return fault_result(
			sm_fault(s, op->arg[0], write ? SM_ACCESS_WRITE : SM_ACCESS_READ));
	if (write)
		n = sm_write(s, op->arg[0], &token, sizeof(token), &why);
	else
		n = sm_read(s, op->arg[0], &token, sizeof(token), &why);
	if (n == sizeof(token)) {
		o->token = write ? 0 : token;
		return 0;
	}
	return n == -EFAULT ? fault_result(why) : n < 0 ? n : -EIO;
}

static int64_t process_madvise(struct sm_space *s, const uint64_t *a)
{
	struct sm_range ranges[3];

	for (int i = 0; i < 3; i++)
		ranges[i] = (struct sm_range){ a[2 * i], a[2 * i + 1] };
	return sm_process_madvise(s, s, ranges, 3, (int)a[6], (unsigned)a[7]);
}

static int64_t truncate_file(struct library *l, uint64_t fd, uint64_t size)
{
	int64_t err;

	if (fd >= FD_FILES)
		return -EBADF;
	if (ops_fd_table[fd].object < 0 || !ops_fd_table[fd].write)
		return -EINVAL;
	err = sm_file_truncate(l->file[fd], size);
	/* other descriptors of the object learn of it from their owner, which we are */
	for (int i = 0; i < FD_FILES; i++) {
		if (i != (int)fd && ops_fd_table[i].object == ops_fd_table[fd].object)
			sm_file_refresh(l->file[i]);
	}
	return err;
}

static int64_t fork_space(struct library *l, unsigned from, uint64_t number)
{
	if (number == 0 || number >= OPS_SPACES || l->space[number])
		return -EAGAIN;
	l->space[number] = sm_fork(l->space[from]);
	return l->space[number] ? (int64_t)number : -errno;
}

static int64_t call(struct library *l, const struct op *op, struct observation *o)
{
	struct sm_space *s = l->space[op->space];
	const uint64_t *a = op->arg;

	switch ((enum op_kind)op->kind) {
	case OP_MMAP:
		return sm_mmap(s, a[0], a[1], (int)a[2], (int)a[3],
			       a[4] < FD_FILES && !(a[3] & SM_MAP_ANONYMOUS) ? l->file[a[4]] : NULL,
			       a[5]);
	case OP_MUNMAP:
		return sm_munmap(s, a[0], a[1]);
	case OP_MPROTECT:
		return sm_mprotect(s, a[0], a[1], (int)a[2]);
	case OP_MREMAP:
		return sm_mremap(s, a[0], a[1], a[2], (int)a[3], a[4]);
	case OP_BRK:
		return (int64_t)sm_brk(s, a[0]);
	case OP_MADVISE:
		return sm_madvise(s, a[0], a[1], (int)a[2]);
	case OP_READ:
	case OP_WRITE:
		return touch(l, op, o);
	case OP_MLOCK2:
		return sm_mlock2(s, a[0], a[1], (int)a[2]);
	case OP_MUNLOCK:
		return sm_munlock(s, a[0], a[1]);
	case OP_MSEAL:
		return sm_mseal(s, a[0], a[1], a[2]);
	case OP_MINCORE:
		return sm_mincore(s, a[0], a[1], l->core);
	case OP_MSYNC:
		return sm_msync(s, a[0], a[1], (int)a[2]);
	case OP_PMADVISE:
		return process_madvise(s, a);
	case OP_TRUNCATE:
		return truncate_file(l, a[0], a[1]);
	case OP_FORK:
		return fork_space(l, op->space, a[0]);
	default:
		return -ENOSYS;
	}
}

/* The library's bits in the words of ops.h. */
static uint32_t flags_of(uint64_t vm)
{
	static const struct {
		uint64_t vm;
		uint32_t flag;
	} pairs[] = {
		{ SM_VM_READ, VF_READ },	   { SM_VM_WRITE, VF_WRITE },
		{ SM_VM_EXEC, VF_EXEC },	   { SM_VM_SHARED, VF_SHARED },
		{ SM_VM_MAYSHARE, VF_MAYSHARE },   { SM_VM_MAYWRITE, VF_MAYWRITE },
		{ SM_VM_GROWSDOWN, VF_GROWSDOWN }, { SM_VM_NORESERVE, VF_NORESERVE },
		{ SM_VM_ACCOUNT, VF_ACCOUNT },	   { SM_VM_LOCKED, VF_LOCKED },
		{ SM_VM_LOCKONFAULT, VF_ONFAULT }, { SM_VM_SEALED, VF_SEALED },
		{ SM_VM_DONTCOPY, VF_DONTFORK },   { SM_VM_WIPEONFORK, VF_WIPEONFORK },
		{ SM_VM_DONTDUMP, VF_DONTDUMP },   { SM_VM_RAND_READ, VF_RANDOM },
		{ SM_VM_SEQ_READ, VF_SEQUENTIAL }, { SM_VM_MERGEABLE, VF_MERGEABLE },
		{ SM_VM_HUGEPAGE, VF_HUGEPAGE },   { SM_VM_NOHUGEPAGE, VF_NOHUGEPAGE },
		{ SM_VM_DROPPABLE, VF_DROPPABLE }, { SM_VM_SYNC, VF_SYNC },
	};
	uint32_t flags = 0;

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		flags |= vm & pairs[i].vm ? pairs[i].flag : 0;
	return flags;
}

struct visit {
	struct library *l;
	struct observation *o;
};

static int visit(void *arg, const struct sm_vma_info *info)
{
	struct visit *v = arg;
	struct obs_vma *out = &v->o->vma[v->o->vmas];
	uint64_t base = v->l->config->base;

	if (v->o->vmas == OBS_MAX_VMAS) {
		v->o->truncated = true;
		return 1;
	}
	out->first = (uint16_t)((info->start - base) / OPS_PAGE);
	out->end = (uint16_t)((info->end - base) / OPS_PAGE);
	out->prot = (uint8_t)(info->flags & (SM_VM_READ | SM_VM_WRITE | SM_VM_EXEC));
	out->shared = info->flags & SM_VM_MAYSHARE;
	out->off = info->file ? info->offset : 0;
	out->file = 0;
	out->flags = flags_of(info->flags);
	if (info->file) {
		const struct sm_file_info *f = sm_file_info(info->file);

		out->file = obs_file_number(&v->l->seen, f->ino,
					    (uint64_t)f->dev_major << 32 | f->dev_minor);
	}
	v->o->vmas++;
	return 0;
}

static void observe(struct library *l, struct sm_space *s, struct observation *o)
{
	struct visit v = { l, o };

	o->vmas = 0;
	o->has_flags = true;
	sm_for_each(s, l->config->base, ops_end(l->config), visit, &v);
	sizes(s, &o->total, &o->data);
	o->total -= l->total0;
	o->data -= l->data0;
}

static void end_run(struct library *l)
{
	for (int i = 0; i < OPS_SPACES; i++) {
		if (l->space[i])
			sm_space_destroy(l->space[i]);
		l->space[i] = NULL;
	}
	for (int i = 0; i < FD_FILES; i++) {
		if (l->file[i])
			sm_file_put(l->file[i]);
		l->file[i] = NULL;
	}
}

const struct observation *library_run(void *arg, const struct ops_config *config,
				      const struct op *ops, size_t n)
{
	struct library *l = arg;
	bool ok;

	l->config = config;
	l->seen.count = 0;
	ok = n <= l->room && make_host(l, config->map_count ? config->map_count + FILL_VMAS : 0) &&
	     open_files(l) && make_space(l);
	for (size_t i = 0; ok && i < n; i++) {
		struct observation *o = &l->log[i];

		memset(o, 0, offsetof(struct observation, vma));
		if (!l->space[ops[i].space]) {
			o->result = -ESRCH;
			continue;
		}
		o->result = call(l, &ops[i], o);
		observe(l, l->space[ops[i].space], o);
		if (ops[i].kind == OP_MINCORE && o->result == 0)
			o->token = obs_core_token(config, o, &ops[i], l->core);
	}
	end_run(l);
	return ok ? l->log : NULL;
}

void library_restrict(struct library *l, struct opgen *g)
{
	g->few_maps = 4;
	g->config.bare = l->backend == SM_BACKEND_NONE;
	if (g->config.bare)
		g->config.contents = false;
}

struct library *library_open(size_t max_ops, const char *design, enum sm_backend backend)
{
	struct library *l = calloc(1, sizeof(*l));
	char why[128] = "out of memory";

	if (l)
		l->log = calloc(max_ops, sizeof(*l->log));
	if (!l || !l->log || sm_design_parse(design, &l->design, why, sizeof(why))) {
		fprintf(stderr, "library: %s\n", why);
		if (l)
			free(l->log);
		free(l);
		return NULL;
	}
	l->room = max_ops;
	l->backend = backend;
	return l;
}

void library_close(struct library *l)
{
	if (l->host)
		sm_host_destroy(l->host);
	free(l->log);
	free(l);
}
