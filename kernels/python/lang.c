#include "python/lang.h"
#include "python/lang_beside.h"
#include "python/about.h"
#include "python/pyjson.h"
#include "core/core.h"
#include "core/log.h"

#include <stdio.h>
#include <string.h>

static PyObject *take_exception(void)
{
	PyObject *type, *value, *tb;

	PyErr_Fetch(&type, &value, &tb);
	if (!type)
		return NULL;
	PyErr_NormalizeException(&type, &value, &tb);
	Py_XDECREF(type);
	Py_XDECREF(tb);
	return value;
}

static json_t *text_of(PyObject *o)
{
	PyObject *str = o ? PyObject_Str(o) : NULL;
	json_t *j = str ? pyjson_from(str) : NULL;

	Py_XDECREF(str);
	PyErr_Clear();
	return j ? j : json_string("");
}

void python_error_text(char *out, size_t size)
{
	PyObject *e = take_exception();
	json_t *text = text_of(e);

	snprintf(out, size, "%s: %s", e ? Py_TYPE(e)->tp_name : "error", json_string_value(text));
	json_decref(text);
	Py_XDECREF(e);
}

/* The state of this thread while it has not the lock. */
static __thread PyThreadState *state;

void python_acquire(void)
{
	PyEval_RestoreThread(state);
}

void python_release(void)
{
	state = PyEval_SaveThread();
}

/* A signal that came too late for the code it was meant for. */
void python_drop_signals(void)
{
	if (PyErr_CheckSignals() < 0)
		PyErr_Clear();
}

/* Interrupts are the main shell's, and one request may be served within another. */
bool python_enter(struct core *c, const struct request *r)
{
	bool outermost = shell_self(c) == &c->shell_line && !c->interruptible;

	python_acquire();
	about_set(r->parent, request_bool(r, "silent", false));
	if (outermost) {
		python_drop_signals();
		core_interruptible(c, true);
	}
	return outermost;
}

void python_leave(struct core *c, bool outermost)
{
	if (outermost) {
		core_interruptible(c, false);
		python_drop_signals();
	}
	python_release();
}

static int current_count(struct python *py)
{
	PyObject *n = PyObject_CallMethod(py->kernel, "execution_count", NULL);
	long v = n ? PyLong_AsLong(n) : 0;

	Py_XDECREF(n);
	PyErr_Clear();
	return (int)v;
}

static const char *class_name(PyObject *e)
{
	const char *name = e ? Py_TYPE(e)->tp_name : "Error";
	const char *dot = strrchr(name, '.');

	return dot ? dot + 1 : name;
}

/* The exception that is set becomes the content of a reply: it left the code
 * around the user's code, as an interrupt can at any point. */
static json_t *error_from_exception(void)
{
	PyObject *e = take_exception();
	json_t *content = json_pack("{s:s, s:s, s:o, s:[]}", "status", "error", "ename", class_name(e), "evalue",
				    text_of(e), "traceback");

	Py_XDECREF(e);
	return content;
}

/* Call a method of the kernel with the content of a request. NULL: an exception is set. */
static json_t *call(struct python *py, const char *method, const struct request *r)
{
	PyObject *content = pyjson_to(r->content);
	PyObject *result = content ? PyObject_CallMethod(py->kernel, method, "O", content) : NULL;
	json_t *reply = result ? pyjson_from(result) : NULL;

	Py_XDECREF(content);
	Py_XDECREF(result);
	return reply;
}

static void publish_input(struct core *c, const struct request *r, int count)
{
	json_t *code = json_object_get(r->content, "code");
	json_t *content = json_pack("{s:O, s:i}", "code", code, "execution_count", count);

	if (content)
		iopub_put_json(&c->iopub, "execute_input", r->parent, content, NULL);
}

static void publish_error(struct core *c, const struct request *r, const json_t *reply)
{
	json_t *content =
		json_pack("{s:O, s:O, s:O}", "ename", json_object_get(reply, "ename"), "evalue",
			  json_object_get(reply, "evalue"), "traceback", json_object_get(reply, "traceback"));

	if (content)
		core_publish_about(c, r->parent, request_bool(r, "silent", false), "error", content, NULL, NULL, 0);
}

