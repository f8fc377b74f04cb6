/* The core behind every front door: sandboxes, kernels, executions, files,
 * processes. Called by FastCGI worker threads; every call is thread-safe and
 * blocks only as its comment says. Inside, one event-loop thread (the hub)
 * owns all mutable state; calls are posted to it.
 *
 * Owners: every call takes the owner of the key; another owner's thing is
 * -ENOENT with the fault "not_found", as one that never existed.
 * Results are new JSON references in the form of the REST face.
 */
#ifndef CARREL_CORE_H
#define CARREL_CORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "../fault.h"
#include "../settings.h"
#include "../store/store.h"
#include "../store/xlog.h"
#include "bytepipe.h"
#include "figures.h"
#include "limits.h"

struct core;

/* Starts the hub, reconciles with what runs, and prepares the warm snapshot of
 * the default template (progress lines on stderr). Returns when /healthz may
 * answer; sandboxes can be created once core_ready(). */
int core_start(const struct settings *s, struct store *store, struct core **ret, struct fault *f);
/* Leaves sandboxes running (they are found again) unless end_sandboxes. */
void core_stop(struct core *c, bool end_sandboxes);
/* True when the default template can be cloned; else a sentence about what is under way. */
bool core_ready(struct core *c, char *ret_why, size_t size);

struct sandbox_spec {
	char template_name[64];
	char engine[16];
	unsigned timeout_s;
	struct limits limits; /* 0: as the template's recipe says */
	json_t *env;      /* borrowed, object of strings */
	json_t *metadata; /* borrowed */
	const char *snapshot;  /* a named one in place of template and limits, or NULL */
	bool pause_on_timeout; /* in place of its end */
	bool auto_resume;      /* any request that needs it running resumes it */
};

/* Blocks until the sandbox runs or failed. */
int core_sandbox_create(struct core *c, const char *owner, const struct sandbox_spec *spec, json_t **ret,
			struct fault *f);
int core_sandbox_timeout(struct core *c, const char *owner, const char *id, unsigned timeout_s, json_t **ret,
			 struct fault *f);
/* Each blocks until it is done, and waits for what else is done to the sandbox; pausing a paused one and
 * resuming a running one succeed. timeout_s 0: what was last asked for. */
int core_sandbox_pause(struct core *c, const char *owner, const char *id, json_t **ret, struct fault *f);
int core_sandbox_resume(struct core *c, const char *owner, const char *id, unsigned timeout_s, json_t **ret,
			struct fault *f);
/* {"sandboxes":[sandbox or {"error":{code,message}}]} */
int core_sandbox_fork(struct core *c, const char *owner, const char *id, unsigned count, unsigned timeout_s,
		      json_t **ret, struct fault *f);
/* Saves it under a name (or NULL), to make others from. They are listed by store_snapshot_list(). */
int core_snapshot_create(struct core *c, const char *owner, const char *sandbox_id, const char *name, json_t **ret,
			 struct fault *f);
int core_snapshot_delete(struct core *c, const char *owner, const char *id, struct fault *f);
/* Blocks until it is gone; 0 for an ended one too. */
int core_sandbox_delete(struct core *c, const char *owner, const char *id, struct fault *f);

struct execute_spec {
	const char *code;
	const char *language;  /* NULL: the template's first */
	const char *kernel_id; /* NULL: the language's default kernel */
	unsigned timeout_s;    /* 0: the sandbox's deadline */
	json_t *env;           /* borrowed or NULL */
	json_t *asked;         /* borrowed; what a Jupyter client asked for (execution.h), or NULL */
};

/* Returns once the row is committed: *ret_id is the execution's id, *ret_log a
 * reference to its event log (read it by xlog_reader_new). The client's
 * hang-up does not end the execution. */
int core_execute(struct core *c, const char *owner, const char *sandbox_id, const struct execute_spec *spec,
		 char ret_id[STORE_ID_MAX], struct xlog **ret_log, struct fault *f);
int core_execution_interrupt(struct core *c, const char *owner, const char *id, struct fault *f);

