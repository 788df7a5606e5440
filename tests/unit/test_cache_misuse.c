/* SPDX-License-Identifier: MIT */
/* A wrong free in a build that validates: the process ends, and the message names what was wrong. */
#include "cache_world.h"

#if SM_VALIDATE
/* Runs fn in a child that must abort; its message must hold both texts. */
static void dies_with(void (*fn)(struct sm_cache *), const char *what)
{
	struct sm_cache *c = make((struct sm_cache_options){ .name = "victim" });
	char text[4096] = "";
	size_t got = 0;
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		signal(SIGABRT, SIG_DFL);
		dup2(fds[1], STDERR_FILENO);
		fn(c);
		_exit(0);
	}
	close(fds[1]);
	while (got < sizeof(text) - 1 && (n = read(fds[0], text + got, sizeof(text) - 1 - got)) > 0)
		got += (size_t)n;
	close(fds[0]);
	waitpid(pid, &status, 0);
	assert_true(WIFSIGNALED(status));
	assert_non_null(strstr(text, "victim"));
	assert_non_null(strstr(text, what));
	assert_int_equal(sm_cache_destroy(c), 0);
}

static void free_twice(struct sm_cache *c)
{
	void *p = sm_cache_alloc(c);

	sm_cache_free(c, p);
	sm_cache_free(c, p);
}

static void free_twice_rcu(struct sm_cache *c)
{
	void *p = sm_cache_alloc(c);

	sm_cache_free_rcu(c, p);
	sm_cache_free(c, p);
}

static void free_foreign(struct sm_cache *c)
{
	static char mine[SIZE];

	sm_cache_free(c, mine);
}

static void free_stack(struct sm_cache *c)
{
	char mine[SIZE];

	sm_cache_free(c, mine);
}

static void free_of_another_cache(struct sm_cache *c)
{
	sm_cache_free(c, sm_cache_alloc(make((struct sm_cache_options){ .name = "other" })));
}

static void free_inside(struct sm_cache *c)
{
	sm_cache_free(c, (char *)sm_cache_alloc(c) + 16);
}

static void wrong_frees_are_named(void **state)
{
	(void)state;
	dies_with(free_twice, "double free");
	dies_with(free_twice_rcu, "double free");
	dies_with(free_foreign, "foreign pointer");
	dies_with(free_stack, "foreign pointer");
	dies_with(free_of_another_cache, "another cache");
	dies_with(free_inside, "start of an object");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(wrong_frees_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
	return 0; /* nothing looks */
}
#endif
