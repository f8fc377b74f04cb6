#include "asked.h"

#include <stdlib.h>
#include <string.h>

static void one_free(struct asked *a)
{
	local_idents_free(&a->idents);
	free(a->msg_id);
	free(a->bytes);
	free(a);
}

struct asked **asked_find(struct asked_list *l, const char *msg_id)
{
	struct asked **at = &l->first;

	while (*at && strcmp((*at)->msg_id, msg_id) != 0)
		at = &(*at)->next;
	return at;
}

void asked_done(struct asked_list *l, struct asked **at)
{
	struct asked *a = *at;

	*at = a->next;
	if (!a->next)
		l->last = at;
	l->count--;
	one_free(a);
}

void asked_free(struct asked_list *l)
{
	while (l->first)
		asked_done(l, &l->first);
}

static bool parts_copy(struct asked *a, const struct v1_part *part)
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
	return true;
}

struct asked *asked_add(struct asked_list *l, const struct local_message *m)
{
	struct asked *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->channel = m->channel;
	a->execute = strcmp(m->msg_type, "execute_request") == 0;
	a->msg_id = strdup(m->msg_id);
	if (!a->msg_id || !parts_copy(a, m->part) ||
	    local_idents_copy(m->idents, m->n_idents, &a->idents) < 0) {
		one_free(a);
		return NULL;
	}
	if (l->count == ASKED_MAX)
		asked_done(l, &l->first);
	if (!l->last)
		l->last = &l->first;
	*l->last = a;
	l->last = &a->next;
	l->count++;
	return a;
}
