/* The store: SQLite in WAL mode, synchronous=FULL, one writer thread with
 * group commit, readers on connections of their own.
 *
 * What was acknowledged survives a power cut: a transaction's callback comes
 * after fdatasync of the logs and spools it touched and after COMMIT, in that
 * order. All disk writes of the appliance's data go through the writer thread,
 * so the hub never waits for a disk.
 *
 * Layout in $STATE: carrel.db; spool/XID/events (the event lines of an execution
 * that said more than fits its row,
 * see xlog.h), spool/XID/N (full bytes of output N, up to SPOOL_MAX).
 * Schema version is in user_version; an older one is migrated forward at open,
 * a newer one is refused with a sentence.
 *
 * Tables (names bind, reference: sandboxes, executions, outputs carry the REST
 * fields): owners, keys, sandboxes, snapshots, kernels, processes, executions, outputs, audit.
 */
#ifndef CARREL_STORE_H
#define CARREL_STORE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../fault.h"

enum {
	STORE_ID_MAX = 40,
	/* "e2b_" and 64 hex digits. */
	STORE_KEY_MAX = 72,
	/* Bytes kept of a text output in its row, at either end: a few thousand characters suit a model. */
	OUTPUT_HEAD_MAX = 4096,
	OUTPUT_TAIL_MAX = 4096,
	/* A mime bundle kept in its row; larger ones are spooled only. */
	OUTPUT_DATA_MAX = 1024 * 1024,
	/* Full bytes kept of one output. */
	SPOOL_MAX = 64 * 1024 * 1024,
	/* Bytes queued for the writer thread before store_busy() turns true. */
	STORE_QUEUE_MAX = 16 * 1024 * 1024,
	/* Bytes of outputs in one answer: many displays of OUTPUT_DATA_MAX would not fit a client's memory. */
	EXECUTION_JSON_MAX = 16 * 1024 * 1024,
	/* Entries of a list, reference v1. */
	STORE_LIST_MAX = 1000,
};

struct store;
struct store_txn;
struct xlog;

struct sandbox_row {
	char id[STORE_ID_MAX];
	char owner_id[STORE_ID_MAX];
	const char *state;      /* creating, running, paused, ending, ended */
	const char *engine;
	const char *template_name;
	const char *image;      /* recipe hash */
	const char *started;    /* pool, clone, boot, fork, snapshot; NULL before it runs */
	const char *end_reason; /* NULL until ended */
	const char *message;    /* a sentence beside end_reason, or NULL */
	int64_t created_ms, deadline_ms, ended_ms; /* Unix milliseconds; 0: none */
	json_t *limits, *metadata, *env;           /* borrowed */
	int64_t timeout_ms;     /* last asked for */
	const char *on_timeout; /* kill, pause */
	bool auto_resume;       /* a request resumes it */
	int64_t paused_ms;      /* since when it is paused; 0: it is not */
	const char *base;       /* the warm snapshot its memory lies on, base.h; NULL: none */
};

/* A sandbox that was saved under a name, to make others from. */
struct snapshot_row {
	char id[STORE_ID_MAX];
	char owner_id[STORE_ID_MAX];
	char sandbox_id[STORE_ID_MAX];
	const char *name; /* or NULL */
	const char *engine, *template_name, *image;
	json_t *limits, *env; /* borrowed */
	uint64_t bytes;       /* on disk */
	int64_t created_ms;
};

struct kernel_row {
	char id[STORE_ID_MAX];
	char sandbox_id[STORE_ID_MAX];
	const char *name, *language, *state;
	int64_t execution_count;
	/* Link positions: highest frame from the agent that is safe here, highest frame numbered by us. */
	uint64_t received, sent;
	bool restarted; /* the next execution is the first of a fresh process */
	const char *agent_id; /* its name inside the sandbox; NULL: it follows from the row */
};

struct execution_row {
	char id[STORE_ID_MAX];
	char sandbox_id[STORE_ID_MAX];
	char kernel_id[STORE_ID_MAX];
	const char *status; /* queued running ok error interrupted timeout cancelled died */
	const char *code;   /* NULL in an update: unchanged */
	const char *reason, *signal; /* NULL: none */
	int exit_code;      /* -1: none */
	int64_t execution_count;
	int64_t queued_ms, started_ms, ended_ms;
	int64_t timeout_ms; /* 0: none */
	int64_t paused_ms;  /* how long it was paused in all since it started */
	bool kernel_restarted; /* it was the first of a fresh process */
	uint64_t last_seq;  /* events written */
	uint64_t log_bytes; /* length of the event log that goes with this row */
	json_t *env;        /* borrowed, the cell's own; NULL: none, in an update: unchanged */
	json_t *asked;      /* borrowed, of a Jupyter client: its header and the like; NULL as for env */
	uint64_t sent_seq;  /* its code's frame to the kernel; 0: not sent */
};

