#include "engine_inner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The order of `auto`, and of the engine kvm's monitors. */
const struct engine_ops *const engines[] = { &engine_kvm, &engine_kvm_qemu, &engine_tcg, &engine_jail, NULL };

static struct vm *vm_find(struct engine *e, const char *id)
{
	struct vm *vm = e->vms;

	while (vm && strcmp(vm->id, id) != 0)
		vm = vm->next;
	return vm;
}

static void forget_send(struct engine *e, const char *id)
{
	struct spawn_request request = { .verb = SPAWN_FORGET };

	snprintf(request.id, sizeof(request.id), "%s", id);
	/* What cannot be sent is sent by link_connected(). */
	(void)spawn_link_send(e->link, &request, NULL, 0);
}

void engine_forget(struct engine *e, const char *id)
{
	struct forgotten *f = calloc(1, sizeof(*f));

	/* Without memory it is asked for once. */
	if (f) {
		snprintf(f->id, sizeof(f->id), "%s", id);
		f->next = e->forgotten;
		e->forgotten = f;
	}
	forget_send(e, id);
}

static void forget_answered(struct engine *e, const char *id)
{
	struct forgotten **at = &e->forgotten, *f;

	while (*at && strcmp((*at)->id, id) != 0)
		at = &(*at)->next;
	f = *at;
	if (f)
		*at = f->next;
	free(f);
}

/* Of a machine that nobody here knows: it belongs to another engine's
 * connection, or nobody has adopted it yet. */
static void link_reply(const struct spawn_reply *reply, void *arg)
{
	struct vm *vm = vm_find(arg, reply->id);

	if (reply->verb == SPAWN_FORGET)
		forget_answered(arg, reply->id);
	else if (vm)
		vm_reply(vm, reply);
}

/* Asks after every machine: some may have ended while nobody listened. Only
 * answers, which come later, can take a machine off the list. */
static void link_connected(void *arg)
{
	struct engine *e = arg;

	for (struct forgotten *f = e->forgotten; f; f = f->next)
		forget_send(e, f->id);
	for (struct vm *vm = e->vms; vm; vm = vm->next)
		vm_link_connected(vm);
}

static const struct spawn_link_ops link_ops = { .connected = link_connected, .reply = link_reply };

int engine_new(uv_loop_t *loop, const struct engine_ops *ops, const char *spawn_path, const char *run_dir,
	       struct engine **ret)
{
	struct engine *e = calloc(1, sizeof(*e));
	int err;

	if (!e)
		return -ENOMEM;
	e->loop = loop;
	e->ops = ops;
	e->run_dir = run_dir;
	err = spawn_link_new(loop, spawn_path, &link_ops, e, &e->link);
	if (err) {
		free(e);
		return err;
	}
	*ret = e;
	return 0;
}

void engine_free(struct engine *e)
{
	if (!e)
		return;
	while (e->vms)
		e->ops->free(e->vms);
	spawn_link_free(e->link);
	while (e->forgotten)
		forget_answered(e, e->forgotten->id);
	free(e);
}

const struct engine_ops *engine_ops_of(const struct engine *e)
{
	return e->ops;
}
