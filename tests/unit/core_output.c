/* UNIT: appliance appliance/core appliance/store vmm/host kernels/link LIBS: -ljansson -lsqlite3 -lnghttp2 -luv -lcrypto */
/* Stored outputs: text of one stream folds into one row, long text is clipped and
 * spooled whole, bundles keep their data or their bytes. On a real store. */
#include "appliance/core/base64.h"
#include "appliance/core/output.h"
#include "store_setup.h"

static struct setup s;

static json_t *outputs_of(const char *id)
{
	json_t *row, *outputs;

	CHECK_INT(store_execution_get(s.store, s.owner, id, &row), 0);
	outputs = json_incref(json_object_get(row, "outputs"));
	json_decref(row);
	return outputs;
}

static json_t *nth(json_t *outputs, size_t i, const char *key)
{
	return json_object_get(json_array_get(outputs, i), key);
}

static void begin(struct outputs *o, const char *id)
{
	setup_execution(&s, id, "running", "1");
	outputs_init(o, id);
}

static void folding(void)
{
	struct store_txn *t = store_txn_new(s.store);
	struct events e = { 0 };
	struct outputs o;
	json_t *rows;

	begin(&o, "exe-fold");
	outputs_text(&o, t, &e, "stdout", "a", 1);
	outputs_flush(&o, t);
	outputs_text(&o, t, &e, "stdout", "b", 1);
	outputs_text(&o, t, &e, "stderr", "c", 1);
	outputs_text(&o, t, &e, "stdout", "d", 1);
	outputs_close(&o, t, &e);
	commit(t);
	rows = outputs_of("exe-fold");
	CHECK_INT(json_array_size(rows), 3);
	CHECK_STR(json_string_value(nth(rows, 0, "text")), "ab");
	CHECK_STR(json_string_value(nth(rows, 1, "kind")), "stderr");
	CHECK_STR(json_string_value(nth(rows, 2, "text")), "d");
	CHECK_INT(json_integer_value(nth(rows, 0, "n")), 1);
	CHECK_INT(e.seq, 0);
	json_decref(rows);
	outputs_free(&o);
}

/* The whole text is in the spool, the row has both ends, and an event says so. */
static void clipping(bool restart)
{
	const char *id = restart ? "exe-clip-again" : "exe-clip";
	struct store_txn *t = store_txn_new(s.store);
	struct events e = { 0 };
	struct output_full full;
	char piece[1000];
	struct outputs o;
	json_t *rows;
	unsigned i;

	begin(&o, id);
	memset(piece, 'x', sizeof(piece));
	memcpy(piece, "\xe4\xb8\xad", 3);
	for (i = 0; i < 100; i++) {
		outputs_text(&o, t, &e, "stdout", piece, sizeof(piece));
		if (i != 50 || !restart)
			continue;
		outputs_flush(&o, t);
		commit(t);
		outputs_free(&o);
		CHECK_INT(store_outputs(s.store, id, &rows), 0);
		outputs_init(&o, id);
		outputs_restore(&o, rows);
		json_decref(rows);
		t = store_txn_new(s.store);
	}
	outputs_close(&o, t, &e);
	commit(t);
	rows = outputs_of(id);
	CHECK_INT(json_array_size(rows), 1);
	CHECK_INT(json_integer_value(nth(rows, 0, "bytes")), 100000);
	CHECK(json_is_true(nth(rows, 0, "truncated")));
	CHECK(json_string_length(nth(rows, 0, "text")) < 2 * OUTPUT_HEAD_MAX + 200);
	json_decref(rows);
	CHECK_INT(e.seq, 1);
	CHECK(strstr(e.lines.bytes, "\"truncated\"") && strstr(e.lines.bytes, "100000"));
	CHECK_INT(store_output_open(s.store, s.owner, id, 1, &full), 0);
	CHECK_INT(full.total, 100000);
	CHECK_INT(full.have, 100000);
	CHECK(full.fd >= 0);
	for (i = 0; i < 100; i++) {
		char back[1000];

		CHECK_INT(pread(full.fd, back, sizeof(back), i * 1000), 1000);
		CHECK(memcmp(back, piece, sizeof(piece)) == 0);
	}
	output_full_close(&full);
	outputs_free(&o);
	events_free(&e);
}

