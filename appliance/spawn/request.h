/* Checks what a client of carrel-spawn sent, before anything is done with it.
 * Pure: opens nothing, changes nothing. */
#ifndef CARREL_SPAWN_REQUEST_H
#define CARREL_SPAWN_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "vmm/spawn_proto.h"

/* n: bytes of the packet; nfds: descriptors that came with it. 0, or a negative
 * errno and a sentence in ret_message (SPAWN_MESSAGE_MAX bytes). */
int request_check(const struct spawn_request *request, size_t n, unsigned nfds, char *ret_message);

/* The descriptors of SPAWN_START and SPAWN_PAGES, fds[enum spawn_fd] or -1: regular files,
 * opened with the rights the verb and the mode need, guest memory of the right size. */
int request_check_files(const struct spawn_request *request, const int *fds, char *ret_message);

/* [a-z0-9-], not empty, ended by NUL within SPAWN_ID_MAX, not beginning with '-'. */
bool request_id_valid(const char *id, size_t size);

#endif
