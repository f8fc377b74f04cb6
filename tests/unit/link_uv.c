/* UNIT: kernels/link LIBS: -lnghttp2 -luv */
/* Links on descriptors in a real loop: a socket pair, a lost peer, a port whose
 * other end is not there yet. `link_uv bench` prints a channel's throughput. */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/channel.h"
#include "link/link_uv.h"
#include "tests/unit/check.h"

struct node {
	struct link *l;
	struct link_uv *b;
	struct channel *c;
	uv_loop_t *loop;
	unsigned ups, downs, lost;
	int lost_err;
	/* Frames sent and wanted in all, of this size. */
	uint64_t total, got, bytes;
	size_t size;
	bool bad;
	struct node *peer;
};

static uint8_t fill;

static void node_push(struct node *n)
{
	static uint8_t payload[1024 * 1024];

	for (size_t i = 8; payload[8] != fill && i < sizeof(payload); i++)
		payload[i] = fill ? (uint8_t)(fill + i % 64) : 0;
	while (channel_sent(n->c) < n->total && !channel_full(n->c)) {
		uint64_t number = channel_sent(n->c) + 1;

		memcpy(payload, &number, sizeof(number));
		CHECK_INT(channel_send(n->c, 'J', false, payload, n->size), number);
	}
}

static void on_frame(struct channel *c, uint8_t type, uint64_t seq, const uint8_t *payload, size_t len,
		     void *arg)
{
	struct node *n = arg;
	uint64_t number;

	memcpy(&number, payload, sizeof(number));
	n->bad |= type != 'J' || number != seq || seq != n->got + 1;
	n->got = seq;
	n->bytes += len;
	/* Well before the sender's bound, as a store that commits in groups does. */
	if (seq % 16 == 0 || len > 64 * 1000 || seq == n->peer->total)
		channel_ack(c, seq);
	if (n->got == n->peer->total && n->peer->got == n->total)
		uv_stop(n->loop);
}

static void on_gap(struct channel *c, uint64_t first, uint64_t last, uint64_t frames, uint64_t bytes,
		   void *arg)
{
	struct node *n = arg;

	(void)c, (void)first, (void)last, (void)frames, (void)bytes;
	n->bad = true;
}

static void on_ready(struct channel *c, void *arg)
{
	(void)c;
	node_push(arg);
}

static const struct channel_ops channel_ops = {
	.frame = on_frame, .gap = on_gap, .drained = on_ready, .attached = on_ready
};

static void on_up(struct link *l, void *arg)
{
	struct node *n = arg;

	(void)l;
	n->ups++;
}

static void on_up_client(struct link *l, void *arg)
{
	struct node *n = arg;

	on_up(l, arg);
	if (n->c)
		CHECK_INT(channel_connect(n->c, l, "/channel"), 0);
}

static void on_down(struct link *l, const char *why, void *arg)
{
	struct node *n = arg;

	(void)l, (void)why;
	n->downs++;
}

static void on_request(struct link *l, struct link_stream *st, const struct link_request *rq, void *arg)
{
	struct node *n = arg;

	(void)l;
	CHECK_STR(rq->path, "/channel");
	CHECK_INT(channel_accept(n->c, st), 0);
}

static void on_want_write(struct link *l, void *arg)
{
	struct node *n = arg;

	(void)l;
	link_uv_kick(n->b);
}

static void on_lost(struct link_uv *b, int err, void *arg)
{
	struct node *n = arg;

	CHECK(b == n->b);
	n->lost++;
	n->lost_err = err;
	link_uv_close(b);
	n->b = NULL;
	uv_stop(n->loop);
}

static void on_guard(uv_timer_t *t)
{
	(void)t;
	fprintf(stderr, "nothing moved for a minute\n");
	exit(1);
}

struct scene {
	uv_loop_t loop;
	uv_timer_t guard;
	struct node client, server;
};

static void scene_init(struct scene *s, bool channels)
{
	static const struct link_ops client = { .up = on_up_client,
						.down = on_down,
						.want_write = on_want_write };
	static const struct link_ops server = {
		.up = on_up, .down = on_down, .request = on_request, .want_write = on_want_write
	};

	memset(s, 0, sizeof(*s));
	CHECK_INT(uv_loop_init(&s->loop), 0);
	uv_timer_init(&s->loop, &s->guard);
	uv_timer_start(&s->guard, on_guard, 60 * 1000, 0);
	s->client.loop = s->server.loop = &s->loop;
	s->client.peer = &s->server;
	s->server.peer = &s->client;
	s->client.l = link_new(LINK_CLIENT, &client, &s->client);
	s->server.l = link_new(LINK_SERVER, &server, &s->server);
	if (!channels)
		return;
	s->client.c = channel_new(CHANNEL_REFUSE, &channel_ops, &s->client);
	s->server.c = channel_new(CHANNEL_DROP_MIDDLE, &channel_ops, &s->server);
}

static void node_open(struct node *n, int fd, enum link_uv_kind kind)
{
	CHECK_INT(link_uv_open(n->loop, n->l, fd, kind, on_lost, n, &n->b), 0);
}

static void scene_end(struct scene *s)
{
	channel_free(s->client.c);
	channel_free(s->server.c);
	link_uv_close(s->client.b);
	link_uv_close(s->server.b);
	link_free(s->client.l);
	link_free(s->server.l);
	uv_close((uv_handle_t *)&s->guard, NULL);
	uv_run(&s->loop, UV_RUN_DEFAULT);
	CHECK_INT(uv_loop_close(&s->loop), 0);
}