static void bundles(void)
{
	struct store_txn *t = store_txn_new(s.store);
	size_t len = 3 * 1024 * 1024, big_len;
	char *bytes = malloc(len), *big;
	struct events e = { 0 };
	struct output_full full;
	struct outputs o;
	json_t *small = json_pack("{s:s,s:s}", "text/plain", "2", "text/html", "<b>2</b>"), *large, *rows;

	begin(&o, "exe-bundle");
	memset(bytes, 7, len);
	big = base64_encode(bytes, len);
	large = json_pack("{s:s,s:s}", "image/png", big, "text/plain", "<Figure>");
	CHECK_INT(outputs_bundle(&o, t, &e, "result", small, "", false), 1);
	CHECK_INT(outputs_bundle(&o, t, &e, "display", large, "fig", false), 2);
	/* An update finds its display again. */
	CHECK_INT(outputs_bundle(&o, t, &e, "display", small, "bar", false), 3);
	CHECK_INT(outputs_bundle(&o, t, &e, "display", large, "bar", true), 3);
	outputs_close(&o, t, &e);
	commit(t);
	rows = outputs_of("exe-bundle");
	CHECK_INT(json_array_size(rows), 3);
	CHECK_STR(json_string_value(json_object_get(nth(rows, 0, "data"), "text/html")), "<b>2</b>");
	CHECK_STR(json_string_value(nth(rows, 1, "mime")), "image/png");
	CHECK_STR(json_string_value(nth(rows, 1, "text")), "<Figure>");
	CHECK(json_is_true(nth(rows, 1, "truncated")));
	CHECK_INT(store_output_open(s.store, s.owner, "exe-bundle", 2, &full), 0);
	CHECK_INT(full.total, len);
	CHECK_STR(full.content_type, "image/png");
	output_full_close(&full);
	big_len = strlen(big);
	CHECK(big_len > len);
	json_decref(rows);
	json_decref(small);
	json_decref(large);
	free(big);
	free(bytes);
	outputs_free(&o);
}

static void bound(void)
{
	struct store_txn *t = store_txn_new(s.store);
	struct events e = { 0 };
	struct outputs o;
	json_t *rows, *data = json_pack("{s:s}", "text/plain", "x");
	unsigned i;

	begin(&o, "exe-many");
	for (i = 0; i < OUTPUTS_MAX + 5; i++)
		outputs_bundle(&o, t, &e, "display", data, "", false);
	CHECK_INT(outputs_bundle(&o, t, &e, "display", data, "", false), 0);
	CHECK_INT(outputs_text(&o, t, &e, "stdout", "late", 4), 0);
	outputs_close(&o, t, &e);
	commit(t);
	CHECK_INT(store_outputs(s.store, "exe-many", &rows), 0);
	CHECK_INT(json_array_size(rows), OUTPUTS_MAX);
	CHECK(strstr(e.lines.bytes, "\"stream\":\"outputs\""));
	json_decref(rows);
	json_decref(data);
	outputs_free(&o);
	events_free(&e);
}

static void base64(void)
{
	static const char bytes[] = "\x00\xff\x10 abc";
	size_t n, len;

	for (n = 0; n < sizeof(bytes); n++) {
		char *text = base64_encode(bytes, n), *back = base64_decode(text, strlen(text), &len);

		CHECK(back && len == n && memcmp(back, bytes, n) == 0);
		free(text);
		free(back);
	}
	CHECK(!base64_decode("abc", 3, &len));
	CHECK(!base64_decode("ab!=", 4, &len));
}

int main(void)
{
	setup_begin(&s);
	folding();
	clipping(false);
	clipping(true);
	bundles();
	bound();
	base64();
	setup_end(&s);
	return 0;
}
