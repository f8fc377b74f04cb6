/* Requests of local clients that wait for their reply: whom the answers go to. */
#ifndef CARREL_ASKED_H
#define CARREL_ASKED_H

#include "local.h"

enum {
	/* A client that sends more than that is broken: the oldest is forgotten. */
	ASKED_MAX = 10000,
};

struct asked {
	struct asked *next;
	char *msg_id;
	enum local_channel channel;
	bool execute;
	struct local_idents idents;
	struct v1_part part[V1_PARTS_MIN]; /* header, parent, metadata, content; no buffers */
	char *bytes;
	/* What came of it: bytes of text, other outputs. */
	uint64_t text, other;
};

struct asked_list {
	struct asked *first, **last; /* last NULL: empty since the start */
	unsigned count;
};

/* NULL: out of memory. */
struct asked *asked_add(struct asked_list *l, const struct local_message *m);
/* *asked_find() is NULL where there is none. */
struct asked **asked_find(struct asked_list *l, const char *msg_id);
void asked_done(struct asked_list *l, struct asked **at);
void asked_free(struct asked_list *l);

#endif
