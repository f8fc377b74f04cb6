#include "python/about.h"
#include "core/message.h"

static PyObject *variable;

int about_init(void)
{
	if (!variable)
		variable = PyContextVar_New("carrel_request", NULL);
	return variable ? 0 : -1;
}

static void drop(PyObject *capsule)
{
	parent_unref(PyCapsule_GetPointer(capsule, NULL));
}

static PyObject *make(struct parent *parent, bool quiet)
{
	PyObject *capsule = PyCapsule_New(parent, NULL, drop);

	if (!capsule)
		return NULL;
	parent_ref(parent);
	/* Any pointer that is not NULL says so. */
	if (quiet)
		PyCapsule_SetContext(capsule, parent);
	return capsule;
}

static PyObject *set(struct parent *parent, bool quiet)
{
	PyObject *capsule = make(parent, quiet), *token;

	if (!capsule)
		return NULL;
	token = PyContextVar_Set(variable, capsule);
	Py_DECREF(capsule);
	return token;
}

void about_set(struct parent *parent, bool quiet)
{
	Py_XDECREF(set(parent, quiet));
	PyErr_Clear();
}

struct parent *about_get(bool *ret_quiet)
{
	struct parent *parent = NULL;
	PyObject *capsule;

	if (PyContextVar_Get(variable, NULL, &capsule) < 0)
		PyErr_Clear();
	else if (capsule) {
		*ret_quiet = PyCapsule_GetContext(capsule) != NULL;
		parent = PyCapsule_GetPointer(capsule, NULL);
		/* The context holds it. */
		Py_DECREF(capsule);
	}
	return parent;
}

PyObject *about_set_thread(PyObject *self, PyObject *header)
{
	Py_ssize_t n;
	const char *text = PyUnicode_AsUTF8AndSize(header, &n);
	struct parent *parent = text ? parent_new(text, (size_t)n) : NULL;
	PyObject *token;

	(void)self;
	if (!parent)
		return text ? PyErr_NoMemory() : NULL;
	token = set(parent, false);
	parent_unref(parent);
	return token;
}

PyObject *about_reset_thread(PyObject *self, PyObject *token)
{
	(void)self;
	return PyContextVar_Reset(variable, token) < 0 ? NULL : Py_NewRef(Py_None);
}
