/* What a running execution says: the kernel's messages as events and outputs, up to its sandbox's limit. */
#include "execution.h"

#include <string.h>

#include "client.h"
#include "kernel.h"

static void full_url(const struct execution *e, unsigned n, char *ret, size_t size)
{
	snprintf(ret, size, "/v1/executions/%s/outputs/%u/full", e->id, n);
}

static void execution_bundle(struct execution *e, struct store_txn *t, const struct jupyter_msg *m)
{
	bool result = m->type == JUPYTER_RESULT;
	const char *kind = result ? "result" : "display";
	json_t *fields = json_object();
	char url[128];
	unsigned n;

	n = outputs_bundle(&e->outputs, t, &e->events, kind, m->data, m->name,
			   m->type == JUPYTER_UPDATE_DISPLAY);
	if (result)
		json_object_set_new(fields, "is_main_result", json_true());
	else if (m->name[0])
		json_object_set_new(fields, "display_id", json_string(m->name));
	if (m->type == JUPYTER_UPDATE_DISPLAY)
		json_object_set_new(fields, "update", json_true());
	full_url(e, n, url, sizeof(url));
	/* Past the bound on outputs there is no row to fetch from. */
	events_bundle(&e->events, kind, m->data, fields, n ? url : NULL);
}

void execution_stream(struct execution *e, struct store_txn *t, const char *stream, const char *text, size_t len)
{
	if (outputs_text(&e->outputs, t, &e->events, stream, text, len) < 0)
		e->events.lines.failed = true;
	events_text(&e->events, stream, text, len);
}

static bool is_output(const struct jupyter_msg *m)
{
	return m->type == JUPYTER_STREAM || m->type == JUPYTER_RESULT || m->type == JUPYTER_DISPLAY ||
	       m->type == JUPYTER_UPDATE_DISPLAY || m->type == JUPYTER_ERROR;
}

bool execution_is_full(const struct execution *e, const struct jupyter_msg *m)
{
	return e->stop == STOP_OUTPUT && is_output(m) && m->type != JUPYTER_ERROR &&
	       strcmp(m->parent_id, e->msg_id) == 0;
}

static uint64_t output_size(const struct jupyter_msg *m)
{
	if (m->type == JUPYTER_STREAM)
		return m->len;
	return json_dumpb(m->type == JUPYTER_ERROR ? m->traceback : m->data, NULL, 0, JSON_COMPACT) + m->len;
}

/* False: nothing of the message is taken any more. *ret_len: how much of its text. */
static bool output_take(struct execution *e, const struct jupyter_msg *m, size_t *ret_len)
{
	uint64_t most = (uint64_t)e->kernel->sandbox->limits.output_mb << 20, before = e->output_bytes, size;

	*ret_len = m->len;
	if (!most || !is_output(m))
		return true;
	size = output_size(m);
	e->output_bytes += size;
	if (e->output_bytes <= most) {
		e->output_kept += size;
		return true;
	}
	if (e->stop == STOP_NONE || e->stop == STOP_INTERRUPT) {
		execution_stop(e, STOP_OUTPUT);
		client_execution_text(e, "The sandbox's limit output_mb is reached: the cell is interrupted.\n");
	}
	if (m->type != JUPYTER_STREAM || before >= most)
		return false;
	*ret_len = utf8_head_cut(m->text, (size_t)(most - before));
	e->output_kept += *ret_len;
	return *ret_len > 0;
}

void execution_output(struct execution *e, const struct jupyter_msg *m)
{
	struct store_txn *t = kernel_txn(e->kernel);
	size_t len;

	e->changed = true;
	execution_started(e, m->type == JUPYTER_EXECUTE_INPUT ? m->execution_count : -1);
	if (!output_take(e, m, &len))
		return;
	switch (m->type) {
	case JUPYTER_STREAM:
		execution_stream(e, t, m->is_stderr ? "stderr" : "stdout", m->text, len);
		break;
	case JUPYTER_RESULT:
	case JUPYTER_DISPLAY:
	case JUPYTER_UPDATE_DISPLAY:
		execution_bundle(e, t, m);
		break;
	case JUPYTER_ERROR:
		outputs_error(&e->outputs, t, &e->events, m->name, m->text, m->len, m->traceback);
		events_error(&e->events, m->name, m->text, m->len, m->traceback);
		break;
	case JUPYTER_CLEAR_OUTPUT:
		events_add(&e->events, "clear_output", json_pack("{s:b}", "wait", m->wait));
		break;
	default:
		break;
	}
}
