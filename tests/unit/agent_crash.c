/* UNIT: kernels/agent kernels/link LIBS: -lnghttp2 -luv -ljansson -lzmq -lcrypto */
/* A fault of the agent leaves one line that says where; a signal from somebody else leaves none. */
#include "kernels/agent/crash.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the compiler does not know of, and the sanitizer does not check. */
static int *volatile nowhere = NULL;

__attribute__((no_sanitize("address", "undefined"))) static void fault(void)
{
	*(volatile int *)nowhere = 1;
}

/* Everything a child says that watches and then does this -> its wait status. */
static int said(void (*act)(void), char *ret, size_t size)
{
	int out[2], status;
	size_t used = 0;
	ssize_t n;
	pid_t pid;

	assert(pipe(out) == 0);
	pid = fork();
	assert(pid >= 0);
	if (pid == 0) {
		dup2(out[1], STDERR_FILENO);
		close(out[0]);
		close(out[1]);
		if (crash_watch() != 0)
			_exit(99);
		act();
		_exit(0);
	}
	close(out[1]);
	while ((n = read(out[0], ret + used, size - 1 - used)) > 0)
		used += (size_t)n;
	ret[used] = '\0';
	close(out[0]);
	assert(waitpid(pid, &status, 0) == pid);
	return status;
}

static void sent(void)
{
	pid_t target = getpid(), pid = fork();

	if (pid == 0) {
		kill(target, SIGSEGV);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static void test_fault_is_named(void)
{
	char text[1024];
	int status = said(fault, text, sizeof(text));

	assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	assert(strncmp(text, "carrel-agent: died of SIGSEGV at agent_crash+0x", 47) == 0);
	assert(strlen(text) <= 161 && strchr(text, '\n') == text + strlen(text) - 1);
}

static void test_abort_is_named(void)
{
	char text[1024];
	int status = said(abort, text, sizeof(text));

	assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert(strncmp(text, "carrel-agent: died of SIGABRT at ", 33) == 0);
	assert(strstr(text, "agent_crash+0x"));
}

static void test_signal_of_another_is_ignored(void)
{
	char text[1024];
	int status = said(sent, text, sizeof(text));

	assert(WIFEXITED(status) && WEXITSTATUS(status) == 0 && !text[0]);
}

int main(void)
{
	test_fault_is_named();
	test_abort_is_named();
	test_signal_of_another_is_ignored();
	puts("ok");
	return 0;
}