struct output_row {
	char execution_id[STORE_ID_MAX];
	unsigned n;
	const char *kind;          /* stdout stderr result display error */
	const char *head; size_t head_len;
	const char *tail; size_t tail_len; /* after the cut; 0 when nothing was cut */
	uint64_t bytes;            /* in all */
	uint64_t spooled;          /* in spool/XID/N; 0: head is everything */
	bool truncated;            /* head+tail is not everything */
	const char *mime;          /* main mime type of a bundle, or NULL */
	json_t *data;              /* mime bundle, borrowed, or NULL */
};

int store_open(const char *state_dir, struct store **ret, struct fault *f);
/* Waits until everything submitted is committed. Accepts NULL. */
void store_close(struct store *s);
/* Called on the writer thread after each group with rows, until it is set anew (NULL: nobody). */
void store_on_commit(struct store *s, void (*fn)(void *arg), void *arg);
/* True while the writer is behind: stop reading sources until the next callback. */
bool store_busy(struct store *s);

/* A transaction: rows are copied in, and written in the order of the calls (what
 * refers to a row comes after it: sandbox, kernel, execution, output); the calls cannot fail (out of memory
 * shows in the callback). The callback comes on the writer thread: err 0, or a negative
 * errno with a sentence (disk full, damaged): nothing of it was stored then. */
struct store_txn *store_txn_new(struct store *s);
/* Nobody is told of it before something that comes later is committed: it need not be on the disk itself when its
 * callback comes, only where a crash of this process leaves it. */
void store_txn_soft(struct store_txn *t);
/* Transactions of a lane (any address) are committed in their order, and so are those without one with all others.
 * bulk: those of other lanes need not wait for it, as it is long and nobody waits for it. */
void store_txn_lane(struct store_txn *t, const void *lane, bool bulk);
void store_txn_sandbox(struct store_txn *t, const struct sandbox_row *row);     /* insert or replace */
void store_txn_kernel(struct store_txn *t, const struct kernel_row *row);
void store_txn_kernel_gone(struct store_txn *t, const char *kernel_id);
void store_txn_kernels_gone(struct store_txn *t, const char *sandbox_id);
void store_txn_process(struct store_txn *t, const char *sandbox_id, const char *process_id);
void store_txn_process_gone(struct store_txn *t, const char *process_id);
void store_txn_execution(struct store_txn *t, const struct execution_row *row);
void store_txn_snapshot(struct store_txn *t, const struct snapshot_row *row);
void store_txn_snapshot_gone(struct store_txn *t, const char *snapshot_id);
void store_txn_output(struct store_txn *t, const struct output_row *row);
/* By whoever asks on this thread (audit.h), with the result "ok". owner_id, sandbox_id and detail may be NULL. */
void store_txn_audit(struct store_txn *t, const char *owner_id, const char *sandbox_id, const char *action,
		     json_t *detail);
/* Append to an execution's event log (whole lines); readers are woken as soon as it is written. */
void store_txn_log(struct store_txn *t, struct xlog *log, const char *lines, size_t len, uint64_t last_seq,
		   bool end);
/* Write full bytes of output n at offset (bytes past SPOOL_MAX are not sent here by the caller). */
void store_txn_spool(struct store_txn *t, const char *execution_id, unsigned n, uint64_t offset,
		     const void *bytes, size_t len);
void store_txn_submit(struct store_txn *t, void (*done)(int err, const char *message, void *arg), void *arg);
void store_txn_drop(struct store_txn *t);
/* Submits and blocks until it is committed; not from a callback. 0, or the fault of what failed. */
int store_txn_wait(struct store_txn *t, struct fault *f);

/* --- readers: any thread, blocking; JSON as the REST face shows it --- */

/* 0 and a new reference, or -ENOENT; -EIO and the like when the store cannot be
 * read. owner_id NULL: any owner (the hub's own recovery). An execution comes
 * with its outputs; data past EXECUTION_JSON_MAX is left out of them, and a list
 * ends a page early rather than pass it. Lists: newest first; a cursor that no
 * page gave is -EINVAL. */
int store_sandbox_get(struct store *s, const char *owner_id, const char *id, json_t **ret);
/* state NULL: running, creating, paused; several: "running,paused"; cursor NULL or "": from the newest on. {"sandboxes":[…],"next":…} */
int store_sandbox_list(struct store *s, const char *owner_id, const char *state, const char *template_name,
		       unsigned limit, const char *cursor, json_t **ret);
/* With env and limits. */
int store_snapshot_get(struct store *s, const char *owner_id, const char *id, json_t **ret);
int store_snapshot_list(struct store *s, const char *owner_id, unsigned limit, const char *cursor, json_t **ret);
/* 0, or a negative errno: how many that owner has. */
int store_snapshot_count(struct store *s, const char *owner_id, unsigned *ret);
int store_execution_get(struct store *s, const char *owner_id, const char *id, json_t **ret);
int store_execution_list(struct store *s, const char *owner_id, const char *sandbox_id, unsigned limit,
			 const char *cursor, json_t **ret);

struct output_full {
	int fd;            /* spool file, or -1: bytes are in .text */
	char *text;        /* owned; head of an output that was never spooled, or decoded data (may hold NULs) */
	uint64_t have, total; /* have < total: the rest was not kept */
	char content_type[128];
};
/* Also what an event has named and is still on its way to the disk: waits for that. */
int store_output_open(struct store *s, const char *owner_id, const char *execution_id, unsigned n,
		      struct output_full *ret);
