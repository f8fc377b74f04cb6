#include "xlog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ids.h"
#include "spool.h"
#include "xlog_inner.h"

enum { BUCKETS = 256 };

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct xlog *registry[BUCKETS];

static struct xlog **bucket_of(const char *id)
{
	unsigned hash = 5381;

	while (*id)
		hash = hash * 33 + (unsigned char)*id++;
	return &registry[hash % BUCKETS];
}

static struct xlog *find_locked(const char *id)
{
	for (struct xlog *log = *bucket_of(id); log; log = log->next) {
		if (strcmp(log->id, id) != 0)
			continue;
		log->refs++;
		return log;
	}
	return NULL;
}

struct xlog *xlog_find(const char *execution_id)
{
	struct xlog *log;

	pthread_mutex_lock(&registry_lock);
	log = find_locked(execution_id);
	pthread_mutex_unlock(&registry_lock);
	return log;
}

const char *xlog_id(const struct xlog *log)
{
	return log->id;
}

struct xlog *xlog_ref(struct xlog *log)
{
	pthread_mutex_lock(&registry_lock);
	log->refs++;
	pthread_mutex_unlock(&registry_lock);
	return log;
}

static void xlog_free(struct xlog *log)
{
	if (log->fd >= 0)
		close(log->fd);
	if (log->dir_fd >= 0)
		close(log->dir_fd);
	pthread_mutex_destroy(&log->lock);
	pthread_mutex_destroy(&log->progress_lock);
	free(log->small);
	free(log->marks);
	free(log);
}

void xlog_unref(struct xlog *log)
{
	struct xlog **at;

	if (!log)
		return;
	pthread_mutex_lock(&registry_lock);
	if (--log->refs > 0) {
		pthread_mutex_unlock(&registry_lock);
		return;
	}
	for (at = bucket_of(log->id); *at != log; at = &(*at)->next)
		;
	*at = log->next;
	pthread_mutex_unlock(&registry_lock);
	xlog_free(log);
}

/* What its row says of a log that is not open. */
struct xlog_row {
	bool ended;
	uint64_t bytes, last_seq;
	const char *lines; /* or NULL: they lie in a file */
};

static int xlog_open_file(struct xlog *log)
{
	struct stat st;

	log->dir_fd = spool_dir_open(log->state_dir, log->id, false);
	if (log->dir_fd < 0)
		return log->dir_fd;
	log->fd = openat(log->dir_fd, "events", O_RDWR | O_CLOEXEC);
	if (log->fd < 0 || fstat(log->fd, &st) < 0)
		return -errno;
	if ((uint64_t)st.st_size < log->size)
		return -EUCLEAN;
	if (!log->ended && (uint64_t)st.st_size > log->size && ftruncate(log->fd, (off_t)log->size) < 0)
		return -errno;
	log->dir_synced = true;
	return xlog_scan(log);
}

static int xlog_fill(struct xlog *log, const struct xlog_row *row)
{
	if (row->lines)
		return xlog_small_take(log, row->lines, row->bytes);
	/* A new one, or one of which nothing was safe yet. */
	if (!row->ended && row->bytes == 0)
		return id_valid(log->id) ? 0 : -EINVAL;
	return xlog_open_file(log);
}

static int xlog_new(const char *state_dir, const char *execution_id, const struct xlog_row *row,
		    struct xlog **ret)
{
	struct xlog *log = malloc(sizeof(*log));
	int err;

	if (!log)
		return -ENOMEM;
	*log = (struct xlog){ .refs = 1, .fd = -1, .dir_fd = -1, .size = row->bytes, .last_seq = row->last_seq,
			      .ended = row->ended };
	snprintf(log->id, sizeof(log->id), "%s", execution_id);
	snprintf(log->state_dir, sizeof(log->state_dir), "%s", state_dir);
	pthread_mutex_init(&log->lock, NULL);
	pthread_mutex_init(&log->progress_lock, NULL);
	err = xlog_fill(log, row);
	if (err) {
		xlog_free(log);
		return err;
	}
	*ret = log;
	return 0;
}

static int xlog_get(const char *state_dir, const char *execution_id, bool create, const struct xlog_row *row,
		    struct xlog **ret)
{
	struct xlog *log, **bucket = bucket_of(execution_id);
	int err = 0;

	/* Opened under the registry's lock: two logs for one file would cut each other. */
	pthread_mutex_lock(&registry_lock);
	log = find_locked(execution_id);
	if (log && create) {
		log->refs--;
		err = -EEXIST;
	} else if (!log) {
		err = xlog_new(state_dir, execution_id, row, &log);
		if (!err) {
			log->next = *bucket;
			*bucket = log;
		}
	}
	pthread_mutex_unlock(&registry_lock);
	if (!err)
		*ret = log;
	return err;
}

int xlog_open(const char *state_dir, const char *execution_id, bool create, uint64_t log_bytes,
	      uint64_t last_seq, bool ended, struct xlog **ret)
{
	struct xlog_row row = { .ended = ended, .bytes = log_bytes, .last_seq = last_seq };

	return xlog_get(state_dir, execution_id, create, &row, ret);
}

int xlog_open_lines(const char *execution_id, const char *lines, size_t len, uint64_t last_seq,
		    struct xlog **ret)
{
	struct xlog_row row = { .ended = true, .bytes = len, .last_seq = last_seq, .lines = lines };

	return xlog_get("", execution_id, false, &row, ret);
}

/* Bytes that the reader will still get: the hole is none of them. */
static uint64_t reader_lag(const struct xlog *log, const struct xlog_reader *r)
{
	uint64_t lag = log->size > r->off ? log->size - r->off : 0;

	if (r->off < log->hole_end.off && log->hole_end.off > log->hole_start.off)
		lag -= log->hole_end.off - (r->off > log->hole_start.off ? r->off : log->hole_start.off);
	return lag;
}

uint64_t xlog_lag_locked(struct xlog *log)
{
	uint64_t most = 0;

	for (struct xlog_reader *r = log->readers; r; r = r->next) {
		uint64_t lag = reader_lag(log, r);

		if (lag > most)
			most = lag;
	}
	if (most > XLOG_WINDOW_MAX / 2)
		log->lagging = true;
	return most;
}

uint64_t xlog_lag(struct xlog *log)
{
	uint64_t lag;

	pthread_mutex_lock(&log->lock);
	lag = xlog_lag_locked(log);
	pthread_mutex_unlock(&log->lock);
	return lag;
}

void xlog_on_progress(struct xlog *log, void (*progress)(void *arg), void *arg)
{
	pthread_mutex_lock(&log->progress_lock);
	log->progress = progress;
	log->progress_arg = arg;
	pthread_mutex_unlock(&log->progress_lock);
}

void xlog_tell_progress(struct xlog *log)
{
	pthread_mutex_lock(&log->progress_lock);
	if (log->progress)
		log->progress(log->progress_arg);
	pthread_mutex_unlock(&log->progress_lock);
}

void xlog_position(struct xlog *log, struct xlog_position *ret)
{
	pthread_mutex_lock(&log->lock);
	*ret = (struct xlog_position){ .size = log->size, .last_seq = log->last_seq, .ended = log->ended,
				       .failed = log->failed != 0 };
	pthread_mutex_unlock(&log->lock);
}
