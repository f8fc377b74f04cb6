/* Building a transaction: values are copied, nothing is done yet. */
#include "inner.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_SIZE = 4096 };

struct chunk {
	struct chunk *next;
	size_t used, size;
	_Alignas(16) char bytes[];
};

static void *txn_alloc(struct store_txn *t, size_t len)
{
	struct chunk *chunk = t->chunks;
	size_t size;

	len = (len + 15) & ~(size_t)15;
	if (!chunk || chunk->size - chunk->used < len) {
		size = len > CHUNK_SIZE ? len : CHUNK_SIZE;
		chunk = malloc(sizeof(*chunk) + size);
		if (!chunk) {
			txn_fail(t, -ENOMEM, "Out of memory for what was to be stored.");
			return NULL;
		}
		*chunk = (struct chunk){ .next = t->chunks, .size = size };
		t->chunks = chunk;
		t->cost += sizeof(*chunk) + size;
	}
	chunk->used += len;
	return chunk->bytes + chunk->used - len;
}

static const char *txn_copy(struct store_txn *t, const void *bytes, size_t len)
{
	char *copy = txn_alloc(t, len + 1);

	if (!copy)
		return NULL;
	if (len > 0)
		memcpy(copy, bytes, len);
	copy[len] = '\0';
	return copy;
}

static struct step *txn_step(struct store_txn *t, enum step_kind kind)
{
	struct step *step = txn_alloc(t, sizeof(*step));

	if (!step)
		return NULL;
	*step = (struct step){ .kind = kind };
	*t->last = step;
	t->last = &step->next;
	return step;
}

struct store_txn *store_txn_new(struct store *s)
{
	struct store_txn *t = malloc(sizeof(*t));

	/* The calls on a transaction cannot fail, so neither can this: without these few bytes nothing goes
	 * on. */
	if (!t)
		abort();
	*t = (struct store_txn){ .store = s, .cost = sizeof(*t) };
	t->last = &t->first;
	return t;
}

void store_txn_soft(struct store_txn *t)
{
	t->soft = true;
}

void store_txn_lane(struct store_txn *t, const void *lane, bool bulk)
{
	t->lane = lane;
	t->bulk = bulk && lane;
}

void txn_fail(struct store_txn *t, int err, const char *fmt, ...)
{
	va_list ap;

	if (t->err)
		return;
	t->err = err;
	va_start(ap, fmt);
	vsnprintf(t->message, sizeof(t->message), fmt, ap);
	va_end(ap);
}

void txn_free(struct store_txn *t)
{
	struct chunk *next;

	if (!t)
		return;
	for (struct step *step = t->first; step; step = step->next)
		xlog_unref(step->log);
	for (struct chunk *chunk = t->chunks; chunk; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
	free(t);
}

void store_txn_drop(struct store_txn *t)
{
	txn_free(t);
}

struct step *txn_row(struct store_txn *t, const char *sql)
{
	struct step *step = txn_step(t, STEP_ROW);

	if (step) {
		step->sql = sql;
		t->has_rows = true;
	}
	return step;
}

static struct value *step_value(struct step *step)
{
	return step && step->value_count < STEP_VALUES_MAX ? &step->values[step->value_count++] : NULL;
}

void step_int(struct step *step, int64_t number)
{
	struct value *value = step_value(step);

	if (value)
		*value = (struct value){ .kind = VALUE_INT, .number = number };
}

void step_int_or_null(struct step *step, int64_t number, int64_t null)
{
	struct value *value = step_value(step);

	if (value)
		*value = (struct value){ .kind = number == null ? VALUE_NULL : VALUE_INT, .number = number };
}

static void step_bytes(struct store_txn *t, struct step *step, int kind, const void *bytes, size_t len)
{
	struct value *value = step_value(step);
	const char *copy = value ? txn_copy(t, bytes, len) : NULL;

	if (copy)
		*value = (struct value){ .kind = kind, .bytes = copy, .len = len };
}

void step_text_n(struct store_txn *t, struct step *step, const char *text, size_t len)
{
	step_bytes(t, step, VALUE_TEXT, text, len);
}

void step_text(struct store_txn *t, struct step *step, const char *text)
{
	if (text)
		step_text_n(t, step, text, strlen(text));
	else
		step_int_or_null(step, 0, 0);
}

void step_blob(struct store_txn *t, struct step *step, const void *bytes, size_t len)
{
	step_bytes(t, step, VALUE_BLOB, bytes, len);
}

void step_json(struct store_txn *t, struct step *step, json_t *json, const char *otherwise)
{
	char *text = json ? json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

	if (json && !text)
		txn_fail(t, -ENOMEM, "Out of memory for what was to be stored.");
	step_text(t, step, text ? text : otherwise);
	free(text);
}

void store_txn_log(struct store_txn *t, struct xlog *log, const char *lines, size_t len, uint64_t last_seq,
		   bool end)
{
	struct step *step = txn_step(t, STEP_LOG);
	const char *copy = step ? txn_copy(t, lines, len) : NULL;

	if (!copy)
		return;
	step->log = xlog_ref(log);
	step->bytes = copy;
	step->len = len;
	step->last_seq = last_seq;
	step->end = end;
}

void store_txn_spool(struct store_txn *t, const char *execution_id, unsigned n, uint64_t offset,
		     const void *bytes, size_t len)
{
	struct step *step = txn_step(t, STEP_SPOOL);
	const char *copy = step ? txn_copy(t, bytes, len) : NULL;

	if (!copy)
		return;
	snprintf(step->execution_id, sizeof(step->execution_id), "%s", execution_id);
	step->n = n;
	step->offset = offset;
	step->bytes = copy;
	step->len = len;
}

void txn_erase(struct store_txn *t, const char *execution_id)
{
	struct step *step = txn_step(t, STEP_ERASE);

	if (step)
		snprintf(step->execution_id, sizeof(step->execution_id), "%s", execution_id);
}
