/* carrel-bash: a shell as a Jupyter kernel.
 *
 *   carrel-bash -f CONNECTION_FILE   one kernel, as a kernelspec starts it
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bash/lang.h"
#include "bash/talk.h"
#include "core/core.h"
#include "core/log.h"

/* Static: a thread that a stuck client holds may outlive main(). */
static struct core core;
static struct bash bash;

static int fail(const char *why)
{
	fprintf(stderr, "carrel-bash: %s\n", why);
	return 1;
}

/* A wait for input is cut short, and the shell is asked how it is. */
static void woken(int sig)
{
	(void)sig;
}

static void take_signals(void)
{
	struct sigaction wake = { .sa_handler = woken, .sa_flags = SA_NOCLDSTOP };

	sigaction(SIGCHLD, &wake, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static void serve(const struct connection *conn, int saved)
{
	char why[500];

	/* Until there is something to interrupt. */
	signal(SIGINT, SIG_IGN);
	log_set_fd(saved);
	setenv("TERM", "dumb", 0);
	/* What pages for a person would wait for a key that nobody presses. */
	setenv("PAGER", "cat", 0);
	if (bash_shell_open(&bash.shell, why, sizeof(why)) ||
	    core_start(&core, conn, &bash_lang_ops, &bash, why, sizeof(why))) {
		log_line("%s", why);
		exit(1);
	}
	talk_take_interrupts(&core.interrupt_fd);
	core_run(&core);
	bash_shell_stop(&bash.shell);
	core_finish(&core);
	bash_shell_close(&bash.shell);
	history_free(&bash.history);
	display_reset(&bash.display, 0);
	json_decref(bash.given);
}

int main(int argc, char **argv)
{
	struct connection conn;
	char why[500];
	int saved;

	if (argc != 3 || strcmp(argv[1], "-f")) {
		fputs("usage: carrel-bash -f CONNECTION_FILE\n", stderr);
		return 2;
	}
	if (connection_from_file(argv[2], &conn, why, sizeof(why)))
		return fail(why);
	saved = fcntl(2, F_DUPFD_CLOEXEC, 10);
	if (saved < 0)
		return fail(strerror(errno));
	setpgid(0, 0);
	take_signals();
	serve(&conn, saved);
	return 0;
}
