/* SPDX-License-Identifier: MIT */
/* Designs as text: presets, switches on top, refusals with a reason, and back again. */
#include "samara/design.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void presets_are_sound_and_named(void **state)
{
	struct sm_design d, e;
	char text[200], why[100];
	size_t length;

	(void)state;
	assert_int_equal(sm_design_preset_count(), 11);
	for (unsigned i = 0; i < sm_design_preset_count(); i++) {
		assert_int_equal(sm_design_preset(sm_design_preset_name(i), &d), 0);
		assert_null(sm_design_validate(&d));
		length = sm_design_format(&d, text, sizeof(text));
		assert_int_equal(length, strlen(text));
		assert_null(strchr(text, ','));
		assert_int_equal(sm_design_parse(text, &e, why, sizeof(why)), 0);
		assert_memory_equal(&d, &e, sizeof(d));
	}
	assert_null(sm_design_preset_name(11));
	assert_int_equal(sm_design_preset("linux-2.4", &d), -ENOENT);
}

static void switches_on_top(void **state)
{
	struct sm_design d, e;
	char text[200], why[100];

	(void)state;
	assert_int_equal(sm_design_parse("linux-6.15,node-free=sheaf", &d, why, sizeof(why)), 0);
	assert_int_equal(d.node_free, SM_NODE_FREE_SHEAF);
	assert_int_equal(d.layer, SM_DESIGN_LAYER_SLAB);
	sm_design_format(&d, text, sizeof(text));
	assert_int_equal(sm_design_parse(text, &e, NULL, 0), 0);
	assert_memory_equal(&d, &e, sizeof(d));
	assert_int_equal(sm_design_parse("vma-free=sheaf,layer=slab", &d, why, sizeof(why)), 0);
	assert_int_equal(d.tree, SM_TREE_MAPLE);
}

static void refusals_have_reasons(void **state)
{
	static const char *const bad[] = {
		"linux-6.12,vma-free=now",
		"linux-6.12,vma-free=typesafe",
		"linux-5.19,vma-lock=refcnt",
		"linux-6.1,fault=anon",
		"linux-6.1,tree=rb,fault=all",
		"linux-6.7,tree=avl",
		"linux-6.1,advice=vma-lock+batched",
		"linux-6.1,tree=btree",
		"linux-6.1,colour=red",
		"linux-9.9",
		"",
		"linux-6.1,",
		"linux-6.1,tree",
		"tree=",
	};
	struct sm_design d;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		char why[100] = "";

		if (sm_design_parse(bad[i], &d, why, sizeof(why)) != -EINVAL || !why[0])
			fail_msg("'%s' was not refused with a reason", bad[i]);
	}
	memset(&d, 0xff, sizeof(d));
	assert_non_null(sm_design_validate(&d));
	assert_int_equal(sm_design_parse(NULL, &d, NULL, 0), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(presets_are_sound_and_named),
		cmocka_unit_test(switches_on_top),
		cmocka_unit_test(refusals_have_reasons),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
