/* What a channel has numbered and its peer has not acknowledged: frames in
 * order of seq, some of them turned into gaps to stay within a bound.
 *
 * A gap is a node like a frame, its seq the last one it stands for. A frame
 * that may have reached the peer becomes a gap of its own: whether it is lost
 * shows only when the peer tells what it received. Zero-initialise.
 */
#ifndef CARREL_LINK_RETAIN_H
#define CARREL_LINK_RETAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct retained {
	struct retained *next;
	uint64_t seq;
	uint64_t frames; /* 0: a frame; else a gap of so many, up to seq */
	uint64_t bytes;  /* of payload; for a gap of what it stands for */
	uint8_t type;
	bool keep;
};

/* The payload stands behind its node. */
static inline uint8_t *retained_payload(struct retained *n)
{
	return (uint8_t *)(n + 1);
}

struct retain {
	struct retained root;     /* its next is the oldest node */
	struct retained *last;    /* NULL: none */
	struct retained *trimmed; /* up to this node nothing is dropped; NULL: not known */
	size_t bytes;             /* memory of all nodes, their heads included */
};

static inline uint64_t retained_first(const struct retained *n)
{
	return n->frames ? n->seq - n->frames + 1 : n->seq;
}

/* Returns the new node, or NULL when out of memory. */
struct retained *retain_append(struct retain *r, uint64_t seq, uint8_t type, bool keep, const void *payload,
			       size_t len);
/* Forgets all up to seq. */
void retain_ack(struct retain *r, uint64_t seq);
/* Turns frames into gaps, from the middle on, until at most max bytes are left
 * or only kept frames and gaps. Frames up to sent may have reached the peer. */
void retain_trim(struct retain *r, size_t max, uint64_t sent);
/* Call when the peer was attached: the next retain_trim() finds the middle anew. */
void retain_untrim(struct retain *r);
/* Adds by to the number of every node above from. */
void retain_renumber(struct retain *r, uint64_t from, uint64_t by);
/* The first node with a seq above it, or NULL. */
struct retained *retain_after(const struct retain *r, uint64_t seq);
void retain_free(struct retain *r);

#endif
