/* SPDX-License-Identifier: MIT */
/* design.c - presets, and the text form of a design. One table of switches serves all of it. */
#include "samara/design.h"
#include "base/base.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct choice {
	const char *switch_name;
	size_t offset; /* of an enum in struct sm_design */
	const char *values[6];
};

#define CHOICE(text, member, ...)                         \
	{                                                 \
		text, offsetof(struct sm_design, member), \
		{                                         \
			__VA_ARGS__                       \
		}                                         \
	}

static const struct choice choices[] = {
	CHOICE("tree", tree, "rb", "avl", "maple"),
	CHOICE("vma-lock", vma_lock, "none", "inline", "own", "refcnt"),
	CHOICE("fault", fault, "none", "anon", "anon+file", "all"),
	CHOICE("vma-free", vma_free, "now", "call_rcu", "typesafe", "sheaf", "typesafe+sheaf"),
	CHOICE("node-free", node_free, "call_rcu", "sheaf"),
	CHOICE("layer", layer, "slab", "sheaf"),
	CHOICE("exit-free", exit_free, "callback", "direct"),
	CHOICE("advice", advice, "per-range", "batched-lock", "batched", "vma-lock+batched"),
};

_Static_assert(sizeof(struct sm_design) == SM__ARRAY_SIZE(choices) * sizeof(enum sm_design_tree),
	       "one choice per switch");

/* The order of the values is that of struct sm_design. */
static const struct {
	const char *name;
	struct sm_design design;
} presets[] = {
	{ "linux-5.19",
	  { SM_TREE_RB, SM_VMA_LOCK_NONE, SM_FAULT_NONE, SM_VMA_FREE_NOW, SM_NODE_FREE_CALL_RCU,
	    SM_DESIGN_LAYER_SLAB, SM_EXIT_FREE_CALLBACK, SM_ADVICE_PER_RANGE } },
	{ "linux-6.1",
	  { SM_TREE_MAPLE, SM_VMA_LOCK_NONE, SM_FAULT_NONE, SM_VMA_FREE_NOW, SM_NODE_FREE_CALL_RCU,
	    SM_DESIGN_LAYER_SLAB, SM_EXIT_FREE_CALLBACK, SM_ADVICE_PER_RANGE } },
	{ "linux-6.4-inline",
	  { SM_TREE_MAPLE, SM_VMA_LOCK_INLINE, SM_FAULT_ANON, SM_VMA_FREE_CALL_RCU,
	    SM_NODE_FREE_CALL_RCU, SM_DESIGN_LAYER_SLAB, SM_EXIT_FREE_CALLBACK,
	    SM_ADVICE_PER_RANGE } },
	{ "linux-6.4",
	  { SM_TREE_MAPLE, SM_VMA_LOCK_OWN, SM_FAULT_ANON, SM_VMA_FREE_CALL_RCU,
	    SM_NODE_FREE_CALL_RCU, SM_DESIGN_LAYER_SLAB, SM_EXIT_FREE_DIRECT,
	    SM_ADVICE_PER_RANGE } },
	{ "linux-6.6",
	  { SM_TREE_MAPLE, SM_VMA_LOCK_OWN, SM_FAULT_ANON_FILE, SM_VMA_FREE_CALL_RCU,
	    SM_NODE_FREE_CALL_RCU, SM_DESIGN_LAYER_SLAB, SM_EXIT_FREE_DIRECT,
	    SM_ADVICE_PER_RANGE } },
	{ "linux-6.7",
	  { SM_TREE_MAPLE, SM_VMA_LOCK_OWN, SM_FAULT_ALL, SM_VMA_FREE_CALL_RCU,
	    SM_NODE_FREE_CALL_RCU, SM_DESIGN_LAYER_SLAB, SM_EXIT_FREE_DIRECT,
	    SM_ADVICE_PER_RANGE } },
	{ "linux-6.12",
	  { SM_TREE_MAPLE, SM_VMA_LOCK_OWN, SM_FAULT_ALL, SM_VMA_FREE_CALL_RCU,
	    SM_NODE_FREE_CALL_RCU, SM_DESIGN_LAYER_SLAB, SM_EXIT_FREE_DIRECT,
	    SM_ADVICE_PER_RANGE } },
	{ "linux-6.15",
	  { SM_TREE_MAPLE, SM_VMA_LOCK_REFCNT, SM_FAULT_ALL, SM_VMA_FREE_TYPESAFE,
	    SM_NODE_FREE_CALL_RCU, SM_DESIGN_LAYER_SLAB, SM_EXIT_FREE_DIRECT,
	    SM_ADVICE_BATCHED_LOCK } },
	{ "linux-6.16",
	  { SM_TREE_MAPLE, SM_VMA_LOCK_REFCNT, SM_FAULT_ALL, SM_VMA_FREE_TYPESAFE,
	    SM_NODE_FREE_CALL_RCU, SM_DESIGN_LAYER_SLAB, SM_EXIT_FREE_DIRECT, SM_ADVICE_BATCHED } },
	{ "linux-6.18",
	  { SM_TREE_MAPLE, SM_VMA_LOCK_REFCNT, SM_FAULT_ALL, SM_VMA_FREE_TYPESAFE_SHEAF,
	    SM_NODE_FREE_SHEAF, SM_DESIGN_LAYER_SHEAF, SM_EXIT_FREE_DIRECT,
	    SM_ADVICE_VMA_LOCK_AND_BATCHED } },
	{ "samara",
	  { SM_TREE_MAPLE, SM_VMA_LOCK_REFCNT, SM_FAULT_ALL, SM_VMA_FREE_TYPESAFE_SHEAF,
	    SM_NODE_FREE_SHEAF, SM_DESIGN_LAYER_SHEAF, SM_EXIT_FREE_DIRECT,
	    SM_ADVICE_VMA_LOCK_AND_BATCHED } },
};

