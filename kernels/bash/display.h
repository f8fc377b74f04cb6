/* Files that the user's code asks to be shown: display, displayHTML, displayJS, displayResult. */
#ifndef CARREL_BASH_DISPLAY_H
#define CARREL_BASH_DISPLAY_H

#include <stdbool.h>
#include <jansson.h>

struct core;
struct request;

enum {
	/* Bytes of one picture or page: as base64 within a message it must fit a
	 * frame of the link (16 MiB) with room to spare. */
	DISPLAY_MAX = 8 * 1024 * 1024,
	/* Displays of one cell that are remembered for being updated. */
	DISPLAY_IDS_MAX = 256,
	DISPLAY_ID_MAX = 256,
};

struct display {
	int count; /* the cell's, for its result */
	/* The display ids this cell has shown; the same one again updates it. */
	char *ids[DISPLAY_IDS_MAX];
	size_t n;
};

/* A new cell begins. */
void display_reset(struct display *d, int count);
/* Publish the file. kind: image, html, js or result; id may be "". False: a sentence
 * about why not is on the cell's standard error. */
bool display_file(struct display *d, struct core *c, const struct request *r, const char *kind,
		  const char *id, const char *path);

#endif
