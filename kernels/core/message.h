/* Headers of the messages a kernel sends, and the parents they name. */
#ifndef CARREL_MESSAGE_H
#define CARREL_MESSAGE_H

#include <stdatomic.h>
#include <stddef.h>
#include "core/wire.h"

#define MESSAGE_VERSION "5.5"

enum {
	MESSAGE_HEADER_MAX = 320,
	MESSAGE_TYPE_MAX = 64,
	MESSAGE_DATE_MAX = 40,
};

/* The sender of all messages of one kernel process. Shared by its threads. */
struct session {
	char id[33];
	atomic_ulong count;
};

/* A fresh random id. -errno when the system has no randomness. */
int session_init(struct session *s);
/* The time now, as headers have it. */
void message_date(char out[MESSAGE_DATE_MAX]);
/* Write a header with an id no other message of the session has.
 * type is at most MESSAGE_TYPE_MAX bytes. Returns its length. */
size_t session_header(struct session *s, const char *type, char out[MESSAGE_HEADER_MAX]);

/* The header of a request, byte for byte, kept for the parent_header of all it
 * causes. Shared and counted; never changed. */
struct parent {
	atomic_int refs;
	size_t len;
	char json[];
};

struct parent *parent_new(const void *json, size_t len);
struct parent *parent_ref(struct parent *p);
void parent_unref(struct parent *p);
/* "{}" for NULL. */
struct slice parent_slice(const struct parent *p);

#endif
