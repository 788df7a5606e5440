/* SPDX-License-Identifier: MIT */
/* machine_library.c - a space with the soft backend as a machine: each run has a host of its own. */
#include "kernel/machine.h"

#include <samara/samara.h>

#include "space/space.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct world {
	struct sm_host *host;
	struct sm_file *files[MACHINE_FILES], *device;
	uint64_t next_window, device_at;
};

static struct world world;
const char *library_design;
bool library_has_no_pages;

static struct sm_space *space_of(struct machine *m)
{
	return m->priv;
}

static void check(int err, const char *what)
{
	if (err) {
		fprintf(stderr, "%s: %s\n", what, strerror(-err));
		abort();
	}
}

static void open_data(void)
{
	char path[] = "/tmp/samara-advice-XXXXXX", page[PAGE];
	int fd = mkstemp(path), read_only, shorter;

	memset(page, 'f', sizeof(page));
	for (int i = 0; i < 4; i++)
		if (pwrite(fd, page, PAGE, i * (off_t)PAGE) != (ssize_t)PAGE)
			abort();
	read_only = open(path, O_RDONLY);
	unlink(path);
	check(sm_file_open_fd(fd, "data", &world.files[MACHINE_DATA]), "data");
	check(sm_file_open_fd(read_only, "data", &world.files[MACHINE_DATA_R]), "data, read-only");
	shorter = memfd_create("short", 0);
	if (write(shorter, page, PAGE) != (ssize_t)PAGE)
		abort();
	check(sm_file_open_fd(shorter, "short", &world.files[MACHINE_SHORT]), "short");
	check(sm_file_create_memory("memory", 4 * PAGE, &world.files[MACHINE_MEMORY]), "memory");
	close(fd);
	close(read_only);
	close(shorter);
}

static uint64_t device_size(void *arg)
{
	(void)arg;
	return 4 * PAGE;
}

static void open_device(void)
{
	static const struct sm_file_ops ops = { .size = device_size };
	const struct sm_file_info info = { .name = "device",
					   .mode = SM_FILE_READ | SM_FILE_DEVICE };

	check(sm_file_create(&info, &ops, NULL, &world.device), "device");
}

static int64_t l_mmap(struct machine *m, const uint64_t a[4], enum machine_file file, uint64_t off)
{
	return sm_mmap(space_of(m), a[0], a[1], (int)a[2], (int)a[3],
		       file < 0 ? NULL : world.files[file], off);
}

static int l_munmap(struct machine *m, uint64_t addr, uint64_t len)
{
	return sm_munmap(space_of(m), addr, len);
}

static int l_mprotect(struct machine *m, uint64_t addr, uint64_t len, int prot)
{
	return sm_mprotect(space_of(m), addr, len, prot);
}

static int l_madvise(struct machine *m, uint64_t addr, uint64_t len, int advice)
{
	return sm_madvise(space_of(m), addr, len, advice);
}

static int l_mlock2(struct machine *m, uint64_t addr, uint64_t len, int flags)
{
	return sm_mlock2(space_of(m), addr, len, flags);
}

static int l_munlock(struct machine *m, uint64_t addr, uint64_t len)
{
	return sm_munlock(space_of(m), addr, len);
}

static int l_mlockall(struct machine *m, int flags)
{
	return flags ? sm_mlockall(space_of(m), flags) : sm_munlockall(space_of(m));
}

static int l_mseal(struct machine *m, uint64_t addr, uint64_t len, uint64_t flags)
{
	return sm_mseal(space_of(m), addr, len, flags);
}

static int l_mincore(struct machine *m, uint64_t addr, uint64_t len, uint8_t *vec)
{
	return sm_mincore(space_of(m), addr, len, vec);
}

static int64_t l_process_madvise(struct machine *m, struct machine *target,
				 const struct machine_range *v, const uint64_t a[3])
{
	_Static_assert(sizeof(struct machine_range) == sizeof(struct sm_range), "same layout");
	return sm_process_madvise(space_of(m), space_of(target ? target : m),
				  (const struct sm_range *)v, a[0], (int)a[1], (unsigned)a[2]);
}

static int touched(int64_t n, const struct sm_fault_result *why)
{
	if (n == 1)
		return TOUCH_OK;
	return why->signo == SIGBUS ? TOUCH_BUS : why->signo == SIGSEGV ? TOUCH_SEGV : '!';
}

static int fault_only(struct machine *m, uint64_t addr, enum sm_access access)
{
	struct sm_fault_result why = sm_fault(space_of(m), addr, access);

	return touched(!why.signo && !why.error, &why);
}

static int l_peek(struct machine *m, uint64_t addr, uint8_t *value)
{
	struct sm_fault_result why = { 0 };

	if (library_has_no_pages)
		return fault_only(m, addr, SM_ACCESS_READ);
	return touched(sm_read(space_of(m), addr, value, 1, &why), &why);
}

static int l_poke(struct machine *m, uint64_t addr, uint8_t value)
{
	struct sm_fault_result why = { 0 };

	if (library_has_no_pages)
		return fault_only(m, addr, SM_ACCESS_WRITE);
	return touched(sm_write(space_of(m), addr, &value, 1, &why), &why);
}

