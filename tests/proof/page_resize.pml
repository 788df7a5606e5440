/* SPDX-License-Identifier: MIT */
/*
 * page_resize.pml - an object is punched or changes its size while its page is read in, written back,
 * and its size is asked for (src/memory/pages_resize.c, pagecache.h I8, I9).
 *
 * One page of the file, which holds old data; the punch makes it zero in the file and in the cache. A
 * reader brings the page in when it is missing, two write-backs write it to the file as it is in the
 * cache. Beside that the size of the file changes once by a truncation of ours and once by other
 * means, and two threads learn it.
 *
 * Proved over all interleavings:
 *   - when the punch has returned, old data is neither in the file nor in the cache, then or later;
 *   - when all is still, the size that the cache knows is the file's, if somebody has asked since it
 *     changed by other means;
 *   - the file has one call at a time for the page, to read or to write it;
 *   - nobody waits for ever.
 * Mutants, which must fail: 1 a write-back does not look whether the page is held; 2 the punch does
 * not wait for who has the page busy; 3 the page leaves its slot before the file is punched; 4 a size
 * that was asked for before another resize is still applied; 5 a page enters its slot only after it
 * was read; 6 a page leaves its slot while it is read in.
 *
 * expect: no errors
 * expect-with -DMUTANT=1: errors
 * expect-with -DMUTANT=2: errors
 * expect-with -DMUTANT=3: errors
 * expect-with -DMUTANT=4: errors
 * expect-with -DMUTANT=5: errors
 * expect-with -DMUTANT=6: errors
 */
#ifndef MUTANT
#define MUTANT 0
#endif

bool old_in_file = true, old_in_page = true; /* the data the punch takes away */
bool in_slot = true, busy; /* busy: of the page in the slot */
byte page;		   /* which one that is, or was: one that was dropped comes back as another */
bool punched;
byte calls; /* of the file, for the page */

bool held;    /* a resize is under way; changes with in_slot under the object's lock */
byte resizes; /* that have ended */
byte file_size = 1, size = 1;

inline begin()
{
	atomic { !held -> held = true }
}

inline end()
{
	d_step { held = false; resizes++ }
}

inline unlock(mine)
{
	d_step {
		if
		:: mine == page -> busy = false
		:: else
		fi
	}
}

inline drop()
{
	atomic {
		MUTANT == 6 || !in_slot || !busy;
		d_step { in_slot = false; busy = false; page++ }
	}
}

inline call()
{
	d_step { calls++; assert(calls == 1) }
}

proctype punch()
{
	begin();
	/* each page of the range: whoever got BUSY before is waited for */
	if
	:: MUTANT == 2
	:: else ->
		do
		:: atomic { !in_slot || !busy -> break }
		od
	fi;
	if
	:: MUTANT == 3 -> drop(); old_in_file = false
	:: else -> old_in_file = false; drop()
	fi;
	end();
	punched = true;
	assert(!old_in_file && !(in_slot && old_in_page))
}

/* Brings the page in; gives up when somebody else did. */
proctype reader()
{
	bool read;
	byte mine;

	if
	:: MUTANT == 5 ->
		read = old_in_file;
		atomic {
			if
			:: !in_slot -> in_slot = true; old_in_page = read
			:: else
			fi
		}
	:: else ->
		atomic {
			if
			:: in_slot -> goto done
			:: else -> in_slot = true; busy = true; old_in_page = false; mine = page
			fi
		};
		call();
		read = old_in_file;
		calls--;
		d_step {
			if
			:: mine == page -> old_in_page = read; busy = false
			:: else
			fi
		}
	fi;
done:
	skip
}

proctype write_back()
{
	bool data;
	byte mine;

again:
	atomic {
		!busy || !in_slot;
		if
		:: in_slot -> busy = true; mine = page
		:: else -> goto done
		fi
	};
	if
	:: MUTANT != 1 && held ->
		unlock(mine);
		!held;
		goto again
	:: else
	fi;
	atomic {
		if
		:: mine == page -> data = old_in_page
		:: else -> goto done /* gone */
		fi
	};
	call();
	old_in_file = data;
	calls--;
	unlock(mine);
done:
	skip
}

proctype truncation()
{
	begin();
	file_size = 2;
	size = 2;
	end()
}

proctype refresh()
{
	byte seen, asked;

again:
	atomic { !held -> seen = resizes };
	asked = file_size;
	if
	:: asked == size -> goto done
	:: else
	fi;
	atomic {
		if
		:: MUTANT != 4 && (held || seen != resizes) -> goto again
		:: else -> !held -> held = true
		fi
	};
	size = asked;
	end();
done:
	skip
}

init {
	pid first = _nr_pr;

	atomic {
		if
		:: run punch(); run reader(); run write_back(); run write_back()
		:: in_slot = false; run punch(); run reader(); run reader(); run write_back()
		:: run truncation(); run refresh(); run refresh()
		:: file_size = 3; run truncation(); run refresh(); run punch()
		fi
	};
	_nr_pr == first;
	assert(!punched || (!old_in_file && !(in_slot && old_in_page)));
	assert(size == file_size)
}
