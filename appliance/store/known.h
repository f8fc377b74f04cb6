/* The SQL function known(id, column, value) of readers' connections: what
 * store_known_set() was told of that column, else the row's own value. */
#ifndef CARREL_KNOWN_H
#define CARREL_KNOWN_H

#include "inner.h"

/* A SQLite result code. */
int known_function(struct store *s, struct db *db);
void known_free(struct store *s);

#endif
