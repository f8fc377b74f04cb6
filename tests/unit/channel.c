/* UNIT: kernels/link LIBS: -lnghttp2 -luv */
/* Channels over a pair of links: order, acknowledgement, replay, bounds, gaps,
 * restarts of one side, pauses, and peers that break the framing. */
#include "link/channel.h"
#include "link/frame.h"
#include "link/le.h"
#include "link/retain.h"
#include "tests/unit/link_pair.h"

struct user {
	struct channel *c;
	uint64_t got, gaps, gap_first, gap_last, gap_frames, gap_bytes;
	uint64_t renumbered_from, renumbered_by, delivered;
	unsigned attached, detached, drained;
	int err, status;
	uint8_t last[64];
	size_t last_len;
	bool ack, pause_each, free_in_frame, bad;
};

static void on_frame(struct channel *c, uint8_t type, uint64_t seq, const uint8_t *payload, size_t len,
		     void *arg)
{
	struct user *u = arg;

	(void)type;
	u->bad |= seq != channel_received(c);
	u->got++;
	u->last_len = len;
	memcpy(u->last, payload, len < sizeof(u->last) ? len : sizeof(u->last));
	if (u->free_in_frame) {
		u->c = NULL;
		channel_free(c);
		u->bad |= len && payload[len - 1] != 'z';
		return;
	}
	if (u->ack)
		channel_ack(c, seq);
	if (u->pause_each)
		channel_pause(c, true);
}

static void on_gap(struct channel *c, uint64_t first, uint64_t last, uint64_t frames, uint64_t bytes,
		   void *arg)
{
	struct user *u = arg;

	(void)c;
	u->gaps++;
	u->gap_first = first;
	u->gap_last = last;
	u->gap_frames += frames;
	u->gap_bytes += bytes;
	if (u->ack)
		channel_ack(c, last);
}

static void on_drained(struct channel *c, void *arg)
{
	struct user *u = arg;

	u->bad |= channel_full(c);
	u->drained++;
}

static void on_attached(struct channel *c, void *arg)
{
	struct user *u = arg;

	u->bad |= !channel_is_attached(c);
	u->attached++;
	u->delivered = channel_delivered(c);
}

static void on_renumbered(struct channel *c, uint64_t from, uint64_t by, void *arg)
{
	struct user *u = arg;

	(void)c;
	u->renumbered_from = from;
	u->renumbered_by = by;
}

static void on_detached(struct channel *c, int err, int status, void *arg)
{
	struct user *u = arg;

	u->bad |= channel_is_attached(c);
	u->detached++;
	u->err = err;
	u->status = status;
}

static const struct channel_ops user_ops = {
	.frame = on_frame,
	.gap = on_gap,
	.drained = on_drained,
	.attached = on_attached,
	.renumbered = on_renumbered,
	.detached = on_detached,
};

struct scene {
	struct pair p;
	struct user client, server;
	int refuse; /* the server's status instead of the channel */
};

static void serve(struct link *l, struct link_stream *st, const struct link_request *rq, void *arg)
{
	struct scene *s = arg;

	(void)l, (void)rq;
	if (!s->refuse) {
		CHECK_INT(channel_accept(s->server.c, st), 0);
		return;
	}
	CHECK_INT(link_respond(st, s->refuse, NULL, 0), 0);
	link_end(st);
}

static void begin(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	s->p.server.request = serve;
	s->p.server.arg = s;
	pair_open(&s->p);
	s->client.c = channel_new(CHANNEL_REFUSE, &user_ops, &s->client);
	s->server.c = channel_new(CHANNEL_DROP_MIDDLE, &user_ops, &s->server);
	s->client.ack = s->server.ack = true;
}

static void attach(struct scene *s)
{
	CHECK_INT(channel_connect(s->client.c, s->p.client.l, "/channel"), 0);
	pair_settle(&s->p);
}

static void cut(struct scene *s)
{
	link_drop(s->p.client.l, "cut");
	pair_tick(&s->p, 1000);
	pair_settle(&s->p);
	CHECK(link_is_up(s->p.client.l));
	CHECK(!channel_is_attached(s->client.c) && !channel_is_attached(s->server.c));
}

static void end(struct scene *s)
{
	CHECK(!s->client.bad && !s->server.bad);
	channel_free(s->client.c);
	channel_free(s->server.c);
	pair_free(&s->p);
}

