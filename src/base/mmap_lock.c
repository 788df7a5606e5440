/* SPDX-License-Identifier: MIT */
/*
 * mmap_lock.c - the slow paths: spin a while, then queue and sleep.
 *
 *      queue   W1 <- R2 <- R3 <- W4        read unlock of the last reader: W1 is woken, tries
 *      after   R2 <- R3 <- W4              W1 took it and left the queue
 *      unlock                              R2 and R3 are woken together and try, each for itself
 *      after   W4                          both are in
 *
 * Waiters live on their owners' stacks. A waiter's word says WAIT, or TRY: the lock may be free, stay in the
 * queue and try. Nobody is given the lock while it sleeps: it would be held, for as long as a wake-up
 * takes, by a thread that does nothing, and who comes meanwhile would queue in turn: such a convoy of sleepers
 * never ends by itself.
 *
 * I5 A waiter's memory is touched by others only while it is in the queue; the futex wake after it uses the
 *    address only.
 */
#include "base/mmap_lock.h"
#include "base/delay.h"
#include "base/inject.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WAIT, TRY };

enum {
	/* About 20 us of pausing: what one sleep and wake-up of a thread costs. */
	SPINS_MAX = 600,
	SPINS_QUEUE = 100,
	WAKES_MAX = 16, /* waiters woken in one go */
	STEALS_MAX = 32,
	/* How long a free lock is left to the thread that is next; it may have lost its CPU. */
	PATIENCE = 60,
};

static const uint64_t pending = SM__LOCK_PENDING_R | SM__LOCK_PENDING_W;

struct sm__lock_waiter {
	struct sm__lock_waiter *next;
	_Atomic uint32_t word;
	bool writer;
};

_Thread_local const _Atomic uint32_t *sm__interrupt_flag;

static inline void pause_cpu(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

void sm__mmap_lock_forget_waiters(struct sm__mmap_lock *l)
{
	SM_ASSERT(sm__mmap_is_write_locked(l));
	l->head = l->tail = NULL;
	atomic_store_explicit(&l->queue_lock, 0, memory_order_relaxed);
	atomic_store_explicit(&l->steals, 0, memory_order_relaxed);
	/* relaxed: one thread there is */
	atomic_store_explicit(&l->state, SM__LOCK_WRITER, memory_order_relaxed);
}

int sm__mmap_lock_init(struct sm__mmap_lock *l, bool stats)
{
	memset(l, 0, sizeof(*l));
	if (!stats)
		return 0;
	if (!sm__inject_fail())
		l->stats = calloc(1, sizeof(*l->stats));
	return l->stats ? 0 : -ENOMEM;
}

void sm__mmap_lock_destroy(struct sm__mmap_lock *l)
{
	SM_ASSERT_MSG(!l->head, "lock %p has waiters", (void *)l);
	free(l->stats);
}

static void queue_lock(struct sm__mmap_lock *l)
{
	unsigned n = 0;

	/* acquire: pairs with the release in queue_unlock */
	while (atomic_exchange_explicit(&l->queue_lock, 1, memory_order_acquire)) {
		while (atomic_load_explicit(&l->queue_lock, memory_order_relaxed)) {
			pause_cpu();
			if (++n % SPINS_QUEUE == 0) /* its holder may have lost its CPU to us */
				syscall(SYS_sched_yield);
		}
	}
}

static void queue_unlock(struct sm__mmap_lock *l)
{
	atomic_store_explicit(&l->queue_lock, 0, memory_order_release);
}

static void futex_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Sleeps while *word is WAIT. With a flag to watch, looks at it every 10 ms and on every signal. */
static void futex_wait(_Atomic uint32_t *word, bool interruptible)
{
	const struct timespec tick = { .tv_nsec = 10000000 };

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, WAIT,
		interruptible && sm__interrupt_flag ? &tick : NULL, NULL, 0);
}

static bool interrupted(void)
{
	/* acquire: pairs with the embedder's store, so that it sees what led to it */
	return sm__interrupt_flag &&
	       atomic_load_explicit(sm__interrupt_flag, memory_order_acquire) != 0;
}

static void enqueue(struct sm__mmap_lock *l, struct sm__lock_waiter *w)
{
	w->next = NULL;
	if (l->tail)
		l->tail->next = w;
	else
		l->head = w;
	l->tail = w;
	atomic_fetch_or_explicit(&l->state, SM__LOCK_WAITERS, memory_order_relaxed);
}

