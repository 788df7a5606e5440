/* SPDX-License-Identifier: MIT */
/*
 * space_lookup.c - two address spaces of different kernel generations in one process: the same calls, the same
 * map; and a look-up that takes no lock, from a signal handler too.
 */
#include <samara/samara.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define AN (SM_MAP_PRIVATE | SM_MAP_ANONYMOUS)
#define RW (SM_PROT_READ | SM_PROT_WRITE)

static struct sm_space *space;
static sm_addr heap;
static volatile int found = -1;

/* A crash reporter asks whose memory it was: no lock, whatever the thread was doing. */
static void handler(int signo)
{
	struct sm_vma_info info;

	(void)signo;
	if (sm_lookup(space, heap + 5000, &info) == 0)
		found = info.tag == 42;
}

static void use(struct sm_space *s, char *text, size_t size)
{
	heap = (sm_addr)sm_mmap_tagged(s, 0, 1 << 20, RW, AN, NULL, 0, 42);
	sm_mprotect(s, heap + (1 << 16), 4096, SM_PROT_NONE); /* a guard page: three areas now */
	sm_fault(s, heap, SM_ACCESS_WRITE);
	sm_maps(s, text, size);
}

int main(void)
{
	static const char *const designs[] = { "linux-5.19", "linux-6.18,node-free=call_rcu" };
	struct sm_host *host = sm_host_create(NULL, NULL);
	char text[2][1024], why[100];

	for (int i = 0; i < 2; i++) {
		struct sm_space_options o;

		sm_space_options_init(&o);
		if (sm_design_parse(designs[i], &o.design, why, sizeof(why))) {
			fprintf(stderr, "%s: %s\n", designs[i], why);
			return 1;
		}
		sm_space_destroy(space);
		space = sm_space_create(host, &o, NULL);
		if (!space)
			return 1;
		use(space, text[i], sizeof(text[i]));
	}
	printf("%s", text[1]);
	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	printf("look-up in the handler: %s\n", found == 1 ? "the heap" : "nothing");
	sm_space_destroy(space);
	sm_host_destroy(host);
	return strcmp(text[0], text[1]) != 0 || found != 1;
}
