/* SPDX-License-Identifier: MIT */
/*
 * sequence.h - pop and push of a CPU's sheaf, and taking the slot: as restartable sequences, and as a
 * trylock.
 *
 * Sequences. Each begins by naming its descriptor in the thread's struct rseq and ends with one store
 * (or one lock cmpxchg). Preempted, moved or interrupted before that, it is sent out as if it had found
 * nothing, so what it did commit was decided on one CPU and at one moment. It is excluded from a slot
 * by any change of main that
 *  - another thread of the same CPU makes: that thread ran, so the sequence was preempted;
 *  - a thread elsewhere makes, once that has called sm__percpu_fence.
 * The descriptor stays named after the end; the kernel clears it when it next looks. So the code must
 * never be unmapped: the shared library is linked with -z nodelete.
 *
 * Trylock. main is exchanged for the locked sheaf and stored back.
 *
 * G1 A store of main (release, sm__slot_unlock) comes before the loads of who finds that main: by data
 *    dependency in a sequence (x86-64 keeps load order), by acquire in the trylock.
 */
#ifndef SM_CACHE_SEQUENCE_H
#define SM_CACHE_SEQUENCE_H

#include "base/delay.h"
#include "cache/internal.h"

enum sm__push_rcu { SM__PUSH_RCU_NO, SM__PUSH_RCU_DONE, SM__PUSH_RCU_FULL };

#if SM__HAVE_RSEQ
#include <sys/rseq.h>

_Static_assert(offsetof(struct rseq, cpu_id) == 4 && offsetof(struct rseq, rseq_cs) == 8,
	       "the sequences use these offsets");
_Static_assert(offsetof(struct sm_sheaf, word) == 0 && offsetof(struct sm__slot, main) == 0,
	       "the sequences use these offsets");

/* Leaves the CPU's number in scratch, jumps to label 5 when it has no slot. */
#define SEQUENCE_BEGIN(scratch, scratch32)              \
	".pushsection __rseq_cs, \"aw\"\n\t"            \
	".balign 32\n"                                  \
	"9:\t.long 0, 0\n\t"                            \
	".quad 1f, 2f - 1f, 4f\n\t"                     \
	".popsection\n"                                 \
	"\tleaq 9b(%%rip), " scratch "\n\t"             \
	"movq " scratch ", %%fs:8(%[offset])\n"         \
	"1:\tmovl %%fs:4(%[offset]), " scratch32 "\n\t" \
	"cmpl %[cpus], " scratch32 "\n\t"               \
	"jae 5f\n\t"                                    \
	"shlq %[shift], " scratch "\n\t"

/*
 * The abort handler and the way out at label 5 are one: an aborted sequence has done nothing, and says so.
 * Were it to start again, a thread that is single-stepped, or signalled without end, would stay in it.
 */
#define SEQUENCE_END(leave)                       \
	".pushsection __rseq_failure, \"ax\"\n\t" \
	".byte 0x0f, 0xb9, 0x3d\n\t"              \
	".long %c[signature]\n"                   \
	"4:\n"                                    \
	"5:\t" leave "\n\t"                       \
	".popsection\n\t"

#define SEQUENCE_INPUTS(c, nr_cpus)                                                   \
	[offset] "r"((c)->rseq_offset), [cpus] "r"(nr_cpus), [slots] "r"((c)->slots), \
		[shift] "i"(SM__SLOT_SHIFT), [signature] "i"(RSEQ_SIG),               \
		[objects] "i"(offsetof(struct sm_sheaf, objects)),                    \
		[capacity] "i"(offsetof(struct sm_sheaf, capacity))

static inline void *sm__sequence_pop(struct sm_cache *c)
{
	uintptr_t at, word;
	void *object;

	__asm__ volatile(SEQUENCE_BEGIN("%[at]", "%k[at]") /* */
			 "movq (%[slots],%[at]), %[at]\n\t"
			 "movq (%[at]), %[word]\n\t"
			 "movzwl %w[word], %k[object]\n\t"
			 "testl %k[object], %k[object]\n\t"
			 "jz 2f\n\t" /* none: object is NULL already */
			 "movq %c[objects]-8(%[at],%[object],8), %[object]\n\t"
			 "addq $0xffff, %[word]\n\t" /* a pop more, an object less */
			 "movq %[word], (%[at])\n"
			 "2:\n\t" SEQUENCE_END("xorl %k[object], %k[object]\n\tjmp 2b")
			 : [at] "=&r"(at), [word] "=&r"(word), [object] "=&r"(object)
			 : SEQUENCE_INPUTS(c, c->pop_cpus)
			 : "memory", "cc");
	return object;
}

