/* What jupyter.c (messages) and jupyter_socket.c (their sockets) share. */
#ifndef CARREL_AGENT_JUPYTER_INNER_H
#define CARREL_AGENT_JUPYTER_INNER_H

#include <zmq.h>

#include "jupyter.h"
#include "sign.h"

enum {
	/* Hex digits of a session, which is the sockets' identity, too. */
	SESSION_DIGITS = 32,
};

/* One socket with its monitor; both are read when their descriptors say so. */
struct jupyter_socket {
	struct jupyter *j;
	enum wire_channel ch;
	void *zmq, *monitor;
	uv_poll_t *poll, *monitor_poll;
	bool connected; /* the other end lives, as far as the monitor said */
	bool blocked;   /* a send was refused */
	bool look;      /* it may hold a message */
	bool deaf;      /* poll is stopped: what came cannot be taken yet */
};

struct jupyter {
	const struct jupyter_ops *ops;
	void *arg;
	uv_loop_t *loop;
	uv_idle_t *again;                      /* goes on where a turn ended */
	struct signer *signer;                 /* NULL: no key */
	char session[SESSION_DIGITS + 1];
	uint64_t last;
	struct wire_part topic;
	bool closed, in_turn;
	struct jupyter_socket socket[WIRE_CHANNELS];
};

/* Connects the socket of ch to address-port. What an error left is for jupyter_socket_close(). */
int jupyter_socket_open(struct jupyter *j, enum wire_channel ch, const char *address, int port);
void jupyter_socket_close(struct jupyter_socket *s);
/* Reads the sockets that are to be looked at. */
void jupyter_turn(struct jupyter *j);
/* False: nothing is to be taken from it before jupyter_kick(). */
bool jupyter_may_read(const struct jupyter_socket *s);
/* Listens again where it was deaf. */
void jupyter_socket_listen(struct jupyter_socket *s);
/* Takes what the monitor has to say. True when the other end went away. */
bool jupyter_socket_look(struct jupyter_socket *s);

#endif
