/* SPDX-License-Identifier: MIT */
/*
 * hold.h - keeps a process still from the moment its map is read until a tracer has all its threads, so
 * that the map and the first recorded call fit together.
 *
 *   held process    ...runs|stopped                          |runs, traced...
 *   this process            SIGSTOP  read the map  exec strace
 *   helper                                         waits until all are traced: SIGCONT
 *
 * I1 However the tracer ends (not installed, not allowed, killed), the process goes on: the helper
 *    waits for the tracer or for its end, which closes the pipe between them.
 * I2 A process that was stopped before stays stopped.
 */
#ifndef SAMARA_HOLD_H
#define SAMARA_HOLD_H

#include <sys/types.h>

/*
 * Stops pid and starts the helper. To be followed by the tracer's exec, or exit.
 * Return: 0, or -errno: of kill(2), or of what the helper takes; the process goes on then.
 */
int hold_until_traced(pid_t pid);

#endif
