/* Inside of lang: what Python does beside cells, and how a thread enters Python. */
#ifndef CARREL_PYTHON_LANG_BESIDE_H
#define CARREL_PYTHON_LANG_BESIDE_H

#include "python/lang.h"

struct request;

/* Take the lock, work for r, and let interrupts come when this is the outermost
 * request of the main shell: for python_leave(). */
bool python_enter(struct core *c, const struct request *r);
void python_leave(struct core *c, bool outermost);
/* A signal that came too late for the code it was meant for. */
void python_drop_signals(void);

/* Ops of the language, as core/lang.h tells. */
json_t *python_comm(void *lang, struct core *c, const struct request *r);
bool python_idle(void *lang, struct core *c);
bool python_thread_begin(void *lang, const char *subshell_id);
void python_thread_end(void *lang);

#endif
