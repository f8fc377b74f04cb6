/* Python as a language of the core. */
#ifndef CARREL_PYTHON_LANG_H
#define CARREL_PYTHON_LANG_H

#include <Python.h>
#include "core/lang.h"

struct python {
	PyObject *kernel;     /* carrel_kernel.Kernel */
	PyThreadState *state; /* of the main thread while it has no lock */
};

extern const struct lang_ops python_lang_ops;

/* The exception that is set, as one line, and cleared. */
void python_error_text(char *out, size_t size);

#endif
