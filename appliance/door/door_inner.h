/* What the files of the door share. */
#ifndef CARREL_DOOR_INNER_H
#define CARREL_DOOR_INNER_H

#include <libwebsockets.h>

#include "../core/buf.h"
#include "../core/client.h"
#include "../core/kernel.h"
#include "door.h"

enum {
	DOOR_CONNECTIONS_MAX = 1000,
	/* One message from a client: as the link takes it, with room for what is put around. */
	DOOR_MESSAGE_MAX = CHANNEL_FRAME_MAX - 64 * 1024,
	/* Read from a socket at once; lws has one such buffer. */
	DOOR_READ = 64 * 1024,
	/* Messages written in one go, while the socket takes them. */
	DOOR_WRITES = 32,
	/* An acknowledgement goes after so many messages, or with the tick. */
	DOOR_ACK_EVERY = 32,
	DOOR_TICK_MS = 1000,
	DOOR_PING_S = 30,
	DOOR_HANGUP_S = 90,
};

/* Channel of what is between a client that resumes and carreld. */
#define DOOR_CHANNEL "carrel"

struct door {
	struct core *core;
	struct store *store;
	char path[300];
	struct lws_context *context;
	struct lws_vhost *vhost;
	struct connection *connections;
	unsigned count;
	struct hub_timer *tick;
	void *loops[1];
	bool stopping;
};

/* One WebSocket, from its checked upgrade on. */
struct connection {
	struct connection *next;
	struct door *door;
	struct lws *wsi;
	struct client *client; /* NULL before it is established, and once it was let go */
	char owner[STORE_ID_MAX], key_id[STORE_ID_MAX], kernel_id[STORE_ID_MAX], sandbox_id[STORE_ID_MAX];
	char session[CLIENT_SESSION_MAX];
	bool v1, resumes, known, hello_due, ack_due, established, reading;
	uint64_t received; /* what it said it has */
	uint64_t told;     /* what it was told we have */
	struct buf in;
	int close_status; /* to be closed with; 0: not */
};

/* upgrade.c: 0 and *ret, or the HTTP status to refuse with. */
int upgrade_check(struct door *d, struct lws *wsi, struct connection **ret);
void connection_free(struct connection *c);
/* The kernel it is for, or NULL. */
struct kernel *connection_kernel(const struct connection *c);

/* connection.c; false: close. */
bool connection_open(struct connection *c);
bool connection_write(struct connection *c);
bool connection_read(struct connection *c, const void *bytes, size_t len);
void connection_closed(struct connection *c);
/* The peer closes; in: its status and words. */
void connection_goodbye(struct connection *c, const unsigned char *in, size_t len);
void connection_tick(struct connection *c);

/* encode.c: a message as this connection wants it, behind LWS_PRE bytes; NULL: out of memory. */
unsigned char *message_encode(const struct connection *c, const struct client_msg *m, size_t *ret_len,
			      bool *ret_text);
/* From a text message; the strings are the caller's to free by legacy_free(). */
struct legacy_message {
	char channel[V1_CHANNEL_MAX];
	char *text[V1_PARTS_MIN];
	struct v1_part part[V1_PARTS_MIN];
};
int legacy_parse(const char *bytes, size_t len, struct legacy_message *ret);
void legacy_free(struct legacy_message *m);

#endif
