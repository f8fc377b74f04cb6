/* Requests to the appliance, by libcurl.
 *
 * A request runs until it is done; signals that come meanwhile are handed to its
 * interrupt(), which may make requests of its own. Nothing here prints.
 */
#ifndef CARREL_HTTP_H
#define CARREL_HTTP_H

#include <curl/curl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "where.h"

enum {
	HTTP_BODY_MAX = 1024 * 1024, /* JSON bodies, reference v1 */
	HTTP_ANSWER_MAX =
		64 * 1024 * 1024, /* a JSON answer; the store's page of executions is at most 16 MiB */
	HTTP_CONNECT_S = 10,
	/* An appliance that is started again is back within seconds. */
	HTTP_AGAIN_MS = 250,
	HTTP_AGAIN_MAX = 40,
	/* Silence on an open stream, which says keepalive every few seconds: the connection is dead. */
	HTTP_SILENT_S = 120,
};

struct http {
	CURLM *multi;
	struct where where;
	/* What http_json() does about signals, as in struct request. */
	int (*interrupt)(int signal, void *arg);
	void *arg;
	bool patient; /* http_json() asks again while the appliance is being started */
	long wait_s;  /* a request may take that long; 0: as long as it takes */
};

struct request {
	const char *method, *path;
	json_t *body;  /* borrowed, or NULL */
	int upload_fd; /* with .upload: the body is what this gives */
	bool upload;
	int64_t upload_size; /* -1: not known */
	/* Gets the body of a 2xx answer; nonzero ends the request. NULL: the body is not wanted. */
	int (*sink)(const char *bytes, size_t len, void *arg);
	/* For each signal; nonzero ends the request. NULL: signals wait until it is done. */
	int (*interrupt)(int signal, void *arg);
	bool never_silent; /* keepalives are due: HTTP_SILENT_S without a byte is a dead connection */
	void *arg;
};

struct reply {
	long status;      /* 0: there was no answer */
	bool unreachable; /* no connection */
	bool stopped;     /* by sink() or interrupt() */
	int64_t length;   /* Content-Length, or -1 */
	char code[48], message[1024];
};

/* An exit code's worth, unprinted. */
int http_init(struct http *h);
void http_free(struct http *h);
/* 0: a 2xx answer that came whole. -1: see reply. */
int http_do(struct http *h, const struct request *rq, struct reply *ret);
/* The same for a JSON answer (NULL where there is none, as for 204). */
int http_json(struct http *h, const char *method, const char *path, json_t *body, json_t **ret,
	      struct reply *reply);
/* A path with one escaped parameter: "/v1/…?path=" and text. Allocated; NULL: out of memory. */
char *http_path(const char *before, const char *text);
/* Adds "&name=value", escaped, to an allocated path with a query; value NULL adds nothing. *path is NULL once there
 * was no memory. */
void http_query(char **path, const char *name, const char *value);

#endif
