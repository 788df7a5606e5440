/* SPDX-License-Identifier: MIT */
/*
 * replay_tables.h - texts and tables of a replay, which the reports for people and for programs share.
 * Tables may be NULL on exhaustion: every function on them accepts that (report/table.h).
 */
#ifndef SAMARA_REPLAY_TABLES_H
#define SAMARA_REPLAY_TABLES_H

#include "replay_report.h"
#include "report/table.h"

/* name(0x..., ...) with as many arguments as the recording had, into buf. Return: buf. */
const char *call_text(const struct sm__call *c, char *buf, size_t size);
/* An address, a number or "-1 ENOMEM" into buf. Return: buf. */
const char *result_text(const struct sm__call *c, int64_t result, char *buf, size_t size);
/* What the recording says that the call returned: a result or -errno. */
int64_t recorded_result(const struct sm__call *c);
const struct sm__call *call_of(const struct shown *s, const struct sm__difference *d);

uint64_t count_differences(const struct sm__replay_result *r); /* explained and not */
size_t count_processes(const struct sm__recording *rec);
double calls_per_second(const struct sm__replay_result *r);

/* A row for each kind of call, and with_sum one for all. */
struct sm__table *call_table(const struct sm__replay_result *r, bool with_sum);
/* A row for each call that took mmap_lock, by the names in lock_calls. */
struct sm__table *lock_table(const struct sm_lock_stats *l);
extern const char *const lock_calls[SM_CALL_KINDS];
/* A row for each object cache that was used. */
struct sm__table *cache_table(const struct sm__replay_result *r);
/* Designs side by side: a column each, and its ratio to the first. */
struct sm__table *compare_table(const struct runs *runs, unsigned n);
/* At most s->differences of them. */
struct sm__table *difference_table(const struct shown *s, const struct sm__replay_result *r);

/* replay_text.c: what the recording holds, in lines; the figures of one design beside its tables. */
void report_description(FILE *out, const struct shown *s);
void report_figures(FILE *out, const struct shown *s, const struct runs *runs);

#endif
