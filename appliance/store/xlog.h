/* The event log of one execution: NDJSON lines exactly as clients get them,
 * appended by the store's writer thread, read by any number of worker threads
 * at their own pace, live or later.
 *
 * A short one that ends in one go lies in the execution's row, every other in
 * spool/XID/events: nobody but the store sees the difference.
 *
 * Offsets are logical. The first XLOG_HEAD_MAX bytes are always kept; past
 * them the file is a window: what every live reader has read and what is
 * older than XLOG_WINDOW_MAX is punched out (FALLOC_FL_PUNCH_HOLE), so a flood
 * costs bounded disk. A reader that comes to a hole gets one synthetic line
 *   {"type":"truncated","stream":"events","bytes_total":N,"bytes_kept":N,"from_seq":A,"to_seq":B}
 * (no seq of its own) and goes on behind it.
 *
 * The writer side never blocks on readers: core asks xlog_lag() and pauses the
 * source while a live reader is more than XLOG_WINDOW_MAX / 2 behind.
 */
#ifndef CARREL_XLOG_H
#define CARREL_XLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	XLOG_HEAD_MAX = 32 * 1024 * 1024,
	XLOG_WINDOW_MAX = 16 * 1024 * 1024,
	XLOG_LINE_MAX = 1024 * 1024, /* one event, reference v1 */
};

struct xlog;
struct xlog_reader;

/* Reference counted: each open() gives a reference, each reader holds one.
 * create gives an empty log (-EEXIST if one is open). Otherwise
 * an existing log is opened: the one that is open already, if any, unchanged;
 * else not ended cuts it to log_bytes (what the row says is safe: for recovery,
 * by the core alone), and ended reads its first log_bytes and changes nothing.
 * Workers: xlog_find() first, then the row, and xlog_open() only when the row is
 * final. -ENOENT: no such log; -EUCLEAN: it does not match the row. */
int xlog_open(const char *state_dir, const char *execution_id, bool create, uint64_t log_bytes,
	      uint64_t last_seq, bool ended, struct xlog **ret);
/* The ended log whose lines the row holds. */
int xlog_open_lines(const char *execution_id, const char *lines, size_t len, uint64_t last_seq,
		    struct xlog **ret);
struct xlog *xlog_ref(struct xlog *log);
void xlog_unref(struct xlog *log); /* accepts NULL */
/* The log that is open now for this execution, with a reference, or NULL. */
struct xlog *xlog_find(const char *execution_id);

/* Bytes the slowest live reader is behind; 0 without readers. progress() is
 * called (on the reader's thread) when lag falls below half the window after
 * having been over it. */
uint64_t xlog_lag(struct xlog *log);
void xlog_on_progress(struct xlog *log, void (*progress)(void *arg), void *arg);

/* A reader from event after_seq + 1 on. */
int xlog_reader_new(struct xlog *log, uint64_t after_seq, struct xlog_reader **ret);
void xlog_reader_free(struct xlog_reader *r);
/* Becomes readable (poll) when there is more to read or the log ended. */
int xlog_reader_fd(struct xlog_reader *r);
/* Whole lines into buf (size >= XLOG_LINE_MAX + 1). Returns bytes, 0: nothing now, -ENODATA: ended and all
 * read, another error: all read, and the end could not be stored. */
ssize_t xlog_reader_read(struct xlog_reader *r, char *buf, size_t size);

/* Writer thread only (store_txn_log). lines: one for each seq after the log's
 * last one up to last_seq (-EBADMSG otherwise), each ended by a newline, ASCII
 * JSON, at most XLOG_LINE_MAX (-EMSGSIZE). A failed append or sync leaves what
 * was there; after a failed sync the log takes no more. Of a new log nothing
 * is shown before xlog_committed(), and of any the end. */
int xlog_append(struct xlog *log, const char *lines, size_t len, uint64_t last_seq, bool end);
int xlog_sync(struct xlog *log);
const char *xlog_id(const struct xlog *log);
/* All its lines, while no file holds them, or NULL; as long as nothing is appended. */
const char *xlog_small(struct xlog *log, size_t *ret_len);
struct xlog_position {
	uint64_t size, last_seq;
	bool ended;
	bool failed; /* takes no more */
};
void xlog_position(struct xlog *log, struct xlog_position *ret);
/* Back to an earlier position, because what belongs to the lines was not
 * committed. Readers that had passed it are served from there on, but get no
 * event twice. */
void xlog_cut(struct xlog *log, const struct xlog_position *to);
/* The end could not be committed: readers get err instead of waiting for it. It may
 * be committed after all later, for those who ask then. */
void xlog_give_up(struct xlog *log, int err);
/* What was appended is committed: shows beginning and end to readers, who get them only now, so
 * that whoever has read them finds the row, and after the end finds it final; punches out what head, window and
 * readers do not need. */
void xlog_committed(struct xlog *log);

#endif
