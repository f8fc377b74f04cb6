#include "instant.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[INSTANTS] = {
	[INSTANT_CREATE_ADMITTED] = "create.admitted",
	[INSTANT_CREATE_DISK] = "create.disk",
	[INSTANT_CREATE_STARTED] = "create.started",
	[INSTANT_CREATE_IDENTIFIED] = "create.identified",
	[INSTANT_CREATE_COMMITTED] = "create.committed",
	[INSTANT_POOL_DISK] = "pool.disk",
	[INSTANT_POOL_STARTED] = "pool.started",
	[INSTANT_POOL_IDENTIFIED] = "pool.identified",
	[INSTANT_POOL_WARM] = "pool.warm",
	[INSTANT_POOL_READY] = "pool.ready",
	[INSTANT_POOL_TAKEN] = "pool.taken",
	[INSTANT_EXECUTE_COMMITTED] = "execute.committed",
	[INSTANT_EXECUTE_SENT] = "execute.sent",
	[INSTANT_END_BEGUN] = "end.begun",
	[INSTANT_END_GONE] = "end.gone",
	[INSTANT_END_COMMITTED] = "end.committed",
	[INSTANT_PAUSE_FILES] = "pause.files",
	[INSTANT_PAUSE_FROZEN] = "pause.frozen",
	[INSTANT_PAUSE_HALTED] = "pause.halted",
	[INSTANT_PAUSE_SAVED] = "pause.saved",
	[INSTANT_PAUSE_SEALED] = "pause.sealed",
	[INSTANT_PAUSE_COMMITTED] = "pause.committed",
	[INSTANT_PAUSE_STOPPED] = "pause.stopped",
	[INSTANT_RESUME_OPENED] = "resume.opened",
	[INSTANT_RESUME_STARTED] = "resume.started",
	[INSTANT_RESUME_LINKED] = "resume.linked",
	[INSTANT_RESUME_IDENTIFIED] = "resume.identified",
	[INSTANT_RESUME_COMMITTED] = "resume.committed",
	[INSTANT_RESUME_CLEANED] = "resume.cleaned",
	[INSTANT_COPY_FILES] = "copy.files",
	[INSTANT_COPY_FROZEN] = "copy.frozen",
	[INSTANT_COPY_HALTED] = "copy.halted",
	[INSTANT_COPY_SAVED] = "copy.saved",
	[INSTANT_COPY_COPIED] = "copy.copied",
	[INSTANT_COPY_CONTINUED] = "copy.continued",
	[INSTANT_FORK_ADMITTED] = "fork.admitted",
	[INSTANT_FORK_STARTED] = "fork.started",
	[INSTANT_FORK_IDENTIFIED] = "fork.identified",
	[INSTANT_FORK_COMMITTED] = "fork.committed",
	[INSTANT_SNAPSHOT_SEALED] = "snapshot.sealed",
	[INSTANT_SNAPSHOT_COMMITTED] = "snapshot.committed",
	[INSTANT_SNAPSHOT_DELETED] = "snapshot.deleted",
};

static const char *control;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void control_find(void)
{
	control = getenv("CARREL_INSTANTS");
}

void instant(enum instant at)
{
	char text[64];
	ssize_t n;
	int fd;

	pthread_once(&once, control_find);
	if (!control)
		return;
	fd = open(control, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	/* Who removed it is who stops: once a file, however many threads come by. */
	if (strcmp(text, names[at]) == 0 && unlink(control) == 0)
		raise(SIGSTOP);
}

void instants_print(FILE *out)
{
	for (unsigned i = 0; i < INSTANTS; i++)
		fprintf(out, "%s\n", names[i]);
}
