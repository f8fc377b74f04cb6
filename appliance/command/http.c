#include "http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "proxy.h"
#include "signals.h"

enum { ERROR_BODY_MAX = 64 * 1024 };

struct transfer {
	CURL *curl;
	const struct request *rq;
	struct reply *reply;
	struct curl_slist *headers;
	char *body;
	char error[ERROR_BODY_MAX]; /* the body of an answer that is not 2xx */
	size_t error_len;
	bool done;
	CURLcode result;
	char detail[CURL_ERROR_SIZE];
};

int http_init(struct http *h)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
	h->multi = curl_multi_init();
	return h->multi ? 0 : -ENOMEM;
}

void http_free(struct http *h)
{
	if (h->multi)
		curl_multi_cleanup(h->multi);
	curl_global_cleanup();
}

static size_t on_body(char *bytes, size_t size, size_t count, void *arg)
{
	struct transfer *t = arg;
	size_t len = size * count, room;
	long status = 0;

	curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
	if (status / 100 == 2) {
		if (t->rq->sink && t->rq->sink(bytes, len, t->rq->arg) != 0) {
			t->reply->stopped = true;
			return 0;
		}
		return len;
	}
	room = sizeof(t->error) - 1 - t->error_len;
	memcpy(t->error + t->error_len, bytes, len < room ? len : room);
	t->error_len += len < room ? len : room;
	return len;
}

static size_t on_upload(char *buf, size_t size, size_t count, void *arg)
{
	struct transfer *t = arg;
	ssize_t n;

	do
		n = read(t->rq->upload_fd, buf, size * count);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return n;
	snprintf(t->reply->message, sizeof(t->reply->message), "Reading the file failed: %s.",
		 strerror(errno));
	return CURL_READFUNC_ABORT;
}

static int on_seek(void *arg, curl_off_t offset, int origin)
{
	struct transfer *t = arg;

	return lseek(t->rq->upload_fd, offset, origin) < 0 ? CURL_SEEKFUNC_CANTSEEK : CURL_SEEKFUNC_OK;
}

static void add_header(struct transfer *t, const char *line)
{
	struct curl_slist *longer = curl_slist_append(t->headers, line);

	if (longer)
		t->headers = longer;
}

static int set_body(struct transfer *t)
{
	const struct request *rq = t->rq;

	/* No waiting for 100-continue: an early refusal ends the upload anyway. */
	add_header(t, "Expect:");
	if (rq->upload) {
		curl_easy_setopt(t->curl, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(t->curl, CURLOPT_READFUNCTION, on_upload);
		curl_easy_setopt(t->curl, CURLOPT_READDATA, t);
		curl_easy_setopt(t->curl, CURLOPT_SEEKFUNCTION, on_seek);
		curl_easy_setopt(t->curl, CURLOPT_SEEKDATA, t);
		curl_easy_setopt(t->curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)rq->upload_size);
		add_header(t, "Content-Type: application/octet-stream");
		return 0;
	}
	if (!rq->body)
		return 0;
	t->body = json_dumps(rq->body, JSON_COMPACT);
	if (!t->body)
		return -ENOMEM;
	if (strlen(t->body) > HTTP_BODY_MAX)
		return -E2BIG;
	curl_easy_setopt(t->curl, CURLOPT_POSTFIELDS, t->body);
	add_header(t, "Content-Type: application/json");
	return 0;
}