/* Pushes on main; for caches whose nodes do not matter. */
static inline bool sm__sequence_push(struct sm_cache *c, void *object)
{
	__asm__ goto(SEQUENCE_BEGIN("%%rax", "%%eax") /* */
		     "movq (%[slots],%%rax), %%rax\n\t"
		     "movq (%%rax), %%rcx\n\t"
		     "movzwl %%cx, %%edx\n\t"
		     "cmpl %c[capacity](%%rax), %%edx\n\t"
		     "jae 5f\n\t"
		     "movq %[object], %c[objects](%%rax,%%rdx,8)\n\t"
		     "incq %%rcx\n\t"
		     "movq %%rcx, (%%rax)\n"
		     "2:\n\t" SEQUENCE_END("jmp %l[no]")
		     :
		     : SEQUENCE_INPUTS(c, c->push_cpus), [object] "r"(object)
		     : "memory", "cc", "rax", "rcx", "rdx"
		     : no);
	return true;
no:
	return false;
}

/* layer=slab: pushes when the object is of the slab that main is a view of. */
static inline bool sm__sequence_push_tagged(struct sm_cache *c, void *object)
{
	__asm__ goto(SEQUENCE_BEGIN("%%rax", "%%eax") /* */
		     "movq (%[slots],%%rax), %%rax\n\t"
		     "cmpq %[tag], %c[sheaf_tag](%%rax)\n\t"
		     "jne 5f\n\t"
		     "movq (%%rax), %%rcx\n\t"
		     "movzwl %%cx, %%edx\n\t"
		     "cmpl %c[capacity](%%rax), %%edx\n\t"
		     "jae 5f\n\t"
		     "movq %[object], %c[objects](%%rax,%%rdx,8)\n\t"
		     "incq %%rcx\n\t"
		     "movq %%rcx, (%%rax)\n"
		     "2:\n\t" SEQUENCE_END("jmp %l[no]")
		     :
		     : SEQUENCE_INPUTS(c, c->pop_cpus), [object] "r"(object),
		       [tag] "r"((uintptr_t)object & c->slab_mask),
		       [sheaf_tag] "i"(offsetof(struct sm_sheaf, tag))
		     : "memory", "cc", "rax", "rcx", "rdx"
		     : no);
	return true;
no:
	return false;
}

/* Pushes on the main of a CPU of this node. */
static inline bool sm__sequence_push_node(struct sm_cache *c, void *object, uint32_t node)
{
	__asm__ goto(SEQUENCE_BEGIN("%%rax", "%%eax") /* */
		     "addq %[slots], %%rax\n\t"
		     "cmpl %[node], %c[slot_node](%%rax)\n\t"
		     "jne 5f\n\t"
		     "movq (%%rax), %%rax\n\t"
		     "movq (%%rax), %%rcx\n\t"
		     "movzwl %%cx, %%edx\n\t"
		     "cmpl %c[capacity](%%rax), %%edx\n\t"
		     "jae 5f\n\t"
		     "movq %[object], %c[objects](%%rax,%%rdx,8)\n\t"
		     "incq %%rcx\n\t"
		     "movq %%rcx, (%%rax)\n"
		     "2:\n\t" SEQUENCE_END("jmp %l[no]")
		     :
		     : SEQUENCE_INPUTS(c, c->cpus), [object] "r"(object), [node] "r"(node),
		       [slot_node] "i"(offsetof(struct sm__slot, node))
		     : "memory", "cc", "rax", "rcx", "rdx"
		     : no);
	return true;
no:
	return false;
}

