/* SPDX-License-Identifier: MIT */
/*
 * fault_running.pml - a fault that lets the TLB of its thread run on and puts the page into it
 * (src/memory/tlb.h I5, I6; docs/design/fault.md F7), beside operations that take the page away: one
 * that waits for the TLBs with the table locked (a copy on write, a page out), and one that waits
 * after it has unlocked the table (an unmap).
 *
 * One page, one table, THREADS threads that are guests and operate. A fault tries the table's lock
 * with its TLB running; where it has to wait it parks first. With the lock it takes the entry, or makes
 * one, and after the unlock it inserts what it saw if it has not parked.
 *
 * Proved over all interleavings:
 *   - a guest never touches a frame that was freed (assertion at USE);
 *   - no deadlock (no invalid end state).
 * Mutants, which must fail: 1 the fault waits for the lock while its TLB runs; 2 it inserts what it saw
 * though it was parked meanwhile; 3 the same after a walk without the lock, begun before it ran.
 *
 * Larger instances (-DOPS=2, and -DTHREADS=3 -DSTEPS=2 with 67 million states) hold too and take minutes.
 *
 * expect: no errors
 * expect-with -DOPS=2 -DSTEPS=1: no errors
 * expect-with -DMUTANT=1: errors
 * expect-with -DMUTANT=2: errors
 * expect-with -DMUTANT=3: errors
 */
#ifndef THREADS
#define THREADS 2
#endif
#ifndef OPS
#define OPS 1
#endif
#ifndef STEPS
#define STEPS 3
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

#define FRAMES	3
#define NONE	FRAMES
#define IDLE	0
#define RUNNING 1
#define PARKED	2

byte state[THREADS];
byte seen[THREADS];
byte tlb[THREADS] = NONE;
byte generation;
byte entry = NONE;
bool alive[FRAMES];
bool lock; /* of the table */

inline catch_up(me)
{
	g = generation;
	if
	:: g != seen[me] -> tlb[me] = NONE; seen[me] = g
	:: else
	fi
}

inline begin_running(me)
{
	if
	:: MUTANT == 3 -> got = entry
	:: else
	fi;
	state[me] = RUNNING;
	catch_up(me);
	if
	:: MUTANT == 3 -> tlb[me] = got
	:: else
	fi
}

/* A frame that nobody has; there is one for each thread at work, and one that is mapped. */
inline allocate(f)
{
	atomic {
		if
		:: !alive[0] -> f = 0
		:: alive[0] && !alive[1] -> f = 1
		:: alive[0] && alive[1] && !alive[2] -> f = 2
		fi;
		alive[f] = true
	}
}

inline fault(me)
{
	if
	:: MUTANT == 1 -> atomic { !lock -> lock = true }
	:: else ->
		if
		:: atomic { !lock -> lock = true }
		:: atomic { lock -> state[me] = PARKED }; atomic { !lock -> lock = true }
		fi
	fi;
	if
	:: entry == NONE -> allocate(got); entry = got
	:: else -> got = entry
	fi;
	lock = false;
	if
	:: state[me] == RUNNING -> tlb[me] = got
	:: else ->
		was = got;
		begin_running(me);
		if
		:: MUTANT == 2 -> tlb[me] = was
		:: else
		fi
	fi
}

inline guest(me)
{
	begin_running(me);
	i = 0;
	do
	:: i < STEPS ->
		i++;
		if
		:: tlb[me] == NONE -> /* fill without a lock, else a fault */
			got = entry;
			if
			:: got != NONE -> tlb[me] = got
			:: got == NONE -> fault(me)
			fi
		:: tlb[me] == NONE -> fault(me) /* of a write: the entry does not allow it */
		:: tlb[me] != NONE -> assert(alive[tlb[me]]) /* USE */
		:: catch_up(me)
		fi
	:: break
	od
}

inline wait_for_all(me)
{
	i = 0;
	do
	:: i < THREADS ->
		if
		:: i == me
		:: else -> (state[i] != RUNNING || seen[i] >= mine)
		fi;
		i++
	:: else -> break
	od
}

inline operation(me, keeps_lock)
{
	state[me] = PARKED;
	atomic { !lock -> lock = true };
	old = entry;
	entry = NONE;
	if
	:: old == NONE -> lock = false
	:: else ->
		if
		:: keeps_lock
		:: else -> lock = false
		fi;
		atomic { generation++; mine = generation };
		wait_for_all(me);
		if
		:: keeps_lock -> allocate(got); entry = got; lock = false
		:: else
		fi;
		alive[old] = false
	fi
}

proctype thread(byte me)
{
	byte g, got, was, old, mine, i, n;

	do
	:: n < OPS -> n++; guest(me); operation(me, true)
	:: n < OPS -> n++; guest(me); operation(me, false)
	:: else -> break
	od;
	state[me] = IDLE
}

init {
	byte t;

	atomic {
		do
		:: t < THREADS -> run thread(t); t++
		:: else -> break
		od
	}
}
