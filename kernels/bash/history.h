/* The cells that were counted, for history_request. In memory, for this kernel. */
#ifndef CARREL_BASH_HISTORY_H
#define CARREL_BASH_HISTORY_H

#include <jansson.h>
#include <stddef.h>

enum {
	/* Cells, and bytes of their text; the oldest go first. */
	HISTORY_CELLS_MAX = 10000,
	HISTORY_BYTES_MAX = 8 * 1024 * 1024,
};

struct history_cell {
	int number;
	size_t len;
	char *code;
};

struct history {
	struct history_cell *cells;
	size_t n, cap, bytes;
};

/* Nothing is kept when memory is out. */
void history_add(struct history *h, int number, const char *code, size_t len);
/* The content of the reply to a history_request with that content. */
json_t *history_reply(const struct history *h, const json_t *content);
void history_free(struct history *h);

#endif
