#include "request.h"

#include <stdarg.h>
#include <stdio.h>

#include "agent.h"
#include "env.h"
#include "link/channel.h"
#include "router.h"
#include "util.h"

static void request_free(struct request *rq)
{
	json_decref(rq->body);
	free(rq->query);
	free(rq->in);
	free(rq->out);
	free(rq);
}

/* Gone for the handler; gone altogether when the stream is, too. */
static void request_end(struct request *rq)
{
	rq->ended = true;
	rq->hooks = NULL;
	if (!rq->st)
		request_free(rq);
}

static void write_out(struct request *rq)
{
	rq->out_at += link_write(rq->st, rq->out + rq->out_at, rq->out_len - rq->out_at);
	if (rq->out_at == rq->out_len)
		link_end(rq->st);
}

static void respond(struct request *rq, int status, json_t *body)
{
	if (!rq->st)
		return;
	if (!body) {
		link_respond(rq->st, status, NULL, status == 204 ? -1 : 0);
		link_end(rq->st);
		return;
	}
	rq->out = json_dumps(body, JSON_COMPACT);
	if (!rq->out)
		abort();
	rq->out_len = strlen(rq->out);
	link_respond(rq->st, status, "application/json", (int64_t)rq->out_len);
	write_out(rq);
}

void request_answer(struct request *rq, int status, json_t *body)
{
	respond(rq, status, body);
	json_decref(body);
	request_end(rq);
}

void request_fail(struct request *rq, int status, const char *code, const char *fmt, ...)
{
	char text[1024];
	json_t *body;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	body = json_pack("{s:s, s:s}", "code", code, "message", text);
	if (!body) /* a cut through a character at the end of text, or foreign bytes */
		body = json_pack("{s:s, s:s}", "code", code, "message",
				 "the request failed; its name is not UTF-8");
	rq->refused = true;
	request_answer(rq, status, body);
}

void request_channel(struct request *rq, struct channel *c)
{
	struct link_stream *st = rq->st;

	rq->st = NULL;
	if (st && channel_accept(c, st) < 0)
		link_reset(st);
	request_end(rq);
}

void request_finish(struct request *rq)
{
	request_end(rq);
}

static void body_complete(struct request *rq)
{
	json_error_t error;

	rq->body = json_loadb(rq->in ? rq->in : "", rq->in_len, JSON_REJECT_DUPLICATES, &error);
	if (!rq->body)
		return request_fail(rq, 400, "bad_request", "The body is not JSON: %s.", error.text);
	if (!json_is_object(rq->body))
		return request_fail(rq, 400, "bad_request", "The body must be a JSON object.");
	rq->route->handler(rq);
}

static void on_data(struct link_stream *st, const uint8_t *bytes, size_t len, void *arg)
{
	struct request *rq = arg;
	char *grown;

	if (rq->hooks && rq->hooks->data && !rq->ended)
		return rq->hooks->data(rq->hook_arg, bytes, len);
	link_consume(st, len);
	if (rq->ended || rq->refused || rq->route->body != ROUTE_JSON)
		return;
	if (len > AGENT_JSON_MAX - rq->in_len)
		return request_fail(rq, 413, "too_large", "The body is larger than %d bytes.",
				    AGENT_JSON_MAX);
	grown = realloc(rq->in, rq->in_len + len);
	if (!grown)
		return request_fail(rq, 500, "out_of_memory", "There is no memory for the body.");
	rq->in = grown;
	memcpy(rq->in + rq->in_len, bytes, len);
	rq->in_len += len;
}

static void on_eof(struct link_stream *st, void *arg)
{
	struct request *rq = arg;

	(void)st;
	if (rq->ended)
		return;
	if (rq->hooks) {
		if (rq->hooks->eof)
			rq->hooks->eof(rq->hook_arg);
		return;
	}
	if (rq->route->body == ROUTE_JSON && !rq->body)
		body_complete(rq);
}

