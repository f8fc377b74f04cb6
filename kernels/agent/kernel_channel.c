#include <stdio.h>

#include "agent.h"
#include "kernel.h"
#include "link/channel.h"
#include "util.h"

enum {
	/* A droppable message above this size is, even if it is a result. */
	KEEP_MAX = 1024 * 1024,
	/* Control messages that may exceed a full channel. */
	OVER_MAX = 1024 * 1024,
	/* A request's header: five short strings. */
	CELL_HEADER_MAX = 4096,
};

static bool starts_or_runs(const struct kernel *k)
{
	return k->phase == KERNEL_ALIVE && !k->identity_sent;
}

/* Output found after the kernel's death belongs to the last cell. */
static void keep_cell(struct kernel *k, const struct wire_part *header)
{
	if (!wire_is(wire_field(*header, "msg_type"), "execute_request") || header->len > CELL_HEADER_MAX)
		return;
	free(k->cell);
	k->cell = xasprintf("%.*s", (int)header->len, (const char *)header->bytes);
}

struct wire_part kernel_cell(const struct kernel *k)
{
	return wire_text(k->cell ? k->cell : "{}");
}

/* True when the frame is dealt with: handed over, or of no use. */
static bool hand_over(struct kernel *k, uint64_t seq, const uint8_t *payload, size_t len)
{
	enum wire_channel ch;
	struct wire_message m;
	int err;

	if (wire_decode(payload, len, &ch, &m) < 0 || ch == WIRE_IOPUB) {
		log_line("the host sent a malformed message for kernel %s; it is skipped", k->id);
		return true;
	}
	err = jupyter_send(k->jupyter, ch, &m);
	if (err == -EAGAIN)
		return false;
	if (err)
		log_line("kernel %s cannot be sent a message: %s", k->id, strerror(-err));
	if (ch == WIRE_SHELL && !err)
		keep_cell(k, &m.part[WIRE_HEADER]);
	k->handed = seq;
	k->death_count = 0;
	return true;
}

void kernel_channel_hold(struct kernel *k)
{
	channel_pause(k->channel, true);
}

void kernel_channel_flush(struct kernel *k)
{
	struct kernel_frame *f;

	if (!starts_or_runs(k))
		return;
	while ((f = STAILQ_FIRST(&k->waiting))) {
		if (!hand_over(k, f->seq, f->payload, f->len))
			return;
		STAILQ_REMOVE_HEAD(&k->waiting, entry);
		channel_ack(k->channel, f->seq);
		free(f);
	}
	channel_pause(k->channel, false);
}

static void keep_waiting(struct kernel *k, uint64_t seq, const uint8_t *payload, size_t len)
{
	struct kernel_frame *f = malloc(sizeof(*f) + len);

	kernel_channel_hold(k);
	if (!f) {
		log_line("there is no memory for a message to kernel %s; it is skipped", k->id);
		return channel_ack(k->channel, seq);
	}
	f->seq = seq;
	f->len = len;
	memcpy(f->payload, payload, len);
	STAILQ_INSERT_TAIL(&k->waiting, f, entry);
}

static void on_frame(struct channel *c, uint8_t type, uint64_t seq, const uint8_t *payload, size_t len,
		     void *arg)
{
	struct kernel *k = arg;

	if (type != 'J')
		return channel_ack(c, seq);
	kernel_identity_late(k);
	if (starts_or_runs(k) && STAILQ_EMPTY(&k->waiting) && hand_over(k, seq, payload, len))
		return channel_ack(c, seq);
	keep_waiting(k, seq, payload, len);
}

static void read_again(struct kernel *k)
{
	k->over_bytes = 0;
	if (k->phase == KERNEL_DRAINING)
		kernel_drain(k);
	else if (k->jupyter)
		jupyter_kick(k->jupyter);
}

static void on_drained(struct channel *c, void *arg)
{
	(void)c;
	read_again(arg);
}

static void on_attached(struct channel *c, void *arg)
{
	struct kernel *k = arg;

	(void)c;
	k->detached_bytes = 0;
	read_again(k);
}

static void on_gap(struct channel *c, uint64_t first, uint64_t last, uint64_t frames, uint64_t bytes,
		   void *arg)
{
	(void)first, (void)frames, (void)bytes, (void)arg;
	channel_ack(c, last);
}

static const struct channel_ops channel_ops = {
	.frame = on_frame,
	.gap = on_gap,
	.drained = on_drained,
	.attached = on_attached,
};

