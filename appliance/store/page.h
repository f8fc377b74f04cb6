/* Lists in pages: newest first, by a number that grows with each row. For this folder only. */
#ifndef CARREL_PAGE_H
#define CARREL_PAGE_H

#include "reader.h"

/* A list's query, from the cursor on: that is bound as ?1, an entry's number below which it goes on.
 * -EINVAL for a cursor that no page gave. */
int page_begin(struct query *q, struct store *s, const char *sql, const char *cursor);
/* {"NAME":[...],"next":...} of the query's rows, and the query's end. limit 0: the default. complete, if any,
 * adds to each row and counts its bytes in *cost. */
int page_end(struct query *q, unsigned limit, const char *name, int seq_column,
	     int (*complete)(struct store *s, json_t *row, size_t *cost), json_t **ret);

#endif
