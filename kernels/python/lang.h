/* Python as a language of the core. */
#ifndef CARREL_PYTHON_LANG_H
#define CARREL_PYTHON_LANG_H

#include <Python.h>
#include "core/lang.h"

struct python {
	PyObject *kernel; /* carrel_kernel.Kernel */
};

/* Take and give back the interpreter's lock: the main thread, and those of
 * subshells. The main one has it at first. */
void python_acquire(void);
void python_release(void);

extern const struct lang_ops python_lang_ops;

/* The exception that is set, as one line, and cleared. */
void python_error_text(char *out, size_t size);

#endif