/* Pushes on rcu_free, unless somebody holds the slot. */
static inline enum sm__push_rcu sm__sequence_push_rcu(struct sm_cache *c, void *object,
						      uint32_t node)
{
	__asm__ goto(SEQUENCE_BEGIN("%%rax", "%%eax") /* */
		     "addq %[slots], %%rax\n\t"
		     "cmpl %[node], %c[slot_node](%%rax)\n\t"
		     "jne 5f\n\t"
		     "cmpq %[locked], (%%rax)\n\t"
		     "je 5f\n\t"
		     "movq %c[rcu_free](%%rax), %%rax\n\t"
		     "testq %%rax, %%rax\n\t"
		     "jz 5f\n\t"
		     "movl (%%rax), %%ecx\n\t"
		     "cmpl %c[capacity](%%rax), %%ecx\n\t"
		     "jae 5f\n\t"
		     "movq %[object], %c[objects](%%rax,%%rcx,8)\n\t"
		     "incl %%ecx\n\t"
		     "cmpl %c[capacity](%%rax), %%ecx\n\t"
		     "movl %%ecx, (%%rax)\n"
		     "2:\tje %l[full]\n\t" SEQUENCE_END("jmp %l[no]")
		     :
		     : SEQUENCE_INPUTS(c, c->cpus), [object] "r"(object), [node] "r"(node),
		       [locked] "r"(SM__LOCKED), [slot_node] "i"(offsetof(struct sm__slot, node)),
		       [rcu_free] "i"(offsetof(struct sm__slot, rcu_free))
		     : "memory", "cc", "rax", "rcx"
		     : no, full);
	return SM__PUSH_RCU_DONE;
full:
	return SM__PUSH_RCU_FULL;
no:
	return SM__PUSH_RCU_NO;
}

/* Takes the spare out of the slot if it holds n objects or more; NULL if not, or somebody has the slot. */
static inline struct sm_sheaf *sm__sequence_take_spare(struct sm_cache *c, uint32_t n)
{
	struct sm_sheaf *spare;
	uintptr_t slot;

	__asm__ volatile(SEQUENCE_BEGIN("%[slot]", "%k[slot]") /* */
			 "addq %[slots], %[slot]\n\t"
			 "cmpq %[locked], (%[slot])\n\t"
			 "je 5f\n\t"
			 "movq %c[at_spare](%[slot]), %[spare]\n\t"
			 "testq %[spare], %[spare]\n\t"
			 "jz 2f\n\t"
			 "cmpw %w[n], (%[spare])\n\t" /* the size is in the low 16 bits */
			 "jb 5f\n\t"
			 "movq $0, %c[at_spare](%[slot])\n"
			 "2:\n\t" SEQUENCE_END("xorl %k[spare], %k[spare]\n\tjmp 2b")
			 : [slot] "=&r"(slot), [spare] "=&r"(spare)
			 : SEQUENCE_INPUTS(c, c->cpus), [locked] "r"(SM__LOCKED), [n] "r"(n),
			   [at_spare] "i"(offsetof(struct sm__slot, spare))
			 : "memory", "cc");
	return spare;
}

/* Makes s the spare of a slot that has none and that nobody holds. */
static inline bool sm__sequence_give_spare(struct sm_cache *c, struct sm_sheaf *s)
{
	__asm__ goto(SEQUENCE_BEGIN("%%rax", "%%eax") /* */
		     "addq %[slots], %%rax\n\t"
		     "cmpq %[locked], (%%rax)\n\t"
		     "je 5f\n\t"
		     "cmpq $0, %c[at_spare](%%rax)\n\t"
		     "jne 5f\n\t"
		     "movq %[spare], %c[at_spare](%%rax)\n"
		     "2:\n\t" SEQUENCE_END("jmp %l[no]")
		     :
		     : SEQUENCE_INPUTS(c, c->cpus), [locked] "r"(SM__LOCKED), [spare] "r"(s),
		       [at_spare] "i"(offsetof(struct sm__slot, spare))
		     : "memory", "cc", "rax"
		     : no);
	return true;
no:
	return false;
}

/* Takes the slot (I2): the sequence ends with the cmpxchg, which also decides between CPUs. */
static inline bool sm__sequence_lock(struct sm_cache *c, struct sm__held *held)
{
	struct sm__slot *slot;
	struct sm_sheaf *main;
	uint32_t ok;

	__asm__ volatile(SEQUENCE_BEGIN("%[slot]", "%k[slot]") /* */
			 "addq %[slots], %[slot]\n\t"
			 "movq (%[slot]), %%rax\n\t"
			 "cmpq %[locked], %%rax\n\t"
			 "je 5f\n\t"
			 "lock cmpxchgq %[locked], (%[slot])\n"
			 "2:\tsete %b[ok]\n\t"
			 "movzbl %b[ok], %k[ok]\n"
			 "3:\n\t" SEQUENCE_END("xorl %k[ok], %k[ok]\n\tjmp 3b")
			 : [slot] "=&r"(slot), [ok] "=&r"(ok), "=&a"(main)
			 : SEQUENCE_INPUTS(c, c->cpus), [locked] "r"(SM__LOCKED)
			 : "memory", "cc");
	*held = (struct sm__held){ slot, main };
	return ok;
}
#else
/* Never called: c->rseq is false. They let the callers compile unchanged. */
static inline void *sm__sequence_pop(struct sm_cache *c)
{
	(void)c;
	return NULL;
}