/* Kernels. Each sandbox has a default one per language, started at the first
 * execution that needs it; the template's first language has its own from the start. */
enum {
	KERNEL_NAME_MAX = 64, /* of a language or kernel, with its NUL */
	KERNEL_CWD_MAX = 4095,
};

struct kernel_spec {
	const char *language, *name; /* at most one; both NULL: the template's first language */
	const char *cwd;             /* NULL: /home/user */
};

int core_kernel_list(struct core *c, const char *owner, const char *sandbox_id, unsigned limit,
		     const char *cursor, json_t **ret, struct fault *f);
/* Blocks until its process exists. */
int core_kernel_create(struct core *c, const char *owner, const char *sandbox_id,
		       const struct kernel_spec *spec, json_t **ret, struct fault *f);
/* Its cells, queued ones too, end with a reason. Blocks until the new process exists. */
int core_kernel_restart(struct core *c, const char *owner, const char *id, json_t **ret, struct fault *f);
/* Only what runs; 0 also when nothing does. */
int core_kernel_interrupt(struct core *c, const char *owner, const char *id, struct fault *f);
/* Its cells end with a reason. Blocks until it is gone. */
int core_kernel_delete(struct core *c, const char *owner, const char *id, struct fault *f);

/* The Jupyter face: the owner's kernels wherever they run, as Jupyter Server shows them and with their sandbox_id;
 * id NULL: all, in an array. */
int core_jupyter_kernels(struct core *c, const char *owner, const char *id, json_t **ret, struct fault *f);
/* With its sandbox, where that was made for it. */
int core_jupyter_kernel_delete(struct core *c, const char *owner, const char *id, struct fault *f);

/* Files. Paths as the client sent them (decoded, without NUL).
 * put: begin opens the transfer; the worker then writes the body into *ret_in
 * and ends it with bytepipe_worker_close(); finish blocks for the answer and
 * frees the handle (also after a failure of the body); until then the texts
 * given to begin() must live. */
struct file_put;
int core_file_put_begin(struct core *c, const char *owner, const char *sandbox_id, const char *path,
			struct file_put **ret, struct bytepipe **ret_in, struct fault *f);
int core_file_put_finish(struct file_put *h, json_t **ret, bool *ret_created, struct fault *f);
/* Blocks for the head; *out then delivers the bytes. */
int core_file_get(struct core *c, const char *owner, const char *sandbox_id, const char *path,
		  struct bytepipe **out, int64_t *ret_size, struct fault *f);
int core_file_delete(struct core *c, const char *owner, const char *sandbox_id, const char *path, bool recursive,
		     struct fault *f);
int core_file_list(struct core *c, const char *owner, const char *sandbox_id, const char *path, unsigned limit,
		   const char *cursor, json_t **ret, struct fault *f);

struct process_spec {
	json_t *argv;      /* array of strings, or NULL and .cmd */
	const char *cmd;
	const char *cwd;   /* NULL: /home/user */
	json_t *env;
	const char *stdin_text; size_t stdin_len; /* NULL: no input */
	unsigned timeout_s; /* 0: the sandbox's deadline */
};

/* *out delivers the NDJSON of the REST face, `end` last. Closing it early
 * (bytepipe_worker_close) kills the process and its group. */
int core_process_run(struct core *c, const char *owner, const char *sandbox_id, const struct process_spec *spec,
		     struct bytepipe **out, struct fault *f);

/* {"templates":[{name, description, base, image, built_at, languages, limits}],"next"}, by name, those behind
 * `after`, which may be NULL; reads a few small files. */
int core_templates(struct core *c, const char *after, unsigned limit, json_t **ret);
/* One of them, with "warm": whether it can be cloned now, and a "message" while it cannot. What is missing
 * for that is begun. */
int core_template(struct core *c, const char *name, json_t **ret, struct fault *f);
/* {"sandboxes":{state:n},"executions":…,"capacity":…,"pool":…} for /v1/stats. */
int core_stats(struct core *c, json_t **ret);
/* The same and the counters, for /metrics. */
void core_figures(struct core *c, struct core_figures *ret);

#endif