static void fill(struct channel *c, unsigned frames, size_t size, bool keep)
{
	static uint8_t payload[CHANNEL_FRAME_MAX];

	for (unsigned i = 0; i < frames; i++)
		CHECK(channel_send(c, 'J', keep, payload, size) > 0);
}

static void test_frames_both_ways(void)
{
	struct scene s;

	begin(&s);
	CHECK_INT(channel_send(s.client.c, 'J', false, "before", 6), 1);
	attach(&s);
	CHECK(s.client.attached == 1 && s.server.attached == 1);
	CHECK_INT(channel_send(s.server.c, 'O', false, "down", 4), 1);
	CHECK_INT(channel_send(s.client.c, 'J', false, "", 0), 2);
	pair_settle(&s.p);
	CHECK(s.server.got == 2 && s.client.got == 1);
	CHECK(s.client.last_len == 4 && memcmp(s.client.last, "down", 4) == 0);
	CHECK(channel_acked(s.client.c) == 2 && channel_acked(s.server.c) == 1);
	CHECK_INT(channel_send(s.client.c, 'A', false, "", 0), -EINVAL);
	CHECK_INT(channel_send(s.client.c, 'J', false, "", CHANNEL_FRAME_MAX + 1), -EMSGSIZE);
	end(&s);
}

static void test_largest_frame(void)
{
	struct scene s;

	begin(&s);
	attach(&s);
	fill(s.server.c, 1, CHANNEL_FRAME_MAX, false);
	CHECK(channel_full(s.server.c));
	pair_settle(&s.p);
	CHECK(s.client.got == 1 && s.client.last_len == CHANNEL_FRAME_MAX);
	CHECK(!channel_full(s.server.c) && s.server.drained == 1);
	end(&s);
}

/* Received and not acknowledged: kept, not sent twice to a peer that has it. */
static void test_replay(void)
{
	struct scene s;

	begin(&s);
	s.client.ack = false;
	attach(&s);
	fill(s.server.c, 10, 100, false);
	pair_settle(&s.p);
	CHECK(s.client.got == 10 && channel_acked(s.server.c) == 0);
	cut(&s);
	CHECK(s.client.detached == 1 && s.client.err == -ECONNRESET && s.client.status == 0);
	fill(s.server.c, 5, 100, false);
	attach(&s);
	CHECK(s.client.got == 15 && s.client.gaps == 0);
	CHECK_INT(channel_delivered(s.server.c), 10);
	channel_ack(s.client.c, 99);
	pair_settle(&s.p);
	CHECK_INT(channel_acked(s.server.c), 15);
	end(&s);
}

/* The receiver died with frames it had not stored: they come again. */
static void test_receiver_restarts(void)
{
	struct scene s;

	begin(&s);
	s.client.ack = false;
	attach(&s);
	fill(s.server.c, 10, 100, false);
	pair_settle(&s.p);
	channel_ack(s.client.c, 4);
	pair_settle(&s.p);
	channel_free(s.client.c);
	s.client = (struct user){ .c = channel_new(CHANNEL_REFUSE, &user_ops, &s.client), .ack = true };
	channel_restore(s.client.c, 6, 0);
	attach(&s);
	CHECK(s.client.got == 4 && s.client.gaps == 0 && channel_received(s.client.c) == 10);
	CHECK_INT(channel_acked(s.server.c), 10);

	/* What was acknowledged and forgotten all the same is reported. */
	channel_free(s.client.c);
	s.client = (struct user){ .c = channel_new(CHANNEL_REFUSE, &user_ops, &s.client), .ack = true };
	channel_restore(s.client.c, 7, 0);
	attach(&s);
	CHECK(s.client.gaps == 1 && s.client.gap_first == 8 && s.client.gap_last == 10);

	/* But a channel that starts anew has lost nothing. */
	channel_free(s.client.c);
	s.client = (struct user){ .c = channel_new(CHANNEL_REFUSE, &user_ops, &s.client), .ack = true };
	attach(&s);
	fill(s.server.c, 1, 1, false);
	pair_settle(&s.p);
	CHECK(s.client.gaps == 0 && s.client.got == 1 && channel_received(s.client.c) == 11);
	end(&s);
}

