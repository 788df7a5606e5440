/* SPDX-License-Identifier: MIT */
/*
 * machine.h - what a figure depends on and cannot be read off it: CPU, kernel, cores, virtual or
 * not.
 */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include "report/json.h"

struct bench_machine {
	char cpu[96];	   /* model name */
	char kernel[80];   /* release */
	char governor[32]; /* "" where there is none */
	char huge_pages[16];
	char hypervisor[48]; /* "" on bare metal */
	char compiler[64], build[32], version[32], date[32];
	unsigned online, allowed; /* CPUs of the machine, and those this process may use */
	unsigned page_size;
	unsigned long long memory;
	double load; /* one-minute load average at the start */
};

void bench_machine_read(struct bench_machine *m);
void bench_machine_json(const struct bench_machine *m, struct sm__json *j, const char *key);
/* One line for people. */
void bench_machine_print(const struct bench_machine *m, FILE *out);

/*
 * CPUs of equal capacity, biggest first: the little, medium and big cores of a phone, or the two
 * kinds of a hybrid PC (cpu_capacity, or the cpu_core and cpu_atom lists). One class where the
 * machine has no such distinction.
 */
struct bench_capacity {
	char name[24]; /* "all", or "capacity 1024", "core", "atom" */
	int cpu;       /* one allowed CPU of the class */
};
enum { BENCH_CLASSES = 4 };
unsigned bench_capacities(struct bench_capacity *classes);

#endif
