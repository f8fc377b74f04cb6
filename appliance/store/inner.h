/* What the files of this folder share about the store and its transactions.
 *
 * A transaction is a list of steps whose values were copied into its own
 * memory when they were added: the writer thread touches nothing of the caller's.
 */
#ifndef CARREL_STORE_INNER_H
#define CARREL_STORE_INNER_H

#include <pthread.h>
#include <stdatomic.h>

#include "db.h"
#include "store.h"
#include "xlog.h"

enum {
	STEP_VALUES_MAX = 20,
	/* Past this the queue takes no more, so that a caller deaf to store_busy() cannot eat the memory. */
	STORE_QUEUE_HARD_MAX = 8 * STORE_QUEUE_MAX,
	/* Lanes with bulk in the queue that others pass; past it they wait. More than kernels that flood at once. */
	STORE_LANES_MAX = 64,
	/* Milliseconds for which somebody who stored a little counts as there: between the cells of a program that asks. */
	STORE_OTHERS_MS = 100,
	/* While others are there bulk has one part in so many of the writer's time. Beside two floods a neighbour's cell took
	 * 5 ms with 3, 2.5 with 5, 3.6 with 8, and 14 with 1; alone it took 2.2. */
	STORE_BULK_PART = 5,
	/* And no longer, whatever one group took on a disk that was busy with other things. */
	STORE_REST_MAX_MS = 50,
	/* Idle connections kept for readers: as many as worker threads usually read at once. */
	READERS_KEPT = 16,
	STORE_PATH_MAX = 512,
};

struct value {
	enum { VALUE_NULL, VALUE_INT, VALUE_TEXT, VALUE_BLOB } kind;
	int64_t number;
	const char *bytes;
	size_t len;
};

enum step_kind { STEP_ROW, STEP_LOG, STEP_SPOOL, STEP_ERASE };

struct step {
	struct step *next;
	enum step_kind kind;
	/* STEP_ROW: a static statement and its parameters in order. */
	const char *sql;
	unsigned value_count;
	struct value values[STEP_VALUES_MAX];
	/* STEP_LOG (a reference is held), STEP_SPOOL and STEP_ERASE. */
	struct xlog *log;
	char execution_id[STORE_ID_MAX];
	unsigned n;
	uint64_t offset, last_seq;
	const char *bytes;
	size_t len;
	bool end;
	/* While the writer works: the log as it was before this step, and its size after it. */
	bool appended;
	struct xlog_position before;
	uint64_t size_after;
};

struct chunk;
struct known;

struct store_txn {
	struct store_txn *next;
	struct store *store;
	struct chunk *chunks;
	struct step *first, **last;
	size_t cost; /* bytes held, for the queue's bound */
	bool has_rows, soft, bulk;
	const void *lane; /* NULL: behind all that was submitted before it */
	int err; /* what it failed with before or during its commit */
	char message[256];
	void (*done)(int err, const char *message, void *arg);
	void *arg;
};

/* When a group of this lane was last committed, and how long that took. */
struct lane_use {
	const void *lane;
	int64_t ended_us, took_us;
};

struct store {
	char dir[256];
	int lock_fd;
	struct db db; /* the writer thread's */
	pthread_t thread;
	pthread_mutex_t lock; /* queue, closing */
	pthread_cond_t wake;
	struct store_txn *queue, **queue_last;
	size_t queued; /* bytes submitted and not yet called back */
	bool closing, bulk_due;
	struct lane_use light, bulk; /* the last of each; the writer thread's */
	struct store_figures figures; /* under lock */
	atomic_bool sweep_stops; /* what is swept now is the last */
	void (*on_commit)(void *arg); /* under lock, also while it is called */
	void *on_commit_arg;

	pthread_mutex_t readers_lock;
	struct db *readers[READERS_KEPT];
	unsigned reader_count;

	pthread_mutex_t known_lock;
	struct known *known;
};

/* writer.c: a list of transactions, to the disk, answered and freed. */
void batch_run(struct store *s, struct store_txn *first);
int64_t monotonic_us(void);

/* queue.c */
int writer_start(struct store *s);
void writer_stop(struct store *s);

/* txn.c: the lowest level of every store_txn_*(). Out of memory is kept in t->err. */
struct step *txn_row(struct store_txn *t, const char *sql);
void step_int(struct step *step, int64_t number);
void step_int_or_null(struct step *step, int64_t number, int64_t null);
void step_text(struct store_txn *t, struct step *step, const char *text); /* NULL: NULL */
void step_text_n(struct store_txn *t, struct step *step, const char *text, size_t len);
void step_blob(struct store_txn *t, struct step *step, const void *bytes, size_t len);
void step_json(struct store_txn *t, struct step *step, json_t *json, const char *otherwise);
/* Takes the execution's directory out of the spool. */
void txn_erase(struct store_txn *t, const char *execution_id);
/* Releases logs and memory. */
void txn_free(struct store_txn *t);
void txn_fail(struct store_txn *t, int err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* reader.c: a connection for the time of one question. */
struct db *reader_take(struct store *s);
void reader_give(struct store *s, struct db *db);
void readers_close(struct store *s);

int64_t now_ms(void);
enum { HOUR_MS = 3600 * 1000, DAY_MS = 24 * HOUR_MS };

/* A row of the audit as everybody is told it. */
#define AUDIT_SELECT \
	"SELECT seq, at, action, result, owner_id, key_id, sandbox_id, detail AS \"detail:json\" FROM audit"

#endif
