/* SPDX-License-Identifier: MIT */
/*
 * host.h - the owner of what several address spaces share: limits and memory figures of the
 * machine they believe to run on, the frame pool, the memory hooks, the node topology.
 *
 * A program makes one host (or several: a sandbox per tenant) and as many spaces in it as it
 * likes. Nothing in the library is global; two hosts share nothing but the RCU worker.
 */
#ifndef SAMARA_HOST_H
#define SAMARA_HOST_H

#include <samara/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sm_host;

/* /proc/sys/vm/overcommit_memory of the host that guests see. */
enum sm_overcommit {
	SM_OVERCOMMIT_GUESS = 0,  /* refuse only a single request beyond RAM + swap */
	SM_OVERCOMMIT_ALWAYS = 1, /* never refuse */
	SM_OVERCOMMIT_NEVER = 2,  /* strict limit, MAP_NORESERVE is not honoured */
};

/* Where page frames come from (used by spaces with the soft backend only). */
enum sm_frame_kind {
	SM_FRAMES_MEMFD = 0,   /* one memfd, mapped once: frames can be mapped elsewhere too */
	SM_FRAMES_PRIVATE = 1, /* private memory: a fork of the host process copies it */
};

/*
 * How the library gets large, aligned chunks of host memory. NULL members mean mmap and munmap.
 * The hooks may be called from any thread, under locks of the library; they must not call it back.
 */
struct sm_memory_hooks {
	/* Bytes and alignment are powers of two times the page size. Return: zeroed memory or NULL. */
	void *(*map)(void *arg, size_t bytes, size_t align);
	void (*unmap)(void *arg, void *p, size_t bytes);
	void *arg;
};

/*
 * Everything has a default, which sm_host_options_init() fills in: the figures of a Linux 6.18
 * machine with the RAM of this one. All sizes are in bytes unless the name says otherwise.
 */
struct sm_host_options {
	size_t size;	    /* sizeof(struct sm_host_options): lets the struct grow */
	uint64_t page_size; /* 4096, 16384 or 65536 */

	uint32_t max_map_count;	  /* vm.max_map_count; 65530 */
	uint64_t mmap_min_addr;	  /* vm.mmap_min_addr; 65536 */
	uint64_t stack_guard_gap; /* pages kept free below a growing stack; 256 */

	enum sm_overcommit overcommit;
	uint32_t overcommit_ratio; /* percent of RAM for SM_OVERCOMMIT_NEVER; 50 */
	uint64_t ram;		   /* of this machine */
	uint64_t swap;		   /* 0 */
	uint64_t admin_reserve;	   /* vm.admin_reserve_kbytes; 8 MiB */
	uint64_t user_reserve;	   /* vm.user_reserve_kbytes; 128 MiB */
	uint64_t huge_page;	   /* the size whose multiples mmap aligns to; 2 MiB, 0 = never */

	enum sm_frame_kind frames;
	uint64_t frame_bytes; /* size of the frame pool, below 2^32 pages; half of ram */
	uint32_t fake_nodes;  /* 0 = the machine's NUMA nodes; n = CPUs dealt out to n nodes */
	struct sm_memory_hooks memory;
};

struct sm_cache_stats;

/* By object and layer, and the two caches of each pool of maple nodes. */
enum { SM_HOST_CACHES = 16 };

/* Commit charge of all spaces of a host, in pages. */
struct sm_host_stats {
	uint64_t committed;    /* Committed_AS */
	uint64_t commit_limit; /* CommitLimit, computed for SM_OVERCOMMIT_NEVER */
	uint64_t spaces;       /* alive */
	uint64_t frames;       /* of the pool, in pages; 0 until a space has pages */
	uint64_t frames_used;  /* by spaces, page tables and the page cache */
};

/* Fills the defaults above. Context: any. Cost: reads the RAM size of the machine once. */
SM_API void sm_host_options_init(struct sm_host_options *options);

/*
 * Makes a host.
 * options: NULL for the defaults. why: receives a constant text that names the refused option, may
 *          be NULL.
 * Context: any thread; allocates.
 * Return: the host, or NULL with errno EINVAL (an option is refused) or ENOMEM.
 */
SM_API struct sm_host *sm_host_create(const struct sm_host_options *options, const char **why);

/*
 * Destroys a host.
 * Context: no call on it or its spaces runs or follows; waits for a grace period.
 * Return: 0, or -EBUSY while spaces of it are alive (nothing is done then).
 */
SM_API int sm_host_destroy(struct sm_host *host);

/*
 * bytes of fd become the swap file of the host's spaces: private pages that are paged out go there.
 * The descriptor is duplicated; what the file held is lost.
 * Context: any thread; allocates. Once per host.
 * Return: 0, -EBUSY (there is one), -EINVAL (less than two pages), -ENOMEM, -EMFILE.
 */
SM_API int sm_host_swap_on(struct sm_host *host, int fd, uint64_t bytes);

/*
 * Takes up to `pages` pages of all spaces out of memory, those that were not used lately first:
 * lazily freed pages are dropped, private pages written to the swap file, pages of files dropped,
 * those that guests have changed last, after they were written to their files.
 * Context: any thread, no lock; system calls; functions of files may run.
 * Return: how many frames became free.
 */
SM_API uint64_t sm_reclaim(struct sm_host *host, uint64_t pages);

/*
 * One pass over all MADV_MERGEABLE memory of the host: equal private pages share one frame until one
 * of them is written. sm_space_destroy of a space with such memory waits for the pass.
 * Context: any thread, no lock. Cost: a hash of every such page, a comparison of equal ones.
 * Return: how many pages gave up their frame; 0 while another pass of the host is under way.
 */
SM_API uint64_t sm_merge_pass(struct sm_host *host);

/*
 * Gives memory of the frame pool that nobody uses back to the machine, in blocks of at least 64 pages.
 * Context: any thread, no lock; system calls. Return: bytes given back.
 */
SM_API uint64_t sm_host_trim(struct sm_host *host);

/* Context: any thread, no signal handler. The figures are each exact, not taken together. */
SM_API void sm_host_stats(const struct sm_host *host, struct sm_host_stats *out);

/*
 * The counters of the object caches that the host's spaces have used so far (VMAs, their locks, maple
 * nodes), as /proc/slabinfo has them for a kernel. Spaces of different designs may have caches of one
 * name.
 * out: receives up to max of them.
 * Context: as sm_cache_stats.
 * Return: how many caches there are: at most SM_HOST_CACHES.
 */
SM_API unsigned int sm_host_cache_stats(struct sm_host *host, struct sm_cache_stats *out,
					unsigned int max);

#ifdef __cplusplus
}
#endif
#endif
