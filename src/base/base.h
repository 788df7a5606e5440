/* SPDX-License-Identifier: MIT */
/*
 * base.h - what every room may use: compiler words, assertions, intrusive lists.
 *
 * SM_ASSERT(x)       proved; checked in validating builds, compiled but not run elsewhere.
 * SM_ASSERT_MSG      the same with printf-style values.
 * Input is never asserted on: a bad argument is an errno.
 */
#ifndef SM_BASE_BASE_H
#define SM_BASE_BASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define sm__likely(x)			    __builtin_expect(!!(x), 1)
#define sm__unlikely(x)			    __builtin_expect(!!(x), 0)
#define sm__container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define SM__ARRAY_SIZE(a)		    (sizeof(a) / sizeof((a)[0]))
#define SM__NORETURN			    __attribute__((noreturn))
#define SM__COLD			    __attribute__((cold, noinline))
#define SM__PRINTF(f, a)		    __attribute__((format(printf, f, a)))
#define SM__ALIGN_UP(x, a)		    (((x) + ((a)-1)) & ~((__typeof__(x))(a)-1))
#define SM__ALIGN_DOWN(x, a)		    ((x) & ~((__typeof__(x))(a)-1))
#define SM__IS_ALIGNED(x, a)		    (((x) & ((__typeof__(x))(a)-1)) == 0)
#define SM__CACHELINE			    64

/* Prints file, line, the expression and the message with a backtrace, then aborts. Never called on input. */
void sm__assert_fail(const char *file, int line, const char *expr, const char *fmt,
		     ...) SM__NORETURN SM__COLD SM__PRINTF(4, 5);

#if SM_VALIDATE
#define SM_ASSERT_MSG(x, ...)                                                 \
	do {                                                                  \
		if (sm__unlikely(!(x)))                                       \
			sm__assert_fail(__FILE__, __LINE__, #x, __VA_ARGS__); \
	} while (0)
#else
#define SM_ASSERT_MSG(x, ...)                                                 \
	do {                                                                  \
		if (0 && !(x))                                                \
			sm__assert_fail(__FILE__, __LINE__, #x, __VA_ARGS__); \
	} while (0)
#endif
#define SM_ASSERT(x) SM_ASSERT_MSG(x, "%s", "")

/* Intrusive doubly linked list with a head of the same type. */
struct sm__list {
	struct sm__list *next, *prev;
};

static inline void sm__list_init(struct sm__list *l)
{
	l->next = l->prev = l;
}

static inline bool sm__list_empty(const struct sm__list *l)
{
	return l->next == l;
}

static inline void sm__list_insert_between(struct sm__list *n, struct sm__list *prev,
					   struct sm__list *next)
{
	n->prev = prev;
	n->next = next;
	prev->next = n;
	next->prev = n;
}

static inline void sm__list_add(struct sm__list *head, struct sm__list *n)
{
	sm__list_insert_between(n, head, head->next);
}

static inline void sm__list_add_tail(struct sm__list *head, struct sm__list *n)
{
	sm__list_insert_between(n, head->prev, head);
}

static inline void sm__list_del(struct sm__list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	n->next = n->prev = n;
}

#define sm__list_entry(ptr, type, member)  sm__container_of(ptr, type, member)
#define sm__list_first(head, type, member) sm__list_entry((head)->next, type, member)
/* pos is an identifier; it is only ever set to an entry, never to what would surround the head. */
#define sm__list_for_each_entry(pos, head, member)                                 \
	for (struct sm__list *pos##_at = (head)->next;                             \
	     pos##_at != (head) &&                                                 \
	     ((pos) = sm__list_entry(pos##_at, __typeof__(*(pos)), member), true); \
	     pos##_at = pos##_at->next)
/* The same where the body may unlink pos. */
#define sm__list_for_each_safe(pos, head, member)                                    \
	for (struct sm__list *pos##_at = (head)->next, *pos##_next = pos##_at->next; \
	     pos##_at != (head) &&                                                   \
	     ((pos) = sm__list_entry(pos##_at, __typeof__(*(pos)), member), true);   \
	     pos##_at = pos##_next, pos##_next = pos##_at->next)

#endif
