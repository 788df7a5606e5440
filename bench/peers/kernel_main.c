/* SPDX-License-Identifier: MIT */
/* kernel_main.c - samara-peer-kernel. */
#include "kernel.h"

int main(int argc, char **argv)
{
	return peer_main(argc, argv, kernel_cases);
}
