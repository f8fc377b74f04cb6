/* FUZZ: kernels/core LIBS: -lzmq -ljansson -lcrypto */
/* A message as a client may send it. The input is cut into frames at each byte
 * 0xff; the first bit says whether there is a key. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/request.h"
#include "core/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add_frame(struct frames *f, const uint8_t *data, size_t n)
{
	if (f->n == WIRE_FRAMES_MAX || zmq_msg_init_size(&f->msg[f->n], n))
		return;
	memcpy(zmq_msg_data(&f->msg[f->n]), data, n);
	f->n++;
}

static void check_text(const uint8_t *data, size_t size)
{
	struct utf8_stream u = { .n = 0 };
	BUF_AUTO whole = { 0 };
	BUF_AUTO cut = { 0 };
	BUF_AUTO json = { 0 };
	json_t *value;
	size_t i;

	utf8_feed(&u, (const char *)data, size, &whole);
	utf8_end(&u, &whole);
	for (i = 0; i < size; i++)
		utf8_feed(&u, (const char *)data + i, 1, &cut);
	utf8_end(&u, &cut);
	if (whole.len != cut.len || (whole.len && memcmp(whole.data, cut.data, whole.len)))
		abort();
	buf_puts(&json, "[\"");
	buf_json_escape(&json, whole.data, whole.len);
	buf_puts(&json, "\"]");
	value = json_loadb(json.data, json.len, JSON_ALLOW_NUL, NULL);
	if (!value || json_string_length(json_array_get(value, 0)) != whole.len)
		abort();
	json_decref(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char key[] = "key";
	struct wire_signer signer;
	struct frames *f = calloc(1, sizeof(*f));
	struct request *r;
	size_t i, start = 1;

	if (!f || size == 0 || wire_signer_init(&signer, key, data[0] & 1 ? 3 : 0)) {
		free(f);
		return 0;
	}
	for (i = 1; i <= size; i++) {
		if (i == size || data[i] == 0xff) {
			add_frame(f, data + start, i - start);
			start = i + 1;
		}
	}
	if (!request_parse(&signer, CHANNEL_SHELL, f, &r)) {
		if (!r->type || !r->parent || !json_is_object(r->content))
			abort();
		request_bool(r, "silent", false);
		request_free(r);
	}
	wire_signer_free(&signer);
	free(f);
	check_text(data + 1, size - 1);
	return 0;
}
