/* Where the appliance is, and with which key. */
#ifndef CARREL_WHERE_H
#define CARREL_WHERE_H

struct where {
	char url[512];   /* without a slash at its end */
	char token[256];
};

/* CARREL_URL and CARREL_TOKEN, else the configuration file, else a local run's
 * $STATE. A key from a file goes only to the URL of the same place, unless only
 * CARREL_TOKEN is set. An exit code. */
int where_find(struct where *ret);

#endif