/* A sender that forgot its numbers goes on behind what the peer has. */
static void test_sender_restarts(void)
{
	struct scene s;

	begin(&s);
	attach(&s);
	fill(s.client.c, 10, 100, false);
	pair_settle(&s.p);
	channel_free(s.client.c);
	s.client = (struct user){ .c = channel_new(CHANNEL_REFUSE, &user_ops, &s.client), .ack = true };
	channel_restore(s.client.c, 0, 7);
	CHECK_INT(channel_send(s.client.c, 'J', false, "waits", 5), 8);
	attach(&s);
	CHECK(s.client.renumbered_from == 8 && s.client.renumbered_by == 3);
	CHECK(s.server.got == 11 && channel_received(s.server.c) == 11);
	CHECK(channel_sent(s.client.c) == 11 && channel_delivered(s.client.c) == 11);

	/* And what it numbered, and neither side has, is a gap. */
	channel_free(s.client.c);
	s.client = (struct user){ .c = channel_new(CHANNEL_REFUSE, &user_ops, &s.client), .ack = true };
	channel_restore(s.client.c, 0, 14);
	attach(&s);
	CHECK_INT(s.client.delivered, 11);
	CHECK(s.server.gaps == 1 && s.server.gap_first == 12 && s.server.gap_last == 14);
	fill(s.client.c, 1, 1, false);
	pair_settle(&s.p);
	CHECK_INT(s.server.got, 12);
	end(&s);
}

static void test_attached_sender_is_told_when_full(void)
{
	struct scene s;

	begin(&s);
	s.client.ack = false;
	attach(&s);
	while (!channel_full(s.server.c))
		fill(s.server.c, 1, 10000, false);
	CHECK(channel_sent(s.server.c) * 10000 <= CHANNEL_RETAIN_MAX + 10000);
	pair_settle(&s.p);
	CHECK(channel_full(s.server.c) && s.server.drained == 0);
	channel_ack(s.client.c, channel_received(s.client.c));
	pair_settle(&s.p);
	CHECK(!channel_full(s.server.c) && s.server.drained == 1);
	CHECK_INT(s.client.gaps, 0);
	end(&s);
}

static void test_drop_middle_is_one_gap(void)
{
	struct scene s;
	const unsigned frames = 5000;
	const size_t size = 10000;

	begin(&s);
	fill(s.server.c, frames, size, false);
	CHECK(!channel_full(s.server.c));
	attach(&s);
	CHECK(s.client.gaps == 1 && s.client.got + s.client.gap_frames == frames);
	CHECK_INT(s.client.gap_frames, s.client.gap_last - s.client.gap_first + 1);
	CHECK_INT(s.client.gap_bytes, s.client.gap_frames * size);
	CHECK(s.client.got * size > CHANNEL_RETAIN_MAX - 4 * size &&
	      s.client.got * size <= CHANNEL_RETAIN_MAX);
	CHECK(s.client.gap_first * size > CHANNEL_RETAIN_MAX / 2 - 2 * size);
	CHECK(s.client.gap_first * size <= CHANNEL_RETAIN_MAX / 2 + size);
	CHECK_INT(channel_acked(s.server.c), frames);
	end(&s);
}

static void test_kept_frames_are_not_dropped(void)
{
	struct scene s;
	unsigned kept = 0;

	begin(&s);
	for (unsigned i = 0; i < 5000; i++) {
		fill(s.server.c, 1, 10000, false);
		if (i % 100 == 0) {
			fill(s.server.c, 1, 10, true);
			kept++;
		}
	}
	attach(&s);
	CHECK(s.client.gaps > 1 && s.client.gaps <= kept + 1);
	CHECK_INT(s.client.got + s.client.gap_frames, 5000 + kept);
	CHECK_INT(s.client.gap_bytes, s.client.gap_frames * 10000);
	end(&s);
}

/* Only kept frames: the sender is stopped at a bound, and goes on later. */
static void test_kept_frames_are_bounded(void)
{
	static uint8_t payload[100 * 1000];
	struct scene s;
	int64_t n = 0;

	begin(&s);
	for (int i = 0; i < 1000 && n >= 0; i++)
		n = channel_send(s.server.c, 'S', true, payload, sizeof(payload));
	CHECK_INT(n, -EAGAIN);
	CHECK(channel_full(s.server.c));
	CHECK(channel_sent(s.server.c) * sizeof(payload) <= CHANNEL_RETAIN_MAX + CHANNEL_FRAME_MAX);
	attach(&s);
	CHECK(s.client.got == channel_sent(s.server.c) && s.server.drained == 1);
	end(&s);
}

/* Frames the peer may have got before the cut, dropped here since: only what it
 * truly lacks is reported, to the byte. */
