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
 * expect: no errors
 * expect-with -DWRITERS=1 -DREADERS=2: no errors
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

#define WAIT	0
#define TRY	1
#define GRANTED 2
#define NOBODY	255

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

/* granted: a bit for each reader that has got its count. */
inline grant_readers()
{
	granted = 0;
	d_step {
		n = 0;
		do
		:: n < queued && queue[n] >= WRITERS -> n++
		:: else -> break
		od
	};
	if
	:: n > 0 ->
		atomic {
			if
			:: !(state & WRITER) || MUTANT == 4 -> state = state + n * READER
			:: else -> n = 0
			fi
		}
	:: else
	fi;
	if
	:: n > 0 ->
		d_step {
			j = 0;
			do
			:: j < n -> granted = granted | (1 << queue[j]); j++
			:: else -> break
			od;
			j = 0;
			do
			:: j + n < queued -> queue[j] = queue[j + n]; j++
			:: else -> break
			od;
			do
			:: j < queued -> queue[j] = 0; j++
			:: else -> break
			od;
			queued = queued - n;
			steals = 0;
			j = 0
		};
		state = state & ~HANDOFF;
		if
		:: queued == 0 -> state = state & ~WAITERS
		:: else
		fi;
		n = 0
	:: else
	fi
}

inline tell_granted()
{
	j = 0;
	do
	:: j < N ->
		if
		:: granted & (1 << j) -> word[j] = GRANTED; asleep[j] = false
		:: else
		fi;
		j++
	:: else -> break
	od;
	j = 0;
	granted = 0
}

inline lock_wake()
{
	queue_take();
	grant_readers();
	wake = NOBODY;
	if
	:: granted == 0 && queued > 0 && queue[0] < WRITERS ->
		atomic {
			wake = queue[0];
			if :: word[wake] != WAIT -> word[wake] = TRY; wake = NOBODY
			:: else -> word[wake] = TRY
			fi
		}
	:: else
	fi;
	queue_give();
	tell_granted();
	if
	:: wake != NOBODY -> asleep[wake] = false; wake = NOBODY
	:: else
	fi
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

inline try_write(head)
{
	got = false;
	s = state;
	if
	:: HELD(s) || (!head && (s & HANDOFF)) -> skip
	:: else ->
		barred = false;
		if
		:: !head && (s & WAITERS) ->
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
		:: else ->
			atomic {
				if
				:: state == s ->
					if
					:: head -> state = (s & ~HANDOFF) | WRITER
					:: else ->
						if
						:: pends -> state = (s & ~PENDING) | WRITER; pends = false
						:: else -> state = s | WRITER
						:: PEND -> state = (s & ~PENDING) | WRITER /* passes over */
						fi
					fi;
					got = true
				:: else
				fi
			}
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

proctype writer(byte me)
{
	byte s, n, j, granted, wake, round;
	bool got, barred, head, gone, pends;

	do
	:: round < (me == 0 -> ROUNDS : 1) ->
		round++;
		word[me] = WAIT;
		/* the fast path and the spinning are tries that may succeed */
		if
		:: try_write(false)
		:: announce(); try_write(false); withdraw()
		:: got = false
		fi;
		if
		:: got -> write_section(me)
		:: else ->
			queue_take();
			d_step { queue[queued] = me; queued++ };
			state = state | WAITERS;
			queue_give();
			do
			:: queue_take();
				head = queue[0] == me && queued > 0;
				got = false;
				if
				:: head -> try_write(true)
				:: else
				fi;
				if
				:: got -> leave_queue(0); steals = 0
				:: else
				fi;
				queue_give();
				if
				:: got -> write_section(me); break
				:: else
				fi;
				if
				:: true
				:: !PATIENT -> /* gives up */
					queue_take();
					d_step {
						n = 0;
						do
						:: queue[n] == me -> break
						:: else -> n++
						od
					};
					leave_queue(n);
					n = 0;
					if
					:: head -> state = state & ~HANDOFF
					:: else
					fi;
					queue_give();
					if :: MUTANT == 3 :: else -> lock_wake() fi;
					break
				fi;
				atomic { barred = word[me] == TRY; word[me] = WAIT };
				if
				:: barred -> barred = false
				:: !barred && (MUTANT == 2 || !head || HELD(state)) -> futex_wait(me)
				:: else
				fi
			od
		fi;
		got = false;
		head = false
	:: else -> break
	od
}

proctype reader(byte me)
{
	byte s, n, j, granted, wake, round;
	bool got, pends;

	do
	:: round < (me == 0 -> ROUNDS : 1) ->
		round++;
		word[me] = WAIT;
		got = false;
		if
		:: announce()
		:: true
		fi;
		if
		:: s = state;
			if
			:: s & (WRITER | WAITERS | HANDOFF)
			:: else ->
				atomic {
					if
					:: state == s ->
						if
						:: pends -> state = (s & ~PENDING) + READER; pends = false
						:: else -> state = s + READER
						:: PEND -> state = (s & ~PENDING) + READER /* passes over */
						fi;
						got = true
					:: else
					fi
				}
			fi
		:: true
		fi;
		withdraw();
		s = 0;
		if
		:: got -> read_section()
		:: else ->
			queue_take();
			d_step { queue[queued] = me; queued++ };
			state = state | WAITERS;
			if
			:: queue[0] == me -> grant_readers()
			:: else -> granted = 0
			fi;
			queue_give();
			tell_granted();
			do
			:: word[me] == GRANTED -> read_section(); break
			:: else ->
				if
				:: futex_wait(me)
				:: !PATIENT -> /* gives up, unless it has been let in meanwhile */
					queue_take();
					d_step {
						n = 0;
						do
						:: n < queued && queue[n] != me -> n++
						:: else -> break
						od
					};
					if
					:: n < queued ->
						leave_queue(n);
						n = 0;
						queue_give();
						if :: MUTANT == 3 :: else -> lock_wake() fi;
						break
					:: else -> n = 0; queue_give(); futex_wait(me)
					fi
				fi
			od
		fi
	:: else -> break
	od
}

init {
	byte i;

	atomic {
		do
		:: i < WRITERS -> run writer(i); i++
		:: i >= WRITERS && i < N -> run reader(i); i++
		:: else -> break
		od
	};
	_nr_pr == 1;
	assert(state == 0 && queued == 0)
}