int kernel_channel_open(struct kernel *k)
{
	k->channel = channel_new(CHANNEL_DROP_MIDDLE, &channel_ops, k);
	if (!k->channel)
		return -ENOMEM;
	kernel_channel_hold(k);
	return 0;
}

void kernel_channel_free(struct kernel *k)
{
	struct kernel_frame *f;

	while ((f = STAILQ_FIRST(&k->waiting))) {
		STAILQ_REMOVE_HEAD(&k->waiting, entry);
		free(f);
	}
	channel_free(k->channel);
	k->channel = NULL;
}

static bool is_full(const struct kernel *k)
{
	return channel_full(k->channel) ||
	       (!channel_is_attached(k->channel) && k->detached_bytes > KERNEL_DETACHED_MAX);
}

static void send_up(struct kernel *k, uint8_t type, bool keep, const void *payload, size_t len)
{
	int64_t seq = channel_send(k->channel, type, keep, payload, len);

	if (seq < 0)
		log_line("a message of kernel %s is lost: %s", k->id, strerror((int)-seq));
	if (keep && !channel_is_attached(k->channel))
		k->detached_bytes += len;
}

void kernel_channel_state(struct kernel *k, json_t *state)
{
	cleanup_free char *text = json_dumps(state, JSON_COMPACT);

	json_decref(state);
	if (!text)
		abort();
	send_up(k, 'S', true, text, strlen(text));
}

static void forward(struct kernel *k, enum wire_channel ch, const struct wire_message *m, bool keep)
{
	size_t size = wire_size(m);
	cleanup_free uint8_t *payload = malloc(size);

	if (!payload)
		return log_line("a message of kernel %s is lost: no memory for %zu bytes", k->id, size);
	wire_encode(ch, m, payload);
	send_up(k, 'J', keep, payload, size);
}

enum { OWN_HEADER = 256, OWN_TYPE_MAX = 64 };

/* Of a message that the agent makes itself. */
static void own_header(char header[OWN_HEADER], struct wire_part type)
{
	char id[33];

	random_hex(id, 32);
	snprintf(header, OWN_HEADER,
		 "{\"msg_id\":\"%s\",\"session\":\"carrel\",\"username\":\"carrel\",\"date\":\"\","
		 "\"msg_type\":\"%.*s\",\"version\":\"5.3\"}",
		 id, (int)type.len, (const char *)type.bytes);
}

void kernel_channel_stream(struct kernel *k, struct wire_part parent, const char *name, json_t *text)
{
	cleanup_json json_t *content = json_pack("{s:s, s:o}", "name", name, "text", text);
	cleanup_free char *dump = content ? json_dumps(content, JSON_COMPACT) : NULL;
	struct wire_message m = { .n = WIRE_SIGNED };
	char header[OWN_HEADER];

	if (!dump)
		return log_line("output of kernel %s is lost: no memory", k->id);
	own_header(header, wire_text("stream"));
	m.part[WIRE_HEADER] = wire_text(header);
	m.part[WIRE_PARENT] = parent;
	m.part[WIRE_METADATA] = wire_text("{}");
	m.part[WIRE_CONTENT] = wire_text(dump);
	forward(k, WIRE_IOPUB, &m, false);
}

/* What stands for a message that the host would not take: its notice on stderr
 * and, for a reply, an error under the same header, so that nobody waits. */
static void forward_too_large(struct kernel *k, enum wire_channel ch, const struct wire_message *m)
{
	struct wire_part type = wire_field(m->part[WIRE_HEADER], "msg_type");
	char notice[512], reply[512], header[OWN_HEADER];
	struct wire_message stand_in = { .n = WIRE_SIGNED };

	if (m->part[WIRE_HEADER].len + m->part[WIRE_PARENT].len > CHANNEL_FRAME_MAX / 2)
		return log_line("a message of kernel %s has a header beyond all bounds; it is skipped",
				k->id);
	own_header(header, wire_text("stream"));
	snprintf(notice, sizeof(notice),
		 "{\"name\":\"stderr\",\"text\":\"[carrel: a message of %zu bytes (%.*s) was left out: at "
		 "most %d "
		 "bytes can be sent at once. Write it to a file instead.]\\n\"}",
		 wire_size(m), (int)(type.len < 64 ? type.len : 0), (const char *)type.bytes,
		 CHANNEL_FRAME_MAX);
	stand_in.part[WIRE_HEADER] = wire_text(header);
	stand_in.part[WIRE_PARENT] = m->part[WIRE_PARENT];
	stand_in.part[WIRE_METADATA] = wire_text("{}");
	stand_in.part[WIRE_CONTENT] = wire_text(notice);
	forward(k, WIRE_IOPUB, &stand_in, true);
	if (ch == WIRE_IOPUB)
		return;
	snprintf(reply, sizeof(reply),
		 "{\"status\":\"error\",\"ename\":\"ReplyTooLarge\",\"evalue\":\"The reply had %zu bytes; at "
		 "most %d can "
		 "be sent.\",\"traceback\":[]}",
		 wire_size(m), CHANNEL_FRAME_MAX);
	stand_in.part[WIRE_HEADER] = m->part[WIRE_HEADER];
	stand_in.part[WIRE_CONTENT] = wire_text(reply);
	forward(k, ch, &stand_in, true);
}