static void test_gap_over_delivered_frames(void)
{
	struct scene s;
	uint64_t had;

	begin(&s);
	s.client.ack = false;
	attach(&s);
	while (!channel_full(s.server.c))
		fill(s.server.c, 1, 10000, false);
	while (s.client.got < 250)
		CHECK(pair_move(s.p.server.l, s.p.client.l, 5000) +
		      pair_move(s.p.client.l, s.p.server.l, 5000));
	had = s.client.got;
	cut(&s);
	CHECK(s.server.drained == 1 && !channel_full(s.server.c));
	fill(s.server.c, 2000, 10000, false);
	s.client.ack = true;
	attach(&s);
	CHECK(s.client.gaps == 1 && s.client.gap_first == had + 1);
	CHECK_INT(s.client.gap_frames, s.client.gap_last - had);
	CHECK_INT(s.client.gap_bytes, s.client.gap_frames * 10000);
	CHECK_INT(s.client.got + s.client.gap_frames, channel_sent(s.server.c));
	end(&s);
}

static void test_huge_frame_while_detached_does_not_stay(void)
{
	struct scene s;

	begin(&s);
	fill(s.server.c, 1, CHANNEL_FRAME_MAX, false);
	fill(s.server.c, 3, 10, false);
	CHECK(!channel_full(s.server.c));
	attach(&s);
	CHECK(s.client.gaps == 1 && s.client.gap_bytes == CHANNEL_FRAME_MAX && s.client.got == 3);
	end(&s);
}

static void test_refuse(void)
{
	static uint8_t payload[10000];
	struct scene s;
	int64_t n;

	begin(&s);
	while ((n = channel_send(s.client.c, 'J', false, payload, sizeof(payload))) > 0)
		;
	CHECK_INT(n, -EAGAIN);
	CHECK(channel_full(s.client.c));
	CHECK(channel_sent(s.client.c) * sizeof(payload) <= CHANNEL_RETAIN_MAX + sizeof(payload));
	attach(&s);
	CHECK(s.server.got == channel_sent(s.client.c) && s.client.drained == 1);
	end(&s);
}

/* Paused, bytes wait in the peer beyond one window; nothing is lost. */
static void test_pause(void)
{
	struct scene s;

	begin(&s);
	attach(&s);
	channel_pause(s.client.c, true);
	fill(s.server.c, 300, 10000, false);
	pair_settle(&s.p);
	CHECK_INT(s.client.got, 0);
	channel_pause(s.client.c, false);
	pair_settle(&s.p);
	CHECK_INT(s.client.got, 300);

	s.client.pause_each = true;
	fill(s.server.c, 300, 1000, false);
	pair_settle(&s.p);
	for (int i = 301; i < 600; i++) {
		CHECK_INT(s.client.got, i);
		channel_pause(s.client.c, false);
		pair_settle(&s.p);
	}
	CHECK_INT(s.client.got, 600);
	end(&s);
}

static void test_refused_by_the_server(void)
{
	struct scene s;

	begin(&s);
	s.refuse = 404;
	attach(&s);
	CHECK(s.client.detached == 1 && s.client.status == 404 && s.client.err == -ECONNREFUSED);
	CHECK_INT(s.client.attached, 0);
	end(&s);
}

static void test_second_stream_replaces_the_first(void)
{
	struct scene s;

	begin(&s);
	attach(&s);
	fill(s.server.c, 3, 10, false);
	attach(&s);
	CHECK(s.client.got == 3 && s.client.attached == 2 && s.client.detached == 0);
	CHECK(s.server.attached == 2 && s.server.detached <= 1 && channel_is_attached(s.server.c));
	end(&s);
}

static void test_free_inside_a_frame(void)
{
	uint8_t big[70 * 1000];
	struct scene s;

	begin(&s);
	memset(big, 'z', sizeof(big));
	attach(&s);
	s.client.free_in_frame = true;
	CHECK(channel_send(s.server.c, 'J', false, big, sizeof(big)) > 0);
	CHECK(channel_send(s.server.c, 'J', false, big, sizeof(big)) > 0);
	pair_settle(&s.p);
	CHECK(s.client.c == NULL && s.client.got == 1);
	CHECK(s.server.detached == 1 && s.server.err == -ECANCELED);
	end(&s);
}

static size_t raw_frame(uint8_t *out, uint8_t type, uint64_t seq, const void *payload, size_t len)
{
	struct frame_head head;

	frame_head_put(&head, type, seq, len);
	memcpy(out, &head, sizeof(head));
	memcpy(out + sizeof(head), payload, len);
	return sizeof(head) + len;
}

