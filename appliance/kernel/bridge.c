#include "bridge.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void bridge_end(struct bridge *b, int code);

/* --- requests that wait for answers --- */

static void asked_free(struct bridge_asked *a)
{
	local_idents_free(&a->idents);
	free(a->msg_id);
	free(a->bytes);
	free(a);
}

static struct bridge_asked **asked_find(struct bridge *b, const char *msg_id)
{
	struct bridge_asked **at = &b->asked;

	while (*at && strcmp((*at)->msg_id, msg_id) != 0)
		at = &(*at)->next;
	return at;
}

static void asked_done(struct bridge *b, struct bridge_asked **at)
{
	struct bridge_asked *a = *at;

	*at = a->next;
	if (!a->next)
		b->asked_last = at;
	b->asked_count--;
	asked_free(a);
}

static bool parts_copy(struct bridge_asked *a, const struct v1_part *part)
{
	size_t size = 1, i;
	char *at;

	for (i = 0; i < V1_PARTS_MIN; i++)
		size += part[i].len;
	at = a->bytes = malloc(size);
	if (!at)
		return false;
	for (i = 0; i < V1_PARTS_MIN; i++) {
		if (part[i].len > 0)
			memcpy(at, part[i].bytes, part[i].len);
		a->part[i] = (struct v1_part){ .bytes = at, .len = part[i].len };
		at += part[i].len;
	}
	a->header = a->bytes;
	a->header_len = part[0].len;
	return true;
}

static struct bridge_asked *asked_add(struct bridge *b, const struct local_message *m)
{
	struct bridge_asked *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->channel = m->channel;
	a->execute = strcmp(m->msg_type, "execute_request") == 0;
	a->msg_id = strdup(m->msg_id);
	if (!a->msg_id || !parts_copy(a, m->part) || local_idents_copy(m->idents, m->n_idents, &a->idents) < 0) {
		asked_free(a);
		return NULL;
	}
	if (b->asked_count == BRIDGE_ASKED_MAX)
		asked_done(b, &b->asked);
	*b->asked_last = a;
	b->asked_last = &a->next;
	b->asked_count++;
	return a;
}

static void say_state(struct bridge *b, const char *header, size_t len, const char *state)
{
	char content[48];

	snprintf(content, sizeof(content), "{\"execution_state\":\"%s\"}", state);
	local_say(b->local, LOCAL_IOPUB, NULL, "status", header ? header : "{}", header ? len : 2, content);
}

/* The answer to a request that is done here: reply between busy and idle. */
static void answer(struct bridge *b, struct bridge_asked *a, const char *msg_type, const char *content)
{
	say_state(b, a->header, a->header_len, "busy");
	local_say(b->local, a->channel, &a->idents, msg_type, a->header, a->header_len, content);
	say_state(b, a->header, a->header_len, "idle");
}

/* --- files --- */

static void on_files_timer(uv_timer_t *t);

static void files_done(struct bridge_job *job)
{
	struct bridge *b = job->bridge;

	b->files_busy = false;
	if (job->message[0])
		fprintf(stderr, "carrel kernel: %s\n", job->message);
	if (b->files_due && !b->ending)
		uv_timer_start(&b->files_timer, on_files_timer, BRIDGE_FILES_MS, 0);
}

static void on_files_timer(uv_timer_t *t)
{
	struct bridge *b = t->data;

	if (b->files_busy || b->ending)
		return;
	b->files_due = false;
	b->files_busy = bridge_job(b, job_files, files_done, NULL);
}

static void files_wanted(struct bridge *b)
{
	if (!b->files)
		return;
	b->files_due = true;
	if (!b->files_busy)
		uv_timer_start(&b->files_timer, on_files_timer, BRIDGE_FILES_MS, 0);
}

/* --- from the client --- */

static void interrupt_done(struct bridge_job *job)
{
	struct bridge *b = job->bridge;
	struct bridge_asked **at = asked_find(b, job->arg);
	json_t *content = job->code ? json_pack("{s:s,s:s,s:s,s:[]}", "status", "error", "ename",
						"NotInterrupted", "evalue", job->message, "traceback")
				    : json_pack("{s:s}", "status", "ok");
	char *text = content ? json_dumps(content, JSON_COMPACT) : NULL;

	if (*at && text && b->local) {
		answer(b, *at, "interrupt_reply", text);
		asked_done(b, at);
	}
	free(text);
	json_decref(content);
	free(job->arg);
}

static void interrupt(struct bridge *b, struct bridge_asked *a)
{
	char *msg_id = strdup(a->msg_id);

	if (!msg_id || !bridge_job(b, job_interrupt, interrupt_done, msg_id))
		free(msg_id);
}

