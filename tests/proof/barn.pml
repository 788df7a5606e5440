/* SPDX-License-Identifier: MIT */
/*
 * barn.pml - main, spare and barn: sequences, the holder of a slot, and a flush from elsewhere
 * (src/cache/internal.h I1 to I3, sequence.h, alloc.c, free.c, slot.c).
 *
 * Threads run on CPUs; a scheduler switches and moves them at any step. A sequence is two steps, read and
 * commit, and gives up when its thread was switched off in between. A flusher, on no CPU of theirs, takes
 * every slot, makes sequences restart (the fence), detaches all and flushes.
 *
 * Proved over all interleavings:
 *   - an object handed out is with nobody, one given back is with its user (assertions in out and back);
 *   - a sheaf is in one place (assertions at every put);
 *   - at the end each object is in the slab, in a sheaf that has a place, or with a user: none is lost
 *     or doubled (the books);
 *   - nobody waits for ever (no invalid end state).
 * Mutants, which must fail: 1 the flusher does not fence; 2 a refilled sheaf becomes main without a look at
 * what main is by then; 3 the slot is taken by a store where a compare-and-exchange belongs.
 *
 * expect: no errors
 * expect-with -DCPUS=2 -DFLUSHES=0: no errors
 * expect-with -DMUTANT=1: errors
 * expect-with -DMUTANT=2: errors
 * expect-with -DMUTANT=3: errors
 */
#ifndef CPUS
#define CPUS 1
#endif
#ifndef OPS
#define OPS 1
#endif
#ifndef FLUSHES
#define FLUSHES 1
#endif
#ifndef MUTANT
#define MUTANT 0
#endif

#define THREADS 2
#define CAP	1
#define OBJECTS 2
#define SHEAVES 3 /* number 0 is the static one: no object, no room */
#define NONE	0
#define LOCKED	3 /* as a sheaf: no object, no room */
#define NOBODY	THREADS
#define NO	9 /* no object */

/* where a sheaf is */
#define UNMADE 0
#define SLOT   1
#define BARN   2
#define HAND   3

byte main_[CPUS];
byte spare[CPUS];
byte size[SHEAVES + 1];
byte obj[SHEAVES + 1]; /* CAP is 1: the object of a full sheaf */
byte place[SHEAVES + 1];
byte fulls, empties; /* barn: sets of sheaves */
byte slab = 3;	  /* set of objects */
byte user;	  /* set of objects */
byte running[CPUS];
byte cpu[THREADS];
bool aborted[THREADS];
byte done;

#define R	  (running[cpu[me]] == me)
#define BIT(n)	  (1 << (n))
#define IN(set,n) (((set) >> (n)) & 1)
#define ROOM(s)	  ((s) != NONE && (s) != LOCKED && size[s] < CAP)

inline out(o)
{
	assert(!IN(user, o) && !IN(slab, o));
	user = user | BIT(o)
}

inline to_slab(o)
{
	assert(!IN(slab, o) && !IN(user, o));
	slab = slab | BIT(o)
}

/* lowest member of a set that is not empty */
inline lowest(set, n)
{
	if
	:: IN(set, 0) -> n = 0
	:: !IN(set, 0) && IN(set, 1) -> n = 1
	:: else -> n = 2
	fi;
	set = set & ~BIT(n)
}

inline put_full(s)
{
	assert(place[s] == HAND || place[s] == SLOT);
	place[s] = BARN;
	fulls = fulls | BIT(s)
}

inline put_empty(s)
{
	if
	:: s != NONE ->
		assert(place[s] == HAND || place[s] == SLOT);
		assert(size[s] == 0);
		place[s] = BARN;
		empties = empties | BIT(s)
	:: else
	fi
}

/* An empty sheaf to hold: of the barn, or a new one, or NONE (no memory). */
inline any_empty(s)
{
	if
	:: empties != 0 -> lowest(empties, s); place[s] = HAND
	:: empties == 0 && place[1] == UNMADE -> s = 1; place[s] = HAND
	:: empties == 0 && place[1] != UNMADE && place[2] == UNMADE -> s = 2; place[s] = HAND
	:: else -> s = NONE
	fi
}

/* sm__slot_trylock: got is true when the slot of c, whose main was m, is ours. */
inline trylock(got)
{
	atomic { R -> aborted[me] = false; c = cpu[me]; m = main_[c] };
	atomic {
		R ->
		got = false;
		if
		:: aborted[me] || m == LOCKED
		:: else ->
			if
			:: MUTANT == 3 || main_[c] == m -> main_[c] = LOCKED; got = true
			:: else
			fi
		fi
	}
}

inline unlock(with)
{
	atomic { R -> main_[c] = with; m = NONE; c = 0 }
}

