#include "warmup.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../store/ids.h"
#include "buf.h"
#include "jupyter.h"
#include "kernel.h"

struct warmup_request {
	const char *type;
	const char *code;
	bool silent;
};

struct warmup {
	const struct warmup_request *requests; /* ends with one without a type; own comes behind them */
	struct warmup_request own;
	char agent_id[STORE_ID_MAX], language[KERNEL_NAME_MAX], *code;
	bool idle, replied; /* the answer to the present one */
	const struct warmup_ops *ops;
	void *arg;
	struct channel *channel;
	char session[UUID_SIZE];
	unsigned at;
	bool began, over;
};

/* In a function, so that no name is left; whatever a template lacks is passed over. */
static const char cell_libraries[] =
	"def _carrel_warmup():\n"
	"    import sys\n"
	"    from IPython.display import display\n"
	"    print('warm')\n"
	"    print('warm', file=sys.stderr)\n"
	"    try:\n"
	"        import pandas as pd\n"
	"        frame = pd.DataFrame({'a': [1, 2, 3], 'b': [1.5, 2.5, 3.5], 'c': list('xyx')})\n"
	"        display(frame)\n"
	"        display(frame.groupby('c').mean(numeric_only=True))\n"
	"        import matplotlib.pyplot as plt\n"
	"        figure, axes = plt.subplots()\n"
	"        axes.plot([1, 2, 3], [3, 1, 2])\n"
	"        axes.set_title('warm')\n"
	"        display(figure)\n"
	"        plt.close(figure)\n"
	"    except ImportError:\n"
	"        pass\n"
	"    shell = get_ipython()\n"
	"    shell.run_line_magic('time', '1 + 1')\n"
	"    shell.system('true')\n"
	"try:\n"
	"    _carrel_warmup()\n"
	"finally:\n"
	"    del _carrel_warmup\n";

static const struct warmup_request for_template[] = {
	{ "execute_request", cell_libraries, true },
	{ "execute_request", "1 / 0", true },
	{ "complete_request", "import os\nos.pa", false },
	{ "inspect_request", "print", false },
	{ NULL, NULL, false },
};

/* What a result leaves behind is taken back: _, __, Out. */
static const char cell_clean[] =
	"def _carrel_warmup():\n"
	"    import sys\n"
	"    shell = get_ipython()\n"
	"    shell.displayhook.flush()\n"
	"    for name in ('_', '__', '___'):\n"
	"        shell.user_ns.pop(name, None)\n"
	"    for name in ('last_type', 'last_value', 'last_traceback', 'last_exc'):\n"
	"        sys.__dict__.pop(name, None)\n"
	"try:\n"
	"    _carrel_warmup()\n"
	"finally:\n"
	"    del _carrel_warmup\n";

/* The way of a cell and of its result, and no more: the libraries' code would push
 * it out of QEMU's translation buffer again (measured with tables, tracebacks, plots). */
static const struct warmup_request for_clone[] = {
	{ "execute_request", "print('warm')", false },
	{ "execute_request", "1 + 1", false },
	{ "execute_request", cell_clean, true },
	{ "execute_request", "print('warm')", false },
	{ NULL, NULL, false },
};

/* Of other languages it is known how they begin. */
static const struct warmup_request for_others[] = {
	{ "kernel_info_request", NULL, false },
	{ NULL, NULL, false },
};

static const struct warmup_request *requests_of(enum warmup_kind kind, const char *language)
{
	if (strcmp(language, "python") != 0)
		return for_others;
	return kind == WARMUP_TEMPLATE ? for_template : for_clone;
}

/* NULL: all were answered. */
static const struct warmup_request *request_now(const struct warmup *w)
{
	unsigned i = 0;

	while (i < w->at && w->requests[i].type)
		i++;
	if (w->requests[i].type)
		return &w->requests[i];
	return i == w->at && w->code ? &w->own : NULL;
}

static json_t *content_of(const struct warmup_request *r)
{
	json_t *content;

	if (!r->code)
		return json_object();
	if (strcmp(r->type, "execute_request") != 0)
		return json_pack("{s:s,s:i,s:i}", "code", r->code, "cursor_pos", (int)strlen(r->code),
				 "detail_level", 0);
	content = jupyter_execute_content(r->code, r->silent);
	/* One that is not silent takes a user's way, but must not be counted. */
	json_object_set_new(content, "store_history", json_false());
	return content;
}

static void warmup_over(struct warmup *w, const char *message)
{
	if (w->over)
		return;
	w->over = true;
	w->ops->over(message, w->arg);
}

