/* UNIT: appliance appliance/front appliance/hatch appliance/local appliance/jupyter appliance/core appliance/store vmm/host kernels/link kernels/core/wire.c kernels/core/message.c kernels/core/connection.c kernels/core/sock.c LIBS: -lfcgi -ljansson -lzmq -lsqlite3 -lnghttp2 -luv -lcrypto */
/* Requests taken apart: percent escapes, UTF-8, targets, JSON, fields, routes. */
#include <errno.h>
#include <stdint.h>

#include "appliance/front/decode.h"
#include "appliance/front/fields.h"
#include "appliance/front/handlers.h"
#include "appliance/front/json_in.h"
#include "appliance/front/rfc3339.h"
#include "appliance/front/route.h"
#include "check.h"

static void test_utf8(void)
{
	static const struct {
		const char *text;
		bool ok;
	} rows[] = {
		{ "", true },
		{ "plain", true },
		{ "h\xc3\xa9", true },
		{ "\xe2\x82\xac", true },
		{ "\xf0\x9f\x98\x80", true },
		{ "\xf4\x8f\xbf\xbf", true },
		{ "\x80", false },
		{ "\xc3", false },
		{ "\xc0\xaf", false },
		{ "\xc1\xbf", false },
		{ "\xe0\x80\xaf", false },
		{ "\xed\xa0\x80", false },
		{ "\xed\xbf\xbf", false },
		{ "\xf0\x80\x80\xaf", false },
		{ "\xf4\x90\x80\x80", false },
		{ "\xf5\x80\x80\x80", false },
		{ "\xff", false },
		{ "\xe2\x82", false },
		{ "\xe2\x28\xa1", false },
	};
	char scrub[] = "a\xff\xe2\x82\xac\xe2\x82z";

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_INT(utf8_ok(rows[i].text, strlen(rows[i].text)), rows[i].ok);
	utf8_scrub(scrub);
	CHECK_STR(scrub, "a?\xe2\x82\xac??z");
}

static void test_percent(void)
{
	char out[64];
	size_t len;

	CHECK_INT(percent_decode("a%20b+c", 7, false, out, &len), 0);
	CHECK_STR(out, "a b+c");
	CHECK_INT(percent_decode("a%20b+c", 7, true, out, &len), 0);
	CHECK_STR(out, "a b c");
	CHECK_INT(percent_decode("%41", 3, true, out, &len), 0);
	CHECK_STR(out, "A");
	CHECK_INT(percent_decode("%e2%82%AC", 9, true, out, &len), 0);
	CHECK_STR(out, "\xe2\x82\xac");
	CHECK_INT(percent_decode("%", 1, true, out, &len), -EINVAL);
	CHECK_INT(percent_decode("%4", 2, true, out, &len), -EINVAL);
	CHECK_INT(percent_decode("%4g", 3, true, out, &len), -EINVAL);
	CHECK_INT(percent_decode("%00", 3, true, out, &len), -EINVAL);
	CHECK_INT(percent_decode("a\0b", 3, true, out, &len), -EINVAL);
	CHECK_INT(percent_decode("%ff", 3, true, out, &len), -EINVAL);
}

static void test_target(void)
{
	struct target t;
	struct fault f;
	const char *value = "untouched";
	uint64_t n = 7;

	CHECK_INT(target_parse("/v1/a%2Fb/files?path=a%26b%3D+c&&x&y=&x=1", &t, &f), 0);
	CHECK_INT(t.segment_count, 3);
	CHECK_STR(t.segments[1], "a/b");
	CHECK_INT(target_query(&t, "path", &value, &f), 0);
	CHECK_STR(value, "a&b= c");
	CHECK_INT(target_query(&t, "none", &value, &f), 0);
	CHECK(value == NULL);
	CHECK_INT(target_query(&t, "x", &value, &f), -EINVAL);
	CHECK_STR(f.field, "x");
	CHECK_INT(target_query(&t, "y", &value, &f), 0);
	CHECK_STR(value, "");
	target_free(&t);

	CHECK_INT(target_parse("/?n=12&m=1e3&o=-1&p=99999999999999999999&q=", &t, &f), 0);
	CHECK_INT(target_query_number(&t, "n", 1, 100, 5, &n, &f), 0);
	CHECK_INT(n, 12);
	CHECK_INT(target_query_number(&t, "none", 1, 100, 5, &n, &f), 0);
	CHECK_INT(n, 5);
	for (const char *const *bad = (const char *const[]){ "m", "o", "p", "q", NULL }; *bad; bad++) {
		CHECK_INT(target_query_number(&t, *bad, 1, 100, 5, &n, &f), -EINVAL);
		CHECK_STR(f.field, *bad);
		CHECK_INT(f.status, 400);
	}
	CHECK_INT(target_query_number(&t, "n", 13, 100, 5, &n, &f), -EINVAL);
	CHECK_STR(f.code, "out_of_range");
	CHECK_INT(n, 5);
	target_free(&t);
}

