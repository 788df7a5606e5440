/* SPDX-License-Identifier: MIT */
/*
 * file.h (private) - the file object as the rooms memory and space see it.
 *
 * I1 refs >= 1 while anybody can reach the file; 0 happens once and runs close.
 */
#ifndef SM_MEMORY_FILE_H
#define SM_MEMORY_FILE_H

#include "base/base.h"

#include <samara/file.h>

struct sm_file {
	_Atomic uint64_t refs;
	const struct sm_file_ops *ops;
	void *arg;
	struct sm_file_info info;
	char name[];
};

#endif