static void sockets(int fd[2])
{
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
}

static void scene_traffic(struct scene *s, uint64_t frames, size_t size)
{
	int fd[2];

	scene_init(s, true);
	sockets(fd);
	s->client.total = frames / 2;
	s->server.total = frames;
	s->client.size = s->server.size = size;
	node_open(&s->client, fd[0], LINK_UV_SOCKET);
	node_open(&s->server, fd[1], LINK_UV_SOCKET);
	link_hello(s->client.l);
	uv_run(&s->loop, UV_RUN_DEFAULT);
	CHECK_INT(s->client.got, s->server.total);
	CHECK_INT(s->server.got, s->client.total);
	CHECK(!s->client.bad && !s->server.bad);
	scene_end(s);
}

static void test_traffic_both_ways(void)
{
	struct scene s;

	scene_traffic(&s, 3000, 10 * 1000);
	scene_traffic(&s, 20, 1000 * 1000);
	scene_traffic(&s, 20000, 20);
}

static void test_lost_socket_and_a_new_one(void)
{
	struct scene s;
	int fd[2];

	scene_init(&s, false);
	sockets(fd);
	node_open(&s.client, fd[0], LINK_UV_SOCKET);
	node_open(&s.server, fd[1], LINK_UV_SOCKET);
	link_hello(s.client.l);
	while (!link_is_up(s.client.l))
		uv_run(&s.loop, UV_RUN_ONCE);
	link_uv_close(s.server.b);
	s.server.b = NULL;
	uv_run(&s.loop, UV_RUN_DEFAULT);
	CHECK_INT(s.client.lost, 1);
	CHECK_INT(s.client.lost_err, -ECONNRESET);
	CHECK_INT(s.client.downs, 1);

	sockets(fd);
	node_open(&s.client, fd[0], LINK_UV_SOCKET);
	node_open(&s.server, fd[1], LINK_UV_SOCKET);
	while (s.client.ups < 2)
		uv_run(&s.loop, UV_RUN_ONCE);
	CHECK(s.server.ups == 2);
	scene_end(&s);
}

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void on_stop(uv_timer_t *t)
{
	uv_stop(t->loop);
}

/* A port whose host went reads as ended for ever: that costs no time, and the
 * session is dropped. */
static void test_port_without_a_host_does_not_spin(void)
{
	struct scene s;
	uv_timer_t timer;
	double before;
	int fd[2];

	scene_init(&s, false);
	sockets(fd);
	node_open(&s.server, fd[0], LINK_UV_PORT);
	node_open(&s.client, fd[1], LINK_UV_SOCKET);
	link_hello(s.client.l);
	while (!link_is_up(s.client.l))
		uv_run(&s.loop, UV_RUN_ONCE);
	link_uv_close(s.client.b);
	s.client.b = NULL;
	uv_timer_init(&s.loop, &timer);
	uv_timer_start(&timer, on_stop, 300, 0);
	before = cpu_seconds();
	uv_run(&s.loop, UV_RUN_DEFAULT);
	CHECK(cpu_seconds() - before < 0.15);
	CHECK(s.server.lost == 0 && s.server.downs == 1 && !link_is_up(s.server.l));
	uv_close((uv_handle_t *)&timer, NULL);
	scene_end(&s);
}

/* Traffic through a port: all by edges, in both directions. */
static void test_port_traffic(void)
{
	struct scene s;
	int fd[2];

	scene_init(&s, true);
	sockets(fd);
	s.client.total = 500;
	s.server.total = 1000;
	s.client.size = s.server.size = 20 * 1000;
	node_open(&s.client, fd[0], LINK_UV_SOCKET);
	node_open(&s.server, fd[1], LINK_UV_PORT);
	link_hello(s.client.l);
	uv_run(&s.loop, UV_RUN_DEFAULT);
	CHECK(s.client.got == 1000 && s.server.got == 500 && !s.client.bad && !s.server.bad);
	scene_end(&s);
}

static void bench(size_t size, uint64_t bytes, uint8_t with)
{
	struct scene s;
	uint64_t start = uv_hrtime();
	double cpu = cpu_seconds(), seconds;

	fill = with;
	scene_traffic(&s, bytes / size, size);
	seconds = (double)(uv_hrtime() - start) / 1e9;
	printf("frames of %zu bytes of %s: %.0f MB/s down and half of it up, %.2f CPU s per GB\n", size,
	       with ? "text" : "zeros", (double)s.client.bytes / 1e6 / seconds,
	       (cpu_seconds() - cpu) * 1e9 / (double)(s.client.bytes + s.server.bytes));
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "bench") == 0) {
		bench(100, 50 * 1000 * 1000, 'A');
		bench(1000, 200 * 1000 * 1000, 'A');
		bench(64 * 1000, 1000 * 1000 * 1000, 'A');
		bench(1000 * 1000, 1000 * 1000 * 1000, 'A');
		bench(64 * 1000, 1000 * 1000 * 1000, 0);
		return 0;
	}
	test_traffic_both_ways();
	test_lost_socket_and_a_new_one();
	test_port_without_a_host_does_not_spin();
	test_port_traffic();
	return 0;
}
