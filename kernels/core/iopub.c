#include "core/iopub.h"
#include "core/capture.h"
#include "core/log.h"
#include "core/sock.h"
#include "core/threads.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/eventfd.h>

enum item_kind { ITEM_MESSAGE, ITEM_TEXT, ITEM_REKEY };

struct iopub_item {
	struct iopub_item *next;
	enum item_kind kind;
	char type[MESSAGE_TYPE_MAX];
	struct parent *parent;
	struct buf content; /* ITEM_TEXT: without its end; ITEM_REKEY: the key */
	char *metadata;
	struct iopub_buffer *buffers;
	size_t n_buffers;
	size_t bytes; /* counted in iopub.queued */
	int stream;
	size_t text; /* bytes of text before escapes */
};

static const char *const stream_names[2] = { "stdout", "stderr" };

static void item_free(struct iopub_item *item)
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

/* ---- queue ---- */

static void queue_append(struct iopub *io, struct iopub_item *item)
{
	*io->tail = item;
	io->tail = &item->next;
	io->queued += item->bytes;
}

static void wake_locked(struct iopub *io)
{
	uint64_t one = 1;

	if (!io->sleeping)
		return;
	io->sleeping = false;
	/* Cannot fail: the counter is far from its maximum. */
	if (write(io->wake_fd, &one, sizeof(one)) < 0)
		log_line("iopub: cannot wake the sender: %s", strerror(errno));
}

static void put_item(struct iopub *io, struct iopub_item *item)
{
	pthread_mutex_lock(&io->lock);
	queue_append(io, item);
	wake_locked(io);
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

int iopub_put_json(struct iopub *io, const char *type, struct parent *parent, json_t *content, json_t *metadata)
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

int iopub_put_status(struct iopub *io, const char *state, struct parent *parent)
{
	char *text;
	int n = asprintf(&text, "{\"execution_state\":\"%s\"}", state);

	if (n < 0)
		return -ENOMEM;
	return iopub_put(io, "status", parent, text, (size_t)n, NULL, NULL, 0);
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
	buf_puts(&item->content, stream_names[stream]);
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
		item->bytes += item->content.len - before;
		io->queued += item->content.len - before;
	}
	if (!item || item->content.failed)
		err = -ENOMEM;
	wake_locked(io);
	pthread_mutex_unlock(&io->lock);
	return err;
}

void iopub_expect_text(struct iopub *io)
{
	pthread_mutex_lock(&io->lock);
	/* While the thread paces its reading it drains by itself. */
	if (!io->pacing) {
		io->expecting = true;
		wake_locked(io);
	}
	pthread_mutex_unlock(&io->lock);
}