static unsigned get(const struct sm_design *d, const struct choice *c)
{
	enum sm_design_tree v; /* all switches are enums of the same size */

	memcpy(&v, (const char *)d + c->offset, sizeof(v));
	return (unsigned)v;
}

static void set(struct sm_design *d, const struct choice *c, unsigned value)
{
	enum sm_design_tree v = (enum sm_design_tree)value;

	memcpy((char *)d + c->offset, &v, sizeof(v));
}

unsigned sm_design_preset_count(void)
{
	return SM__ARRAY_SIZE(presets);
}

const char *sm_design_preset_name(unsigned index)
{
	return index < SM__ARRAY_SIZE(presets) ? presets[index].name : NULL;
}

int sm_design_preset(const char *name, struct sm_design *out)
{
	for (size_t i = 0; name && i < SM__ARRAY_SIZE(presets); i++) {
		if (strcmp(name, presets[i].name) == 0) {
			*out = presets[i].design;
			return 0;
		}
	}
	return -ENOENT;
}

static int value_count(const struct choice *c)
{
	int n = 0;

	while (n < (int)SM__ARRAY_SIZE(c->values) && c->values[n])
		n++;
	return n;
}

const char *sm_design_validate(const struct sm_design *d)
{
	for (size_t i = 0; i < SM__ARRAY_SIZE(choices); i++)
		if (get(d, &choices[i]) >= (unsigned)value_count(&choices[i]))
			return "a switch has a value that does not exist";
	if (d->vma_lock != SM_VMA_LOCK_NONE && d->tree != SM_TREE_MAPLE)
		return "vma-lock needs tree=maple: rb and avl cannot be walked without mmap_lock";
	if (d->fault != SM_FAULT_NONE && d->vma_lock == SM_VMA_LOCK_NONE)
		return "fault=anon and more need a vma-lock: without one every fault takes "
		       "mmap_lock";
	if (d->vma_free == SM_VMA_FREE_NOW && d->vma_lock != SM_VMA_LOCK_NONE)
		return "vma-free=now with a vma-lock: a fault could lock memory that is free";
	if ((d->vma_free == SM_VMA_FREE_TYPESAFE || d->vma_free == SM_VMA_FREE_TYPESAFE_SHEAF) &&
	    (d->vma_lock == SM_VMA_LOCK_INLINE || d->vma_lock == SM_VMA_LOCK_OWN))
		return "vma-free=typesafe needs vma-lock=refcnt: a reader-writer lock cannot tell "
		       "that "
		       "its VMA was reused";
	if (d->advice == SM_ADVICE_VMA_LOCK_AND_BATCHED && d->vma_lock == SM_VMA_LOCK_NONE)
		return "advice=vma-lock+batched needs a vma-lock";
	return NULL;
}

