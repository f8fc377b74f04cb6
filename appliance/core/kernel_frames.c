/* What comes over a kernel's channel. The bytes are hostile; see jupyter.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client.h"
#include "kernel.h"

/* JSON of an 'S' frame: a handful of members, the crash text among them. */
enum { STATE_FRAME_MAX = 256 * 1024, STATE_VALUES_MAX = 64, STATE_DEPTH_MAX = 4 };

static void protocol_error(struct kernel *k, const char *message)
{
	sandbox_end(k->sandbox, REASON_PROTOCOL, message);
}

static void kernel_state_from(struct kernel *k, const struct jupyter_msg *m)
{
	if (m->channel != JUPYTER_IOPUB || k->state == KERNEL_DEAD)
		return;
	if (strcmp(m->text, "busy") == 0)
		k->state = KERNEL_BUSY;
	else if (strcmp(m->text, "idle") == 0)
		k->state = KERNEL_IDLE;
}

static void kernel_message(struct kernel *k, const struct jupyter_msg *m)
{
	struct execution *e = k->running;

	if (m->type == JUPYTER_STATUS)
		kernel_state_from(k, m);
	if (!e || m->type == JUPYTER_OTHER || m->type == JUPYTER_REPLY)
		return;
	if (execution_is_missing(e, m)) {
		e->doubtful = false;
		e->frames_sent = 0;
		kernel_requeue(k);
		kernel_pump(k);
		return;
	}
	if (strcmp(m->parent_id, e->msg_id) == 0) {
		e->seen = true;
		execution_message(e, m);
	} else if (m->type == JUPYTER_STREAM && !strchr(m->parent_id, '-')) {
		/* Text of a thread that has no cell of its own. */
		execution_message(e, m);
	}
	if (k->interrupt_wanted && k->running == e && e->started)
		kernel_interrupt(k);
}

static void kernel_jupyter(struct kernel *k, const uint8_t *payload, size_t len)
{
	struct jupyter_msg m;
	int err = jupyter_parse(payload, len, &m);

	if (err == -EPROTO) {
		protocol_error(k, "The sandbox's agent sent a message that is not laid out as agreed.");
		return;
	}
	if (err < 0) {
		if (++k->bad_messages > KERNEL_BAD_MAX)
			protocol_error(k, "The kernel sent too many messages that are not Jupyter's.");
		return;
	}
	if (!k->running || !execution_is_full(k->running, &m))
		clients_deliver(k, &m, payload, len);
	kernel_message(k, &m);
	jupyter_msg_free(&m);
}

static void kernel_alive(struct kernel *k, uint64_t generation)
{
	if (generation != k->generation)
		k->restarted = true;
	k->generation = generation;
	k->state = KERNEL_IDLE;
	k->alive_due = false;
	kernel_restart_check(k);
	kernel_pump(k);
}

static void kernel_dead(struct kernel *k, json_t *frame)
{
	json_t *received = json_object_get(frame, "received");
	uint64_t last =
		json_is_integer(received) ? (uint64_t)json_integer_value(received) : channel_sent(k->channel);
	bool restarting = json_is_true(json_object_get(frame, "restarting"));

	k->state = restarting ? KERNEL_STARTING : KERNEL_DEAD;
	k->alive_due = restarting;
	/* Code that the dead process never got goes to the next one, where a restart
	 * that was to end it has to be asked for again. */
	if (k->running && k->running->sent_seq <= last)
		execution_died(k->running, frame);
	else if (k->running && k->running->stop == STOP_RESTART)
		k->restart_again = true;
	clients_died(k, frame, last, restarting);
	/* Now: what died still counted in the process that is gone. */
	k->restarted = true;
	k->execution_count = 0;
	kernel_restart_check(k);
}

