#include "stream.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"
#include "signals.h"

enum {
	/* An appliance that was restarted answers again within seconds. */
	RETRY_EVERY_MS = 500,
	RETRIES = 60,
};

struct following {
	struct stream *stream;
	struct lines lines;
	int bad; /* what lines_feed() found wrong */
};

static int on_bytes(const char *bytes, size_t len, void *arg)
{
	struct following *f = arg;

	f->bad = lines_feed(&f->lines, bytes, len);
	return f->bad;
}

static int on_signal(int signal, void *arg)
{
	struct following *f = arg;

	return f->stream->interrupt(signal, f->stream->arg);
}

static int follow_once(struct stream *s, const char *method, const char *path, json_t *body, int *ret_bad,
		       struct reply *reply)
{
	struct following f = { .stream = s, .lines = { .each = events_show, .arg = s->events } };
	struct request rq = { .method = method,
			      .path = path,
			      .body = body,
			      .sink = on_bytes,
			      .interrupt = on_signal,
			      .never_silent = true,
			      .arg = &f };
	int got = http_do(&s->command->http, &rq, reply);

	lines_free(&f.lines);
	*ret_bad = f.bad;
	return got;
}

static int complain_bad(int bad)
{
	if (bad == -EMSGSIZE)
		return complain(
			EXIT_FAILED,
			"The appliance sent an event of more than 1 MiB: this command and it do not fit.");
	if (bad == -ENOMEM)
		return complain(EXIT_FAILED, "Out of memory.");
	return complain(EXIT_FAILED, "The appliance sent something that is no event.");
}

/* A pause that a signal ends: nonzero when the signal ends the stream, too. */
static int pause_for_retry(struct stream *s)
{
	struct pollfd p = { .fd = signals_fd(), .events = POLLIN };
	int signal;

	poll(&p, 1, RETRY_EVERY_MS);
	while ((signal = signals_take()) != 0)
		if (s->interrupt(signal, s->arg) != 0)
			return 1;
	return 0;
}

/* True while the stream broke off in a way that asking again may mend. */
static bool worth_again(const struct stream *s, int bad, const struct reply *reply)
{
	if (s->events->ended || reply->stopped || bad || !s->events->execution_id[0])
		return false;
	return reply->status == 0 || reply->status / 100 == 2 || reply->status == 502 ||
	       reply->status == 503 || reply->status == 504;
}

static int follow_again(struct stream *s, int *ret_bad, struct reply *reply)
{
	char path[200];

	snprintf(path, sizeof(path), "/v1/executions/%s/stream?after=%lld", s->events->execution_id,
		 (long long)s->events->seq);
	return follow_once(s, "GET", path, NULL, ret_bad, reply);
}

static int complain_end(const struct stream *s, int bad, const struct reply *reply)
{
	if (s->events->ended)
		return EXIT_OK;
	if (s->events->write_error == EPIPE)
		return EXIT_SIGNAL + 13; /* as if SIGPIPE had ended us: who reads has seen enough */
	if (s->events->write_error)
		return complain(EXIT_FAILED, "Writing the output failed: %s.",
				strerror(s->events->write_error));
	if (bad)
		return complain_bad(bad);
	if (reply->stopped)
		return EXIT_SIGNAL + 2;
	if (reply->status / 100 == 2 && !reply->message[0])
		return complain(EXIT_FAILED,
				"The output ended before the code did: see the sandbox's executions.");
	return complain_reply(s->command, EXIT_FAILED, reply);
}

/* While the stream breaks off, it is taken up where it broke. */
static int follow_rest(struct stream *s, int bad, struct reply *reply)
{
	json_int_t seq = s->events->seq;
	int tries = 0;

	while (worth_again(s, bad, reply) && tries++ < RETRIES) {
		if (pause_for_retry(s) != 0) {
			reply->stopped = true;
			break;
		}
		follow_again(s, &bad, reply);
		if (s->events->seq > seq)
			tries = 0;
		seq = s->events->seq;
	}
	return complain_end(s, bad, reply);
}

int stream_follow(struct stream *s, const char *path, json_t *body)
{
	struct reply reply;
	int bad;

	follow_once(s, "POST", path, body, &bad, &reply);
	return follow_rest(s, bad, &reply);
}

int stream_resume(struct stream *s)
{
	struct reply reply;
	int bad;

	follow_again(s, &bad, &reply);
	return follow_rest(s, bad, &reply);
}
