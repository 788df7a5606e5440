/* SPDX-License-Identifier: MIT */
/*
 * symbols.c - the names a recording uses (symbols.h).
 *
 * Calls, constants, errnos and signals share one hash table, told apart by a letter mixed into the
 * hash. It is built once per process and only read afterwards.
 */
#include "trace/symbols.h"
#include "base/base.h"
#include "base/names.h"

#include <pthread.h>
#include <string.h>

#define ADDR_LEN(a, l)          \
	{                       \
		{ a, NULL },    \
		{               \
			l, NULL \
		}               \
	}

const struct sm__call_spec sm__call_specs[SM_SYS_COUNT] = {
	[SM_SYS_OTHER] = { "other", 0, { { NULL, NULL } } },
	[SM_SYS_MMAP] = { "mmap",
			  6,
			  { { "addr", NULL },
			    { "len", NULL },
			    { "prot", "PROT_" },
			    { "flags", "MAP_" },
			    { "fd", NULL },
			    { "off", NULL } } },
	[SM_SYS_MUNMAP] = { "munmap", 2, ADDR_LEN("addr", "len") },
	[SM_SYS_MPROTECT] = { "mprotect",
			      3,
			      { { "start", NULL }, { "len", NULL }, { "prot", "PROT_" } } },
	[SM_SYS_PKEY_MPROTECT] = { "pkey_mprotect",
				   4,
				   { { "start", NULL },
				     { "len", NULL },
				     { "prot", "PROT_" },
				     { "pkey", NULL } } },
	[SM_SYS_MREMAP] = { "mremap",
			    4,
			    { { "addr", NULL },
			      { "old_len", NULL },
			      { "new_len", NULL },
			      { "flags", "MREMAP_" },
			      { "new_addr", NULL } } },
	[SM_SYS_BRK] = { "brk", 1, { { "brk", NULL } } },
	[SM_SYS_MADVISE] = { "madvise",
			     3,
			     { { "start", NULL }, { "len_in", NULL }, { "behavior", "MADV_" } } },
	[SM_SYS_PROCESS_MADVISE] = { "process_madvise",
				     5,
				     { { "pidfd", NULL },
				       { "vec", NULL },
				       { "vlen", NULL },
				       { "behavior", "MADV_" },
				       { "flags", NULL } } },
	[SM_SYS_MSYNC] = { "msync", 3, { { "start", NULL }, { "len", NULL }, { "flags", "MS_" } } },
	[SM_SYS_MINCORE] = { "mincore",
			     2,
			     { { "start", NULL }, { "len", NULL }, { "vec", NULL } } },
	[SM_SYS_MLOCK] = { "mlock", 2, ADDR_LEN("start", "len") },
	[SM_SYS_MLOCK2] = { "mlock2",
			    3,
			    { { "start", NULL }, { "len", NULL }, { "flags", "MLOCK_" } } },
	[SM_SYS_MUNLOCK] = { "munlock", 2, ADDR_LEN("start", "len") },
	[SM_SYS_MLOCKALL] = { "mlockall", 1, { { "flags", "MCL_" } } },
	[SM_SYS_MUNLOCKALL] = { "munlockall", 0, { { NULL, NULL } } },
	[SM_SYS_MSEAL] = { "mseal", 3, { { "start", NULL }, { "len", NULL }, { "flags", NULL } } },
	[SM_SYS_REMAP_FILE_PAGES] = { "remap_file_pages",
				      5,
				      { { "start", NULL },
					{ "size", NULL },
					{ "prot", "PROT_" },
					{ "pgoff", NULL },
					{ "flags", "MAP_" } } },
	[SM_SYS_SHMAT] = { "shmat",
			   3,
			   { { "shmid", NULL }, { "shmaddr", NULL }, { "shmflg", "SHM_" } } },
	[SM_SYS_SHMDT] = { "shmdt", 1, { { "shmaddr", NULL } } },
	[SM_SYS_PRCTL] = { "prctl",
			   1,
			   { { "option", "PR_" },
			     { "arg2", "PR_" },
			     { "arg3", NULL },
			     { "arg4", NULL },
			     { "arg5", NULL } } },
	[SM_SYS_PAGE_FAULT] = { "page_fault", 2, { { "addr", NULL }, { "access", "PROT_" } } },
	[SM_SYS_CLONE] = { "clone", 0, { { "clone_flags", "CLONE_" } } },
	[SM_SYS_CLONE3] = { "clone3", 0, { { "uargs", NULL } } },
	[SM_SYS_FORK] = { "fork", 0, { { NULL, NULL } } },
	[SM_SYS_VFORK] = { "vfork", 0, { { NULL, NULL } } },
	[SM_SYS_EXECVE] = { "execve", 0, { { NULL, NULL } } },
	[SM_SYS_EXECVEAT] = { "execveat", 0, { { NULL, NULL } } },
	[SM_SYS_EXIT] = { "exit", 0, { { NULL, NULL } } },
	[SM_SYS_EXIT_GROUP] = { "exit_group", 0, { { NULL, NULL } } },
};