static void test_target_bounds(void)
{
	static char uri[TARGET_LEN_MAX + 16];
	struct target t;
	struct fault f;

	memset(uri, 'a', TARGET_LEN_MAX + 1);
	uri[0] = '/';
	CHECK_INT(target_parse(uri, &t, &f), -EINVAL);
	CHECK_INT(f.status, 414);
	uri[TARGET_LEN_MAX] = '\0';
	CHECK_INT(target_parse(uri, &t, &f), 0);
	target_free(&t);
	/* Every name without '=' takes one byte more than it came with. */
	snprintf(uri, sizeof(uri), "/?a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a&a");
	CHECK_INT(target_parse(uri, &t, &f), 0);
	CHECK_INT(t.query_count, TARGET_QUERY_MAX);
	target_free(&t);
	strcat(uri, "&a");
	CHECK_INT(target_parse(uri, &t, &f), -EINVAL);
	CHECK_STR(f.code, "bad_query");
	CHECK_INT(target_parse("/1/2/3/4/5/6/7/8/9", &t, &f), -ENOENT);
	CHECK_INT(target_parse("", &t, &f), -EINVAL);
	CHECK_INT(target_parse("v1", &t, &f), -EINVAL);
	CHECK_INT(target_parse("/%ff", &t, &f), -EINVAL);
	CHECK_INT(target_parse("/?a=%zz", &t, &f), -EINVAL);
}

static void json_refused(const char *text, size_t len, const char *code)
{
	struct fault f = { .code = "" };
	json_t *body = NULL;

	CHECK_INT(json_in_parse(text, len, &body, &f), -EINVAL);
	CHECK_STR(f.code, code);
	CHECK_INT(f.status, 400);
	CHECK(body == NULL);
}

static void test_json(void)
{
	static char deep[256];
	struct fault f;
	json_t *body;

	json_refused("{", 1, "bad_json");
	json_refused("[]", 2, "bad_json");
	json_refused("1", 1, "bad_json");
	json_refused("{} x", 4, "bad_json");
	json_refused("{\"a\":1,\"a\":2}", 13, "bad_json");
	json_refused("{\"a\":\"\\u0000\"}", 14, "bad_json");
	json_refused("{\"a\":\"\\ud800\"}", 14, "bad_json");
	json_refused("{\"a\":\"\0\"}", 9, "bad_json");
	json_refused("{\"a\":1e999}", 11, "bad_json");
	json_refused("{\"a\":99999999999999999999}", 26, "bad_json");
	json_refused("{\"a\":NaN}", 9, "bad_json");
	json_refused("\0", 1, "bad_json");
	json_refused("{\"a\":\"\xff\"}", 9, "bad_utf8");
	for (int i = 0; i < 33; i++)
		strcat(deep, i ? "[" : "{\"a\":");
	json_refused(deep, strlen(deep), "too_deep");
	CHECK_INT(json_in_parse("{\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[[\":1}", 44, &body, &f), 0);
	json_decref(body);
	CHECK_INT(json_in_parse(" \r\n", 3, &body, &f), 0);
	CHECK_INT(json_object_size(body), 0);
	json_decref(body);
	CHECK_INT(json_in_parse("{}trailing", 2, &body, &f), 0);
	json_decref(body);
}

struct sample {
	const char *name, *kind;
	unsigned count, inner;
	double share;
	struct field_text text;
	json_t *env, *words, *object;
};

