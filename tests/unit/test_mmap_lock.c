/* SPDX-License-Identifier: MIT */
/* mmap_lock.h: exclusion (I1), order (I3), the sequence (I4, G2), interruption, statistics. */
#include "base/mmap_lock.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>
#include <cmocka.h>

enum { THREADS = 6, ROUNDS = 4000 };

static struct sm__mmap_lock lock;
static uint64_t guarded[2]; /* equal whenever nobody writes */
static _Atomic int torn;

static void *mixed(void *arg)
{
	unsigned n = (unsigned)(uintptr_t)arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t since;

		if ((i + n) % 3 == 0) {
			sm__mmap_write_lock(&lock, n, false);
			guarded[0]++;
			if (i % 64 == 0)
				sched_yield();
			guarded[1]++;
			if (i % 5 == 0) {
				since = sm__mmap_downgrade(&lock);
				if (guarded[0] != guarded[1])
					atomic_fetch_add(&torn, 1);
				sm__mmap_read_unlock(&lock, since);
			} else {
				sm__mmap_write_unlock(&lock);
			}
		} else {
			sm__mmap_read_lock(&lock, n, false, &since);
			if (guarded[0] != guarded[1])
				atomic_fetch_add(&torn, 1);
			if (i % 97 == 0)
				sched_yield();
			sm__mmap_read_unlock(&lock, since);
		}
	}
	return NULL;
}

/* What is counted by kind is what is counted by side; each thread was a kind of its own. */
static void by_kind(void)
{
	uint64_t holds = 0, hold_ns = 0, waits = 0, wait_ns = 0;

	for (int k = 0; k < SM__LOCK_KINDS; k++) {
		uint64_t n = lock.stats->hold_by_kind[k].count;

		/* a write in three, of which one in five is downgraded to a second hold */
		assert_true(k < THREADS ? n >= ROUNDS && n <= ROUNDS + ROUNDS / 12 : !n);
		holds += n;
		hold_ns += lock.stats->hold_by_kind[k].sum;
		waits += lock.stats->wait_by_kind[k].count;
		wait_ns += lock.stats->wait_by_kind[k].sum;
	}
	assert_int_equal(holds, lock.stats->hold[0].count + lock.stats->hold[1].count);
	assert_int_equal(hold_ns, lock.stats->hold[0].sum + lock.stats->hold[1].sum);
	assert_int_equal(waits, lock.stats->wait[0].count + lock.stats->wait[1].count);
	assert_int_equal(wait_ns, lock.stats->wait[0].sum + lock.stats->wait[1].sum);
}

static void excludes(void **state)
{
	pthread_t t[THREADS];

	(void)state;
	for (int stats = 0; stats < 2; stats++) {
		uint64_t writes = guarded[0];

		assert_int_equal(sm__mmap_lock_init(&lock, stats), 0);
		for (uintptr_t i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&t[i], NULL, mixed, (void *)i), 0);
		for (int i = 0; i < THREADS; i++)
			pthread_join(t[i], NULL);
		assert_int_equal(torn, 0);
		writes = guarded[0] - writes;
		assert_int_equal(atomic_load(&lock.state), 0);
		assert_int_equal(atomic_load(&lock.seq), 2 * writes);
		if (stats) {
			assert_int_equal(lock.stats->acquired[1], writes);
			assert_int_equal(lock.stats->hold[1].count, writes);
			assert_int_equal(lock.stats->hold[0].count, lock.stats->acquired[0]);
			by_kind();
		}
		sm__mmap_lock_destroy(&lock);
	}
}

/* ---- order */

static _Atomic int arrivals, order[3], who_next;

static void *reader(void *arg)
{
	uint64_t since;

	(void)arg;
	atomic_fetch_add(&arrivals, 1);
	sm__mmap_read_lock(&lock, 0, false, &since);
	order[1] = atomic_fetch_add(&who_next, 1);
	sm__mmap_read_unlock(&lock, since);
	return NULL;
}

static void *writer(void *arg)
{
	(void)arg;
	atomic_fetch_add(&arrivals, 1);
	sm__mmap_write_lock(&lock, 0, false);
	order[0] = atomic_fetch_add(&who_next, 1);
	sm__mmap_write_unlock(&lock);
	return NULL;
}

static void wait_queued(unsigned n)
{
	for (;;) {
		unsigned queued = 0;

		while (atomic_exchange(&lock.queue_lock, 1))
			sched_yield();
		for (struct sm__lock_waiter *w = lock.head; w; w = *(struct sm__lock_waiter **)w)
			queued++;
		atomic_store(&lock.queue_lock, 0);
		if (queued == n)
			return;
		usleep(100);
	}
}

