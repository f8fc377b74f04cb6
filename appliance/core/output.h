/* The stored outputs of one execution: rows 1..n with head and tail, spool files
 * with the full bytes. Consecutive text of one stream is one output.
 *
 * Everything is written into the caller's transaction. Text is clipped to
 * OUTPUT_HEAD_MAX + OUTPUT_TAIL_MAX bytes in its row; past that the whole is in
 * the spool, up to SPOOL_MAX.
 */
#ifndef CARREL_OUTPUT_H
#define CARREL_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "../store/clip.h"
#include "../store/store.h"
#include "events.h"

enum {
	/* Rows of one execution; past them live clients still get every event, the rows stop. */
	OUTPUTS_MAX = 10 * 1000,
	/* Displays of one execution that update_display_data can still reach. */
	OUTPUT_DISPLAYS_MAX = 64,
	/* Where an updated display's name is kept. */
	OUTPUT_DISPLAY_ID_MAX = 64,
};

struct outputs {
	char execution_id[STORE_ID_MAX];
	unsigned n;         /* rows so far */
	uint64_t folded;    /* outputs past OUTPUTS_MAX */
	const char *stream; /* the text output that may still grow, or NULL */
	struct clip clip;
	uint64_t spooled;
	bool dirty;
	struct {
		char id[OUTPUT_DISPLAY_ID_MAX];
		unsigned n;
	} displays[OUTPUT_DISPLAYS_MAX];
	unsigned displays_at;
};

void outputs_init(struct outputs *o, const char *execution_id);
/* Takes up where the rows of store_outputs() end. */
void outputs_restore(struct outputs *o, json_t *rows);
/* stream: "stdout" or "stderr", a static string. -ENOMEM: nothing was taken. */
int outputs_text(struct outputs *o, struct store_txn *t, struct events *e, const char *stream,
		 const char *text, size_t len);
/* kind: "result" or "display". display_id "" when it has none. Returns the output's number, 0 when folded. */
unsigned outputs_bundle(struct outputs *o, struct store_txn *t, struct events *e, const char *kind,
			json_t *data, const char *display_id, bool update);
void outputs_error(struct outputs *o, struct store_txn *t, struct events *e, const char *name,
		   const char *value, size_t value_len, json_t *traceback);
/* Writes the row of the text output that changed since the last flush. */
void outputs_flush(struct outputs *o, struct store_txn *t);
/* No more will come: flushes, and tells by `truncated` events what rows do not hold. */
void outputs_close(struct outputs *o, struct store_txn *t, struct events *e);
void outputs_free(struct outputs *o);

/* The type of a bundle that stands for it: pictures before markup before text. NULL: empty. */
const char *bundle_main_mime(json_t *data);

#endif
