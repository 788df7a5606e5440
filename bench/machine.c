/* SPDX-License-Identifier: MIT */
/* machine.c - reads the facts of machine.h from /proc and /sys; what is not there stays empty. */
#include "machine.h"
#include "base/base.h"
#include "peers/measure.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* The first line of a file, without its line break. Return: false if it cannot be read. */
static bool first_line(const char *path, char *buf, size_t size)
{
	FILE *f = fopen(path, "re");
	bool got;

	buf[0] = '\0';
	if (!f)
		return false;
	got = fgets(buf, (int)size, f) != NULL;
	fclose(f);
	buf[strcspn(buf, "\n")] = '\0';
	return got;
}

static void copy_value(char *to, size_t size, const char *line)
{
	const char *value = strchr(line, ':');

	if (!value)
		return;
	value += 1 + strspn(value + 1, " \t");
	snprintf(to, size, "%.*s", (int)strcspn(value, "\n"), value);
}

static void read_cpu(struct bench_machine *m)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[4096];
	bool hypervisor = false;

	while (f && fgets(line, sizeof(line), f)) {
		if (!m->cpu[0] && !strncmp(line, "model name", 10))
			copy_value(m->cpu, sizeof(m->cpu), line);
		if (!strncmp(line, "flags", 5))
			hypervisor = strstr(line, " hypervisor") != NULL;
	}
	if (f)
		fclose(f);
	if (hypervisor &&
	    !first_line("/sys/class/dmi/id/sys_vendor", m->hypervisor, sizeof(m->hypervisor)))
		strcpy(m->hypervisor, "yes");
}

/* "always [madvise] never" -> "madvise" */
static void read_huge_pages(struct bench_machine *m)
{
	char line[64];
	const char *from;

	if (!first_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof(line)))
		return;
	from = strchr(line, '[');
	if (from)
		snprintf(m->huge_pages, sizeof(m->huge_pages), "%.*s", (int)strcspn(from + 1, "]"),
			 from + 1);
}

void bench_machine_read(struct bench_machine *m)
{
	struct bench_cpus cpus;
	struct utsname u;
	time_t now = time(NULL);
	struct tm tm;

	memset(m, 0, sizeof(*m));
	read_cpu(m);
	read_huge_pages(m);
	first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", m->governor,
		   sizeof(m->governor));
	if (!uname(&u))
		snprintf(m->kernel, sizeof(m->kernel), "%.79s", u.release);
	if (!bench_cpus_allowed(&cpus, -1))
		cpus.n = 1;
	m->allowed = cpus.n;
	m->online = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	m->page_size = (unsigned)sysconf(_SC_PAGESIZE);
	m->memory = (unsigned long long)sysconf(_SC_PHYS_PAGES) * m->page_size;
	if (getloadavg(&m->load, 1) != 1)
		m->load = 0;
	snprintf(m->compiler, sizeof(m->compiler), "%.60s", __VERSION__);
	strcpy(m->build, SM_VALIDATE ? "validating" : SM_ASAN || SM_TSAN ? "sanitized" : "release");
	snprintf(m->version, sizeof(m->version), "%s", SAMARA_VERSION);
	if (gmtime_r(&now, &tm))
		strftime(m->date, sizeof(m->date), "%Y-%m-%dT%H:%M:%SZ", &tm);
}

void bench_machine_json(const struct bench_machine *m, struct sm__json *j, const char *key)
{
	sm__json_open(j, key, '{');
	sm__json_text(j, "cpu", m->cpu);
	sm__json_text(j, "kernel", m->kernel);
	sm__json_uint(j, "cores", m->online);
	sm__json_uint(j, "cores_allowed", m->allowed);
	sm__json_bool(j, "virtual", m->hypervisor[0] != '\0');
	sm__json_text(j, "hypervisor", m->hypervisor[0] ? m->hypervisor : NULL);
	sm__json_text(j, "governor", m->governor[0] ? m->governor : NULL);
	sm__json_text(j, "transparent_huge_pages", m->huge_pages[0] ? m->huge_pages : NULL);
	sm__json_uint(j, "page_size", m->page_size);
	sm__json_uint(j, "memory_bytes", m->memory);
	sm__json_number(j, "load_1min", m->load);
	sm__json_text(j, "compiler", m->compiler);
	sm__json_text(j, "build", m->build);
	sm__json_text(j, "samara", m->version);
	sm__json_text(j, "date", m->date);
	sm__json_close(j);
}

void bench_machine_print(const struct bench_machine *m, FILE *out)
{
	fprintf(out, "%s, %u CPU%s%s, Linux %s%s%s, %s, load %.2f%s\n", m->cpu[0] ? m->cpu : "CPU",
		m->online, m->online == 1 ? "" : "s", m->hypervisor[0] ? " (virtual)" : "",
		m->kernel, m->governor[0] ? ", governor " : "", m->governor, m->build, m->load,
		strcmp(m->build, "release") ? ": figures of a build made for checking" : "");
}

/* Parses "0-3,8" and says whether cpu is in it. */
static bool in_list(const char *list, int cpu)
{
	while (*list) {
		char *end;
		long first = strtol(list, &end, 10), last = first;

		if (end == list)
			return false;
		if (*end == '-')
			last = strtol(end + 1, &end, 10);
		if (cpu >= first && cpu <= last)
			return true;
		list = *end ? end + 1 : end;
	}
	return false;
}

static void class_of(int cpu, char *name, size_t size)
{
	static const char *const kinds[] = { "core", "atom" };
	char path[96], line[256];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/cpu_capacity", cpu);
	if (first_line(path, line, sizeof(line))) {
		snprintf(name, size, "capacity %.8s", line);
		return;
	}
	for (unsigned k = 0; k < SM__ARRAY_SIZE(kinds); k++) {
		snprintf(path, sizeof(path), "/sys/devices/cpu_%s/cpus", kinds[k]);
		if (first_line(path, line, sizeof(line)) && in_list(line, cpu)) {
			snprintf(name, size, "%s", kinds[k]);
			return;
		}
	}
	snprintf(name, size, "all");
}

unsigned bench_capacities(struct bench_capacity *classes)
{
	const struct bench_cpus *cpus = bench_cpus();
	unsigned n = 0;

	for (unsigned i = 0; i < cpus->n && n < BENCH_CLASSES; i++) {
		unsigned c;

		class_of(cpus->cpu[i], classes[n].name, sizeof(classes[n].name));
		for (c = 0; c < n && strcmp(classes[c].name, classes[n].name); c++)
			;
		if (c == n)
			classes[n++].cpu = cpus->cpu[i];
	}
	return n;
}
