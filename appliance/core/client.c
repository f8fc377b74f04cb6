#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_inner.h"

struct client_msg *client_msg_ref(struct client_msg *m)
{
	m->refs++;
	return m;
}

void client_msg_unref(struct client_msg *m)
{
	if (m && --m->refs == 0)
		free(m);
}

struct client *client_find(const struct kernel *k, const char *session)
{
	struct client *c = k->clients;

	while (c && strcmp(c->session, session) != 0)
		c = c->next;
	return c;
}

bool clients_any(const struct kernel *k)
{
	return k->clients != NULL;
}

unsigned clients_connected(const struct kernel *k)
{
	const struct client *c;
	unsigned n = 0;

	for (c = k->clients; c; c = c->next)
		n += c->ops != NULL;
	return n;
}

/* --- a session's life --- */

void client_check_free(struct client *c)
{
	struct client_in *in;

	if (c->kernel || c->working)
		return;
	while ((in = c->intake) != NULL) {
		c->intake = in->next;
		client_in_free(in);
	}
	hub_timer_free(c->timer);
	free(c);
}

static void item_free(struct client *c)
{
	struct client_item *item = c->first;

	c->first = item->next;
	if (!c->first)
		c->last = &c->first;
	if (c->unwritten == item)
		c->unwritten = item->next;
	c->bytes -= item->msg->len;
	client_msg_unref(item->msg);
	free(item);
}

void client_forget(struct client *c, enum client_end why)
{
	struct kernel *k = c->kernel;
	struct client **at = &k->clients;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	while (c->first)
		item_free(c);
	c->kernel = NULL;
	if (c->ops)
		c->ops->end(c->arg, why);
	c->ops = NULL;
	client_check_free(c);
	/* Not from here: this may be inside a frame of the kernel's channel. */
	if (k->sandbox)
		hub_timer_set(k->resume, 0);
}

/* Its grace is over: the kernel goes on; what is kept for it grows to its bound. */
static void on_timer(void *arg)
{
	struct client *c = arg;

	if (!c->kernel)
		return;
	if (c->ops && !c->unwritten && c->acked == c->numbered)
		return;
	if (c->ops) {
		client_forget(c, CLIENT_TOO_SLOW);
	} else if (!c->out_of_grace) {
		c->out_of_grace = true;
		hub_timer_set(c->timer, CLIENT_AWAY_MS);
		kernel_unpause(c->kernel);
	} else {
		client_forget(c, CLIENT_REPLACED);
	}
}

static struct client *client_new(struct kernel *k, const char *session)
{
	struct client *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->timer = hub_timer_new(k->core->hub, on_timer, c);
	if (!c->timer) {
		free(c);
		return NULL;
	}
	snprintf(c->session, sizeof(c->session), "%s", session);
	c->kernel = k;
	c->last = &c->first;
	c->intake_last = &c->intake;
	c->next = k->clients;
	k->clients = c;
	return c;
}

/* A session without a connection makes room for a new one, the oldest first. */
static bool clients_room(struct kernel *k)
{
	struct client *c, *away = NULL;
	unsigned n = 0;

	for (c = k->clients; c; c = c->next) {
		n++;
		if (!c->ops)
			away = c;
	}
	if (n < CLIENTS_MAX)
		return true;
	if (away)
		client_forget(away, CLIENT_REPLACED);
	return away != NULL;
}

/* Puts the next message to write behind what the client has; false: that is not what is kept. */
static bool client_rewind(struct client *c, uint64_t received)
{
	if (received < c->acked || received > c->numbered)
		return false;
	while (c->acked < received) {
		item_free(c);
		c->acked++;
	}
	c->unwritten = c->first;
	c->written = received;
	return true;
}

int client_join(struct kernel *k, const struct client_hello *hello, const struct client_ops *ops, void *arg,
		struct client **ret, bool *ret_known)
{
	struct client *c = client_find(k, hello->session);
	bool known = c != NULL;

