/* UNIT: kernels/link LIBS: -lnghttp2 -luv */
/* Bytes from a hostile peer into a link: a server with a small handler, or a
 * client with a few requests under way.
 *
 * First byte: bit 0 raw (bytes go to the link as they are) or else as HTTP/2
 * (after a sound HELLO exchange and preface, in sound records); bit 1 the peer
 * does not read; bit 2 the link is a client; the rest how the bytes are cut. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "link/cobs.h"
#include "link/link.h"
#include "link/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned live;

static void on_data(struct link_stream *st, const uint8_t *bytes, size_t len, void *arg)
{
	(void)arg;
	/* Echoes what it can, forgets the rest; one byte in four is held back. */
	link_write(st, bytes, len);
	link_consume(st, len - len / 4);
}

static void on_eof(struct link_stream *st, void *arg)
{
	(void)arg;
	link_end(st);
}

static void on_closed(struct link_stream *st, int err, void *arg)
{
	(void)st, (void)err, (void)arg;
	if (live-- == 0)
		abort();
}

static const struct link_stream_ops stream_ops = { .data = on_data, .eof = on_eof, .closed = on_closed };

static void on_request(struct link *l, struct link_stream *st, const struct link_request *rq, void *arg)
{
	(void)arg;
	if (strlen(rq->path) > LINK_PATH_MAX || !rq->query || strlen(rq->method) > 15)
		abort();
	live++;
	link_stream_bind(st, &stream_ops, NULL);
	switch (rq->path[1]) {
	case 'r':
		link_reset(st);
		break;
	case 'd':
		link_drop(l, "asked for by the path");
		break;
	case 'l':
		break;
	default:
		if (link_respond(st, 200, "text/plain", rq->query[0] == '7' ? 7 : -1) != 0)
			abort();
		link_write(st, rq->path, strlen(rq->path));
	}
}

static void on_response(struct link_stream *st, int status, void *arg)
{
	(void)st, (void)arg;
	if (status < 200 || status > 999)
		abort();
}

static const struct link_stream_ops client_ops = {
	.response = on_response, .data = on_data, .eof = on_eof, .closed = on_closed
};

static void on_up(struct link *l, void *arg)
{
	struct link_stream *st;

	(void)arg;
	for (int i = 0; i < 3; i++) {
		if (link_open(l, i ? "POST" : "GET", "/x?y", i, &client_ops, NULL, &st) != 0)
			continue;
		live++;
		link_write(st, "body", 4);
		if (i == 2)
			link_end(st);
	}
}

static const struct link_ops server_link = { .request = on_request };
static const struct link_ops client_link = { .up = on_up };

static void drain(struct link *l)
{
	const uint8_t *bytes;

	/* Bounded: what is written is bounded by windows nobody opens. */
	for (size_t n, i = 0; i < 1000 && (n = link_pending(l, &bytes)) > 0; i++)
		link_sent(l, n);
}

static void feed(struct link *l, const uint8_t *bytes, size_t len, size_t step, bool read)
{
	uint64_t now = 1000;

	while (len > 0) {
		size_t n = len < step ? len : step;

		link_receive(l, bytes, n);
		link_tick(l, now += 50);
		if (read)
			drain(l);
		bytes += n;
		len -= n;
	}
}

/* The nonce of the client's HELLO, from its output. */
static void nonce_take(struct link *l, uint8_t *nonce)
{
	static struct cobs_decoder d;
	const uint8_t *bytes, *record;
	size_t n = link_pending(l, &bytes), len = 0;

	for (size_t at = 0; at < n && len == 0;)
		at += cobs_decode(&d, bytes + at, n - at, &record, &len);
	if (len != sizeof(struct record_hello))
		abort();
	memcpy(nonce, record + 2, LINK_NONCE);
	link_sent(l, n);
}

static void feed_http2(struct link *l, const uint8_t *bytes, size_t len, size_t step, bool read, bool client)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
	const size_t settings = 9, first = client ? settings : sizeof(preface) - 1;
	struct record_hello h = { .kind = RECORD_HELLO, .version = LINK_VERSION, .nonce = { 1 } };
	uint8_t wire[LINK_RECORD_MAX], plain[RECORD_PLAIN_MAX];
	uint8_t *body = plain + sizeof(struct record_data_head);
	uint32_t number = 0;

	if (client) {
		nonce_take(l, h.nonce);
		h.kind = RECORD_ACK;
	}
	feed(l, wire, cobs_encode((uint8_t *)&h, sizeof(h), wire), sizeof(wire), read);
	if (!link_is_up(l))
		abort();
	memcpy(body, preface + sizeof(preface) - 1 - first, first);
	for (size_t n = first; n > 0;) {
		size_t sealed = record_data_seal(plain, n, h.nonce + LINK_NONCE - LINK_TAG, number++);

		feed(l, wire, cobs_encode(plain, sealed, wire), sizeof(wire), read);
		n = len < step ? len : step;
		memcpy(body, bytes, n);
		bytes += n;
		len -= n;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct link *l;
	bool client;
	size_t step;

	if (size < 2)
		return 0;
	live = 0;
	client = data[0] & 4;
	l = link_new(client ? LINK_CLIENT : LINK_SERVER, client ? &client_link : &server_link, NULL);
	if (!l)
		return 0;
	link_hello(l);
	step = (data[0] >> 3) ? (size_t)(data[0] >> 3) * 8 : 4096;
	if (data[0] & 1)
		feed(l, data + 1, size - 1, step, !(data[0] & 2));
	else
		feed_http2(l, data + 1, size - 1, step, !(data[0] & 2), client);
	link_free(l);
	if (live)
		abort();
	return 0;
}
