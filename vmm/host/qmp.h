/* Client of QEMU's monitor (QMP) on a libuv loop.
 *
 * What QEMU sends is foreign: a guest may have taken QEMU over. Lines are
 * bounded, replies must match commands, and whatever breaks a rule closes the
 * connection with an error. All calls and callbacks are on the loop's thread.
 */
#ifndef CARREL_QMP_H
#define CARREL_QMP_H

#include <jansson.h>
#include <stddef.h>
#include <uv.h>

enum {
	/* The largest answer asked for (query-migrate) is below 2 KiB. */
	QMP_LINE_MAX = 64 * 1024,
	/* A machine has a handful of events in its life, and one for each failed
	 * disk request when the host's disk is full; this many a second are an attack. */
	QMP_LINES_PER_SECOND_MAX = 2000,
	QMP_PENDING_MAX = 16,
	/* QEMU's main loop answers in milliseconds; on a host that swaps, in seconds. */
	QMP_TIMEOUT_MS = 30 * 1000,
};

/* Splits the byte stream into JSON objects. Pure; also the fuzzer's target. */
struct qmp_reader {
	char line[QMP_LINE_MAX];
	size_t used;
};

/* Calls message() for each whole object; its return value other than 0 stops
 * and is returned. -EMSGSIZE: a line too long; -EBADMSG: not a JSON object. */
int qmp_reader_feed(struct qmp_reader *r, const char *bytes, size_t n,
		    int (*message)(json_t *object, void *arg), void *arg);

struct qmp;

struct qmp_ops {
	void (*ready)(void *arg); /* commands can be given */
	void (*event)(const char *name, const json_t *data, void *arg);
	/* The last call: the connection is over. Outstanding commands got -EPIPE before. */
	void (*closed)(int err, const char *message, void *arg);
};

/* err 0 and the value of "return", or a negative errno and QEMU's sentence. */
typedef void (*qmp_done)(int err, const json_t *value, const char *message, void *arg);

int qmp_new(uv_loop_t *loop, const char *path, const struct qmp_ops *ops, void *arg, struct qmp **ret);
/* Takes arguments (NULL: none). fd >= 0 travels with the command and stays the
 * caller's. When an error is returned done is not called. */
int qmp_execute(struct qmp *q, const char *command, json_t *arguments, int fd, qmp_done done, void *arg);
/* No callback comes after it, not even for outstanding commands. NULL is fine. */
void qmp_free(struct qmp *q);

#endif
