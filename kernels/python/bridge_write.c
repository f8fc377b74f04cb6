/* What Python writes to its standard streams. */
#include "python/bridge.h"
#include "python/about.h"
#include "core/core.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* The stream Python wrote to last: text of the other one is queued first, so
 * that what a cell prints on both keeps its order. */
static int last_stream;

/* Write all of it, however often a signal interrupts. */
static int write_all(int fd, const char *data, size_t n)
{
	ssize_t done;

	while (n > 0) {
		Py_BEGIN_ALLOW_THREADS done = write(fd, data, n);
		Py_END_ALLOW_THREADS if (done < 0 && errno != EINTR)
		{
			PyErr_SetFromErrno(PyExc_OSError);
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
	char line[2 * UNSENT_LINE_MAX];
	size_t kept = bridge_core ? capture_take_line(&bridge_core->capture, stream, line) : 0;

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
	if (!bridge_is_connected())
		return write_line(other, "", 0);
	Py_BEGIN_ALLOW_THREADS core_flush(bridge_core);
	Py_END_ALLOW_THREADS return 0;
}

/* Text of another request than what the descriptors carry goes its own way. */
static int write_about(int stream, struct parent *about, const Py_buffer *view)
{
	int err = 0;

	parent_ref(about);
	if (bridge_wait_room() < 0) {
		parent_unref(about);
		return -1;
	}
	Py_BEGIN_ALLOW_THREADS err = core_put_text(bridge_core, stream, about, view->buf, (size_t)view->len);
	Py_END_ALLOW_THREADS parent_unref(about);
	if (err)
		PyErr_NoMemory();
	return err ? -1 : 0;
}

/* The request that this thread writes for, when it is not the main shell's. */
static struct parent *other_request(bool *ret_quiet)
{
	struct parent *about = bridge_is_connected() ? about_get(ret_quiet) : NULL;

	return about && about != capture_parent_now(&bridge_core->capture) ? about : NULL;
}

static PyObject *write_to(int stream, PyObject *arg)
{
	struct parent *about;
	bool quiet = false;
	Py_buffer view;
	Py_ssize_t n;
	int err = 0;

	if (PyObject_GetBuffer(arg, &view, PyBUF_SIMPLE) < 0)
		return NULL;
	n = view.len;
	about = other_request(&quiet);
	if (about) {
		err = quiet ? 0 : write_about(stream, about, &view);
		PyBuffer_Release(&view);
		return err ? NULL : PyLong_FromSsize_t(n);
	}
	if (stream != last_stream)
		err = change_stream(stream);
	if (!err && !(bridge_core && capture_hold(&bridge_core->capture, stream, view.buf, (size_t)n)))
		err = write_line(stream, view.buf, (size_t)n);
	PyBuffer_Release(&view);
	return err ? NULL : PyLong_FromSsize_t(n);
}

PyObject *bridge_write_out(PyObject *self, PyObject *arg)
{
	(void)self;
	return write_to(0, arg);
}

PyObject *bridge_write_err(PyObject *self, PyObject *arg)
{
	(void)self;
	return write_to(1, arg);
}

PyObject *bridge_flush_out(PyObject *self, PyObject *none)
{
	(void)self;
	(void)none;
	return write_line(0, "", 0) < 0 ? NULL : Py_NewRef(Py_None);
}

PyObject *bridge_flush_err(PyObject *self, PyObject *none)
{
	(void)self;
	(void)none;
	return write_line(1, "", 0) < 0 ? NULL : Py_NewRef(Py_None);
}
