/* The audit: append-only rows that say who did what to which sandbox, when, and how it ended.
 *
 * A row is written in the transaction of what it tells of (store_txn_audit()), so
 * neither is there without the other. Triggers refuse to change a row, and to
 * delete one outside the sweep of what is too old.
 *
 * Who asks is known to the thread that serves the request; the hub takes it over
 * for the time of a call (hub_call()), and what happens later is told by *_by().
 */
#ifndef CARREL_STORE_AUDIT_H
#define CARREL_STORE_AUDIT_H

#include "store.h"

enum { AUDIT_PAGE_MAX = 1000 };

/* The key whose request this thread serves, until it is set anew; NULL or "": Carrel's own doing. */
void audit_asker_set(const char *key_id);
const char *audit_asker(void);

/* by: a key's id; NULL or "": none. result: "ok", or the code of the fault. Others as of store_txn_audit(). */
void store_txn_audit_by(struct store_txn *t, const char *by, const char *owner_id, const char *sandbox_id,
			const char *action, const char *result, json_t *detail);

/* That a key opened a door. One row a key, address and hour, so that polling costs nothing; address may be
 * NULL. Any thread; waits for nothing. */
void store_key_used(struct store *s, const char *key_id, const char *owner_id, const char *address);
/* A decision against a request. Of one owner (NULL: nobody's key) at most a few a second are rows of their own; the
 * next one says how many were left out. Takes detail. Any thread; waits for nothing. */
void store_refused(struct store *s, const char *key_id, const char *owner_id, const char *sandbox_id,
		   const char *code, json_t *detail);

struct audit_query {
	const char *owner_id;   /* NULL: everybody's */
	const char *sandbox_id; /* NULL: any */
	int64_t since_ms, until_ms; /* from, and up to but not at; 0: no bound */
	int64_t after;          /* rows numbered above this */
	unsigned limit;
};

/* JSON lines, oldest first, at most limit; *ret is the caller's to free. */
int store_audit_lines(struct store *s, const struct audit_query *query, char **ret, size_t *ret_len);

#endif
