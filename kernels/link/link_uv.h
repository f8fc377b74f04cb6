/* Binds a link to a descriptor in a libuv loop: the virtio port in a guest, a
 * unix socket on the host. Owns the descriptor. Reading and writing never block;
 * EAGAIN and EOF on a virtio port (no peer yet) are waited out, EOF on a socket
 * ends the binding through lost(). */
#ifndef CARREL_LINK_UV_H
#define CARREL_LINK_UV_H

#include <uv.h>

#include "link.h"

struct link_uv;

enum link_uv_kind { LINK_UV_SOCKET, LINK_UV_PORT };

/* fd is taken over, also on failure. lost() may be NULL; it is told a negative
 * errno when the descriptor is of no more use, and link_uv_close() is then due;
 * the session was dropped before, and the link goes on over the next binding. It
 * may free the link after link_uv_close(). Ticks the link itself. */
int link_uv_open(uv_loop_t *loop, struct link *l, int fd, enum link_uv_kind kind,
		 void (*lost)(struct link_uv *b, int err, void *arg), void *arg, struct link_uv **ret);
/* The link's want_write must call this. */
void link_uv_kick(struct link_uv *b);
/* Closes the descriptor; the link itself stays. Memory goes when the loop is done with it. Accepts NULL. */
void link_uv_close(struct link_uv *b);

#endif
