/* Python values to JSON and back. Call with the interpreter's lock.
 *
 * Every value becomes valid JSON: NaN and infinities become null, lone
 * surrogates U+FFFD, bytes base64 text, keys text, numbers of other types (as
 * numpy's) numbers, dates ISO text, anything else its str().
 */
#ifndef CARREL_PYJSON_H
#define CARREL_PYJSON_H

#include <Python.h>
#include <jansson.h>

enum {
	/* Containers within containers; past it the rest is told as text. Also
	 * what ends a list that contains itself. */
	PYJSON_DEPTH_MAX = 64,
};

/* NULL with a Python exception set. */
json_t *pyjson_from(PyObject *o);
/* A new reference, or NULL with a Python exception set. NULL gives None. */
PyObject *pyjson_to(const json_t *j);
/* UTF-8 of a str with lone surrogates made U+FFFD: bytes, or NULL with an exception. */
PyObject *pyjson_utf8(PyObject *str);

#endif
