#include "core/core.h"
#include "core/log.h"
#include "core/reply.h"

#include <errno.h>
#include <string.h>
#include <stdlib.h>
#include <unistd.h>

/* Answers to questions that were interrupted are nobody's. */
static void drop_stale(struct core *c)
{
	struct frames frames;

	while (sock_recv(c->stdin_sock, &frames) == 0)
		frames_free(&frames);
}

int core_input_ask(struct core *c, const char *prompt, size_t len, bool password)
{
	json_t *content = json_pack("{s:s%, s:b}", "prompt", prompt, len, "password", (int)password);
	char *text = content ? json_dumps(content, JSON_COMPACT) : NULL;
	const struct request *r = shell_self(c)->current;
	char header[MESSAGE_HEADER_MAX];
	int err;

	json_decref(content);
	if (!text)
		return -ENOMEM;
	session_header(&c->session, "input_request", header);
	drop_stale(c);
	capture_drain(&c->capture);
	err = reply_send_to(c->stdin_sock, &c->signer, r->view.idents, r->view.n_idents, header, r->parent, "{}",
			    (struct slice){ text, strlen(text) });
	free(text);
	return err;
}

static int take_answer(struct core *c, json_t **ret_value)
{
	struct request *r;
	struct frames frames;
	json_t *value;
	int err = sock_recv(c->stdin_sock, &frames);

	if (!err)
		err = request_parse(&c->signer, CHANNEL_STDIN, &frames, &r);
	if (err == -EAGAIN)
		return err;
	if (err) {
		log_line("stdin: a message was skipped: %s", reply_skip_reason(err));
		return -EAGAIN;
	}
	value = json_object_get(r->content, "value");
	err = -EAGAIN;
	if (!strcmp(r->type, "input_reply") && json_is_string(value)) {
		*ret_value = json_incref(value);
		err = 0;
	}
	request_free(r);
	return err;
}

int core_input_wait(struct core *c, json_t **ret_value)
{
	zmq_pollitem_t items[] = {
		{ .socket = c->stdin_sock, .events = ZMQ_POLLIN },
		{ .fd = c->interrupt_fd, .events = ZMQ_POLLIN },
	};
	uint64_t count;
	int err;

	for (;;) {
		err = take_answer(c, ret_value);
		if (err != -EAGAIN)
			return err;
		if (zmq_poll(items, 2, -1) < 0)
			return errno == EINTR ? -EINTR : -EIO;
		if (items[1].revents) {
			if (read(c->interrupt_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
				log_line("stdin: cannot read the interrupt's descriptor: %s",
					 strerror(errno));
			return -EINTR;
		}
	}
}

int core_input_begin(struct core *c)
{
	return -pthread_mutex_trylock(&c->input_lock);
}

void core_input_end(struct core *c)
{
	pthread_mutex_unlock(&c->input_lock);
}
