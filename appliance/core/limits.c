#include "limits.h"

#include <stddef.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { WHOLE, NUMBER };
enum { IF_SET, ALWAYS };
enum { OUTSIDE, INSIDE };

struct row {
	const char *name;
	size_t at;
	double usual;
	bool number, always, inside;
};

static const struct row rows[] = {
#define LIMIT(name, type, least, most, usual, shown, told) \
	{ #name, offsetof(struct limits, name), usual, type == NUMBER, shown == ALWAYS, told == INSIDE },
#include "link/limits.def"
#undef LIMIT
};

static double value_of(const struct limits *l, const struct row *row)
{
	const void *at = (const char *)l + row->at;

	return row->number ? *(const double *)at : *(const unsigned *)at;
}

static void value_set(struct limits *l, const struct row *row, double value)
{
	void *at = (char *)l + row->at;

	if (row->number)
		*(double *)at = value;
	else
		*(unsigned *)at = (unsigned)value;
}

static json_t *value_json(const struct row *row, double value)
{
	return row->number ? json_real(value) : json_integer((json_int_t)value);
}

void limits_read(struct limits *l, json_t *stored)
{
	for (size_t i = 0; i < COUNT(rows); i++)
		value_set(l, &rows[i], json_number_value(json_object_get(stored, rows[i].name)));
}

void limits_fill(struct limits *l, json_t *recipe)
{
	struct limits given;

	limits_read(&given, recipe);
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct row *row = &rows[i];
		double value = value_of(&given, row);

		if (value_of(l, row) > 0)
			continue;
		if (value > 0)
			value_set(l, row, value);
		else if (row->always)
			value_set(l, row, row->usual);
	}
}

json_t *limits_json(const struct limits *l)
{
	json_t *json = json_object();

	for (size_t i = 0; i < COUNT(rows); i++)
		if (rows[i].always || value_of(l, &rows[i]) > 0)
			json_object_set_new(json, rows[i].name, value_json(&rows[i], value_of(l, &rows[i])));
	return json;
}

static double told(const struct limits *l, const struct row *row)
{
	double value = value_of(l, row);

	return value > 0 ? value : row->usual;
}

json_t *limits_inside(const struct limits *l)
{
	json_t *json = json_object();

	for (size_t i = 0; i < COUNT(rows); i++)
		if (rows[i].inside && told(l, &rows[i]) > 0)
			json_object_set_new(json, rows[i].name, value_json(&rows[i], told(l, &rows[i])));
	return json;
}

static bool among(json_t *names, const char *name)
{
	json_t *one;
	size_t i;

	json_array_foreach(names, i, one)
	{
		const char *text = json_string_value(one);

		if (text && strcmp(text, name) == 0)
			return true;
	}
	return false;
}

const char *limits_unheld(const struct limits *l, json_t *held)
{
	/* Those that are always there every agent holds. */
	for (size_t i = 0; i < COUNT(rows); i++)
		if (rows[i].inside && !rows[i].always && value_of(l, &rows[i]) > 0 && !among(held, rows[i].name))
			return rows[i].name;
	return NULL;
}

bool limits_inside_same(const struct limits *a, const struct limits *b)
{
	for (size_t i = 0; i < COUNT(rows); i++)
		if (rows[i].inside && told(a, &rows[i]) != told(b, &rows[i]))
			return false;
	return true;
}
