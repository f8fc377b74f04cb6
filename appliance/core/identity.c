#include "identity.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../store/ids.h"
#include "base64.h"
#include "times.h"

struct identity {
	struct guest *guest;
	identity_done done; /* NULL: told, or nobody listens */
	void *arg;
	bool freed, calling;
	unsigned clock_tries;
	int64_t sent_ns, half_ns; /* of the clock's round trip */
	struct limits limits;     /* that its agent is asked to hold */
};

static void clock_send(struct identity *id);

static void identity_settle(struct identity *id)
{
	if (id->freed && !id->calling)
		free(id);
}

static int64_t magnitude(int64_t n)
{
	return n < 0 ? -n : n;
}

/* The guest read its clock about half a round trip before the answer came. What
 * is not known is at most the other half, so a slow answer proves nothing. */
static void on_clock(int err, int status, json_t *reply, void *arg)
{
	struct identity *id = arg;
	int64_t now = unix_ns(), rtt = now - id->sent_ns;
	int64_t theirs = json_integer_value(json_object_get(reply, "unix_ns"));

	id->calling = false;
	id->half_ns = rtt / 2;
	if (!id->freed && err == 0 && status == 200 &&
	    (magnitude(theirs - (now - rtt / 2)) > IDENTITY_CLOCK_NS || rtt > IDENTITY_CLOCK_NS))
		clock_send(id);
	identity_settle(id);
}

static void clock_send(struct identity *id)
{
	json_t *body;

	if (id->clock_tries++ >= IDENTITY_CLOCK_TRIES)
		return;
	id->sent_ns = unix_ns();
	body = json_pack("{s:I}", "unix_ns", (json_int_t)(id->sent_ns + id->half_ns));
	id->calling = guest_call(id->guest, "PUT", "/clock", body, GUEST_CALL_MS, on_clock, id) == 0;
	json_decref(body);
}

/* No limit is passed over because the image is older than it. */
static int check_held(const struct identity *id, json_t *reply, struct fault *f)
{
	const char *name = limits_unheld(&id->limits, json_object_get(reply, "limits"));

	if (!name)
		return 0;
	return fault_set(f, ENOTSUP, 500, "start_failed",
			 "The sandbox's image is older than the limit %s: build its template again.", name);
}

static void on_identity(int err, int status, json_t *reply, void *arg)
{
	struct identity *id = arg;
	identity_done done = id->done;
	struct fault f = { 0 };

	id->calling = false;
	id->done = NULL;
	if (err == 0 && status != 200)
		err = guest_fault(&f, 0, status, reply);
	else if (err < 0)
		guest_fault(&f, err, 0, NULL);
	else
		err = check_held(id, reply, &f);
	if (!id->freed && err == 0)
		clock_send(id);
	/* May free us: nothing of id is touched after it. */
	if (id->freed)
		identity_settle(id);
	else if (done)
		done(err, &f, json_object_get(reply, "kernels"), id->arg);
}

/* The same at every identity of a sandbox: it is the same machine before and after a pause. */
static void name_uuid(const char *what, const char *hostname, char ret[UUID_SIZE])
{
	char name[STORE_ID_MAX + 16];

	snprintf(name, sizeof(name), "%s/%s", what, hostname);
	uuid_of(name, ret);
}

/* Without its hyphens, as a machine id is written. */
static void uuid_strip(char *uuid)
{
	char *to = uuid;

	for (; *uuid; uuid++)
		if (*uuid != '-')
			*to++ = *uuid;
	*to = '\0';
}

static json_t *identity_body(const struct identity_spec *spec)
{
	unsigned char entropy[IDENTITY_ENTROPY];
	char machine_id[UUID_SIZE], boot_id[UUID_SIZE];
	char *entropy64;
	json_t *env = spec->env ? json_incref(spec->env) : json_object(), *body;

	random_fill(entropy, sizeof(entropy));
	name_uuid("machine", spec->hostname, machine_id);
	uuid_strip(machine_id);
	name_uuid("boot", spec->hostname, boot_id);
	entropy64 = base64_encode(entropy, sizeof(entropy));
	body = json_pack("{s:I,s:s*,s:s,s:s,s:s,s:o,s:o}", "unix_ns", (json_int_t)unix_ns(), "entropy", entropy64,
			 "hostname", spec->hostname, "machine_id", machine_id, "boot_id", boot_id, "env", env,
			 "limits", limits_inside(spec->limits));
	free(entropy64);
	explicit_bzero(entropy, sizeof(entropy));
	return body;
}

/* Steals body, which NULL says there was no memory for. */
static int identity_call(struct identity with, const char *path, json_t *body, unsigned timeout_ms,
			 guest_cb answered, struct identity **ret)
{
	struct identity *id = calloc(1, sizeof(*id));
	int err = -ENOMEM;

	if (id && body) {
		*id = with;
		err = guest_call(id->guest, "PUT", path, body, timeout_ms, answered, id);
	}
	json_decref(body);
	if (err < 0) {
		free(id);
		return err;
	}
	id->calling = true;
	*ret = id;
	return 0;
}

int identity_send(struct guest *g, const struct identity_spec *spec, identity_done done, void *arg,
		  struct identity **ret)
{
	struct identity with = { .guest = g, .done = done, .arg = arg, .limits = *spec->limits };

	return identity_call(with, "/identity", identity_body(spec), IDENTITY_CALL_MS, on_identity, ret);
}

static void on_time(int err, int status, json_t *reply, void *arg)
{
	struct identity *id = arg;
	identity_done done = id->done;
	struct fault f = { 0 };

	bool freed = id->freed;
	void *whom = id->arg;

	id->done = NULL;
	if (err < 0 || status != 200)
		guest_fault(&f, err, status, reply);
	/* Woken only now, it took its time: a second look sets that right. Frees what was freed. */
	on_clock(err, status, reply, id);
	if (!freed && done)
		done(err < 0 ? err : status == 200 ? 0 : -EIO, &f, NULL, whom);
}

int identity_send_time(struct guest *g, identity_done done, void *arg, struct identity **ret)
{
	struct identity with = { .guest = g, .done = done, .arg = arg, .sent_ns = unix_ns() };
	json_t *body = json_pack("{s:I}", "unix_ns", (json_int_t)with.sent_ns);

	return identity_call(with, "/clock", body, GUEST_CALL_MS, on_time, ret);
}

void identity_free(struct identity *id)
{
	if (!id)
		return;
	id->freed = true;
	identity_settle(id);
}
