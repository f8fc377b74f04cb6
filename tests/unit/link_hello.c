/* UNIT: kernels/link LIBS: -lnghttp2 -luv */
/* Sessions: the HELLO exchange over a wire with stale, lost and torn bytes, and
 * how each side learns that the other has lost the session. */
#include "link/cobs.h"
#include "link/limits.h"
#include "link/record.h"
#include "tests/unit/link_pair.h"

static void request_none(struct link *l, struct link_stream *st, const struct link_request *rq, void *arg)
{
	(void)l, (void)rq, (void)arg;
	link_reset(st);
}

static void begin(struct pair *p)
{
	memset(p, 0, sizeof(*p));
	p->server.request = request_none;
	pair_init(p);
}

/* What l has to send, into buf. */
static size_t take(struct link *l, uint8_t *buf, size_t max)
{
	size_t len = 0;
	const uint8_t *bytes;

	for (size_t n; (n = link_pending(l, &bytes)) > 0;) {
		CHECK(len + n <= max);
		memcpy(buf + len, bytes, n);
		len += n;
		link_sent(l, n);
	}
	return len;
}

static void test_hello_is_repeated_until_answered(void)
{
	uint8_t buf[1024];
	struct pair p;

	begin(&p);
	link_hello(p.client.l);
	CHECK(take(p.client.l, buf, sizeof(buf)) > 0);
	CHECK_INT(take(p.client.l, buf, sizeof(buf)), 0);
	pair_tick(&p, LINK_HELLO_INTERVAL_MS - 1);
	CHECK_INT(take(p.client.l, buf, sizeof(buf)), 0);
	for (int i = 0; i < 10; i++) {
		pair_tick(&p, 1000);
		CHECK(take(p.client.l, buf, sizeof(buf)) > 0);
	}
	pair_tick(&p, 1000);
	pair_run(&p);
	CHECK(link_is_up(p.client.l) && link_is_up(p.server.l));
	CHECK(p.client.ups == 1 && p.server.ups == 1);
	pair_free(&p);
}

/* An answer that is lost: the repeated HELLO is the same, the session stays. */
static void test_lost_ack(void)
{
	uint8_t buf[64 * 1024];
	struct pair p;

	begin(&p);
	link_hello(p.client.l);
	pair_move(p.client.l, p.server.l, SIZE_MAX);
	CHECK(take(p.server.l, buf, sizeof(buf)) > 0);
	CHECK(link_is_up(p.server.l) && !link_is_up(p.client.l));
	pair_tick(&p, 1000);
	pair_run(&p);
	/* The server's first records went with the ACK: one more round finds out. */
	for (int i = 0; i < 10 && p.client.ups < 2; i++) {
		pair_tick(&p, LINK_PING_INTERVAL_MS);
		pair_run(&p);
	}
	CHECK(link_is_up(p.client.l) && link_is_up(p.server.l));
	CHECK_INT(p.client.ups, 2);
	pair_free(&p);
}

/* All that an older session left on the wire, in both directions, is ignored. */
static void test_stale_bytes(void)
{
	static uint8_t old_down[256 * 1024], old_up[256 * 1024];
	struct pair p;
	size_t down, up;

	begin(&p);
	link_hello(p.client.l);
	up = take(p.client.l, old_up, sizeof(old_up));
	link_receive(p.server.l, old_up, up);
	down = take(p.server.l, old_down, sizeof(old_down));
	link_receive(p.client.l, old_down, down);
	up += take(p.client.l, old_up + up, sizeof(old_up) - up);
	for (size_t cut = 0; cut <= 40; cut++) {
		size_t from_up = up * cut / 40, from_down = down * cut / 40;
		unsigned ups = p.client.ups;

		link_hello(p.client.l);
		pair_tick(&p, 1000);
		link_receive(p.server.l, old_up, from_up);
		link_receive(p.client.l, old_down, from_down);
		pair_run(&p);
		pair_tick(&p, 1000);
		pair_run(&p);
		CHECK(link_is_up(p.client.l) && link_is_up(p.server.l));
		CHECK(p.client.ups > ups);
		/* And once more in the middle of the session. */
		link_receive(p.client.l, old_down + from_down, down - from_down);
		link_receive(p.server.l, old_up + from_up, up - from_up);
		pair_run(&p);
		pair_tick(&p, 1000);
		pair_run(&p);
		CHECK(link_is_up(p.client.l) && link_is_up(p.server.l));
	}
	pair_free(&p);
}

