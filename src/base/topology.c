/* SPDX-License-Identifier: MIT */
/* topology.c - reads /sys/devices/system/{cpu,node}; without them one node and sysconf's CPUs. */
#include "base/topology.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CPU_MAX = 4096, NODE_MAX = 64 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned int cpus = 1;
static unsigned int nodes = 1;
static uint8_t node_of[CPU_MAX];

static bool read_file(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, buf, size - 1);
	close(fd);
	if (n <= 0)
		return false;
	buf[n] = '\0';
	return true;
}

/* Calls fn for each number of a list such as "0-3,8,10-11". */
static void for_each_in_list(const char *list, void (*fn)(unsigned int, unsigned int),
			     unsigned int arg)
{
	while (*list >= '0' && *list <= '9') {
		char *end;
		unsigned long first = strtoul(list, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (unsigned long i = first; i <= last && i < CPU_MAX; i++)
			fn((unsigned int)i, arg);
		if (*end != ',')
			break;
		list = end + 1;
	}
}

static void count_cpu(unsigned int cpu, unsigned int unused)
{
	(void)unused;
	if (cpu + 1 > cpus)
		cpus = cpu + 1;
}

static void place_cpu(unsigned int cpu, unsigned int node)
{
	node_of[cpu] = (uint8_t)node;
}

static void read_topology(void)
{
	int saved = errno;
	long conf = sysconf(_SC_NPROCESSORS_CONF);
	char path[64], list[4096];

	if (conf > 0)
		cpus = conf < CPU_MAX ? (unsigned int)conf : CPU_MAX;
	if (read_file("/sys/devices/system/cpu/possible", list, sizeof(list)))
		for_each_in_list(list, count_cpu, 0);
	for (unsigned int n = 0, index = 0; n < NODE_MAX; n++) {
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/cpulist", n);
		if (!read_file(path, list, sizeof(list)) || *list < '0' || *list > '9')
			continue; /* no such node, or one without CPUs */
		for_each_in_list(list, place_cpu, index);
		nodes = ++index;
	}
	errno = saved;
}

unsigned int sm__cpu_count(void)
{
	pthread_once(&once, read_topology);
	return cpus;
}

unsigned int sm__node_count(void)
{
	pthread_once(&once, read_topology);
	return nodes;
}

unsigned int sm__cpu_node(unsigned int cpu)
{
	pthread_once(&once, read_topology);
	return cpu < CPU_MAX ? node_of[cpu] : 0;
}