static inline bool sm__sequence_push(struct sm_cache *c, void *object)
{
	(void)c;
	(void)object;
	return false;
}

static inline bool sm__sequence_push_tagged(struct sm_cache *c, void *object)
{
	(void)c;
	(void)object;
	return false;
}

static inline bool sm__sequence_push_node(struct sm_cache *c, void *object, uint32_t node)
{
	(void)c;
	(void)object;
	(void)node;
	return false;
}

static inline enum sm__push_rcu sm__sequence_push_rcu(struct sm_cache *c, void *object,
						      uint32_t node)
{
	(void)c;
	(void)object;
	(void)node;
	return SM__PUSH_RCU_NO;
}

static inline struct sm_sheaf *sm__sequence_take_spare(struct sm_cache *c, uint32_t n)
{
	(void)c;
	(void)n;
	return NULL;
}

static inline bool sm__sequence_give_spare(struct sm_cache *c, struct sm_sheaf *s)
{
	(void)c;
	(void)s;
	return false;
}

static inline bool sm__sequence_lock(struct sm_cache *c, struct sm__held *held)
{
	(void)c;
	(void)held;
	return false;
}
#endif

/* --- the trylock --- */

static inline bool sm__exchange_lock(struct sm_cache *c, struct sm__held *held)
{
	unsigned int cpu = sm__percpu_cpu();

	if (sm__unlikely(cpu >= c->cpus))
		return false;
	held->slot = &c->slots[cpu];
	sm__delay();
	/* acquire: pairs with the release of sm__exchange_unlock */
	held->main = atomic_exchange_explicit(&held->slot->main, SM__LOCKED, memory_order_acquire);
	return held->main != SM__LOCKED;
}

static inline void sm__exchange_unlock(const struct sm__held *held)
{
	sm__delay();
	atomic_store_explicit(&held->slot->main, held->main, memory_order_release);
}

/* --- what alloc.c and free.c call --- */

static inline void *sm__main_pop(struct sm_cache *c)
{
	struct sm__held held;
	void *object = NULL;

	if (c->rseq)
		return sm__sequence_pop(c);
	if (!sm__exchange_lock(c, &held))
		return NULL;
	if (sm__likely(sm__sheaf_size(held.main)))
		object = sm__sheaf_pop(held.main);
	sm__exchange_unlock(&held);
	return object;
}

static inline bool sm__main_push(struct sm_cache *c, void *object, uint32_t node)
{
	struct sm__held held;
	bool done = false;

	if (sm__likely(c->rseq))
		return sm__sequence_push_node(c, object, node);
	if (!sm__exchange_lock(c, &held))
		return false;
	if (sm__likely(!sm__sheaf_is_full(held.main) && held.slot->node == node)) {
		sm__sheaf_push(held.main, object);
		done = true;
	}
	sm__exchange_unlock(&held);
	return done;
}

/* layer=slab: main is a view of the CPU's slab. */
static inline bool sm__view_push(struct sm_cache *c, void *object)
{
	struct sm__held held;
	bool done = false;

	if (c->rseq)
		return sm__sequence_push_tagged(c, object);
	if (!sm__exchange_lock(c, &held))
		return false;
	if (sm__likely(held.main->tag == ((uintptr_t)object & c->slab_mask) &&
		       !sm__sheaf_is_full(held.main))) {
		sm__sheaf_push(held.main, object);
		done = true;
	}
	sm__exchange_unlock(&held);
	return done;
}

static inline enum sm__push_rcu sm__rcu_push(struct sm_cache *c, void *object, uint32_t node)
{
	enum sm__push_rcu result = SM__PUSH_RCU_NO;
	struct sm_sheaf *sheaf;
	struct sm__held held;

	if (sm__likely(c->rseq))
		return sm__sequence_push_rcu(c, object, node);
	if (!sm__exchange_lock(c, &held))
		return SM__PUSH_RCU_NO;
	sheaf = atomic_load_explicit(&held.slot->rcu_free, memory_order_relaxed);
	if (sm__likely(sheaf && !sm__sheaf_is_full(sheaf) && held.slot->node == node)) {
		sm__sheaf_push(sheaf, object);
		result = sm__sheaf_is_full(sheaf) ? SM__PUSH_RCU_FULL : SM__PUSH_RCU_DONE;
	}
	sm__exchange_unlock(&held);
	return result;
}

#endif
