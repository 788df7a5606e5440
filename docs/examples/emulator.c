/* SPDX-License-Identifier: MIT */
/*
 * emulator.c - how guest code reaches the memory of a space: a byte-code machine of four instructions
 * on two threads, each with a TLB, while the main thread changes the protection of their data.
 *
 *   cc emulator.c $(pkg-config --cflags --libs samara) -lpthread
 */
#include <samara/samara.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096u

enum { OP_ADD, OP_LOOP, OP_HALT };

/* One guest instruction: 16 bytes in guest memory. */
struct insn {
	uint32_t op, count;
	sm_addr addr;
};

struct cpu {
	struct sm_space *space;
	struct sm_tlb *tlb;
	sm_addr pc;
	uint64_t faults;
};

/* The host address of guest memory. On a miss the fault is handled, or the guest gets its signal. */
static void *reach(struct cpu *cpu, sm_addr addr, enum sm_access access)
{
	void *p = sm_translate(cpu->tlb, addr, access);

	while (!p) {
		struct sm_fault_result r = sm_tlb_fill(cpu->tlb, addr, access, &p);

		if (r.error) {
			fprintf(stderr, "out of memory at %#lx\n", (unsigned long)addr);
			exit(1);
		}
		/* What a real emulator delivers to the guest; this one waits until the page is writable. */
		if (r.signo == SIGSEGV) {
			cpu->faults++;
			sm_tlb_stop(cpu->tlb);
			sm_tlb_run(cpu->tlb);
		}
	}
	return p;
}

/* Runs until HALT. Between instructions is a checkpoint: no host address survives it. */
static void *run_guest(void *arg)
{
	struct cpu *cpu = arg;
	uint32_t left = 0;
	struct insn i;

	sm_tlb_run(cpu->tlb);
	for (;;) {
		memcpy(&i, reach(cpu, cpu->pc, SM_ACCESS_EXEC), sizeof(i));
		if (i.op == OP_HALT)
			break;
		if (i.op == OP_ADD) {
			__atomic_fetch_add((uint64_t *)reach(cpu, i.addr, SM_ACCESS_WRITE), 1,
					   __ATOMIC_RELAXED);
			cpu->pc += sizeof(i);
		} else {
			left = (left ? left : i.count) - 1;
			cpu->pc = left ? i.addr : cpu->pc + sizeof(i);
		}
		sm_tlb_checkpoint(cpu->tlb);
	}
	sm_tlb_stop(cpu->tlb);
	return NULL;
}

static sm_addr map(struct sm_space *space, uint64_t bytes, int prot)
{
	int64_t at = sm_mmap(space, 0, bytes, prot, SM_MAP_PRIVATE | SM_MAP_ANONYMOUS, NULL, 0);

	if (at < 0) {
		fprintf(stderr, "mmap: %s\n", strerror((int)-at));
		exit(1);
	}
	return (sm_addr)at;
}

int main(void)
{
	enum { GUESTS = 2, ROUNDS = 100000 };
	const int rw = SM_PROT_READ | SM_PROT_WRITE;
	struct sm_host *host = sm_host_create(NULL, NULL);
	struct sm_space_options options;
	struct sm_space *space;
	struct cpu cpu[GUESTS];
	pthread_t thread[GUESTS];
	struct insn program[3];
	sm_addr code, data;
	uint64_t sum = 0;

	sm_space_options_init(&options);
	options.backend = SM_BACKEND_SOFT;
	space = sm_space_create(host, &options, NULL);
	if (!space)
		return 1;
	code = map(space, PAGE, rw);
	data = map(space, PAGE, rw);
	program[0] = (struct insn){ OP_ADD, 0, data };
	program[1] = (struct insn){ OP_LOOP, ROUNDS, code };
	program[2] = (struct insn){ OP_HALT, 0, 0 };
	sm_write(space, code, program, sizeof(program), NULL);
	sm_mprotect(space, code, PAGE, SM_PROT_READ | SM_PROT_EXEC);

	for (int i = 0; i < GUESTS; i++) {
		cpu[i] = (struct cpu){ .space = space, .pc = code };
		if (sm_tlb_create(space, &cpu[i].tlb) ||
		    pthread_create(&thread[i], NULL, run_guest, &cpu[i]))
			return 1;
	}
	/* When mprotect returns, no guest writes any more: the sum stands still. */
	for (int round = 0; round < 50; round++) {
		uint64_t before, after;

		sm_mprotect(space, data, PAGE, SM_PROT_READ);
		sm_read(space, data, &before, sizeof(before), NULL);
		sm_read(space, data, &after, sizeof(after), NULL);
		if (before != after)
			return 1;
		sm_mprotect(space, data, PAGE, rw);
	}
	for (int i = 0; i < GUESTS; i++) {
		pthread_join(thread[i], NULL);
		sm_tlb_destroy(cpu[i].tlb);
	}
	sm_read(space, data, &sum, sizeof(sum), NULL);
	printf("%d guests, %d additions each: %lu, %lu faults for want of permission\n", GUESTS,
	       ROUNDS, (unsigned long)sum, (unsigned long)(cpu[0].faults + cpu[1].faults));
	sm_space_destroy(space);
	sm_host_destroy(host);
	return sum == (uint64_t)GUESTS * ROUNDS ? 0 : 1;
}
