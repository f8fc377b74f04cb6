#include "kernel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "client.h"

static void on_resume(void *arg)
{
	kernel_unpause(arg);
}

static void on_ack(void *arg)
{
	struct kernel *k = arg;

	k->unacked = 0;
	channel_ack(k->channel, k->safe_seq);
}

struct kernel *kernel_new(struct sandbox *sb, const char *id, const char *agent_id, const char *language,
			  bool exists)
{
	struct kernel *k = calloc(1, sizeof(*k)), **last;

	if (!k)
		return NULL;
	*k = (struct kernel){ .core = sb->core, .sandbox = sb, .refs = 1, .exists = exists, .generation = 1 };
	snprintf(k->id, sizeof(k->id), "%s", id);
	snprintf(k->agent_id, sizeof(k->agent_id), "%s", agent_id);
	snprintf(k->name, sizeof(k->name), "%s", language);
	snprintf(k->language, sizeof(k->language), "%s", language);
	uuid_new(k->session);
	k->queue_last = &k->queue;
	k->passing_last = &k->passing;
	k->asked_last = &k->asked;
	k->channel = channel_new(CHANNEL_REFUSE, &kernel_channel_ops, k);
	k->resume = hub_timer_new(sb->core->hub, on_resume, k);
	k->ack = hub_timer_new(sb->core->hub, on_ack, k);
	if (!k->channel || !k->resume || !k->ack) {
		k->refs = 1;
		kernel_unref(k);
		return NULL;
	}
	for (last = &sb->kernels; *last; last = &(*last)->next)
		;
	*last = k;
	return k;
}

void kernel_ref(struct kernel *k)
{
	k->refs++;
}

void kernel_unref(struct kernel *k)
{
	if (!k || --k->refs > 0)
		return;
	clients_end(k, CLIENT_KERNEL_GONE);
	hub_turn_cancel(k->core->hub, &k->flush);
	hub_timer_free(k->resume);
	hub_timer_free(k->ack);
	channel_free(k->channel);
	free(k->cwd);
	free(k);
}

struct kernel *kernel_find(struct sandbox *sb, const char *id)
{
	struct kernel *k;

	for (k = sb->kernels; k; k = k->next) {
		if (strcmp(k->id, id) == 0 && !k->stopping)
			return k;
	}
	return NULL;
}

struct kernel *kernel_of_owner(const struct core *c, const char *owner, const char *id)
{
	struct kernel *k = NULL;
	struct sandbox *sb;

	for (sb = c->sandboxes; sb && !k; sb = sb->next) {
		if (strcmp(sb->owner, owner) == 0)
			k = kernel_find(sb, id);
	}
	return k;
}

/* "/kernels/ID" + verb, allocated in b. */
static const char *kernel_path(const struct kernel *k, const char *verb, struct buf *b)
{
	buf_add_str(b, "/kernels/");
	buf_add_url(b, k->agent_id);
	buf_add_str(b, verb);
	return b->failed ? NULL : b->bytes;
}

void kernel_attach(struct kernel *k)
{
	__attribute__((cleanup(buf_free))) struct buf b = { 0 };
	const char *path = kernel_path(k, "/channel", &b);

	if (path)
		channel_connect(k->channel, guest_link(k->sandbox->guest), path);
}

static void kernel_created(int err, int status, json_t *reply, void *arg)
{
	struct kernel *k = arg;

	k->creating = false;
	if (k->sandbox)
		kernel_create_answered(k, err, status, reply);
	if (k->sandbox && k->exists && !k->stopping)
		kernel_attach(k);
	kernel_unref(k);
}

static void kernel_create(struct kernel *k)
{
	/* Without a snapshot the kernel's libraries are imported now: 50 s under software emulation. */
	enum { CREATE_MS = 300 * 1000 };
	json_t *body;

	if (k->creating)
		return;
	body = json_pack("{s:s,s:s,s:s*}", "id", k->agent_id, k->by_name ? "name" : "language",
			 k->by_name ? k->name : k->language, "cwd", k->cwd);
	if (guest_call(k->sandbox->guest, "POST", "/kernels", body, CREATE_MS, kernel_created, k) == 0) {
		k->creating = true;
		kernel_ref(k);
	}
	json_decref(body);
}

void kernel_link_up(struct kernel *k)
{
	if (k->stopping) {
		kernel_delete(k);
		return;
	}
	if (!k->exists)
		kernel_create(k);
	else
		kernel_attach(k);
	if (k->restart_wanted && !k->restart_answered)
		kernel_restart(k);
	kernel_pump(k);
}

int64_t kernel_send(struct kernel *k, const char *msg_id, const char *msg_type, json_t *content)
{
	__attribute__((cleanup(buf_free))) struct buf b = { 0 };

	jupyter_request(&b, JUPYTER_SHELL, msg_id, k->session, msg_type, content);
	if (b.failed)
		return -ENOMEM;
	return channel_send(k->channel, 'J', true, b.bytes, b.len);
}

int64_t kernel_send_asked(struct kernel *k, json_t *asked, json_t *content)
{
	__attribute__((cleanup(buf_free))) struct buf b = { 0 };

	jupyter_asked(&b, json_object_get(asked, "header"), json_object_get(asked, "metadata"), content);
	if (b.failed)
		return -ENOMEM;
	return channel_send(k->channel, 'J', true, b.bytes, b.len);
}

static void kernel_interrupted(int err, int status, json_t *reply, void *arg)
{
	struct kernel *k = arg;

	(void)status;
	(void)reply;
	/* Cut on the way: again when the link is back. */
	if (err < 0 && k->running)
		k->interrupt_wanted = true;
	kernel_unref(k);
}

void kernel_interrupt(struct kernel *k)
{
	__attribute__((cleanup(buf_free))) struct buf b = { 0 };
	const char *path = kernel_path(k, "/interrupt", &b);
	json_t *empty = json_object();

	/* Code that has not begun would not notice: the interrupt follows its execute_input. */
	k->interrupt_wanted =
		!k->running || !k->running->started || !path ||
		guest_call(k->sandbox->guest, "POST", path, empty, GUEST_CALL_MS, kernel_interrupted, k) < 0;
	if (!k->interrupt_wanted)
		kernel_ref(k);
	json_decref(empty);
}

static void kernel_restart_answered(int err, int status, json_t *reply, void *arg)
{
	struct kernel *k = arg;
	/* 409: an earlier request, whose answer was lost, is still at work. */
	bool ok = err == 0 && (status == 200 || status == 409);

	k->restarting = false;
	if (k->sandbox && ok && k->state == KERNEL_DEAD) {
		k->state = KERNEL_STARTING;
		k->alive_due = true;
	}
	if (k->sandbox && !ok && err != -ECONNRESET && err != -ECANCELED)
		kernel_restart_failed(k, err, status, reply);
	if (k->sandbox) {
		k->restart_answered = ok && k->restart_wanted;
		kernel_restart_check(k);
		kernel_pump(k);
	}
	kernel_unref(k);
}

void kernel_restart(struct kernel *k)
{
	__attribute__((cleanup(buf_free))) struct buf b = { 0 };
	const char *path = kernel_path(k, "/restart", &b);
	json_t *empty = json_object();

	if (!k->restarting && path &&
	    guest_call(k->sandbox->guest, "POST", path, empty, KERNEL_KILL_GRACE_MS, kernel_restart_answered,
		       k) == 0) {
		k->restarting = true;
		kernel_ref(k);
	}
	json_decref(empty);
}
