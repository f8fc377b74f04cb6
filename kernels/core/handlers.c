#include "core/handlers.h"
#include "core/core.h"
#include "core/log.h"
#include "core/shell.h"
#include "core/usage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct handler {
	const char *request;
	const char *reply; /* NULL: none is sent */
	json_t *(*handle)(struct core *c, struct request *r);
};

static json_t *error_content(const char *ename, const char *evalue)
{
	return json_pack("{s:s, s:s, s:s, s:[]}", "status", "error", "ename", ename, "evalue", evalue,
			 "traceback");
}

static json_t *with_count(struct core *c, json_t *content)
{
	if (content)
		json_object_set_new(content, "execution_count", json_integer(c->execution_count));
	return content;
}

static json_t *handle_execute(struct core *c, struct request *r)
{
	bool silent = request_bool(r, "silent", false);
	bool is_main = shell_self(c) == &c->shell_line;
	json_t *content;
	const char *status;

	if (r->aborted)
		return with_count(c, json_pack("{s:s}", "status", "aborted"));
	if (r->malformed[0])
		return with_count(c, error_content("BadRequest", r->malformed));
	/* What the descriptors carry belongs to the main shell's cell. */
	if (is_main)
		capture_set_parent(&c->capture, r->parent, silent);
	content = c->ops->execute(c->lang, c, r);
	status = json_string_value(json_object_get(content, "status"));
	if (!status)
		return with_count(c, error_content("MemoryError", "no memory was left for the reply"));
	c->execution_count = (int)json_integer_value(json_object_get(content, "execution_count"));
	/* What C code printed and did not flush belongs to this cell too; text
	 * that was cut inside a character ends here. */
	fflush(stdout);
	if (is_main)
		capture_set_parent(&c->capture, r->parent, silent);
	if (!strcmp(status, "error") && !silent && request_bool(r, "stop_on_error", true))
		shell_abort_queued(shell_self(c));
	return content;
}

static json_t *handle_kernel_info(struct core *c, struct request *r)
{
	(void)r;
	return json_loads(c->control.kernel_info, 0, NULL);
}

static json_t *handle_complete(struct core *c, struct request *r)
{
	return c->ops->complete(c->lang, c, r);
}

static json_t *handle_inspect(struct core *c, struct request *r)
{
	return c->ops->inspect(c->lang, c, r);
}

static json_t *handle_is_complete(struct core *c, struct request *r)
{
	return c->ops->is_complete(c->lang, c, r);
}

static json_t *handle_history(struct core *c, struct request *r)
{
	return c->ops->history(c->lang, c, r);
}

static json_t *handle_comm_info(struct core *c, struct request *r)
{
	if (c->ops->comm_info)
		return c->ops->comm_info(c->lang, c, r);
	return json_pack("{s:s, s:{}}", "status", "ok", "comms");
}

/* Output of a comm's callbacks belongs to the comm's message; what threads print
 * later belongs to the cell again. */
static void call_comm(struct core *c, struct request *r)
{
	bool quiet, is_main = shell_self(c) == &c->shell_line;
	struct parent *parent = capture_parent(&c->capture, &quiet);

	if (is_main)
		capture_set_parent(&c->capture, r->parent, false);
	json_decref(c->ops->comm(c->lang, c, r));
	if (is_main && !core_is_child())
		capture_set_parent(&c->capture, parent, quiet);
	parent_unref(parent);
}

static json_t *handle_comm(struct core *c, struct request *r)
{
	const char *id = json_string_value(json_object_get(r->content, "comm_id"));

	if (c->ops->comm)
		call_comm(c, r);
	else if (id && !strcmp(r->type, "comm_open"))
		iopub_put_json(&c->iopub, "comm_close", r->parent,
			       json_pack("{s:s, s:{}}", "comm_id", id, "data"), NULL);
	return NULL;
}

static json_t *handle_connect(struct core *c, struct request *r)
{
	const int *port = c->conn.port;

	(void)r;
	return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i}", "status", "ok", "shell_port", port[CHANNEL_SHELL],
			 "control_port", port[CHANNEL_CONTROL], "stdin_port", port[CHANNEL_STDIN], "iopub_port",
			 port[CHANNEL_IOPUB], "hb_port", port[CHANNEL_HB]);
}

