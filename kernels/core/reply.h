/* Sending a reply; what shell and control do alike. */
#ifndef CARREL_REPLY_H
#define CARREL_REPLY_H

#include <stdbool.h>
#include "core/message.h"
#include "core/request.h"
#include "core/wire.h"

enum { REPLY_METADATA_MAX = MESSAGE_DATE_MAX + 16 };

/* -errno as of wire_pack() and sock_send(). */
int reply_send(void *sock, struct wire_signer *signer, struct session *session, const struct request *r,
	       const char *type, struct slice content);
/* The same for a request that is no more. header as of session_header(), metadata: JSON text. */
int reply_send_to(void *sock, struct wire_signer *signer, const struct slice *idents, size_t n_idents,
		  const char *header, const struct parent *parent, const char *metadata, struct slice content);
/* When a request was begun, as JSON text. */
void reply_metadata(const struct request *r, char out[REPLY_METADATA_MAX]);
/* An error of request_parse() or sock_recv() that concerns one message only. */
bool reply_is_skipped(int err);
/* Words for an error of request_parse() or sock_recv(). */
const char *reply_skip_reason(int err);

#endif