#define AT(member) offsetof(struct sample, member)
static const char *const kinds[] = { "this", "that", NULL };
static const struct field inner_fields[] = {
	{ "inner", FIELD_WHOLE, AT(inner), 1, 9, .required = true },
	{ .type = FIELD_END },
};
static const struct field sample_fields[] = {
	{ "name", FIELD_STRING, AT(name), 1, 8, .required = true },
	{ "kind", FIELD_STRING, AT(kind), 1, 8, .choices = kinds },
	{ "count", FIELD_WHOLE, AT(count), 1, 86400 },
	{ "share", FIELD_NUMBER, AT(share), 0.1, 4 },
	{ "text", FIELD_TEXT, AT(text), 0, 4 },
	{ "env", FIELD_ENV, AT(env), 0, 64 },
	{ "words", FIELD_STRINGS, AT(words), 1, 2 },
	{ "object", FIELD_OBJECT, AT(object), 0, 16 },
	{ "table", FIELD_TABLE, .table = inner_fields },
	{ .type = FIELD_END },
};

static void field_refused(const char *text, const char *code, const char *field)
{
	struct sample s = { .count = 5 };
	struct fault f = { .code = "" };
	json_t *body = json_loads(text, 0, NULL);

	CHECK(body != NULL);
	CHECK_INT(fields_read(sample_fields, body, &s, &f), -EINVAL);
	CHECK_STR(f.code, code);
	CHECK_STR(f.field, field);
	CHECK_INT(f.status, 400);
	json_decref(body);
}

static void test_fields(void)
{
	struct sample s = { .count = 5, .share = 1 };
	struct fault f;
	json_t *body = json_loads("{\"name\":\"n\",\"share\":2,\"env\":{\"A\":\"\"},\"table\":{\"inner\":9},"
				  "\"text\":\"\",\"kind\":\"that\",\"words\":[\"a\"]}",
				  0, NULL);

	CHECK_INT(fields_read(sample_fields, body, &s, &f), 0);
	CHECK_STR(s.name, "n");
	CHECK_STR(s.kind, "that");
	CHECK_INT(s.count, 5);
	CHECK(s.share == 2);
	CHECK_INT(s.inner, 9);
	CHECK(s.text.text && s.text.len == 0);
	CHECK_INT(json_object_size(s.env), 1);
	CHECK(!s.object);
	json_decref(body);

	field_refused("{}", "missing_field", "name");
	field_refused("{\"name\":1}", "wrong_type", "name");
	field_refused("{\"name\":null}", "wrong_type", "name");
	field_refused("{\"name\":\"\"}", "out_of_range", "name");
	field_refused("{\"name\":\"123456789\"}", "out_of_range", "name");
	field_refused("{\"name\":\"n\",\"extra\":1}", "unknown_field", "extra");
	field_refused("{\"name\":\"n\",\"kind\":\"other\"}", "out_of_range", "kind");
	field_refused("{\"name\":\"n\",\"count\":0}", "out_of_range", "count");
	field_refused("{\"name\":\"n\",\"count\":-1}", "out_of_range", "count");
	field_refused("{\"name\":\"n\",\"count\":1.5}", "wrong_type", "count");
	field_refused("{\"name\":\"n\",\"count\":86401}", "out_of_range", "count");
	field_refused("{\"name\":\"n\",\"count\":4294967297}", "out_of_range", "count");
	field_refused("{\"name\":\"n\",\"count\":\"1\"}", "wrong_type", "count");
	field_refused("{\"name\":\"n\",\"share\":0.05}", "out_of_range", "share");
	field_refused("{\"name\":\"n\",\"text\":\"12345\"}", "out_of_range", "text");
	field_refused("{\"name\":\"n\",\"env\":{\"A=B\":\"\"}}", "bad_env", "env.A=B");
	field_refused("{\"name\":\"n\",\"env\":{\"\":\"\"}}", "bad_env", "env.");
	field_refused("{\"name\":\"n\",\"env\":{\"A\":1}}", "wrong_type", "env.A");
	field_refused("{\"name\":\"n\",\"env\":[]}", "wrong_type", "env");
	field_refused("{\"name\":\"n\",\"words\":[]}", "out_of_range", "words");
	field_refused("{\"name\":\"n\",\"words\":[\"a\",2]}", "wrong_type", "words[1]");
	field_refused("{\"name\":\"n\",\"object\":{\"long\":\"1234567890\"}}", "out_of_range", "object");
	field_refused("{\"name\":\"n\",\"table\":{}}", "missing_field", "table.inner");
	field_refused("{\"name\":\"n\",\"table\":{\"inner\":1,\"x\":1}}", "unknown_field", "table.x");
	field_refused("{\"name\":\"n\",\"table\":1}", "wrong_type", "table");
}

