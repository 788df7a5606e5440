/* SPDX-License-Identifier: MIT */
/*
 * design.h - the choices that kernel generations made differently, one enum per choice, and the
 * presets that carry kernel names.
 *
 * A design is a value: copy it, change a switch, give it to sm_space_create(). It is fixed for the
 * life of the space. The text form is "PRESET" or "PRESET,switch=value,..." and is what
 * `samara replay --design` takes.
 */
#ifndef SAMARA_DESIGN_H
#define SAMARA_DESIGN_H

#include <samara/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* tree= : what maps an address to its VMA. */
enum sm_design_tree {
	SM_TREE_RB,    /* red-black tree with gaps, plus a list: up to 6.0 */
	SM_TREE_AVL,   /* AVL tree with gaps: never in a kernel, here for comparison */
	SM_TREE_MAPLE, /* maple tree, readable under RCU: from 6.1 */
};

/* vma-lock= : how a fault locks one VMA. */
enum sm_design_vma_lock {
	SM_VMA_LOCK_NONE,   /* not at all: a fault takes mmap_lock for read */
	SM_VMA_LOCK_INLINE, /* reader-writer lock inside the VMA: first 6.4 patches */
	SM_VMA_LOCK_OWN,    /* reader-writer lock in an object of its own: 6.4 to 6.14 */
	SM_VMA_LOCK_REFCNT, /* one counter word: from 6.15 */
};

/* fault= : which faults may run under the VMA lock alone. Each value includes the ones before. */
enum sm_design_fault {
	SM_FAULT_NONE,
	SM_FAULT_ANON,	    /* anonymous memory: 6.4 */
	SM_FAULT_ANON_FILE, /* + file reads that the page cache answers: 6.6 */
	SM_FAULT_ALL,	    /* + file copy-on-write, shared writes, reads with I/O: 6.7 */
};

/* vma-free= : when the memory of a removed VMA may be used again. */
enum sm_design_vma_free {
	SM_VMA_FREE_NOW,
	SM_VMA_FREE_CALL_RCU,	    /* after a grace period, one callback each */
	SM_VMA_FREE_TYPESAFE,	    /* at once, as another VMA; its slab after a grace period */
	SM_VMA_FREE_SHEAF,	    /* after a grace period, one callback per sheaf */
	SM_VMA_FREE_TYPESAFE_SHEAF, /* at once through sheaves */
};

/* node-free= : how replaced maple nodes are given back. */
enum sm_design_node_free {
	SM_NODE_FREE_CALL_RCU,
	SM_NODE_FREE_SHEAF,
};

/* layer= : what stands in front of the slabs of every object cache of the space. */
enum sm_design_layer {
	SM_DESIGN_LAYER_SLAB,
	SM_DESIGN_LAYER_SHEAF,
};

/* exit-free= : how the VMAs of a dying space are freed. */
enum sm_design_exit_free {
	SM_EXIT_FREE_CALLBACK, /* as any other VMA */
	SM_EXIT_FREE_DIRECT,   /* at once: nobody can be looking */
};

/* advice= : what process_madvise() does once per vector and not once per range. */
enum sm_design_advice {
	SM_ADVICE_PER_RANGE,		/* nothing */
	SM_ADVICE_BATCHED_LOCK,		/* the lock */
	SM_ADVICE_BATCHED,		/* the lock and the TLB flush */
	SM_ADVICE_VMA_LOCK_AND_BATCHED, /* the flush; VMA lock per range where one VMA is enough */
};

struct sm_design {
	enum sm_design_tree tree;
	enum sm_design_vma_lock vma_lock;
	enum sm_design_fault fault;
	enum sm_design_vma_free vma_free;
	enum sm_design_node_free node_free;
	enum sm_design_layer layer;
	enum sm_design_exit_free exit_free;
	enum sm_design_advice advice;
};

/*
 * Number of presets, and the name of one by its index.
 * Context: any, signal-safe. Return: the number; the name ("linux-5.19" … "samara"), NULL past the end.
 */
SM_API unsigned sm_design_preset_count(void);
SM_API const char *sm_design_preset_name(unsigned index);

/*
 * The design that a preset stands for.
 * Context: any, signal-safe. Return: 0, or -ENOENT for a name that is none.
 */
SM_API int sm_design_preset(const char *name, struct sm_design *out);

/*
 * Reads "PRESET", "PRESET,switch=value,…" or "switch=value,…" (on top of the preset samara).
 * The result has been validated.
 * why: receives a text saying what is wrong, always terminated; may be NULL when why_size is 0.
 * Context: any. Return: 0, or -EINVAL.
 */
SM_API int sm_design_parse(const char *text, struct sm_design *out, char *why, size_t why_size);

/*
 * Writes the shortest text that sm_design_parse() reads back as the same design: a preset's name
 * where one matches, else the nearest preset with the switches that differ.
 * Context: any.
 * Return: the length without the terminator, as snprintf; the text is cut when size is too small.
 */
SM_API size_t sm_design_format(const struct sm_design *design, char *buf, size_t size);

/*
 * Tells whether the switches fit together.
 * Context: any, signal-safe.
 * Return: NULL, or a constant text that says which pair is unsound and why.
 */
SM_API const char *sm_design_validate(const struct sm_design *design);

#ifdef __cplusplus
}
#endif
#endif
