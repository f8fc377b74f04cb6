/* UNIT: kernels/link LIBS: -lnghttp2 -luv */
/* A channel whose peer sends any bytes: no overrun, frames in order, bounded
 * memory, and the link stays up. First byte: bit 0 the receiver pauses now and
 * then; bit 1 it has something to send; the rest how the bytes are cut. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "link/channel.h"
#include "link/channel_private.h"
#include "link/link.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct link *client, *server;
static struct channel *channel;
static struct link_stream *stream;
static uint64_t received;
static bool pausing;
static volatile uint8_t touched; /* every byte of a payload was read */

static void on_frame(struct channel *c, uint8_t type, uint64_t seq, const uint8_t *payload, size_t len,
		     void *arg)
{
	uint8_t sum = type;

	(void)arg;
	/* A gap of no frames moves on without a word, so not received + 1. */
	if (seq <= received || seq != channel_received(c) || len > CHANNEL_FRAME_MAX)
		abort();
	received = seq;
	for (size_t i = 0; i < len; i++)
		sum += payload[i];
	touched = sum;
	channel_ack(c, seq);
	if (pausing && seq % 3 == 0)
		channel_pause(c, true);
	if (type == 'F') {
		channel = NULL;
		channel_free(c);
	}
}

static void on_gap(struct channel *c, uint64_t first, uint64_t last, uint64_t frames, uint64_t bytes,
		   void *arg)
{
	(void)bytes, (void)arg;
	if (first <= received || last < first || frames > last - first + 1 || channel_received(c) != last)
		abort();
	received = last;
}

static const struct channel_ops channel_ops = { .frame = on_frame, .gap = on_gap };

static void on_closed(struct link_stream *st, int err, void *arg)
{
	(void)st, (void)err, (void)arg;
	stream = NULL;
}

static void on_data(struct link_stream *st, const uint8_t *bytes, size_t len, void *arg)
{
	(void)bytes, (void)arg;
	link_consume(st, len);
}

static const struct link_stream_ops raw_ops = { .data = on_data, .closed = on_closed };

static void on_request(struct link *l, struct link_stream *st, const struct link_request *rq, void *arg)
{
	(void)l, (void)rq, (void)arg;
	if (channel_accept(channel, st) != 0)
		abort();
}

static bool move(struct link *from, struct link *to)
{
	const uint8_t *bytes;
	size_t n = link_pending(from, &bytes);

	if (n == 0)
		return false;
	if (link_receive(to, bytes, n) != 0)
		abort();
	link_sent(from, n);
	return true;
}

static void settle(void)
{
	bool moved;

	do {
		moved = move(client, server);
		moved |= move(server, client);
	} while (moved);
}

static void check_bounds(void)
{
	if (!channel)
		return;
	if (channel->in.cap > 2 * CHANNEL_FRAME_MAX || channel->held_len > LINK_STREAM_WINDOW)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct link_ops client_ops, server_ops = { .request = on_request };
	size_t step;

	if (size < 2)
		return 0;
	client = link_new(LINK_CLIENT, &client_ops, NULL);
	server = link_new(LINK_SERVER, &server_ops, NULL);
	channel = channel_new(CHANNEL_DROP_MIDDLE, &channel_ops, NULL);
	if (!client || !server || !channel)
		abort();
	received = 0;
	pausing = data[0] & 1;
	for (int i = 0; i < 4 && data[0] & 2; i++)
		channel_send(channel, 'O', i & 1, "output", 6);
	step = (data[0] >> 2) ? (size_t)(data[0] >> 2) * 32 : 4096;
	link_hello(client);
	settle();
	if (link_open(client, "POST", "/channel", true, &raw_ops, NULL, &stream) != 0)
		abort();
	for (size_t at = 1; at < size && stream;) {
		size_t n = size - at < step ? size - at : step;

		at += link_write(stream, data + at, n);
		settle();
		check_bounds();
		if (channel)
			channel_pause(channel, false);
	}
	settle();
	if (!link_is_up(client) || !link_is_up(server))
		abort();
	channel_free(channel);
	link_free(client);
	link_free(server);
	return 0;
}
