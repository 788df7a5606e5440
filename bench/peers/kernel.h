/* SPDX-License-Identifier: MIT */
/*
 * kernel.h - the running kernel's side of the benchmarks: real system calls and real faults.
 *
 * Run as samara-peer-kernel, so that they happen in a process with few mappings and one thread
 * (bench_kernel_side() of the harness), or called here. What an operation is, and what N counts:
 *
 *   syscall                 getpid: the floor of every call
 *   mmap-munmap[/touch]     map and unmap one anonymous page (touched in between): a pair
 *   mmap-munmap-among/N     the same among N one-page areas with holes: a pair
 *   mprotect-flip[/present] RW <-> R of a one-page area (page present or not): a call
 *   mprotect-split-merge[/present]
 *                           middle page of three, RW <-> R (one splits, the next merges): a call
 *   mremap-move             16 present pages moved between two places: a call
 *   brk-step                +1 page, -1 page: a call
 *   anon-fault[/T[,PAGES]]  first write to an anonymous page, T threads, each in its own areas of so
 *                           many pages (16384), mapped and unmapped untimed: a page of each thread
 *   anon-read-fault         first read (shared zero page): a page
 *   file-read-fault[/page]  read of a cached file, one fault (16 pages are mapped around); with
 *                           /page every page in turn: a page
 *   cow-fault[/anon]        write to a private file page that was read before (to an anonymous
 *                           page that a child shares): a page
 *   fork[/VMAS,MIB]         fork() of a process with so many areas and so much touched memory
 *                           (1000,64); the parent's time in the call: a fork
 *   fault-quiet             as anon-fault/1: a page
 *   fault-storm[/present]   the same while another thread flips mprotect on an untouched (present)
 *                           page of another area: a page
 *   madvise/ADVICE/BATCH[/tlb]
 *                           a touched buffer advised page by page; batch 0 is madvise(), B is
 *                           process_madvise() with B ranges; /tlb: a second thread runs: a page
 *   mmap-stress[/DELAY_NS,EVERY]
 *                           five one-page file areas mapped, read, unmapped (stress.h): a cycle;
 *                           nanoseconds of the mmap calls, then whole, p50, p99, p99.9, max
 *   app-cycle[/THREADS]     start and stop of an application with so many threads (app.h): a cycle
 *   page_fault1[/T], page_fault2[/T], page_fault3[/T], mmap1[/T], mmap2[/T], brk1[/T]
 *                           after the tests of that name in will-it-scale: page, page, page, pair,
 *                           pair, call, of each thread
 */
#ifndef BENCH_KERNEL_H
#define BENCH_KERNEL_H

#include "peer.h"

#include <stddef.h>

enum { KERNEL_PAGE = 4096 };

extern const struct peer_case kernel_cases[];

/* Maps anonymous private memory. Return: NULL after peer_fail(). */
char *kernel_map(size_t size, int prot);
/*
 * A file of that size without a name, its pages in the page cache. Return: descriptor, -1 after
 * peer_fail().
 */
int kernel_file(size_t size);
/* Return: number at text, or otherwise if there is none. */
uint64_t kernel_number(const char *text, uint64_t otherwise);

peer_run kernel_syscall, kernel_mmap_munmap, kernel_mmap_among, kernel_mprotect_flip,
	kernel_mprotect_split, kernel_mremap_move, kernel_brk_step;
peer_run kernel_anon_fault, kernel_anon_read_fault, kernel_file_read_fault, kernel_cow_fault,
	kernel_fork, kernel_fault_quiet, kernel_fault_storm;
peer_run kernel_madvise, kernel_mmap_stress, kernel_app_cycle;
peer_run kernel_page_fault1, kernel_page_fault2, kernel_page_fault3, kernel_mmap1, kernel_mmap2,
	kernel_brk1;

#endif
