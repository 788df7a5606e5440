/* SPDX-License-Identifier: MIT */
/* cmd_replay.c - samara replay: makes the calls of recordings on the library, under one design or more. */
#include "cmd.h"
#include "load.h"
#include "options.h"
#include "replay_report.h"
#include "report/html.h"
#include "base/base.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { REPEAT_MAX = 1000 };

/* Files that are filled while recordings are replayed. X(NAME, option, JSON: the array in it) */
#define OUTPUTS(X)                             \
	X(JSON, "json", "recordings")          \
	X(PERFETTO, "perfetto", "traceEvents") \
	X(HTML, "html", NULL)
enum {
#define OUTPUT_NUMBER(NAME, option, array) NAME,
	OUTPUTS(OUTPUT_NUMBER)
#undef OUTPUT_NUMBER
		OUTPUT_COUNT
};

struct request {
	char designs[DESIGNS_MAX][DESIGN_TEXT];
	struct sm_design design[DESIGNS_MAX];
	unsigned ndesigns;
	bool parallel, strict, maps;
	enum sm__touch_pages touch;
	const char *touch_text;
	uint64_t repeat, differences;
	const char *output[OUTPUT_COUNT]; /* NULL: not asked for; "-": stdout */
};

static void usage(FILE *out)
{
	fprintf(out, "usage: samara replay [OPTIONS] FILE...\n\n"
		     "Makes the calls of recordings (strace or perf trace -F all, plain or "
		     "compressed) on the\n"
		     "library and compares every result. Files NAME.PID side by side are one "
		     "recording.\n\n"
		     "  --design A,B,...         designs, side by side: presets, or "
		     "preset,switch=value\n"
		     "  --threads 1|as-recorded  one thread in the recorded order; or one per "
		     "recorded thread\n"
		     "                           (as-recorded)\n"
		     "  --touch none|first|all   pages to fault in where memory is given, if the "
		     "recording\n"
		     "                           has no faults of its own (none)\n"
		     "  --repeat N               runs of each design; the middle one is shown (1)\n"
		     "  --differences N          list at most N differences (20)\n"
		     "  --maps                   print the final maps\n"
		     "  --strict                 a line that cannot be read ends it\n"
		     "  --json FILE              everything as JSON (- is stdout, instead of the "
		     "tables)\n"
		     "  --html FILE              one page with the tables and pictures of them\n"
		     "  --perfetto FILE          a time line of calls and waits, for Perfetto\n\n"
		     "Exit status: 0 every result explained, 1 differences, 2 usage or unreadable "
		     "input.\n");
}

static bool add_design(struct request *q, const char *name)
{
	if (q->ndesigns == DESIGNS_MAX)
		return complain("more than %d designs", DESIGNS_MAX), false;
	if (strlen(name) >= DESIGN_TEXT)
		return complain("design '%s': the text is too long", name), false;
	strcpy(q->designs[q->ndesigns++], name);
	return true;
}

/* "switch=value" belongs to the design before it. */
static bool change_design(char design[DESIGN_TEXT], const char *change)
{
	size_t len = strlen(design);

	if (snprintf(design + len, DESIGN_TEXT - len, ",%s", change) < (int)(DESIGN_TEXT - len))
		return true;
	complain("design '%s': the text is too long", design);
	return false;
}

/* "a,b,c=d,e", or "all" */
static bool add_designs(struct request *q, char *text)
{
	bool fine = true;
	char *part;

	if (!strcmp(text, "all")) {
		for (unsigned i = 0; fine && i < sm_design_preset_count(); i++)
			fine = add_design(q, sm_design_preset_name(i));
		return fine;
	}
	while (fine && (part = strsep(&text, ","))) {
		if (strchr(part, '=') && q->ndesigns)
			fine = change_design(q->designs[q->ndesigns - 1], part);
		else
			fine = add_design(q, part);
	}
	return fine;
}

static bool parse_threads(struct request *q, const char *text)
{
	q->parallel = !strcmp(text, "as-recorded");
	if (q->parallel || !strcmp(text, "1"))
		return true;
	complain("--threads is 1 or as-recorded, not '%s'", text);
	return false;
}

