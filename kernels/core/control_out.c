/* What other threads want sent by the control thread. */
#include "core/control.h"
#include "core/core.h"
#include "core/log.h"
#include "core/reply.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct control_out {
	struct control_out *next;
	struct slice idents[WIRE_IDENTS_MAX];
	size_t n_idents;
	struct parent *parent;
	enum connection_channel channel;
	char type[MESSAGE_TYPE_MAX];
	char header[MESSAGE_HEADER_MAX];
	char metadata[REPLY_METADATA_MAX];
	char *text; /* content */
	size_t len;
};

static void out_free(struct control_out *o)
{
	size_t i;

	for (i = 0; i < o->n_idents; i++)
		free((void *)o->idents[i].data);
	parent_unref(o->parent);
	free(o->text);
	free(o);
}

static void out_post(struct control *ctl, struct control_out *o)
{
	uint64_t one = 1;

	pthread_mutex_lock(&ctl->lock);
	*ctl->out_tail = o;
	ctl->out_tail = &o->next;
	pthread_mutex_unlock(&ctl->lock);
	/* Cannot fail: the counter is far from its maximum. */
	if (write(ctl->wake_fd, &one, sizeof(one)) < 0)
		log_line("control: cannot wake the thread: %s", strerror(errno));
}

void control_reply(struct control *ctl, const struct request *r, const char *type, json_t *content)
{
	struct control_out *o = calloc(1, sizeof(*o));
	size_t i;
	void *copy;

	if (o)
		o->text = json_dumps(content, JSON_COMPACT);
	json_decref(content);
	if (!o || !o->text) {
		free(o);
		log_line("control: out of memory, a %s was lost", type);
		return;
	}
	o->len = strlen(o->text);
	o->parent = parent_ref(r->parent);
	o->channel = r->channel;
	/* Dated before the next request of the same line begins. */
	session_header(&ctl->core->session, type, o->header);
	reply_metadata(r, o->metadata);
	strncpy(o->type, type, sizeof(o->type) - 1);
	/* The request is freed before the control thread sends. */
	for (i = 0; i < r->view.n_idents; i++) {
		copy = malloc(r->view.idents[i].len + 1);
		if (!copy)
			break;
		memcpy(copy, r->view.idents[i].data, r->view.idents[i].len);
		o->idents[o->n_idents++] = (struct slice){ copy, r->view.idents[i].len };
	}
	out_post(ctl, o);
}

static int send_one(struct control *ctl, const struct control_out *o)
{
	void *sock = o->channel == CHANNEL_SHELL ? ctl->core->shell : ctl->sock;

	return reply_send_to(sock, &ctl->signer, o->idents, o->n_idents, o->header, o->parent, o->metadata,
			     (struct slice){ o->text, o->len });
}

void control_send_out(struct control *ctl)
{
	struct control_out *o;
	int err;

	for (;;) {
		pthread_mutex_lock(&ctl->lock);
		o = ctl->out;
		if (o)
			ctl->out = o->next;
		if (!ctl->out)
			ctl->out_tail = &ctl->out;
		pthread_mutex_unlock(&ctl->lock);
		if (!o)
			return;
		err = send_one(ctl, o);
		if (err)
			log_line("control: %s failed: %s", o->type, strerror(-err));
		out_free(o);
	}
}

void control_drop_out(struct control *ctl)
{
	struct control_out *o;

	while ((o = ctl->out)) {
		ctl->out = o->next;
		out_free(o);
	}
}
