#include "request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#include "../store/audit.h"
#include "auth.h"
#include "figures.h"
#include "json_in.h"
#include "respond.h"

int64_t request_length(const struct request *r)
{
	const char *text = FCGX_GetParam("CONTENT_LENGTH", r->fcgi->envp);

	return text && *text ? strtoll(text, NULL, 10) : -1;
}

const char *request_address(const struct request *r)
{
	const char *address = FCGX_GetParam("REMOTE_ADDR", r->fcgi->envp);

	return address ? address : "";
}

int request_read(struct request *r, char *buf, int size)
{
	int n = FCGX_GetStr(buf, size, r->fcgi->in);

	return n > 0 ? n : FCGX_GetError(r->fcgi->in) ? -EPIPE : 0;
}

static int body_too_large(const struct request *r, struct fault *f)
{
	return fault_set(f, E2BIG, 413, "body_too_large", "The body is larger than %zu bytes.",
			 r->route->body_max);
}

/* The whole body, to the end of FCGI_STDIN: a chunked one has no CONTENT_LENGTH. */
static int body_read(struct request *r, char **ret, size_t *ret_len, struct fault *f)
{
	size_t size = 4096, len = 0;
	char *buf;
	int n;

	if (request_length(r) > (int64_t)r->route->body_max)
		return body_too_large(r, f);
	buf = malloc(size);
	while (buf && (n = request_read(r, buf + len, (int)(size - len))) > 0) {
		char *grown = buf;

		len += (size_t)n;
		if (len > r->route->body_max) {
			free(buf);
			return body_too_large(r, f);
		}
		if (len == size)
			grown = realloc(buf, size *= 2);
		if (!grown)
			free(buf);
		buf = grown;
	}
	if (!buf)
		return fault_no_memory(f);
	if (n < 0 || (request_length(r) >= 0 && (int64_t)len != request_length(r))) {
		free(buf);
		return fault_set(f, EPIPE, 400, "body_incomplete",
				 "The body ended before its announced length.");
	}
	*ret = buf;
	*ret_len = len;
	return 0;
}

int request_json(struct request *r, struct fault *f)
{
	char *text = NULL;
	size_t len = 0;
	int err = body_read(r, &text, &len, f);

	if (err)
		return err;
	err = json_in_parse(text, len, &r->body, f);
	free(text);
	return err;
}

int request_fields(struct request *r, const struct field *table, void *dest, struct fault *f)
{
	int err = request_json(r, f);

	return err ? err : fields_read(table, r->body, dest, f);
}

static int request_route(struct request *r, struct route_match *m, struct fault *f)
{
	const char *uri = FCGX_GetParam("REQUEST_URI", r->fcgi->envp);
	int err = target_parse(uri ? uri : "", &r->target, f);

	if (err)
		return err;
	err = route_find(r->method, &r->target, m);
	/* Streams come only by their own socket: an odd spelling that nginx sorted elsewhere is no route. */
	if (!err && m->route->gate == GATE_STREAM && !r->stream_socket)
		err = -ENOENT;
	if (err == -ENOENT)
		return fault_set(f, ENOENT, 404, "not_found", "There is no such path or thing.");
	if (err)
		return fault_set(f, EPERM, 405, "method_not_allowed", "This path takes %s.", m->allow);
	r->route = m->route;
	r->id = m->captures[0];
	r->part = m->captures[1];
	return 0;
}

static int request_gated(struct request *r, struct fault *f)
{
	static const char *const full[GATE_COUNT] = {
		[GATE_QUICK] = "Too many requests are under way; try again in a moment.",
		[GATE_START] = "Too many sandboxes are being started; try again in a moment.",
		[GATE_VERB] = "Too many requests wait for their sandboxes; try again in a moment.",
		[GATE_STREAM] = "All streams are taken; end one or try again in a moment.",
	};
	int err;

	if (!front_gate_enter(r->front, r->route->gate))
		return fault_set(f, EBUSY, 503, "busy", "%s", full[r->route->gate]);
	err = auth_check(r, f);
	if (!err && r->route->gate == GATE_STREAM && !front_stream_seat(r->front, r->worker, r->owner))
		err = fault_set(f, EBUSY, 503, "busy", "%s", full[GATE_STREAM]);
	if (!err)
		err = r->route->handle(r, f);
	front_gate_leave(r->front, r->route->gate);
	return err;
}

static void request_limits(const struct request *r)
{
	struct timeval stall = { .tv_sec = RESPOND_STALL_S };

	setsockopt(r->fcgi->ipcFd, SOL_SOCKET, SO_SNDTIMEO, &stall, sizeof(stall));
	setsockopt(r->fcgi->ipcFd, SOL_SOCKET, SO_RCVTIMEO, &stall, sizeof(stall));
}

/* What an operator must hear of: Carrel's own failures. Never the query, which holds names of files. */
static void request_log(const struct request *r, int err, const struct fault *f)
{
	bool cut = r->head_sent && err != -EPIPE;

	if (f->status == 500 || cut)
		fprintf(stderr, "carreld: %s %s: %s%s: %s\n", r->method,
			r->route ? r->route->pattern : "(no route)", cut ? "answer cut short: " : "", f->code,
			f->message);
}

/* What was decided against: who may not, and who has had enough; not what was merely spelt wrong. */
static void request_audit(const struct request *r, const struct fault *f)
{
	static const int decisions[] = { 401, 403, 404, 409, 429 };
	bool decided = !strcmp(f->code, "capacity");
	char asked[128];

	for (size_t i = 0; i < sizeof(decisions) / sizeof(decisions[0]); i++)
		decided |= f->status == decisions[i];
	if (!decided || !r->route)
		return;
	snprintf(asked, sizeof(asked), "%s %s", r->method, r->route->pattern);
	store_refused(r->store, r->key_id, r->owner[0] ? r->owner : NULL,
		      r->id && !strncmp(r->route->pattern, "/v1/sandboxes/", 14) ? r->id : NULL, f->code,
		      json_pack("{s:s, s:i, s:s, s:s*}", "request", asked, "status", f->status, "address",
				request_address(r), "thing", r->id));
}

static void request_refuse(struct request *r, int err, struct fault *f, const struct route_match *match)
{
	char extra[128] = "";

	if (err == -EPIPE && !*f->code) { /* the client is gone: nobody to tell, nothing to log */
		respond_cut(r);
		return;
	}
	if (!*f->code)
		fault_set(f, -err, 500, "internal", "Carrel failed inside: %s.", strerror(-err));
	if (f->status == 405)
		snprintf(extra, sizeof(extra), "Allow: %s\r\n", match->allow);
	if (f->status == 401)
		snprintf(extra, sizeof(extra), "WWW-Authenticate: Bearer realm=\"carrel\"\r\n");
	request_log(r, err, f);
	request_audit(r, f);
	respond_fault(r, f, extra);
}

static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

void request_serve(struct request *r)
{
	const char *method = FCGX_GetParam("REQUEST_METHOD", r->fcgi->envp);
	struct route_match match = { .route = NULL };
	struct fault f = { .status = 0 };
	int64_t began;
	int err;

	began = now_us();
	r->method = method ? method : "";
	r->head_only = !strcmp(r->method, "HEAD");
	request_limits(r);
	audit_asker_set(NULL);
	err = request_route(r, &match, &f);
	if (!err)
		err = request_gated(r, &f);
	if (err)
		request_refuse(r, err, &f, &match);
	figures_add(r->route, r->status, now_us() - began);
	json_decref(r->body);
	target_free(&r->target);
}
