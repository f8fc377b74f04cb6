#include "python/bridge.h"
#include "python/pyjson.h"
#include "core/core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/rand.h>

static struct core *core;
/* The stream Python wrote to last: text of the other one is queued first, so
 * that what a cell prints on both keeps its order. */
static int last_stream;

void bridge_set_core(struct core *c)
{
	core = c;
}

static bool is_connected(void)
{
	return core && !core_is_child();
}

static PyObject *raise_errno(void)
{
	return PyErr_SetFromErrno(PyExc_OSError);
}

/* Write all of it, however often a signal interrupts. */
static int write_all(int fd, const char *data, size_t n)
{
	ssize_t done;

	while (n > 0) {
		Py_BEGIN_ALLOW_THREADS done = write(fd, data, n);
		Py_END_ALLOW_THREADS if (done < 0 && errno != EINTR)
		{
			raise_errno();
			return -1;
		}
		/* A part may be written when the signal comes. */
		if (done > 0) {
			data += done;
			n -= (size_t)done;
		}
		if (n > 0 && PyErr_CheckSignals() < 0)
			return -1;
	}
	return 0;
}

/* The kept beginning of a line and data in one write, so that other processes'
 * text stays out of it. */
static int write_line(int stream, const char *data, size_t n)
{
	char line[2 * CAPTURE_LINE_MAX];
	size_t kept = core ? capture_take_line(&core->capture, stream, line) : 0;

	if (kept == 0)
		return write_all(stream + 1, data, n);
	if (kept + n <= sizeof(line)) {
		memcpy(line + kept, data, n);
		return write_all(stream + 1, line, kept + n);
	}
	return write_all(stream + 1, line, kept) < 0 ? -1 : write_all(stream + 1, data, n);
}

static int change_stream(int stream)
{
	int other = last_stream;

	last_stream = stream;
	if (!is_connected())
		return write_line(other, "", 0);
	Py_BEGIN_ALLOW_THREADS core_flush(core);
	Py_END_ALLOW_THREADS return 0;
}

static PyObject *write_to(int stream, PyObject *arg)
{
	Py_buffer view;
	Py_ssize_t n;
	int err = 0;

	if (PyObject_GetBuffer(arg, &view, PyBUF_SIMPLE) < 0)
		return NULL;
	n = view.len;
	if (stream != last_stream)
		err = change_stream(stream);
	if (!err && !(core && capture_hold(&core->capture, stream, view.buf, (size_t)n)))
		err = write_line(stream, view.buf, (size_t)n);
	PyBuffer_Release(&view);
	return err ? NULL : PyLong_FromSsize_t(n);
}

static PyObject *write_out(PyObject *self, PyObject *arg)
{
	(void)self;
	return write_to(0, arg);
}

static PyObject *write_err(PyObject *self, PyObject *arg)
{
	(void)self;
	return write_to(1, arg);
}

static PyObject *flush_out(PyObject *self, PyObject *none)
{
	(void)self;
	(void)none;
	return write_line(0, "", 0) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *flush_err(PyObject *self, PyObject *none)
{
	(void)self;
	(void)none;
	return write_line(1, "", 0) < 0 ? NULL : Py_NewRef(Py_None);
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

static int wait_room(void)
{
	bool room = false;

	while (!room) {
		Py_BEGIN_ALLOW_THREADS room = core_wait_room(core);
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
	if (PyErr_Occurred() || !is_connected()) {
		json_decref(j);
		json_decref(meta);
		return PyErr_Occurred() ? NULL : Py_NewRef(Py_False);
	}
	/* How a cell ended does not wait for its output. */
	if ((strcmp(type, "error") && wait_room() < 0) || copy_buffers(list, &buffers, &n) < 0) {
		json_decref(j);
		json_decref(meta);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS err = core_publish(core, type, j, meta, buffers, n);
	Py_END_ALLOW_THREADS return err ? PyErr_NoMemory() : Py_NewRef(Py_True);
}

/* input(prompt, password) -> what the client answered */
static PyObject *input(PyObject *self, PyObject *args)
{
	PyObject *str, *prompt, *value;
	int password, err;
	json_t *answer = NULL;

	(void)self;
	if (!PyArg_ParseTuple(args, "Up", &str, &password))
		return NULL;
	if (!is_connected() || !core->current) {
		PyErr_SetString(PyExc_RuntimeError, "nobody can be asked for input here");
		return NULL;
	}
	prompt = pyjson_utf8(str);
	if (!prompt)
		return NULL;
	err = core_input_ask(core, PyBytes_AS_STRING(prompt), (size_t)PyBytes_GET_SIZE(prompt), password);
	Py_DECREF(prompt);
	while (!err) {
		Py_BEGIN_ALLOW_THREADS err = core_input_wait(core, &answer);
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
		return raise_errno();
	}
	value = pyjson_to(answer);
	json_decref(answer);
	return value;
}

/* parent() -> header of the request whose output this is, as JSON text */
static PyObject *parent(PyObject *self, PyObject *none)
{
	struct parent *p = NULL;
	struct slice s;
	PyObject *str;
	bool discard;

	(void)self;
	(void)none;
	if (is_connected())
		p = capture_parent(&core->capture, &discard);
	s = parent_slice(p);
	str = PyUnicode_DecodeUTF8(s.data, (Py_ssize_t)s.len, "replace");
	parent_unref(p);
	return str;
}

/* leave(): the process is about to end without the core's knowledge; deliver
 * what was written. In the main thread only. */
static PyObject *leave(PyObject *self, PyObject *none)
{
	struct core *c = core;

	(void)self;
	(void)none;
	if (is_connected()) {
		core = NULL;
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
	{ "write_out", write_out, METH_O, "write bytes to descriptor 1, lines at once" },
	{ "write_err", write_err, METH_O, "write bytes to descriptor 2, lines at once" },
	{ "flush_out", flush_out, METH_NOARGS, "write the beginning of a line that was kept" },
	{ "flush_err", flush_err, METH_NOARGS, "write the beginning of a line that was kept" },
	{ "publish", publish, METH_VARARGS, "publish(type, content, metadata=None, buffers=None)" },
	{ "input", input, METH_VARARGS, "input(prompt, password)" },
	{ "parent", parent, METH_NOARGS, "header of the request that is served" },
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
	return PyModule_Create(&module);
}
