#include "python/embed.h"
#include "python/bridge.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where an image has the Python side; CARREL_PYTHON_DIR names another place,
 * and a build that was not installed finds the source beside build/. */
#define PYTHON_DIR "/usr/lib/carrel/python"
#define PYTHON_MODULE "carrel_kernel"

#define FAIL(...) (snprintf(why, why_size, __VA_ARGS__), -EIO)

static bool has_module(const char *dir)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/" PYTHON_MODULE ".py", dir);

	return n > 0 && n < PATH_MAX && access(path, R_OK) == 0;
}

static bool find_in_checkout(char dir[PATH_MAX])
{
	char exe[PATH_MAX], *slash;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n < 0)
		return false;
	exe[n] = '\0';
	while ((slash = strrchr(exe, '/')) && slash != exe) {
		*slash = '\0';
		n = snprintf(dir, PATH_MAX, "%s/kernels/python", exe);
		if (n > 0 && n < PATH_MAX && has_module(dir))
			return true;
	}
	return false;
}

static int find_dir(char dir[PATH_MAX], char *why, size_t why_size)
{
	const char *named = getenv("CARREL_PYTHON_DIR");

	if (named) {
		snprintf(dir, PATH_MAX, "%s", named);
		return has_module(dir) ? 0 : FAIL("CARREL_PYTHON_DIR=%s has no " PYTHON_MODULE ".py", named);
	}
	strcpy(dir, PYTHON_DIR);
	if (has_module(dir) || find_in_checkout(dir))
		return 0;
	return FAIL(PYTHON_DIR "/" PYTHON_MODULE ".py is missing: the kernel was not installed whole");
}

static int initialize(char *why, size_t why_size)
{
	char *argv[] = { (char *)"", NULL };
	PyConfig config;
	PyStatus status;

	if (PyImport_AppendInittab("_carrel", bridge_init_module) < 0)
		return FAIL("Python could not be started: no memory");
	PyConfig_InitPythonConfig(&config);
	config.parse_argv = 0;
	/* The kernel enables it on the saved standard error. */
	config.faulthandler = 0;
	/* Children of the user's code must find the interpreter, not this program. */
	status = PyConfig_SetBytesString(&config, &config.program_name, "/usr/bin/python3");
	if (!PyStatus_Exception(status))
		status = PyConfig_SetBytesArgv(&config, 1, argv);
	if (!PyStatus_Exception(status))
		status = Py_InitializeFromConfig(&config);
	PyConfig_Clear(&config);
	if (PyStatus_Exception(status))
		return FAIL("Python could not be started: %s", status.err_msg ? status.err_msg : "unknown");
	return 0;
}

static PyObject *import_kernel(const char *dir)
{
	PyObject *path = PySys_GetObject("path"), *entry = PyUnicode_DecodeFSDefault(dir), *module = NULL;

	if (!path || !entry || PyList_Insert(path, 0, entry) < 0)
		goto out;
	module = PyImport_ImportModule(PYTHON_MODULE);
	/* The user's modules are looked for where a notebook expects it; the
	 * kernel's own are all loaded by now. */
	PyList_SetSlice(path, 0, 1, NULL);
out:
	Py_XDECREF(entry);
	return module;
}

int embed_start(struct python *py, bool prepared, char *why, size_t why_size)
{
	char dir[PATH_MAX], text[400];
	PyObject *module;
	int err = find_dir(dir, why, why_size);

	if (!err)
		err = initialize(why, why_size);
	if (err)
		return err;
	module = import_kernel(dir);
	py->kernel =
		module ? PyObject_CallMethod(module, "create", "O", prepared ? Py_True : Py_False) : NULL;
	Py_XDECREF(module);
	if (py->kernel)
		return 0;
	python_error_text(text, sizeof(text));
	return FAIL("the Python side did not start: %s", text);
}
