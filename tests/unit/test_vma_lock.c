/* SPDX-License-Identifier: MIT */
/*
 * The VMA lock in its three forms (vma_lock.h I1 to I5), and the bugs that the kernel had on its way
 * there, by the numbers of docs/design/locking.md: B2 and B4 are assertions in link.c, the races B1,
 * B3, B5 and B8 are in torture_space too.
 */
#include "samara/samara.h"
#include "space/space.h"
#include "space/vma_lock.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>
#include <cmocka.h>

static struct sm_host *host;
static struct sm_space *s, *other;
static struct sm__vma *v;
static enum sm_design_vma_lock form;

static struct sm_space *make_space(void)
{
	struct sm_space_options o;
	struct sm_space *n;

	sm_space_options_init(&o);
	sm_design_preset("linux-5.19", &o.design);
	n = sm_space_create(host, &o, NULL);
	if (!n)
		return NULL;
	/* the lock alone is under test: the tree stays empty */
	n->design.vma_lock = form;
	n->lock_cache = sm__host_cache(host, SM__CACHE_VMA_LOCK, SM_CACHE_LAYER_SLAB);
	return n;
}

static int setup(void **state)
{
	form = *(enum sm_design_vma_lock *)*state;
	host = sm_host_create(NULL, NULL);
	s = make_space();
	other = make_space();
	v = sm__vma_new(s);
	if (!v)
		return -1;
	v->start = 0x1000;
	v->end = 0x3000;
	return 0;
}

static void end_write(void)
{
	sm__mmap_write_unlock(&s->lock);
}

static void begin_write(void)
{
	sm__mmap_write_lock(&s->lock, 0, false);
}

static void attach(void)
{
	begin_write();
	sm__vma_start_write(s, v);
	sm__vma_mark_attached(s, v);
	end_write();
}

static void detach(void)
{
	begin_write();
	sm__vma_start_write(s, v);
	sm__vma_mark_detached(s, v);
	end_write();
}

static int teardown(void **state)
{
	(void)state;
	sm__vma_free(s, v, false);
	sm_space_destroy(s);
	sm_space_destroy(other);
	return sm_host_destroy(host);
}

static enum sm__vma_try try_read(struct sm_space *space)
{
	enum sm__vma_try got;

	sm__rcu_read_lock();
	got = sm__vma_start_read(space, v, form);
	sm__rcu_read_unlock();
	return got;
}

/* The state table, step by step. */
static void states(void **state)
{
	(void)state;
	assert_int_equal(try_read(s), SM__VMA_DETACHED);
	attach();
	assert_int_equal(try_read(s), SM__VMA_LOCKED_BY_US);
	assert_int_equal(try_read(s), SM__VMA_LOCKED_BY_US); /* readers share */
	sm__vma_end_read(v, form);
	sm__vma_end_read(v, form);
	begin_write();
	/* mmap_lock alone excludes nobody */
	assert_int_equal(try_read(s), SM__VMA_LOCKED_BY_US);
	sm__vma_end_read(v, form);
	sm__vma_start_write(s, v);
	sm__vma_start_write(s, v); /* idempotent */
	assert_int_equal(try_read(s), SM__VMA_STAMPED);
	end_write();
	assert_int_equal(try_read(s), SM__VMA_LOCKED_BY_US); /* all stamps fell */
	sm__vma_end_read(v, form);
	detach();
	assert_int_equal(try_read(s), SM__VMA_DETACHED);
	if (form == SM_VMA_LOCK_REFCNT)
		assert_int_equal(atomic_load(&v->lock.refcnt), 0);
}

static void downgrade_drops_stamps(void **state)
{
	uint64_t since;

	(void)state;
	attach();
	begin_write();
	sm__vma_start_write(s, v);
	since = sm__mmap_downgrade(&s->lock);
	assert_int_equal(try_read(s), SM__VMA_LOCKED_BY_US);
	sm__vma_end_read(v, form);
	assert_true(sm__vma_start_read_locked(v, form));
	sm__vma_end_read(v, form);
	sm__mmap_read_unlock(&s->lock, since);
	detach();
}

/* ---- a writer waits for readers */

static _Atomic int got_it;

static void *write_thread(void *arg)
{
	(void)arg;
	begin_write();
	sm__vma_start_write(s, v);
	atomic_store(&got_it, 1);
	end_write();
	return NULL;
}

static void writer_waits_and_new_readers_back_off(void **state)
{
	pthread_t t;
	enum sm__vma_try got;

	(void)state;
	attach();
	for (int sleep = 0; sleep < 2; sleep++) {
		atomic_store(&got_it, 0);
		assert_int_equal(try_read(s), SM__VMA_LOCKED_BY_US);
		pthread_create(&t, NULL, write_thread, NULL);
		do
			got = try_read(s);
		while (got == SM__VMA_LOCKED_BY_US && (sm__vma_end_read(v, form), 1));
		assert_int_equal(got, SM__VMA_WAITED);
		if (sleep)
			usleep(20000); /* long enough for it to go to sleep */
		assert_int_equal(got_it, 0);
		sm__vma_end_read(v, form);
		pthread_join(t, NULL);
		assert_int_equal(got_it, 1);
	}
	detach();
}

