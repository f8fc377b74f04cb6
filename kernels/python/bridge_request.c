/* Which request is served, and what is served beside a cell. */
#include "python/bridge.h"
#include "python/about.h"
#include "python/lang.h"
#include "core/core.h"

#include <stdatomic.h>

static PyObject *text_of(struct slice s)
{
	return PyUnicode_DecodeUTF8(s.data, (Py_ssize_t)s.len, "replace");
}

/* parent() -> header of the request whose output this is, as JSON text */
PyObject *bridge_parent(PyObject *self, PyObject *none)
{
	struct parent *p = NULL;
	PyObject *str;
	bool quiet;

	(void)self;
	(void)none;
	if (bridge_is_connected()) {
		p = parent_ref(about_get(&quiet));
		if (!p)
			p = capture_parent(&bridge_core->capture, &quiet);
	}
	str = text_of(parent_slice(p));
	parent_unref(p);
	return str;
}

/* set_parent(header): what the descriptors carry belongs to it, until the next cell */
PyObject *bridge_set_parent(PyObject *self, PyObject *header)
{
	Py_ssize_t n;
	const char *text = PyUnicode_AsUTF8AndSize(header, &n);
	struct parent *p = text ? parent_new(text, (size_t)n) : NULL;

	(void)self;
	if (!p)
		return text ? PyErr_NoMemory() : NULL;
	if (bridge_is_connected()) {
		Py_BEGIN_ALLOW_THREADS capture_set_parent(&bridge_core->capture, p, false);
		Py_END_ALLOW_THREADS
	}
	parent_unref(p);
	Py_RETURN_NONE;
}

/* request() -> (metadata, identity) of the request that this thread serves; None: none */
PyObject *bridge_request(PyObject *self, PyObject *none)
{
	const struct request *r = bridge_is_connected() ? shell_self(bridge_core)->current : NULL;
	struct slice ident = { "", 0 };

	(void)self;
	(void)none;
	if (!r)
		Py_RETURN_NONE;
	if (r->view.n_idents > 0)
		ident = r->view.idents[0];
	return Py_BuildValue("NN", text_of(r->view.part[WIRE_METADATA]),
			     PyBytes_FromStringAndSize(ident.data, (Py_ssize_t)ident.len));
}

/* control_request() -> (header, identity) of the last request of the control channel */
PyObject *bridge_control_request(PyObject *self, PyObject *none)
{
	char ident[CONTROL_IDENT_MAX];
	struct parent *p = NULL;
	PyObject *result;
	size_t n = 0;

	(void)self;
	(void)none;
	if (bridge_is_connected())
		p = control_last(&bridge_core->control, ident, &n);
	result = Py_BuildValue("NN", text_of(parent_slice(p)), PyBytes_FromStringAndSize(ident, (Py_ssize_t)n));
	parent_unref(p);
	return result;
}

/* wait_fds() -> descriptors that become readable when there may be a request */
PyObject *bridge_wait_fds(PyObject *self, PyObject *none)
{
	int fd;

	(void)self;
	(void)none;
	if (!bridge_is_connected())
		return PyTuple_New(0);
	fd = shell_fd(bridge_core);
	return fd < 0 ? Py_BuildValue("(i)", bridge_core->wake_fd) : Py_BuildValue("(ii)", bridge_core->wake_fd, fd);
}

/* serve_comms(): serve the comm messages that came while a cell awaits something */
PyObject *bridge_serve_comms(PyObject *self, PyObject *none)
{
	(void)self;
	(void)none;
	if (bridge_is_connected()) {
		python_release();
		core_serve_comms(bridge_core);
		python_acquire();
	}
	Py_RETURN_NONE;
}

static atomic_bool background;

bool bridge_has_background(void)
{
	return atomic_load(&background);
}

/* set_background(on): the event loop has something to do while nothing is asked */
PyObject *bridge_set_background(PyObject *self, PyObject *on)
{
	(void)self;
	atomic_store(&background, PyObject_IsTrue(on) > 0);
	Py_RETURN_NONE;
}
