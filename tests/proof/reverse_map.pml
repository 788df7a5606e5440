/*
 * reverse_map.pml - who takes a page of an object away finds every area that may map it
 * (src/memory/rmap.h I1, I3; src/space/backend_soft.c I4), and gets there whoever waits for whom
 * (docs/design/fault.md F8).
 *
 * Two areas of one mm, next to each other, one page of the object that either may map: where one is,
 * the other is after they have been merged, so the entry is the same. A fault, under the lock of its VMA,
 * puts the VMA into the reverse map, then reads the slot and enters the page. A writer, under
 * mmap_lock for write with the VMAs write-locked, either merges the first VMA into the second (which adopts), or
 * unmaps it: out of the tree and of the reverse map, downgrade, then the entry goes. The mapper stays until the
 * call is over. The walker empties the slot, asks for the mappers, takes mmap_lock for read, waits until
 * no munmap is at work, visits the VMAs in the reverse map, and frees the page.
 *
 * A fault that finds the page still mapped when it has left its slot lets go of everything and begins anew.
 *
 * Proved over all interleavings: no entry maps the page once it is freed, none is made; nobody waits for ever.
 * Mutants, which must fail: 1 the fault reads the slot before its VMA is in; 2 the walker does not wait
 * for the munmap; 3 the merged VMA does not adopt; 4 the munmap says that it is at work only after
 * the downgrade; 5 the walker looks for mappers before it empties the slot; 6 the mapper goes with its
 * last area; 7 a fault waits under its lock for the page to go.
 *
 * expect: no errors
 * expect-with -DMUTANT=1: errors
 * expect-with -DMUTANT=2: errors
 * expect-with -DMUTANT=3: errors
 * expect-with -DMUTANT=4: errors
 * expect-with -DMUTANT=5: errors
 * expect-with -DMUTANT=6: errors
 * expect-with -DMUTANT=7: errors
 */
#ifndef MUTANT
#define MUTANT 0
#endif

byte readers;		/* of mmap_lock */
bool writer;
byte pins[2];		/* faults under the lock of a VMA */
bool stamped[2];	/* VMA write-locked */
bool attached[2] = true; /* in the tree */
bool covers;		/* VMA 1 covers the range of VMA 0, too */
bool in[2];		/* in the reverse map */
byte mapped;		/* VMAs in it, or leaving: the mapper is there */
bool unmapping;

bool slot = true;
bool entry;		/* of the range of VMA 0 */
bool alive = true;

/* Whichever VMA covers the range. */
proctype fault()
{
	byte v;
	bool seen, locked;

again:	locked = false;
	do
	:: !locked ->
		atomic { /* a look-up, and the lock of what was found */
			if
			:: attached[0] && !stamped[0] -> v = 0; pins[0]++; locked = true
			:: attached[1] && covers && !stamped[1] -> v = 1; pins[1]++; locked = true
			:: !attached[0] && !covers -> goto out /* nothing there */
			fi
		}
	:: else -> break
	od;
	if
	:: entry && !slot && MUTANT == 7 -> !entry
	:: entry && !slot && MUTANT != 7 -> pins[v]--; goto again
	:: else
	fi;
	if
	:: MUTANT == 1 -> seen = slot
	:: else
	fi;
	atomic { /* the object's lock */
		if
		:: !in[v] -> in[v] = true; mapped++
		:: else
		fi
	}
	if
	:: MUTANT != 1 -> seen = slot
	:: else
	fi;
	atomic { /* the table's lock: the look at the slot and the entry are one (page_enter.pml) */
		if
		:: MUTANT != 1 -> seen = slot
		:: else
		fi;
		if
		:: seen ->
			entry = true;
			assert(alive)
		:: else
		fi
	}
	pins[v]--;
out:	skip
}

inline leave(v)
{
	atomic {
		if
		:: in[v] && MUTANT == 6 -> in[v] = false; mapped--
		:: in[v] && MUTANT != 6 -> in[v] = false; leaving = true
		:: else
		fi
	}
}

proctype change(bool merge)
{
	bool leaving;

	atomic { !writer && !readers -> writer = true }
	stamped[0] = true;
	!pins[0];
	stamped[1] = true;
	!pins[1];
	if
	:: merge ->
		atomic {
			if
			:: MUTANT != 3 && in[0] && !in[1] -> in[1] = true; mapped++
			:: else
			fi
		}
		covers = true;
		attached[0] = false;
		leave(0);
		atomic { stamped[0] = false; stamped[1] = false; writer = false }
	:: else ->
		attached[0] = false;
		leave(0);
		if
		:: MUTANT != 4 -> unmapping = true
		:: else
		fi;
		atomic { stamped[0] = false; stamped[1] = false; writer = false; readers++ }
		if
		:: MUTANT == 4 -> unmapping = true
		:: else
		fi;
		entry = false;
		unmapping = false;
		readers--
	fi;
	if
	:: leaving -> mapped--
	:: else
	fi
}

proctype walker()
{
	bool found;

	if
	:: MUTANT == 5 -> found = mapped > 0; slot = false
	:: else -> slot = false; found = mapped > 0
	fi;
	if
	:: found ->
		atomic { !writer -> readers++ }
		if
		:: MUTANT == 2
		:: else -> !unmapping
		fi;
		if
		:: in[0] || (in[1] && covers) -> entry = false
		:: else
		fi;
		readers--
	:: else
	fi;
	assert(!entry);
	alive = false
}

init {
	bool merge;

	atomic {
		if :: merge = true :: merge = false fi;
		run fault();
		run fault();
		run change(merge);
		run walker()
	}
}
