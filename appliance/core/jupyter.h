/* Jupyter messages at the host's end of a kernel's channel: the payload of a 'J'
 * frame (kernels/agent/PROTOCOL.md) to a checked message, and requests to payloads.
 *
 * The bytes come from inside a sandbox and are hostile: every length, count,
 * depth and type is checked here, so that the rest of the core sees only what
 * this header promises. No I/O, no state.
 */
#ifndef CARREL_JUPYTER_H
#define CARREL_JUPYTER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../jupyter/v1_frame.h"
#include "buf.h"

enum {
	/* JSON values in one message: jansson turns 3 bytes of "[]," into 100, so
	 * the frame's size alone does not bound the memory. A table of a hundred
	 * thousand rows as application/json still passes. */
	JUPYTER_VALUES_MAX = 1024 * 1024,
	JUPYTER_DEPTH_MAX = 128,     /* nesting; parsing and dumping recurse */
	JUPYTER_ID_MAX = 128,        /* msg_id of requests; clients use 36 to 60 characters */
	JUPYTER_MIMES_MAX = 32,      /* types of one bundle */
	JUPYTER_MIME_NAME_MAX = 127, /* RFC 6838 */
	JUPYTER_TRACEBACK_MAX = 256, /* lines of one traceback */
};

enum jupyter_channel { JUPYTER_SHELL, JUPYTER_CONTROL, JUPYTER_STDIN, JUPYTER_IOPUB, JUPYTER_CHANNELS };

enum jupyter_type {
	JUPYTER_OTHER, /* well-formed, of no interest here */
	JUPYTER_STATUS,
	JUPYTER_EXECUTE_INPUT,
	JUPYTER_STREAM,
	JUPYTER_DISPLAY,
	JUPYTER_UPDATE_DISPLAY,
	JUPYTER_RESULT,
	JUPYTER_ERROR,
	JUPYTER_CLEAR_OUTPUT,
	JUPYTER_EXECUTE_REPLY,
	JUPYTER_REPLY, /* any other *_reply */
};

struct jupyter_msg {
	enum jupyter_channel channel;
	enum jupyter_type type;
	char parent_id[JUPYTER_ID_MAX]; /* "" when there is none or it is too long to be ours */
	json_t *content;                /* an object, with the members of its type checked as below; NULL where .stream is not */
	char *stream;                   /* its text, where that was not the library's to read; see json_text.h */
	/* STATUS: .text = execution_state; STREAM: .text, .len, .is_stderr;
	 * ERROR: .name, .text/.len = evalue, .traceback (array of strings);
	 * EXECUTE_REPLY: .text = status, .name = ename or "";
	 * DISPLAY, UPDATE_DISPLAY, RESULT: .data (object, valid mime names), .name = display_id or "". */
	const char *text, *name;
	size_t len;
	bool is_stderr, wait;
	int64_t execution_count;  /* EXECUTE_INPUT, EXECUTE_REPLY, RESULT; -1: none */
	json_t *data, *traceback; /* borrowed from content */
};

/* 0; -EPROTO when the frame's own layout is broken (the agent's fault);
 * -EBADMSG when what the kernel said is not the protocol; -ENOMEM. */
int jupyter_parse(const uint8_t *payload, size_t len, struct jupyter_msg *ret);
void jupyter_msg_free(struct jupyter_msg *m);

/* The payload of a request; out of memory shows in b->failed. content is borrowed. */
void jupyter_request(struct buf *b, enum jupyter_channel channel, const char *msg_id, const char *session,
		     const char *msg_type, json_t *content);
/* The payload of any message; parent may be NULL. */
void jupyter_message(struct buf *b, enum jupyter_channel channel, const char *msg_id, const char *session,
		     const char *msg_type, json_t *parent, json_t *content);
/* The payload of an execute_request of a client: its header and metadata as they came. */
void jupyter_asked(struct buf *b, json_t *header, json_t *metadata, json_t *content);
/* A payload of parts as they are, and the parts of one that was checked before: their number. */
void jupyter_payload(struct buf *b, enum jupyter_channel channel, const struct v1_part *part, size_t parts);
size_t jupyter_parts(const uint8_t *payload, size_t len, struct v1_part part[V1_PARTS_MAX]);
/* "shell", …; and back: a name that is none is -EINVAL, "" is the shell's. */
const char *jupyter_channel_name(unsigned channel);
int jupyter_channel_number(const char *name, enum jupyter_channel *ret);
/* The content of an execute_request. */
json_t *jupyter_execute_content(const char *code, bool silent);

/* Bounded parse of foreign JSON: values and depth are counted before jansson allocates. NULL: not JSON or too
 * much. */
json_t *json_parse_bounded(const char *bytes, size_t len, size_t values_max, unsigned depth_max);

#endif
