#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../store/ids.h"
#include "hatch_inner.h"

static const char *const port_names[LOCAL_CHANNELS] = {
	[LOCAL_SHELL] = "shell_port", [LOCAL_CONTROL] = "control_port", [LOCAL_STDIN] = "stdin_port",
	[LOCAL_IOPUB] = "iopub_port", [LOCAL_HB] = "hb_port",
};

static const char *const transports[] = { [HATCH_IPC] = "ipc", [HATCH_TCP] = "tcp" };

/* --- its end --- */

static void socket_path(const char *folder, int i, char ret[HATCH_PATH_MAX])
{
	snprintf(ret, HATCH_PATH_MAX, "%.*s/s-%d", HATCH_PATH_MAX - 8, folder, i + 1);
}

/* ZeroMQ leaves its sockets' files. */
static void folder_remove(const char *path)
{
	char name[HATCH_PATH_MAX];
	int i;

	for (i = 0; i < LOCAL_CHANNELS; i++) {
		socket_path(path, i, name);
		unlink(name);
	}
	rmdir(path);
}

void hatch_free(struct hatch *h)
{
	struct hatches *all = h->all;
	struct hatch **at = &all->first;

	while (*at != h)
		at = &(*at)->next;
	*at = h->next;
	all->count--;
	if (h->folder[0])
		folder_remove(h->folder);
	hub_turn_cancel(all->core->hub, &h->turn);
	asked_free(&h->asked);
	client_msg_unref(h->waiting);
	json_decref(h->file);
	free(h);
	if (all->stop_call && !all->first)
		hub_call_end(all->stop_call, 0);
}

void hatch_close(struct hatch *h)
{
	if (h->closing)
		return;
	h->closing = true;
	if (h->client)
		client_goodbye(h->client);
	h->client = NULL;
	local_close(h->local);
}

/* --- its beginning --- */

/* Whoever may enter the directory of all hatches may connect. */
static int folder_make(struct hatch *h, struct fault *f)
{
	int n = snprintf(h->folder, sizeof(h->folder), "%s/%s", h->all->folder, h->kernel_id);
	int shown = snprintf(h->shown, sizeof(h->shown), "%s/%s/s", h->all->shown, h->kernel_id), err;

	if (n > HATCH_FOLDER_MAX || shown > HATCH_FOLDER_MAX)
		return fault_set(f, ENAMETOOLONG, 409, "not_supported",
				 "The path of the state directory is too long for sockets; ask for transport=tcp.");
	if (mkdir(h->folder, 0755) == 0 && chmod(h->folder, 0755) == 0)
		return 0;
	err = errno;
	h->folder[0] = '\0';
	if (err == EEXIST)
		return fault_restarting(f, "Earlier sockets of this kernel are being closed.");
	return fault_set(f, err, err == ENOSPC ? 507 : 500, err == ENOSPC ? "disk_full" : "socket",
			 "The directory of the sockets cannot be made: %s.", strerror(err));
}

static void addresses(const struct hatch *h, struct connection *ret)
{
	int i;

	for (i = 0; i < LOCAL_CHANNELS; i++) {
		if (h->transport == HATCH_IPC)
			snprintf(ret->address[i], sizeof(ret->address[i]), "ipc://%.*s/s-%d", HATCH_FOLDER_MAX,
				 h->folder, i + 1);
		else
			snprintf(ret->address[i], sizeof(ret->address[i]), "tcp://127.0.0.1:*");
	}
}

static void key_make(struct connection *ret)
{
	unsigned char raw[HATCH_KEY_BYTES];
	size_t i;

	random_fill(raw, sizeof(raw));
	for (i = 0; i < sizeof(raw); i++)
		snprintf(ret->key + 2 * i, 3, "%02x", raw[i]);
	ret->key_len = 2 * sizeof(raw);
}

static bool sockets_open(const struct hatch *h)
{
	char path[HATCH_PATH_MAX];
	int i;

	for (i = 0; h->transport == HATCH_IPC && i < LOCAL_CHANNELS; i++) {
		socket_path(h->folder, i, path);
		if (chmod(path, 0666) < 0)
			return false;
	}
	return true;
}

static json_t *file_make(const struct hatch *h, const struct connection *c, const char *kernel_name)
{
	bool ipc = h->transport == HATCH_IPC;
	json_t *file;
	int i;

	file = json_pack("{s:s,s:s,s:s%,s:s,s:s}", "transport", transports[h->transport], "ip",
			 ipc ? h->shown : "127.0.0.1", "key", c->key, c->key_len, "signature_scheme", "hmac-sha256",
			 "kernel_name", kernel_name);
	for (i = 0; i < LOCAL_CHANNELS; i++)
		json_object_set_new(file, port_names[i],
				    json_integer(ipc ? i + 1 : local_port(h->local, (enum local_channel)i)));
	return file;
}

static int hatch_bind(struct hatch *h, struct connection *c, struct fault *f)
{
	char why[512];
	int err;

	addresses(h, c);
	key_make(c);
	err = local_open(hub_loop(h->all->core->hub), c, &hatch_local_ops, h, &h->local, why, sizeof(why));
	return err < 0 ? fault_set(f, -err, 500, "socket", "%.300s", why) : 0;
}

