/* The event stream of one execution or process: NDJSON lines of ASCII-only JSON,
 * numbered from 1, none longer than XLOG_LINE_MAX.
 *
 * Lines gather in .lines until the owner hands them on; .bytes counts all that
 * was ever written, so it is the length of the log that goes with a row.
 */
#ifndef CARREL_EVENTS_H
#define CARREL_EVENTS_H

#include <jansson.h>
#include <stdint.h>

#include "../store/xlog.h"
#include "buf.h"

enum {
	/* Bytes of text in one event: six bytes of JSON for one of text at worst
	 * (\u0001), so a line of text always fits XLOG_LINE_MAX. */
	EVENT_TEXT_MAX = 128 * 1024,
	/* Characters of an error's value, and of one traceback line. */
	EVENT_ERROR_MAX = 32 * 1024,
};

struct events {
	struct buf lines;
	uint64_t seq;   /* of the last event written */
	uint64_t bytes; /* written in all */
};

/* fields is an object, taken over; it follows type and seq on the line.
 * -EMSGSIZE: the line would be too long, nothing was written. */
int events_add(struct events *e, const char *type, json_t *fields);
/* Text of any length as one or more events, split between characters. */
void events_text(struct events *e, const char *type, const char *text, size_t len);
/* result or display. What does not fit a line is left out and named:
 * "truncated":true,"omitted":[mime…],"full":URL (NULL: without). data is borrowed, fields taken over. */
void events_bundle(struct events *e, const char *type, json_t *data, json_t *fields, const char *full_url);
/* error{name,value,traceback}, cut where a part is longer than EVENT_ERROR_MAX. */
void events_error(struct events *e, const char *name, const char *value, size_t value_len, json_t *traceback);
/* The gathered lines are used up. */
void events_taken(struct events *e);
void events_free(struct events *e);

/* {"name","value","traceback"} as events and rows show it; a new reference. */
json_t *error_fields(const char *name, const char *value, size_t value_len, json_t *traceback);

#endif
