/* SPDX-License-Identifier: MIT */
/*
 * dump.c - the structure as text, and as a picture for Graphviz.
 */
#include <inttypes.h>
#include "maple/path.h"

static void text_leaf(const struct sm__leaf *l, FILE *out, int indent)
{
	for (unsigned int i = 0; i < l->n; i++)
		fprintf(out, "%*s%016" PRIx64 "-%016" PRIx64 " %p\n", indent, "", l->entry[i].first,
			l->last[i], sm__leaf_value(l, i));
}

static void text_node(const void *node, unsigned int level, uint64_t min, uint64_t max, FILE *out,
		      int indent)
{
	const struct sm__inner *n = node;
	const struct sm__leaf *l = node;

	fprintf(out, "%*s%s %p [%016" PRIx64 "-%016" PRIx64 "] %u\n", indent, "",
		level ? "node" : "leaf", node, min, max, level ? n->n : l->n);
	if (!level) {
		text_leaf(l, out, indent + 2);
		return;
	}
	for (unsigned int i = 0; i < n->n; i++) {
		uint64_t end = i + 1 < n->n ? n->pivot[i] : max;

		fprintf(out, "%*schild %u gap %#" PRIx64 "\n", indent + 1, "", i, n->gap[i]);
		text_node(sm__inner_child(n, i), level - 1, min, end, out, indent + 2);
		min = end + 1;
	}
}

static void graph_node(const void *node, unsigned int level, FILE *out)
{
	const struct sm__inner *n = node;
	const struct sm__leaf *l = node;

	if (!level) {
		fprintf(out, "\tn%p [label=\"{", node);
		for (unsigned int i = 0; i < l->n; i++)
			fprintf(out, "%s%" PRIx64 "\\l%" PRIx64 "\\l", i ? "|" : "",
				l->entry[i].first, l->last[i]);
		fprintf(out, "}\", style=filled, fillcolor=\"#e8f0e0\"];\n");
		return;
	}
	fprintf(out, "\tn%p [label=\"", node);
	for (unsigned int i = 0; i + 1 < n->n; i++)
		fprintf(out, "<c%u>%" PRIx64 "|", i, n->pivot[i]);
	fprintf(out, "<c%u>\"];\n", n->n - 1);
	for (unsigned int i = 0; i < n->n; i++) {
		const void *child = sm__inner_child(n, i);

		graph_node(child, level - 1, out);
		fprintf(out, "\tn%p:c%u -> n%p [label=\"%" PRIx64 "\"];\n", node, i, child,
			n->gap[i]);
	}
}

void sm_maple_dump(const struct sm_maple *t, FILE *out, enum sm_maple_dump_format format)
{
	uintptr_t root = sm__root_load(t);
	unsigned int height = sm__root_height(root);

	if (format == SM_MAPLE_DUMP_GRAPHVIZ) {
		fprintf(out, "digraph maple {\n\tnode [shape=record, fontname=monospace];\n");
		if (root)
			graph_node(sm__root_node(root), height - 1, out);
		fprintf(out, "}\n");
		return;
	}
	fprintf(out, "tree %p height %u\n", (const void *)t, height);
	if (root)
		text_node(sm__root_node(root), height - 1, 0, SM__KEY_MAX, out, 0);
}
