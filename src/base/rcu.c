/* SPDX-License-Identifier: MIT */
/*
 * rcu.c - grace periods, the queue of callbacks and the worker that runs them.
 *
 * Callbacks are pushed on a lock-free stack. The worker takes all of it, turns it round, waits for one
 * grace period and runs the lot; what was pushed meanwhile waits for the next. One grace period
 * serves everything that came before it, so under load the batch grows and the cost per callback
 * shrinks; when little is queued the worker waits a moment for more (BATCH_DELAY_MS), unless somebody
 * waits for it.
 *
 * The worker is a thread for batches (SCHED_BATCH): it takes no CPU from who runs. liburcu wakes it with
 * every end of a read section while it waits for one, mostly of a thread that has lost its CPU; awake at once it
 * found that one still inside, and each look is two membarriers, interrupts on all CPUs: 60 of them
 * a grace period where four threads fault on two CPUs, and a tenth of all time.
 *
 * I1 Only who holds process_lock takes from the queue: the worker; or, where there is none (a thread
 *    could not be made, or not yet in the child of a fork), whoever waits in a barrier.
 * I2 fork_gate is held for reading across every grace period; fork takes it for writing, so that
 *    liburcu's own locks and its lists of readers are at rest when the process is copied.
 * I3 The worker sleeps only after it has said so in `sleeping` and then found nothing to do; who gives
 *    it something to do looks at `sleeping` afterwards (both seq_cst).
 *
 * Lock order: process_lock, fork_gate, the thread list of thread.c.
 */
#include "base/rcu.h"
#include "base/fork.h"
#include "base/thread.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	BATCH_SMALL = 32,   /* fewer callbacks than this may wait for company */
	BATCH_DELAY_MS = 1, /* this long */
	THROTTLE_MS = 100,  /* G4 */
};

enum { AWAKE, FOR_WORK, FOR_COMPANY }; /* of `sleeping` */

#if SM_TSAN
char sm__rcu_key;
#endif

static _Atomic(struct rcu_head *) queue; /* newest first */
static _Atomic uint64_t nr_queued;
static _Atomic uint64_t nr_done;
static _Atomic uint32_t sleeping; /* futex: AWAKE, or what the worker sleeps for */
static _Atomic uint32_t drained;  /* futex: counts batches, for those who are throttled */
static atomic_bool hurry;	  /* somebody waits: no BATCH_DELAY_MS */
static atomic_bool worker_runs;
static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t fork_gate = PTHREAD_RWLOCK_INITIALIZER;

static _Atomic(unsigned int (*)(void)) tick_function;
static _Atomic int64_t tick_due; /* ms of the monotonic clock; 0: none */
static _Thread_local bool in_worker __attribute__((tls_model("initial-exec")));

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, ms < 0 ? NULL : &t, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
	int saved = errno;

	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
	errno = saved;
}

static void wake_worker(void)
{
	/* seq_cst: I3 */
	if (atomic_load_explicit(&sleeping, memory_order_seq_cst) != AWAKE &&
	    atomic_exchange_explicit(&sleeping, AWAKE, memory_order_seq_cst) != AWAKE)
		futex_wake(&sleeping);
}

void sm__rcu_synchronize(void)
{
	pthread_rwlock_rdlock(&fork_gate);
	synchronize_rcu();
	pthread_rwlock_unlock(&fork_gate);
	sm__rcu_grace_ends();
}

uint64_t sm__rcu_backlog(void)
{
	uint64_t done = atomic_load_explicit(&nr_done, memory_order_relaxed);

	return atomic_load_explicit(&nr_queued, memory_order_relaxed) - done;
}

void sm__rcu_for_each_queued(void (*fn)(struct rcu_head *head))
{
	struct rcu_head *head = atomic_load_explicit(&queue, memory_order_acquire);

	for (; head; head = (struct rcu_head *)(void *)head->next.next)
		fn(head);
}

/* Everything queued so far, oldest first. */
static struct rcu_head *take_batch(void)
{
	/* acquire: pairs with the release of the pushers */
	struct rcu_head *head = atomic_exchange_explicit(&queue, NULL, memory_order_acquire);
	struct rcu_head *oldest = NULL;

	while (head) {
		struct rcu_head *older = (struct rcu_head *)(void *)head->next.next;

		head->next.next = (struct cds_wfcq_node *)(void *)oldest;
		oldest = head;
		head = older;
	}
	return oldest;
}

