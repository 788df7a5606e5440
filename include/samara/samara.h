/* SPDX-License-Identifier: MIT */
/* samara.h - everything: one include for who links the library. */
#ifndef SAMARA_SAMARA_H
#define SAMARA_SAMARA_H

#include <samara/cache.h>
#include <samara/design.h>
#include <samara/file.h>
#include <samara/tlb.h>
#include <samara/host.h>
#include <samara/maple.h>
#include <samara/rcu.h>
#include <samara/space.h>
#include <samara/thread.h>
#include <samara/trace.h>
#include <samara/types.h>

#endif
