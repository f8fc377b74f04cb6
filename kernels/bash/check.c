#include "bash/lang.h"
#include "bash/launch.h"
#include "core/log.h"
#include "core/request.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

enum {
	/* Bash reads a megabyte in a tenth of that, on a slow machine too. */
	CHECK_MS = 5000,
};

/* bash -n: it reads all and runs nothing, and is another bash than the user's. */
static int spawn_reader(int text, int said, pid_t *ret)
{
	static const char *const argv[] = { "bash", "--norc", "-n", "-O", "extglob", NULL };
	static char locale[] = "LC_ALL=C", *const env[] = { locale, NULL };
	const struct launch_file files[] = { { text, 0 }, { LAUNCH_NULL, 1 }, { said, 2 } };

	return launch_bash(files, sizeof(files) / sizeof(files[0]), 3, argv, env, ret);
}

/* The wait status, or a negative errno. */
static int wait_reader(pid_t pid)
{
	int fd = pidfd_open(pid, 0), n = 0, status = 0;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while (fd >= 0 && (n = poll(&p, 1, CHECK_MS)) < 0 && errno == EINTR)
		;
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return n > 0 ? status : -ETIMEDOUT;
}

static bool ends_with_backslash(const char *code, size_t len)
{
	size_t n = 0;

	if (len > 0 && code[len - 1] == '\n')
		len--;
	while (n < len && code[len - 1 - n] == '\\')
		n++;
	return n % 2 == 1;
}

static const char *verdict(int status, const char *said)
{
	if (status < 0)
		return "unknown";
	/* What bash says when only more text is missing; its messages are C's. */
	if (strstr(said, "unexpected end of file") || strstr(said, "unexpected EOF while looking for") ||
	    strstr(said, "delimited by end-of-file"))
		return "incomplete";
	return status == 0 ? "complete" : "invalid";
}

static const char *check(const char *code, size_t len)
{
	int text = memfd_create("code", MFD_CLOEXEC), said = memfd_create("said", MFD_CLOEXEC);
	char answer[2048] = "";
	int status = -EIO, err = -EIO;
	pid_t pid;

	if (text >= 0 && said >= 0 && write(text, code, len) == (ssize_t)len && lseek(text, 0, SEEK_SET) == 0)
		err = spawn_reader(text, said, &pid);
	if (!err) {
		status = wait_reader(pid);
		if (pread(said, answer, sizeof(answer) - 1, 0) < 0)
			status = -errno;
	} else {
		log_line("is_complete: bash cannot be asked: %s", strerror(-err));
	}
	if (text >= 0)
		close(text);
	if (said >= 0)
		close(said);
	return verdict(status, answer);
}

json_t *bash_is_complete(void *lang, struct core *c, const struct request *r)
{
	const json_t *code = json_object_get(r->content, "code");
	const char *text = json_string_value(code), *status;
	size_t len = json_string_length(code);

	(void)lang;
	(void)c;
	if (!text)
		return bash_error("BadRequest", "an is_complete_request needs \"code\", a string");
	if (memchr(text, '\0', len))
		status = "invalid";
	else if (ends_with_backslash(text, len))
		status = "incomplete";
	else
		status = check(text, len);
	if (!strcmp(status, "incomplete"))
		return json_pack("{s:s, s:s}", "status", status, "indent", "    ");
	return json_pack("{s:s}", "status", status);
}