static void dequeue(struct sm__mmap_lock *l, struct sm__lock_waiter *w)
{
	struct sm__lock_waiter **at = &l->head, *before = NULL;

	while (*at != w) {
		before = *at;
		at = &(*at)->next;
	}
	*at = w->next;
	if (l->tail == w)
		l->tail = before;
	if (!l->head)
		atomic_fetch_and_explicit(&l->state, ~(SM__LOCK_WAITERS | SM__LOCK_HANDOFF),
					  memory_order_relaxed);
}

/* Nobody stands in front of w, or readers only and w is one. queue_lock is held. */
static bool is_served(const struct sm__mmap_lock *l, const struct sm__lock_waiter *w)
{
	const struct sm__lock_waiter *before = l->head;

	while (before != w && !before->writer && !w->writer)
		before = before->next;
	return before == w;
}

/* The lock has become free, or free for readers: wake the writer at the head, or the readers there. */
void sm__lock_wake(struct sm__mmap_lock *l)
{
	_Atomic uint32_t *words[WAKES_MAX];
	unsigned n;

	do {
		n = 0;
		queue_lock(l);
		for (struct sm__lock_waiter *w = l->head; w && n < WAKES_MAX && is_served(l, w);
		     w = w->next)
			/* relaxed: TRY promises nothing, the waiter looks at the state itself */
			if (atomic_exchange_explicit(&w->word, TRY, memory_order_relaxed) == WAIT)
				words[n++] = &w->word; /* else it is awake */
		queue_unlock(l);
		sm__delay();
		for (unsigned i = 0; i < n; i++)
			futex_wake(words[i]);
	} while (n == WAKES_MAX);
}

static void note_wait(struct sm__mmap_lock *l, unsigned side, unsigned kind, uint64_t since)
{
	uint64_t ns;

	if (!l->stats)
		return;
	ns = sm__now_ns() - since;
	atomic_fetch_add_explicit(&l->stats->contended[side], 1, memory_order_relaxed);
	sm__histogram_add(&l->stats->wait[side], ns);
	sm__histogram_add(&l->stats->wait_by_kind[kind % SM__LOCK_KINDS], ns);
}

/*
 * Overtaking a queue: false when it has been enough; HANDOFF then tells the head that it alone may have the
 * lock (I3).
 */
static bool may_overtake(struct sm__mmap_lock *l)
{
	if (atomic_fetch_add_explicit(&l->steals, 1, memory_order_relaxed) < STEALS_MAX)
		return true;
	atomic_fetch_or_explicit(&l->state, SM__LOCK_HANDOFF, memory_order_relaxed);
	return false;
}

/* From state s, in which the lock may be taken, to one in which it is; clears `clear` on the way. */
static bool take(struct sm__mmap_lock *l, uint64_t s, bool writer, uint64_t clear)
{
	uint64_t to = (s & ~clear) + (writer ? SM__LOCK_WRITER : SM__LOCK_READER);

	/* acquire: pairs with the releases of read_unlock, write_unlock and downgrade (G1) */
	return atomic_compare_exchange_strong_explicit(&l->state, &s, to, memory_order_acquire,
						       memory_order_relaxed);
}

/*
 * What keeps a thread off that has not queued, in state s: the holders, and for a reader the readers too when
 * somebody has queued, or they would take turns and leave a writer outside.
 */
static uint64_t holders(uint64_t s, bool writer)
{
	return s & (writer || (s & SM__LOCK_WAITERS) ? SM__LOCK_WRITER | SM__LOCK_READERS
						     : SM__LOCK_WRITER);
}

/*
 * For about as long as a sleep and a wake-up take. True: it is held. The first to find the lock taken is
 * pending: when the lock becomes free others leave it to that one, unless it does not come.
 */
