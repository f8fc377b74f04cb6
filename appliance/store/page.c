#include "page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAGE_DEFAULT = 100 }; /* reference v1 */

struct page {
	json_t *rows;
	unsigned limit;
	size_t cost;  /* bytes of outputs so far */
	int64_t last; /* number of the last row taken */
	bool more;
};

static int cursor_parse(const char *cursor, int64_t *ret)
{
	char *end;
	long long number;

	if (!cursor || !*cursor) {
		*ret = INT64_MAX;
		return 0;
	}
	errno = 0;
	number = strtoll(cursor, &end, 10);
	if (*end || errno || cursor[0] < '0' || cursor[0] > '9')
		return -EINVAL;
	*ret = number;
	return 0;
}

static json_t *cursor_json(int64_t seq)
{
	char text[24];

	snprintf(text, sizeof(text), "%lld", (long long)seq);
	return json_string(text);
}

/* Rows until the limit; one further row shows that there are more. */
static int page_fill(struct query *q, struct page *p, int seq_column,
		     int (*complete)(struct store *s, json_t *row, size_t *cost))
{
	int got;

	while ((got = query_step(q)) == 1) {
		json_t *row;
		int err;

		if (json_array_size(p->rows) >= p->limit || p->cost >= EXECUTION_JSON_MAX) {
			p->more = true;
			return 0;
		}
		err = query_row(q, &row);
		if (!err && complete)
			err = complete(q->store, row, &p->cost);
		if (!err && json_array_append(p->rows, row) < 0)
			err = -ENOMEM;
		if (!err)
			p->last = sqlite3_column_int64(q->st, seq_column);
		json_decref(row);
		if (err)
			return err;
	}
	return got;
}

int page_begin(struct query *q, struct store *s, const char *sql, const char *cursor)
{
	int64_t before;
	int err = cursor_parse(cursor, &before);

	if (!err)
		err = query_begin(q, s, sql);
	if (!err)
		query_int(q, before);
	return err;
}

static int page_list(struct query *q, struct page *p, const char *name, int seq_column,
		     int (*complete)(struct store *s, json_t *row, size_t *cost), json_t **ret)
{
	json_t *list;
	int err;

	p->rows = json_array();
	err = p->rows ? page_fill(q, p, seq_column, complete) : -ENOMEM;
	if (err) {
		json_decref(p->rows);
		return err;
	}
	list = json_pack("{s:o, s:o}", name, p->rows, "next", p->more ? cursor_json(p->last) : json_null());
	if (!list)
		return -ENOMEM;
	*ret = list;
	return 0;
}

static unsigned limit_clamp(unsigned limit)
{
	if (limit == 0)
		return PAGE_DEFAULT;
	return limit < STORE_LIST_MAX ? limit : STORE_LIST_MAX;
}

int page_end(struct query *q, unsigned limit, const char *name, int seq_column,
	     int (*complete)(struct store *s, json_t *row, size_t *cost), json_t **ret)
{
	struct page p = { .limit = limit_clamp(limit) };
	int err = page_list(q, &p, name, seq_column, complete, ret);

	query_end(q);
	return err;
}
