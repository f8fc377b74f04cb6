/* What the files of the event log share. For xlog*.c only. */
#ifndef CARREL_XLOG_INNER_H
#define CARREL_XLOG_INNER_H

#include <pthread.h>

#include "store.h"
#include "xlog.h"

enum {
	/* Bytes between two marks: what a reader from the middle reads in vain at most, and the grain of the hole. */
	XLOG_MARK_EVERY = 64 * 1024,
	/* The hole grows in such steps, so that a flood is not a flood of system calls. */
	XLOG_PUNCH_STEP = 1024 * 1024,
	/* Bytes of a log that needs no file: most cells say less, and a row of four pages is still read at once. */
	XLOG_SMALL_MAX = 16 * 1024,
};

/* A line boundary: the next line has number seq + 1. */
struct xlog_mark {
	uint64_t off, seq;
};

struct xlog_reader {
	struct xlog_reader *next;
	struct xlog *log;
	int event_fd;
	bool signalled;    /* event_fd is readable */
	uint64_t off, seq; /* the next line's place, and the number of the line before it */
	uint64_t after;    /* lines up to this number are left out */
};

struct xlog {
	struct xlog *next; /* in the registry's bucket */
	unsigned refs;     /* under the registry's lock */
	char id[STORE_ID_MAX];
	char state_dir[256];
	int fd, dir_fd;         /* -1: the lines are in small */
	bool dir_synced, dirty; /* writer thread only */

	pthread_mutex_t lock; /* everything below */
	uint64_t size, last_seq;
	bool ended;
	char *small; /* XLOG_SMALL_MAX bytes, or NULL: nothing was written, or there is a file */
	uint64_t held; /* bytes at the end of size that wait for their commit: not shown before */
	int failed; /* a sync failed: what the file holds is not known any more */
	int given_up; /* what readers get in place of an end that could not be committed */
	/* Lines from hole_start to hole_end are gone; equal offsets: there is no hole. */
	struct xlog_mark hole_start, hole_end;
	struct xlog_mark *marks; /* ascending; none inside the hole */
	size_t mark_count, mark_size;
	struct xlog_reader *readers;
	bool lagging;
	unsigned cuts; /* how often xlog_cut() ran: what was read meanwhile is read again */

	pthread_mutex_t progress_lock; /* held while progress runs */
	void (*progress)(void *arg);
	void *progress_arg;
};

/* Under log->lock. */
int xlog_add_mark(struct xlog *log, uint64_t off, uint64_t seq);
uint64_t xlog_lag_locked(struct xlog *log);
void xlog_wake_locked(struct xlog *log);
/* The last mark at or before a line's number, and not inside the hole. */
struct xlog_mark xlog_seek_locked(struct xlog *log, uint64_t seq);
/* xlog_small.c; writer thread only. */
int xlog_spill(struct xlog *log);
/* Behind size, which the caller moves. */
int xlog_write(struct xlog *log, const char *lines, size_t len);
/* Of a log that nobody else has yet: size and last_seq are set. */
int xlog_small_take(struct xlog *log, const char *lines, size_t len);
/* Without the lock. */
void xlog_tell_progress(struct xlog *log);

/* xlog_scan.c: fills marks and hole from the file; size and last_seq are set. -EUCLEAN if they do not match. */
int xlog_scan(struct xlog *log);

#endif
