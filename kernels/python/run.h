/* From a started interpreter to a served kernel and its end. */
#ifndef CARREL_PYTHON_RUN_H
#define CARREL_PYTHON_RUN_H

#include "python/lang.h"
#include "core/connection.h"

/* Bind and serve until shutdown; never returns. The caller holds the
 * interpreter's lock. saved_stderr takes crash text and log lines.
 * ready_fd (-1: none) gets "ok" once a client can connect, or a sentence. */
void run_kernel(struct python *py, const struct connection *conn, int saved_stderr, int ready_fd)
	__attribute__((noreturn));

#endif
