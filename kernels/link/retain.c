#include "retain.h"

#include <stdlib.h>
#include <string.h>

static size_t retained_cost(const struct retained *n)
{
	return sizeof(*n) + (n->frames ? 0 : n->bytes);
}

struct retained *retain_append(struct retain *r, uint64_t seq, uint8_t type, bool keep, const void *payload,
			       size_t len)
{
	struct retained *n = malloc(sizeof(*n) + len);

	if (!n)
		return NULL;
	*n = (struct retained){ .seq = seq, .bytes = len, .type = type, .keep = keep };
	if (len)
		memcpy(retained_payload(n), payload, len);
	(r->last ? r->last : &r->root)->next = n;
	r->last = n;
	r->bytes += retained_cost(n);
	return n;
}

static void retain_pop(struct retain *r)
{
	struct retained *n = r->root.next;

	r->root.next = n->next;
	if (!n->next)
		r->last = NULL;
	if (r->trimmed == n)
		r->trimmed = NULL;
	r->bytes -= retained_cost(n);
	free(n);
}

void retain_ack(struct retain *r, uint64_t seq)
{
	while (r->root.next && r->root.next->seq <= seq)
		retain_pop(r);
}

/* The last node of the oldest half; the root when the first alone is more. */
static struct retained *retain_middle(struct retain *r, size_t half)
{
	struct retained *at = &r->root;
	size_t sum = 0;

	while (at->next && sum + retained_cost(at->next) <= half) {
		at = at->next;
		sum += retained_cost(at);
	}
	return at;
}

/* Drops the frame behind prev: into prev when that is a gap the peer cannot
 * have seen, else into a gap of its own. */
static void retain_drop(struct retain *r, struct retained *prev, uint64_t sent)
{
	struct retained *n = prev->next, *gap;

	r->bytes -= retained_cost(n);
	if (prev->frames && retained_first(prev) > sent && prev->seq + 1 == n->seq) {
		prev->seq = n->seq;
		prev->frames++;
		prev->bytes += n->bytes;
		prev->next = n->next;
		if (r->last == n)
			r->last = prev;
		free(n);
		return;
	}
	n->frames = 1;
	gap = realloc(n, sizeof(*n));
	if (!gap)
		gap = n; /* shrinking failed: the larger block serves */
	prev->next = gap;
	if (!gap->next)
		r->last = gap;
	r->bytes += retained_cost(gap);
}

void retain_trim(struct retain *r, size_t max, uint64_t sent)
{
	if (r->bytes <= max)
		return;
	if (!r->trimmed)
		r->trimmed = retain_middle(r, max / 2);
	while (r->bytes > max && r->trimmed->next) {
		const struct retained *n = r->trimmed->next;

		if (n->keep || n->frames)
			r->trimmed = r->trimmed->next;
		else
			retain_drop(r, r->trimmed, sent);
	}
}

void retain_untrim(struct retain *r)
{
	r->trimmed = NULL;
}

void retain_renumber(struct retain *r, uint64_t from, uint64_t by)
{
	for (struct retained *n = r->root.next; n; n = n->next)
		if (n->seq > from)
			n->seq += by;
}

struct retained *retain_after(const struct retain *r, uint64_t seq)
{
	struct retained *n = r->root.next;

	while (n && n->seq <= seq)
		n = n->next;
	return n;
}

void retain_free(struct retain *r)
{
	while (r->root.next)
		retain_pop(r);
}
