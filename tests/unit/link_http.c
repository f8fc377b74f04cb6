/* UNIT: kernels/link LIBS: -lnghttp2 -luv */
/* Requests and answers over a pair of links: bodies both ways under flow
 * control, resets, early answers, limits, and closed() exactly once. */
#include "link/limits.h"
#include "tests/unit/link_pair.h"

/* One end of a stream and what happened to it. */
struct side {
	struct link_stream *st;
	int status, closed, err;
	bool eof, hold; /* hold: do not consume */
	size_t got, held, want, put;
	bool bad;
};

static uint8_t pattern(size_t at)
{
	return (uint8_t)(at * 31 + at / 251);
}

static void side_push(struct side *s)
{
	uint8_t buf[5000];

	while (s->put < s->want) {
		size_t n = s->want - s->put < sizeof(buf) ? s->want - s->put : sizeof(buf), took;

		for (size_t i = 0; i < n; i++)
			buf[i] = pattern(s->put + i);
		took = link_write(s->st, buf, n);
		s->put += took;
		if (took < n)
			return;
	}
	link_end(s->st);
}

static void on_response(struct link_stream *st, int status, void *arg)
{
	struct side *s = arg;

	(void)st;
	s->status = status;
}

static void on_data(struct link_stream *st, const uint8_t *bytes, size_t len, void *arg)
{
	struct side *s = arg;

	for (size_t i = 0; i < len; i++)
		s->bad |= bytes[i] != pattern(s->got + i);
	s->got += len;
	if (s->hold)
		s->held += len;
	else
		link_consume(st, len);
}

static void on_eof(struct link_stream *st, void *arg)
{
	struct side *s = arg;

	(void)st;
	CHECK(!s->eof);
	s->eof = true;
}

static void on_writable(struct link_stream *st, void *arg)
{
	struct side *s = arg;

	(void)st;
	side_push(s);
}

static void on_closed(struct link_stream *st, int err, void *arg)
{
	struct side *s = arg;

	CHECK(st == s->st);
	s->closed++;
	s->err = err;
	s->st = NULL;
}

static const struct link_stream_ops side_ops = {
	.response = on_response,
	.data = on_data,
	.eof = on_eof,
	.writable = on_writable,
	.closed = on_closed,
};

static struct side server_side, *serving = &server_side;
static char seen_method[16], seen_path[128], seen_query[128];
static int answer; /* 0: later */
static unsigned requests;
static bool unowned; /* many streams: nobody looks at the server's sides */

static void serve(struct link *l, struct link_stream *st, const struct link_request *rq, void *arg)
{
	(void)arg;
	CHECK(link_of(st) == l);
	requests++;
	if (unowned)
		return;
	snprintf(seen_method, sizeof(seen_method), "%s", rq->method);
	snprintf(seen_path, sizeof(seen_path), "%s", rq->path);
	snprintf(seen_query, sizeof(seen_query), "%s", rq->query);
	serving->st = st;
	serving->eof = false;
	serving->put = 0;
	link_stream_bind(st, &side_ops, serving);
	if (!answer)
		return;
	CHECK_INT(link_respond(st, answer, "text/plain", -1), 0);
	side_push(serving);
}

static void begin(struct pair *p, int status, size_t body)
{
	memset(p, 0, sizeof(*p));
	p->server.request = serve;
	pair_open(p);
	server_side = (struct side){ .want = body };
	answer = status;
}

static void test_request_and_response(void)
{
	struct pair p;
	struct side c = { 0 };

	begin(&p, 200, 5);
	CHECK_INT(link_open(p.client.l, "GET", "/files?path=a%20b", false, &side_ops, &c, &c.st), 0);
	pair_run(&p);
	CHECK_STR(seen_method, "GET");
	CHECK_STR(seen_path, "/files");
	CHECK_STR(seen_query, "path=a%20b");
	CHECK(c.status == 200 && c.got == 5 && c.eof && !c.bad);
	CHECK(c.closed == 1 && c.err == 0);
	CHECK(server_side.closed == 1 && server_side.err == 0 && server_side.eof);
	pair_free(&p);
}

static void test_large_bodies_both_ways(void)
{
	struct pair p;
	struct side c = { .want = 5 * 1000 * 1000 };

	begin(&p, 200, 7 * 1000 * 1000);
	CHECK_INT(link_open(p.client.l, "POST", "/echo", true, &side_ops, &c, &c.st), 0);
	side_push(&c);
	CHECK_INT(c.put, LINK_STREAM_BUFFER);
	pair_run(&p);
	CHECK(c.got == 7 * 1000 * 1000 && !c.bad && c.closed == 1 && c.err == 0);
	CHECK(server_side.got == 5 * 1000 * 1000 && !server_side.bad && server_side.err == 0);
	pair_free(&p);
}

