/* Whose output it is: the request that a thread, or a task of asyncio, works for.
 *
 * A context variable of Python, so that a task keeps the request of the cell
 * that made it. Where it is not set (threads of the user's code) output belongs
 * to what the main shell runs. Call with the interpreter's lock.
 */
#ifndef CARREL_PYTHON_ABOUT_H
#define CARREL_PYTHON_ABOUT_H

#include <Python.h>
#include <stdbool.h>

struct core;
struct parent;

int about_init(void);
/* From here on the calling context works for this request. */
void about_set(struct parent *parent, bool quiet);
/* A borrowed parent, or NULL when none is set. quiet: its output is dropped. */
struct parent *about_get(bool *ret_quiet);

/* set_thread_parent(header) -> token, reset_thread_parent(token): header is JSON text */
PyObject *about_set_thread(PyObject *self, PyObject *header);
PyObject *about_reset_thread(PyObject *self, PyObject *token);

#endif
