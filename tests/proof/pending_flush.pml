/* SPDX-License-Identifier: MIT */
/*
 * pending_flush.pml - operations that share their entries and tell the TLBs later (src/memory/gather.h
 * I3, src/memory/mm.h I5, src/space/backend_soft.c I4).
 *
 * One page of an object, mapped writable, in the TLB of a guest that runs. Operations:
 *   advise     under a shared lock: takes the entry away, lets the lock go, tells the TLBs
 *   again      the same, and when it returns nobody may use the old translation
 *   truncate   takes the page out of its object, then the entry, tells the TLBs, frees the frame
 *   unmap      takes the area out of the tree, downgrades, takes the entry away, tells the TLBs
 *   pageout    takes W away (a reference of its own: a fault now copies), tells the TLBs
 *   fault      a write fault of another guest: copies the frame when W is gone
 *
 * Proved over all interleavings:
 *   - when `again` or `truncate` has returned, the guest does not use the translation; it never uses a
 *     frame that was freed;
 *   - the guest does not write a frame after it was copied (the write would be lost).
 * Mutants, which must fail: 1 nobody looks whether another gather is pending; 2 a gather is no longer
 * pending before it has told; 3 truncation does not wait for an unmap that has downgraded; 4 page out
 * unlocks the table before it tells.
 *
 * expect: no errors
 * expect-with -DSECOND=truncate: no errors
 * expect-with -DFIRST=unmap -DSECOND=truncate: no errors
 * expect-with -DFIRST=pageout -DSECOND=fault: no errors
 * expect-with -DMUTANT=1: errors
 * expect-with -DMUTANT=1 -DSECOND=truncate: errors
 * expect-with -DMUTANT=2: errors
 * expect-with -DMUTANT=3 -DFIRST=unmap -DSECOND=truncate: errors
 * expect-with -DMUTANT=4 -DFIRST=pageout -DSECOND=fault: errors
 */
#ifndef FIRST
#define FIRST advise
#endif
#ifndef SECOND
#define SECOND again
#endif
#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef STEPS
#define STEPS 3
#endif

bool table;		 /* the lock of the table */
bool writer;		 /* mmap_lock for write */
byte readers;		 /* mmap_lock for read */
bool in_tree = true;	 /* the area */
bool unmapping;
byte pending;		 /* announced gathers */
byte generation, seen;	 /* of the one TLB */
bool running = true;	 /* the guest */
bool entry = true, w = true;
bool translation = true; /* in the TLB, writable */
bool alive = true;	 /* the frame */
bool copied;		 /* another guest writes a copy of it now */
bool over;		 /* an operation has returned that promises the end of the translation */

inline lock(l) { atomic { !l -> l = true } }
inline read_lock() { atomic { !writer -> readers++ } }
inline write_lock() { atomic { !writer && readers == 0 -> writer = true } }

inline tell()
{
	generation++;
	mine = generation;
	(!running || seen >= mine)
}

/* others: how many gathers beside the own one count. */
inline flush(own)
{
	if
	:: took -> tell()
	:: !took && MUTANT != 1 && pending > own -> tell()
	:: else
	fi
}

inline take_away()
{
	lock(table);
	took = entry;
	entry = false;
	table = false
}

inline advise()
{
	pending++;
	take_away();
	if :: MUTANT == 2 -> pending-- :: else fi;
	flush(1);
	if :: MUTANT == 2 :: else -> pending-- fi
}

inline again()
{
	advise();
	over = true
}

inline truncate()
{
	read_lock();
	if :: MUTANT == 3 :: else -> !unmapping fi;
	pending++;
	if
	:: in_tree -> take_away()
	:: else -> took = false
	fi;
	readers--;
	flush(1);
	pending--;
	alive = false;
	over = true
}

inline unmap()
{
	write_lock();
	in_tree = false;
	unmapping = true;
	atomic { writer = false; readers++ };
	take_away();
	flush(0);
	unmapping = false;
	readers--
}

inline pageout()
{
	lock(table);
	took = entry && w;
	w = false;
	if :: MUTANT == 4 -> table = false :: else fi;
	if :: took -> tell() :: else fi;
	if :: MUTANT == 4 :: else -> table = false fi
}

inline fault()
{
	lock(table);
	if
	:: entry && !w -> copied = true; entry = false; tell(); entry = true; w = true
	:: else
	fi;
	table = false
}

proctype first()
{
	bool took;
	byte mine;

	FIRST()
}

proctype second()
{
	bool took;
	byte mine;

	SECOND()
}

/* Uses what it has; a checkpoint may come at any time, and has to come once. */
proctype guest()
{
	byte i;

	do
	:: i < STEPS ->
		i++;
		if
		:: translation ->
			atomic {
				assert(alive);
				assert(!over);
				assert(!copied)
			}
		:: atomic {
			/* the checkpoint: what is new is dropped */
			if
			:: seen != generation -> translation = false; seen = generation
			:: else
			fi
		   }
		fi
	:: break
	od;
	running = false
}

init {
	atomic {
		run first();
		run second();
		run guest()
	}
}
