#include "python/run.h"
#include "python/bridge.h"
#include "core/core.h"
#include "core/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Static: a thread that a stuck client holds may outlive run_kernel()'s frame. */
static struct core core;

static void tell(int fd, const char *text)
{
	if (fd < 0)
		return;
	if (write(fd, text, strlen(text)) < 0)
		log_line("nobody hears that the kernel started: %s", strerror(errno));
	close(fd);
}

/* What the user's code asked for at its end. */
static void end_python(struct python *py)
{
	PyObject *none;

	python_acquire();
	none = PyObject_CallMethod(py->kernel, "shutdown", NULL);
	Py_XDECREF(none);
	PyErr_Clear();
	python_release();
}

void run_kernel(struct python *py, const struct connection *conn, int saved_stderr, int ready_fd)
{
	char why[400];
	PyObject *none;

	log_set_fd(saved_stderr);
	none = PyObject_CallMethod(py->kernel, "start", "i", saved_stderr);
	if (!none) {
		python_error_text(why, sizeof(why));
		log_line("crashes will not be explained: %s", why);
	}
	Py_XDECREF(none);
	python_release();
	if (core_start(&core, conn, &python_lang_ops, py, why, sizeof(why))) {
		log_line("%s", why);
		tell(ready_fd, why);
		_exit(1);
	}
	bridge_set_core(&core);
	tell(ready_fd, "ok");
	core_run(&core);
	end_python(py);
	core_finish(&core);
	/* Not through Py_Finalize: it waits for the user's threads and frees
	 * hundreds of megabytes that the system takes back at once. */
	_exit(0);
}
