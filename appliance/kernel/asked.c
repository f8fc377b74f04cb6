#include "bridge.h"

#include <stdlib.h>
#include <string.h>

static void asked_free(struct bridge_asked *a)
{
	local_idents_free(&a->idents);
	free(a->msg_id);
	free(a->bytes);
	free(a);
}

struct bridge_asked **asked_find(struct bridge *b, const char *msg_id)
{
	struct bridge_asked **at = &b->asked;

	while (*at && strcmp((*at)->msg_id, msg_id) != 0)
		at = &(*at)->next;
	return at;
}

void asked_done(struct bridge *b, struct bridge_asked **at)
{
	struct bridge_asked *a = *at;

	*at = a->next;
	if (!a->next)
		b->asked_last = at;
	b->asked_count--;
	asked_free(a);
}

static bool parts_copy(struct bridge_asked *a, const struct v1_part *part)
{
	size_t size = 1, i;
	char *at;

	for (i = 0; i < V1_PARTS_MIN; i++)
		size += part[i].len;
	at = a->bytes = malloc(size);
	if (!at)
		return false;
	for (i = 0; i < V1_PARTS_MIN; i++) {
		if (part[i].len > 0)
			memcpy(at, part[i].bytes, part[i].len);
		a->part[i] = (struct v1_part){ .bytes = at, .len = part[i].len };
		at += part[i].len;
	}
	a->header = a->bytes;
	a->header_len = part[0].len;
	return true;
}

struct bridge_asked *asked_add(struct bridge *b, const struct local_message *m)
{
	struct bridge_asked *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->channel = m->channel;
	a->execute = strcmp(m->msg_type, "execute_request") == 0;
	a->msg_id = strdup(m->msg_id);
	if (!a->msg_id || !parts_copy(a, m->part) ||
	    local_idents_copy(m->idents, m->n_idents, &a->idents) < 0) {
		asked_free(a);
		return NULL;
	}
	if (b->asked_count == BRIDGE_ASKED_MAX)
		asked_done(b, &b->asked);
	*b->asked_last = a;
	b->asked_last = &a->next;
	b->asked_count++;
	return a;
}