/* A client that does not read holds a cell here rather than its text in memory.
 * A failed or interrupted one ends at once. */
static void wait_for_reader(struct core *c)
{
	bool room = false;

	while (!room) {
		Py_BEGIN_ALLOW_THREADS room = core_wait_room(c);
		Py_END_ALLOW_THREADS if (PyErr_CheckSignals() < 0)
		{
			PyErr_Clear();
			return;
		}
	}
}

/* An interrupt can end a cell before IPython has counted it. */
static void count_failed(struct python *py, const struct request *r, int count)
{
	bool silent = request_bool(r, "silent", false);
	PyObject *none;

	if (silent || !request_bool(r, "store_history", true))
		return;
	none = PyObject_CallMethod(py->kernel, "count_failed", "i", count);
	Py_XDECREF(none);
	PyErr_Clear();
}

static json_t *python_execute(void *lang, struct core *c, const struct request *r)
{
	struct python *py = lang;
	json_t *reply;
	bool outermost;
	int count;

	if (!json_is_string(json_object_get(r->content, "code")))
		return json_pack("{s:s, s:s, s:s, s:[], s:i}", "status", "error", "ename", "BadRequest",
				 "evalue", "an execute_request needs \"code\", a string", "traceback",
				 "execution_count", c->execution_count);
	outermost = python_enter(c, r);
	count = current_count(py);
	if (!request_bool(r, "silent", false))
		publish_input(c, r, count);
	reply = call(py, "execute", r);
	if (core_is_child())
		return NULL;
	if (!reply) {
		reply = error_from_exception();
		if (reply)
			publish_error(c, r, reply);
	} else if (!json_object_get(reply, "ename")) {
		wait_for_reader(c);
	}
	if (outermost) {
		core_interruptible(c, false);
		python_drop_signals();
	}
	if (json_object_get(reply, "ename"))
		count_failed(py, r, count);
	if (reply && !json_is_integer(json_object_get(reply, "execution_count")))
		json_object_set_new(reply, "execution_count", json_integer(count));
	python_release();
	return reply;
}

static json_t *serve(struct python *py, struct core *c, const struct request *r, const char *method)
{
	bool outermost = python_enter(c, r);
	json_t *reply;

	reply = call(py, method, r);
	if (!reply)
		reply = error_from_exception();
	python_leave(c, outermost);
	return reply;
}

static json_t *python_complete(void *lang, struct core *c, const struct request *r)
{
	return serve(lang, c, r, "complete");
}

static json_t *python_inspect(void *lang, struct core *c, const struct request *r)
{
	return serve(lang, c, r, "inspect");
}

static json_t *python_is_complete(void *lang, struct core *c, const struct request *r)
{
	return serve(lang, c, r, "is_complete");
}

static json_t *python_history(void *lang, struct core *c, const struct request *r)
{
	return serve(lang, c, r, "history");
}

static json_t *python_identity(void *lang, struct core *c, const struct request *r)
{
	return serve(lang, c, r, "identity");
}

static json_t *python_comm_info(void *lang, struct core *c, const struct request *r)
{
	return serve(lang, c, r, "comm_info");
}

static json_t *python_kernel_info(void *lang)
{
	struct python *py = lang;
	PyObject *result;
	json_t *info;

	python_acquire();
	result = PyObject_CallMethod(py->kernel, "kernel_info", NULL);
	info = result ? pyjson_from(result) : NULL;
	Py_XDECREF(result);
	PyErr_Clear();
	python_release();
	return info;
}

const struct lang_ops python_lang_ops = {
	.kernel_info = python_kernel_info,
	.execute = python_execute,
	.complete = python_complete,
	.inspect = python_inspect,
	.is_complete = python_is_complete,
	.history = python_history,
	.identity = python_identity,
	.comm = python_comm,
	.comm_info = python_comm_info,
	.idle = python_idle,
	.thread_begin = python_thread_begin,
	.thread_end = python_thread_end,
};