/* One grace period and the callbacks it was for. False: there were none. process_lock held. */
static bool process_batch(void)
{
	struct rcu_head *head = take_batch(), *next;

	if (!head)
		return false;
	sm__rcu_synchronize();
	for (; head; head = next) {
		next = (struct rcu_head *)(void *)head->next.next;
		head->func(head);
		atomic_fetch_add_explicit(&nr_done, 1, memory_order_relaxed);
	}
	/* release: pairs with the throttled caller's acquire */
	atomic_fetch_add_explicit(&drained, 1, memory_order_release);
	futex_wake(&drained);
	return true;
}

static void run_tick(void)
{
	int64_t due = atomic_load_explicit(&tick_due, memory_order_acquire);
	unsigned int (*tick)(void) = atomic_load_explicit(&tick_function, memory_order_acquire);
	unsigned int ms;

	if (!due || !tick || now_ms() < due)
		return;
	/* A request that comes in while the tick runs finds 0 and sets its own time. */
	atomic_store_explicit(&tick_due, 0, memory_order_seq_cst);
	pthread_mutex_lock(&process_lock);
	ms = tick();
	pthread_mutex_unlock(&process_lock);
	if (ms)
		sm__rcu_tick_in(ms);
}

/* Until there is work, or the tick is due. */
static void sleep_for_work(void)
{
	int64_t due, now;

	atomic_store_explicit(&sleeping, FOR_WORK, memory_order_seq_cst);
	due = atomic_load_explicit(&tick_due, memory_order_seq_cst);
	now = due ? now_ms() : 0;
	if (!atomic_load_explicit(&queue, memory_order_seq_cst) && now <= due)
		futex_wait(&sleeping, FOR_WORK, due ? due - now : -1);
	atomic_store_explicit(&sleeping, AWAKE, memory_order_seq_cst);
}

/* A little, for more callbacks to share a grace period with, unless somebody is in a hurry. */
static void sleep_for_company(void)
{
	atomic_store_explicit(&sleeping, FOR_COMPANY, memory_order_seq_cst);
	if (sm__rcu_backlog() < BATCH_SMALL &&
	    !atomic_exchange_explicit(&hurry, false, memory_order_seq_cst))
		futex_wait(&sleeping, FOR_COMPANY, BATCH_DELAY_MS);
	atomic_store_explicit(&sleeping, AWAKE, memory_order_seq_cst);
}

/* A thread of an embedder that runs in real time stays as it is. */
static void give_way(void)
{
	struct sched_param param;
	int policy;

	if (!pthread_getschedparam(pthread_self(), &policy, &param) && policy == SCHED_OTHER)
		(void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &param);
}

static void *worker(void *unused)
{
	(void)unused;
	in_worker = true;
	give_way();
	for (;;) {
		uint64_t backlog;

		run_tick();
		backlog = sm__rcu_backlog();
		if (!backlog) {
			sleep_for_work();
			continue;
		}
		if (backlog < BATCH_SMALL)
			sleep_for_company();
		pthread_mutex_lock(&process_lock);
		process_batch();
		pthread_mutex_unlock(&process_lock);
	}
	return NULL;
}

static void fork_prepare(void)
{
	pthread_mutex_lock(&start_lock);
	pthread_mutex_lock(&process_lock);
	pthread_rwlock_wrlock(&fork_gate);
	sm__thread_fork_prepare();
}

static void fork_after(bool in_child)
{
	sm__thread_fork_after(in_child);
	if (in_child) {
		/* the thread that held it for writing has another number here: make it anew */
		pthread_rwlock_init(&fork_gate, NULL);
		atomic_store_explicit(&worker_runs, false, memory_order_relaxed);
		atomic_store_explicit(&sleeping, 0, memory_order_relaxed);
		in_worker = false;
	} else {
		pthread_rwlock_unlock(&fork_gate);
	}
	pthread_mutex_unlock(&process_lock);
	pthread_mutex_unlock(&start_lock);
}

