/* FUZZ: appliance/fault.c appliance/front/decode.c appliance/front/target.c appliance/front/json_in.c appliance/front/fields.c LIBS: -ljansson */
/* A request's target and JSON body. The first line is the target, the rest the body. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "appliance/front/decode.h"
#include "appliance/front/fields.h"
#include "appliance/front/json_in.h"
#include "appliance/front/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct body {
	const char *name;
	struct field_text code;
	unsigned count, inner;
	double share;
	json_t *env, *words, *object;
};

#define AT(member) offsetof(struct body, member)
static const char *const names[] = { "auto", "tcg", NULL };
static const struct field inner[] = {
	{ "inner", FIELD_WHOLE, AT(inner), 1, 4096, .required = true },
	{ .type = FIELD_END },
};
static const struct field fields[] = {
	{ "name", FIELD_STRING, AT(name), 1, 15, .choices = names },
	{ "code", FIELD_TEXT, AT(code), 0, 1024, .required = true },
	{ "count", FIELD_WHOLE, AT(count), 1, 86400 },
	{ "share", FIELD_NUMBER, AT(share), 0.1, 4 },
	{ "env", FIELD_ENV, AT(env), 0, 256 },
	{ "words", FIELD_STRINGS, AT(words), 1, 8 },
	{ "object", FIELD_OBJECT, AT(object), 0, 256 },
	{ "limits", FIELD_TABLE, .table = inner },
	{ .type = FIELD_END },
};

/* What got through must keep the promises of the headers. */
static void must(bool kept)
{
	if (!kept)
		abort();
}

static void fuzz_target(const char *uri)
{
	struct target t;
	struct fault f;
	const char *value;
	uint64_t n;

	if (target_parse(uri, &t, &f)) {
		must(f.status == 400 || f.status == 404 || f.status == 414);
		return;
	}
	must(t.segment_count <= TARGET_SEGMENTS_MAX && t.query_count <= TARGET_QUERY_MAX);
	for (unsigned i = 0; i < t.segment_count; i++)
		must(utf8_ok(t.segments[i], strlen(t.segments[i])));
	for (unsigned i = 0; i < t.query_count; i++) {
		must(utf8_ok(t.query[i].name, strlen(t.query[i].name)));
		must(utf8_ok(t.query[i].value, strlen(t.query[i].value)));
	}
	if (!target_query(&t, "path", &value, &f) && value)
		must(strlen(value) <= strlen(uri));
	if (!target_query_number(&t, "limit", 1, 1000, 100, &n, &f))
		must(n >= 1 && n <= 1000);
	target_free(&t);
}

static void fuzz_body(const char *text, size_t len)
{
	struct body b = { .count = 1 };
	struct fault f;
	json_t *body;

	if (json_in_parse(text, len, &body, &f)) {
		must(f.status == 400 && *f.code && *f.message);
		utf8_scrub(f.message);
		must(utf8_ok(f.message, strlen(f.message)));
		return;
	}
	if (fields_read(fields, body, &b, &f))
		must(f.status == 400 && *f.code && *f.message);
	else
		must(b.code.text && b.count >= 1 && b.count <= 86400 && b.inner <= 4096);
	json_decref(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *line = size ? memchr(data, '\n', size) : NULL;
	size_t uri_len = line ? (size_t)(line - data) : size;
	char *uri = malloc(uri_len + 1);

	memcpy(uri, data, uri_len);
	uri[uri_len] = '\0';
	fuzz_target(uri);
	free(uri);
	if (line)
		fuzz_body((const char *)line + 1, size - uri_len - 1);
	return 0;
}