static int refuse(char *why, size_t size, const char *what, const char *word, size_t len)
{
	if (size)
		snprintf(why, size, "%s '%.*s'", what, (int)(len < 60 ? len : 60), word);
	return -EINVAL;
}

/* One "switch=value" of len bytes. */
static int apply(struct sm_design *d, const char *word, size_t len, char *why, size_t size)
{
	const char *eq = memchr(word, '=', len);
	size_t name = eq ? (size_t)(eq - word) : len, value = len - name - 1;

	if (!eq)
		return refuse(why, size, "no preset and no switch=value:", word, len);
	for (size_t i = 0; i < SM__ARRAY_SIZE(choices); i++) {
		const struct choice *c = &choices[i];

		if (strlen(c->switch_name) != name || memcmp(c->switch_name, word, name) != 0)
			continue;
		for (int v = 0; v < value_count(c); v++) {
			if (strlen(c->values[v]) == value && !memcmp(c->values[v], eq + 1, value)) {
				set(d, c, (unsigned)v);
				return 0;
			}
		}
		return refuse(why, size, "a switch does not have this value:", word, len);
	}
	return refuse(why, size, "no such switch:", word, len);
}

int sm_design_parse(const char *text, struct sm_design *out, char *why, size_t why_size)
{
	struct sm_design d;
	const char *reason;
	bool first = true;

	if (why_size)
		why[0] = '\0';
	if (!text)
		return refuse(why, why_size, "no text", "", 0);
	(void)sm_design_preset("samara", &d);
	for (const char *p = text;; first = false) {
		size_t len = strcspn(p, ",");
		char name[32];
		int err;

		snprintf(name, sizeof(name), "%.*s", (int)(len < 31 ? len : 31), p);
		if (!first || sm_design_preset(name, &d) || len > 31) {
			err = apply(&d, p, len, why, why_size);
			if (err)
				return err;
		}
		p += len;
		if (!*p++)
			break;
	}
	reason = sm_design_validate(&d);
	if (reason) {
		if (why_size)
			snprintf(why, why_size, "%s", reason);
		return -EINVAL;
	}
	*out = d;
	return 0;
}

static unsigned distance(const struct sm_design *a, const struct sm_design *b)
{
	unsigned n = 0;

	for (size_t i = 0; i < SM__ARRAY_SIZE(choices); i++)
		n += get(a, &choices[i]) != get(b, &choices[i]);
	return n;
}

size_t sm_design_format(const struct sm_design *d, char *buf, size_t size)
{
	size_t best = SM__ARRAY_SIZE(presets) - 1, at;

	for (size_t i = 0; i < SM__ARRAY_SIZE(presets); i++)
		if (distance(d, &presets[i].design) <= distance(d, &presets[best].design))
			best = i; /* of equal ones the newest names it */
	at = (size_t)snprintf(buf, size, "%s", presets[best].name);
	for (size_t i = 0; i < SM__ARRAY_SIZE(choices); i++) {
		unsigned v = get(d, &choices[i]);

		if (v == get(&presets[best].design, &choices[i]))
			continue;
		at += (size_t)snprintf(at < size ? buf + at : NULL, at < size ? size - at : 0,
				       ",%s=%s", choices[i].switch_name,
				       v < (unsigned)value_count(&choices[i]) ? choices[i].values[v]
									      : "?");
	}
	return at;
}
