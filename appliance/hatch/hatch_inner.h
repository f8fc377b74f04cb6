/* What the files of the hatch share. Hub thread only. */
#ifndef CARREL_HATCH_INNER_H
#define CARREL_HATCH_INNER_H

#include "../core/client.h"
#include "../core/hub.h"
#include "../core/kernel.h"
#include "../local/asked.h"
#include "hatch.h"

enum {
	HATCH_KEY_BYTES = 32,
	HATCH_PATH_MAX = 512,
	/* What a socket's path (sun_path) leaves once the socket's own name is off. */
	HATCH_FOLDER_MAX = 107 - 4,
};

struct hatches {
	struct core *core;
	const char *shown; /* the directory of the sockets as local clients see it */
	char folder[300]; /* the same as carreld sees it */
	struct hatch *first;
	unsigned count;
	bool stopping;
	struct hub_call *stop_call;
};

struct hatch {
	struct hatch *next;
	struct hatches *all;
	enum hatch_transport transport;
	char owner[STORE_ID_MAX], kernel_id[STORE_ID_MAX], session[CLIENT_SESSION_MAX];
	char folder[HATCH_PATH_MAX]; /* of its ipc sockets, or "" */
	char shown[HATCH_PATH_MAX];  /* the same for local clients, with the beginning of the names */
	json_t *file;
	struct local *local;
	struct client *client; /* NULL: let go; turn says what becomes of it */
	bool kernel_gone, closing;
	struct asked_list asked;
	/* Output that the sockets do not take, and its number. */
	struct client_msg *waiting;
	uint64_t number;
	struct hub_item turn;
};

/* hatch_talk.c: becomes the kernel's client. 0, -ENOENT, -EAGAIN, -ENOMEM. */
int hatch_join(struct hatch *h);
extern const struct local_ops hatch_local_ops;

/* hatch.c: nobody is served from here on; freed once its sockets are closed. */
void hatch_close(struct hatch *h);
void hatch_free(struct hatch *h);

#endif