static void test_new_hello_replaces_the_session(void)
{
	struct pair p;

	begin(&p);
	link_hello(p.client.l);
	pair_run(&p);
	link_free(p.client.l);
	p.client.l = link_new(LINK_CLIENT, &end_ops, &p.client);
	pair_tick(&p, 1000);
	link_hello(p.client.l);
	pair_run(&p);
	CHECK(link_is_up(p.client.l) && link_is_up(p.server.l));
	CHECK(p.server.ups == 2 && p.server.downs == 1);
	CHECK_STR(p.server.why, "the other side opened a new session");
	pair_free(&p);
}

/* A server without the session (a clone, a restart) says so at once. */
static void test_server_that_forgot(void)
{
	struct pair p;

	begin(&p);
	link_hello(p.client.l);
	pair_run(&p);
	link_free(p.server.l);
	p.server.l = link_new(LINK_SERVER, &end_ops, &p.server);
	pair_tick(&p, LINK_PING_INTERVAL_MS);
	pair_run(&p);
	CHECK(link_is_up(p.client.l) && link_is_up(p.server.l));
	CHECK(p.client.ups == 2);
	CHECK_STR(p.client.why, "the other side dropped the session");
	pair_free(&p);
}

static void test_server_drop_reaches_the_client(void)
{
	struct pair p;

	begin(&p);
	link_hello(p.client.l);
	pair_run(&p);
	pair_tick(&p, 1000);
	link_drop(p.server.l, "for a test");
	CHECK(!link_was_broken(p.server.l));
	CHECK(!link_is_up(p.server.l));
	pair_run(&p);
	CHECK(link_is_up(p.client.l) && link_is_up(p.server.l));
	CHECK(p.client.ups == 2 && p.server.ups == 2);
	pair_free(&p);
}

static void test_silence_ends_the_session(void)
{
	uint8_t buf[64 * 1024];
	struct pair p;
	unsigned ms = 0;

	begin(&p);
	link_hello(p.client.l);
	pair_run(&p);
	for (int i = 0; i < 20; i++) { /* a quiet minute and more is no silence: PINGs */
		pair_tick(&p, LINK_PING_INTERVAL_MS);
		pair_run(&p);
	}
	CHECK(p.client.downs == 0 && p.server.downs == 0);
	for (; p.client.downs == 0; ms += 1000) {
		CHECK(ms < 60 * 1000);
		pair_tick(&p, 1000);
		take(p.client.l, buf, sizeof(buf));
	}
	CHECK(ms >= LINK_PING_TIMEOUT_MS && ms <= LINK_PING_TIMEOUT_MS + LINK_PING_INTERVAL_MS);
	CHECK_STR(p.client.why, "the other side gave no sign of life for 20 s");
	CHECK_INT(p.server.downs, 1);
	pair_tick(&p, 1000);
	pair_run(&p);
	CHECK(link_is_up(p.client.l) && link_is_up(p.server.l));
	pair_free(&p);
}

/* A process that was stopped for an hour asks before it gives up. */
static void test_a_jump_of_the_clock_is_no_silence(void)
{
	struct pair p;

	begin(&p);
	link_hello(p.client.l);
	pair_run(&p);
	pair_tick(&p, LINK_PING_INTERVAL_MS); /* PINGs are under way */
	pair_tick(&p, 3600 * 1000);
	pair_run(&p);
	pair_tick(&p, 1000);
	CHECK(p.client.downs == 0 && p.server.downs == 0);
	pair_free(&p);
}

