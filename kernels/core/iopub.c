#include "core/iopub.h"
#include "core/iopub_item.h"
#include "core/log.h"
#include "core/threads.h"
#include "core/unsent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

const char *const iopub_stream_names[2] = { "stdout", "stderr" };

void iopub_item_free(struct iopub_item *item)
{
	size_t i;

	for (i = 0; i < item->n_buffers; i++)
		free(item->buffers[i].data);
	free(item->buffers);
	free(item->metadata);
	buf_free(&item->content);
	parent_unref(item->parent);
	free(item);
}

struct slice iopub_item_metadata(const struct iopub_item *item)
{
	const char *text = item->metadata ? item->metadata : "{}";

	return (struct slice){ text, strlen(text) };
}

/* ---- queue ---- */

static void queue_append(struct iopub *io, struct iopub_item *item)
{
	*io->tail = item;
	io->tail = &item->next;
	io->queued += item->bytes;
}

void iopub_wake_locked(struct iopub *io)
{
	uint64_t one = 1;

	if (!io->sleeping)
		return;
	io->sleeping = io->holding = false;
	/* Cannot fail: the counter is far from its maximum. */
	if (write(io->wake_fd, &one, sizeof(one)) < 0)
		log_line("iopub: cannot wake the sender: %s", strerror(errno));
}

/* Output that a crash must not take along leaves at once; these come again in
 * what the host knows of the cell. */
static bool can_wait(const struct iopub_item *item)
{
	return !strcmp(item->type, "execute_input") || !strcmp(item->type, "execute_result");
}

static void hold_locked(struct iopub *io)
{
	struct itimerspec in = { .it_value.tv_nsec = IOPUB_HOLD_MS * 1000000L };

	if (io->sleeping && timerfd_settime(io->hold_fd, 0, &in, NULL) == 0)
		io->holding = true;
	else
		iopub_wake_locked(io);
}

static void record(struct iopub *io, struct iopub_item *item)
{
	struct slice part[WIRE_PARTS + WIRE_BUFFERS_MAX] = {
		[WIRE_HEADER] = { item->type, strlen(item->type) },
		[WIRE_PARENT] = parent_slice(item->parent),
		[WIRE_METADATA] = iopub_item_metadata(item),
		[WIRE_CONTENT] = { item->content.data, item->content.len },
	};
	size_t i;

	for (i = 0; i < item->n_buffers && i < WIRE_BUFFERS_MAX; i++)
		part[WIRE_PARTS + i] = (struct slice){ item->buffers[i].data, item->buffers[i].len };
	item->end = unsent_message(io->unsent, part, WIRE_PARTS + i);
}

static void put_item(struct iopub *io, struct iopub_item *item)
{
	pthread_mutex_lock(&io->lock);
	if (io->unsent)
		record(io, item);
	queue_append(io, item);
	if (!io->holding || !can_wait(item))
		iopub_wake_locked(io);
	pthread_mutex_unlock(&io->lock);
}

static struct iopub_item *item_new(enum item_kind kind, const char *type, struct parent *parent)
{
	struct iopub_item *item = calloc(1, sizeof(*item));

	if (!item)
		return NULL;
	item->kind = kind;
	snprintf(item->type, sizeof(item->type), "%s", type);
	item->parent = parent_ref(parent);
	return item;
}

int iopub_put(struct iopub *io, const char *type, struct parent *parent, char *content, size_t len,
	      char *metadata, struct iopub_buffer *buffers, size_t n_buffers)
{
	struct iopub_item *item = item_new(ITEM_MESSAGE, type, parent);
	size_t i;

	if (!item) {
		for (i = 0; i < n_buffers; i++)
			free(buffers[i].data);
		free(buffers);
		free(metadata);
		free(content);
		return -ENOMEM;
	}
	item->content = (struct buf){ .data = content, .len = len, .cap = len };
	item->metadata = metadata;
	item->buffers = buffers;
	item->n_buffers = n_buffers;
	item->bytes = sizeof(*item) + len;
	for (i = 0; i < n_buffers; i++)
		item->bytes += buffers[i].len;
	put_item(io, item);
	return 0;
}

int iopub_put_json(struct iopub *io, const char *type, struct parent *parent, json_t *content,
		   json_t *metadata)
{
	char *text = content ? json_dumps(content, JSON_COMPACT) : NULL;
	char *meta = metadata ? json_dumps(metadata, JSON_COMPACT) : NULL;

	json_decref(content);
	json_decref(metadata);
	if (!text) {
		free(meta);
		return -ENOMEM;
	}
	return iopub_put(io, type, parent, text, strlen(text), meta, NULL, 0);
}

static struct iopub_item *status_item_new(const char *state, struct parent *parent)
{
	struct iopub_item *item = item_new(ITEM_MESSAGE, "status", parent);

	if (!item)
		return NULL;
	buf_puts(&item->content, "{\"execution_state\":\"");
	buf_puts(&item->content, state);
	buf_puts(&item->content, "\"}");
	item->bytes = sizeof(*item) + item->content.len;
	return item;
}

int iopub_put_status(struct iopub *io, const char *state, struct parent *parent, bool hold)
{
	struct iopub_item *item = status_item_new(state, parent);

	if (!item)
		return -ENOMEM;
	pthread_mutex_lock(&io->lock);
	queue_append(io, item);
	if (hold)
		hold_locked(io);
	else
		iopub_wake_locked(io);
	pthread_mutex_unlock(&io->lock);
	return 0;
}

