/* Sending a reply; what shell and control do alike. */
#ifndef CARREL_REPLY_H
#define CARREL_REPLY_H

#include "core/message.h"
#include "core/wire.h"

/* -errno as of wire_pack() and sock_send(). */
int reply_send(void *sock, struct wire_signer *signer, struct session *session, const struct slice *idents,
	       size_t n_idents, const char *type, const struct parent *parent, struct slice content);
/* Words for an error of request_parse() or sock_recv(). */
const char *reply_skip_reason(int err);

#endif
