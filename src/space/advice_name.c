/* SPDX-License-Identifier: MIT */
/* advice_name.c - names of anonymous memory: prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME). */
#include "space/advice.h"
#include "base/inject.h"
#include "samara/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_LENGTH = 79 }; /* ANON_VMA_NAME_MAX_LEN, 80, less the terminator */

static int check_text(const char *text)
{
	size_t n = strnlen(text, NAME_MAX_LENGTH + 1);

	if (n > NAME_MAX_LENGTH)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		if (text[i] < ' ' || text[i] > '~' || strchr("\\`$[]", text[i]))
			return -EINVAL;
	return 0;
}

static int make_name(const char *text, struct sm__name **out)
{
	size_t n;

	*out = NULL;
	if (!text || !*text)
		return 0;
	n = strlen(text) + 1;
	*out = sm__inject_fail() ? NULL : malloc(sizeof(**out) + n);
	if (!*out)
		return -ENOMEM;
	atomic_init(&(*out)->refs, 1);
	memcpy((*out)->text, text, n);
	return 0;
}

static int name_vma(struct sm__madvise *m, struct sm__vma *v, sm_addr start, sm_addr end)
{
	const sm_addr range[2] = { start, end };

	/* shared anonymous memory has a file of the library's own */
	if (v->file && !(sm_file_info(v->file)->mode & SM_FILE_VOLATILE))
		return -EBADF;
	return sm__madvise_change(m, v, range, v->flags, m->name);
}

int sm_set_anon_name(struct sm_space *s, sm_addr addr, uint64_t length, const char *name)
{
	static const struct sm__advice_row row = {
		.name = "ANON_NAME", .lock = SM__ADVICE_WRITE, .advice = -1, .apply = name_vma
	};
	struct sm__madvise m;
	int err = name ? check_text(name) : 0;

	if (err)
		return err;
	sm__madvise_init(&m, s, &row);
	err = sm__madvise_check(&m, addr, length);
	if (err <= 0)
		return err;
	err = make_name(name, &m.name);
	if (err)
		return err;
	err = sm__madvise_lock(&m);
	if (!err) {
		err = sm__madvise_do(&m);
		sm__madvise_unlock(&m);
	}
	sm__name_put(m.name);
	return err;
}
