#include "core/iopub_item.h"
#include "core/capture.h"
#include "core/log.h"
#include "core/sock.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/timerfd.h>

static const char text_end[] = "\"}";

/* -EAGAIN: without wait, and a subscriber has no room; other failures are told. */
static int send_message(struct iopub *io, const char *topic, const char *type, const struct parent *parent,
			struct slice metadata, struct slice content, const struct iopub_buffer *buffers,
			size_t n_buffers, bool wait)
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
		err = sock_send(io->sock, packed.frame, packed.n, wait);
	if (err && err != -EAGAIN)
		log_line("iopub: a %s message was lost: %s", type, strerror(-err));
	return err;
}

static int send_item(struct iopub *io, struct iopub_item *item, bool wait)
{
	char topic[MESSAGE_TYPE_MAX + 32];
	int err, n;

	if (item->kind == ITEM_TEXT) {
		buf_puts(&item->content, text_end);
		n = snprintf(topic, sizeof(topic), "stream.%s", iopub_stream_names[item->stream]);
	} else {
		n = snprintf(topic, sizeof(topic), "kernel.%s", item->type);
	}
	if (item->end)
		snprintf(topic + n, sizeof(topic) - (size_t)n, "@%" PRIu64, item->end);
	if (item->content.failed) {
		log_line("iopub: out of memory, a %s message was lost", item->type);
		return 0;
	}
	err = send_message(io, topic, item->type, item->parent, iopub_item_metadata(item),
			   (struct slice){ item->content.data, item->content.len }, item->buffers,
			   item->n_buffers, wait);
	if (err == -EAGAIN && item->kind == ITEM_TEXT)
		item->content.len -= strlen(text_end);
	return err;
}

static struct iopub_item *take_first(struct iopub *io)
{
	struct iopub_item *item = io->head;

	if (!item)
		return NULL;
	io->head = item->next;
	if (!io->head)
		io->tail = &io->head;
	return item;
}

static void put_back(struct iopub *io, struct iopub_item *item)
{
	if (!io->head)
		io->tail = &item->next;
	item->next = io->head;
	io->head = item;
}

/* Send until the queue is empty or, without wait, a subscriber has no room.
 * Both locks are held; lock is not while a message goes out. */
static void send_queued(struct iopub *io, bool wait)
{
	struct iopub_item *item;
	int err = 0;

	while (err != -EAGAIN && (item = take_first(io))) {
		io->sending = true;
		pthread_mutex_unlock(&io->lock);
		err = send_item(io, item, wait);
		pthread_mutex_lock(&io->lock);
		io->sending = false;
		if (err == -EAGAIN) {
			put_back(io, item);
			continue;
		}
		io->queued -= item->bytes;
		iopub_item_free(item);
		pthread_cond_broadcast(&io->room);
	}
}

/* Sending may have swallowed the edge of ZMQ_FD that announced a subscription. */
static bool is_subscribed(struct iopub *io)
{
	int events = 0;
	size_t size = sizeof(events);

	return zmq_getsockopt(io->sock, ZMQ_EVENTS, &events, &size) == 0 && (events & ZMQ_POLLIN);
}

void iopub_send_here(struct iopub *io)
{
	static const struct itimerspec never;

	pthread_mutex_lock(&io->lock);
	send_queued(io, false);
	if (io->head || is_subscribed(io))
		iopub_wake_locked(io);
	else if (io->holding && timerfd_settime(io->hold_fd, 0, &never, NULL) == 0)
		io->holding = false;
	pthread_mutex_unlock(&io->lock);
	pthread_mutex_unlock(&io->sock_lock);
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
		if (!sock_subscribe(io->sock, data, n + 1) || n >= sizeof(topic) || memchr(data + 1, 0, n))
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
				     (struct slice){ content.data, content.len }, NULL, 0, true);
	}
	zmq_msg_close(&msg);
}

/* False: all is sent, and it is time to leave. */
static bool send_all(struct iopub *io)
{
	bool stay;

	pthread_mutex_lock(&io->sock_lock);
	do {
		greet(io);
		pthread_mutex_lock(&io->lock);
		send_queued(io, true);
		stay = io->sleeping = !io->stopping;
		pthread_mutex_unlock(&io->lock);
	} while (is_subscribed(io));
	pthread_mutex_unlock(&io->sock_lock);
	return stay;
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
			/* One more: the clock's part of a millisecond is gone already. */
			*r = (struct reader){ GATHER, now_ms() + 1 + CAPTURE_GATHER_MS };
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
	io->sleeping = io->holding = false;
	expecting = io->expecting;
	io->expecting = false;
	pthread_mutex_unlock(&io->lock);
	return expecting;
}

/* Wait for the queue, a subscriber or captured text. */
static void wait_and_read(struct iopub *io, struct reader *r)
{
	struct pollfd items[] = {
		{ .fd = io->sock_fd, .events = POLLIN },
		{ .fd = io->wake_fd, .events = POLLIN },
		{ .fd = io->hold_fd, .events = POLLIN },
		{ .fd = io->capture->read_fd[0], .events = POLLIN },
		{ .fd = io->capture->read_fd[1], .events = POLLIN },
	};
	int64_t left = r->state == QUIET ? -1 : r->due - now_ms();
	uint64_t count;
	bool readable;
	int i, n = poll(items, r->state == QUIET ? 5 : 3, r->state == QUIET || left > 0 ? (int)left : 0);

	readable = take_wake_up(io);
	/* n < 0: nothing is known of them. */
	for (i = 1; n > 0 && i <= 2; i++) {
		if (items[i].revents && read(items[i].fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
			log_line("iopub: cannot read the wake-up: %s", strerror(errno));
	}
	reader_step(io, r, readable || (n > 0 && (items[3].revents || items[4].revents)));
}

void *iopub_main(void *arg)
{
	struct iopub *io = arg;
	struct reader reader = { QUIET, 0 };

	while (send_all(io))
		wait_and_read(io, &reader);
	zmq_close(io->sock);
	return NULL;
}
