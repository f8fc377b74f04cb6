/* A channel of the agent as the host sees it: collects frames of each type. */
#ifndef CARREL_TESTS_AGENT_CHANNEL_H
#define CARREL_TESTS_AGENT_CHANNEL_H

#include "agent_client.h"

struct tap {
	struct client *c;
	struct channel *channel;
	uint8_t *bytes[128]; /* of each type */
	size_t len[128], room[128];
	unsigned frames[128];
	uint64_t gap_bytes;
	bool no_ack, seen;
	uint8_t wanted; /* seen is set by a frame of this type */
	int status;
	void (*each)(struct tap *t, uint8_t type, uint64_t seq, const uint8_t *payload, size_t len);
	void *arg;
};

static inline void tap_frame(struct channel *ch, uint8_t type, uint64_t seq, const uint8_t *payload,
			     size_t len, void *arg)
{
	struct tap *t = arg;

	CHECK(type < 128);
	if (t->len[type] + len + 1 > t->room[type]) {
		t->room[type] = 2 * (t->len[type] + len + 1);
		t->bytes[type] = realloc(t->bytes[type], t->room[type]);
	}
	memcpy(t->bytes[type] + t->len[type], payload, len);
	t->len[type] += len;
	t->bytes[type][t->len[type]] = '\0';
	t->frames[type]++;
	if (type == t->wanted)
		t->seen = true;
	if (t->each)
		t->each(t, type, seq, payload, len);
	if (!t->no_ack)
		channel_ack(ch, seq);
}

static inline void tap_gap(struct channel *ch, uint64_t first, uint64_t last, uint64_t frames, uint64_t bytes,
			   void *arg)
{
	(void)first, (void)frames;
	((struct tap *)arg)->gap_bytes += bytes;
	channel_ack(ch, last);
}

static inline void tap_detached(struct channel *ch, int err, int status, void *arg)
{
	(void)ch, (void)err;
	((struct tap *)arg)->status = status;
}

static const struct channel_ops tap_ops = { .frame = tap_frame, .gap = tap_gap, .detached = tap_detached };

static inline void tap_attach(struct tap *t, const char *path)
{
	CHECK_INT(channel_connect(t->channel, t->c->link, path), 0);
}

static inline void tap_open(struct tap *t, struct client *c, const char *path)
{
	*t = (struct tap){ .c = c };
	t->channel = channel_new(CHANNEL_REFUSE, &tap_ops, t);
	tap_attach(t, path);
}

/* Runs until a frame of this type has come (from now on). */
static inline void tap_wait(struct tap *t, uint8_t type)
{
	t->wanted = type;
	t->seen = false;
	client_wait(t->c, &t->seen);
}

static inline const char *tap_text(const struct tap *t, uint8_t type)
{
	return t->bytes[type] ? (const char *)t->bytes[type] : "";
}

static inline void tap_forget(struct tap *t, uint8_t type)
{
	free(t->bytes[type]);
	t->bytes[type] = NULL;
	t->len[type] = t->room[type] = 0;
	t->frames[type] = 0;
}

static inline void tap_close(struct tap *t)
{
	int type;

	channel_free(t->channel);
	for (type = 0; type < 128; type++)
		free(t->bytes[type]);
}

#endif