static int find(const char *method, const char *uri, struct route_match *m, struct target *t)
{
	struct fault f;

	CHECK_INT(target_parse(uri, t, &f), 0);
	return route_find(method, t, m);
}

static void test_routes(void)
{
	static const char *const nowhere[] = {
		"/",
		"/v1",
		"/v1/",
		"/v1/sandboxes/",
		"/v1//sandboxes",
		"/v1/sandboxes/a_b",
		"/v1/sandboxes/..",
		"/v1/sandboxes/a%2Fb",
		"/v1/sandboxes/A",
		"/v1/executions/x/outputs/-1/full",
		"/v1/executions/x/outputs/1234567/full",
		"/v1/sandboxes/%C3%A9",
		"/V1/sandboxes",
		"/v1/sandboxes/0123456789012345678901234567890123456789",
		NULL,
	};
	struct route_match m;
	struct target t;

	CHECK_INT(find("GET", "/v1/executions/x-1/outputs/12/full?x=1", &m, &t), 0);
	CHECK(m.route->handle == executions_full);
	CHECK_STR(m.captures[0], "x-1");
	CHECK_STR(m.captures[1], "12");
	target_free(&t);
	CHECK_INT(find("HEAD", "/v1/sandboxes/s1", &m, &t), 0);
	CHECK(m.route->handle == sandboxes_get);
	target_free(&t);
	CHECK_INT(find("PATCH", "/v1/sandboxes/s1", &m, &t), -EPERM);
	CHECK_STR(m.allow, "GET, HEAD, DELETE");
	target_free(&t);
	CHECK_INT(find("POST", "/v1/sandboxes/s1/files", &m, &t), -EPERM);
	CHECK_STR(m.allow, "PUT, GET, HEAD, DELETE");
	target_free(&t);
	for (const char *const *uri = nowhere; *uri; uri++) {
		CHECK_INT(find("GET", *uri, &m, &t), -ENOENT);
		target_free(&t);
	}
}

static void test_times(void)
{
	static const struct {
		const char *text;
		int err;
		int64_t ms;
	} rows[] = {
		{ "2027-01-31T23:59:59Z", 0, 1801439999000 },
		{ "2027-01-31t23:59:59.25z", 0, 1801439999250 },
		{ "2027-01-31T23:59:59.123456789+02:00", 0, 1801432799123 },
		{ "2024-02-29 00:00:00-00:30", 0, 1709166600000 },
		{ "1970-01-01T00:00:00Z", 0, 0 },
		{ "2027-02-29T00:00:00Z", -EINVAL, 0 },
		{ "2027-13-01T00:00:00Z", -EINVAL, 0 },
		{ "2027-01-31T24:00:00Z", -EINVAL, 0 },
		{ "2027-01-31T23:59:60Z", -EINVAL, 0 },
		{ "2027-1-31T00:00:00Z", -EINVAL, 0 },
		{ "+027-01-31T00:00:00Z", -EINVAL, 0 },
		{ "2027-01-31T 1:00:00Z", -EINVAL, 0 },
		{ "2027-01-31T00:00:00", -EINVAL, 0 },
		{ "2027-01-31T00:00:00.Z", -EINVAL, 0 },
		{ "2027-01-31T00:00:00+2:00", -EINVAL, 0 },
		{ "2027-01-31T00:00:00+02:00x", -EINVAL, 0 },
		{ "2027-01-31", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int64_t ms = 0;

		CHECK_INT(rfc3339_parse(rows[i].text, &ms), rows[i].err);
		CHECK_INT(ms, rows[i].ms);
	}
}

int main(void)
{
	test_utf8();
	test_percent();
	test_target();
	test_target_bounds();
	test_json();
	test_fields();
	test_routes();
	test_times();
	return 0;
}
