#include "identity.h"

#include <ctype.h>
#include <stdio.h>

#include "agent.h"
#include "base64.h"
#include "cgroup.h"
#include "descriptors.h"
#include "disk.h"
#include "inodes.h"
#include "kernel.h"
#include "machine.h"
#include "parent.h"
#include "spec.h"
#include "util.h"

enum {
	ENTROPY_MIN = 64,
	ENTROPY_MAX = 4096,
};

enum { OUTSIDE, INSIDE };

/* What a request asks for, checked as a whole before any of it is done. */
struct wanted {
	json_int_t unix_ns;
#define LIMIT(name, ...) json_int_t name;
#include "link/limits.def"
#undef LIMIT
	uint8_t *entropy;
	size_t entropy_len;
	const char *hostname, *machine_id, *boot_id;
	json_t *env;
};

/* While parents and kernels take it. */
struct identity_change {
	struct agent *agent;
	struct request *rq;
	unsigned waiting;
	char *failure;
	bool asking; /* still handing out: not to be ended yet */
	uv_timer_t timer;
};

static bool is_hostname(const char *s)
{
	size_t len = strlen(s);

	return len && len <= AGENT_HOSTNAME_MAX && s[0] != '-' &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

/* Pattern: 'x' stands for a lower-case hex digit, anything else for itself. */
static bool looks_like(const char *s, const char *pattern)
{
	for (; *s && *pattern; s++, pattern++)
		if (*pattern == 'x' ? !isxdigit((unsigned char)*s) || isupper((unsigned char)*s)
				    : *s != *pattern)
			return false;
	return *s == *pattern;
}

static bool parse_names(struct request *rq, struct wanted *w)
{
	const char *wrong = NULL;

	if (!request_string(rq, "hostname", true, &w->hostname) ||
	    !request_string(rq, "machine_id", true, &w->machine_id) ||
	    !request_string(rq, "boot_id", true, &w->boot_id))
		return false;
	if (!is_hostname(w->hostname))
		wrong = "\"hostname\" must be 1 to 63 of a-z 0-9 and '-'.";
	else if (!looks_like(w->machine_id, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"))
		wrong = "\"machine_id\" must be 32 lower-case hex digits.";
	else if (!looks_like(w->boot_id, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"))
		wrong = "\"boot_id\" must be a lower-case UUID.";
	if (wrong)
		request_fail(rq, 400, "bad_request", "%s", wrong);
	return !wrong;
}

/* Those that are the agent's to hold; 0, or none: the usual. */
static bool parse_limits(struct request *rq, struct wanted *w)
{
	json_t *limits = json_object_get(rq->body, "limits");

#define LIMIT(name, type, least, most, usual, shown, told)                                     \
	if (told == INSIDE && !request_integer(rq, limits, #name, 0, (json_int_t)(most), &w->name)) \
		return false;
#include "link/limits.def"
#undef LIMIT
	return true;
}

static bool parse(struct request *rq, struct wanted *w)
{
	const char *entropy = NULL;

	if (!request_integer(rq, rq->body, "unix_ns", 1, INT64_MAX, &w->unix_ns) ||
	    !parse_limits(rq, w) || !request_env(rq, &w->env) || !parse_names(rq, w) ||
	    !request_string(rq, "entropy", true, &entropy))
		return false;
	if (!w->unix_ns) {
		request_fail(rq, 400, "bad_request", "\"unix_ns\" is needed.");
		return false;
	}
	w->entropy = base64_decode(entropy, &w->entropy_len);
	if (!w->entropy || w->entropy_len < ENTROPY_MIN || w->entropy_len > ENTROPY_MAX) {
		request_fail(rq, 400, "bad_request", "\"entropy\" must be Base64 of %d to %d bytes.",
			     ENTROPY_MIN, ENTROPY_MAX);
		free(w->entropy);
		return false;
	}
	return true;
}

/* Returns what could not be done, or NULL. */
static const char *change_machine(struct agent *a, const struct wanted *w, int *ret_err)
{
	if (!a->opt.system)
		return NULL;
	if (a->opt.own_kernel && (*ret_err = machine_set_clock(w->unix_ns)))
		return "set the clock";
	if (a->opt.own_kernel && (*ret_err = machine_add_entropy(w->entropy, w->entropy_len)))
		return "add entropy";
	if ((*ret_err = machine_set_hostname(w->hostname)))
		return "set the host name";
	if ((*ret_err = machine_set_id(a->opt.run, w->machine_id)))
		return "set the machine id";
	if ((*ret_err = machine_set_boot_id(a->opt.run, w->boot_id)))
		return "set the boot id";
	return NULL;
}

static const char *change_limits(struct agent *a, const struct wanted *w, int *ret_err)
{
	if ((*ret_err = cgroup_limit(a, (uint64_t)w->memory_mb, (uint64_t)w->pids)))
		return "set the limits of memory and processes";
	if ((*ret_err = disk_limit(a, (uint64_t)w->disk_mb)))
		return "set the limit of the disk";
	if ((*ret_err = inodes_limit(a, (uint64_t)w->inodes)))
		return "set the limit of new files";
	if ((*ret_err = descriptors_limit(a, (uint64_t)w->open_files)))
		return "set the limit of open files";
	return NULL;
}

static void change_closed(uv_handle_t *handle)
{
	struct identity_change *c = handle->data;

	free(c->failure);
	free(c);
}

/* Those it holds: who asked for another knows that this agent is older than it. */
static json_t *limits_names(void)
{
	json_t *names = json_array();

#define LIMIT(name, type, least, most, usual, shown, told) \
	if (told == INSIDE)                                \
		json_array_append_new(names, json_string(#name));
#include "link/limits.def"
#undef LIMIT
	return names;
}

static json_t *identity_json(struct agent *a)
{
	json_t *answer = json_pack("{s:I, s:s, s:o, s:o}", "unix_ns", (json_int_t)now_unix_ns(), "boot_id",
				   a->boot_id, "limits", limits_names(), "kernels", kernel_list_json(a));

	if (!a->opt.system)
		json_object_set_new(answer, "skipped",
				    json_pack("[s, s, s, s, s, s]", "clock", "entropy", "hostname",
					      "machine_id", "boot_id", "limits"));
	else if (!a->opt.own_kernel)
		json_object_set_new(answer, "skipped", json_pack("[s, s]", "clock", "entropy"));
	return answer;
}

static void change_end(struct identity_change *c)
{
	struct agent *a = c->agent;
	struct parent *p;
	struct kernel *k;
	const struct spec *spec;

	a->change = NULL;
	LIST_FOREACH(spec, &a->specs, entry)
	if ((p = parent_of(a, spec)))
		parent_identity_forget(p);
	LIST_FOREACH(k, &a->kernels, entry)
	k->identity_done = NULL;
	if (c->failure) {
		request_fail(c->rq, 500, "identity", "The identity is not complete: %s.", c->failure);
	} else {
		a->identified = true;
		request_answer(c->rq, 200, identity_json(a));
	}
	uv_close((uv_handle_t *)&c->timer, change_closed);
}

static void change_answer(void *arg, const char *message)
{
	struct identity_change *c = arg;

	if (message && !c->failure)
		c->failure = xstrdup(message);
	c->waiting--;
	if (!c->waiting && !c->asking)
		change_end(c);
}

static void change_overdue(uv_timer_t *timer)
{
	struct identity_change *c = timer->data;

	if (!c->failure)
		c->failure = xasprintf("%u of the prepared parents and kernels did not take it in time",
				       c->waiting);
	change_end(c);
}

/* Everything that was warm before this identity must not share its randomness. */
static void change_warm(struct agent *a, struct request *rq, bool other_machine)
{
	struct identity_change *c = xcalloc(1, sizeof(*c));
	const struct spec *spec;
	struct kernel *k, *next;
	struct parent *p;

	c->agent = a;
	c->rq = rq;
	c->asking = true;
	a->change = c;
	uv_timer_init(&a->loop, &c->timer);
	c->timer.data = c;
	LIST_FOREACH(spec, &a->specs, entry)
	if ((p = parent_of(a, spec)) && parent_identity(p, change_answer, c))
		c->waiting++;
	for (k = LIST_FIRST(&a->kernels); k; k = next) {
		next = LIST_NEXT(k, entry);
		if (!kernel_identity_waits(k) && kernel_identity(k, other_machine, change_answer, c))
			c->waiting++;
	}
	c->asking = false;
	if (c->waiting)
		uv_timer_start(&c->timer, change_overdue, IDENTITY_MS, 0);
	else
		change_end(c);
}

void identity_put(struct request *rq)
{
	struct agent *a = rq->agent;
	struct wanted w = { 0 };
	const char *failed;
	bool other_machine;
	int err = 0;

	if (a->change)
		return request_fail(rq, 409, "wrong_state", "Another identity is being taken.");
	if (!parse(rq, &w))
		return;
	failed = change_machine(a, &w, &err);
	if (!failed)
		failed = change_limits(a, &w, &err);
	free(w.entropy);
	if (failed)
		return request_fail(rq, 500, "identity", "The agent could not %s: %s.", failed,
				    strerror(-err));
	other_machine = strcmp(a->boot_id, w.boot_id) != 0;
	snprintf(a->boot_id, sizeof(a->boot_id), "%s", w.boot_id);
	json_decref(a->env);
	a->env = w.env ? json_incref(w.env) : NULL;
	change_warm(a, rq, other_machine);
}

void identity_put_clock(struct request *rq)
{
	json_int_t unix_ns = 0;
	int err;

	if (!request_integer(rq, rq->body, "unix_ns", 1, INT64_MAX, &unix_ns))
		return;
	if (!unix_ns)
		return request_fail(rq, 400, "bad_request", "\"unix_ns\" is needed.");
	err = rq->agent->opt.own_kernel ? machine_set_clock(unix_ns) : 0;
	if (err)
		return request_fail(rq, 500, "identity", "The agent could not set the clock: %s.",
				    strerror(-err));
	request_answer(rq, 200, json_pack("{s:I}", "unix_ns", (json_int_t)now_unix_ns()));
}
