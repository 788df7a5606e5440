/* SPDX-License-Identifier: MIT */
/* cmd_bench.c - samara bench: picks benchmarks, reads options, writes what they reported. */
#include "cmd.h"
#include "options.h"
#include "harness_internal.h"
#include "benchmarks.h"
#include "base/base.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define DECLARE(name) extern const struct benchmark bench_##name;
BENCHMARKS(DECLARE)
#undef DECLARE
#define ROW(name) &bench_##name,
static const struct benchmark *const benchmarks[] = { BENCHMARKS(ROW) };
#undef ROW

enum { RUNS = 15, RUNS_QUICK = 3, RUNS_ALL = 7, CPU_MOST = 4095 };
enum { SAME_INTERRUPT = 250000000 }; /* ns */

/* The field writes page_fault1, we page-fault1: both are understood. */
static bool same_name(const char *a, const char *b)
{
	while (*a && (*a == *b || (*a == '-' && *b == '_')))
		a++, b++;
	return *a == *b;
}

static const struct benchmark *find(const char *name)
{
	for (unsigned i = 0; i < SM__ARRAY_SIZE(benchmarks); i++) {
		if (same_name(benchmarks[i]->name, name))
			return benchmarks[i];
	}
	return NULL;
}

static void list(FILE *out)
{
	for (unsigned i = 0; i < SM__ARRAY_SIZE(benchmarks); i++)
		fprintf(out, "  %-14s %s\n", benchmarks[i]->name, benchmarks[i]->summary);
}

static void print_flags(FILE *out, const struct benchmark *what)
{
	static const char *const values[] = { "", " N", " TIME", " TEXT" };

	for (const struct bench_flag *f = what->flags; f->name; f++) {
		char left[40];

		snprintf(left, sizeof(left), "--%s%s", f->name, values[f->kind]);
		fprintf(out, "  %-20s %s\n", left, f->help);
	}
}

static void usage(FILE *out)
{
	fprintf(out,
		"usage: samara bench NAME... [OPTIONS]\n"
		"       samara bench all [OPTIONS]         every benchmark, within 20 minutes\n"
		"       samara bench list                  the benchmarks\n"
		"       samara bench NAME --help           the options of one\n"
		"       samara bench compare OLD.json NEW.json [--csv FILE] [--markdown]\n\n"
		"  --runs N             samples of each side (15; all: 7; quick: 3)\n"
		"  --cpu N              CPU of the measuring thread (the last one allowed)\n"
		"  --quick              a few seconds: shows that it works, not how fast\n"
		"  --filter TEXT        only cases whose name holds TEXT\n"
		"  --json FILE          rows, spread and machine facts as JSON (- is stdout)\n"
		"  --csv FILE           the rows as CSV\n"
		"  --markdown           the table as Markdown\n\n"
		"Exit status: 0 fine, 2 usage, a benchmark that failed, or an interrupt.\n");
}

/* ---- options ---- */

struct request {
	const struct benchmark *chosen[SM__ARRAY_SIZE(benchmarks)];
	unsigned n;
	bool help;
	int cpu;
	struct bench_session session;
};

static int refuse(const char *what, const char *text)
{
	return complain("%s '%s'", what, text);
}

static bool parse_time(const char *text)
{
	char *end;
	double value = strtod(text, &end);

	return end != text && value >= 0 && value < 1e12 &&
	       (!strcmp(end, "ns") || !strcmp(end, "us") || !strcmp(end, "ms") ||
		!strcmp(end, "s") || !strcmp(text, "0"));
}

static const struct bench_flag *find_flag(const struct request *r, const char *name, size_t length)
{
	for (unsigned i = 0; i < r->n; i++) {
		for (const struct bench_flag *f = r->chosen[i]->flags; f->name; f++) {
			if (strlen(f->name) == length && !strncmp(f->name, name, length))
				return f;
		}
	}
	return NULL;
}

static int own_flag(struct request *r, const struct bench_flag *f, const char *value)
{
	struct bench_session *s = &r->session;
	uint64_t number;

	if (f->kind == BENCH_NUMBER && !parse_number(f->name, value, 0, UINT64_MAX, &number))
		return EXIT_UNUSABLE;
	if (f->kind == BENCH_TIME && !parse_time(value))
		return refuse("not a time (500us, 10ms, 2s):", value);
	if (s->n_values == SM__ARRAY_SIZE(s->values))
		return refuse("too many options at", f->name);
	s->values[s->n_values++] = (struct bench_value){ f->name, value };
	return 0;
}

