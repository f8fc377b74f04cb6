#include "fields.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
	PATH_MAX_SHOWN = sizeof(((struct fault *)NULL)->field),
	ENTRY_MAX_SHOWN = 2 * PATH_MAX_SHOWN + 24,
};

static const char *json_type_name(const json_t *v)
{
	static const char *const names[] = {
		[JSON_OBJECT] = "an object",
		[JSON_ARRAY] = "an array",
		[JSON_STRING] = "a string",
		[JSON_INTEGER] = "a number",
		[JSON_REAL] = "a number with a fraction",
		[JSON_TRUE] = "true",
		[JSON_FALSE] = "false",
		[JSON_NULL] = "null",
	};

	return names[json_typeof(v)];
}

static int wrong_type(struct fault *f, const char *path, const char *want, const json_t *got)
{
	return fault_field(f, "wrong_type", path, "%s must be %s, not %s.", path, want, json_type_name(got));
}

static int field_choice(const struct field *d, const char *path, const char *text, struct fault *f)
{
	char list[160] = "";

	for (const char *const *c = d->choices; *c; c++) {
		if (!strcmp(*c, text))
			return 0;
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", *list ? ", " : "", *c);
	}
	return fault_field(f, "out_of_range", path, "%s must be one of: %s.", path, list);
}

static int field_string(const struct field *d, const char *path, json_t *v, const char **ret, struct fault *f)
{
	const char *text = json_string_value(v);
	double len = (double)json_string_length(v);
	int err = text && d->choices ? field_choice(d, path, text, f) : 0;

	if (!text)
		return wrong_type(f, path, "a string", v);
	if (err)
		return err;
	if (len < d->min)
		return fault_field(f, "out_of_range", path, "%s must not be empty.", path);
	if (len > d->max)
		return fault_field(f, "out_of_range", path, "%s must be at most %.0f bytes long.", path,
				   d->max);
	*ret = text;
	return 0;
}

static int field_text(const struct field *d, const char *path, json_t *v, struct field_text *ret,
		      struct fault *f)
{
	const char *text = NULL;
	int err = field_string(d, path, v, &text, f);

	if (!err)
		*ret = (struct field_text){ text, json_string_length(v) };
	return err;
}

static int field_whole(const struct field *d, const char *path, json_t *v, unsigned *ret, struct fault *f)
{
	double n = json_number_value(v);

	if (!json_is_integer(v))
		return wrong_type(f, path, "a whole number", v);
	if (n < d->min || n > d->max)
		return fault_field(f, "out_of_range", path, "%s must be a whole number from %.0f to %.0f.",
				   path, d->min, d->max);
	*ret = (unsigned)json_integer_value(v);
	return 0;
}

static int field_number(const struct field *d, const char *path, json_t *v, double *ret, struct fault *f)
{
	double n = json_number_value(v);

	if (!json_is_number(v))
		return wrong_type(f, path, "a number", v);
	if (!(n >= d->min && n <= d->max))
		return fault_field(f, "out_of_range", path, "%s must be a number from %g to %g.", path,
				   d->min, d->max);
	*ret = n;
	return 0;
}

static int field_object(const struct field *d, const char *path, json_t *v, json_t **ret, struct fault *f)
{
	if (!json_is_object(v))
		return wrong_type(f, path, "an object", v);
	if ((double)json_dumpb(v, NULL, 0, JSON_COMPACT) > d->max)
		return fault_field(f, "out_of_range", path, "%s must take at most %.0f bytes of JSON.", path,
				   d->max);
	*ret = v;
	return 0;
}

static int field_env(const struct field *d, const char *path, json_t *v, json_t **ret, struct fault *f)
{
	char entry[ENTRY_MAX_SHOWN];
	const char *name;
	json_t *value, *object;
	int err = field_object(d, path, v, &object, f);

	if (err)
		return err;
	json_object_foreach(v, name, value)
	{
		snprintf(entry, sizeof(entry), "%.63s.%.63s", path, name);
		if (!*name || strchr(name, '='))
			return fault_field(f, "bad_env", entry,
					   "A name in %s must not be empty or contain '='.", path);
		if (!json_is_string(value))
			return wrong_type(f, entry, "a string (quote numbers)", value);
	}
	*ret = object;
	return 0;
}