/* Sends bytes as a client's channel would; returns how the server's took it. */
static int break_by(const uint8_t *bytes, size_t len)
{
	static const struct link_stream_ops nobody;
	struct link_stream *st;
	struct scene s;
	int err;

	begin(&s);
	fill(s.server.c, 1, 10, false);
	CHECK_INT(link_open(s.p.client.l, "POST", "/channel", true, &nobody, NULL, &st), 0);
	CHECK_INT(link_write(st, bytes, len), len);
	pair_settle(&s.p);
	err = s.server.detached ? s.server.err : 0;
	CHECK(link_is_up(s.p.client.l));
	end(&s);
	return err;
}

static void test_broken_peers(void)
{
	uint8_t u64[8] = { 0 }, b[256];
	struct frame_gap gap = { 0 };
	size_t hello = raw_frame(b, 'H', 0, u64, 8);

	CHECK_INT(break_by(b, hello), 0);
	CHECK_INT(break_by(b, hello + raw_frame(b + hello, 'J', 1, "x", 1)), 0);
	CHECK_INT(break_by(b, hello + raw_frame(b + hello, 'J', 2, "x", 1)), -EPROTO);
	CHECK_INT(break_by(b, hello + raw_frame(b + hello, 'J', 0, "x", 1)), -EPROTO);
	CHECK_INT(break_by(b, hello + raw_frame(b + hello, 'H', 0, u64, 8)), -EPROTO);
	CHECK_INT(break_by(b + hello, raw_frame(b + hello, 'J', 1, "x", 1)), -EPROTO);
	le64_put(u64, 1);
	CHECK_INT(break_by(b, hello + raw_frame(b + hello, 'A', 0, u64, 8)), 0);
	le64_put(u64, 2);
	CHECK_INT(break_by(b, hello + raw_frame(b + hello, 'A', 0, u64, 8)), -EPROTO);
	CHECK_INT(break_by(b, hello + raw_frame(b + hello, 'A', 0, u64, 7)), -EPROTO);
	le64_put(u64, UINT64_MAX);
	CHECK_INT(break_by(b + hello, raw_frame(b + hello, 'H', 0, u64, 8)), -EPROTO);

	le64_put(gap.first, 1);
	le64_put(gap.frames, 5);
	CHECK_INT(break_by(b, hello + raw_frame(b + hello, 'G', 5, &gap, sizeof(gap))), 0);
	CHECK_INT(break_by(b, hello + raw_frame(b + hello, 'G', 4, &gap, sizeof(gap))), -EPROTO);
	le64_put(gap.first, 2);
	CHECK_INT(break_by(b, hello + raw_frame(b + hello, 'G', 6, &gap, sizeof(gap))), -EPROTO);
	le64_put(gap.first, 1);
	CHECK_INT(break_by(b, hello + raw_frame(b + hello, 'G', UINT64_MAX, &gap, sizeof(gap))), -EPROTO);

	le32_put(b, FRAME_AFTER_LEN + CHANNEL_FRAME_MAX + 1);
	CHECK_INT(break_by(b, hello), -EPROTO);
	le32_put(b, FRAME_AFTER_LEN - 1);
	CHECK_INT(break_by(b, hello), -EPROTO);
}

/* A length of 16 MiB that is only promised costs nothing. */
static void test_promised_length_is_not_allocated(void)
{
	struct frame_reader r = { 0 };
	struct frame_head head;
	struct frame f;
	uint8_t some[100] = { 0 };
	int whole;

	frame_head_put(&head, 'J', 1, CHANNEL_FRAME_MAX);
	CHECK_INT(frame_read(&r, (uint8_t *)&head, sizeof(head), &whole, &f), sizeof(head));
	CHECK_INT(frame_read(&r, some, sizeof(some), &whole, &f), sizeof(some));
	CHECK(!whole && r.cap <= 4096);
	frame_reader_reset(&r);
}

int main(void)
{
	test_frames_both_ways();
	test_largest_frame();
	test_replay();
	test_receiver_restarts();
	test_sender_restarts();
	test_attached_sender_is_told_when_full();
	test_drop_middle_is_one_gap();
	test_kept_frames_are_not_dropped();
	test_kept_frames_are_bounded();
	test_gap_over_delivered_frames();
	test_huge_frame_while_detached_does_not_stay();
	test_refuse();
	test_pause();
	test_refused_by_the_server();
	test_second_stream_replaces_the_first();
	test_free_inside_a_frame();
	test_broken_peers();
	test_promised_length_is_not_allocated();
	return 0;
}