static void waiting_writer_stops_readers(void **state)
{
	pthread_t w, r;
	uint64_t since, other;

	(void)state;
	sm__mmap_lock_init(&lock, false);
	sm__mmap_read_lock(&lock, 0, false, &since);
	pthread_create(&w, NULL, writer, NULL);
	wait_queued(1);
	assert_false(sm__mmap_read_trylock(&lock, 0, &other));
	pthread_create(&r, NULL, reader, NULL);
	wait_queued(2);
	assert_int_equal(who_next, 0);
	sm__mmap_read_unlock(&lock, since);
	pthread_join(w, NULL);
	pthread_join(r, NULL);
	assert_int_equal(order[0], 0); /* the writer came first */
	assert_int_equal(order[1], 1);
	sm__mmap_lock_destroy(&lock);
}

/* Somebody was next and does not come: the lock is had all the same, and nothing is left of the notice (I3). */
static void pending_is_a_courtesy(void **state)
{
	const uint64_t notices[] = { SM__LOCK_PENDING_R, SM__LOCK_PENDING_W };
	uint64_t since = 0;

	(void)state;
	for (int i = 0; i < 2; i++) {
		sm__mmap_lock_init(&lock, false);
		atomic_store(&lock.state, notices[i]);
		/* readers share: only a writer that is next keeps them off */
		assert_int_equal(sm__mmap_read_trylock(&lock, 0, &since), i == 0);
		if (i == 0)
			sm__mmap_read_unlock(&lock, since);
		sm__mmap_write_lock(&lock, 0, false);
		assert_int_equal(atomic_load(&lock.state), SM__LOCK_WRITER);
		sm__mmap_write_unlock(&lock);
		atomic_store(&lock.state, notices[i]);
		sm__mmap_read_lock(&lock, 0, false, &since);
		assert_int_equal(atomic_load(&lock.state) & SM__LOCK_PENDING_W, 0);
		sm__mmap_read_unlock(&lock, since);
		atomic_store(&lock.state, 0);
		sm__mmap_lock_destroy(&lock);
	}
}

/* ---- interruption */

static _Atomic uint32_t stop_waiting;

static void *interruptible(void *arg)
{
	uint64_t since;
	long err;

	sm__interrupt_flag = &stop_waiting;
	err = arg ? sm__mmap_write_lock(&lock, 0, true)
		  : sm__mmap_read_lock(&lock, 0, true, &since);
	return (void *)err;
}

static void waits_are_interruptible(void **state)
{
	(void)state;
	for (uintptr_t write = 0; write < 2; write++) {
		pthread_t t, later;
		void *err;

		sm__mmap_lock_init(&lock, false);
		atomic_store(&stop_waiting, 0);
		sm__mmap_write_lock(&lock, 0, false);
		pthread_create(&t, NULL, interruptible, (void *)write);
		wait_queued(1);
		pthread_create(&later, NULL, reader, NULL);
		wait_queued(2);
		atomic_store(&stop_waiting, 1);
		pthread_join(t, &err);
		assert_int_equal((long)err, -EINTR);
		wait_queued(1);
		sm__mmap_write_unlock(&lock);
		pthread_join(later, NULL);
		assert_int_equal(atomic_load(&lock.state), 0);
		sm__mmap_lock_destroy(&lock);
	}
}

static void sequence_tells_writers(void **state)
{
	uint64_t seq, since;

	(void)state;
	sm__mmap_lock_init(&lock, false);
	assert_true(sm__mmap_speculate_begin(&lock, &seq));
	assert_false(sm__mmap_speculate_retry(&lock, seq));
	sm__mmap_write_lock(&lock, 0, false);
	assert_true(sm__mmap_speculate_retry(&lock, seq));
	assert_false(sm__mmap_speculate_begin(&lock, &seq));
	since = sm__mmap_downgrade(&lock);
	assert_true(sm__mmap_speculate_begin(&lock, &seq));
	sm__mmap_read_unlock(&lock, since);
	assert_false(sm__mmap_speculate_retry(&lock, seq));
	sm__mmap_lock_destroy(&lock);
}

static void histogram_buckets(void **state)
{
	static struct sm__histogram h;

	(void)state;
	assert_int_equal(sm__histogram_index(0), 0);
	assert_int_equal(sm__histogram_index(1), 0);
	assert_int_equal(sm__histogram_index(2), 1);
	assert_int_equal(sm__histogram_index(1023), 9);
	assert_int_equal(sm__histogram_index(1024), 10);
	assert_int_equal(sm__histogram_index(UINT64_MAX), SM__HISTOGRAM_BUCKETS - 1);
	sm__histogram_add(&h, 5);
	sm__histogram_add(&h, 3);
	assert_int_equal(h.count, 2);
	assert_int_equal(h.sum, 8);
	assert_int_equal(h.max, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(excludes),
		cmocka_unit_test(waiting_writer_stops_readers),
		cmocka_unit_test(pending_is_a_courtesy),
		cmocka_unit_test(waits_are_interruptible),
		cmocka_unit_test(sequence_tells_writers),
		cmocka_unit_test(histogram_buckets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
