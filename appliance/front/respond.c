#include "respond.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "decode.h"

/* Above the kernel's default of 208 KiB, within what it allows without privilege. */
enum { CUT_SNDBUF = 208 * 1024 };

static const char *status_text(int status)
{
	static const struct {
		int status;
		const char *text;
	} texts[] = {
		{ 200, "OK" },
		{ 201, "Created" },
		{ 204, "No Content" },
		{ 206, "Partial Content" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 408, "Request Timeout" },
		{ 409, "Conflict" },
		{ 413, "Content Too Large" },
		{ 414, "URI Too Long" },
		{ 429, "Too Many Requests" },
		{ 500, "Internal Server Error" },
		{ 501, "Not Implemented" },
		{ 503, "Service Unavailable" },
		{ 504, "Gateway Timeout" },
		{ 507, "Insufficient Storage" },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].status == status)
			return texts[i].text;
	return "Error";
}

int respond_write(struct request *r, const char *buf, size_t len)
{
	while (len > 0) {
		int n = len > 1 << 20 ? 1 << 20 : (int)len;

		if (FCGX_PutStr(buf, n, r->fcgi->out) != n)
			return -EPIPE;
		buf += n;
		len -= (size_t)n;
	}
	return 0;
}

int respond_flush(struct request *r)
{
	return FCGX_FFlush(r->fcgi->out) ? -EPIPE : 0;
}

int respond_head(struct request *r, int status, const char *type, int64_t length, const char *extra)
{
	char head[1024], size[48] = "";
	int n;

	if (length >= 0)
		snprintf(size, sizeof(size), "Content-Length: %" PRId64 "\r\n", length);
	n = snprintf(head, sizeof(head), "Status: %d %s\r\n%s%s%s%s%sCache-Control: no-store\r\n\r\n", status,
		     status_text(status), *type ? "Content-Type: " : "", type, *type ? "\r\n" : "", size,
		     extra);
	if (n < 0 || (size_t)n >= sizeof(head))
		return -E2BIG;
	r->head_sent = true;
	r->status = status;
	return respond_write(r, head, (size_t)n);
}

static int respond_text(struct request *r, int status, const char *text, const char *extra)
{
	size_t len = strlen(text);
	int err = respond_head(r, status, "application/json", (int64_t)len + 1, extra);

	if (!err && !r->head_only)
		err = respond_write(r, text, len);
	if (!err && !r->head_only)
		err = respond_write(r, "\n", 1);
	return err;
}

int respond_json_with(struct request *r, int status, json_t *body, const char *extra, struct fault *f)
{
	char *text = json_dumps(body, JSON_COMPACT);
	int err;

	json_decref(body);
	if (!text)
		return fault_no_memory(f);
	err = respond_text(r, status, text, extra);
	free(text);
	return err;
}

int respond_json(struct request *r, int status, json_t *body, struct fault *f)
{
	return respond_json_with(r, status, body, "", f);
}

int respond_empty(struct request *r, int status)
{
	return respond_head(r, status, "", -1, "");
}

void respond_fault(struct request *r, const struct fault *f, const char *extra)
{
	char retry[40] = "", headers[256];
	struct fault clean = *f;
	json_t *body;
	char *text;

	if (r->head_sent) {
		respond_cut(r);
		return;
	}
	utf8_scrub(clean.code);
	utf8_scrub(clean.message);
	utf8_scrub(clean.field);
	body = json_pack("{s:s, s:s}", "code", clean.code, "message", clean.message);
	if (body && *clean.field)
		json_object_set_new(body, "field", json_string(clean.field));
	text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	json_decref(body);
	/* What the contract of 429 and 503 asks for, also where a fault named no time. */
	if (f->retry_after_s > 0 || f->status == 429 || f->status == 503)
		snprintf(retry, sizeof(retry), "Retry-After: %d\r\n",
			 f->retry_after_s > 0 ? f->retry_after_s : 1);
	snprintf(headers, sizeof(headers), "%s%s", retry, extra);
	if (!text || respond_text(r, f->status, text, headers))
		respond_cut(r);
	free(text);
}

/* nginx takes the end of a FastCGI connection without its end record for a
 * complete answer; only a record that is none makes it break the client's
 * connection. It lands between two records, because libfcgi writes each (8 KiB
 * at most) by one write(), which a unix socket takes whole or not at all. A
 * stalled reader has filled the socket: the larger buffer makes room for it. */
void connection_cut(int fd)
{
	static const char no_record[8] = { 0 };
	int room = CUT_SNDBUF;

	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	send(fd, no_record, sizeof(no_record), MSG_DONTWAIT | MSG_NOSIGNAL);
	shutdown(fd, SHUT_RDWR);
}

void respond_cut(struct request *r)
{
	r->head_sent = true;
	connection_cut(r->fcgi->ipcFd);
}