static bool spin(struct sm__mmap_lock *l, bool writer)
{
	const uint64_t bit = writer ? SM__LOCK_PENDING_W : SM__LOCK_PENDING_R;
	const uint64_t before_us = writer ? pending : SM__LOCK_PENDING_W;
	uint64_t mine = 0, s;
	unsigned patience = 0;

	for (unsigned n = 0; n < SPINS_MAX; n++) {
		s = atomic_load_explicit(&l->state, memory_order_relaxed);
		if (s & SM__LOCK_HANDOFF)
			break;
		if (holders(s, writer)) {
			patience = 0;
			/* relaxed: a courtesy, see I3 */
			if (!mine && !(s & pending) &&
			    atomic_compare_exchange_strong_explicit(&l->state, &s, s | bit,
								    memory_order_relaxed,
								    memory_order_relaxed))
				mine = bit;
		} else if (mine || !(s & before_us) || ++patience > PATIENCE) {
			if ((s & SM__LOCK_WAITERS) && !may_overtake(l))
				break;
			if (take(l, s, writer, mine ? mine : s & before_us))
				return true;
		}
		pause_cpu();
	}
	if (mine)
		/* Should somebody have lost patience and another be next now, that one is not announced. */
		atomic_fetch_and_explicit(&l->state, ~mine, memory_order_relaxed);
	return false;
}

/* 0: it is held, or -EINTR. */
static int wait_in_queue(struct sm__mmap_lock *l, bool writer, bool interruptible)
{
	const uint64_t held = writer ? SM__LOCK_WRITER | SM__LOCK_READERS : SM__LOCK_WRITER;
	struct sm__lock_waiter me = { .word = WAIT, .writer = writer };
	bool served;
	uint64_t s;

	queue_lock(l);
	enqueue(l, &me);
	for (;;) {
		served = is_served(l, &me);
		s = atomic_load_explicit(&l->state, memory_order_relaxed);
		if (served && !(s & held) && take(l, s, writer, SM__LOCK_HANDOFF)) {
			dequeue(l, &me);
			atomic_store_explicit(&l->steals, 0, memory_order_relaxed);
			queue_unlock(l);
			return 0;
		}
		queue_unlock(l);
		if (interruptible && interrupted())
			break;
		/* acquire is not needed: TRY carries no data. Going back to WAIT before the last look
		 * at the state closes the window in which a wake-up would be missed. */
		if (atomic_exchange_explicit(&me.word, WAIT, memory_order_seq_cst) != TRY &&
		    (!served || (atomic_load_explicit(&l->state, memory_order_seq_cst) & held)))
			futex_wait(&me.word, interruptible);
		queue_lock(l);
	}
	queue_lock(l);
	dequeue(l, &me);
	if (served)
		atomic_fetch_and_explicit(&l->state, ~SM__LOCK_HANDOFF, memory_order_relaxed);
	queue_unlock(l);
	sm__lock_wake(l); /* who stood behind may be let in now */
	return -EINTR;
}

static int lock_slow(struct sm__mmap_lock *l, bool writer, unsigned kind, bool interruptible)
{
	uint64_t since = l->stats ? sm__now_ns() : 0;
	int err = spin(l, writer) ? 0 : wait_in_queue(l, writer, interruptible);

	if (!err)
		note_wait(l, writer, kind, since);
	return err;
}

int sm__lock_read_slow(struct sm__mmap_lock *l, unsigned kind, bool interruptible)
{
	return lock_slow(l, false, kind, interruptible);
}

int sm__lock_write_slow(struct sm__mmap_lock *l, unsigned kind, bool interruptible)
{
	return lock_slow(l, true, kind, interruptible);
}

/* A ticket: nanoseconds, which fill 60 bits in 36 years of uptime, and the kind below. */
static uint64_t ticket(unsigned kind)
{
	_Static_assert(SM__LOCK_KINDS == 16, "four bits");
	return sm__now_ns() << 4 | kind % SM__LOCK_KINDS;
}

void sm__lock_note_write(struct sm__mmap_lock *l, unsigned kind)
{
	l->write_since = ticket(kind);
	atomic_fetch_add_explicit(&l->stats->acquired[1], 1, memory_order_relaxed);
}

uint64_t sm__lock_note_read(struct sm__mmap_lock *l, unsigned kind)
{
	atomic_fetch_add_explicit(&l->stats->acquired[0], 1, memory_order_relaxed);
	return ticket(kind);
}

unsigned sm__lock_note_released(struct sm__mmap_lock *l, unsigned side, uint64_t since)
{
	unsigned kind = since % SM__LOCK_KINDS;
	uint64_t ns = sm__now_ns() - (since >> 4);

	sm__histogram_add(&l->stats->hold[side], ns);
	sm__histogram_add(&l->stats->hold_by_kind[kind], ns);
	return kind;
}
