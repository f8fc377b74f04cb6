/* Messages between the local client and the appliance. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

/* The answer to a request that is done here: busy, then the reply; idle is the caller's. */
static void begin_answer(struct bridge *b, struct asked *a, const char *msg_type, const char *content)
{
	const struct v1_part *header = &a->part[0];

	local_say_state(b->local, header->bytes, header->len, "busy");
	local_say(b->local, a->channel, &a->idents, msg_type, header->bytes, header->len, content);
}

static void answer(struct bridge *b, struct asked *a, const char *msg_type, const char *content)
{
	begin_answer(b, a, msg_type, content);
	local_say_state(b->local, a->part[0].bytes, a->part[0].len, "idle");
}

/* --- from the client --- */

static void interrupt_done(struct bridge_job *job)
{
	struct bridge *b = job->bridge;
	struct asked **at = asked_find(&b->asked, job->arg);
	json_t *content = job->code ? json_pack("{s:s,s:s,s:s,s:[]}", "status", "error", "ename",
						"NotInterrupted", "evalue", job->message, "traceback")
				    : json_pack("{s:s}", "status", "ok");
	char *text = content ? json_dumps(content, JSON_COMPACT) : NULL;

	if (*at && text && b->local) {
		begin_answer(b, *at, "interrupt_reply", text);
		turns_interrupted(&b->turns, &(*at)->part[0]);
		asked_done(&b->asked, at);
	}
	free(text);
	json_decref(content);
	free(job->arg);
}

static void interrupt(struct bridge *b, struct asked *a)
{
	char *msg_id = strdup(a->msg_id);

	if (!msg_id || !bridge_job(b, job_interrupt, interrupt_done, msg_id))
		free(msg_id);
}

static void shutdown_now(struct bridge *b, struct asked *a, const struct v1_part *content)
{
	json_t *json = json_loadb(content->bytes, content->len, 0, NULL);

	b->restart = json_is_true(json_object_get(json, "restart"));
	b->shutdown = !b->restart;
	json_decref(json);
	answer(b, a, "shutdown_reply",
	       b->restart ? "{\"status\":\"ok\",\"restart\":true}" : "{\"status\":\"ok\",\"restart\":false}");
	bridge_end(b, EXIT_OK);
}

static void refuse(struct bridge *b, struct asked *a, const char *why)
{
	char content[512], type[80];
	json_t *header = json_loadb(a->part[0].bytes, a->part[0].len, 0, NULL);
	const char *asked = text_of(header, "msg_type");
	size_t len = asked ? strlen(asked) : 0;

	snprintf(content, sizeof(content),
		 "{\"status\":\"error\",\"ename\":\"NotSent\",\"evalue\":\"%s\",\"traceback\":[]}", why);
	if (len > 8 && len < sizeof(type) && strcmp(asked + len - 8, "_request") == 0) {
		snprintf(type, sizeof(type), "%.*s_reply", (int)(len - 8), asked);
		answer(b, a, type, content);
	}
	turns_told(&b->turns, a->msg_id, "idle");
	json_decref(header);
}

static void on_local_message(const struct local_message *m, void *arg)
{
	struct bridge *b = arg;
	struct asked *a = m->channel == LOCAL_STDIN ? NULL : asked_add(&b->asked, m);
	int err;

	if (b->ending)
		return;
	if (a && m->channel == LOCAL_CONTROL && strcmp(m->msg_type, "interrupt_request") == 0) {
		interrupt(b, a);
		return;
	}
	if (a && strcmp(m->msg_type, "shutdown_request") == 0) {
		shutdown_now(b, a, &m->part[3]);
		return;
	}
	b->used |= a && a->execute;
	if (a && m->channel == LOCAL_SHELL)
		turns_asked(&b->turns, m);
	err = remote_send(b->remote, local_channel_name(m->channel), m->part, m->parts);
	if (err < 0 && a)
		refuse(b, a,
		       err == -EMSGSIZE ? "The message is larger than 16 MiB."
					: "Too much waits for an appliance that is away.");
}

static void on_local_writable(void *arg)
{
	struct bridge *b = arg;

	remote_go_on(b->remote);
}

/* --- from the appliance --- */

static const char *word_of(const struct v1_part *part, const char *key, json_t **ret)
{
	*ret = json_loadb(part->bytes, part->len, 0, NULL);
	return text_of(*ret, key);
}

/* What a message on iopub says of itself. */
struct heard {
	json_t *header, *parent;
	const char *type, *msg_id; /* msg_id: its request's; NULL: it is about none */
};

static struct heard hear(const struct v1_frame *f)
{
	struct heard h;

	h.type = word_of(&f->part[0], "msg_type", &h.header);
	h.msg_id = word_of(&f->part[1], "msg_id", &h.parent);
	return h;
}

static void heard_free(struct heard *h)
{
	json_decref(h->header);
	json_decref(h->parent);
}

/* What is here of a cell's outputs, should its request have to be sent again. */
static void count_output(struct bridge *b, const struct v1_frame *f, const struct heard *h)
{
	static const char *const others[] = { "execute_result", "display_data", "update_display_data",
					      "error", "clear_output" };
	struct asked **at = h->msg_id ? asked_find(&b->asked, h->msg_id) : NULL;
	json_t *content = NULL;
	size_t i;

	if (!at || !*at || !h->type)
		return;
	if (strcmp(h->type, "stream") == 0) {
		word_of(&f->part[3], "text", &content);
		(*at)->text += json_string_length(json_object_get(content, "text"));
	}
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		(*at)->other += strcmp(h->type, others[i]) == 0;
	json_decref(content);
}