/* Kinds of names, mixed into the hash. */
enum { CALL = 'c', CONSTANT = 'k', ERRNO = 'e', SIGNAL = 's' };

struct symbol {
	const char *name;
	uint8_t len;
	char kind;
	uint64_t value;
};

#define CONSTANT_ROW(n) { #n, sizeof(#n) - 1, CONSTANT, SM_##n },
static const struct symbol constants[] = { SM__PROT_NAMES(CONSTANT_ROW) SM__MAP_TYPE_NAMES(
	CONSTANT_ROW) SM__MAP_FLAG_NAMES(CONSTANT_ROW) SM__MREMAP_NAMES(CONSTANT_ROW)
						   SM__MADV_NAMES(CONSTANT_ROW)
							   SM__MS_NAMES(CONSTANT_ROW)
								   SM__MCL_NAMES(CONSTANT_ROW) };

#define ROW(n, v)                             \
	{                                     \
		n, sizeof(n) - 1, CONSTANT, v \
	}
static const struct symbol more_constants[] = {
	ROW("NULL", 0),
	ROW("PROT_NONE", 0),
	ROW("MAP_FILE", 0),
	ROW("MAP_ANON", SM_MAP_ANONYMOUS),
	ROW("MAP_ABOVE4G", 0x80),
	ROW("MAP_UNINITIALIZED", 0x4000000),
	ROW("MAP_HUGE_64KB", 16ull << 26),
	ROW("MAP_HUGE_2MB", 21ull << 26),
	ROW("MAP_HUGE_1GB", 30ull << 26),
	ROW("MLOCK_ONFAULT", SM_MLOCK_ONFAULT),
	ROW("SHM_RDONLY", 010000),
	ROW("SHM_RND", 020000),
	ROW("SHM_REMAP", 040000),
	ROW("SHM_EXEC", 0100000),
	ROW("PR_SET_VMA", 0x53564d41),
	ROW("PR_SET_VMA_ANON_NAME", 0),
	ROW("CLONE_VM", 0x100),
	ROW("CLONE_FS", 0x200),
	ROW("CLONE_FILES", 0x400),
	ROW("CLONE_SIGHAND", 0x800),
	ROW("CLONE_PIDFD", 0x1000),
	ROW("CLONE_PTRACE", 0x2000),
	ROW("CLONE_VFORK", 0x4000),
	ROW("CLONE_PARENT", 0x8000),
	ROW("CLONE_THREAD", 0x10000),
	ROW("CLONE_NEWNS", 0x20000),
	ROW("CLONE_SYSVSEM", 0x40000),
	ROW("CLONE_SETTLS", 0x80000),
	ROW("CLONE_PARENT_SETTID", 0x100000),
	ROW("CLONE_CHILD_CLEARTID", 0x200000),
	ROW("CLONE_DETACHED", 0x400000),
	ROW("CLONE_UNTRACED", 0x800000),
	ROW("CLONE_CHILD_SETTID", 0x1000000),
	ROW("CLONE_NEWCGROUP", 0x2000000),
	ROW("CLONE_NEWUTS", 0x4000000),
	ROW("CLONE_NEWIPC", 0x8000000),
	ROW("CLONE_NEWUSER", 0x10000000),
	ROW("CLONE_NEWPID", 0x20000000),
	ROW("CLONE_NEWNET", 0x40000000),
	ROW("CLONE_IO", 0x80000000),
	ROW("CLONE_CLEAR_SIGHAND", 0x100000000),
	ROW("CLONE_INTO_CGROUP", 0x200000000),
	ROW("SIGCHLD", 17), /* the low byte of clone's flags: the signal at the child's death */
};
#undef ROW

/* Numbers 1..133 of asm-generic, in order; two numbers are free. ERESTART* are the kernel's own. */
static const char errno_names[] =
	"EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT "
	"ENOTBLK EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY "
	"EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS "
	"ENOTEMPTY ELOOP - ENOMSG EIDRM ECHRNG EL2NSYNC EL3HLT EL3RST ELNRNG EUNATCH ENOCSI EL2HLT "
	"EBADE EBADR EXFULL ENOANO EBADRQC EBADSLT - EBFONT ENOSTR ENODATA ETIME ENOSR ENONET "
	"ENOPKG EREMOTE ENOLINK EADV ESRMNT ECOMM EPROTO EMULTIHOP EDOTDOT EBADMSG EOVERFLOW "
	"ENOTUNIQ EBADFD EREMCHG ELIBACC ELIBBAD ELIBSCN ELIBMAX ELIBEXEC EILSEQ ERESTART ESTRPIPE "
	"EUSERS ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT "
	"ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL ENETDOWN "
	"ENETUNREACH ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN "
	"ETOOMANYREFS ETIMEDOUT ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ESTALE "
	"EUCLEAN ENOTNAM ENAVAIL EISNAM EREMOTEIO EDQUOT ENOMEDIUM EMEDIUMTYPE ECANCELED ENOKEY "
	"EKEYEXPIRED EKEYREVOKED EKEYREJECTED EOWNERDEAD ENOTRECOVERABLE ERFKILL EHWPOISON ";

