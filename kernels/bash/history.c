#include "bash/history.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void drop_oldest(struct history *h, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		h->bytes -= h->cells[i].len;
		free(h->cells[i].code);
	}
	h->n -= n;
	memmove(h->cells, h->cells + n, h->n * sizeof(*h->cells));
}

static bool make_room(struct history *h)
{
	size_t cap = h->cap ? 2 * h->cap : 64;
	struct history_cell *cells;

	if (h->n < h->cap)
		return true;
	cells = realloc(h->cells, cap * sizeof(*cells));
	if (!cells)
		return false;
	h->cells = cells;
	h->cap = cap;
	return true;
}

void history_add(struct history *h, int number, const char *code, size_t len)
{
	char *copy;

	if (len > HISTORY_BYTES_MAX)
		return;
	while (h->n > 0 && (h->n == HISTORY_CELLS_MAX || h->bytes + len > HISTORY_BYTES_MAX))
		drop_oldest(h, h->n < 64 ? 1 : 64);
	copy = malloc(len + 1);
	if (!copy || !make_room(h)) {
		free(copy);
		return;
	}
	memcpy(copy, code, len);
	copy[len] = '\0';
	h->cells[h->n++] = (struct history_cell){ .number = number, .len = len, .code = copy };
	h->bytes += len;
}

void history_free(struct history *h)
{
	drop_oldest(h, h->n);
	free(h->cells);
	*h = (struct history){ 0 };
}

static json_t *row(const struct history_cell *cell, bool output)
{
	json_t *code = json_stringn(cell->code, cell->len);

	return output ? json_pack("[i, i, [o, n]]", 0, cell->number, code)
		      : json_pack("[i, i, o]", 0, cell->number, code);
}

static json_int_t whole(const json_t *content, const char *name, json_int_t absent)
{
	const json_t *j = json_object_get(content, name);

	return json_is_integer(j) ? json_integer_value(j) : absent;
}

/* Again further on: only the last of the same text counts. */
static bool comes_again(const struct history *h, size_t i)
{
	size_t j;

	for (j = i + 1; j < h->n; j++) {
		if (h->cells[j].len == h->cells[i].len && !strcmp(h->cells[j].code, h->cells[i].code))
			return true;
	}
	return false;
}

static bool is_wanted(const struct history *h, size_t i, const json_t *content, const char *how)
{
	const char *pattern = json_string_value(json_object_get(content, "pattern"));
	const struct history_cell *cell = &h->cells[i];

	if (!strcmp(how, "range"))
		return whole(content, "session", 0) == 0 && cell->number >= whole(content, "start", 0) &&
		       cell->number < whole(content, "stop", HISTORY_CELLS_MAX + (json_int_t)cell->number);
	if (!strcmp(how, "search"))
		return fnmatch(pattern ? pattern : "*", cell->code, FNM_NOESCAPE) == 0 &&
		       !(json_is_true(json_object_get(content, "unique")) && comes_again(h, i));
	return !strcmp(how, "tail");
}

json_t *history_reply(const struct history *h, const json_t *content)
{
	const char *how = json_string_value(json_object_get(content, "hist_access_type"));
	bool output = json_is_true(json_object_get(content, "output"));
	json_int_t left = whole(content, "n", HISTORY_CELLS_MAX);
	json_t *rows = json_array();
	size_t i;

	if (!how)
		how = "tail";
	if (!strcmp(how, "range"))
		left = HISTORY_CELLS_MAX;
	for (i = h->n; i-- > 0 && left > 0;) {
		if (!is_wanted(h, i, content, how))
			continue;
		json_array_insert_new(rows, 0, row(&h->cells[i], output));
		left--;
	}
	return json_pack("{s:s, s:o}", "status", "ok", "history", rows);
}
