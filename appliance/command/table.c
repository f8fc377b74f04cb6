#include "table.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void table_init(struct table *t, unsigned columns)
{
	*t = (struct table){ .columns = columns };
}

/* A terminal obeys control characters: none that came from elsewhere gets through. */
static char *plain_copy(const char *text)
{
	char *copy = strdup(text ? text : "-");

	for (char *at = copy; at && *at; at++)
		if ((unsigned char)*at < 0x20 || *at == 0x7f)
			*at = '?';
	return copy;
}

void table_row(struct table *t, ...)
{
	va_list ap;

	if (t->rows == t->room) {
		size_t room = t->room ? t->room * 2 : 32;
		char **cells = realloc(t->cells, room * t->columns * sizeof(*cells));

		if (!cells)
			return;
		t->cells = cells;
		t->room = room;
	}
	va_start(ap, t);
	for (unsigned i = 0; i < t->columns; i++)
		t->cells[t->rows * t->columns + i] = plain_copy(va_arg(ap, const char *));
	va_end(ap);
	t->rows++;
}

static int width_of(const char *text)
{
	int width = 0;

	for (; text && *text; text++)
		width += ((unsigned char)*text & 0xC0) != 0x80;
	return width;
}

void table_print(const struct table *t)
{
	int widths[TABLE_COLUMNS_MAX] = { 0 };

	for (size_t i = 0; i < t->rows * t->columns; i++)
		if (width_of(t->cells[i]) > widths[i % t->columns])
			widths[i % t->columns] = width_of(t->cells[i]);
	for (size_t row = 0; row < t->rows; row++)
		for (unsigned i = 0; i < t->columns; i++) {
			const char *cell = t->cells[row * t->columns + i];
			bool last = i + 1 == t->columns;

			printf("%s%*s", cell ? cell : "", last ? 0 : widths[i] - width_of(cell) + 2, "");
			if (last)
				putchar('\n');
		}
}

void table_free(struct table *t)
{
	for (size_t i = 0; i < t->rows * t->columns; i++)
		free(t->cells[i]);
	free(t->cells);
	t->cells = NULL;
}