/* A reply or a request for input: to whom asked. What nobody asks for any more is dropped. */
static void give_one(struct bridge *b, enum local_channel channel, const struct v1_frame *f)
{
	json_t *parent;
	const char *msg_id = word_of(&f->part[1], "msg_id", &parent);
	struct asked **at = msg_id ? asked_find(&b->asked, msg_id) : NULL;

	if (at && *at) {
		local_send(b->local, channel, &(*at)->idents, f->part, f->parts);
		if (channel != LOCAL_STDIN) {
			if ((*at)->execute)
				bridge_files_wanted(b);
			asked_done(&b->asked, at);
		}
	}
	json_decref(parent);
}

/* FNV-1a; a header has its message's own msg_id. */
static uint64_t header_hash(const struct v1_part *header)
{
	const unsigned char *at = header->bytes, *end = at + header->len;
	uint64_t hash = 0xcbf29ce484222325;

	while (at < end)
		hash = (hash ^ *at++) * 0x100000001b3;
	return hash;
}

static bool was_seen(const struct bridge *b, uint64_t hash)
{
	size_t i = 0;

	while (i < BRIDGE_SEEN && b->seen[i] != hash)
		i++;
	return i < BRIDGE_SEEN;
}

/* False: not now. */
static bool give(struct bridge *b, const struct v1_frame *f, const struct heard *h)
{
	bool is_state = h->type && h->msg_id && strcmp(h->type, "status") == 0;
	json_t *content = NULL;
	const char *state = is_state ? word_of(&f->part[3], "execution_state", &content) : NULL;
	bool tells = !state || turns_tells(&b->turns, h->msg_id, state);
	bool given = !tells || local_send(b->local, LOCAL_IOPUB, NULL, f->part, f->parts) != -EAGAIN;

	if (state && given)
		turns_told(&b->turns, h->msg_id, state);
	json_decref(content);
	return given;
}

/* False: not now. */
static bool give_all(struct bridge *b, const struct v1_frame *f)
{
	uint64_t hash = header_hash(&f->part[0]);
	struct heard h;
	bool given;

	if (b->doubtful > 0) {
		b->doubtful--;
		if (was_seen(b, hash))
			return true;
	}
	h = hear(f);
	given = give(b, f, &h);
	if (given) {
		b->seen[b->seen_at++ % BRIDGE_SEEN] = hash;
		count_output(b, f, &h);
	}
	heard_free(&h);
	return given;
}

static bool on_remote_message(const struct v1_frame *f, void *arg)
{
	struct bridge *b = arg;
	enum local_channel channel = local_channel_of(f->channel);

	if (b->ending || channel == LOCAL_CHANNELS)
		return true;
	if (channel == LOCAL_IOPUB)
		return give_all(b, f);
	give_one(b, channel, f);
	return true;
}

/* The appliance lost the session, by a restart: what waits for its reply is asked
 * again, and says how much of its outputs is here. */
static void ask_again(struct bridge *b, const struct asked *a)
{
	struct v1_part part[V1_PARTS_MIN];
	json_t *metadata = NULL;
	char *text = NULL;

	memcpy(part, a->part, sizeof(part));
	if (a->execute) {
		metadata = json_loadb(part[2].bytes, part[2].len, 0, NULL);
		if (!json_is_object(metadata)) {
			json_decref(metadata);
			metadata = json_object();
		}
		json_object_set_new(
			metadata, "carrel_again",
			json_pack("{s:I,s:I}", "text", (json_int_t)a->text, "other", (json_int_t)a->other));
		text = json_dumps(metadata, JSON_COMPACT);
	}
	if (text)
		part[2] = (struct v1_part){ .bytes = text, .len = strlen(text) };
	remote_send(b->remote, local_channel_name(a->channel), part, V1_PARTS_MIN);
	free(text);
	json_decref(metadata);
}

static void on_connected(bool known, void *arg)
{
	struct bridge *b = arg;
	bool first = !b->connected;
	struct asked *a;

	b->connected = true;
	if (known || first)
		return;
	b->doubtful = BRIDGE_SEEN;
	/* Nothing of the old session is left to be sent twice. */
	remote_forget(b->remote);
	for (a = b->asked.first; a; a = a->next)
		ask_again(b, a);
}

static void check_done(struct bridge_job *job)
{
	struct bridge *b = job->bridge;

	if (!job->gone || b->ending)
		return;
	fprintf(stderr, "carrel kernel: its sandbox has ended\n");
	state_forget(b);
	b->kernel_id[0] = '\0';
	bridge_end(b, EXIT_FAILED);
}

static void on_away(void *arg)
{
	struct bridge *b = arg;

	/* An appliance that is away comes back; a kernel that is gone does not. */
	if (!b->ending)
		bridge_job(b, job_check, check_done, NULL);
}

static void on_local_dropped(const char *why, void *arg)
{
	(void)arg;
	fprintf(stderr, "carrel kernel: %s\n", why);
}

const struct local_ops bridge_local_ops = {
	.message = on_local_message,
	.writable = on_local_writable,
	.dropped = on_local_dropped,
};
const struct remote_ops bridge_remote_ops = {
	.message = on_remote_message,
	.connected = on_connected,
	.away = on_away,
};
