#include "python/pyjson.h"

#include <math.h>

static json_t *from(PyObject *o, int depth);

PyObject *pyjson_utf8(PyObject *str)
{
	PyObject *bytes = PyUnicode_AsUTF8String(str), *utf16, *fixed;

	if (bytes || !PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))
		return bytes;
	PyErr_Clear();
	/* Through UTF-16 two halves that belong together find each other. */
	utf16 = PyUnicode_AsEncodedString(str, "utf-16-le", "surrogatepass");
	if (!utf16)
		return NULL;
	fixed = PyUnicode_Decode(PyBytes_AS_STRING(utf16), PyBytes_GET_SIZE(utf16), "utf-16-le", "replace");
	Py_DECREF(utf16);
	if (!fixed)
		return NULL;
	bytes = PyUnicode_AsUTF8String(fixed);
	Py_DECREF(fixed);
	return bytes;
}

static json_t *no_memory(json_t *j)
{
	if (!j)
		PyErr_NoMemory();
	return j;
}

static json_t *from_str(PyObject *o)
{
	PyObject *bytes;
	json_t *j;
	Py_ssize_t n;
	const char *text = PyUnicode_AsUTF8AndSize(o, &n);

	if (text)
		return no_memory(json_stringn_nocheck(text, (size_t)n));
	PyErr_Clear();
	bytes = pyjson_utf8(o);
	if (!bytes)
		return NULL;
	j = no_memory(json_stringn_nocheck(PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes)));
	Py_DECREF(bytes);
	return j;
}

static json_t *from_str_of(PyObject *o)
{
	PyObject *str = PyObject_Str(o);
	json_t *j = str ? from_str(str) : NULL;

	Py_XDECREF(str);
	return j;
}

static json_t *from_double(double v)
{
	return no_memory(isfinite(v) ? json_real(v) : json_null());
}

static json_t *from_int(PyObject *o)
{
	int overflow;
	long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
	double d;

	if (!overflow)
		return PyErr_Occurred() ? NULL : no_memory(json_integer(v));
	d = PyLong_AsDouble(o);
	if (d == -1.0 && PyErr_Occurred()) {
		PyErr_Clear();
		return no_memory(json_null());
	}
	return from_double(d);
}

static json_t *from_bytes(const unsigned char *in, size_t n)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t len = (n + 2) / 3 * 4, i;
	char *out = PyMem_Malloc(len + 1), *at = out;
	json_t *j;

	if (!out)
		return no_memory(NULL);
	for (i = 0; i < n; i += 3) {
		unsigned int v = (unsigned int)in[i] << 16;

		v |= i + 1 < n ? (unsigned int)in[i + 1] << 8 : 0;
		v |= i + 2 < n ? in[i + 2] : 0;
		*at++ = digits[v >> 18];
		*at++ = digits[v >> 12 & 63];
		*at++ = i + 1 < n ? digits[v >> 6 & 63] : '=';
		*at++ = i + 2 < n ? digits[v & 63] : '=';
	}
	j = no_memory(json_stringn_nocheck(out, len));
	PyMem_Free(out);
	return j;
}

static int put_member(json_t *j, PyObject *key, PyObject *value, int depth)
{
	PyObject *str = PyUnicode_Check(key) ? Py_NewRef(key) : PyObject_Str(key);
	PyObject *bytes = str ? pyjson_utf8(str) : NULL;
	json_t *v = bytes ? from(value, depth) : NULL;
	int err = -1;

	if (v) {
		err = json_object_setn_new_nocheck(j, PyBytes_AS_STRING(bytes),
						   (size_t)PyBytes_GET_SIZE(bytes), v);
		if (err)
			PyErr_NoMemory();
	}
	Py_XDECREF(bytes);
	Py_XDECREF(str);
	return err;
}

static json_t *from_dict(PyObject *o, int depth)
{
	/* A copy: str() of a key or value may run code that changes the dict. */
	PyObject *items = PyMapping_Items(o), *pair;
	json_t *j = json_object();
	Py_ssize_t i;
	int err = items && j ? 0 : -1;

	for (i = 0; !err && i < PyList_GET_SIZE(items); i++) {
		pair = PyList_GET_ITEM(items, i);
		if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2)
			continue;
		err = put_member(j, PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1), depth);
	}
	Py_XDECREF(items);
	if (!err)
		return j;
	json_decref(j);
	return PyErr_Occurred() ? NULL : no_memory(NULL);
}

