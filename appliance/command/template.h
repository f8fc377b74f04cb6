/* The templates of this host's appliance: made and removed by kernels/image/template, which works on its state
 * directory and the image cache. */
#ifndef CARREL_COMMAND_TEMPLATE_H
#define CARREL_COMMAND_TEMPLATE_H

#include "command.h"

enum {
	TEMPLATE_WORDS_MAX = 4096, /* images that sandboxes and snapshots may speak of */
	TEMPLATE_POLL_MS = 1000,   /* a snapshot that is being made tells nobody */
	TEMPLATE_WARM_S = 1200,    /* until it is there, on a badly loaded host */
};

/* Runs it with these words; ret: what its stdout said last, or NULL. An exit code. */
int template_run(const char *const *words, char *ret, size_t size);
/* Builds the template in dir under the name (NULL: the folder's). wait: where an appliance runs, until it is warm. */
int template_build(struct command *c, const char *dir, const char *name, bool wait);
/* Removes images that nothing uses: neither a template's name nor a row of the store. */
int template_sweep(void);

#endif
