/* The module `_carrel`: what Python code asks of the core. */
#ifndef CARREL_BRIDGE_H
#define CARREL_BRIDGE_H

#include <Python.h>
#include <stdbool.h>

struct core;

/* For PyImport_AppendInittab(), before Py_Initialize. */
PyMODINIT_FUNC bridge_init_module(void);
/* From here on messages go to c; before, and with NULL, they are dropped, and
 * text goes straight to the descriptors (the warm-up of a prepared parent). */
void bridge_set_core(struct core *c);
/* The event loop has something to do while nothing is asked. Any thread. */
bool bridge_has_background(void);

/* ---- inside of the bridge ---- */

/* NULL while there is none. */
extern struct core *bridge_core;
/* There is one, and this is no child of fork(). */
bool bridge_is_connected(void);
/* Wait until output has room. -1: with an exception, as an interrupt's. */
int bridge_wait_room(void);
PyObject *bridge_write_out(PyObject *self, PyObject *bytes);
PyObject *bridge_write_err(PyObject *self, PyObject *bytes);
PyObject *bridge_flush_out(PyObject *self, PyObject *none);
PyObject *bridge_flush_err(PyObject *self, PyObject *none);
PyObject *bridge_parent(PyObject *self, PyObject *none);
PyObject *bridge_set_parent(PyObject *self, PyObject *header);
PyObject *bridge_request(PyObject *self, PyObject *none);
PyObject *bridge_control_request(PyObject *self, PyObject *none);
PyObject *bridge_wait_fds(PyObject *self, PyObject *none);
PyObject *bridge_serve_comms(PyObject *self, PyObject *none);
PyObject *bridge_set_background(PyObject *self, PyObject *on);

#endif