static json_t *from_list(PyObject *o, int depth)
{
	PyObject *seq = PySequence_Tuple(o);
	json_t *j = json_array(), *v;
	Py_ssize_t i;
	int err = seq && j ? 0 : -1;

	for (i = 0; !err && i < PyTuple_GET_SIZE(seq); i++) {
		v = from(PyTuple_GET_ITEM(seq, i), depth);
		err = v ? json_array_append_new(j, v) : -1;
	}
	Py_XDECREF(seq);
	if (!err)
		return j;
	json_decref(j);
	return PyErr_Occurred() ? NULL : no_memory(NULL);
}

/* Numbers that are no int or float, dates, and what has only a text. */
static json_t *from_other(PyObject *o)
{
	PyObject *v = NULL;
	json_t *j;

	if (PyIndex_Check(o))
		v = PyNumber_Index(o);
	else if (PyObject_HasAttrString(o, "isoformat"))
		v = PyObject_CallMethod(o, "isoformat", NULL);
	else if (PyNumber_Check(o) && !PyComplex_Check(o))
		v = PyNumber_Float(o);
	if (!v) {
		PyErr_Clear();
		return from_str_of(o);
	}
	if (PyLong_Check(v))
		j = from_int(v);
	else if (PyFloat_Check(v))
		j = from_double(PyFloat_AS_DOUBLE(v));
	else
		j = from_str_of(v);
	Py_DECREF(v);
	return j;
}

static json_t *from(PyObject *o, int depth)
{
	if (o == Py_None)
		return json_null();
	if (PyBool_Check(o))
		return json_boolean(o == Py_True);
	if (PyUnicode_Check(o))
		return from_str(o);
	if (PyLong_Check(o))
		return from_int(o);
	if (PyFloat_Check(o))
		return from_double(PyFloat_AS_DOUBLE(o));
	if (PyBytes_Check(o))
		return from_bytes((const unsigned char *)PyBytes_AS_STRING(o), (size_t)PyBytes_GET_SIZE(o));
	if (PyByteArray_Check(o))
		return from_bytes((const unsigned char *)PyByteArray_AS_STRING(o),
				  (size_t)PyByteArray_GET_SIZE(o));
	if (depth == 0)
		return from_str_of(o);
	if (PyDict_Check(o) || (PyMapping_Check(o) && PyObject_HasAttrString(o, "items") && !PyType_Check(o)))
		return from_dict(o, depth - 1);
	if (PyList_Check(o) || PyTuple_Check(o) || PyAnySet_Check(o))
		return from_list(o, depth - 1);
	return from_other(o);
}

json_t *pyjson_from(PyObject *o)
{
	return from(o, PYJSON_DEPTH_MAX);
}

static PyObject *to_dict(const json_t *j)
{
	PyObject *dict = PyDict_New(), *key, *value;
	void *iter = json_object_iter((json_t *)j);
	int err = 0;

	while (dict && iter && !err) {
		key = PyUnicode_DecodeUTF8(json_object_iter_key(iter),
					   (Py_ssize_t)json_object_iter_key_len(iter), NULL);
		value = key ? pyjson_to(json_object_iter_value(iter)) : NULL;
		err = value ? PyDict_SetItem(dict, key, value) : -1;
		Py_XDECREF(key);
		Py_XDECREF(value);
		iter = json_object_iter_next((json_t *)j, iter);
	}
	if (err)
		Py_CLEAR(dict);
	return dict;
}

static PyObject *to_list(const json_t *j)
{
	PyObject *list = PyList_New((Py_ssize_t)json_array_size(j)), *value;
	size_t i;

	for (i = 0; list && i < json_array_size(j); i++) {
		value = pyjson_to(json_array_get(j, i));
		if (!value) {
			Py_CLEAR(list);
			break;
		}
		PyList_SET_ITEM(list, (Py_ssize_t)i, value);
	}
	return list;
}

PyObject *pyjson_to(const json_t *j)
{
	if (!j)
		Py_RETURN_NONE;
	switch (json_typeof(j)) {
	case JSON_OBJECT:
		return to_dict(j);
	case JSON_ARRAY:
		return to_list(j);
	case JSON_STRING:
		return PyUnicode_DecodeUTF8(json_string_value(j), (Py_ssize_t)json_string_length(j), NULL);
	case JSON_INTEGER:
		return PyLong_FromLongLong(json_integer_value(j));
	case JSON_REAL:
		return PyFloat_FromDouble(json_real_value(j));
	case JSON_TRUE:
		Py_RETURN_TRUE;
	case JSON_FALSE:
		Py_RETURN_FALSE;
	case JSON_NULL:
		break;
	}
	Py_RETURN_NONE;
}
