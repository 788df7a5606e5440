/* SPDX-License-Identifier: MIT */
/*
 * mmap_lock.pml - the slow paths of mmap_lock: the queue, overtaking and hand-over, and sleep on a futex
 * (src/base/mmap_lock.c I1 to I5). One step of the model is one atomic operation of the code; what runs
 * under queue_lock is taken apart where the state is touched without it.
 *
 * The first process takes the lock ROUNDS times, the others once: writers for write (and may downgrade),
 * readers for read; both may give up while they wait.
 *
 * Who spins may say so (PENDING) and must take it back: the pending thread itself, when it has the lock or
 * goes to sleep; or who passes it over. For the rest a try may fail for no reason, so that keeping off for
 * the pending one's sake is among the interleavings.
 *
 * Proved over all interleavings:
 *   - a writer is alone, readers share (assertions in the sections);
 *   - nobody sleeps for ever: every process ends (no invalid end state);
 *   - at the end the state is 0 and the queue is empty.
 * Mutants, which must fail: 1 an unlocker wakes nobody; 2 a writer goes to sleep without a last look at
 * the state; 3 a waiter that gives up wakes nobody; 4 readers are let in beside a writer; 5 who was pending
 * goes to sleep and leaves the bit behind.
 *
 * expect-long: no errors
 * expect-long -DWRITERS=1 -DREADERS=2: no errors
 * expect-with -DWRITERS=3 -DREADERS=0 -DROUNDS=1 -DPATIENT=1: no errors
 * expect-with -DPEND=1 -DROUNDS=1: no errors
 * expect-with -DPEND=1 -DROUNDS=1 -DWRITERS=1 -DREADERS=2: no errors
 * expect-with -DMUTANT=1: errors
 * expect-with -DMUTANT=2: errors
 * expect-with -DMUTANT=3 -DWRITERS=1 -DREADERS=2: errors
 * expect-with -DMUTANT=4 -DROUNDS=1: errors
 * expect-with -DMUTANT=5 -DPEND=1 -DROUNDS=1: errors
 */
#ifndef WRITERS
#define WRITERS 2
#endif
#ifndef READERS
#define READERS 1
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef PEND
#define PEND 0
#endif
#ifndef PATIENT
#define PATIENT 0
#endif
#define N	   (WRITERS + READERS)
#define STEALS_MAX 1

#define WRITER	1
#define WAITERS 2
#define HANDOFF 4
#define PENDING 8
#define READER	16
#define HELD(s) ((s) & WRITER || (s) >= READER)

#define WAIT 0
#define TRY  1

byte state;
byte steals;
bool queue_lock;
byte queue[N];
byte queued;
byte word[N];
bool asleep[N];
byte writing, reading; /* who is inside */

inline queue_take() { atomic { !queue_lock -> queue_lock = true } }
inline queue_give() { queue_lock = false }

/* Takes place k out of the queue; clears the bits when it was the last. */
inline leave_queue(k)
{
	d_step {
		j = k;
		do
		:: j + 1 < queued -> queue[j] = queue[j + 1]; j++
		:: else -> break
		od;
		queued--;
		queue[queued] = 0;
		j = 0
	};
	if
	:: queued == 0 -> state = state & ~(WAITERS | HANDOFF)
	:: else
	fi
}

/* Wakes who is served: the writer at the head, or the readers there. wakes: a bit for each. */
inline lock_wake()
{
	queue_take();
	do
	:: n < queued && (n == 0 || (queue[0] >= WRITERS && queue[n] >= WRITERS)) ->
		atomic {
			if
			:: word[queue[n]] == WAIT -> wakes = wakes | (1 << queue[n])
			:: else
			fi;
			word[queue[n]] = TRY;
			n++
		}
	:: else -> break
	od;
	n = 0;
	queue_give();
	do
	:: j < N ->
		if
		:: wakes & (1 << j) -> asleep[j] = false
		:: else
		fi;
		j++
	:: else -> break
	od;
	j = 0;
	wakes = 0
}

/* futex: to sleep only while the word says WAIT. */
inline futex_wait(me)
{
	atomic {
		if
		:: word[me] == WAIT -> asleep[me] = true
		:: else
		fi
	};
	!asleep[me]
}

/* What keeps off: a waiter; one that has not queued. */
#define BLOCKS(s, me) ((me) < WRITERS -> HELD(s) : (((s) & WRITER) && MUTANT != 4))
#define BARS(s, me)                 \
	(((s) & HANDOFF) || BLOCKS(s, me) || \
	 ((me) >= WRITERS && ((s) & WAITERS) && (s) >= READER))
