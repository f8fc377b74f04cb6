/* What a kernel has to say and its client may not have yet, in memory that
 * outlives the process: a memfd named UNSENT_NAME, which the agent opens by
 * /proc before any code of the user runs, and reads once the kernel is dead.
 *
 * A ring of records, in the order of iopub's queue:
 *
 *   u32 size of what follows the head | u8 kind | payload
 *
 * The payload of text is u32 length | parent_header | text; of a message it is as
 * in a channel's 'J' frame (agent/wire.h), its type in the header's place. `put` counts the bytes of all
 * records so far. Each message on iopub tells the count up to its own record
 * behind its topic ("stream.stdout@1234"), so that who received it knows from
 * where on nothing came. Statuses have no record: the agent tells the death.
 *
 * The user can write here as into all memory of the kernel: who reads believes
 * no size in it.
 */
#ifndef CARREL_UNSENT_H
#define CARREL_UNSENT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define UNSENT_NAME "carrel-unsent"

enum {
	/* What libzmq may hold for one subscriber (SOCK_XPUB_HWM messages of
	 * IOPUB_TEXT_MAX bytes), and as much in iopub's queue. Memory is taken
	 * only for what was written. */
	UNSENT_RING = 8 * 1024 * 1024,
	/* A larger record has no payload: it would push out all others. */
	UNSENT_RECORD_MAX = UNSENT_RING / 4,
	UNSENT_HEAD = 5,
	/* The beginning of a line that waits for the rest. Writes up to this size
	 * (PIPE_BUF) do not mix with those of other processes. */
	UNSENT_LINE_MAX = 4096,
};

enum unsent_kind { UNSENT_STDOUT, UNSENT_STDERR, UNSENT_MESSAGE };

/* iopub's number in a 'J' frame. */
enum { UNSENT_CHANNEL = 3 };

struct unsent_line {
	uint64_t n;
	char text[UNSENT_LINE_MAX];
};

struct unsent {
	_Atomic uint64_t put;
	struct unsent_line line[2]; /* written after all else of its stream */
	unsigned char ring[UNSENT_RING];
};

struct slice; /* core/wire.h */

/* NULL when the system refuses; errno says why. Lives as long as the process. */
struct unsent *unsent_new(void);
/* Add a record; one writer at a time. u may be NULL. Return the count behind it.
 * part: type, parent, metadata, content, buffers. */
uint64_t unsent_text(struct unsent *u, int stream, struct slice parent, const char *text, size_t len);
uint64_t unsent_message(struct unsent *u, const struct slice *part, size_t n);

#endif