	if (c && c->ops) {
		c->ops->end(c->arg, CLIENT_REPLACED);
		c->ops = NULL;
	}
	if (c && (c->resumes != hello->resumes || (hello->resumes && !client_rewind(c, hello->received)))) {
		client_forget(c, CLIENT_REPLACED);
		c = NULL;
		known = false;
	}
	if (!c && !clients_room(k))
		return -EAGAIN;
	if (!c)
		c = client_new(k, hello->session);
	if (!c)
		return -ENOMEM;
	c->resumes = hello->resumes;
	snprintf(c->key_id, sizeof(c->key_id), "%s", hello->key_id ? hello->key_id : "");
	c->out_of_grace = false;
	hub_timer_stop(c->timer);
	c->ops = ops;
	c->arg = arg;
	if (!known) {
		c->joined.seq = k->running ? k->running->events.seq : 0;
		snprintf(c->joined.id, sizeof(c->joined.id), "%s", k->running ? k->running->id : "");
	}
	*ret = c;
	*ret_known = known;
	kernel_unpause(k);
	return 0;
}

void client_leave(struct client *c)
{
	c->ops = NULL;
	/* What was handed to a connection that is gone is written again; a client
	 * that says nothing of what it has may get it twice rather than never. */
	c->unwritten = c->first;
	c->written = c->acked;
	hub_timer_set(c->timer, CLIENT_GRACE_MS);
	kernel_unpause(c->kernel);
}

void client_goodbye(struct client *c)
{
	c->ops = NULL;
	client_forget(c, CLIENT_REPLACED);
}

/* --- messages to it --- */

void client_give(struct client *c, struct client_msg *m)
{
	struct client_item *item;

	if (c->bytes + m->len > (c->ops ? CLIENT_KEEP_MAX : CLIENT_AWAY_MAX) || !(item = malloc(sizeof(*item)))) {
		client_forget(c, CLIENT_TOO_SLOW);
		return;
	}
	*item = (struct client_item){ .msg = client_msg_ref(m) };
	*c->last = item;
	c->last = &item->next;
	if (!c->unwritten)
		c->unwritten = item;
	/* From here on it must show that it takes something. */
	if (c->ops && c->bytes == 0)
		hub_timer_set(c->timer, CLIENT_GRACE_MS);
	c->numbered++;
	c->bytes += m->len;
	if (c->ops)
		c->ops->wake(c->arg);
}

void clients_give(struct kernel *k, struct client_msg *m)
{
	struct client *c, *next;

	for (c = k->clients; c; c = next) {
		next = c->next;
		client_give(c, m);
	}
}

struct client_msg *client_take(struct client *c, uint64_t *ret_number)
{
	struct client_item *item = c->unwritten;

	if (!item)
		return NULL;
	c->unwritten = item->next;
	*ret_number = ++c->written;
	return client_msg_ref(item->msg);
}

void client_received(struct client *c, uint64_t number)
{
	bool behind = c->bytes > CLIENT_WINDOW;

	if (number <= c->acked || number > c->written)
		return;
	while (c->acked < number) {
		item_free(c);
		c->acked++;
	}
	if (c->first)
		hub_timer_set(c->timer, CLIENT_GRACE_MS);
	else
		hub_timer_stop(c->timer);
	if (behind && c->bytes <= CLIENT_WINDOW)
		kernel_unpause(c->kernel);
}

bool clients_behind(const struct kernel *k)
{
	/* Nobody who is there waits for one that is away. */
	bool any = clients_connected(k) > 0;
	const struct client *c;

	for (c = k->clients; c; c = c->next) {
		if (c->bytes > CLIENT_WINDOW && (c->ops || (c->resumes && !any)) && !c->out_of_grace)
			return true;
	}
	return false;
}

uint64_t client_count(const struct client *c)
{
	return c->count;
}

void clients_end(struct kernel *k, enum client_end why)
{
	struct client_request *r;

	while (k->clients)
		client_forget(k->clients, why);
	while ((r = k->passing) != NULL) {
		k->passing = r->next;
		client_request_free(r);
	}
	while ((r = k->asked) != NULL) {
		k->asked = r->next;
		client_request_free(r);
	}
	k->passing_last = &k->passing;
	k->asked_last = &k->asked;
	k->requests = 0;
}
