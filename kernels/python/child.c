#include "python/parent.h"
#include "python/pyjson.h"
#include "python/run.h"
#include "core/log.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static void __attribute__((noreturn, format(printf, 2, 3))) give_up(int ready_fd, const char *fmt, ...)
{
	char why[600];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	log_line("%s", why);
	if (write(ready_fd, why, strlen(why)) < 0)
		_exit(2);
	_exit(1);
}

/* The steps in order; each needs what the ones before it set. */

static void take_descriptors(const struct fork_request *f, int ready_fd, int *ret_saved)
{
	int from = f->stderr_fd >= 0 ? f->stderr_fd : 2;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	*ret_saved = fcntl(from, F_DUPFD_CLOEXEC, 10);
	if (*ret_saved < 0 || null < 0)
		give_up(ready_fd, "cannot set up the kernel's descriptors: %s", strerror(errno));
	log_set_fd(*ret_saved);
	dup2(null, 0);
	dup2(null, 1);
	dup2(*ret_saved, 2);
	close(null);
	close(PARENT_FD);
	if (f->stderr_fd >= 0)
		close(f->stderr_fd);
}

static void limit_descriptors(const struct fork_request *f, int ready_fd)
{
	const json_t *most = json_object_get(f->packet, "open_files");
	rlim_t n = (rlim_t)json_integer_value(most);
	const struct rlimit files = { n, n };

	if (json_is_integer(most) && setrlimit(RLIMIT_NOFILE, &files) < 0)
		give_up(ready_fd, "cannot limit the kernel's descriptors: %s", strerror(errno));
}

static void join_cgroup(const struct fork_request *f, int ready_fd)
{
	if (f->cgroup_fd < 0)
		return;
	if (write(f->cgroup_fd, "0", 1) != 1)
		give_up(ready_fd, "cannot enter the kernel's cgroup: %s", strerror(errno));
	close(f->cgroup_fd);
}

static void drop_to_user(int ready_fd)
{
	if (getuid() != 0)
		return;
	if (setgroups(0, NULL) || setresgid(PARENT_GID, PARENT_GID, PARENT_GID) ||
	    setresuid(PARENT_UID, PARENT_UID, PARENT_UID))
		give_up(ready_fd, "cannot become the user that kernels run as: %s", strerror(errno));
	/* Lost with the change of user: without it the user's own tools cannot
	 * look at the process. */
	prctl(PR_SET_DUMPABLE, 1);
}

static void become_user(const struct fork_request *f, int ready_fd)
{
	if (getuid() == 0 && seteuid(0))
		give_up(ready_fd, "cannot take back the right to enter the cgroup: %s", strerror(errno));
	join_cgroup(f, ready_fd);
	drop_to_user(ready_fd);
}

static void begin_python(struct python *py, const json_t *packet, int ready_fd)
{
	const json_t *env = json_object_get(packet, "env");
	PyObject *values = json_is_object(env) ? pyjson_to(env) : PyDict_New();
	PyObject *none = values ? PyObject_CallMethod(py->kernel, "begin_process", "O", values) : NULL;
	char why[400];

	Py_XDECREF(values);
	if (!none) {
		python_error_text(why, sizeof(why));
		give_up(ready_fd, "a fresh kernel could not be set up: %s", why);
	}
	Py_DECREF(none);
}

void child_main(struct python *py, const struct fork_request *f, int ready_fd)
{
	const char *cwd = json_string_value(json_object_get(f->packet, "cwd"));
	struct connection conn;
	char why[400];
	int saved;

	take_descriptors(f, ready_fd, &saved);
	limit_descriptors(f, ready_fd);
	setsid();
	become_user(f, ready_fd);
	if (cwd && chdir(cwd) < 0)
		give_up(ready_fd, "cannot use %.200s as the working directory: %s", cwd, strerror(errno));
	if (connection_from_json(json_object_get(f->packet, "connection"), &conn, why, sizeof(why)))
		give_up(ready_fd, "%s", why);
	begin_python(py, f->packet, ready_fd);
	run_kernel(py, &conn, saved, ready_fd);
}