static void shutdown_now(struct bridge *b, struct bridge_asked *a, const struct v1_part *content)
{
	json_t *json = json_loadb(content->bytes, content->len, 0, NULL);

	b->restart = json_is_true(json_object_get(json, "restart"));
	b->shutdown = !b->restart;
	json_decref(json);
	answer(b, a, "shutdown_reply",
	       b->restart ? "{\"status\":\"ok\",\"restart\":true}" : "{\"status\":\"ok\",\"restart\":false}");
	bridge_end(b, EXIT_OK);
}

static void refuse(struct bridge *b, struct bridge_asked *a, const char *why)
{
	char content[512], type[80];
	json_t *header = json_loadb(a->header, a->header_len, 0, NULL);
	const char *asked = text_of(header, "msg_type");
	size_t len = asked ? strlen(asked) : 0;

	snprintf(content, sizeof(content),
		 "{\"status\":\"error\",\"ename\":\"NotSent\",\"evalue\":\"%s\",\"traceback\":[]}", why);
	if (len > 8 && len < sizeof(type) && strcmp(asked + len - 8, "_request") == 0) {
		snprintf(type, sizeof(type), "%.*s_reply", (int)(len - 8), asked);
		answer(b, a, type, content);
	}
	json_decref(header);
}

static void on_local_message(const struct local_message *m, void *arg)
{
	struct bridge *b = arg;
	struct bridge_asked *a = m->channel == LOCAL_STDIN ? NULL : asked_add(b, m);
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

/* What is here of a cell's outputs, should its request have to be sent again. */
static void count_output(struct bridge *b, const struct v1_frame *f)
{
	static const char *const others[] = { "execute_result", "display_data", "update_display_data", "error",
					      "clear_output" };
	json_t *parent, *header = NULL, *content = NULL;
	const char *msg_id = word_of(&f->part[1], "msg_id", &parent);
	struct bridge_asked **at = msg_id ? asked_find(b, msg_id) : NULL;
	const char *type = at && *at ? word_of(&f->part[0], "msg_type", &header) : NULL;
	size_t i;

	if (type && strcmp(type, "stream") == 0) {
		word_of(&f->part[3], "text", &content);
		(*at)->text += json_string_length(json_object_get(content, "text"));
	}
	for (i = 0; type && i < sizeof(others) / sizeof(others[0]); i++)
		(*at)->other += strcmp(type, others[i]) == 0;
	json_decref(parent);
	json_decref(header);
	json_decref(content);
}

/* A reply or a request for input: to whom asked. What nobody asks for any more is dropped. */
static void give_one(struct bridge *b, enum local_channel channel, const struct v1_frame *f)
{
	json_t *parent;
	const char *msg_id = word_of(&f->part[1], "msg_id", &parent);
	struct bridge_asked **at = msg_id ? asked_find(b, msg_id) : NULL;

	if (at && *at) {
		local_send(b->local, channel, &(*at)->idents, f->part, f->parts);
		if (channel != LOCAL_STDIN) {
			if ((*at)->execute)
				files_wanted(b);
			asked_done(b, at);
		}
	}
	json_decref(parent);
}

static bool on_remote_message(const struct v1_frame *f, void *arg)
{
	struct bridge *b = arg;
	enum local_channel channel = local_channel_of(f->channel);

	if (b->ending || channel == LOCAL_CHANNELS)
		return true;
	if (channel == LOCAL_IOPUB) {
		if (local_send(b->local, channel, NULL, f->part, f->parts) == -EAGAIN)
			return false;
		count_output(b, f);
		return true;
	}
	give_one(b, channel, f);
	return true;
}

/* The appliance lost the session, by a restart: what waits for its reply is asked
 * again, and says how much of its outputs is here. */
static void ask_again(struct bridge *b, const struct bridge_asked *a)
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
		json_object_set_new(metadata, "carrel_again",
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
	struct bridge_asked *a;

	b->connected = true;
	if (known || first)
		return;
	/* Nothing of the old session is left to be sent twice. */
	remote_forget(b->remote);
	for (a = b->asked; a; a = a->next)
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

/* --- life --- */

static void start_done(struct bridge_job *job)
{
	struct bridge *b = job->bridge;

	if (job->code) {
		fprintf(stderr, "carrel kernel: %s\n", job->message);
		bridge_end(b, job->code);
		return;
	}
	memcpy(b->kernel_id, job->kernel_id, sizeof(b->kernel_id));
	memcpy(b->sandbox_id, job->sandbox_id, sizeof(b->sandbox_id));
	b->used |= job->reused;
	if (b->ending) {
		bridge_end(b, b->code);
		return;
	}
	if (job->message[0]) {
		json_t *content = json_pack("{s:s,s:s+}", "name", "stderr", "text", job->message, "\n");
		char *text = content ? json_dumps(content, JSON_COMPACT) : NULL;

		fprintf(stderr, "carrel kernel: %s\n", job->message);
		if (text)
			local_say(b->local, LOCAL_IOPUB, NULL, "stream", "{}", 2, text);
		free(text);
		json_decref(content);
	}
	remote_connect(b->remote, b->kernel_id);
}

static void close_handle(void *handle)
{
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

static void end_done(struct bridge_job *job)
{
	struct bridge *b = job->bridge;
	int i;

	if (job->code && !job->gone)
		fprintf(stderr, "carrel kernel: %s\n", job->message);
	if (!b->restart)
		state_forget(b);
	for (i = 0; i < 3; i++)
		close_handle(&b->signals[i]);
	close_handle(&b->files_timer);
	if (b->parent_fd >= 0)
		close_handle(&b->parent);
	remote_close(b->remote);
	local_close(b->local);
	b->remote = NULL;
	b->local = NULL;
}

static void bridge_end(struct bridge *b, int code)
{
	bool starting = !b->kernel_id[0] && !code;

	if (b->ending && !b->kernel_id[0])
		return;
	b->code = code;
	/* Its sandbox is being made: ended once it is there. */
	if (!b->ending && starting) {
		b->ending = true;
		return;
	}
	b->ending = true;
	if (!bridge_job(b, job_end, end_done, NULL))
		exit(EXIT_FAILED);
}

static void on_signal(uv_signal_t *s, int number)
{
	struct bridge *b = s->data;

	(void)number;
	/* Once more: at once. */
	if (b->ending)
		exit(EXIT_SIGNAL + number);
	bridge_end(b, EXIT_OK);
}

static void on_parent(uv_poll_t *p, int status, int events)
{
	struct bridge *b = p->data;

	(void)status;
	(void)events;
	uv_poll_stop(p);
	if (!b->ending)
		bridge_end(b, EXIT_OK);
}

/* Whoever manages kernels says which process a kernel must not outlive. */
static void parent_watch(struct bridge *b)
{
	const char *pid = getenv("JPY_PARENT_PID");

	b->parent_fd = pid && atoi(pid) > 1 ? (int)syscall(SYS_pidfd_open, atoi(pid), 0) : -1;
	if (b->parent_fd < 0)
		return;
	uv_poll_init(&b->loop, &b->parent, b->parent_fd);
	b->parent.data = b;
	uv_poll_start(&b->parent, UV_READABLE, on_parent);
}

static void signals_watch(struct bridge *b)
{
	static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };
	int i;

	signal(SIGPIPE, SIG_IGN);
	for (i = 0; i < 3; i++) {
		uv_signal_init(&b->loop, &b->signals[i]);
		b->signals[i].data = b;
		uv_signal_start(&b->signals[i], on_signal, numbers[i]);
	}
}

static const struct local_ops local_ops = { .message = on_local_message, .writable = on_local_writable };
static const struct remote_ops remote_ops = {
	.message = on_remote_message,
	.connected = on_connected,
	.away = on_away,
};

int bridge_run(struct command *c, const struct bridge_options *options)
{
	struct bridge b = { .command = c, .options = options, .parent_fd = -1 };
	char why[512] = "Out of memory.";

	uv_loop_init(&b.loop);
	b.asked_last = &b.asked;
	uv_timer_init(&b.loop, &b.files_timer);
	b.files_timer.data = &b;
	if (local_open(&b.loop, options->connection_file, &local_ops, &b, &b.local, why, sizeof(why)) < 0)
		return complain(EXIT_FAILED, "%s", why);
	b.remote = remote_new(&b.loop, &c->http.where, &remote_ops, &b);
	b.files = options->files ? copy_files_new(options->files) : NULL;
	if (!b.remote || (options->files && !b.files))
		return complain(EXIT_FAILED, "The WebSocket library does not start.");
	signals_watch(&b);
	parent_watch(&b);
	say_state(&b, NULL, 0, "starting");
	if (!bridge_job(&b, job_start, start_done, NULL))
		return complain(EXIT_FAILED, "Out of memory.");
	uv_run(&b.loop, UV_RUN_DEFAULT);
	while (b.asked)
		asked_done(&b, &b.asked);
	copy_files_free(b.files);
	if (b.parent_fd >= 0)
		close(b.parent_fd);
	return b.code;
}
