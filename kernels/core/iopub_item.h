/* Inside of iopub: what its queue holds, shared by iopub.c and iopub_thread.c. */
#ifndef CARREL_IOPUB_ITEM_H
#define CARREL_IOPUB_ITEM_H

#include "core/iopub.h"

enum item_kind { ITEM_MESSAGE, ITEM_TEXT };

struct iopub_item {
	struct iopub_item *next;
	enum item_kind kind;
	char type[MESSAGE_TYPE_MAX];
	struct parent *parent;
	struct buf content; /* ITEM_TEXT: without its end */
	char *metadata;
	struct iopub_buffer *buffers;
	size_t n_buffers;
	size_t bytes; /* counted in iopub.queued */
	int stream;
	size_t text;  /* bytes of text before escapes */
	uint64_t end; /* of its record in unsent; 0: none */
};

extern const char *const iopub_stream_names[2];

void iopub_item_free(struct iopub_item *item);
struct slice iopub_item_metadata(const struct iopub_item *item);
/* Send what is queued from the caller's thread, which holds sock_lock and gives
 * it back here. What finds no room is left to the thread. */
void iopub_send_here(struct iopub *io);
/* The other threads' way to say that something is queued; io->lock is held. */
void iopub_wake_locked(struct iopub *io);
/* The thread: send, read the capture, until iopub_stop(). arg: struct iopub. */
void *iopub_main(void *arg);

#endif