void sm__rcu_start(void)
{
	static const struct sm__fork_ops fork_ops = { fork_prepare, fork_after };
	pthread_attr_t attr;
	sigset_t all, saved;
	pthread_t thread;

	if (atomic_load_explicit(&worker_runs, memory_order_acquire))
		return;
	sm__fork_register(SM__FORK_RCU, &fork_ops);
	pthread_mutex_lock(&start_lock);
	if (!atomic_load_explicit(&worker_runs, memory_order_relaxed)) {
		sigfillset(&all);
		pthread_attr_init(&attr);
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
		pthread_sigmask(SIG_SETMASK, &all, &saved);
		if (!pthread_create(&thread, &attr, worker, NULL))
			atomic_store_explicit(&worker_runs, true, memory_order_release);
		pthread_sigmask(SIG_SETMASK, &saved, NULL);
		pthread_attr_destroy(&attr);
	}
	pthread_mutex_unlock(&start_lock);
}

void sm__call_rcu_nowait(struct rcu_head *head, void (*func)(struct rcu_head *))
{
	struct rcu_head *old = atomic_load_explicit(&queue, memory_order_relaxed);

	head->func = func;
	atomic_fetch_add_explicit(&nr_queued, 1, memory_order_relaxed);
	do {
		head->next.next = (struct cds_wfcq_node *)(void *)old;
		/* seq_cst: I3; the release in it pairs with take_batch */
	} while (!atomic_compare_exchange_weak_explicit(&queue, &old, head, memory_order_seq_cst,
							memory_order_relaxed));
	if (atomic_load_explicit(&sleeping, memory_order_seq_cst) != FOR_COMPANY ||
	    sm__rcu_backlog() >= BATCH_SMALL)
		wake_worker();
}

/* Until the batch after `seen`, or the end. False: it is not for us to wait. */
static bool wait_batch(uint32_t seen, int64_t *end)
{
	int64_t now = now_ms();

	if (in_worker || sm__rcu_read_ongoing())
		return false;
	*end = *end ? *end : now + THROTTLE_MS;
	if (now >= *end)
		return false;
	atomic_store_explicit(&hurry, true, memory_order_seq_cst);
	wake_worker();
	futex_wait(&drained, seen, *end - now);
	return true;
}

void sm__rcu_throttle(void)
{
	int64_t end = 0;
	int saved = errno;
	uint32_t seen;

	do {
		seen = atomic_load_explicit(&drained, memory_order_acquire);
	} while (sm__rcu_backlog() > SM__RCU_BACKLOG && wait_batch(seen, &end));
	errno = saved;
}

void sm__rcu_wait_batch(void)
{
	uint32_t first = atomic_load_explicit(&drained, memory_order_acquire), seen = first;
	int64_t end = 0;
	int saved = errno;

	while (seen == first && sm__rcu_backlog() && wait_batch(seen, &end))
		seen = atomic_load_explicit(&drained, memory_order_acquire);
	errno = saved;
}

void sm__call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *))
{
	sm__call_rcu_nowait(head, func);
	if (sm__unlikely(sm__rcu_backlog() > SM__RCU_BACKLOG))
		sm__rcu_throttle();
}

struct barrier {
	struct rcu_head head;
	_Atomic uint32_t done; /* futex */
};

static void barrier_reached(struct rcu_head *head)
{
	struct barrier *b = sm__container_of(head, struct barrier, head);

	/* The waiter may be gone as soon as it reads 1: a wake at a dead address is harmless. */
	atomic_store_explicit(&b->done, 1, memory_order_release);
	futex_wake(&b->done);
}

void sm__rcu_barrier(void)
{
	struct barrier b = { .done = 0 };
	int saved = errno;

	sm__rcu_start();
	sm__call_rcu_nowait(&b.head, barrier_reached);
	atomic_store_explicit(&hurry, true, memory_order_seq_cst);
	wake_worker();
	while (!atomic_load_explicit(&b.done, memory_order_acquire)) {
		if (atomic_load_explicit(&worker_runs, memory_order_acquire)) {
			futex_wait(&b.done, 0, -1);
			continue;
		}
		pthread_mutex_lock(&process_lock);
		process_batch();
		pthread_mutex_unlock(&process_lock);
	}
	errno = saved;
}

void sm__rcu_set_tick(unsigned int (*tick)(void))
{
	atomic_store_explicit(&tick_function, tick, memory_order_release);
}

void sm__rcu_tick_in(unsigned int ms)
{
	int64_t due = now_ms() + ms;
	int64_t old = atomic_load_explicit(&tick_due, memory_order_relaxed);

	while (!old || due < old) {
		if (atomic_compare_exchange_weak_explicit(
			    &tick_due, &old, due, memory_order_seq_cst, memory_order_relaxed)) {
			wake_worker();
			break;
		}
	}
}
