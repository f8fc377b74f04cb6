/* One request of a client: what it says, who is told, which channel it came by. */
#ifndef CARREL_REQUEST_H
#define CARREL_REQUEST_H

#include <stdbool.h>
#include <jansson.h>
#include "core/connection.h"
#include "core/message.h"
#include "core/sock.h"

struct request {
	struct request *next;
	enum connection_channel channel;
	struct frames frames;
	struct wire_view view;
	struct parent *parent;
	json_t *header;
	json_t *content; /* always an object */
	const char *type;
	/* Why content could not be read: answered, not executed. */
	char malformed[JSON_ERROR_TEXT_LENGTH];
	/* Queued behind an execution that failed. */
	bool aborted;
	/* For a subshell that does not exist. */
	bool lost;
	/* When it was begun: the metadata of its reply. Empty: nothing is told. */
	char started[MESSAGE_DATE_MAX];
};

/* Takes over the frames, also on failure. JSON that only a strict reader
 * refuses (lone surrogates, bytes that are not UTF-8, huge numbers) is repaired.
 * -EBADMSG, -EACCES, -E2BIG, -EIO, -ENOMEM. */
int request_parse(struct wire_signer *s, enum connection_channel channel, struct frames *frames, struct request **ret);
void request_free(struct request *r);

/* A member of content, or the default when it is absent or of another type. */
bool request_bool(const struct request *r, const char *name, bool absent);

#endif
