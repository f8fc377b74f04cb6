#include "held.h"

#include <stdlib.h>
#include <string.h>

struct held_message {
	struct held_message *next;
	uint64_t at;
	size_t n, bytes;
	struct slice frame[]; /* what they point to follows */
};

bool held_add(struct held *h, const struct slice *frame, size_t n, uint64_t at)
{
	struct held_message *m;
	size_t bytes = 0, i;
	char *to;

	for (i = 0; i < n; i++)
		bytes += frame[i].len;
	m = malloc(sizeof(*m) + n * sizeof(m->frame[0]) + bytes);
	if (!m)
		return false;
	*m = (struct held_message){ .at = at, .n = n, .bytes = bytes };
	to = (char *)&m->frame[n];
	for (i = 0; i < n; i++) {
		if (frame[i].len > 0)
			memcpy(to, frame[i].data, frame[i].len);
		m->frame[i] = (struct slice){ to, frame[i].len };
		to += frame[i].len;
	}
	if (!h->last)
		h->last = &h->first;
	*h->last = m;
	h->last = &m->next;
	h->bytes += bytes;
	return true;
}

const struct slice *held_first(const struct held *h, size_t *ret_n, uint64_t *ret_at)
{
	if (!h->first)
		return NULL;
	*ret_n = h->first->n;
	*ret_at = h->first->at;
	return h->first->frame;
}

void held_drop(struct held *h)
{
	struct held_message *m = h->first;

	h->first = m->next;
	if (!h->first)
		h->last = &h->first;
	h->bytes -= m->bytes;
	free(m);
}

void held_free(struct held *h)
{
	while (h->first)
		held_drop(h);
}
