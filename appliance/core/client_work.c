/* What comes from a client, one after the other: execute_requests become
 * executions, the rest goes to client_request.c. Files and waiting are for
 * libuv's pool; meanwhile what came later waits. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../store/audit.h"
#include "../store/ids.h"
#include "client_inner.h"

enum {
	/* JSON values in a header and in what is asked with the code. */
	HEADER_VALUES_MAX = 256,
	HEADER_DEPTH_MAX = 8,
	/* Code of one cell: with every byte escaped six-fold it may not pass the link, and is refused there.
	 */
	CODE_MAX = 8 * 1024 * 1024,
};

/* An execute_request on its way to its row. */
struct client_execute {
	struct execution_waiter w;
	struct execute_spec spec;
	char owner[STORE_ID_MAX], sandbox_id[STORE_ID_MAX], kernel_id[STORE_ID_MAX], id[STORE_ID_MAX];
	char *code;
	json_t *asked;
};

struct client_job {
	struct client *client;
	struct core *core;
	char owner[STORE_ID_MAX], sandbox_id[STORE_ID_MAX];
	struct fault fault;
	bool retry;
	/* Of an execute_request. */
	char id[STORE_ID_MAX];
	struct xlog *log;
	int err;
	/* Of one that is asked again: id is the execution that it became. */
	bool is_again, live, found;
	struct client_again again;
	char msg_id[JUPYTER_ID_MAX];
	struct client_joined joined;
	json_t *messages, *row;
};

void client_in_free(struct client_in *in)
{
	json_decref(in->header);
	free(in);
}

static const char *header_word(const struct client_in *in, const char *key)
{
	return json_string_value(json_object_get(in->header, key));
}

static bool header_ok(const struct client_in *in)
{
	const char *id = header_word(in, "msg_id"), *type = header_word(in, "msg_type");

	return id && *id && strlen(id) < JUPYTER_ID_MAX && type && *type && header_word(in, "session");
}

int client_message(struct client *c, enum jupyter_channel channel, const struct v1_part *part, size_t parts)
{
	struct client_in *in;
	size_t size = 0, i;
	char *at;

	/* Counted whatever it is, as its sender counts. */
	c->count++;
	for (i = 0; i < parts; i++)
		size += part[i].len;
	in = malloc(sizeof(*in) + size);
	if (!in)
		return -ENOMEM;
	*in = (struct client_in){ .channel = channel, .parts = parts, .number = c->count };
	at = in->bytes;
	for (i = 0; i < parts; i++) {
		if (part[i].len > 0)
			memcpy(at, part[i].bytes, part[i].len);
		in->part[i] = (struct v1_part){ .bytes = at, .len = part[i].len };
		at += part[i].len;
	}
	if (part[0].len <= CLIENT_HEADER_MAX)
		in->header =
			json_parse_bounded(part[0].bytes, part[0].len, HEADER_VALUES_MAX, HEADER_DEPTH_MAX);
	if (!json_is_object(in->header) || !header_ok(in)) {
		client_in_free(in);
		return -EBADMSG;
	}
	if (channel == JUPYTER_SHELL && parts > 2)
		in->is_again = client_again_read(&in->part[2], &in->again);
	*c->intake_last = in;
	c->intake_last = &in->next;
	c->intake_count++;
	client_work(c);
	return 0;
}

bool client_reads(const struct client *c)
{
	return c->intake_count < CLIENT_INTAKE_MAX;
}

static struct client_in *intake_take(struct client *c)
{
	struct client_in *in = c->intake;

	c->intake = in->next;
	if (!c->intake)
		c->intake_last = &c->intake;
	c->intake_count--;
	/* Half of it, so that reading does not stop and go with each message. */
	if (c->unread && c->intake_count <= CLIENT_INTAKE_MAX / 2) {
		c->unread = false;
		if (c->ops)
			c->ops->wake(c->arg);
	}
	return in;
}

static bool is_execute(const struct client_in *in)
{
	return in->channel == JUPYTER_SHELL && strcmp(header_word(in, "msg_type"), "execute_request") == 0;
}

static void in_refuse(struct client *c, struct client_in *in, const char *ename, const char *evalue)
{
	client_say_refusal(c->kernel, c->session, in->channel, in->header, ename, evalue, true);
}

static struct client_job *job_new(struct client *c)
{
	struct client_job *job = calloc(1, sizeof(*job));
	struct sandbox *sb = c->kernel->sandbox;