/* Common options with a value. Return: -1 if the name is not one of them. */
static int common_option(struct request *r, const char *name, const char *value)
{
	struct bench_options *o = &r->session.options;
	uint64_t number;

	if (!strcmp(name, "json")) {
		o->json = value;
	} else if (!strcmp(name, "csv")) {
		o->csv = value;
	} else if (!strcmp(name, "filter")) {
		o->filter = value;
	} else if (!strcmp(name, "runs")) {
		if (!parse_number(name, value, 1, BENCH_RUNS_MOST, &number))
			return EXIT_UNUSABLE;
		o->runs = (unsigned)number;
	} else if (!strcmp(name, "cpu")) {
		if (!parse_number(name, value, 0, CPU_MOST, &number))
			return EXIT_UNUSABLE;
		r->cpu = (int)number;
	} else {
		return -1;
	}
	return 0;
}

static bool plain_switch(struct request *r, const char *name)
{
	struct bench_options *o = &r->session.options;

	if (!strcmp(name, "quick"))
		o->quick = true;
	else if (!strcmp(name, "markdown"))
		o->markdown = true;
	else if (!strcmp(name, "help"))
		r->help = true;
	else
		return false;
	return true;
}

/* One "--name", "--name=value" or "--name value" at argv[*i]. */
static int option(struct request *r, int argc, char **argv, int *i)
{
	const char *arg = argv[*i] + 2, *equals = strchr(arg, '=');
	size_t length = equals ? (size_t)(equals - arg) : strlen(arg);
	const struct bench_flag *flag = find_flag(r, arg, length);
	const char *value = equals ? equals + 1 : NULL;
	char name[32];
	int at = *i, result;

	snprintf(name, sizeof(name), "%.*s", (int)length, arg);
	if (!equals && plain_switch(r, name))
		return 0;
	if (flag && flag->kind == BENCH_SWITCH)
		return equals ? refuse("takes no value:", argv[*i]) : own_flag(r, flag, "true");
	if (!value && *i + 1 < argc)
		value = argv[++*i];
	if (flag && value)
		return own_flag(r, flag, value);
	if (!value)
		return refuse("no option, or its value is missing:", argv[*i]);
	result = common_option(r, name, value);
	return result < 0 ? refuse("no option", argv[at]) : result;
}

static int choose(struct request *r, const char *name)
{
	const struct benchmark *what = find(name);

	if (!strcmp(name, "all")) {
		r->session.options.all = true;
		for (unsigned i = 0; i < SM__ARRAY_SIZE(benchmarks); i++)
			r->chosen[r->n++] = benchmarks[i];
		return 0;
	}
	if (!what)
		return complain("no benchmark '%s'; samara bench list lists them", name);
	for (unsigned i = 0; i < r->n; i++) {
		if (r->chosen[i] == what)
			return refuse("twice the same benchmark:", name);
	}
	r->chosen[r->n++] = what;
	return 0;
}

static int parse(struct request *r, int argc, char **argv)
{
	struct bench_options *o = &r->session.options;
	int result = 0;
	int i = 1;

	for (; i < argc && argv[i][0] != '-' && !result; i++) {
		if (o->all)
			return refuse("no benchmark stands beside 'all', not", argv[i]);
		if (r->n && !strcmp(argv[i], "all"))
			return refuse("no benchmark stands beside", argv[i]);
		result = choose(r, argv[i]);
	}
	for (; i < argc && !result; i++) {
		if (!strcmp(argv[i], "-h"))
			r->help = true;
		else if (argv[i][0] != '-')
			return refuse("benchmarks come before options, not", argv[i]);
		else if (strncmp(argv[i], "--", 2))
			return refuse("no option", argv[i]);
		else
			result = option(r, argc, argv, &i);
	}
	if (!o->runs)
		o->runs = o->quick ? RUNS_QUICK : o->all ? RUNS_ALL : RUNS;
	return result;
}

/* ---- the run ---- */

/*
 * The first interrupt ends the run in order (peers, files); one that comes later ends it at once.
 * What follows within SAME_INTERRUPT is the first one again: timeout(1) signals the command and then
 * the command's whole process group.
 */
static void interrupted(int number)
{
	static uint64_t first; /* any thread may be the one that is interrupted */
	uint64_t now = bench_now(), was = 0;

	bench_interrupt = 1;
	if (!__atomic_compare_exchange_n(&first, &was, now, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED) &&
	    now > was + SAME_INTERRUPT) {
		signal(number, SIG_DFL);
		raise(number); /* blocked here: taken when the handler returns */
	}
}

static void handle_signals(void)
{
	struct sigaction stop = { .sa_handler = interrupted };

	sigaddset(&stop.sa_mask, SIGINT);
	sigaddset(&stop.sa_mask, SIGTERM);
	sigaction(SIGINT, &stop, NULL);
	sigaction(SIGTERM, &stop, NULL);
	signal(SIGPIPE, SIG_IGN); /* a peer that ended is an error of its side, not of the run */
}

static int place(struct request *r)
{
	struct bench_cpus cpus;

	if (!bench_cpus_allowed(&cpus, r->cpu)) {
		return complain("CPU %d is not one this process may run on", r->cpu);
	}
	bench_cpus_set(&cpus);
	return 0;
}