static const struct symbol more_errnos[] = {
	{ "ERESTARTSYS", 11, ERRNO, 512 },
	{ "ERESTARTNOINTR", 14, ERRNO, 513 },
	{ "ERESTARTNOHAND", 14, ERRNO, 514 },
	{ "ENOIOCTLCMD", 11, ERRNO, 515 },
	{ "ERESTART_RESTARTBLOCK", 21, ERRNO, 516 },
	{ "ENOTSUPP", 8, ERRNO, 524 },
	{ "EWOULDBLOCK", 11, ERRNO, 11 },
	{ "EDEADLOCK", 9, ERRNO, 35 },
};

/* Signals 1..31 of x86-64, in order. */
static const char signal_names[] =
	"SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV "
	"SIGUSR2 "
	"SIGPIPE SIGALRM SIGTERM SIGSTKFLT SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG "
	"SIGXCPU SIGXFSZ SIGVTALRM SIGPROF SIGWINCH SIGIO SIGPWR SIGSYS ";

/* Twice the number of names and more, so that a probe ends soon. */
#define SLOTS 1024
static struct symbol table[SLOTS];
static pthread_once_t built = PTHREAD_ONCE_INIT;

/* FNV-1a, 32 bits. */
static inline uint32_t hash_more(uint32_t h, const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)s[i]) * 16777619u;
	return h;
}

static inline uint32_t hash_start(char kind)
{
	return (2166136261u ^ (unsigned char)kind) * 16777619u;
}

static inline uint32_t slot_of(uint32_t h)
{
	return (h ^ h >> 15) & (SLOTS - 1);
}

static void insert(struct symbol s)
{
	uint32_t i = slot_of(hash_more(hash_start(s.kind), s.name, s.len));

	while (table[i].name)
		i = (i + 1) & (SLOTS - 1);
	table[i] = s;
}

static void insert_all(const struct symbol *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		insert(s[i]);
}

/* Names separated by blanks, numbered from 1; "-" keeps a number free. */
static void insert_list(const char *names, char kind)
{
	uint64_t number = 1;

	for (const char *p = names; *p; number++) {
		size_t len = strcspn(p, " ");

		if (*p != '-')
			insert((struct symbol){ p, (uint8_t)len, kind, number });
		p += len + 1;
	}
}

static void build(void)
{
	for (int c = SM_SYS_OTHER + 1; c < SM_SYS_COUNT; c++) {
		const char *name = sm__call_specs[c].name;

		insert((struct symbol){ name, (uint8_t)strlen(name), CALL, (uint64_t)c });
	}
	insert_all(constants, SM__ARRAY_SIZE(constants));
	insert_all(more_constants, SM__ARRAY_SIZE(more_constants));
	insert_all(more_errnos, SM__ARRAY_SIZE(more_errnos));
	insert_list(errno_names, ERRNO);
	insert_list(signal_names, SIGNAL);
}

/* The symbol prefix + name, or NULL. */
static const struct symbol *find(char kind, const char *prefix, const char *name, size_t len)
{
	size_t plen = strlen(prefix);
	uint32_t i;

	pthread_once(&built, build);
	i = slot_of(hash_more(hash_more(hash_start(kind), prefix, plen), name, len));
	for (; table[i].name; i = (i + 1) & (SLOTS - 1)) {
		const struct symbol *s = &table[i];

		if (s->kind == kind && s->len == plen + len && !memcmp(s->name, prefix, plen) &&
		    !memcmp(s->name + plen, name, len))
			return s;
	}
	return NULL;
}

enum sm_trace_call sm__call_find(const char *name, size_t len)
{
	const struct symbol *s = find(CALL, "", name, len);

	return s ? (enum sm_trace_call)s->value : SM_SYS_OTHER;
}

bool sm__symbol_find(const char *prefix, const char *name, size_t len, uint64_t *value)
{
	const struct symbol *s = find(CONSTANT, prefix, name, len);

	*value = s ? s->value : 0;
	return s != NULL;
}

int sm__errno_find(const char *name, size_t len)
{
	const struct symbol *s = find(ERRNO, "", name, len);

	return s ? (int)s->value : 0;
}

int sm__signal_find(const char *name, size_t len)
{
	const struct symbol *s = find(SIGNAL, "", name, len);

	return s ? (int)s->value : 0;
}

const char *sm_trace_call_name(enum sm_trace_call call)
{
	return (unsigned)call < SM_SYS_COUNT ? sm__call_specs[call].name : "other";
}
