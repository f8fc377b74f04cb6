/* Declarative checks of a JSON body: one table a body, each field a row.
 *
 * A body is read into a struct of the caller, who fills it with the defaults
 * first. Unknown fields are refused. Strings and JSON values in the struct are
 * borrowed from the body.
 */
#ifndef CARREL_FRONT_FIELDS_H
#define CARREL_FRONT_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "../fault.h"

enum field_type {
	FIELD_END,
	FIELD_STRING,  /* const char *; min, max: bytes; choices or any */
	FIELD_TEXT,    /* struct field_text: a string that may be long or empty; max: bytes */
	FIELD_WHOLE,   /* unsigned; min, max */
	FIELD_NUMBER,  /* double; min, max */
	FIELD_OBJECT,  /* json_t *; max: bytes when written out */
	FIELD_ENV,     /* json_t *: names to strings, as a process environment takes them; max as above */
	FIELD_STRINGS, /* json_t *: array of strings without NUL; min, max: their number */
	FIELD_BOOL,    /* json_t *: true or false */
	FIELD_ANY,     /* json_t *: checked by the caller */
	FIELD_TABLE,   /* an object with a table of its own, into the same struct */
};

struct field_text {
	const char *text; /* NULL: absent */
	size_t len;
};

struct field {
	const char *name;
	enum field_type type;
	size_t offset;
	double min, max;
	bool required;
	const char *const *choices; /* NULL-ended, or NULL */
	const struct field *table;
};

/* table ends with FIELD_END. 0, or -EINVAL with the fault. */
int fields_read(const struct field *table, json_t *body, void *dest, struct fault *f);
/* The same for an object inside the body; prefix is its name, for the faults. */
int fields_read_in(const struct field *table, const char *prefix, json_t *object, void *dest, struct fault *f);

#endif