	if (!job)
		return NULL;
	job->client = c;
	job->core = sb->core;
	snprintf(job->owner, sizeof(job->owner), "%s", sb->owner);
	snprintf(job->sandbox_id, sizeof(job->sandbox_id), "%s", sb->id);
	return job;
}

/* --- a sandbox that is paused, or being paused or copied --- */

static void settle_work(void *arg)
{
	struct client_job *job = arg;

	job->retry = core_settle(job->core, job->owner, job->sandbox_id, NULL, true, &job->fault);
}

static void settle_done(void *arg)
{
	struct client_job *job = arg;
	struct client *c = job->client;

	if (c->kernel && !job->retry && c->intake) {
		struct client_in *in = intake_take(c);

		in_refuse(c, in, "SandboxUnavailable", job->fault.message);
		client_in_free(in);
	}
	free(job);
	c->working = false;
	client_work(c);
}

/* --- an execution --- */

static void execute_free(struct client_execute *x)
{
	xlog_unref(x->w.log);
	json_decref(x->asked);
	free(x->code);
	free(x);
}

static void execute_refuse(struct client_execute *x, struct kernel *k, const struct fault *f)
{
	const char *session = json_string_value(json_object_get(x->asked, "client"));

	client_say_refusal(k, session, JUPYTER_SHELL, json_object_get(x->asked, "header"),
			   strcmp(f->code, "queue_full") == 0 ? "QueueFull" : "NotExecuted", f->message,
			   true);
}

static void execute_stored(struct execution_waiter *w, int err)
{
	struct client_execute *x = (struct client_execute *)w;
	struct sandbox *sb = sandbox_find(w->core, x->owner, x->sandbox_id);
	struct kernel *k = sb ? kernel_find(sb, x->kernel_id) : NULL;

	if (err < 0 && k)
		execute_refuse(x, k, &w->call.fault);
	execute_free(x);
}

/* {"client","header","metadata","content"}: what is kept of the request beside its code. */
static json_t *asked_new(struct client *c, const struct client_in *in, json_t *content)
{
	json_t *metadata =
		json_parse_bounded(in->part[2].bytes, in->part[2].len, JUPYTER_VALUES_MAX, JUPYTER_DEPTH_MAX);

	return json_pack("{s:s,s:O,s:o,s:O}", "client", c->session, "header", in->header, "metadata",
			 json_is_object(metadata) ? metadata : json_object(), "content", content);
}

static struct client_execute *execute_new(struct client *c, const struct client_in *in, const char **ret_why)
{
	json_t *content =
		json_parse_bounded(in->part[3].bytes, in->part[3].len, JUPYTER_VALUES_MAX, JUPYTER_DEPTH_MAX);
	json_t *code = json_object_get(content, "code");
	struct client_execute *x = NULL;

	*ret_why = "Its content is no JSON object with the code as a string.";
	if (json_is_string(code) && json_string_length(code) > CODE_MAX)
		*ret_why = "Its code is longer than 8 MiB; put it into a file.";
	else if (json_is_string(code))
		x = calloc(1, sizeof(*x));
	if (x) {
		x->code = strdup(json_string_value(code));
		json_object_del(content, "code");
		x->asked = asked_new(c, in, content);
	}
	if (x && (!x->code || !x->asked)) {
		execute_free(x);
		x = NULL;
	}
	json_decref(content);
	return x;
}

static void execute_submit(struct client *c, struct client_job *job, struct client_execute *x)
{
	struct kernel *k = c->kernel;

	snprintf(x->owner, sizeof(x->owner), "%s", job->owner);
	snprintf(x->sandbox_id, sizeof(x->sandbox_id), "%s", job->sandbox_id);
	snprintf(x->kernel_id, sizeof(x->kernel_id), "%s", k->id);
	snprintf(x->id, sizeof(x->id), "%s", job->id);
	x->spec = (struct execute_spec){ .code = x->code, .kernel_id = x->kernel_id, .asked = x->asked };
	x->w = (struct execution_waiter){ .core = job->core,
					  .owner = x->owner,
					  .sandbox_id = x->sandbox_id,
					  .id = x->id,
					  .spec = &x->spec,
					  .log = job->log,
					  .done = execute_stored };
	job->log = NULL;
	audit_asker_set(c->key_id);
	execution_submit(&x->w);
	audit_asker_set(NULL);
}