/* The server's own record of a session, as a peer of another version would send it. */
static void test_other_version_is_told_once(void)
{
	uint8_t buf[1024], wire[64], ack[64];
	const uint8_t *record;
	static struct cobs_decoder d;
	size_t len, n, record_len;
	struct pair p;

	begin(&p);
	link_hello(p.client.l);
	len = take(p.client.l, buf, sizeof(buf));
	n = cobs_decode(&d, buf, len, &record, &record_len);
	cobs_decode(&d, buf + n, len - n, &record, &record_len);
	CHECK_INT(record_len, sizeof(struct record_hello));
	memcpy(ack, record, record_len);
	ack[0] = RECORD_ACK;
	ack[1] = 9;
	n = cobs_encode(ack, record_len, wire);
	link_receive(p.client.l, wire, n);
	link_receive(p.client.l, wire, n);
	CHECK(p.client.downs == 1 && p.client.ups == 0);
	CHECK(strstr(p.client.why, "version 9"));

	ack[0] = RECORD_HELLO;
	n = cobs_encode(ack, record_len, wire);
	link_receive(p.server.l, wire, n);
	CHECK(!link_is_up(p.server.l));
	CHECK(take(p.server.l, buf, sizeof(buf)) > 0);
	pair_free(&p);
}

/* A client that asks for session after session gets a few per interval. */
static void test_hello_flood_is_bounded(void)
{
	struct record_hello h = { .kind = RECORD_HELLO, .version = LINK_VERSION };
	uint8_t wire[64];
	struct pair p;

	begin(&p);
	for (unsigned i = 0; i < 10000; i++) {
		memcpy(h.nonce, &i, sizeof(i));
		link_receive(p.server.l, wire, cobs_encode((uint8_t *)&h, sizeof(h), wire));
	}
	CHECK(p.server.ups <= 16);
	pair_tick(&p, 1000);
	link_hello(p.client.l);
	pair_run(&p);
	CHECK(link_is_up(p.client.l) && link_is_up(p.server.l));
	pair_free(&p);
}

/* Broken HTTP/2 in a sound record: told apart from a lost link. */
static void test_broken_http2_is_eproto(void)
{
	struct record_hello h = { .kind = RECORD_HELLO, .version = LINK_VERSION, .nonce = { 1, 2, 3 } };
	uint8_t wire[1024], plain[256];
	struct pair p;
	size_t n;

	begin(&p);
	link_receive(p.server.l, wire, cobs_encode((uint8_t *)&h, sizeof(h), wire));
	CHECK(link_is_up(p.server.l));
	memset(plain, 'x', sizeof(plain));
	n = record_data_seal(plain, 100, h.nonce + LINK_NONCE - LINK_TAG, 0);
	CHECK_INT(link_receive(p.server.l, wire, cobs_encode(plain, n, wire)), -EPROTO);
	CHECK(!link_is_up(p.server.l) && p.server.downs == 1);
	CHECK(strstr(p.server.why, "broke HTTP/2"));
	CHECK(link_was_broken(p.server.l));
	link_hello(p.client.l);
	pair_run(&p);
	CHECK(link_is_up(p.client.l) && link_is_up(p.server.l));
	pair_free(&p);
}

int main(void)
{
	test_hello_is_repeated_until_answered();
	test_lost_ack();
	test_stale_bytes();
	test_new_hello_replaces_the_session();
	test_server_that_forgot();
	test_server_drop_reaches_the_client();
	test_silence_ends_the_session();
	test_a_jump_of_the_clock_is_no_silence();
	test_other_version_is_told_once();
	test_hello_flood_is_bounded();
	test_broken_http2_is_eproto();
	return 0;
}
