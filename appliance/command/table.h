/* Rows of text in aligned columns on stdout. */
#ifndef CARREL_TABLE_H
#define CARREL_TABLE_H

#include <stddef.h>

enum { TABLE_COLUMNS_MAX = 10 };

struct table {
	unsigned columns;
	size_t rows, room;
	char **cells; /* row by row, owned */
};

void table_init(struct table *t, unsigned columns);
/* As many strings as there are columns; NULL stands for "-". Copied. */
void table_row(struct table *t, ...);
void table_print(const struct table *t);
void table_free(struct table *t);

#endif