static int set_up(struct http *h, struct transfer *t)
{
	char url[8192], key[300];

	t->curl = curl_easy_init();
	if (!t->curl)
		return -ENOMEM;
	snprintf(url, sizeof(url), "%s%s", h->where.url, t->rq->path);
	snprintf(key, sizeof(key), "Authorization: Bearer %s", h->where.token);
	add_header(t, key);
	curl_easy_setopt(t->curl, CURLOPT_URL, url);
	curl_easy_setopt(t->curl, CURLOPT_PROTOCOLS_STR, "http,https");
	if (h->where.cacert[0])
		curl_easy_setopt(t->curl, CURLOPT_CAINFO, h->where.cacert);
	if (proxy_is_loopback(url))
		curl_easy_setopt(t->curl, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(t->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(t->curl, CURLOPT_CONNECTTIMEOUT, (long)HTTP_CONNECT_S);
	curl_easy_setopt(t->curl, CURLOPT_TIMEOUT, h->wait_s);
	curl_easy_setopt(t->curl, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(t->curl, CURLOPT_ERRORBUFFER, t->detail);
	curl_easy_setopt(t->curl, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(t->curl, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(t->curl, CURLOPT_PRIVATE, t);
	/* A stream is never silent for long; everything else that is (a slow file, a boot) may take its time.
	 */
	if (t->rq->never_silent) {
		curl_easy_setopt(t->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
		curl_easy_setopt(t->curl, CURLOPT_LOW_SPEED_TIME, (long)HTTP_SILENT_S);
	}
	/* The method last: the body's options choose one of their own. */
	if (set_body(t) < 0)
		return -E2BIG;
	curl_easy_setopt(t->curl, CURLOPT_CUSTOMREQUEST, t->rq->method);
	curl_easy_setopt(t->curl, CURLOPT_HTTPHEADER, t->headers);
	return 0;
}

static void collect_done(struct http *h)
{
	struct transfer *t;
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(h->multi, &left))) {
		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &t);
		t->result = message->data.result;
		t->done = true;
	}
}

static void hand_signals(struct transfer *t)
{
	int signal;

	while (t->rq->interrupt && !t->done && (signal = signals_take()) != 0)
		if (t->rq->interrupt(signal, t->rq->arg) != 0) {
			t->reply->stopped = true;
			t->result = CURLE_ABORTED_BY_CALLBACK;
			t->done = true;
		}
}

/* A request made by an interrupt() runs in here too, while the outer one goes on. */
static void perform(struct http *h, struct transfer *t)
{
	struct curl_waitfd extra = { .fd = signals_fd(), .events = CURL_WAIT_POLLIN };
	int running;

	curl_multi_add_handle(h->multi, t->curl);
	for (;;) {
		curl_multi_perform(h->multi, &running);
		collect_done(h);
		if (t->done)
			break;
		curl_multi_poll(h->multi, &extra, t->rq->interrupt ? 1 : 0, 1000, NULL);
		hand_signals(t);
		if (t->done)
			break;
	}
	curl_multi_remove_handle(h->multi, t->curl);
}

static void parse_error(struct transfer *t)
{
	json_t *error = json_loadb(t->error, t->error_len, 0, NULL);
	const char *code = json_string_value(json_object_get(error, "code"));
	const char *message = json_string_value(json_object_get(error, "message"));
	const char *field = json_string_value(json_object_get(error, "field"));

	snprintf(t->reply->code, sizeof(t->reply->code), "%s", code ? code : "");
	if (message && field)
		snprintf(t->reply->message, sizeof(t->reply->message), "%s (field %s)", message, field);
	else if (message)
		snprintf(t->reply->message, sizeof(t->reply->message), "%s", message);
	else
		snprintf(t->reply->message, sizeof(t->reply->message),
			 "%.400s answered with status %ld: is it a Carrel appliance?", t->rq->path,
			 t->reply->status);
	json_decref(error);
}

static int judge(struct http *h, struct transfer *t)
{
	struct reply *reply = t->reply;
	curl_off_t length = -1;

	curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &reply->status);
	curl_easy_getinfo(t->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
	reply->length = length;
	if (reply->status >= 300) {
		parse_error(t);
		return -1;
	}
	if (t->result == CURLE_OK)
		return 0;
	if (reply->stopped || reply->message[0])
		return -1;
	reply->unreachable = reply->status == 0;
	if (reply->unreachable)
		snprintf(reply->message, sizeof(reply->message),
			 "The appliance at %s does not answer (%s): start it with `make run`, or set "
			 "CARREL_URL to where it runs.",
			 h->where.url, t->detail[0] ? t->detail : curl_easy_strerror(t->result));
	else
		snprintf(reply->message, sizeof(reply->message),
			 "The connection broke before the answer was complete (%s).",
			 t->detail[0] ? t->detail : curl_easy_strerror(t->result));
	return -1;
}

int http_do(struct http *h, const struct request *rq, struct reply *ret)
{
	struct transfer *t = calloc(1, sizeof(*t));
	struct reply reply = { .length = -1 };
	int got = -1;

	if (t) {
		t->rq = rq;
		t->reply = &reply;
	}
	if (!t || set_up(h, t) < 0)
		snprintf(reply.message, sizeof(reply.message),
			 t && t->body
				 ? "A request may carry 1 MiB at most: send larger things with carrel cp."
				 : "Out of memory.");
	else
		perform(h, t);
	if (t && t->done)
		got = judge(h, t);
	if (t) {
		curl_slist_free_all(t->headers);
		curl_easy_cleanup(t->curl);
		free(t->body);
	}
	free(t);
	*ret = reply;
	return got;
}

struct buffer {
	struct http *http;
	char *bytes;
	size_t len, size;
};

static int to_buffer(const char *bytes, size_t len, void *arg)
{
	struct buffer *b = arg;
	size_t size = b->size ? b->size : 4096;
	char *grown;

	if (b->len + len > HTTP_ANSWER_MAX)
		return -1;
	while (size < b->len + len)
		size *= 2;
	grown = size > b->size ? realloc(b->bytes, size) : b->bytes;
	if (!grown)
		return -1;
	b->bytes = grown;
	b->size = size;
	memcpy(b->bytes + b->len, bytes, len);
	b->len += len;
	return 0;
}

static int buffer_interrupt(int signal, void *arg)
{
	struct buffer *b = arg;

	return b->http->interrupt(signal, b->http->arg);
}

static bool is_back_soon(const struct reply *reply)
{
	return strcmp(reply->code, "restarting") == 0 || strcmp(reply->code, "starting") == 0;
}

/* A refusal leaves nothing in the buffer. */
static int do_patiently(struct http *h, const struct request *rq, struct reply *ret)
{
	const struct timespec wait = { .tv_nsec = HTTP_AGAIN_MS * 1000000L };
	int got = http_do(h, rq, ret), tries = h->patient ? HTTP_AGAIN_MAX : 0;

	while (got < 0 && is_back_soon(ret) && tries-- > 0) {
		nanosleep(&wait, NULL);
		got = http_do(h, rq, ret);
	}
	return got;
}

int http_json(struct http *h, const char *method, const char *path, json_t *body, json_t **ret,
	      struct reply *reply)
{
	struct buffer buffer = { .http = h };
	struct request rq = { .method = method,
			      .path = path,
			      .body = body,
			      .sink = to_buffer,
			      .interrupt = h->interrupt ? buffer_interrupt : NULL,
			      .arg = &buffer };
	json_t *json = NULL;
	int got = do_patiently(h, &rq, reply);

	if (got == 0 && buffer.len > 0) {
		json = json_loadb(buffer.bytes, buffer.len, JSON_ALLOW_NUL, NULL);
		if (!json) {
			snprintf(reply->message, sizeof(reply->message),
				 "The answer is not JSON: is %s a Carrel appliance?", h->where.url);
			got = -1;
		}
	}
	free(buffer.bytes);
	if (got == 0 && ret)
		*ret = json;
	else
		json_decref(json);
	return got;
}

char *http_path(const char *before, const char *text)
{
	char *escaped = curl_easy_escape(NULL, text, 0), *path = NULL;

	if (escaped && asprintf(&path, "%s%s", before, escaped) < 0)
		path = NULL;
	curl_free(escaped);
	return path;
}

void http_query(char **path, const char *name, const char *value)
{
	char *before = NULL, *after;

	if (!*path || !value)
		return;
	after = asprintf(&before, "%s&%s=", *path, name) < 0 ? NULL : http_path(before, value);
	if (after)
		free(before);
	free(*path);
	*path = after;
}
