/* What the files of a client share. */
#ifndef CARREL_CLIENT_INNER_H
#define CARREL_CLIENT_INNER_H

#include "client.h"
#include "execution.h"
#include "kernel.h"

enum {
	/* Between a client's coming and the last of what it asks again: a moment. */
	CLIENT_ENDED = 16,
};

/* A message kept for a client. */
struct client_item {
	struct client_item *next;
	struct client_msg *msg;
};

/* What a client has of a cell's outputs: bytes of text, and how many others. */
struct client_again {
	uint64_t text, other;
};

/* What ran when a client came, what that had said by then, and cells of the client that ended since: what
 * was said from then on it was told. */
struct client_joined {
	char id[STORE_ID_MAX];
	uint64_t seq;
	char ended[CLIENT_ENDED][STORE_ID_MAX];
	unsigned ended_count;
};

/* A message from a client, copied whole. */
struct client_in {
	struct client_in *next;
	enum jupyter_channel channel;
	uint64_t number; /* among those from the client */
	json_t *header;
	bool is_again; /* asked before a restart of carreld */
	struct client_again again;
	struct v1_part part[V1_PARTS_MAX];
	size_t parts;
	char bytes[];
};

struct client {
	struct client *next;
	struct kernel *kernel; /* NULL: forgotten, freed once no job is under way */
	char session[CLIENT_SESSION_MAX];
	char key_id[STORE_ID_MAX]; /* or "" */
	const struct client_ops *ops; /* NULL: no connection */
	void *arg;
	bool resumes;
	bool out_of_grace; /* the kernel waits for it no longer */
	/* first is number `acked` + 1; unwritten is number `written` + 1, or NULL. */
	struct client_item *first, **last, *unwritten;
	uint64_t acked, written, numbered;
	size_t bytes; /* of what is kept */
	uint64_t count;
	/* Cells of this Jupyter session up to that message are not to run. */
	uint64_t stopped;
	char stopped_session[CLIENT_SESSION_MAX];
	struct client_joined joined;
	struct client_in *intake, **intake_last;
	unsigned intake_count;
	bool working; /* in client_work.c, or a job of it is under way */
	bool unread;  /* it was told that it is read no further */
	struct hub_timer *timer;
};

/* A request of a client on its way through the kernel. */
struct client_request {
	struct client_request *next;
	char session[CLIENT_SESSION_MAX]; /* the client's */
	char msg_id[JUPYTER_ID_MAX];
	char msg_type[64];
	enum jupyter_channel channel;
	json_t *header;
	uint64_t behind; /* not before executions that came earlier: kernel.entered */
	uint64_t seq;    /* once it was sent */
	bool replied, idle;
	size_t len;
	uint8_t payload[];
};

struct client *client_find(const struct kernel *k, const char *session);
void client_forget(struct client *c, enum client_end why);
/* Freed once nothing refers to it. */
void client_check_free(struct client *c);
/* Adds a message for one client (it may be forgotten by that: too slow). */
void client_give(struct client *c, struct client_msg *m);
void clients_give(struct kernel *k, struct client_msg *m);
/* Goes on with what came in. */
void client_work(struct client *c);
void client_in_free(struct client_in *in);

/* client_again.c: {"carrel_again":{"text":N,"other":N}} in a request's metadata. */
bool client_again_read(const struct v1_part *metadata, struct client_again *ret);
/* The execution that it became, while it waits or runs. */
struct execution *client_again_find(const struct kernel *k, const char *msg_id, const char *session);
/* On a pool thread: [[msg_type, content]] of what the execution said before the client came and the client
 * lacks; live: it waits or runs. */
json_t *client_again_messages(struct core *c, const char *owner, const char *id, bool live,
			      const struct client_again *have, const struct client_joined *joined);
/* row: of one that has ended, else NULL. */
void client_again_say(struct client *c, json_t *header, json_t *messages, json_t *row);

/* client_request.c: takes the message over. */
void client_pass(struct client *c, struct client_in *in);
void client_request_free(struct client_request *r);

/* client_say.c: messages that carreld says for a kernel; parent is a header or NULL, content's reference is
 * taken. session NULL: to all, on iopub. */
void client_say(struct kernel *k, const char *session, enum jupyter_channel channel, const char *msg_type,
		json_t *parent, json_t *content);
void client_say_state(struct kernel *k, json_t *parent, const char *state);
/* That a cell is not run: "aborted" between busy and idle. */
void client_say_aborted(struct kernel *k, const char *session, json_t *header);
/* An error reply to a request that no kernel will answer: busy before it when told to, idle behind it. */
void client_say_refusal(struct kernel *k, const char *session, enum jupyter_channel channel, json_t *header,
			const char *ename, const char *evalue, bool busy);
/* "exit code 3", "SIGSEGV (out-of-memory)" */
void client_death_words(char *ret, size_t size, int exit_code, const char *signal, const char *reason);

#endif