/* Nothing consumed: the sender stops at the window, and goes on when it opens. */
static void test_flow_control_reaches_the_sender(void)
{
	struct pair p;
	struct side c = { .hold = true };

	begin(&p, 200, 3 * 1000 * 1000);
	CHECK_INT(link_open(p.client.l, "GET", "/big", false, &side_ops, &c, &c.st), 0);
	pair_run(&p);
	CHECK_INT(c.got, LINK_STREAM_WINDOW);
	CHECK(server_side.put <= LINK_STREAM_WINDOW + LINK_STREAM_BUFFER);
	while (!c.eof) {
		size_t n = c.held;

		c.held = 0;
		link_consume(c.st, n);
		pair_run(&p);
		CHECK(c.held <= LINK_STREAM_WINDOW);
	}
	CHECK(c.got == 3 * 1000 * 1000 && !c.bad);
	pair_free(&p);
}

/* Streams that are given up unconsumed give their share of the connection's window back. */
static void test_abandoned_streams_do_not_eat_the_window(void)
{
	struct pair p;

	begin(&p, 200, 300 * 1000);
	for (int i = 0; i < 40; i++) {
		struct side c = { .hold = true };

		server_side = (struct side){ .want = 300 * 1000 };
		CHECK_INT(link_open(p.client.l, "GET", "/", false, &side_ops, &c, &c.st), 0);
		pair_run(&p);
		CHECK_INT(c.got, LINK_STREAM_WINDOW);
		link_reset(c.st);
		CHECK_INT(c.closed, 0);
		pair_run(&p);
		CHECK(c.closed == 1 && c.err == -ECANCELED);
		CHECK(server_side.closed == 1 && server_side.err == -ECANCELED);
	}
	pair_free(&p);
}

/* However many readers are slow, the others go on. */
static void test_slow_streams_do_not_hold_others(void)
{
	enum { SLOW = 2 * LINK_CONNECTION_WINDOW / LINK_STREAM_WINDOW };
	struct side slow[SLOW], servers[SLOW], quick = { 0 };
	struct pair p;

	begin(&p, 200, 2 * LINK_STREAM_WINDOW);
	for (int i = 0; i < SLOW; i++) {
		slow[i] = (struct side){ .hold = true };
		servers[i] = (struct side){ .want = 2 * LINK_STREAM_WINDOW };
		serving = &servers[i];
		CHECK_INT(link_open(p.client.l, "GET", "/slow", false, &side_ops, &slow[i], &slow[i].st), 0);
		pair_run(&p);
		CHECK_INT(slow[i].got, LINK_STREAM_WINDOW);
	}
	serving = &server_side;
	server_side.want = 3 * LINK_CONNECTION_WINDOW;
	CHECK_INT(link_open(p.client.l, "GET", "/quick", false, &side_ops, &quick, &quick.st), 0);
	pair_run(&p);
	CHECK(quick.got == 3 * LINK_CONNECTION_WINDOW && quick.eof && !quick.bad);
	pair_free(&p);
}

/* An answer that ends before the request did stops the upload without an error. */
static void test_early_answer(void)
{
	struct pair p;
	struct side c = { .want = 4 * 1000 * 1000 };

	begin(&p, 409, 10);
	server_side.hold = true;
	CHECK_INT(link_open(p.client.l, "PUT", "/files", true, &side_ops, &c, &c.st), 0);
	side_push(&c);
	pair_run(&p);
	CHECK(c.status == 409 && c.got == 10 && c.closed == 1 && c.err == 0);
	CHECK(server_side.closed == 1 && server_side.err == 0);
	pair_free(&p);
}

static void test_answer_later_and_reset_by_server(void)
{
	struct pair p;
	struct side c = { 0 };

	begin(&p, 0, 3);
	CHECK_INT(link_open(p.client.l, "GET", "/slow", false, &side_ops, &c, &c.st), 0);
	pair_run(&p);
	CHECK(server_side.st && c.status == 0);
	CHECK_INT(link_respond(server_side.st, 201, NULL, 3), 0);
	CHECK_INT(link_respond(server_side.st, 201, NULL, 3), -EINVAL);
	side_push(&server_side);
	pair_run(&p);
	CHECK(c.status == 201 && c.got == 3 && c.err == 0);

	c = (struct side){ 0 };
	server_side = (struct side){ 0 };
	CHECK_INT(link_open(p.client.l, "GET", "/never", false, &side_ops, &c, &c.st), 0);
	pair_run(&p);
	link_reset(server_side.st);
	pair_run(&p);
	CHECK(c.closed == 1 && c.err == -ECANCELED && server_side.closed == 1);
	pair_free(&p);
}