int iopub_put_idle(struct iopub *io, struct parent *parent)
{
	struct iopub_item *item = status_item_new("idle", parent);
	bool here;

	if (!item)
		return -ENOMEM;
	/* Taken: the thread sends, and takes this one too. */
	here = pthread_mutex_trylock(&io->sock_lock) == 0;
	pthread_mutex_lock(&io->lock);
	queue_append(io, item);
	if (!here)
		iopub_wake_locked(io);
	pthread_mutex_unlock(&io->lock);
	if (here)
		iopub_send_here(io);
	return 0;
}

static struct iopub_item *last_item(struct iopub *io)
{
	if (!io->head)
		return NULL;
	return (struct iopub_item *)((char *)io->tail - offsetof(struct iopub_item, next));
}

static bool can_join(const struct iopub_item *item, int stream, const struct parent *parent, size_t len)
{
	return item && item->kind == ITEM_TEXT && item->stream == stream && item->parent == parent &&
	       item->text + len <= IOPUB_TEXT_MAX;
}

static struct iopub_item *text_item_new(struct iopub *io, int stream, struct parent *parent)
{
	struct iopub_item *item = item_new(ITEM_TEXT, "stream", parent);

	if (!item)
		return NULL;
	item->stream = stream;
	item->bytes = sizeof(*item);
	buf_puts(&item->content, "{\"name\":\"");
	buf_puts(&item->content, iopub_stream_names[stream]);
	buf_puts(&item->content, "\",\"text\":\"");
	queue_append(io, item);
	return item;
}

int iopub_put_text(struct iopub *io, int stream, struct parent *parent, const char *text, size_t len)
{
	struct iopub_item *item;
	size_t before;
	int err = 0;

	pthread_mutex_lock(&io->lock);
	item = last_item(io);
	if (!can_join(item, stream, parent, len))
		item = text_item_new(io, stream, parent);
	if (item) {
		before = item->content.len;
		buf_json_escape(&item->content, text, len);
		item->text += len;
		item->end = unsent_text(io->unsent, stream, parent_slice(parent), text, len);
		item->bytes += item->content.len - before;
		io->queued += item->content.len - before;
	}
	if (!item || item->content.failed)
		err = -ENOMEM;
	iopub_wake_locked(io);
	pthread_mutex_unlock(&io->lock);
	return err;
}

void iopub_expect_text(struct iopub *io)
{
	pthread_mutex_lock(&io->lock);
	/* While the thread paces its reading it drains by itself. */
	if (!io->pacing) {
		io->expecting = true;
		iopub_wake_locked(io);
	}
	pthread_mutex_unlock(&io->lock);
}

static void deadline_in(struct timespec *ts, int ms)
{
	clock_gettime(CLOCK_MONOTONIC, ts);
	ts->tv_sec += ms / 1000;
	ts->tv_nsec += (long)(ms % 1000) * 1000000;
	if (ts->tv_nsec >= 1000000000) {
		ts->tv_nsec -= 1000000000;
		ts->tv_sec++;
	}
}

static bool is_empty(const struct iopub *io)
{
	return !io->head && !io->sending;
}

static bool has_room(const struct iopub *io)
{
	return io->queued < IOPUB_QUEUE_MAX;
}

static int wait_until(struct iopub *io, bool (*done)(const struct iopub *), int timeout_ms)
{
	struct timespec deadline;
	int err = 0;

	pthread_mutex_lock(&io->lock);
	if (!done(io)) {
		iopub_wake_locked(io);
		deadline_in(&deadline, timeout_ms);
		while (!done(io) && err == 0)
			err = pthread_cond_timedwait(&io->room, &io->lock, &deadline);
	}
	pthread_mutex_unlock(&io->lock);
	return -err;
}

int iopub_wait_room(struct iopub *io, int timeout_ms)
{
	return wait_until(io, has_room, timeout_ms);
}

int iopub_wait_empty(struct iopub *io, int timeout_ms)
{
	return wait_until(io, is_empty, timeout_ms);
}

/* ---- start and end ---- */

int iopub_start(struct iopub *io, void *sock, struct session *session, struct capture *capture,
		struct unsent *unsent, const struct wire_signer *signer)
{
	size_t size = sizeof(io->sock_fd);
	pthread_condattr_t attr;
	int err;

	*io = (struct iopub){ .sock = sock, .session = session, .capture = capture, .unsent = unsent, .signer = *signer };
	io->tail = &io->head;
	if (zmq_getsockopt(sock, ZMQ_FD, &io->sock_fd, &size))
		return -errno;
	io->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (io->wake_fd < 0)
		return -errno;
	io->hold_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (io->hold_fd < 0) {
		err = -errno;
		close(io->wake_fd);
		return err;
	}
	pthread_mutex_init(&io->lock, NULL);
	pthread_mutex_init(&io->sock_lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&io->room, &attr);
	pthread_condattr_destroy(&attr);
	err = thread_start(&io->thread, "iopub", iopub_main, io, SCHED_BATCH);
	if (err) {
		close(io->hold_fd);
		close(io->wake_fd);
		return err;
	}
	io->started = true;
	return 0;
}

void iopub_stop(struct iopub *io, int timeout_ms)
{
	int err;

	if (!io->started)
		return;
	err = iopub_wait_empty(io, timeout_ms);
	pthread_mutex_lock(&io->lock);
	io->stopping = true;
	iopub_wake_locked(io);
	pthread_mutex_unlock(&io->lock);
	if (err) {
		log_line("iopub: a subscriber does not read; %zu bytes of output were not delivered",
			 io->queued);
		return;
	}
	pthread_join(io->thread, NULL);
	io->started = false;
	wire_signer_free(&io->signer);
	close(io->hold_fd);
	close(io->wake_fd);
}
