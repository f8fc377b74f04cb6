/* What a connection file says: where to bind, which key signs. */
#ifndef CARREL_CONNECTION_H
#define CARREL_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <jansson.h>
#include "core/wire.h"

enum connection_channel { CHANNEL_SHELL, CHANNEL_CONTROL, CHANNEL_STDIN, CHANNEL_IOPUB, CHANNEL_HB, CHANNELS };

enum {
	/* transport://ip: an ipc path must fit sockaddr_un anyway. */
	CONNECTION_ADDRESS_MAX = 160,
	/* A connection file is some 300 bytes. */
	CONNECTION_FILE_MAX = 16 * 1024,
};

struct connection {
	char address[CHANNELS][CONNECTION_ADDRESS_MAX];
	int port[CHANNELS];
	char key[WIRE_KEY_MAX];
	size_t key_len;
	bool unsent; /* whoever started the kernel looks after its last words (core/unsent.h) */
};

/* Both leave ret untouched on failure, and write a sentence to why.
 * -EINVAL: something is missing or not supported; else the error of open or read. */
int connection_from_json(const json_t *j, struct connection *ret, char *why, size_t why_size);
int connection_from_file(const char *path, struct connection *ret, char *why, size_t why_size);

#endif
