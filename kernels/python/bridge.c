#include "python/bridge.h"
#include "python/about.h"
#include "python/lang.h"
#include "python/pyjson.h"
#include "core/core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/rand.h>

struct core *bridge_core;
void bridge_set_core(struct core *c)
{
	bridge_core = c;
}

bool bridge_is_connected(void)
{
	return bridge_core && !core_is_child();
}

static void free_buffers(struct iopub_buffer *b, size_t n)
{
	while (n > 0)
		free(b[--n].data);
	free(b);
}

static int copy_buffer(PyObject *o, struct iopub_buffer *b)
{
	Py_buffer view;

	if (PyObject_GetBuffer(o, &view, PyBUF_CONTIG_RO) < 0)
		return -1;
	b->data = malloc(view.len > 0 ? (size_t)view.len : 1);
	b->len = (size_t)view.len;
	if (b->data)
		memcpy(b->data, view.buf, b->len);
	else
		PyErr_NoMemory();
	PyBuffer_Release(&view);
	return b->data ? 0 : -1;
}

static int copy_buffers(PyObject *list, struct iopub_buffer **ret, size_t *ret_n)
{
	PyObject *seq;
	struct iopub_buffer *b;
	size_t n, i;

	*ret = NULL;
	*ret_n = 0;
	if (list == Py_None)
		return 0;
	seq = PySequence_Tuple(list);
	if (!seq)
		return -1;
	n = (size_t)PyTuple_GET_SIZE(seq);
	b = n <= WIRE_BUFFERS_MAX ? calloc(n ? n : 1, sizeof(*b)) : NULL;
	if (!b)
		PyErr_Format(PyExc_ValueError, "a message has at most %d buffers", WIRE_BUFFERS_MAX);
	for (i = 0; b && i < n; i++) {
		if (copy_buffer(PyTuple_GET_ITEM(seq, (Py_ssize_t)i), &b[i]) < 0) {
			free_buffers(b, i);
			b = NULL;
		}
	}
	Py_DECREF(seq);
	if (!b)
		return -1;
	*ret = b;
	*ret_n = n;
	return 0;
}

int bridge_wait_room(void)
{
	bool room = false;

	while (!room) {
		Py_BEGIN_ALLOW_THREADS room = core_wait_room(bridge_core);
		Py_END_ALLOW_THREADS if (PyErr_CheckSignals() < 0) return -1;
	}
	return 0;
}

/* publish(type, content, metadata=None, buffers=None) -> False when there is
 * nobody to publish to: in a child process, or while warming up. */
static PyObject *publish(PyObject *self, PyObject *args)
{
	PyObject *content, *metadata = Py_None, *list = Py_None;
	struct iopub_buffer *buffers;
	struct parent *about;
	bool quiet = false;
	json_t *j, *meta = NULL;
	const char *type;
	size_t n;
	int err;

	(void)self;
	if (!PyArg_ParseTuple(args, "sO|OO", &type, &content, &metadata, &list))
		return NULL;
	j = pyjson_from(content);
	if (!j)
		return NULL;
	if (metadata != Py_None)
		meta = pyjson_from(metadata);
	if (PyErr_Occurred() || !bridge_is_connected()) {
		json_decref(j);
		json_decref(meta);
		return PyErr_Occurred() ? NULL : Py_NewRef(Py_False);
	}
	/* How a cell ended does not wait for its output. */
	if ((strcmp(type, "error") && bridge_wait_room() < 0) || copy_buffers(list, &buffers, &n) < 0) {
		json_decref(j);
		json_decref(meta);
		return NULL;
	}
	about = parent_ref(about_get(&quiet));
	Py_BEGIN_ALLOW_THREADS if (about) err =
		core_publish_about(bridge_core, about, quiet, type, j, meta, buffers, n);
	else err = core_publish(bridge_core, type, j, meta, buffers, n);
	Py_END_ALLOW_THREADS parent_unref(about);
	return err ? PyErr_NoMemory() : Py_NewRef(Py_True);
}

static PyObject *ask(PyObject *prompt, int password)
{
	PyObject *value;
	json_t *answer = NULL;
	int err = core_input_ask(bridge_core, PyBytes_AS_STRING(prompt), (size_t)PyBytes_GET_SIZE(prompt), password);

	while (!err) {
		Py_BEGIN_ALLOW_THREADS err = core_input_wait(bridge_core, &answer);
		Py_END_ALLOW_THREADS if (PyErr_CheckSignals() < 0)
		{
			json_decref(answer);
			return NULL;
		}
		if (!err)
			break;
		if (err == -EINTR)
			err = 0;
	}
	if (err) {
		errno = -err;
		return PyErr_SetFromErrno(PyExc_OSError);
	}
	value = pyjson_to(answer);
	json_decref(answer);
	return value;
}

