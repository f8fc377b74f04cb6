/* Lists in pages: newest first, by a number that grows with each row. For this folder only. */
#ifndef CARREL_PAGE_H
#define CARREL_PAGE_H

#include "reader.h"

struct page {
	json_t *rows;
	unsigned limit;
	size_t cost;  /* bytes of outputs so far */
	int64_t last; /* number of the last row taken */
	bool more;
};

/* Entries before this number come next; -EINVAL for what no page gave. */
int cursor_parse(const char *cursor, int64_t *ret);
unsigned limit_clamp(unsigned limit);
/* {"NAME":[...],"next":...} of the query's rows, until p->limit. complete, if any, adds to each row. */
int page_list(struct query *q, struct page *p, const char *name, int seq_column,
	      int (*complete)(struct store *s, json_t *row, size_t *cost), json_t **ret);

#endif
