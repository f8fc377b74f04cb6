#include "python/lang_beside.h"
#include "python/bridge.h"
#include "python/pyjson.h"
#include "core/core.h"
#include "core/log.h"

static PyObject *buffers_of(const struct request *r)
{
	PyObject *list = PyList_New(0), *bytes;
	size_t i;

	for (i = 0; list && i < r->view.n_buffers; i++) {
		bytes = PyBytes_FromStringAndSize(r->view.buffers[i].data, (Py_ssize_t)r->view.buffers[i].len);
		if (!bytes || PyList_Append(list, bytes) < 0)
			Py_CLEAR(list);
		Py_XDECREF(bytes);
	}
	return list;
}

static PyObject *metadata_of(const struct request *r)
{
	json_t *j = json_loadb(r->view.part[WIRE_METADATA].data, r->view.part[WIRE_METADATA].len, 0, NULL);
	PyObject *o = json_is_object(j) ? pyjson_to(j) : PyDict_New();

	json_decref(j);
	return o;
}

json_t *python_comm(void *lang, struct core *c, const struct request *r)
{
	struct python *py = lang;
	bool outermost = python_enter(c, r);
	PyObject *none = PyObject_CallMethod(py->kernel, "comm", "sNNNN", r->type, pyjson_to(r->header),
					     pyjson_to(r->content), metadata_of(r), buffers_of(r));
	char why[400];

	if (!none) {
		python_error_text(why, sizeof(why));
		log_line("a %s was not served: %s", r->type, why);
	}
	Py_XDECREF(none);
	python_leave(c, outermost);
	return NULL;
}

/* The user's tasks go on while nothing is asked. */
bool python_idle(void *lang, struct core *c)
{
	struct python *py = lang;
	PyObject *none;

	if (!bridge_has_background())
		return false;
	python_acquire();
	core_interruptible(c, true);
	none = PyObject_CallMethod(py->kernel, "idle", NULL);
	Py_XDECREF(none);
	PyErr_Clear();
	core_interruptible(c, false);
	python_drop_signals();
	python_release();
	/* The wake-up was seen. */
	shell_wait(c, 0);
	return true;
}

/* ---- subshells ---- */

static __thread PyGILState_STATE lock_state;

bool python_thread_begin(void *lang, const char *subshell_id)
{
	struct python *py = lang;
	PyObject *none;

	lock_state = PyGILState_Ensure();
	none = PyObject_CallMethod(py->kernel, "begin_thread", "s", subshell_id);
	Py_XDECREF(none);
	PyErr_Clear();
	python_release();
	return none != NULL;
}

void python_thread_end(void *lang)
{
	struct python *py = lang;

	python_acquire();
	Py_XDECREF(PyObject_CallMethod(py->kernel, "end_thread", NULL));
	PyErr_Clear();
	PyGILState_Release(lock_state);
}