static int field_strings(const struct field *d, const char *path, json_t *v, json_t **ret, struct fault *f)
{
	char entry[ENTRY_MAX_SHOWN];
	size_t i;
	json_t *value;

	if (!json_is_array(v))
		return wrong_type(f, path, "an array of strings", v);
	if ((double)json_array_size(v) < d->min || (double)json_array_size(v) > d->max)
		return fault_field(f, "out_of_range", path, "%s must have from %.0f to %.0f entries.", path,
				   d->min, d->max);
	json_array_foreach(v, i, value)
	{
		snprintf(entry, sizeof(entry), "%.63s[%zu]", path, i);
		if (!json_is_string(value))
			return wrong_type(f, entry, "a string", value);
	}
	*ret = v;
	return 0;
}

static int table_read(const struct field *table, const char *prefix, json_t *body, void *dest,
		      struct fault *f);

static int field_read(const struct field *d, const char *path, json_t *v, void *dest, struct fault *f)
{
	void *to = (char *)dest + d->offset;

	switch (d->type) {
	case FIELD_STRING:
		return field_string(d, path, v, to, f);
	case FIELD_TEXT:
		return field_text(d, path, v, to, f);
	case FIELD_WHOLE:
		return field_whole(d, path, v, to, f);
	case FIELD_NUMBER:
		return field_number(d, path, v, to, f);
	case FIELD_OBJECT:
		return field_object(d, path, v, to, f);
	case FIELD_ENV:
		return field_env(d, path, v, to, f);
	case FIELD_STRINGS:
		return field_strings(d, path, v, to, f);
	case FIELD_BOOL:
		if (!json_is_boolean(v))
			return wrong_type(f, path, "true or false", v);
		*(json_t **)to = v;
		return 0;
	case FIELD_ANY:
		*(json_t **)to = v;
		return 0;
	case FIELD_TABLE:
		return json_is_object(v) ? table_read(d->table, path, v, dest, f)
					 : wrong_type(f, path, "an object", v);
	case FIELD_END:
		break;
	}
	return fault_field(f, "unknown_field", path, "%s cannot be set.", path);
}

static const struct field *table_find(const struct field *table, const char *name)
{
	for (; table->type != FIELD_END; table++)
		if (!strcmp(table->name, name))
			return table;
	return NULL;
}

static void path_join(char *path, size_t size, const char *prefix, const char *name)
{
	snprintf(path, size, "%s%s%s", prefix, *prefix ? "." : "", name);
}

static int unknown_field(const struct field *table, const char *path, struct fault *f)
{
	char list[192] = "";

	for (; table->type != FIELD_END; table++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", *list ? ", " : "",
			 table->name);
	return fault_field(f, "unknown_field", path, "There is no field %.80s here; there are: %s.", path,
			   *list ? list : "none");
}

static int table_read(const struct field *table, const char *prefix, json_t *body, void *dest,
		      struct fault *f)
{
	char path[PATH_MAX_SHOWN];
	const char *name;
	json_t *value;

	json_object_foreach(body, name, value)
	{
		const struct field *d = table_find(table, name);
		int err;

		path_join(path, sizeof(path), prefix, name);
		err = d ? field_read(d, path, value, dest, f) : unknown_field(table, path, f);
		if (err)
			return err;
	}
	for (const struct field *d = table; d->type != FIELD_END; d++) {
		path_join(path, sizeof(path), prefix, d->name);
		if (d->required && !json_object_get(body, d->name))
			return fault_field(f, "missing_field", path, "%s is missing; it is required.", path);
	}
	return 0;
}

int fields_read(const struct field *table, json_t *body, void *dest, struct fault *f)
{
	return table_read(table, "", body, dest, f);
}

int fields_read_in(const struct field *table, const char *prefix, json_t *object, void *dest, struct fault *f)
{
	return table_read(table, prefix, object, dest, f);
}
