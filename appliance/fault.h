/* An error that a person will read: what the REST face answers as
 * {"code","message","field"?} and what a log line says.
 *
 * Functions that take a struct fault return 0, or a negative errno with the
 * fault filled in; on success it is untouched. status is the HTTP status that
 * suits it (5xx only for Carrel's own faults).
 */
#ifndef CARREL_FAULT_H
#define CARREL_FAULT_H

struct fault {
	int status;
	char code[32];     /* stable: "not_found", "disk_full", … */
	char message[320]; /* one sentence; says what to do where there is something to do */
	char field[64];    /* the request's field at fault, or "" */
	int retry_after_s; /* > 0: sent as Retry-After */
	_Bool busy;        /* it may be otherwise once what is under way is over: core_settle() waits for that */
};

/* Fills *f and returns -errno_value, so that a failure is one return statement. */
int fault_set(struct fault *f, int errno_value, int status, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* The same for a field of the request: status 400. */
int fault_field(struct fault *f, const char *code, const char *field, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* 503 out_of_memory; returns -ENOMEM. */
int fault_no_memory(struct fault *f);
/* 503 restarting, with a Retry-After: a part of Carrel is away for a moment. Returns -EAGAIN. */
int fault_restarting(struct fault *f, const char *message);
/* "context: " in front of the message while unwinding; returns err unchanged. */
int fault_wrap(struct fault *f, int err, const char *context);

#endif
