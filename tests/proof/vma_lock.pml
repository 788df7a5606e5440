/* SPDX-License-Identifier: MIT */
/*
 * vma_lock.pml - the reference-counted VMA lock (src/space/vma_lock.h) with everything that makes it
 * hard: two readers, two spaces, and one piece of VMA memory that is taken out of one space and at once
 * becomes a VMA of the other (type-stable memory), while a space may die.
 *
 *   P1  a reader that holds the lock holds a VMA of its own space that is in the tree, and nobody
 *       changes it meanwhile                                             (I1, I2, I5, G1, G2)
 *   P2  a writer that has stamped a VMA is alone with it                 (I1)
 *   P3  nobody waits for ever: no invalid end state                      (wake-ups are not lost)
 *   P4  a reader never touches a space after its memory is gone          (I4, bug B5)
 *
 * -DWRAP=2: the sequence has one bit instead of 64. An old stamp then looks like a new one, the writer
 * does not wait, and P2 fails: bug B6. The real sequence has 64 bits and does not come round.
 *
 * run: spin -a vma_lock.pml && cc -O2 -DSAFETY -o pan pan.c && ./pan -m100000
 * expect: no errors
 * expect-with -DWRAP=2: errors
 */
#ifndef WRAP
#define WRAP 120
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef READS
#define READS 1
#endif

#define FLAG	 16
#define LIMIT	 (FLAG - 1)
#define NO_STAMP 127

byte refcnt;		     /* of the one VMA memory */
byte lock_seq = NO_STAMP;
byte vspace;		     /* whose it is */
bool in_tree[2];
bool pool = true;	     /* free memory */
bool writing;
byte readers;		     /* that hold the lock */

byte seq[2];		     /* even: free */
byte wake[2];
bool dead[2];		     /* memory of the space is gone */
bool in_rcu[2];		     /* per reader */

/* add FLAG, wait until only target is left, stamp, take FLAG away */
inline wait_for(me, target)
{
	do
	:: ticket = wake[me];
	   if
	   :: refcnt == target -> break
	   :: else -> (wake[me] != ticket || refcnt == target)
	   fi
	od
}

inline start_write(me)
{
	if
	:: lock_seq == seq[me] -> skip
	:: else ->
		if
		:: atomic { refcnt > 0 -> refcnt = refcnt + FLAG };
		   wait_for(me, FLAG + 1);
		   lock_seq = seq[me];
		   atomic { refcnt = refcnt - FLAG }
		:: atomic { refcnt == 0 -> skip };
		   lock_seq = seq[me]
		fi
	fi;
	assert(readers == 0) /* P2 */
}

proctype writer(byte me)
{
	byte round = 0, ticket;
	bool left;

	do
	:: round == ROUNDS -> break
	:: else ->
		round++;
		seq[me] = (seq[me] + 1) % WRAP;
		if
		:: in_tree[me] -> /* change it */
			start_write(me);
			writing = true;
			writing = false
		:: in_tree[me] -> /* take it out and free it */
			start_write(me);
			in_tree[me] = false;
			atomic { refcnt = refcnt - 1; left = refcnt > 0 };
			if
			:: !left -> skip
			:: else ->
				if
				:: atomic { refcnt > 0 -> refcnt = refcnt + FLAG };
				   wait_for(me, FLAG);
				   atomic { refcnt = refcnt - FLAG }
				:: atomic { refcnt == 0 -> skip }
				fi
			fi;
			assert(refcnt == 0);
			pool = true
		:: atomic { !in_tree[me] && pool -> pool = false };
			vspace = me; /* a new life */
			lock_seq = NO_STAMP;
			start_write(me);
			writing = true;
			writing = false;
			refcnt = 1;
			in_tree[me] = true
		:: !in_tree[me] && !pool -> skip
		fi;
		seq[me] = (seq[me] + 1) % WRAP
	od;
	if
	:: me == 1 && !in_tree[1] -> /* the space dies: a grace period, then its memory goes */
		if
		:: in_rcu[0] -> !in_rcu[0]
		:: else
		fi;
		if
		:: in_rcu[1] -> !in_rcu[1]
		:: else
		fi;
		dead[1] = true
	:: else
	fi
}

inline end_read(id)
{
	whose = vspace; /* before the release */
	in_rcu[id] = true;
	atomic { refcnt = refcnt - 1; n = refcnt };
	if
	:: n >= FLAG && n <= FLAG + 1 ->
		assert(!dead[whose]); /* P4 */
		wake[whose] = (wake[whose] + 1) % 8
	:: else
	fi
}

proctype reader(byte id)
{
	byte reads = 0, n, whose;

	do
	:: reads == READS -> break
	:: else ->
		reads++;
		in_rcu[id] = true;
		if
		:: !in_tree[0] -> goto out
		:: else
		fi;
		/* found: from here on the memory may change its life at any time */
again:		n = refcnt;
		if
		:: n == 0 -> goto out /* detached */
		:: n >= LIMIT -> goto out
		:: else
		fi;
		if
		:: atomic { refcnt == n -> refcnt = n + 1 }
		:: refcnt != n -> goto again
		fi;
		if
		:: vspace != 0 -> end_read(id); goto out /* recycled */
		:: else
		fi;
		if
		:: lock_seq == seq[0] -> end_read(id); goto out
		:: else
		fi;
		in_rcu[id] = false;
		readers++;
		assert(!writing && vspace == 0 && in_tree[0]); /* P1 */
		readers--;
		end_read(id);
out:		in_rcu[id] = false
	od
}

init {
	atomic {
		run writer(0);
		run writer(1);
		run reader(0);
		run reader(1)
	}
}
