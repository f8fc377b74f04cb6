/* The module `_carrel`: what Python code asks of the core. */
#ifndef CARREL_BRIDGE_H
#define CARREL_BRIDGE_H

#include <Python.h>

struct core;

/* For PyImport_AppendInittab(), before Py_Initialize. */
PyMODINIT_FUNC bridge_init_module(void);
/* From here on messages go to c; before, and with NULL, they are dropped, and
 * text goes straight to the descriptors (the warm-up of a prepared parent). */
void bridge_set_core(struct core *c);

#endif
