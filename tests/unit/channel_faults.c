/* UNIT: kernels/link LIBS: -lnghttp2 -luv */
/* Numbered frames both ways through a wire that loses, delays, splits, cuts and
 * repeats bytes, under links that are dropped and a host that is restarted: each
 * frame is there once and in order, or reported by a gap, in bounded memory.
 * `channel_faults SEED [RUNS]` runs others; a failure prints its seed. */
#include "link/channel.h"
#include "link/channel_private.h"
#include "link/limits.h"
#include "tests/unit/link_pair.h"

enum {
	FRAMES = 20000,
	FAULTS = 220,
	WIRE_MAX = 256 * 1024,
	STALE_MAX = 64 * 1024,
	FRAME_BYTES_MAX = 3000,
};

static uint64_t seed, state;
static unsigned long step_number;

static uint64_t draw(uint64_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state * 2685821657736338717u >> 11) % below;
}

#undef CHECK
#define CHECK(cond)                                                                                        \
	do {                                                                                               \
		if (!(cond)) {                                                                             \
			fprintf(stderr, "%s:%d: not true: %s (seed %llu, step %lu)\n", __FILE__, __LINE__, \
				#cond, (unsigned long long)seed, step_number);                             \
			exit(1);                                                                           \
		}                                                                                          \
	} while (0)

/* Bytes under way in one direction, and the latest that were. */
struct wire {
	uint8_t bytes[WIRE_MAX], stale[STALE_MAX];
	size_t len, stale_len;
	unsigned delayed; /* steps */
};

struct peer {
	struct link *l;
	struct channel *c;
	struct peer *other;
	uint64_t expect; /* highest number seen, the next is one more */
	uint64_t stored; /* what this side acknowledged */
	uint64_t gaps, gap_frames;
	bool forgot; /* the other side lost frames with its memory: sizes unknown */
	bool reconnect, client;
};

static struct peer host, guest;
static struct wire up, down;
static uint64_t now;
static unsigned faults, restarts;
static bool restarting; /* this run restarts the host as well */

static size_t frame_size(uint64_t number)
{
	uint64_t x = number * 0x9e3779b97f4a7c15u;

	return 16 + (x >> 40) % (number % 50 ? 1500 : FRAME_BYTES_MAX - 16);
}

static void peer_stored(struct peer *p, uint64_t seq, bool now_please)
{
	if (!now_please && draw(8))
		return;
	p->stored = seq;
	channel_ack(p->c, seq);
}

static void on_frame(struct channel *c, uint8_t type, uint64_t seq, const uint8_t *payload, size_t len,
		     void *arg)
{
	struct peer *p = arg;
	uint64_t number;

	(void)c;
	memcpy(&number, payload, sizeof(number));
	CHECK(seq == p->expect + 1 && number == seq);
	CHECK(type == (p->client ? 'd' : 'u'));
	CHECK(len == frame_size(seq));
	for (size_t i = sizeof(number); i < len; i++)
		CHECK(payload[i] == (uint8_t)(seq + i));
	p->expect = seq;
	peer_stored(p, seq, seq == FRAMES);
}

static void on_gap(struct channel *c, uint64_t first, uint64_t last, uint64_t frames, uint64_t bytes,
		   void *arg)
{
	struct peer *p = arg;
	uint64_t sum = 0;

	(void)c;
	CHECK(first == p->expect + 1 && last >= first && last <= FRAMES);
	CHECK(frames == last - first + 1);
	for (uint64_t i = first; i <= last; i++)
		sum += frame_size(i);
	CHECK(p->forgot ? bytes <= sum : bytes == sum);
	p->expect = last;
	p->gaps++;
	p->gap_frames += frames;
	peer_stored(p, last, last == FRAMES);
}

static void on_detached(struct channel *c, int err, int status, void *arg)
{
	struct peer *p = arg;

	(void)c;
	CHECK(err != -EPROTO && status == 0);
	p->reconnect = p->client;
}

static const struct channel_ops ops = { .frame = on_frame, .gap = on_gap, .detached = on_detached };

static void on_up(struct link *l, void *arg)
{
	struct peer *p = arg;

	(void)l;
	p->reconnect = p->client;
}

static void on_request(struct link *l, struct link_stream *st, const struct link_request *rq, void *arg)
{
	struct peer *p = arg;

	(void)l, (void)rq;
	CHECK(channel_accept(p->c, st) == 0);
}

static const struct link_ops link_ops = { .up = on_up, .request = on_request };

static void wire_put(struct wire *w, const uint8_t *bytes, size_t n)
{
	memcpy(w->bytes + w->len, bytes, n);
	w->len += n;
	if (n > STALE_MAX)
		n = STALE_MAX;
	if (w->stale_len + n > STALE_MAX) {
		memmove(w->stale, w->stale + w->stale_len + n - STALE_MAX, STALE_MAX - n);
		w->stale_len = STALE_MAX - n;
	}
	memcpy(w->stale + w->stale_len, bytes, n);
	w->stale_len += n;
}

static void wire_cut(struct wire *w, size_t at, size_t n)
{
	memmove(w->bytes + at, w->bytes + at + n, w->len - at - n);
	w->len -= n;
}

static void wire_insert(struct wire *w, size_t at, const uint8_t *bytes, size_t n)
{
	if (w->len + n > WIRE_MAX)
		return;
	memmove(w->bytes + at + n, w->bytes + at, w->len - at);
	memcpy(w->bytes + at, bytes, n);
	w->len += n;
}

static void wire_move(struct wire *w, struct link *from, struct link *to)
{
	const uint8_t *bytes;
	size_t n = link_pending(from, &bytes);
	uint8_t copy[8192];

	if (n > 0 && w->len < WIRE_MAX / 4) {
		n = draw(4) ? n : 1 + draw(n);
		wire_put(w, bytes, n);
		link_sent(from, n);
	}
	if (w->delayed) {
		w->delayed--;
		return;
	}
	n = w->len < sizeof(copy) ? w->len : sizeof(copy);
	if (n == 0)
		return;
	n = draw(3) ? n : 1 + draw(n < 40 ? n : 40);
	memcpy(copy, w->bytes, n);
	wire_cut(w, 0, n);
	CHECK(link_receive(to, copy, n) == 0);
}

/* The host's process dies: what it had stored is what it still knows. */
static void host_restart(void)
{
	uint64_t sent = channel_sent(host.c);

	channel_free(host.c);
	link_free(host.l);
	host.l = link_new(LINK_CLIENT, &link_ops, &host);
	host.c = channel_new(CHANNEL_REFUSE, &ops, &host);
	CHECK(host.l && host.c);
	host.expect = host.stored;
	host.reconnect = false;
	guest.forgot = true;
	channel_restore(host.c, host.stored, sent);
	link_tick(host.l, now);
	link_hello(host.l);
	restarts++;
	/* A socket's bytes go with it, some of them or all. */
	if (draw(2))
		up.len = draw(up.len + 1);
	if (draw(2))
		wire_cut(&down, 0, draw(down.len + 1));
}

static void burst_while_detached(void);

static void fault(void)
{
	struct wire *w = draw(2) ? &up : &down;
	size_t at = draw(w->len + 1), n;

	faults++;
	switch (draw(9)) {
	case 0: /* some bytes are lost */
		n = draw(w->len - at + 1);
		wire_cut(w, at, n > 200 && draw(2) ? 200 : n);
		break;
	case 1: /* all that is under way is lost */
		w->len = 0;
		break;
	case 2:
		w->delayed = (unsigned)draw(400);
		break;
	case 3: /* old bytes come again, on any border */
	case 4:
		n = w->stale_len ? draw(w->stale_len) : 0;
		wire_insert(w, at, w->stale + draw(w->stale_len - n + 1), n);
		break;
	case 5:
		link_drop(draw(2) ? host.l : guest.l, "a fault");
		break;
	case 6:
		link_hello(host.l);
		break;
	case 7:
		if (restarting)
			host_restart();
		else
			link_drop(host.l, "a fault");
		break;
	default:
		if (draw(4) == 0)
			burst_while_detached();
		else
			link_drop(guest.l, "a fault");
		break;
	}
}

static void push(struct peer *p, uint64_t until)
{
	uint8_t payload[FRAME_BYTES_MAX];

	while (channel_sent(p->c) < until && !channel_full(p->c)) {
		uint64_t number = channel_sent(p->c) + 1;
		size_t len = frame_size(number);

		memcpy(payload, &number, sizeof(number));
		for (size_t i = sizeof(number); i < len; i++)
			payload[i] = (uint8_t)(number + i);
		CHECK(channel_send(p->c, p->client ? 'u' : 'd', false, payload, len) == (int64_t)number);
	}
	CHECK(p->c->out.bytes <= CHANNEL_RETAIN_MAX + FRAME_BYTES_MAX + sizeof(struct retained));
	CHECK(p->c->in.cap <= 2 * FRAME_BYTES_MAX + 4096);
}

/* The guest's output goes on while no host is there. */
static void burst_while_detached(void)
{
	uint64_t until = channel_sent(guest.c) + 8000;

	link_drop(host.l, "the host goes for a while");
	link_drop(guest.l, "the host went");
	push(&guest, until < FRAMES ? until : FRAMES);
}

static void step(void)
{
	uint64_t allowed = (uint64_t)FRAMES * (faults + 1) / (FAULTS + 1);

	step_number++;
	now += draw(20);
	link_tick(host.l, now);
	link_tick(guest.l, now);
	if (host.reconnect && link_is_up(host.l)) {
		host.reconnect = false;
		CHECK(channel_connect(host.c, host.l, "/channel") == 0);
	}
	push(&host, allowed < FRAMES ? allowed : FRAMES);
	push(&guest, allowed < FRAMES ? allowed : FRAMES);
	wire_move(&up, host.l, guest.l);
	wire_move(&down, guest.l, host.l);
	if (faults < FAULTS && draw(120) == 0)
		fault();
}

static void run(uint64_t with)
{
	seed = with;
	state = with * 0x9e3779b97f4a7c15u + 1;
	restarting = with % 2;
	step_number = 0;
	faults = restarts = 0;
	now = 1000;
	up.len = down.len = up.stale_len = down.stale_len = up.delayed = down.delayed = 0;
	host = (struct peer){ .client = true, .other = &guest };
	guest = (struct peer){ .other = &host };
	host.l = link_new(LINK_CLIENT, &link_ops, &host);
	guest.l = link_new(LINK_SERVER, &link_ops, &guest);
	host.c = channel_new(CHANNEL_REFUSE, &ops, &host);
	guest.c = channel_new(CHANNEL_DROP_MIDDLE, &ops, &guest);
	CHECK(host.l && guest.l && host.c && guest.c);
	link_tick(host.l, now);
	link_hello(host.l);
	while (host.expect < FRAMES || guest.expect < FRAMES || channel_acked(guest.c) < FRAMES) {
		step();
		CHECK(step_number < 3 * 1000 * 1000);
	}
	CHECK(faults == FAULTS);
	/* A sender that refuses and does not forget loses nothing. */
	CHECK(restarting || guest.gaps == 0);
	printf("seed %llu: %u faults, %u restarts; down %llu gaps of %llu frames, up %llu of %llu\n",
	       (unsigned long long)seed, faults, restarts, (unsigned long long)host.gaps,
	       (unsigned long long)host.gap_frames, (unsigned long long)guest.gaps,
	       (unsigned long long)guest.gap_frames);
	channel_free(host.c);
	channel_free(guest.c);
	link_free(host.l);
	link_free(guest.l);
}

int main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	uint64_t runs = argc > 2 ? strtoull(argv[2], NULL, 10) : 4;

	for (uint64_t i = 0; i < runs; i++)
		run(first + i);
	return 0;
}