static void request_id(const struct warmup *w, char ret[32])
{
	snprintf(ret, 32, "warmup-%u", w->at);
}

static void request_send(struct warmup *w)
{
	const struct warmup_request *r = request_now(w);
	json_t *content = content_of(r);
	struct buf out = { 0 };
	char id[32];
	bool sent;

	w->idle = w->replied = false;
	request_id(w, id);
	jupyter_request(&out, JUPYTER_SHELL, id, w->session, r->type, content);
	sent = !out.failed && channel_send(w->channel, 'J', true, out.bytes, out.len) > 0;
	json_decref(content);
	buf_free(&out);
	if (!sent)
		warmup_over(w, "The warm-up could not be sent.");
}

/* The template's own code failed: nobody would find what it was to prepare. */
static void own_failed(struct warmup *w, const struct jupyter_msg *m)
{
	const char *name = json_string_value(json_object_get(m->content, "ename"));
	const char *value = json_string_value(json_object_get(m->content, "evalue"));
	char message[300];

	snprintf(message, sizeof(message), "WARM of %.32s failed: %.60s%s%.150s", w->language, name ? name : "error",
		 value && *value ? ": " : "", value ? value : "");
	warmup_over(w, message);
}

/* Reply and status come by different ways, in any order. False: it is over, and w may be gone. */
static bool message_take(struct warmup *w, const struct jupyter_msg *m)
{
	char id[32];

	request_id(w, id);
	if (strcmp(m->parent_id, id) != 0)
		return false;
	if (m->type == JUPYTER_STATUS && strcmp(m->text, "idle") == 0)
		w->idle = true;
	if (m->type == JUPYTER_EXECUTE_REPLY && request_now(w) == &w->own && strcmp(m->text, "ok") != 0) {
		own_failed(w, m);
		return false;
	}
	w->replied |= m->type == JUPYTER_EXECUTE_REPLY;
	return true;
}

static void on_frame(struct channel *c, uint8_t type, uint64_t seq, const uint8_t *payload, size_t len,
		     void *arg)
{
	struct warmup *w = arg;
	struct jupyter_msg m;
	bool goes_on;

	channel_ack(c, seq);
	if (w->over || !w->began || type != 'J' || jupyter_parse(payload, len, &m) < 0)
		return;
	goes_on = message_take(w, &m);
	jupyter_msg_free(&m);
	if (!goes_on || !w->idle || (request_now(w) == &w->own && !w->replied))
		return;
	w->at++;
	if (request_now(w))
		request_send(w);
	else
		warmup_over(w, NULL);
}

static void on_attached(struct channel *c, void *arg)
{
	struct warmup *w = arg;

	(void)c;
	if (w->began || w->over)
		return;
	w->began = true;
	if (w->ops->began)
		w->ops->began(w->arg);
	request_send(w);
}

struct warmup *warmup_new(enum warmup_kind kind, const struct warmup_kernel *kernel, uint64_t received, uint64_t sent,
			  const struct warmup_ops *ops, void *arg)
{
	static const struct channel_ops channel_ops = { .frame = on_frame, .attached = on_attached };
	struct warmup *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	*w = (struct warmup){ .requests = requests_of(kind, kernel->language), .ops = ops, .arg = arg };
	snprintf(w->agent_id, sizeof(w->agent_id), "%s", kernel->agent_id);
	snprintf(w->language, sizeof(w->language), "%s", kernel->language);
	w->code = kernel->code ? strdup(kernel->code) : NULL;
	w->own = (struct warmup_request){ "execute_request", w->code, true };
	uuid_new(w->session);
	w->channel = channel_new(CHANNEL_REFUSE, &channel_ops, w);
	if (!w->channel || (kernel->code && !w->code)) {
		warmup_free(w);
		return NULL;
	}
	if (received || sent)
		channel_restore(w->channel, received, sent);
	return w;
}

int warmup_attach(struct warmup *w, struct link *l)
{
	char path[128];

	snprintf(path, sizeof(path), "/kernels/%s/channel", w->agent_id);
	return channel_connect(w->channel, l, path);
}

uint64_t warmup_received(const struct warmup *w)
{
	return channel_received(w->channel);
}

uint64_t warmup_sent(const struct warmup *w)
{
	return channel_sent(w->channel);
}

void warmup_free(struct warmup *w)
{
	if (!w)
		return;
	channel_free(w->channel);
	free(w->code);
	free(w);
}
