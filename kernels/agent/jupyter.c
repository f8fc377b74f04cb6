#include "jupyter.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "jupyter_inner.h"
#include "limits.h"
#include "util.h"

static const char delimiter[] = "<IDS|MSG>";

/* Identities before the delimiter, the delimiter, the signature. */
enum { ENVELOPE_MAX = 8 };

static void handle_free(uv_handle_t *handle)
{
	free(handle);
}

/* The message in parts received, envelope taken off. */
static bool unwrap(zmq_msg_t *parts, unsigned n, struct wire_message *ret, struct wire_part *ret_signature)
{
	unsigned at, i;

	for (at = 0; at < n && at < ENVELOPE_MAX - 1; at++)
		if (zmq_msg_size(&parts[at]) == sizeof(delimiter) - 1 &&
		    memcmp(zmq_msg_data(&parts[at]), delimiter, sizeof(delimiter) - 1) == 0)
			break;
	if (at + 2 + WIRE_SIGNED > n || at >= ENVELOPE_MAX - 1 || n - at - 2 > JUPYTER_PARTS_MAX)
		return false;
	*ret_signature = (struct wire_part){ zmq_msg_data(&parts[at + 1]), zmq_msg_size(&parts[at + 1]) };
	ret->n = n - at - 2;
	for (i = 0; i < ret->n; i++)
		ret->part[i] = (struct wire_part){ zmq_msg_data(&parts[at + 2 + i]),
						   zmq_msg_size(&parts[at + 2 + i]) };
	return true;
}

static bool verified(struct jupyter *j, const struct wire_message *m, struct wire_part signature)
{
	return !j->signer || signer_check(j->signer, m, signature.bytes, signature.len);
}

static void deliver(struct jupyter_socket *s, zmq_msg_t *parts, unsigned n)
{
	struct jupyter *j = s->j;
	struct wire_part signature;
	struct wire_message m;

	j->last = now_ms();
	j->topic = (struct wire_part){ zmq_msg_data(&parts[0]), zmq_msg_size(&parts[0]) };
	if (!unwrap(parts, n, &m, &signature)) {
		log_line("a kernel sent a malformed message on channel %d; it is skipped", s->ch);
		return;
	}
	if (!verified(j, &m, signature)) {
		log_line("a kernel sent a wrongly signed message on channel %d; it is skipped", s->ch);
		return;
	}
	j->ops->message(j, s->ch, &m, wire_contains(m.part[WIRE_PARENT], j->session), j->arg);
}

/* Receives one message. False when there is none. Parts past the bound are
 * received and dropped with the whole message. */
static bool receive(struct jupyter_socket *s)
{
	zmq_msg_t parts[ENVELOPE_MAX + JUPYTER_PARTS_MAX];
	unsigned n = 0, i;
	bool more = true, too_many = false;

	while (more) {
		if (n == ARRAY_SIZE(parts)) {
			too_many = true;
			zmq_msg_close(&parts[--n]);
		}
		zmq_msg_init(&parts[n]);
		if (zmq_msg_recv(&parts[n], s->zmq, ZMQ_DONTWAIT) < 0) {
			zmq_msg_close(&parts[n]);
			break;
		}
		more = zmq_msg_more(&parts[n]);
		n++;
	}
	if (n == 0)
		return false;
	if (too_many)
		log_line("a kernel sent a message of more than %d parts; it is skipped", JUPYTER_PARTS_MAX);
	else
		deliver(s, parts, n);
	for (i = 0; i < n; i++)
		zmq_msg_close(&parts[i]);
	return true;
}

static void turn_again(uv_idle_t *idle)
{
	jupyter_turn(idle->data);
}

static void free_now(struct jupyter *j)
{
	signer_free(j->signer);
	free(j);
}

bool jupyter_may_read(const struct jupyter_socket *s)
{
	return s->ch == WIRE_CONTROL || !s->j->ops->full(s->j, s->j->arg);
}

static void tell_writable(struct jupyter_socket *s)
{
	int events = 0;
	size_t size = sizeof(events);

	if (!s->blocked || zmq_getsockopt(s->zmq, ZMQ_EVENTS, &events, &size) < 0)
		return;
	/* Asking may have swallowed the edge that announced a message. */
	s->look |= (events & ZMQ_POLLIN) != 0;
	if (!(events & ZMQ_POLLOUT))
		return;
	s->blocked = false;
	s->j->ops->writable(s->j, s->ch, s->j->arg);
}

static void socket_turn(struct jupyter_socket *s)
{
	unsigned budget = JUPYTER_TURN_MAX;

	s->look = false;
	while (budget && !s->j->closed && jupyter_may_read(s) && receive(s))
		budget--;
	/* The socket may hold more than it was read this time. */
	s->look |= budget == 0;
	if (!s->j->closed && s->ch != WIRE_IOPUB)
		tell_writable(s);
}

/* ZMQ_FD is edge-triggered: what is left must be remembered. Output goes before
 * the reply that ends it, where both are there. */
void jupyter_turn(struct jupyter *j)
{
	static const enum wire_channel order[] = { WIRE_CONTROL, WIRE_IOPUB, WIRE_SHELL, WIRE_STDIN };
	bool more = false;
	size_t i;

	if (j->closed || j->in_turn)
		return;
	j->in_turn = true;
	for (i = 0; i < ARRAY_SIZE(order) && !j->closed; i++) {
		if (j->socket[order[i]].look)
			socket_turn(&j->socket[order[i]]);
	}
	j->in_turn = false;
	if (j->closed)
		return free_now(j);
	for (i = 0; i < ARRAY_SIZE(order); i++)
		more |= j->socket[order[i]].look;
	if (more)
		uv_idle_start(j->again, turn_again);
	else
		uv_idle_stop(j->again);
}