static void kernel_process(struct kernel *k, const uint8_t *payload, size_t len)
{
	json_t *frame = NULL, *generation;
	const char *state;

	if (len <= STATE_FRAME_MAX)
		frame = json_parse_bounded((const char *)payload, len, STATE_VALUES_MAX, STATE_DEPTH_MAX);
	state = json_string_value(json_object_get(frame, "state"));
	generation = json_object_get(frame, "generation");
	if (!state || !json_is_integer(generation))
		protocol_error(k, "The sandbox's agent sent a kernel state that is none.");
	else if (strcmp(state, "alive") == 0)
		kernel_alive(k, (uint64_t)json_integer_value(generation));
	else if (strcmp(state, "dead") == 0)
		kernel_dead(k, frame);
	json_decref(frame);
}

static void on_frame(struct channel *c, uint8_t type, uint64_t seq, const uint8_t *payload, size_t len,
		     void *arg)
{
	struct kernel *k = arg;

	(void)c;
	if (!k->sandbox || k->sandbox->state == SANDBOX_ENDING)
		return;
	k->batch_seq = seq;
	k->unstored += len;
	k->activity_ms = unix_ms();
	if (type == 'S' || k->unstored > KERNEL_UNSTORED_MAX)
		kernel_txn(k);
	if (type == 'J')
		kernel_jupyter(k, payload, len);
	else if (type == 'S')
		kernel_process(k, payload, len);
	else
		protocol_error(k, "The sandbox's agent sent a frame of an unknown type.");
}

static void on_gap(struct channel *c, uint64_t first, uint64_t last, uint64_t frames, uint64_t bytes,
		   void *arg)
{
	struct kernel *k = arg;

	(void)c;
	(void)first;
	if (!k->sandbox)
		return;
	kernel_txn(k);
	k->batch_seq = last;
	if (k->running)
		execution_gap(k->running, frames, bytes);
}

/* A crash between the commit that code was sent and its way to the agent, which
 * has fewer of our frames than the rows say: the rest is sent again. */
static void running_account(struct kernel *k, uint64_t delivered)
{
	struct execution *e = k->running;
	unsigned frames = execution_frames(e);
	uint64_t before = e->sent_seq - (frames > 1 ? 2 : 1);

	e->frames_sent = delivered > before ? (unsigned)(delivered - before) : 0;
	if (e->frames_sent < frames)
		kernel_requeue(k);
}

/* A crash between sending code and committing that it was sent: the agent has
 * more of our frames than the rows say. They are those of the queue, in order. */
static void kernel_account(struct kernel *k)
{
	uint64_t delivered = channel_delivered(k->channel), at = k->restored_sent;
	struct execution *e;

	if (k->running && delivered < k->restored_sent)
		running_account(k, delivered);
	for (e = k->queue; e && at < delivered; e = e->next) {
		uint64_t extra = delivered - at, frames = execution_frames(e);

		e->frames_sent = (unsigned)(extra < frames ? extra : frames);
		e->sent_seq = at + (frames > 1 ? 2 : 1);
		/* Or they are requests of clients, which no row tells of. */
		e->doubtful = true;
		at += e->frames_sent;
	}
	k->restored = false;
}

static void on_attached(struct channel *c, void *arg)
{
	struct kernel *k = arg;

	(void)c;
	if (k->restored)
		kernel_account(k);
	if (k->state == KERNEL_STARTING && !k->alive_due)
		k->state = KERNEL_IDLE;
	if (k->interrupt_wanted && k->running)
		kernel_interrupt(k);
	kernel_pump(k);
}

static void on_detached(struct channel *c, int err, int status, void *arg)
{
	struct kernel *k = arg;

	(void)c;
	if (!k->sandbox || k->stopping)
		return;
	if (status == 404 && k->restored && !k->essential)
		/* Its deletion was not recorded before the appliance was restarted. */
		kernel_is_gone(k);
	else if (err == -EPROTO)
		protocol_error(k, "The sandbox's agent broke the framing of a kernel's channel.");
	else if (status == 404)
		protocol_error(k, "The sandbox's agent does not know its own kernel.");
	/* Anything else is the link's loss: kernel_link_up() attaches again. */
}

static void on_drained(struct channel *c, void *arg)
{
	(void)c;
	kernel_pump(arg);
}

const struct channel_ops kernel_channel_ops = {
	.frame = on_frame,
	.gap = on_gap,
	.drained = on_drained,
	.attached = on_attached,
	.detached = on_detached,
};