/* A full sheaf for whichever CPU we are on. */
inline offer_full(s)
{
	trylock(ok);
	atomic {
		R ->
		if
		:: !ok -> put_full(s)
		:: ok && MUTANT == 2 -> m = s; place[s] = SLOT
		:: ok && MUTANT != 2 && size[m] == 0 ->
			if
			:: m != NONE && spare[c] == NONE -> spare[c] = m
			:: else -> put_empty(m)
			fi;
			m = s; place[s] = SLOT
		:: ok && MUTANT != 2 && size[m] != 0 ->
			if
			:: spare[c] == NONE -> spare[c] = s; place[s] = SLOT
			:: spare[c] != NONE && size[spare[c]] == 0 ->
				put_empty(spare[c]); spare[c] = s; place[s] = SLOT
			:: spare[c] != NONE && size[spare[c]] != 0 -> put_full(s)
			fi
		fi;
		s = NONE
	};
	if
	:: ok -> unlock(m)
	:: else
	fi
}

inline alloc(o)
{
	o = NO;
	/* the sequence */
	atomic { R -> aborted[me] = false; c = cpu[me]; m = main_[c]; w = size[m] };
	atomic {
		R ->
		if
		:: aborted[me] || w == 0
		:: else -> o = obj[m]; size[m] = w - 1; out(o)
		fi;
		w = 0; m = NONE; c = 0
	};
	if
	:: o != NO -> goto allocated
	:: else
	fi;
	trylock(ok);
	if
	:: !ok -> /* straight from the slab */
		atomic {
			R ->
			if
			:: slab != 0 -> lowest(slab, o); out(o)
			:: else
			fi
		};
		goto allocated
	:: else
	fi;
	atomic {
		R ->
		if
		:: size[m] != 0 -> o = obj[m]; size[m] = 0
		:: size[m] == 0 && spare[c] != NONE && size[spare[c]] != 0 ->
			s = spare[c]; spare[c] = m; m = s;
			o = obj[m]; size[m] = 0
		:: size[m] == 0 && !(spare[c] != NONE && size[spare[c]] != 0) && fulls != 0 ->
			put_empty(m); lowest(fulls, m); place[m] = SLOT;
			o = obj[m]; size[m] = 0
		:: else
		fi;
		s = NONE;
		if
		:: o != NO -> out(o)
		:: else -> s = spare[c]; spare[c] = NONE; if :: s != NONE -> place[s] = HAND :: else fi
		fi
	};
	unlock(m);
	if
	:: o != NO -> goto allocated
	:: else
	fi;
	/* refill: nothing is held */
	atomic { R -> if :: s == NONE -> any_empty(s) :: else fi };
	atomic {
		R ->
		if
		:: slab != 0 -> lowest(slab, o); out(o)
		:: else
		fi
	};
	atomic {
		R ->
		if
		:: s != NONE && slab != 0 -> lowest(slab, obj[s]); size[s] = CAP
		:: else
		fi
	};
	if
	:: s != NONE && size[s] != 0 -> offer_full(s)
	:: s != NONE && size[s] == 0 -> atomic { R -> put_empty(s); s = NONE }
	:: s == NONE
	fi;
allocated:
	skip
}

/* An empty sheaf, and an object, for whichever CPU we are on. */
inline offer_empty(s, o)
{
	trylock(ok);
	atomic {
		R ->
		if
		:: !ok -> put_empty(s); to_slab(o)
		:: ok && (m == NONE || spare[c] == NONE) ->
			if
			:: m != NONE -> spare[c] = m
			:: else
			fi;
			m = s; place[s] = SLOT; obj[m] = o; size[m] = CAP
		:: ok && m != NONE && spare[c] != NONE && ROOM(m) ->
			obj[m] = o; size[m] = CAP; put_empty(s)
		:: ok && m != NONE && spare[c] != NONE && !ROOM(m) && ROOM(spare[c]) ->
			w = spare[c]; spare[c] = m; m = w; w = 0;
			obj[m] = o; size[m] = CAP; put_empty(s)
		:: ok && m != NONE && spare[c] != NONE && !ROOM(m) && !ROOM(spare[c]) ->
			put_full(m); m = s; place[s] = SLOT; obj[m] = o; size[m] = CAP
		fi;
		s = NONE
	};
	if
	:: ok -> unlock(m)
	:: else
	fi
}

