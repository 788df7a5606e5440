/* SPDX-License-Identifier: MIT */
/*
 * tlb_ack.pml - shoot-down and acknowledgement between threads that run guest code and threads that
 * take mappings away, each thread doing both (src/memory/tlb.h, I2, I3, I5; samara/tlb.h G1 to G3).
 *
 * One page, two frames. An entry maps the page to a frame or to nothing. A guest fills its TLB in
 * two steps (reads the entry, then inserts) and uses it; an operation unmaps, or maps the other
 * frame.
 *
 * Proved over all interleavings:
 *   - a guest never touches a frame that was freed, and never the old frame once the operation that
 *     replaced it has returned (assertions at USE);
 *   - no deadlock: two threads that invalidate each other, with a lock around the operations, end
 *     (no invalid end state);
 *   - every operation returns if every running guest reaches a checkpoint or stops.
 * Mutants, which must fail: 1 the runner looks at the generation before it says that it runs; 2 the
 * operation waits for a lock while its own TLB runs; 3 frames are freed before the wait.
 *
 * expect: no errors
 * expect-with -DTHREADS=3 -DOPS=1 -DSTEPS=2: no errors
 * expect-with -DMUTANT=1: errors
 * expect-with -DMUTANT=2: errors
 * expect-with -DMUTANT=3: errors
 */
#ifndef THREADS
#define THREADS 2
#endif
#ifndef OPS
#define OPS 2
#endif
#ifndef STEPS
#define STEPS 3
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

#define NONE	2
#define IDLE	0
#define RUNNING 1
#define PARKED	2

byte state[THREADS];
byte seen[THREADS];
byte tlb[THREADS] = NONE;
byte generation;
byte entry;	   /* frame 0 at first */
bool alive[2];	   /* frame is allocated */
bool lock;	   /* mmap_lock for write */

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
	:: MUTANT == 1 -> catch_up(me); state[me] = RUNNING
	:: else -> state[me] = RUNNING; catch_up(me)
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
		:: tlb[me] == NONE -> /* fill: two steps, no lock */
			got = entry;
			if
			:: got != NONE -> tlb[me] = got
			:: else
			fi
		:: tlb[me] != NONE -> /* USE */
			assert(alive[tlb[me]])
		:: catch_up(me) /* checkpoint */
		fi
	:: break
	od
}

inline operation(me)
{
	if
	:: MUTANT == 2
	:: else -> if :: state[me] == RUNNING -> state[me] = PARKED :: else fi
	fi;
	atomic { !lock -> lock = true };
	old = entry;
	entry = NONE;
	if
	:: MUTANT == 3 && old != NONE -> alive[old] = false
	:: else
	fi;
	generation++;
	mine = generation;
	i = 0;
	do
	:: i < THREADS ->
		/* waits for this one: acknowledged, or not running */
		if
		:: i == me && MUTANT != 2
		:: else -> (state[i] != RUNNING || seen[i] >= mine)
		fi;
		i++
	:: else -> break
	od;
	if
	:: old != NONE -> alive[old] = false
	:: else
	fi;
	/* munmap leaves nothing; a copy on write, or a new mapping, another frame */
	if
	:: true
	:: atomic { !alive[0] -> alive[0] = true }; entry = 0
	:: atomic { !alive[1] -> alive[1] = true }; entry = 1
	fi;
	lock = false
}

proctype thread(byte me)
{
	byte g, got, old, mine, i, n;

	do
	:: n < OPS ->
		n++;
		guest(me);
		operation(me) /* from running: parks first */
	:: n < OPS -> /* stop, rest, run again */
		n++;
		guest(me);
		state[me] = IDLE
	:: else -> break
	od;
	state[me] = IDLE
}

init {
	byte t;

	alive[0] = true;
	atomic {
		do
		:: t < THREADS -> run thread(t); t++
		:: else -> break
		od
	}
}