static uint32_t letters_of(uint64_t flags)
{
	static const struct {
		uint64_t flag;
		enum machine_letter_bit bit;
	} table[] = {
		{ SM_VM_SEQ_READ, MACHINE_BIT_sr },   { SM_VM_RAND_READ, MACHINE_BIT_rr },
		{ SM_VM_DONTCOPY, MACHINE_BIT_dc },   { SM_VM_DONTDUMP, MACHINE_BIT_dd },
		{ SM_VM_WIPEONFORK, MACHINE_BIT_wf }, { SM_VM_HUGEPAGE, MACHINE_BIT_hg },
		{ SM_VM_NOHUGEPAGE, MACHINE_BIT_nh }, { SM_VM_MERGEABLE, MACHINE_BIT_mg },
		{ SM_VM_LOCKED, MACHINE_BIT_lo },     { SM_VM_LOCKONFAULT, MACHINE_BIT_lf },
		{ SM_VM_SEALED, MACHINE_BIT_sl },
	};
	uint32_t bits = 0;

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (flags & table[i].flag)
			bits |= 1u << table[i].bit;
	return bits;
}

static int first_vma(void *arg, const struct sm_vma_info *info)
{
	*(struct machine_vma *)arg = (struct machine_vma){ .start = info->start,
							   .end = info->end,
							   .read = info->flags & SM_VM_READ,
							   .write = info->flags & SM_VM_WRITE,
							   .exec = info->flags & SM_VM_EXEC,
							   .shared = info->flags & SM_VM_MAYSHARE,
							   .letters = letters_of(info->flags) };
	return 1;
}

static bool l_vma(struct machine *m, uint64_t addr, struct machine_vma *out)
{
	return sm_for_each(space_of(m), addr, UINT64_MAX, first_vma, out) == 1;
}

static uint64_t l_window(struct machine *m)
{
	(void)m;
	world.next_window += 64ull << 20;
	return world.next_window;
}

static bool l_device(struct machine *m, uint64_t *addr, uint64_t *len)
{
	/* all shapes of a cell ask for the same one */
	if (!world.device_at) {
		int64_t at =
			sm_mmap(space_of(m), 0, 4 * PAGE, PROT_READ, MAP_SHARED, world.device, 0);

		if (at < 0)
			return false;
		world.device_at = (uint64_t)at;
	}
	*addr = world.device_at;
	*len = 4 * PAGE;
	return true;
}

static struct machine forked(struct machine *m)
{
	struct machine child = { m->ops, sm_fork(space_of(m)) };

	if (!child.priv)
		check(-errno, "fork");
	return child;
}

static void l_in_fork(struct machine *m, void (*fn)(struct machine *, FILE *, uint64_t), FILE *out,
		      uint64_t arg)
{
	struct machine child = forked(m);

	fn(&child, out, arg);
	sm_space_destroy(child.priv);
}

static void l_beside(struct machine *m,
		     void (*fn)(struct machine *, struct machine *, FILE *, uint64_t), FILE *out,
		     uint64_t arg)
{
	struct machine other = forked(m);

	fn(m, &other, out, arg);
	sm_space_destroy(other.priv);
}

static bool l_drop_rights(struct machine *m)
{
	space_of(m)->o.capabilities = 0;
	return true;
}

static const struct machine_ops library_ops = {
	.name = "library",
	.mmap = l_mmap,
	.munmap = l_munmap,
	.mprotect = l_mprotect,
	.madvise = l_madvise,
	.mlock2 = l_mlock2,
	.munlock = l_munlock,
	.mlockall = l_mlockall,
	.mseal = l_mseal,
	.mincore = l_mincore,
	.process_madvise = l_process_madvise,
	.peek = l_peek,
	.poke = l_poke,
	.vma = l_vma,
	.window = l_window,
	.device = l_device,
	.in_fork = l_in_fork,
	.beside = l_beside,
	.drop_rights = l_drop_rights,
};

static struct sm_space *new_space(void)
{
	struct sm_space_options o;
	struct sm_space *s;
	const char *why;

	sm_space_options_init(&o);
	o.backend = library_has_no_pages ? SM_BACKEND_NONE : SM_BACKEND_SOFT;
	o.capabilities = SM_CAP_RAWIO | SM_CAP_IPC_LOCK | SM_CAP_ADMIN | SM_CAP_NICE;
	if (library_design && sm_design_parse(library_design, &o.design, NULL, 0))
		check(-EINVAL, library_design);
	s = sm_space_create(world.host, &o, &why);
	if (!s) {
		fprintf(stderr, "space: %s\n", why);
		abort();
	}
	return s;
}

char *library_run(machine_fn fn, const void *arg)
{
	struct sm_host_options o;
	struct machine m = { &library_ops, NULL };
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	memset(&world, 0, sizeof(world));
	world.next_window = 1ull << 40;
	sm_host_options_init(&o);
	o.frame_bytes = 64ull << 20;
	world.host = sm_host_create(&o, NULL);
	if (!world.host)
		check(-errno, "host");
	open_data();
	open_device();
	m.priv = new_space();
	fn(&m, out, arg);
	sm_space_destroy(m.priv);
	for (int i = 0; i < MACHINE_FILES; i++)
		sm_file_put(world.files[i]);
	sm_file_put(world.device);
	check(sm_host_destroy(world.host), "host");
	fclose(out);
	return text;
}
