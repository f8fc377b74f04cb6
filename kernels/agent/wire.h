/* A Jupyter message as its parts (header, parent_header, metadata, content,
 * buffers…), and as the payload of a channel's 'J' frame:
 *
 *   u8 channel | u32le n | n times { u32le length | bytes }
 *
 * Parts are borrowed from the buffer they came in. Nothing here parses JSON:
 * fields of a header are found by a scan, which is all that keeping and
 * dropping needs and cheap in a slow guest.
 */
#ifndef CARREL_AGENT_WIRE_H
#define CARREL_AGENT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link/limits.h"

enum wire_channel { WIRE_SHELL, WIRE_CONTROL, WIRE_STDIN, WIRE_IOPUB, WIRE_CHANNELS };

enum { WIRE_HEADER, WIRE_PARENT, WIRE_METADATA, WIRE_CONTENT, WIRE_SIGNED };

struct wire_part {
	const uint8_t *bytes;
	size_t len;
};

struct wire_message {
	unsigned n; /* WIRE_SIGNED to JUPYTER_PARTS_MAX */
	struct wire_part part[JUPYTER_PARTS_MAX];
};

/* Returns 0 or -EPROTO. */
int wire_decode(const uint8_t *payload, size_t len, enum wire_channel *ret_channel, struct wire_message *ret);
size_t wire_size(const struct wire_message *m);
/* out has room for wire_size(). */
void wire_encode(enum wire_channel channel, const struct wire_message *m, uint8_t *out);

/* Little-endian, unaligned. */
uint32_t wire_u32(const uint8_t *at);

struct wire_part wire_text(const char *text);
/* The value of a string member, raw; len 0 when there is none. */
struct wire_part wire_field(struct wire_part json, const char *name);
bool wire_is(struct wire_part value, const char *text);
bool wire_contains(struct wire_part json, const char *text);

#endif