static void on_writable(struct link_stream *st, void *arg)
{
	struct request *rq = arg;

	(void)st;
	if (rq->out)
		write_out(rq);
	else if (rq->hooks && rq->hooks->writable && !rq->ended)
		rq->hooks->writable(rq->hook_arg);
}

static void on_closed(struct link_stream *st, int err, void *arg)
{
	struct request *rq = arg;
	bool waiting = rq->route->body == ROUTE_JSON && !rq->body;

	(void)st, (void)err;
	rq->st = NULL;
	/* No handler knows of it yet, or none does any more. */
	if (rq->ended || waiting)
		return request_free(rq);
	if (rq->hooks && rq->hooks->closed)
		rq->hooks->closed(rq->hook_arg);
}

static const struct link_stream_ops stream_ops = {
	.data = on_data,
	.eof = on_eof,
	.writable = on_writable,
	.closed = on_closed,
};

void request_new(struct agent *a, struct link_stream *st, const struct route *route, const char *id,
		 const char *query)
{
	struct request *rq = xcalloc(1, sizeof(*rq));

	rq->agent = a;
	rq->st = st;
	rq->route = route;
	rq->query = xstrdup(query);
	snprintf(rq->id, sizeof(rq->id), "%s", id);
	link_stream_bind(st, &stream_ops, rq);
	if (route->body != ROUTE_JSON)
		route->handler(rq);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static char *percent_decode(const char *text, size_t len)
{
	char *out = xcalloc(len + 1, 1);
	size_t i, n = 0;

	for (i = 0; i < len; i++) {
		char c = text[i];

		if (c == '%') {
			int high = i + 2 < len ? hex_digit(text[i + 1]) : -1;
			int low = high < 0 ? -1 : hex_digit(text[i + 2]);

			if (low < 0 || (high == 0 && low == 0)) {
				free(out);
				return NULL;
			}
			c = (char)(high << 4 | low);
			i += 2;
		}
		out[n++] = c;
	}
	return out;
}

char *request_query(const struct request *rq, const char *name, size_t max)
{
	size_t name_len = strlen(name);
	const char *at = rq->query;

	while (*at) {
		size_t len = strcspn(at, "&");

		if (len > name_len && strncmp(at, name, name_len) == 0 && at[name_len] == '=') {
			char *value = percent_decode(at + name_len + 1, len - name_len - 1);

			if (value && strlen(value) > max) {
				free(value);
				value = NULL;
			}
			return value;
		}
		at += len + (at[len] == '&');
	}
	return NULL;
}

bool request_string(struct request *rq, const char *name, bool required, const char **ret)
{
	json_t *value = json_object_get(rq->body, name);

	if ((!value || json_is_null(value)) && !required)
		return true;
	if (!json_is_string(value)) {
		request_fail(rq, 400, "bad_request", "\"%s\" must be a string.", name);
		return false;
	}
	*ret = json_string_value(value);
	return true;
}

bool request_integer(struct request *rq, json_t *object, const char *name, json_int_t min, json_int_t max,
		     json_int_t *ret)
{
	json_t *value = json_object_get(object, name);

	if (!value || json_is_null(value))
		return true;
	if (!json_is_integer(value) || json_integer_value(value) < min || json_integer_value(value) > max) {
		request_fail(rq, 400, "bad_request", "\"%s\" must be a whole number from %lld to %lld.", name,
			     (long long)min, (long long)max);
		return false;
	}
	*ret = json_integer_value(value);
	return true;
}

bool request_env(struct request *rq, json_t **ret)
{
	json_t *env = json_object_get(rq->body, "env");
	const char *wrong;

	if (json_is_null(env))
		env = NULL;
	wrong = env_wrong(env);
	if (wrong) {
		request_fail(rq, 400, "bad_request", "\"env\" %s.", wrong);
		return false;
	}
	*ret = env;
	return true;
}

bool request_identified(struct request *rq)
{
	if (rq->agent->identified && !rq->agent->change)
		return true;
	request_fail(rq, 409, "wrong_state", "The sandbox has no identity yet: PUT /identity comes first.");
	return false;
}