static void test_limits(void)
{
	static struct side c[LINK_STREAMS_MAX + 1];
	static char path[LINK_PATH_MAX + 2];
	struct pair p;

	begin(&p, 0, 0);
	memset(path, 'a', sizeof(path) - 1);
	path[0] = '/';
	CHECK_INT(link_open(p.client.l, "GET", path, false, &side_ops, &c[0], &c[0].st), -EINVAL);
	CHECK_INT(link_open(p.client.l, "GET", "no-slash", false, &side_ops, &c[0], &c[0].st), -EINVAL);
	requests = 0;
	unowned = true;
	for (int i = 0; i < LINK_STREAMS_MAX; i++) {
		CHECK_INT(link_open(p.client.l, "GET", "/", false, &side_ops, &c[i], &c[i].st), 0);
		if (i % 50 == 0)
			pair_run(&p);
	}
	CHECK_INT(link_open(p.client.l, "GET", "/", false, &side_ops, &c[LINK_STREAMS_MAX],
			    &c[LINK_STREAMS_MAX].st),
		  -EAGAIN);
	pair_run(&p);
	CHECK_INT(requests, LINK_STREAMS_MAX);
	for (int i = 0; i < LINK_STREAMS_MAX; i++)
		CHECK_INT(c[i].closed, 0);
	unowned = false;
	pair_free(&p);
	for (int i = 0; i < LINK_STREAMS_MAX; i++)
		CHECK(c[i].closed == 1 && c[i].err == -ECONNRESET);
}

/* A callback that drops the link, resets and opens streams. */
static struct pair *inside;

static void on_data_drop(struct link_stream *st, const uint8_t *bytes, size_t len, void *arg)
{
	struct side *s = arg;

	(void)bytes;
	s->got += len;
	link_drop(inside->client.l, "enough");
	CHECK(!link_is_up(inside->client.l));
	CHECK_INT(link_open(inside->client.l, "GET", "/", false, &side_ops, s, &st), -ENOTCONN);
	CHECK_INT(link_receive(inside->client.l, (const uint8_t *)"", 1), -EBUSY);
}

static void test_drop_inside_a_callback(void)
{
	static const struct link_stream_ops ops = { .data = on_data_drop, .closed = on_closed };
	struct pair p;
	struct side c = { 0 };

	begin(&p, 200, 1000 * 1000);
	inside = &p;
	CHECK_INT(link_open(p.client.l, "GET", "/", false, &ops, &c, &c.st), 0);
	pair_run(&p);
	CHECK(c.closed == 1 && c.err == -ECONNRESET && c.got > 0 && c.got <= 16384);
	CHECK(p.client.downs == 1);
	CHECK_STR(p.client.why, "enough");
	pair_tick(&p, LINK_HELLO_INTERVAL_MS);
	pair_run(&p);
	CHECK(link_is_up(p.client.l) && link_is_up(p.server.l) && p.client.ups == 2 && p.server.ups == 2);
	CHECK(server_side.closed == 1 && server_side.err == -ECONNRESET);
	pair_free(&p);
}

static void on_closed_open(struct link_stream *st, int err, void *arg)
{
	struct side *s = arg;

	(void)st;
	s->closed++;
	s->err = err;
	if (s->want && s->closed < 5)
		CHECK_INT(link_open(inside->client.l, "GET", "/again", false,
				    &(struct link_stream_ops){ .closed = on_closed_open }, s, &s->st),
			  0);
}

static void test_open_inside_closed(void)
{
	struct pair p;
	struct side c = { .want = 1 };

	begin(&p, 200, 10);
	inside = &p;
	CHECK_INT(link_open(p.client.l, "GET", "/", false,
			    &(struct link_stream_ops){ .closed = on_closed_open }, &c, &c.st),
		  0);
	pair_run(&p);
	CHECK(c.closed == 5 && c.err == 0);
	pair_free(&p);
}

int main(void)
{
	test_request_and_response();
	test_large_bodies_both_ways();
	test_flow_control_reaches_the_sender();
	test_abandoned_streams_do_not_eat_the_window();
	test_slow_streams_do_not_hold_others();
	test_early_answer();
	test_answer_later_and_reset_by_server();
	test_limits();
	test_drop_inside_a_callback();
	test_open_inside_closed();
	return 0;
}
