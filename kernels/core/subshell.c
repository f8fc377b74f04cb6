#include "core/shell.h"
#include "core/core.h"
#include "core/handlers.h"
#include "core/log.h"
#include "core/reply.h"
#include "core/threads.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

bool subshell_serves(const struct core *c, const char *type)
{
	return c->ops->thread_begin && (!strcmp(type, "create_subshell_request") ||
					!strcmp(type, "delete_subshell_request") || !strcmp(type, "list_subshell_request"));
}

static void answer(struct core *c, struct request *r, const char *type, json_t *content)
{
	if (content)
		control_reply(&c->control, r, type, content);
	iopub_put_status(&c->iopub, "idle", r->parent, false);
	request_free(r);
}

static json_t *failed(const char *fmt, const char *what)
{
	char why[200];

	snprintf(why, sizeof(why), fmt, what);
	return json_pack("{s:s, s:s, s:s, s:[]}", "status", "error", "ename", "SubshellError", "evalue", why,
			 "traceback");
}

/* ---- the thread ---- */

static struct request *wait_request(struct shell *s)
{
	struct core *c = s->core;
	struct request *r = NULL;

	pthread_mutex_lock(&c->queue_lock);
	while (!s->pending && !s->stop)
		pthread_cond_wait(&s->wake, &c->queue_lock);
	/* What a deleted one did not come to is refused. */
	if (s->stop && s->pending)
		s->pending->lost = true;
	pthread_mutex_unlock(&c->queue_lock);
	r = shell_next(s);
	return r;
}

static struct request *take_asked(struct shell *s)
{
	struct request *r;

	pthread_mutex_lock(&s->core->queue_lock);
	r = s->asked;
	s->asked = NULL;
	pthread_mutex_unlock(&s->core->queue_lock);
	return r;
}

static void *subshell_main(void *arg)
{
	struct shell *s = arg;
	struct core *c = s->core;
	struct request *r;
	bool begun;

	pthread_detach(pthread_self());
	shell_enter(s);
	begun = c->ops->thread_begin(c->lang, s->id);
	answer(c, take_asked(s), "create_subshell_reply",
	       json_pack("{s:s, s:s}", "status", "ok", "subshell_id", s->id));
	while ((r = wait_request(s))) {
		r->lost = r->lost || !begun;
		handlers_serve(c, r);
		request_free(r);
	}
	if (begun)
		c->ops->thread_end(c->lang);
	answer(c, take_asked(s), "delete_subshell_reply", json_pack("{s:s}", "status", "ok"));
	pthread_cond_destroy(&s->wake);
	free(s);
	return NULL;
}

/* ---- the control thread ---- */

static int make_id(char out[SHELL_ID_LEN + 1])
{
	unsigned char raw[SHELL_ID_LEN / 2];
	size_t i;

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return -errno;
	for (i = 0; i < sizeof(raw); i++)
		snprintf(out + 2 * i, 3, "%02x", raw[i]);
	return 0;
}

static size_t count(const struct core *c)
{
	const struct shell *s;
	size_t n = 0;

	for (s = c->subshells; s; s = s->next)
		n++;
	return n;
}

static int start(struct core *c, struct request *r)
{
	struct shell *s, **end;
	pthread_t thread;
	int err;

	if (count(c) == SUBSHELLS_MAX)
		return -EMFILE;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	shell_init(s, c);
	s->asked = r;
	err = make_id(s->id);
	if (!err) {
		/* Before its thread runs: that may end and free it. */
		pthread_mutex_lock(&c->queue_lock);
		for (end = &c->subshells; *end; end = &(*end)->next)
			;
		*end = s;
		pthread_mutex_unlock(&c->queue_lock);
		err = thread_start_user(&thread, "subshell", subshell_main, s);
		if (err) {
			pthread_mutex_lock(&c->queue_lock);
			*end = NULL;
			pthread_mutex_unlock(&c->queue_lock);
		}
	}
	if (err) {
		pthread_cond_destroy(&s->wake);
		free(s);
	}
	return err;
}

static void create(struct core *c, struct request *r)
{
	int err;

	shell_take_over(c);
	err = start(c, r);
	if (err)
		answer(c, r, "create_subshell_reply",
		       failed("no further subshell can be made: %s", strerror(-err)));
}

static const char *wanted_id(const struct request *r)
{
	const char *id = json_string_value(json_object_get(r->content, "subshell_id"));

	return id ? id : "";
}

/* Its thread answers once it has ended. */
static void delete(struct core *c, struct request *r)
{
	struct shell *s, **at;

	pthread_mutex_lock(&c->queue_lock);
	for (at = &c->subshells; *at && strcmp((*at)->id, wanted_id(r)); at = &(*at)->next)
		;
	s = *at;
	/* One that is not made yet is known to nobody. */
	if (s && s->asked)
		s = NULL;
	if (s) {
		*at = s->next;
		s->asked = r;
		s->stop = true;
		pthread_cond_signal(&s->wake);
	}
	pthread_mutex_unlock(&c->queue_lock);
	if (!s)
		answer(c, r, "delete_subshell_reply", failed("Unknown subshell_id '%.60s'", wanted_id(r)));
}

static void list(struct core *c, struct request *r)
{
	json_t *ids = json_array();
	const struct shell *s;

	for (s = c->subshells; s; s = s->next)
		json_array_append_new(ids, json_string(s->id));
	answer(c, r, "list_subshell_reply", json_pack("{s:s, s:o}", "status", "ok", "subshell_id", ids));
}

void subshell_serve(struct core *c, struct request *r)
{
	iopub_put_status(&c->iopub, "busy", r->parent, false);
	if (r->type[0] == 'c')
		create(c, r);
	else if (r->type[0] == 'd')
		delete(c, r);
	else
		list(c, r);
}