void jupyter_kick(struct jupyter *j)
{
	int ch;

	for (ch = 0; ch < WIRE_CHANNELS; ch++) {
		jupyter_socket_listen(&j->socket[ch]);
		j->socket[ch].look = true;
	}
	jupyter_turn(j);
}

int jupyter_open(uv_loop_t *loop, const char *address, const char *key, const struct jupyter_ops *ops,
		 void *arg, struct jupyter **ret)
{
	/* Ports of the connection file: shell 1, iopub 2, stdin 3, control 4, heartbeat 5. */
	static const int port[WIRE_CHANNELS] = {
		[WIRE_SHELL] = 1,
		[WIRE_IOPUB] = 2,
		[WIRE_STDIN] = 3,
		[WIRE_CONTROL] = 4,
	};
	struct jupyter *j = xcalloc(1, sizeof(*j));
	int ch, err = 0;

	j->ops = ops;
	j->arg = arg;
	j->loop = loop;
	j->last = now_ms();
	j->signer = key[0] ? signer_new(key) : NULL;
	random_hex(j->session, SESSION_DIGITS);
	j->again = xcalloc(1, sizeof(*j->again));
	uv_idle_init(loop, j->again);
	j->again->data = j;
	for (ch = 0; ch < WIRE_CHANNELS; ch++) {
		j->socket[ch].j = j;
		j->socket[ch].ch = (enum wire_channel)ch;
	}
	for (ch = 0; ch < WIRE_CHANNELS && !err; ch++)
		err = jupyter_socket_open(j, (enum wire_channel)ch, address, port[ch]);
	if (err) {
		jupyter_close(j);
		return err;
	}
	/* A descriptor tells nothing before its socket was once found empty. */
	for (ch = 0; ch < WIRE_CHANNELS; ch++) {
		jupyter_socket_look(&j->socket[ch]);
		j->socket[ch].look = true;
	}
	uv_idle_start(j->again, turn_again);
	*ret = j;
	return 0;
}

void jupyter_close(struct jupyter *j)
{
	int ch;

	if (!j)
		return;
	for (ch = 0; ch < WIRE_CHANNELS; ch++)
		jupyter_socket_close(&j->socket[ch]);
	uv_close((uv_handle_t *)j->again, handle_free);
	j->closed = true;
	if (!j->in_turn)
		free_now(j);
}

static int send_part(void *zmq, const void *bytes, size_t len, int more)
{
	return zmq_send(zmq, bytes, len, ZMQ_DONTWAIT | more) < 0 ? -errno : 0;
}

/* Only the first part can be refused: after it libzmq takes the whole message. */
int jupyter_send(struct jupyter *j, enum wire_channel ch, const struct wire_message *m)
{
	struct jupyter_socket *s = &j->socket[ch];
	char hex[SIGN_HEX];
	unsigned i;
	int err;

	if (ch == WIRE_IOPUB || m->n < WIRE_SIGNED)
		return -EINVAL;
	err = send_part(s->zmq, delimiter, sizeof(delimiter) - 1, ZMQ_SNDMORE);
	/* Trying may have swallowed the edge that announced a message. */
	s->look = true;
	uv_idle_start(j->again, turn_again);
	if (err == -EAGAIN)
		s->blocked = true;
	if (err)
		return err;
	if (j->signer)
		signer_sign(j->signer, m, hex);
	err = send_part(s->zmq, hex, j->signer ? sizeof(hex) : 0, ZMQ_SNDMORE);
	for (i = 0; i < m->n && !err; i++)
		err = send_part(s->zmq, m->part[i].bytes, m->part[i].len, i + 1 < m->n ? ZMQ_SNDMORE : 0);
	return err;
}

static char *header_text(struct jupyter *j, const char *type)
{
	char id[33], date[40];
	struct timespec ts;
	struct tm tm;

	random_hex(id, 32);
	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	return xasprintf(
		"{\"msg_id\":\"%s\",\"session\":\"%s\",\"username\":\"carrel\",\"date\":\"%s.%06ldZ\","
		"\"msg_type\":\"%s\",\"version\":\"5.3\"}",
		id, j->session, date, ts.tv_nsec / 1000, type);
}

int jupyter_request(struct jupyter *j, enum wire_channel ch, const char *type, json_t *content)
{
	cleanup_free char *header = header_text(j, type);
	cleanup_free char *text = content ? json_dumps(content, JSON_COMPACT) : xstrdup("{}");
	struct wire_message m = { .n = WIRE_SIGNED };

	json_decref(content);
	if (!text)
		return -ENOMEM;
	m.part[WIRE_HEADER] = wire_text(header);
	m.part[WIRE_PARENT] = wire_text("{}");
	m.part[WIRE_METADATA] = wire_text("{}");
	m.part[WIRE_CONTENT] = wire_text(text);
	return jupyter_send(j, ch, &m);
}

struct wire_part jupyter_topic(const struct jupyter *j)
{
	return j->topic;
}

uint64_t jupyter_last(const struct jupyter *j)
{
	return j->last;
}