/* It was here already when a cell before it failed. */
static bool is_stopped(const struct client *c, const struct client_in *in)
{
	return in->number <= c->stopped && strcmp(header_word(in, "session"), c->stopped_session) == 0;
}

static void execute_go_on(struct client *c, struct client_job *job)
{
	struct client_in *in = intake_take(c);
	const char *why = job->is_again ? "Whether it has run could not be read from the store."
					: "The event log of the execution could not be made on the host.";
	struct client_execute *x = NULL;

	if (is_stopped(c, in)) {
		client_say_aborted(c->kernel, c->session, in->header);
		client_in_free(in);
		return;
	}
	if (!job->err)
		x = execute_new(c, in, &why);
	if (x)
		execute_submit(c, job, x);
	else
		in_refuse(c, in, "NotExecuted", why);
	client_in_free(in);
}

/* What it became; -ENOENT: it never came here. */
static int again_work(struct client_job *job)
{
	struct core *c = job->core;
	int err = 0;

	/* Its end may be on its way to its row. */
	if (!job->live)
		err = store_txn_wait(store_txn_new(c->store), &job->fault);
	if (!job->live && !err)
		err = store_execution_asked(c->store, job->sandbox_id, job->msg_id, job->id);
	if (!job->live && !err)
		err = store_execution_get(c->store, job->owner, job->id, &job->row);
	if (!err)
		job->messages =
			client_again_messages(c, job->owner, job->id, job->live, &job->again, &job->joined);
	return err;
}

static void log_work(void *arg)
{
	struct client_job *job = arg;

	if (job->is_again)
		job->err = again_work(job);
	job->found = job->is_again && !job->err;
	/* What may have run is not run again because a disk is full. */
	if (job->found || (job->err && job->err != -ENOENT))
		return;
	job->err = xlog_open(job->core->settings->state, job->id, true, 0, 0, false, &job->log);
}

static void log_done(void *arg)
{
	struct client_job *job = arg;
	struct client *c = job->client;
	struct fault f;

	if (c->kernel && c->intake && job->found) {
		struct client_in *in = intake_take(c);

		client_again_say(c, in->header, job->messages, job->row);
		client_in_free(in);
	} else if (c->kernel && c->intake && sandbox_usable(job->core, job->owner, job->sandbox_id, &f)) {
		execute_go_on(c, job);
	}
	json_decref(job->messages);
	json_decref(job->row);
	xlog_unref(job->log);
	free(job);
	c->working = false;
	client_work(c);
}

static void job_again(struct client *c, const struct client_in *in, struct client_job *job)
{
	struct execution *e =
		client_again_find(c->kernel, header_word(in, "msg_id"), header_word(in, "session"));

	job->is_again = true;
	job->again = in->again;
	snprintf(job->msg_id, sizeof(job->msg_id), "%s", header_word(in, "msg_id"));
	job->joined = c->joined;
	job->live = e != NULL;
	if (e)
		snprintf(job->id, sizeof(job->id), "%s", e->id);
	else
		kernel_flush(c->kernel);
}

/* False: nothing was started, the message stands for itself. */
static bool client_job_start(struct client *c)
{
	struct sandbox *sb = c->kernel->sandbox;
	struct client_job *job = NULL;
	struct fault f;
	bool usable = sandbox_usable(sb->core, sb->owner, sb->id, &f) != NULL;
	int err;

	if (usable && !is_execute(c->intake))
		return false;
	job = job_new(c);
	if (!job)
		return false;
	if (!usable)
		job->fault = f;
	id_new("exe", job->id);
	if (usable && c->intake->is_again)
		job_again(c, c->intake, job);
	err = usable ? hub_work(sb->core->hub, log_work, log_done, job)
		     : hub_work(sb->core->hub, settle_work, settle_done, job);
	if (err < 0) {
		free(job);
		return false;
	}
	return true;
}

void client_work(struct client *c)
{
	struct client_in *in;

	if (!client_reads(c))
		c->unread = true;
	if (c->working)
		return;
	/* What is said in here may be too much for it: it is forgotten then, and freed behind the last line.
	 */
	c->working = true;
	while (c->kernel && c->kernel->sandbox && c->intake) {
		if (client_job_start(c))
			return;
		in = intake_take(c);
		if (is_execute(in)) {
			in_refuse(c, in, "NotExecuted", "Out of memory on the host.");
			client_in_free(in);
		} else {
			client_pass(c, in);
		}
	}
	c->working = false;
	client_check_free(c);
}