static int hatch_new(struct hatches *all, const char *owner, struct kernel *k, enum hatch_transport transport,
		     struct hatch **ret, struct fault *f)
{
	struct connection c = { 0 };
	struct hatch *h;
	int err;

	if (all->count >= HATCHES_MAX)
		return fault_set(f, EAGAIN, 503, "busy",
				 "%d kernels have sockets for local clients already; one of those must end first.",
				 HATCHES_MAX);
	h = calloc(1, sizeof(*h));
	if (!h)
		return fault_no_memory(f);
	h->all = all;
	h->transport = transport;
	snprintf(h->owner, sizeof(h->owner), "%s", owner);
	snprintf(h->kernel_id, sizeof(h->kernel_id), "%s", k->id);
	id_new("hatch", h->session);
	h->next = all->first;
	all->first = h;
	all->count++;
	err = transport == HATCH_IPC ? folder_make(h, f) : 0;
	if (!err)
		err = hatch_bind(h, &c, f);
	if (err < 0) {
		hatch_free(h);
		return err;
	}
	h->file = file_make(h, &c, k->name);
	if (!h->file || !sockets_open(h))
		err = fault_set(f, EIO, 500, "socket", "The sockets cannot be opened to others: %s.",
				strerror(errno));
	else if (hatch_join(h) < 0)
		err = fault_set(f, EAGAIN, 503, "busy", "The kernel has too many clients; one of them must end first.");
	if (err < 0)
		hatch_close(h);
	else
		*ret = h;
	return err;
}

/* --- calls --- */

struct open_call {
	struct hub_call call;
	struct hatches *all;
	const char *owner, *kernel_id;
	enum hatch_transport transport;
	json_t *file;
};

static struct hatch *find(const struct open_call *o)
{
	struct hatch *h = o->all->first;

	while (h && (h->closing || h->kernel_gone || h->transport != o->transport ||
		     strcmp(h->kernel_id, o->kernel_id) != 0 || strcmp(h->owner, o->owner) != 0))
		h = h->next;
	return h;
}

static void open_run(struct hub_call *call)
{
	struct open_call *o = (struct open_call *)call;
	struct kernel *k = kernel_of_owner(o->all->core, o->owner, o->kernel_id);
	struct hatch *h = k ? find(o) : NULL;
	int err = 0;

	if (!k)
		err = fault_set(&call->fault, ENOENT, 404, "not_found", "There is no such kernel.");
	else if (o->all->stopping)
		err = fault_restarting(&call->fault, "Carrel is being stopped.");
	else if (!h)
		err = hatch_new(o->all, o->owner, k, o->transport, &h, &call->fault);
	/* A copy: its count of references belongs to one thread. */
	o->file = err ? NULL : json_deep_copy(h->file);
	if (!err && !o->file)
		err = fault_no_memory(&call->fault);
	hub_call_end(call, err);
}

int hatch_open(struct hatches *all, const char *owner, const char *kernel_id, enum hatch_transport transport,
	       json_t **ret, struct fault *f)
{
	struct open_call o = { .all = all, .owner = owner, .kernel_id = kernel_id, .transport = transport };
	int err = hub_call(all->core->hub, &o.call, open_run);

	if (err < 0) {
		*f = o.call.fault;
		return err;
	}
	*ret = o.file;
	return 0;
}

/* What an earlier carreld left that was killed. */
static void folders_sweep(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *d;
	char one[HATCH_PATH_MAX + NAME_MAX];

	while (dir && (d = readdir(dir)) != NULL) {
		if (d->d_name[0] == '.')
			continue;
		snprintf(one, sizeof(one), "%s/%s", path, d->d_name);
		folder_remove(one);
	}
	if (dir)
		closedir(dir);
}

int hatches_start(const struct settings *s, struct core *core, struct hatches **ret, struct fault *f)
{
	struct hatches *all = calloc(1, sizeof(*all));

	if (!all)
		return fault_no_memory(f);
	all->core = core;
	all->shown = s->connections;
	snprintf(all->folder, sizeof(all->folder), "%s/connections", s->state);
	/* Who started Carrel as root has made it, with a group of its choice. */
	if (mkdir(all->folder, 0750) < 0 && errno != EEXIST) {
		int err = errno;

		free(all);
		return fault_set(f, err, 500, "state", "%s/connections cannot be made: %s.", s->state,
				 strerror(err));
	}
	folders_sweep(all->folder);
	*ret = all;
	return 0;
}

struct stop_call {
	struct hub_call call;
	struct hatches *all;
};

static void stop_run(struct hub_call *call)
{
	struct hatches *all = ((struct stop_call *)call)->all;
	struct hatch *h, *next;

	all->stopping = true;
	all->stop_call = call;
	for (h = all->first; h; h = next) {
		next = h->next;
		hatch_close(h);
	}
	if (!all->first)
		hub_call_end(call, 0);
}

void hatches_stop(struct hatches *all)
{
	struct stop_call stop = { .all = all };

	if (!all)
		return;
	hub_call(all->core->hub, &stop.call, stop_run);
	free(all);
}