int iopub_rekey(struct iopub *io, const char *key, size_t len)
{
	struct iopub_item *item = item_new(ITEM_REKEY, "", NULL);

	if (!item)
		return -ENOMEM;
	buf_put(&item->content, key, len);
	if (item->content.failed) {
		item_free(item);
		return -ENOMEM;
	}
	put_item(io, item);
	return 0;
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

/* ---- the thread ---- */

static void send_message(struct iopub *io, const char *topic, const char *type, const struct parent *parent,
			 struct slice metadata, struct slice content, const struct iopub_buffer *buffers,
			 size_t n_buffers)
{
	struct slice ident = { topic, strlen(topic) }, part[WIRE_PARTS], extra[WIRE_BUFFERS_MAX];
	char header[MESSAGE_HEADER_MAX];
	struct wire_packed packed;
	size_t i;
	int err;

	for (i = 0; i < n_buffers && i < WIRE_BUFFERS_MAX; i++)
		extra[i] = (struct slice){ buffers[i].data, buffers[i].len };
	part[WIRE_HEADER] = (struct slice){ header, session_header(io->session, type, header) };
	part[WIRE_PARENT] = parent_slice(parent);
	part[WIRE_METADATA] = metadata;
	part[WIRE_CONTENT] = content;
	err = wire_pack(&io->signer, &ident, 1, part, extra, i, &packed);
	if (!err)
		err = sock_send(io->sock, packed.frame, packed.n);
	if (err)
		log_line("iopub: a %s message was lost: %s", type, strerror(-err));
}

static void send_item(struct iopub *io, struct iopub_item *item)
{
	struct slice metadata = { "{}", 2 };
	char topic[MESSAGE_TYPE_MAX + 8];
	int err;

	if (item->kind == ITEM_REKEY) {
		err = wire_rekey(&io->signer, item->content.data, item->content.len);
		if (err)
			log_line("iopub: the new key cannot be used: %s", strerror(-err));
		return;
	}
	if (item->kind == ITEM_TEXT) {
		buf_puts(&item->content, "\"}");
		snprintf(topic, sizeof(topic), "stream.%s", stream_names[item->stream]);
	} else {
		snprintf(topic, sizeof(topic), "kernel.%s", item->type);
	}
	if (item->content.failed) {
		log_line("iopub: out of memory, a %s message was lost", item->type);
		return;
	}
	if (item->metadata)
		metadata = (struct slice){ item->metadata, strlen(item->metadata) };
	send_message(io, topic, item->type, item->parent, metadata,
		     (struct slice){ item->content.data, item->content.len }, item->buffers, item->n_buffers);
}

/* Take and send until the queue is empty; false: and it is time to leave. */
static bool send_queued(struct iopub *io)
{
	struct iopub_item *item;

	pthread_mutex_lock(&io->lock);
	while ((item = io->head)) {
		io->head = item->next;
		if (!io->head)
			io->tail = &io->head;
		io->sending = true;
		pthread_mutex_unlock(&io->lock);
		send_item(io, item);
		pthread_mutex_lock(&io->lock);
		io->sending = false;
		io->queued -= item->bytes;
		item_free(item);
		pthread_cond_broadcast(&io->room);
	}
	if (io->stopping) {
		pthread_mutex_unlock(&io->lock);
		return false;
	}
	io->sleeping = true;
	pthread_mutex_unlock(&io->lock);
	return true;
}

/* A subscription: 0x01 and the topic; greeted, so that a client knows from
 * when on it sees everything. */
static void greet(struct iopub *io)
{
	BUF_AUTO content = { 0 };
	char topic[128];
	zmq_msg_t msg;
	size_t n;

	zmq_msg_init(&msg);
	while (zmq_msg_recv(&msg, io->sock, ZMQ_DONTWAIT) > 0) {
		const char *data = zmq_msg_data(&msg);

		n = zmq_msg_size(&msg) - 1;
		/* A topic that is no text, or longer than any we send, matches nothing. */
		if (data[0] != 1 || n >= sizeof(topic) || memchr(data + 1, 0, n))
			continue;
		snprintf(topic, sizeof(topic), "%.*s", (int)n, data + 1);
		content.len = 0;
		for (n = 0; topic[n]; n++) {
			if ((unsigned char)topic[n] >= 0x80)
				break;
		}
		if (topic[n])
			continue;
		buf_puts(&content, "{\"subscription\":\"");
		buf_json_escape(&content, topic, n);
		buf_puts(&content, "\"}");
		if (!content.failed)
			send_message(io, topic, "iopub_welcome", NULL, (struct slice){ "{}", 2 },
				     (struct slice){ content.data, content.len }, NULL, 0);
	}
	zmq_msg_close(&msg);
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* When the captured descriptors are read. QUIET: as soon as one is readable;
 * that begins GATHER, so that a line written in pieces is one message, and then
 * PACE, until there was nothing to read. */
enum reading { QUIET, GATHER, PACE };

struct reader {
	enum reading state;
	int64_t due; /* ms, of GATHER and PACE */
};

static void set_pacing(struct iopub *io, bool pacing)
{
	pthread_mutex_lock(&io->lock);
	io->pacing = pacing;
	pthread_mutex_unlock(&io->lock);
}

static void reader_step(struct iopub *io, struct reader *r, bool readable)
{
	size_t n;

	if (r->state == QUIET) {
		if (readable) {
			set_pacing(io, true);
			*r = (struct reader){ GATHER, now_ms() + CAPTURE_GATHER_MS };
		}
		return;
	}
	if (now_ms() < r->due)
		return;
	n = capture_drain(io->capture);
	if (n == 0) {
		set_pacing(io, false);
		/* What was kept just before did not wake this thread. */
		n = capture_drain(io->capture);
		if (n == 0) {
			r->state = QUIET;
			return;
		}
		set_pacing(io, true);
	}
	/* A flood is read as it comes, a trickle is gathered. */
	*r = (struct reader){ PACE, now_ms() + (n < CAPTURE_CHUNK ? CAPTURE_PACE_MS : 0) };
}

/* Awake again; true when captured text waits in no pipe. */
static bool take_wake_up(struct iopub *io)
{
	bool expecting;

	pthread_mutex_lock(&io->lock);
	io->sleeping = false;
	expecting = io->expecting;
	io->expecting = false;
	pthread_mutex_unlock(&io->lock);
	return expecting;
}

/* Wait for the queue, a subscriber or captured text. */
static void wait_and_read(struct iopub *io, struct reader *r)
{
	zmq_pollitem_t items[] = {
		{ .socket = io->sock, .events = ZMQ_POLLIN },
		{ .fd = io->wake_fd, .events = ZMQ_POLLIN },
		{ .fd = io->capture->read_fd[0], .events = ZMQ_POLLIN },
		{ .fd = io->capture->read_fd[1], .events = ZMQ_POLLIN },
	};
	int64_t left = r->state == QUIET ? -1 : r->due - now_ms();
	uint64_t count;
	bool readable;
	int n = zmq_poll(items, r->state == QUIET ? 4 : 2, r->state == QUIET || left > 0 ? (long)left : 0);

	readable = take_wake_up(io);
	if (n < 0)
		return;
	if (items[1].revents && read(io->wake_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		log_line("iopub: cannot read the wake-up: %s", strerror(errno));
	if (items[0].revents)
		greet(io);
	reader_step(io, r, readable || items[2].revents || items[3].revents);
}

static void *iopub_main(void *arg)
{
	struct iopub *io = arg;
	struct reader reader = { QUIET, 0 };

	while (send_queued(io))
		wait_and_read(io, &reader);
	zmq_close(io->sock);
	return NULL;
}

int iopub_start(struct iopub *io, void *sock, struct session *session, struct capture *capture,
		const struct wire_signer *signer)
{
	int hwm = IOPUB_HWM, on = 1, err;
	pthread_condattr_t attr;

	*io = (struct iopub){ .sock = sock, .session = session, .capture = capture, .signer = *signer };
	io->tail = &io->head;
	zmq_setsockopt(sock, ZMQ_SNDHWM, &hwm, sizeof(hwm));
	zmq_setsockopt(sock, ZMQ_XPUB_NODROP, &on, sizeof(on));
	zmq_setsockopt(sock, ZMQ_XPUB_VERBOSE, &on, sizeof(on));
	io->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (io->wake_fd < 0)
		return -errno;
	pthread_mutex_init(&io->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&io->room, &attr);
	pthread_condattr_destroy(&attr);
	err = thread_start(&io->thread, "iopub", iopub_main, io);
	if (err) {
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
	wake_locked(io);
	pthread_mutex_unlock(&io->lock);
	if (err) {
		log_line("iopub: a subscriber does not read; %zu bytes of output were not delivered", io->queued);
		return;
	}
	pthread_join(io->thread, NULL);
	io->started = false;
	wire_signer_free(&io->signer);
	close(io->wake_fd);
}
