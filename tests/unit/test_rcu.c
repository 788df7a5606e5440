/* SPDX-License-Identifier: MIT */
/* The RCU seam: G2, G3 and G5 of src/base/rcu.h, threads that come and go, signals. */
#include "base/rcu.h"
#include "base/thread.h"

#include <samara/thread.h>

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { CALLBACKS = 1000 };

static int order[CALLBACKS];
static _Atomic int ran;

struct item {
	struct rcu_head head;
	int number;
};

static void note(struct rcu_head *head)
{
	struct item *item = sm__container_of(head, struct item, head);
	sigset_t mask;

	order[atomic_load(&ran)] = item->number;
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	if (sigismember(&mask, SIGUSR1))
		atomic_fetch_add(&ran, 1);
	free(item);
}

static void queue_some(int n)
{
	for (int i = 0; i < n; i++) {
		struct item *item = malloc(sizeof(*item));

		assert_non_null(item);
		item->number = i;
		sm__call_rcu(&item->head, note);
	}
}

/* G3: all, in order, with signals blocked. */
static void barrier_waits_for_all(void **state)
{
	(void)state;
	atomic_store(&ran, 0);
	sm_thread_attach();
	queue_some(CALLBACKS);
	sm__rcu_barrier();
	assert_int_equal(atomic_load(&ran), CALLBACKS);
	for (int i = 0; i < CALLBACKS; i++)
		assert_int_equal(order[i], i);
	assert_true(sm__rcu_backlog() <= 1); /* the barrier itself may not be counted as done yet */
}

static _Atomic int reader_in;
static _Atomic int reader_may_leave;

static void *reader(void *unused)
{
	(void)unused;
	sm__thread_enter();
	sm__rcu_read_lock();
	atomic_store(&reader_in, 1);
	while (!atomic_load(&reader_may_leave))
		usleep(1000);
	/* G2: nothing queued while we were here has run */
	assert_int_equal(atomic_load(&ran), 0);
	sm__rcu_read_unlock();
	return NULL;
}

static void callbacks_wait_for_readers(void **state)
{
	pthread_t t;

	(void)state;
	atomic_store(&ran, 0);
	atomic_store(&reader_in, 0);
	atomic_store(&reader_may_leave, 0);
	pthread_create(&t, NULL, reader, NULL);
	while (!atomic_load(&reader_in))
		usleep(1000);
	queue_some(10);
	usleep(30000);
	assert_int_equal(atomic_load(&ran), 0);
	atomic_store(&reader_may_leave, 1);
	sm__rcu_barrier();
	assert_int_equal(atomic_load(&ran), 10);
	pthread_join(t, NULL);
}

/* G5: a reader of the parent holds up no grace period of the child; queued callbacks run there. */
static void child_of_fork_goes_on(void **state)
{
	pthread_t t;
	pid_t pid;
	int status;

	(void)state;
	if (SM_TSAN)
		skip(); /* the sanitizer's runtime makes no threads in a forked child */
	atomic_store(&ran, 0);
	atomic_store(&reader_in, 0);
	atomic_store(&reader_may_leave, 0);
	sm_thread_attach();
	pthread_create(&t, NULL, reader, NULL);
	while (!atomic_load(&reader_in))
		usleep(1000);
	pid = fork();
	if (!pid) {
		alarm(20);
		for (int i = 0; i < 3; i++) {
			struct item *item = malloc(sizeof(*item));

			item->number = i;
			sm__call_rcu(&item->head, note);
		}
		sm__rcu_barrier(); /* does the worker's work or starts one */
		sm__thread_enter();
		sm__rcu_read_lock();
		sm__rcu_read_unlock();
		sm__rcu_synchronize();
		_exit(atomic_load(&ran) == 3 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	atomic_store(&reader_may_leave, 1);
	pthread_join(t, NULL);
	sm__rcu_barrier();
}

static _Atomic int handled;
static _Atomic int handler_saw_attached;

static void on_signal(int sig)
{
	(void)sig;
	if (sm__thread_attached()) {
		sm__rcu_read_lock();
		sm__rcu_read_unlock();
		atomic_fetch_add(&handler_saw_attached, 1);
	}
	atomic_fetch_add(&handled, 1);
}

/* thread.h I2: a handler on an alternate stack reads under RCU if its thread is attached. */
static void handler_on_alternate_stack_reads(void **state)
{
	stack_t ss = { .ss_size = 65536 };
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };

	(void)state;
	ss.ss_sp = malloc(ss.ss_size);
	assert_int_equal(sigaltstack(&ss, NULL), 0);
	sigaction(SIGUSR1, &sa, NULL);
	sm_thread_detach();
	raise(SIGUSR1);
	assert_int_equal(atomic_load(&handler_saw_attached), 0);
	assert_int_equal(sm_thread_attach(), 0);
	assert_int_equal(sm_thread_attach(), 0);
	raise(SIGUSR1);
	assert_int_equal(atomic_load(&handler_saw_attached), 1);
	sm__rcu_read_lock();
	raise(SIGUSR1);
	assert_true(sm__rcu_read_ongoing());
	sm__rcu_read_unlock();
	assert_int_equal(atomic_load(&handled), 3);
	ss.ss_flags = SS_DISABLE;
	sigaltstack(&ss, NULL);
	free(ss.ss_sp);
}

static void *short_lived(void *unused)
{
	(void)unused;
	sm__thread_enter();
	sm__rcu_read_lock();
	sm__rcu_read_unlock();
	return NULL;
}

static void threads_come_and_go(void **state)
{
	(void)state;
	for (int i = 0; i < 200; i++) {
		pthread_t t;

		pthread_create(&t, NULL, short_lived, NULL);
		pthread_join(t, NULL);
		if (i % 50 == 0)
			sm__rcu_synchronize();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(barrier_waits_for_all),
		cmocka_unit_test(callbacks_wait_for_readers),
		cmocka_unit_test(child_of_fork_goes_on),
		cmocka_unit_test(handler_on_alternate_stack_reads),
		cmocka_unit_test(threads_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