/* input(prompt, password) -> what the client answered */
static PyObject *input(PyObject *self, PyObject *args)
{
	PyObject *str, *prompt, *value;
	int password;

	(void)self;
	if (!PyArg_ParseTuple(args, "Up", &str, &password))
		return NULL;
	if (!bridge_is_connected() || !shell_self(bridge_core)->current) {
		PyErr_SetString(PyExc_RuntimeError, "nobody can be asked for input here");
		return NULL;
	}
	if (core_input_begin(bridge_core)) {
		PyErr_SetString(PyExc_RuntimeError, "another cell waits for input: ask when it got its answer");
		return NULL;
	}
	prompt = pyjson_utf8(str);
	value = prompt ? ask(prompt, password) : NULL;
	Py_XDECREF(prompt);
	core_input_end(bridge_core);
	return value;
}

/* leave(): the process is about to end without the core's knowledge; deliver
 * what was written. In the main thread only. */
static PyObject *leave(PyObject *self, PyObject *none)
{
	struct core *c = bridge_core;

	(void)self;
	(void)none;
	if (bridge_is_connected()) {
		bridge_core = NULL;
		Py_BEGIN_ALLOW_THREADS core_finish(c);
		Py_END_ALLOW_THREADS
	}
	Py_RETURN_NONE;
}

static PyObject *is_child(PyObject *self, PyObject *none)
{
	(void)self;
	(void)none;
	return PyBool_FromLong(core_is_child());
}

/* reseed_tls(entropy): OpenSSL keeps a generator of its own in this process */
static PyObject *reseed_tls(PyObject *self, PyObject *arg)
{
	char *data;
	Py_ssize_t n;

	(void)self;
	if (PyBytes_AsStringAndSize(arg, &data, &n) < 0)
		return NULL;
	RAND_add(data, (int)(n < 4096 ? n : 4096), (double)n);
	if (RAND_poll() != 1) {
		PyErr_SetString(PyExc_OSError, "OpenSSL could not get new randomness");
		return NULL;
	}
	Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
	{ "write_out", bridge_write_out, METH_O, "write bytes to descriptor 1, lines at once" },
	{ "write_err", bridge_write_err, METH_O, "write bytes to descriptor 2, lines at once" },
	{ "flush_out", bridge_flush_out, METH_NOARGS, "write the beginning of a line that was kept" },
	{ "flush_err", bridge_flush_err, METH_NOARGS, "write the beginning of a line that was kept" },
	{ "publish", publish, METH_VARARGS, "publish(type, content, metadata=None, buffers=None)" },
	{ "set_parent", bridge_set_parent, METH_O, "set_parent(header)" },
	{ "set_thread_parent", about_set_thread, METH_O, "set_thread_parent(header) -> token" },
	{ "reset_thread_parent", about_reset_thread, METH_O, "reset_thread_parent(token)" },
	{ "request", bridge_request, METH_NOARGS, "request() -> (metadata, identity) or None" },
	{ "control_request", bridge_control_request, METH_NOARGS, "control_request() -> (header, identity)" },
	{ "wait_fds", bridge_wait_fds, METH_NOARGS, "descriptors that become readable with a request" },
	{ "serve_comms", bridge_serve_comms, METH_NOARGS, "serve comm messages while a cell awaits something" },
	{ "set_background", bridge_set_background, METH_O, "set_background(on)" },
	{ "input", input, METH_VARARGS, "input(prompt, password)" },
	{ "parent", bridge_parent, METH_NOARGS, "header of the request that is served" },
	{ "leave", leave, METH_NOARGS, "deliver all output; nothing can be published afterwards" },
	{ "is_child", is_child, METH_NOARGS, "true in a process made by fork()" },
	{ "reseed_tls", reseed_tls, METH_O, "reseed_tls(entropy)" },
	{ NULL, NULL, 0, NULL },
};

static struct PyModuleDef module = {
	PyModuleDef_HEAD_INIT, .m_name = "_carrel",  .m_doc = "The kernel's core.",
	.m_size = -1,          .m_methods = methods,
};

PyMODINIT_FUNC bridge_init_module(void)
{
	if (about_init() < 0)
		return NULL;
	return PyModule_Create(&module);
}