static json_t *handle_usage(struct core *c, struct request *r)
{
	(void)c;
	(void)r;
	return usage_content();
}

static json_t *handle_identity(struct core *c, struct request *r)
{
	return c->ops->identity(c->lang, c, r);
}

static json_t *handle_interrupt(struct core *c, struct request *r)
{
	(void)c;
	(void)r;
	/* By shell it is served only between executions: nothing runs. */
	return json_pack("{s:s}", "status", "ok");
}

static json_t *handle_shutdown(struct core *c, struct request *r)
{
	json_t *content =
		json_pack("{s:s, s:b}", "status", "ok", "restart", (int)request_bool(r, "restart", false));

	core_stop(c);
	return content;
}

static const struct handler handlers[] = {
	{ "execute_request", "execute_reply", handle_execute },
	{ "kernel_info_request", "kernel_info_reply", handle_kernel_info },
	{ "complete_request", "complete_reply", handle_complete },
	{ "inspect_request", "inspect_reply", handle_inspect },
	{ "is_complete_request", "is_complete_reply", handle_is_complete },
	{ "history_request", "history_reply", handle_history },
	{ "comm_info_request", "comm_info_reply", handle_comm_info },
	{ "comm_open", NULL, handle_comm },
	{ "comm_msg", NULL, handle_comm },
	{ "comm_close", NULL, handle_comm },
	{ "connect_request", "connect_reply", handle_connect },
	{ "usage_request", "usage_reply", handle_usage },
	{ "interrupt_request", "interrupt_reply", handle_interrupt },
	{ "shutdown_request", "shutdown_reply", handle_shutdown },
	{ "carrel_identity_request", "carrel_identity_reply", handle_identity },
};

static const struct handler *find_handler(const char *type)
{
	size_t i;

	for (i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++) {
		if (!strcmp(handlers[i].request, type))
			return &handlers[i];
	}
	return NULL;
}

/* A request for a subshell that does not exist: whoever waits for a reply gets one. */
static void refuse(struct core *c, struct request *r)
{
	static const char request[] = "_request";
	const char *id = json_string_value(json_object_get(r->header, "subshell_id"));
	size_t n = strlen(r->type), tail = sizeof(request) - 1;
	char why[100], type[MESSAGE_TYPE_MAX];

	iopub_put_status(&c->iopub, "busy", r->parent, false);
	if (n > tail && n < sizeof(type) && !strcmp(r->type + n - tail, request)) {
		snprintf(why, sizeof(why), "Unknown subshell_id '%.60s'", id ? id : "");
		snprintf(type, sizeof(type), "%.*s_reply", (int)(n - tail), r->type);
		shell_reply(c, r, type, with_count(c, error_content("UnknownSubshellError", why)));
	}
	iopub_put_status(&c->iopub, "idle", r->parent, false);
}

void handlers_serve(struct core *c, struct request *r)
{
	const struct handler *h = find_handler(r->type);
	struct shell *s = shell_self(c);
	const struct request *outer = s->current;
	json_t *content = NULL;
	bool hold;

	if (r->lost) {
		refuse(c, r);
		return;
	}
	s->current = r;
	message_date(r->started);
	/* Most cells are short: what they publish leaves with their end. */
	hold = h && h->handle == handle_execute && !r->aborted && !request_bool(r, "silent", false);
	iopub_put_status(&c->iopub, "busy", r->parent, hold);
	if (h)
		content = h->handle(c, r);
	else
		log_line("a request of the unknown type \"%.40s\" was not served", r->type);
	/* A child that the user's code made by fork() and that came back from it
	 * has no client, no threads and nothing to say here. */
	if (core_is_child())
		_exit(0);
	capture_drain(&c->capture);
	if (h && h->reply) {
		if (!content)
			content = error_content("MemoryError", "no memory was left for the reply");
		if (content)
			shell_reply(c, r, h->reply, content);
	} else {
		json_decref(content);
	}
	capture_drain(&c->capture);
	/* The sender works beside the cells that wait; a client that waits is served from here. */
	if (shell_is_empty(s))
		iopub_put_idle(&c->iopub, r->parent);
	else
		iopub_put_status(&c->iopub, "idle", r->parent, false);
	s->current = outer;
}
