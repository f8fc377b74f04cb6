/* Descriptors 1 and 2 as pipes: whatever writes to them, Python, C code or a
 * child, becomes stream messages. Reading needs no interpreter's lock.
 *
 * The kernel's own language writes by capture_write(): the pieces of a line stay
 * together, also with other threads and processes writing. What waits for the
 * rest of its line goes out with the next drain at the latest.
 *
 * The iopub thread reads when a pipe is readable; any thread may call
 * capture_drain() to have all that was written so far queued before what it
 * queues next. Text goes to the parent set last (none: it is dropped).
 */
#ifndef CARREL_CAPTURE_H
#define CARREL_CAPTURE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "core/iopub.h"
#include "core/unsent.h"
#include "core/utf8.h"

enum {
	/* Wanted size of a pipe: what a loop of prints writes during one pace.
	 * The system may give less. */
	CAPTURE_PIPE_SIZE = 1024 * 1024,
	/* Bytes of one read, and of the text it appends to the queue at once. */
	CAPTURE_CHUNK = 64 * 1024,
	/* Bytes of one stream that one drain takes: twice a full pipe, so that a
	 * child that never stops writing cannot hold the end of a cell. */
	CAPTURE_DRAIN_MAX = 2 * CAPTURE_PIPE_SIZE,
	/* Milliseconds at least from the first byte to its reading: print() writes a
	 * line in two pieces. */
	CAPTURE_GATHER_MS = 1,
	/* Milliseconds between reads while little comes: bounds messages per second. */
	CAPTURE_PACE_MS = 20,
};

struct capture {
	int read_fd[2];
	/* The write ends, kept so that code which closes 1 or 2 ends nothing. */
	int write_fd[2];
	struct iopub *iopub;
	pthread_mutex_t lock;
	struct utf8_stream utf8[2];
	_Atomic(struct parent *) parent;
	bool discard;
	char *chunk;
	/* Guarded by line_lock, which nobody holds while writing to a pipe. */
	pthread_mutex_t line_lock;
	struct unsent_line *line;       /* two: own_line, or in memory that outlives the process */
	struct unsent_line own_line[2];
};

/* Make the pipes and put them on descriptors 1 and 2. line: two, NULL for its own. -errno. */
int capture_open(struct capture *c, struct iopub *io, struct unsent_line *line);
void capture_close(struct capture *c);
/* True when the text was kept as the beginning of a line: nothing more to do.
 * False: it was not, and capture_take_line() and a write must follow. */
bool capture_hold(struct capture *c, int i, const char *data, size_t n);
/* Move what is kept to out, which has UNSENT_LINE_MAX bytes. Returns its size. */
size_t capture_take_line(struct capture *c, int i, char *out);
/* For pthread_atfork(): a child has the pipes, and its own beginnings of lines. */
void capture_fork_prepare(struct capture *c);
void capture_fork_parent(struct capture *c);
void capture_fork_child(struct capture *c);
/* Queue what the pipes hold now. Returns the bytes read. */
size_t capture_drain(struct capture *c);
/* Drain, then let later text go to another parent, or nowhere (discard). */
void capture_set_parent(struct capture *c, struct parent *parent, bool discard);
/* The same to compare with only: it may be gone. */
static inline const struct parent *capture_parent_now(struct capture *c)
{
	return atomic_load(&c->parent);
}
/* Whose output it is now, a new reference, and whether it is dropped. */
struct parent *capture_parent(struct capture *c, bool *ret_discard);

#endif
