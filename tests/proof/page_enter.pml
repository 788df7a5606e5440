/* SPDX-License-Identifier: MIT */
/*
 * page_enter.pml - a fault maps a page of an object, without the object's lock, while a truncation or
 * the reclaim of clean pages takes the page out of its slot (src/memory/pagecache.h I2, pagefault.c I3).
 *
 * One page, one table that may not exist yet. The fault makes the table if there is none, locks it,
 * reads the slot, enters what is in it. For a noticed write it marks the page dirty first and gives
 * up when the page is gone. The other side: GONE, then (reclaim) stays when the page is dirty, empties
 * the slot, unmaps where it finds a table, under its lock, and frees the page.
 *
 * Proved over all interleavings:
 *   - no entry maps the page once it is freed;
 *   - a page for which a write was let through is not dropped as clean.
 * Mutants, which must fail: 1 the fault reads the slot before it locks the table; 2 the slot is
 * emptied after the page was unmapped; 3 the dirty mark comes after the look at GONE; 4 an entry is
 * looked at without the lock and left alone when it is empty.
 *
 * expect: no errors
 * expect-with -DMUTANT=1: errors
 * expect-with -DMUTANT=2: errors
 * expect-with -DMUTANT=3: errors
 * expect-with -DMUTANT=4: errors
 */
#ifndef MUTANT
#define MUTANT 0
#endif
#define FAULTS 2

bool table;	   /* linked */
bool lock;	   /* of the table */
bool entry;	   /* maps the page */
bool slot = true;  /* holds the page, ready */
bool gone, dirty;  /* flags of the frame: one word */
bool alive = true;
bool written;	   /* a write was let through and is not written back */

inline table_lock()
{
	atomic { !lock -> lock = true }
}

proctype fault(bool write)
{
	bool seen, was_gone;

	if
	:: MUTANT == 1 -> seen = slot
	:: else
	fi;
	table = true; /* linked where there was none */
	table_lock();
	if
	:: MUTANT != 1 -> seen = slot
	:: else
	fi;
	if
	:: seen && write ->
		if
		:: MUTANT == 3 -> was_gone = gone; dirty = true
		:: else -> atomic { was_gone = gone; dirty = true } /* fetch_or */
		fi;
		seen = !was_gone
	:: else
	fi;
	if
	:: seen && !entry ->
		entry = true;
		assert(alive);
		written = written || write
	:: else
	fi;
	lock = false
}

inline unmap()
{
	if
	:: MUTANT == 4 && !entry
	:: else ->
		if
		:: table ->
			table_lock();
			entry = false;
			lock = false
		:: else
		fi
	fi
}

proctype take_away(bool reclaim)
{
	bool stays;

	gone = true;
	if
	:: reclaim && dirty -> gone = false; stays = true
	:: else
	fi;
	if
	:: stays
	:: else ->
		if
		:: MUTANT == 2 -> unmap(); slot = false
		:: else -> slot = false; unmap()
		fi;
		assert(!entry);
		assert(!reclaim || !written);
		alive = false
	fi
}

init {
	bool reclaim;

	atomic {
		if :: reclaim = true :: reclaim = false fi;
		if :: table = true :: table = false fi;
		run fault(true);
		run fault(false);
		run take_away(reclaim)
	}
}