static bool is_type(struct wire_part type)
{
	size_t i;

	for (i = 0; i < type.len; i++)
		if (type.bytes[i] != '_' && (type.bytes[i] < 'a' || type.bytes[i] > 'z'))
			return false;
	return type.len > 0 && type.len <= OWN_TYPE_MAX;
}

static bool droppable(struct wire_part type, const struct wire_message *m)
{
	return wire_is(type, "stream") || wire_is(type, "display_data") ||
	       wire_is(type, "update_display_data") || wire_is(type, "clear_output") ||
	       (wire_is(type, "execute_result") && wire_size(m) > KEEP_MAX);
}

static void take(struct kernel *k, enum wire_channel ch, struct wire_part type, const struct wire_message *m)
{
	if (wire_size(m) > CHANNEL_FRAME_MAX)
		forward_too_large(k, ch, m);
	else
		forward(k, ch, m, ch != WIRE_IOPUB || !droppable(type, m));
}

void kernel_channel_message(struct kernel *k, struct wire_message *m)
{
	struct wire_part type = m->part[WIRE_HEADER];
	char header[OWN_HEADER];

	if (!is_type(type))
		return log_line("a message that kernel %s left unsent has no type", k->id);
	own_header(header, type);
	m->part[WIRE_HEADER] = wire_text(header);
	take(k, WIRE_IOPUB, type, m);
}

static void on_own(struct kernel *k, enum wire_channel ch, struct wire_part type,
		   const struct wire_message *m)
{
	if (ch == WIRE_SHELL && wire_is(type, "kernel_info_reply"))
		k->info_seen = true;
	else if (ch == WIRE_SHELL && wire_is(type, "carrel_identity_reply"))
		kernel_identity_answered(k, m);
	else if (ch == WIRE_CONTROL && wire_is(type, "interrupt_reply"))
		kernel_interrupt_answered(k);
	kernel_start_heard(k);
}

/* Control is read even when the channel is full; a flood of it is cut. */
static bool over(struct kernel *k, enum wire_channel ch, const struct wire_message *m)
{
	if (ch != WIRE_CONTROL || !is_full(k))
		return false;
	k->over_bytes += wire_size(m);
	return k->over_bytes > OVER_MAX;
}

static void on_message(struct jupyter *j, enum wire_channel ch, const struct wire_message *m, bool own,
		       void *arg)
{
	struct kernel *k = arg;
	struct wire_part type = wire_field(m->part[WIRE_HEADER], "msg_type");

	(void)j;
	if (ch == WIRE_IOPUB && !k->iopub_seen) {
		k->iopub_seen = true;
		kernel_start_heard(k);
	}
	if (ch == WIRE_IOPUB)
		kernel_unsent_heard(k);
	if (own)
		return on_own(k, ch, type, m);
	if (ch == WIRE_IOPUB && wire_is(type, "iopub_welcome"))
		return;
	if (ch == WIRE_IOPUB && wire_is(type, "status"))
		k->busy = wire_is(wire_field(m->part[WIRE_CONTENT], "execution_state"), "busy");
	if (over(k, ch, m))
		return log_line("kernel %s floods its control channel; a message is dropped", k->id);
	take(k, ch, type, m);
}

static bool on_full(struct jupyter *j, void *arg)
{
	(void)j;
	return is_full(arg);
}

static void on_writable(struct jupyter *j, enum wire_channel ch, void *arg)
{
	(void)j, (void)ch;
	kernel_channel_flush(arg);
}

static void on_connected(struct jupyter *j, void *arg)
{
	(void)j;
	kernel_start_heard(arg);
}

static void on_disconnected(struct jupyter *j, void *arg)
{
	(void)j;
	kernel_drain(arg);
}

const struct jupyter_ops kernel_jupyter_ops = {
	.message = on_message,
	.full = on_full,
	.writable = on_writable,
	.connected = on_connected,
	.disconnected = on_disconnected,
};