inline free(o)
{
	atomic { R -> aborted[me] = false; c = cpu[me]; m = main_[c]; w = size[m] };
	atomic {
		R ->
		assert(IN(user, o));
		if
		:: aborted[me] || m == NONE || m == LOCKED || w == CAP -> w = 1
		:: else -> user = user & ~BIT(o); obj[m] = o; size[m] = w + 1; w = 0
		fi;
		m = NONE; c = 0
	};
	if
	:: w == 0 -> goto freed
	:: else
	fi;
	w = 0;
	trylock(ok);
	atomic {
		R ->
		user = user & ~BIT(o);
		s = NONE;
		if
		:: !ok -> to_slab(o)
		:: ok && ROOM(m) -> obj[m] = o; size[m] = CAP
		:: ok && !ROOM(m) && spare[c] != NONE && ROOM(spare[c]) ->
			s = spare[c]; spare[c] = m; m = s; s = NONE;
			obj[m] = o; size[m] = CAP
		:: ok && !ROOM(m) && (spare[c] == NONE || m == NONE) && empties != 0 ->
			if
			:: m != NONE -> spare[c] = m
			:: else
			fi;
			lowest(empties, m); place[m] = SLOT; obj[m] = o; size[m] = CAP
		:: ok && m != NONE && !ROOM(m) && spare[c] != NONE && !ROOM(spare[c]) && fulls == 0 &&
				empties != 0 -> /* the barn's limit is one */
			put_full(m); lowest(empties, m); place[m] = SLOT; obj[m] = o; size[m] = CAP
		:: ok && m != NONE && !ROOM(m) && spare[c] != NONE && !ROOM(spare[c]) && fulls != 0 ->
			s = spare[c]; spare[c] = NONE; place[s] = HAND; w = 1
		:: else -> w = 2
		fi
	};
	if
	:: ok -> unlock(m)
	:: else
	fi;
	if
	:: w == 1 -> atomic { R -> size[s] = 0; to_slab(obj[s]); w = 0 }; offer_empty(s, o)
	:: w == 2 ->
		atomic { R -> w = 0; any_empty(s); if :: s == NONE -> to_slab(o) :: else fi };
		if
		:: s != NONE -> offer_empty(s, o)
		:: else
		fi
	:: w == 0
	fi;
freed:
	skip
}

proctype thread(byte me)
{
	byte c, m, w, s, o, i;
	bool ok;

	do
	:: i < OPS -> alloc(o); i++; atomic { R -> skip };
		if
		:: o != NO -> free(o)
		:: else
		fi
	:: else -> break
	od;
	atomic { R -> i = 0; o = 0; c = 0; m = 0; done++ }
}

/* Switches and moves threads for as long as there are any. */
proctype scheduler()
{
	do
	:: atomic { done < THREADS + 1 && running[cpu[0]] != 0 ->
		if :: running[cpu[0]] != NOBODY -> aborted[running[cpu[0]]] = true :: else fi;
		running[cpu[0]] = 0 }
	:: atomic { done < THREADS + 1 && running[cpu[1]] != 1 ->
		if :: running[cpu[1]] != NOBODY -> aborted[running[cpu[1]]] = true :: else fi;
		running[cpu[1]] = 1 }
#if CPUS > 1
	:: atomic { done < THREADS + 1 && running[cpu[0]] != 0 -> cpu[0] = 1 - cpu[0] }
	:: atomic { done < THREADS + 1 && running[cpu[0]] == 0 ->
		aborted[0] = true; running[cpu[0]] = NOBODY; cpu[0] = 1 - cpu[0] }
#endif
	:: done == THREADS + 1 -> break
	od
}

proctype flusher()
{
	byte i, n, s, sheaves;

	do
	:: n < FLUSHES ->
		i = 0;
		do
		:: i < CPUS -> /* claim */
			atomic { main_[i] != LOCKED -> s = main_[i]; main_[i] = LOCKED };
			if
			:: s != NONE -> sheaves = sheaves | BIT(s)
			:: else
			fi;
			i++
		:: else -> break
		od;
		atomic {
			if
			:: MUTANT != 1 -> aborted[0] = true; aborted[1] = true
			:: else
			fi
		};
		i = 0;
		do
		:: i < CPUS ->
			atomic {
				if
				:: spare[i] != NONE -> sheaves = sheaves | BIT(spare[i]); spare[i] = NONE
				:: else
				fi;
				main_[i] = NONE
			};
			i++
		:: else -> break
		od;
		do
		:: sheaves != 0 ->
			atomic {
				lowest(sheaves, s);
				if
				:: size[s] != 0 -> size[s] = 0; to_slab(obj[s])
				:: else
				fi;
				put_empty(s)
			}
		:: else -> break
		od;
		n++
	:: else -> break
	od;
	atomic { i = 0; s = 0; done++ };
	done == THREADS + 1;
	/* the books */
	atomic {
		assert(user == 0);
		s = slab;
		i = 1;
		do
		:: i < SHEAVES ->
			if
			:: place[i] == SLOT ->
				assert(main_[0] == i || spare[0] == i || main_[CPUS - 1] == i ||
				       spare[CPUS - 1] == i)
			:: else -> assert(place[i] == BARN || place[i] == UNMADE)
			fi;
			if
			:: size[i] != 0 ->
				assert(place[i] != UNMADE && !IN(s, obj[i]));
				s = s | BIT(obj[i])
			:: else
			fi;
			i++
		:: else -> break
		od;
		assert(s == BIT(OBJECTS) - 1)
	}
}

init {
	atomic {
		cpu[1] = CPUS - 1;
		running[0] = 0;
		/* begin with nothing made, with a full main and an empty spare, or with a full barn */
		if
		:: true
		:: main_[0] = 1; spare[0] = 2; size[1] = CAP; obj[1] = 0; place[1] = SLOT;
			place[2] = SLOT; slab = 2
		:: fulls = BIT(1); empties = BIT(2); size[1] = CAP; obj[1] = 0; place[1] = BARN;
			place[2] = BARN; slab = 2
		fi;
#if CPUS > 1
		running[1] = 1;
#endif
		run thread(0);
		run thread(1);
		run scheduler();
		run flusher()
	}
}
