/* Where the appliance is, and with which key. */
#ifndef CARREL_WHERE_H
#define CARREL_WHERE_H

#include <stdbool.h>
#include <stddef.h>

/* The configuration file, where CARREL_CONF names no other. */
#define CONF_FILE "/etc/carrel/carrel.conf"

struct where {
	char url[512]; /* without a slash at its end */
	char token[256];
	char cacert[512]; /* file of certificates to trust in place of the system's, or "" */
};

/* What the configuration file says of that name; false: nothing. */
bool where_conf(const char *name, char *ret, size_t size);

/* CARREL_URL and CARREL_TOKEN, else the configuration file, else a local run's
 * $STATE. A key from a file goes only to the URL of the same place, unless only
 * CARREL_TOKEN is set. EXIT_OK, or an exit code and the reason as a sentence. */
int where_find(struct where *ret, char *ret_why, size_t size);

#endif