void output_full_close(struct output_full *o);

/* What rows should say and could not be made to yet, because the disk is full: fields (text and numbers by
 * column name, taken over) is shown in place of the row's until it is taken back (NULL). Lists and counts
 * follow. Any thread; gone with the process. 0 or -ENOMEM. */
int store_known_set(struct store *s, const char *id, json_t *fields);

/* The event log of an execution, to read it from the start or from anywhere:
 * the one that is open now, else the stored one, opened at the log_bytes and
 * last_seq of its row. 0 with a reference, or -ENOENT; -EAGAIN: it runs, but the
 * hub has not found it again yet. */
int store_log_open(struct store *s, const char *owner_id, const char *execution_id, struct xlog **ret);

/* Code, outputs, events and spool of an execution that is over are gone at its return; its
 * row keeps id, times and status. 404 where there is none of that owner, 409 while it runs.
 * Repeating it is fine. */
int store_execution_erase(struct store *s, const char *owner_id, const char *id, struct fault *f);

/* Recovery after a restart: rows that were not final. Arrays of row JSON with
 * every column (also received, sent, restarted, timeout_ms, log_bytes, last_seq, env). */
int store_open_sandboxes(struct store *s, json_t **ret);
int store_open_kernels(struct store *s, const char *sandbox_id, json_t **ret);
int store_open_processes(struct store *s, const char *sandbox_id, json_t **ret);
int store_open_executions(struct store *s, const char *sandbox_id, json_t **ret);
/* The last execution of that sandbox that a client asked for by that msg_id. 0, -ENOENT, or another errno. */
int store_execution_asked(struct store *s, const char *sandbox_id, const char *msg_id, char ret_id[STORE_ID_MAX]);
int store_outputs(struct store *s, const char *execution_id, json_t **ret);

/* --- owners and keys --- */

/* First start: makes the owner "admin" with an admin key, writes $STATE/token
 * (mode 0600, temp -> fsync -> rename) when the file or its row is missing. */
int store_first_owner(struct store *s, const char *state_dir, struct fault *f);
/* The key's owner and id. 0, or -EACCES. Compares SHA-256 hashes; a revoked or expired key is no key. */
int store_key_check(struct store *s, const char *key, char ret_owner[STORE_ID_MAX], char ret_id[STORE_ID_MAX],
		    bool *ret_admin);
/* A key as it is shown once; name and expiry for its row (expires_ms 0: never). The
 * owner must exist. by: who asked, for the audit. */
int store_key_new(struct store *s, const char *by, const char *owner_id, const char *name, bool admin, int64_t expires_ms,
		  char ret_id[STORE_ID_MAX], char ret_key[STORE_KEY_MAX], struct fault *f);
/* The key opens nothing from its return on; one that was revoked before is fine. */
int store_key_revoke(struct store *s, const char *by, const char *id, struct fault *f);
/* {"keys":[{id, owner_id, name, admin, created_at, expires_at?, revoked_at?}],"next"}; the owner must exist. */
int store_key_list(struct store *s, const char *owner_id, unsigned limit, const char *cursor, json_t **ret);
/* What an owner may have and how long its history is kept; < 0: as for everybody. */
struct owner_quota {
	int sandboxes, history_days, history_mb;
};
int store_owner_new(struct store *s, const char *by, const char *name, const struct owner_quota *quota,
		    char ret_id[STORE_ID_MAX], struct fault *f);
/* Takes the place of the quota it had. 404 for an unknown owner. */
int store_owner_change(struct store *s, const char *by, const char *id, const struct owner_quota *quota,
		       struct fault *f);
/* {id, name, created_at, quota?: {sandboxes?, history_days?, history_mb?}, first: true for the one made by store_first_owner()} */
int store_owner_get(struct store *s, const char *id, json_t **ret);
int store_owner_list(struct store *s, unsigned limit, const char *cursor, json_t **ret);
/* Sandboxes the owner may have; fallback where its row names no number. */
int store_owner_quota(struct store *s, const char *id, unsigned fallback, unsigned *ret);
/* Days and MiB that its history is kept; the fallbacks where its row names none. */
int store_owner_history(struct store *s, const char *id, unsigned *days, unsigned *mb);
/* Sandboxes of the owner that have not ended and are not paused: what the quota counts. */
unsigned store_running_count(struct store *s, const char *owner_id);

/* --- figures, since the start of this process --- */

enum { STORE_COMMIT_BUCKETS = 10 };
#define STORE_COMMIT_BOUNDS_MS { 1, 2, 5, 10, 25, 50, 100, 250, 1000, 5000 }

struct store_figures {
	uint64_t commits, commit_us;                /* groups written and the time they took together */
	uint64_t commit_le[STORE_COMMIT_BUCKETS];   /* groups that took at most so long */
	uint64_t transactions, failed, spooled_bytes;
	uint64_t queued_bytes; /* waiting now */
};
void store_figures(struct store *s, struct store_figures *ret);

#endif
