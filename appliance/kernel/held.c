#include "held.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/sock.h"

struct held_message {
	struct held_message *next;
	uint64_t until_ms;
	struct slice parent;
	size_t n;
	struct slice frame[WIRE_FRAMES_MAX];
	char bytes[];
};

static struct slice put(char **at, struct slice what)
{
	struct slice copy = { *at, what.len };

	if (what.len > 0)
		memcpy(*at, what.data, what.len);
	*at += what.len;
	return copy;
}

static void drop(struct held *h, struct held_message **at)
{
	struct held_message *m = *at;

	*at = m->next;
	h->count--;
	free(m);
}

int held_add(struct held *h, const struct wire_packed *message, struct slice parent, uint64_t now_ms)
{
	struct held_message **at = &h->first, *m;
	size_t size = parent.len, i;
	char *bytes;

	for (i = 0; i < message->n; i++)
		size += message->frame[i].len;
	m = calloc(1, sizeof(*m) + size);
	if (!m)
		return -ENOMEM;
	bytes = m->bytes;
	m->until_ms = now_ms + HELD_MS;
	m->parent = put(&bytes, parent);
	for (i = 0; i < message->n; i++)
		m->frame[m->n++] = put(&bytes, message->frame[i]);
	if (h->count == HELD_MAX)
		drop(h, &h->first);
	while (*at)
		at = &(*at)->next;
	*at = m;
	h->count++;
	return 0;
}

void held_send(struct held *h, void *sock, uint64_t now_ms)
{
	struct held_message **at = &h->first;

	while (*at) {
		struct held_message *m = *at;
		int err = sock_send(sock, m->frame, m->n);

		if (err == -EHOSTUNREACH && now_ms < m->until_ms) {
			at = &m->next;
			continue;
		}
		if (err)
			fprintf(stderr, "carrel kernel: a question for the client was dropped: %s\n",
				err == -EHOSTUNREACH ? "it has connected no stdin socket" : zmq_strerror(-err));
		drop(h, at);
	}
}

void held_drop(struct held *h, struct slice parent)
{
	struct held_message **at = &h->first;

	while (*at) {
		const struct slice *p = &(*at)->parent;

		if (p->len == parent.len && memcmp(p->data, parent.data, p->len) == 0)
			drop(h, at);
		else
			at = &(*at)->next;
	}
}

void held_free(struct held *h)
{
	while (h->first)
		drop(h, &h->first);
}