static unsigned estimate(const struct request *r, unsigned from)
{
	unsigned seconds = 0;

	for (unsigned i = from; i < r->n; i++)
		seconds += r->chosen[i]->seconds;
	return seconds;
}

static int run_chosen(struct request *r)
{
	struct bench_session *s = &r->session;
	FILE *out = (s->options.json && !strcmp(s->options.json, "-")) ||
				    (s->options.csv && !strcmp(s->options.csv, "-"))
			    ? stderr
			    : stdout;
	int result = EXIT_SAME;

	s->started = bench_now();
	bench_machine_print(&s->machine, out);
	for (unsigned i = 0; i < r->n && !bench_interrupt; i++) {
		unsigned first = s->n_records, notes = s->n_notes;

		s->later = estimate(r, i + 1);
		s->done = estimate(r, 0) - estimate(r, i);
		if (bench_run(s, r->chosen[i]))
			result = EXIT_UNUSABLE;
		fprintf(out, "\n%s: %s\n", r->chosen[i]->name, r->chosen[i]->summary);
		if (s->n_records > first)
			bench_print_rows(s, first, out);
		for (; notes < s->n_notes; notes++)
			fprintf(out, "note: %s\n", s->notes[notes]);
		fflush(out);
	}
	return result;
}

/* Found out before the measuring, not after it: an output that cannot be written. */
static int try_output(const char *path)
{
	FILE *f = path && strcmp(path, "-") ? fopen(path, "ae") : NULL; /* keeps what is there */

	if (path && strcmp(path, "-") && !f)
		return complain("%s: %s", path, strerror(errno));
	if (f)
		fclose(f);
	return 0;
}

static int try_outputs(const struct bench_options *o)
{
	int result = try_output(o->json);

	if (!result)
		result = try_output(o->csv);
	if (!result && o->json && o->csv && same_file(o->json, o->csv))
		result = complain("--json and --csv cannot both be %s", o->csv);
	return result;
}

static int bench_benchmarks(struct request *r)
{
	struct bench_session *s = &r->session;
	const char *name = s->options.all ? "all" : r->n == 1 ? r->chosen[0]->name : "several";
	int result;

	bench_machine_read(&s->machine);
	result = place(r);
	if (!result)
		result = try_outputs(&s->options);
	if (result)
		return result;
	handle_signals();
	result = run_chosen(r);
	if (!result && !s->n_records && s->options.filter)
		result = refuse("no case has in its name what --filter asks for:",
				s->options.filter);
	if (s->options.json && bench_write_json(s, name, s->options.json))
		result = EXIT_UNUSABLE;
	if (s->options.csv && bench_write_csv(s, s->options.csv))
		result = EXIT_UNUSABLE;
	return result;
}

static int compare(int argc, char **argv)
{
	const char *files[2] = { NULL, NULL };
	struct bench_options o = { 0 };
	unsigned n = 0;

	for (int i = 2; i < argc; i++) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return usage(stdout), EXIT_SAME;
		if (!strcmp(argv[i], "--markdown"))
			o.markdown = true;
		else if (!strcmp(argv[i], "--csv") && i + 1 < argc)
			o.csv = argv[++i];
		else if (argv[i][0] == '-' && argv[i][1])
			return refuse("compare has no option", argv[i]);
		else if (n == 2)
			return refuse("compare takes two files, not also", argv[i]);
		else
			files[n++] = argv[i];
	}
	for (unsigned i = 0; i < n && o.csv; i++) {
		if (same_file(o.csv, files[i]))
			return complain("%s is to be compared: it would be lost", o.csv);
	}
	if (n != 2)
		return complain("compare takes two files, OLD.json NEW.json");
	return bench_compare(files[0], files[1], stdout, &o);
}

int cmd_bench(int argc, char **argv)
{
	struct request r = { .cpu = -1 };
	int result;

	if (argc >= 2 && !strcmp(argv[1], "list")) {
		if (argc > 2)
			return refuse("list takes nothing, not", argv[2]);
		list(stdout);
		return EXIT_SAME;
	}
	if (argc >= 2 && !strcmp(argv[1], "compare"))
		return compare(argc, argv);
	result = parse(&r, argc, argv);
	if (!result && r.help) {
		usage(stdout);
		if (!r.n || r.session.options.all)
			list(stdout);
		for (unsigned i = 0; i < r.n && !r.session.options.all; i++) {
			printf("\n%s: %s\n", r.chosen[i]->name, r.chosen[i]->summary);
			print_flags(stdout, r.chosen[i]);
		}
	} else if (!result && !r.n) {
		usage(stderr);
		list(stderr);
		result = EXIT_UNUSABLE;
	} else if (!result) {
		result = bench_benchmarks(&r);
	}
	bench_session_free(&r.session);
	return result;
}