/* B7: a writer that gives up takes its flag along; mmap_lock and earlier stamps stay. */
static _Atomic uint32_t give_up;

static void *interrupted_writer(void *arg)
{
	long err;

	(void)arg;
	sm__interrupt_flag = &give_up;
	begin_write();
	err = sm__vma_start_write_interruptible(s, v);
	assert_true(sm__mmap_is_write_locked(&s->lock));
	end_write();
	return (void *)err;
}

static void b7_interrupted_writer(void **state)
{
	pthread_t t;
	void *err;

	(void)state;
	attach();
	assert_int_equal(try_read(s), SM__VMA_LOCKED_BY_US);
	atomic_store(&give_up, 0);
	pthread_create(&t, NULL, interrupted_writer, NULL);
	usleep(5000);
	atomic_store(&give_up, 1);
	pthread_join(t, &err);
	assert_int_equal((long)err, -EINTR);
	assert_int_equal(try_read(s), SM__VMA_LOCKED_BY_US); /* not left in the waiting state */
	sm__vma_end_read(v, form);
	sm__vma_end_read(v, form);
	detach();
}

/* B6: where 32 bits wrap, 64 bits go on: an old stamp never looks like a new one. */
static void b6_no_wrap(void **state)
{
	(void)state;
	attach();
	begin_write();
	sm__vma_start_write(s, v);
	end_write();
	/* as after 2^31 write sections */
	atomic_store(&s->lock.seq, atomic_load(&s->lock.seq) + (1ull << 32) - 2);
	begin_write();
	assert_int_equal((uint32_t)atomic_load(&s->lock.seq), (uint32_t)atomic_load(&v->lock_seq));
	assert_false(sm__vma_is_stamped(s, v));
	assert_int_equal(try_read(s), SM__VMA_LOCKED_BY_US);
	sm__vma_end_read(v, form);
	end_write();
	detach();
}

/* I5, B5: the memory has become a VMA of another space; the put wakes that space's writer. */
static void recycled(void **state)
{
	(void)state;
	if (form != SM_VMA_LOCK_REFCNT)
		return;
	attach();
	atomic_store(&v->space, other);
	assert_int_equal(try_read(s), SM__VMA_RECYCLED);
	assert_int_equal(atomic_load(&v->lock.refcnt), 1);
	atomic_store(&v->space, s);
	detach();
}

/* A detacher waits for a reader that pinned before it saw the stamp and has yet to back out. */
static void *detach_thread(void *arg)
{
	(void)arg;
	begin_write();
	/* the stamp as if it had been there when the reader came: the pin is a late one */
	atomic_store(&v->lock_seq, atomic_load(&s->lock.seq));
	sm__vma_mark_detached(s, v);
	atomic_store(&got_it, 1);
	end_write();
	return NULL;
}

static void detacher_waits_for_late_pins(void **state)
{
	pthread_t t;

	(void)state;
	if (form != SM_VMA_LOCK_REFCNT)
		return;
	attach();
	atomic_store(&got_it, 0);
	assert_int_equal(try_read(s), SM__VMA_LOCKED_BY_US);
	pthread_create(&t, NULL, detach_thread, NULL);
	usleep(5000);
	assert_int_equal(got_it, 0);
	sm__vma_end_read(v, form);
	pthread_join(t, NULL);
	assert_int_equal(atomic_load(&v->lock.refcnt), 0);
}

/* More readers than the counter holds: refused, not wrapped. */
static void reader_overflow(void **state)
{
	_Atomic uint32_t *word;

	(void)state;
	attach();
	word = form == SM_VMA_LOCK_REFCNT ? &v->lock.refcnt : sm__vma_word(v, form);
	atomic_fetch_add(word, SM__VMA_LIMIT);
	assert_int_equal(try_read(s), SM__VMA_WAITED);
	assert_false(sm__vma_start_read_locked(v, form));
	atomic_fetch_sub(word, SM__VMA_LIMIT);
	detach();
}

#define TEST(f, form_)                                           \
	{                                                        \
#f "/" #form_, f, setup, teardown, &forms[form_] \
	}
#define ALL(f) TEST(f, SM_VMA_LOCK_INLINE), TEST(f, SM_VMA_LOCK_OWN), TEST(f, SM_VMA_LOCK_REFCNT)

int main(void)
{
	static enum sm_design_vma_lock forms[] = { SM_VMA_LOCK_NONE, SM_VMA_LOCK_INLINE,
						   SM_VMA_LOCK_OWN, SM_VMA_LOCK_REFCNT };
	const struct CMUnitTest tests[] = {
		ALL(states),
		ALL(downgrade_drops_stamps),
		ALL(writer_waits_and_new_readers_back_off),
		ALL(b7_interrupted_writer),
		ALL(b6_no_wrap),
		ALL(recycled),
		ALL(detacher_waits_for_late_pins),
		ALL(reader_overflow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