#define TAKEN(s, me) ((s) + ((me) < WRITERS -> WRITER : READER))

/* From state s, in which it may be had. */
inline take(me, clear)
{
	atomic {
		if
		:: state == s -> state = TAKEN(s & ~(clear), me); got = true
		:: else
		fi
	}
}

/* The fast path and the spinning: tries that may succeed. */
inline try_lock(me)
{
	s = state;
	if
	:: BARS(s, me) -> skip
	:: else ->
		barred = false;
		if
		:: s & WAITERS ->
			atomic {
				if
				:: steals >= STEALS_MAX -> barred = true
				:: else -> steals++
				fi
			}
		:: else
		fi;
		if
		:: barred -> state = state | HANDOFF
		:: !barred && pends -> take(me, PENDING); if :: got -> pends = false :: else fi
		:: !barred && !pends -> take(me, 0)
		:: !barred && PEND -> take(me, PENDING) /* passes over */
		fi
	fi;
	s = 0;
	barred = false
}

/* A thread that spins says so, if it is the first. */
inline announce()
{
	atomic {
		if
		:: PEND && !(state & PENDING) -> state = state | PENDING; pends = true
		:: true
		fi
	}
}

/* It has the lock, or goes to the queue; another may have cleared the bit already, or set it again. */
inline withdraw()
{
	if
	:: pends && MUTANT != 5 -> state = state & ~PENDING; pends = false
	:: else
	fi
}

inline unlock_wake(waiters)
{
	if
	:: waiters && MUTANT != 1 -> lock_wake()
	:: else
	fi
}

inline read_section()
{
	reading++;
	assert(writing == 0);
	reading--;
	atomic { s = (state & WAITERS) && state < 2 * READER; state = state - READER };
	unlock_wake(s);
	s = 0
}

inline write_section(me)
{
	writing++;
	assert(writing == 1 && reading == 0);
	writing--;
	if
	:: atomic { s = state & WAITERS; state = state & ~WRITER }; unlock_wake(s)
	:: /* downgrade */
		atomic { s = state & WAITERS; state = (state & ~WRITER) + READER };
		unlock_wake(s);
		read_section()
	fi;
	s = 0
}

inline wait_in_queue(me)
{
	queue_take();
	d_step { queue[queued] = me; queued++ };
	state = state | WAITERS;
	do
	:: d_step {
			do
			:: queue[place] != me -> place++
			:: else -> break
			od;
			served = true;
			do
			:: n < place -> served = served && queue[n] >= WRITERS && me >= WRITERS; n++
			:: else -> break
			od;
			n = 0
		};
		if
		:: served ->
			s = state;
			if
			:: !BLOCKS(s, me) -> take(me, HANDOFF)
			:: else
			fi;
			s = 0
		:: else
		fi;
		if
		:: got -> leave_queue(place); steals = 0
		:: else
		fi;
		place = 0;
		queue_give();
		if
		:: got -> break
		:: else
		fi;
		if
		:: true
		:: !PATIENT -> /* gives up */
			queue_take();
			d_step {
				do
				:: queue[place] != me -> place++
				:: else -> break
				od
			};
			leave_queue(place);
			place = 0;
			if
			:: served -> state = state & ~HANDOFF
			:: else
			fi;
			queue_give();
			if :: MUTANT == 3 :: else -> lock_wake() fi;
			break
		fi;
		atomic { barred = word[me] == TRY; word[me] = WAIT };
		if
		:: barred -> barred = false
		:: !barred && (MUTANT == 2 || !served || BLOCKS(state, me)) -> futex_wait(me)
		:: else
		fi;
		queue_take()
	od;
	served = false
}

proctype thread(byte me)
{
	byte s, n, j, wakes, place, round;
	bool got, barred, served, pends;

	do
	:: round < (me == 0 -> ROUNDS : 1) ->
		round++;
		word[me] = WAIT;
		if
		:: try_lock(me)
		:: PEND -> announce(); try_lock(me); withdraw()
		:: true
		fi;
		if
		:: !got -> wait_in_queue(me)
		:: else
		fi;
		if
		:: got && me < WRITERS -> write_section(me)
		:: got && me >= WRITERS -> read_section()
		:: else
		fi;
		got = false
	:: else -> break
	od
}

init {
	byte i;

	atomic {
		do
		:: i < N -> run thread(i); i++
		:: else -> break
		od
	};
	_nr_pr == 1;
	assert(state == 0 && queued == 0)
}
