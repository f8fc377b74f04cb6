/* The handlers of the routes, one file a noun. */
#ifndef CARREL_FRONT_HANDLERS_H
#define CARREL_FRONT_HANDLERS_H

#include "request.h"

int sandboxes_create(struct request *r, struct fault *f);
int sandboxes_list(struct request *r, struct fault *f);
int sandboxes_get(struct request *r, struct fault *f);
int sandboxes_timeout(struct request *r, struct fault *f);
int sandboxes_delete(struct request *r, struct fault *f);

int life_pause(struct request *r, struct fault *f);
int life_resume(struct request *r, struct fault *f);
int life_fork(struct request *r, struct fault *f);
int snapshots_create(struct request *r, struct fault *f);
int snapshots_list(struct request *r, struct fault *f);
int snapshots_get(struct request *r, struct fault *f);
int snapshots_delete(struct request *r, struct fault *f);

int kernels_list(struct request *r, struct fault *f);
int kernels_create(struct request *r, struct fault *f);
int kernels_restart(struct request *r, struct fault *f);
int kernels_interrupt(struct request *r, struct fault *f);
int kernels_delete(struct request *r, struct fault *f);
int kernels_connection(struct request *r, struct fault *f);

int jupyter_kernels_list(struct request *r, struct fault *f);
int jupyter_kernels_create(struct request *r, struct fault *f);
int jupyter_kernels_get(struct request *r, struct fault *f);
int jupyter_kernels_delete(struct request *r, struct fault *f);
int jupyter_kernels_interrupt(struct request *r, struct fault *f);
int jupyter_kernels_restart(struct request *r, struct fault *f);
int jupyter_specs_list(struct request *r, struct fault *f);
int jupyter_specs_get(struct request *r, struct fault *f);

int executions_start(struct request *r, struct fault *f);
int executions_list(struct request *r, struct fault *f);
int executions_get(struct request *r, struct fault *f);
int executions_stream(struct request *r, struct fault *f);
int executions_interrupt(struct request *r, struct fault *f);
int executions_full(struct request *r, struct fault *f);
int executions_erase(struct request *r, struct fault *f);

int files_put(struct request *r, struct fault *f);
int files_get(struct request *r, struct fault *f);
int files_delete(struct request *r, struct fault *f);
int files_list(struct request *r, struct fault *f);

int processes_run(struct request *r, struct fault *f);

int usage_get(struct request *r, struct fault *f);
int audit_lines(struct request *r, struct fault *f);

int owners_create(struct request *r, struct fault *f);
int owners_change(struct request *r, struct fault *f);
int owners_list(struct request *r, struct fault *f);
int keys_create(struct request *r, struct fault *f);
int keys_list(struct request *r, struct fault *f);
int keys_delete(struct request *r, struct fault *f);

int about_health(struct request *r, struct fault *f);
int about_me(struct request *r, struct fault *f);
int about_stats(struct request *r, struct fault *f);
int about_templates(struct request *r, struct fault *f);
int about_template(struct request *r, struct fault *f);
int template_rebuild(struct request *r, struct fault *f);
int about_metrics(struct request *r, struct fault *f);

enum {
	TIMEOUT_S_MAX = 86400, /* reference v1: no sandbox lives longer */
	/* An environment as JSON. The agent takes 64 KiB, the template's own among them. */
	ENV_MAX = 60 * 1024,
};

/* Shared by handlers: a list's ?limit= and ?cursor=, and what a store reader's errno means. */
enum { LIST_LIMIT_MAX = 1000, LIST_LIMIT_DEFAULT = 100 };
int list_window(struct request *r, unsigned *ret_limit, const char **ret_cursor, struct fault *f);
/* Further: ?NAME= as a time, untouched without it; and whose rows ?owner= asks for, NULL for everybody's, which
 * is an admin's right. */
int query_time(struct request *r, const char *name, int64_t *ret_ms, struct fault *f);
int query_owner(struct request *r, const char **ret, struct fault *f);
int store_fault(struct fault *f, int err, const char *noun);
/* The same for what may have gone with time: says how long history is kept. */
int history_fault(struct request *r, struct fault *f, int err, const char *noun);

#endif
