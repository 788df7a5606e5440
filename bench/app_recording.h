/* SPDX-License-Identifier: MIT */
/* app_recording.h - the recorded application cycle, replayed under designs. */
#ifndef BENCH_APP_RECORDING_H
#define BENCH_APP_RECORDING_H

#include "guest.h"

/*
 * Rows recording/DESIGN; a note where there is no recording. Return: 0, -errno after bench_error().
 */
int app_recording_run(struct bench *b, const struct guest_designs *designs);

#endif