static bool parse_touch(struct request *q, const char *text)
{
	static const char *const names[] = { "none", "first", "all" };

	for (unsigned i = 0; i < SM__ARRAY_SIZE(names); i++) {
		if (!strcmp(text, names[i])) {
			q->touch = (enum sm__touch_pages)i;
			q->touch_text = names[i];
			return true;
		}
	}
	complain("--touch is none, first or all, not '%s'", text);
	return false;
}

static const struct option options[] = {
	{ "design", required_argument, NULL, 'd' },
	{ "threads", required_argument, NULL, 't' },
	{ "touch", required_argument, NULL, 'p' },
	{ "repeat", required_argument, NULL, 'r' },
	{ "differences", required_argument, NULL, 'n' },
	{ "maps", no_argument, NULL, 'm' },
	{ "strict", no_argument, NULL, 's' },
#define OUTPUT_OPTION(NAME, option, array) { option, required_argument, NULL, 256 + NAME },
	OUTPUTS(OUTPUT_OPTION)
#undef OUTPUT_OPTION
		{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

/* One option: false means it is wrong, and has been said. */
static bool take_option(struct request *q, int opt)
{
	if (opt >= 256) {
		q->output[opt - 256] = optarg;
		return true;
	}
	switch (opt) {
	case 'd':
		return add_designs(q, optarg);
	case 't':
		return parse_threads(q, optarg);
	case 'p':
		return parse_touch(q, optarg);
	case 'r':
		return parse_number("repeat", optarg, 1, REPEAT_MAX, &q->repeat);
	case 'n':
		return parse_number("differences", optarg, 0, SM__DIFFERENCES_MAX, &q->differences);
	case 'm':
		return q->maps = true;
	case 's':
		return q->strict = true;
	default: /* getopt has told */
		return false;
	}
}

static bool finish_request(struct request *q)
{
	if (!q->ndesigns)
		snprintf(q->designs[q->ndesigns++], DESIGN_TEXT, "samara");
	for (unsigned i = 0; i < q->ndesigns; i++) {
		if (!parse_design(q->designs[i], &q->design[i]))
			return false;
	}
	return true;
}

/* ---- runs ---- */

static void progress(void *arg, uint64_t done, uint64_t total)
{
	(void)arg;
	if (total > 100000)
		show_progress("replaying", done, total);
}

static bool same_maps(const struct sm__replay_result *a, const struct sm__replay_result *b)
{
	if (a->nspaces != b->nspaces)
		return false;
	for (size_t i = 0; i < a->nspaces; i++) {
		if (a->spaces[i].mm != b->spaces[i].mm || !a->spaces[i].maps ||
		    !b->spaces[i].maps || strcmp(a->spaces[i].maps, b->spaces[i].maps))
			return false;
	}
	return true;
}

static void free_result(struct sm__replay_result *r)
{
	if (r)
		sm__replay_result_free(r);
	free(r);
}

/* The run in the middle by wall time of results[0..n); the others are freed. */
static void pick_middle(struct runs *runs, struct sm__replay_result **results, unsigned n)
{
	for (unsigned i = 1; i < n; i++) {
		for (unsigned k = i; k && results[k - 1]->wall_ns > results[k]->wall_ns; k--) {
			struct sm__replay_result *swap = results[k];

			results[k] = results[k - 1];
			results[k - 1] = swap;
		}
	}
	runs->wall_min_ns = results[0]->wall_ns;
	runs->wall_max_ns = results[n - 1]->wall_ns;
	runs->n = n;
	runs->same_maps = true;
	for (unsigned i = 1; i < n; i++)
		runs->same_maps &= same_maps(results[0], results[i]);
	runs->best = results[n / 2];
	for (unsigned i = 0; i < n; i++) {
		if (i != n / 2)
			free_result(results[i]);
	}
}

static bool has_faults(const struct sm__recording *rec)
{
	return rec->counts[SM_SYS_PAGE_FAULT] != 0;
}

static struct sm__replay_result *run_once(const struct request *q, const struct sm__recording *rec,
					  unsigned d)
{
	bool faults = has_faults(rec);
	struct sm__replay_options o = {
		.design = q->design[d],
		.parallel = q->parallel,
		.touch = faults ? SM__TOUCH_NONE : q->touch,
		.backend = faults || q->touch ? SM_BACKEND_SOFT : SM_BACKEND_NONE,
		.lock_stats = true,
		.samples = q->output[JSON] || q->output[PERFETTO] || q->output[HTML],
		.timeline = q->output[PERFETTO] || q->output[HTML],
		.stop_after = UINT64_MAX,
		.progress = progress,
	};
	struct sm__replay_result *r = malloc(sizeof(*r));

	if (!r || sm__replay(rec, &o, r)) {
		complain("%s: %s", q->designs[d], r ? r->error : "out of memory");
		free_result(r);
		return NULL;
	}
	return r;
}

/* All runs of all designs, taking turns. */
static bool run_all(const struct request *q, const struct sm__recording *rec, struct runs *runs)
{
	struct sm__replay_result **results =
		calloc((size_t)q->ndesigns * q->repeat, sizeof(struct sm__replay_result *));
	bool fine = results != NULL;

	for (unsigned i = 0; fine && i < q->repeat; i++) {
		for (unsigned d = 0; fine && d < q->ndesigns; d++) {
			results[d * q->repeat + i] = run_once(q, rec, d);
			fine = results[d * q->repeat + i] != NULL;
		}
	}
	for (unsigned d = 0; fine && d < q->ndesigns; d++) {
		snprintf(runs[d].design, sizeof(runs[d].design), "%s", q->designs[d]);
		pick_middle(&runs[d], &results[d * q->repeat], (unsigned)q->repeat);
	}
	for (unsigned i = 0; !fine && results && i < q->ndesigns * q->repeat; i++)
		free_result(results[i]);
	free(results);
	if (rec->ncalls > 100000)
		show_progress("replaying", 1, 1);
	return fine;
}

/* What the runs say about each other: the exit status. */
static int verdict(const struct sm__recording *rec, const struct runs *runs, unsigned n)
{
	int status = rec->stats.truncated ? EXIT_UNUSABLE : EXIT_SAME;

	for (unsigned d = 0; d < n; d++) {
		if (!runs[d].same_maps) {
			complain("%s: the runs ended with different maps", runs[d].design);
			status = status ? status : EXIT_DIFFERENT;
		}
		if (!same_maps(runs[0].best, runs[d].best)) {
			complain("%s and %s ended with different maps", runs[0].design,
				 runs[d].design);
			status = status ? status : EXIT_DIFFERENT;
		}
		if (runs[d].best->whys[SM__WHY_UNEXPLAINED])
			status = status ? status : EXIT_DIFFERENT;
	}
	return status;
}

struct sink {
	const char *name;  /* NULL: not asked for */
	const char *array; /* NULL: a page, not JSON */
	FILE *out;
	struct sm__json j;
};

/* Opens the file and in it a page, or an object with one array. */
static bool sink_open(struct sink *sink, const char *name, const char *array)
{
	sink->name = name;
	sink->array = array;
	if (!name)
		return true;
	sink->out = strcmp(name, "-") ? fopen(name, "we") : stdout;
	if (!sink->out) {
		complain("%s: %s", name, strerror(errno));
		return false;
	}
	if (!array) {
		sm__html_begin(sink->out, "samara replay");
		return true;
	}
	sm__json_init(&sink->j, sink->out);
	sm__json_open(&sink->j, NULL, '{');
	sm__json_text(&sink->j, "samara", SAMARA_VERSION);
	sm__json_open(&sink->j, array, '[');
	return true;
}

static bool sink_close(struct sink *sink)
{
	bool fine;

	if (!sink->out)
		return true;
	if (sink->array) {
		sm__json_close(&sink->j);
		sm__json_close(&sink->j);
		fine = !sm__json_finish(&sink->j);
	} else {
		fine = !sm__html_end(sink->out);
	}
	if (sink->out == stdout)
		return true; /* close_stdout() tells */
	fine &= !fclose(sink->out);
	if (!fine)
		complain("%s: cannot be written", sink->name);
	return fine;
}

static bool open_sinks(const struct request *q, struct sink sinks[OUTPUT_COUNT])
{
	static const char *const arrays[] = {
#define OUTPUT_ARRAY(NAME, option, array) array,
		OUTPUTS(OUTPUT_ARRAY)
#undef OUTPUT_ARRAY
	};

	for (int i = 0; i < OUTPUT_COUNT; i++) {
		if (!sink_open(&sinks[i], q->output[i], arrays[i]))
			return false;
	}
	return true;
}

static bool to_stdout(const struct request *q)
{
	for (int i = 0; i < OUTPUT_COUNT; i++) {
		if (q->output[i] && !strcmp(q->output[i], "-"))
			return true;
	}
	return false;
}

/* An output that is a recording would be emptied before it is read; two in one file, unreadable. */
static bool outputs_are_apart(const struct request *q, char *const *files, size_t n)
{
	for (int i = 0; i < OUTPUT_COUNT; i++) {
		const char *name = q->output[i];

		if (!name)
			continue;
		for (size_t f = 0; strcmp(name, "-") && f < n; f++) {
			if (same_file(name, files[f])) {
				complain("%s is a recording: it would be lost", name);
				return false;
			}
		}
		for (int other = 0; other < i; other++) {
			if (q->output[other] && same_file(name, q->output[other])) {
				complain("two outputs cannot both be %s", name);
				return false;
			}
		}
	}
	return true;
}

static int replay_one(const struct request *q, char *const *files, size_t n, struct sink *sinks)
{
	struct sm__recording *rec = load_recording(files, n, q->strict);
	struct runs runs[DESIGNS_MAX] = { 0 };
	struct shown shown = { .rec = rec,
			       .threads = q->parallel ? "as-recorded" : "1",
			       .touch = q->touch_text,
			       .differences = (unsigned)q->differences,
			       .maps = q->maps };
	int status = EXIT_UNUSABLE;

	if (!rec)
		return EXIT_UNUSABLE;
	if (run_all(q, rec, runs)) {
		if (sinks[JSON].out)
			report_json(&sinks[JSON].j, &shown, runs, q->ndesigns);
		if (sinks[PERFETTO].out)
			report_timeline(&sinks[PERFETTO].j, &shown, runs, q->ndesigns);
		if (sinks[HTML].out)
			report_html(sinks[HTML].out, &shown, runs, q->ndesigns);
		if (!to_stdout(q))
			report_text(stdout, &shown, runs, q->ndesigns);
		status = verdict(rec, runs, q->ndesigns);
		for (unsigned d = 0; d < q->ndesigns; d++)
			free_result(runs[d].best);
	}
	sm__recording_free(rec);
	return status;
}

static int replay_files(const struct request *q, char **files, size_t n)
{
	struct sink sinks[OUTPUT_COUNT] = { 0 };
	bool fine = outputs_are_apart(q, files, n) && open_sinks(q, sinks);
	int status = fine ? EXIT_SAME : EXIT_UNUSABLE;

	for (size_t i = 0; fine && i < n;) {
		size_t group = load_group(files + i, n - i);
		int one;

		if (i && !to_stdout(q))
			printf("\n");
		one = replay_one(q, files + i, group, sinks);
		status = one > status ? one : status;
		i += group;
	}
	for (int i = 0; i < OUTPUT_COUNT; i++) {
		if (!sink_close(&sinks[i]))
			status = EXIT_UNUSABLE;
	}
	return status;
}

int cmd_replay(int argc, char **argv)
{
	struct request q = {
		.parallel = true, .repeat = 1, .differences = 20, .touch_text = "none"
	};
	int opt;

	optind = 0;
	while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (opt == 'h') {
			usage(stdout);
			return EXIT_SAME;
		}
		if (!take_option(&q, opt))
			return EXIT_UNUSABLE;
	}
	if (optind == argc) {
		usage(stderr);
		return EXIT_UNUSABLE;
	}
	if (!finish_request(&q))
		return EXIT_UNUSABLE;
	return replay_files(&q, argv + optind, (size_t)(argc - optind));
}
