/* UNIT: kernels/core LIBS: -lzmq -ljansson -lcrypto */
/* The Jupyter wire format: signatures, what is no message, repaired JSON. */
#include <errno.h>
#include <stdbool.h>

#include "core/request.h"
#include "core/wire.h"
#include "tests/unit/check.h"

#define SLICE(s)                 \
	{                        \
		s, sizeof(s) - 1 \
	}

static const struct slice parts[WIRE_PARTS] = {
	SLICE("{\"msg_type\":\"execute_request\"}"),
	SLICE("{}"),
	SLICE("{}"),
	SLICE("{\"code\":\"1\"}"),
};

static struct wire_signer signer(const char *key)
{
	struct wire_signer s;

	CHECK_INT(wire_signer_init(&s, key, strlen(key)), 0);
	return s;
}

/* RFC 4231, test case 2: the digest is HMAC-SHA256, whatever computes it. */
static void test_digest(void)
{
	const struct slice data[WIRE_PARTS] = { SLICE("what do ya "), SLICE("want "), SLICE("for "),
						SLICE("nothing?") };
	struct wire_signer s = signer("Jefe");
	struct wire_packed p;

	CHECK_INT(wire_pack(&s, NULL, 0, data, NULL, 0, &p), 0);
	CHECK_STR(p.hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	/* The same context a second time. */
	CHECK_INT(wire_pack(&s, NULL, 0, data, NULL, 0, &p), 0);
	CHECK_STR(p.hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	wire_signer_free(&s);
}

static void test_round_trip(void)
{
	const struct slice idents[] = { SLICE("a"), SLICE("bc") }, buffers[] = { SLICE("raw") };
	struct wire_signer s = signer("key");
	struct wire_packed p;
	struct wire_view v;

	CHECK_INT(wire_pack(&s, idents, 2, parts, buffers, 1, &p), 0);
	CHECK_INT(wire_parse(&s, p.frame, p.n, &v), 0);
	CHECK_INT(v.n_idents, 2);
	CHECK_INT(v.n_buffers, 1);
	CHECK(v.part[WIRE_CONTENT].len == parts[WIRE_CONTENT].len);
	CHECK(!memcmp(v.part[WIRE_CONTENT].data, parts[WIRE_CONTENT].data, parts[WIRE_CONTENT].len));
	/* Every proper beginning of it is no message. */
	while (p.n-- > 1) {
		if (p.n < 2 + 2 + WIRE_PARTS)
			CHECK_INT(wire_parse(&s, p.frame, p.n, &v), -EBADMSG);
	}
	wire_signer_free(&s);
}

static void test_refused(void)
{
	struct wire_signer s = signer("key"), other = signer("other"), none = signer("");
	struct slice many[WIRE_FRAMES_MAX + 1];
	struct wire_packed p;
	struct wire_view v = { .n_idents = 77 };
	size_t i;

	CHECK_INT(wire_pack(&other, NULL, 0, parts, NULL, 0, &p), 0);
	CHECK_INT(wire_parse(&s, p.frame, p.n, &v), -EACCES);
	p.frame[1].len--;
	CHECK_INT(wire_parse(&s, p.frame, p.n, &v), -EACCES);
	/* Outputs are untouched on failure. */
	CHECK_INT(v.n_idents, 77);
	/* Without a key nothing is checked. */
	CHECK_INT(wire_parse(&none, p.frame, p.n, &v), 0);
	for (i = 0; i <= WIRE_FRAMES_MAX; i++)
		many[i] = (struct slice)SLICE("x");
	CHECK_INT(wire_parse(&s, many, WIRE_FRAMES_MAX + 1, &v), -E2BIG);
	CHECK_INT(wire_parse(&s, many, WIRE_FRAMES_MAX, &v), -EBADMSG);
	CHECK_INT(wire_parse(&s, many, 0, &v), -EBADMSG);
	wire_signer_free(&s);
	wire_signer_free(&other);
	wire_signer_free(&none);
}

/* ---- requests ---- */

static int parse(const char *header, const char *content, struct request **ret)
{
	struct wire_signer s = signer("");
	const char *text[] = { "me", "<IDS|MSG>", "", header, "{}", "{}", content };
	struct frames *f = calloc(1, sizeof(*f));
	size_t i, len;
	int err;

	for (i = 0; i < 7; i++) {
		len = strlen(text[i]);
		zmq_msg_init_size(&f->msg[i], len);
		memcpy(zmq_msg_data(&f->msg[i]), text[i], len);
		f->n++;
	}
	err = request_parse(&s, CHANNEL_SHELL, f, ret);
	free(f);
	wire_signer_free(&s);
	return err;
}

static const char *code_of(const struct request *r)
{
	return json_string_value(json_object_get(r->content, "code"));
}

#define HEADER "{\"msg_type\":\"execute_request\", \"x\" : 1}"

static void test_request(void)
{
	struct request *r;
	struct slice parent;

	CHECK_INT(parse(HEADER, "{\"code\":\"a\\u0000b\",\"silent\":true}", &r), 0);
	CHECK_STR(r->type, "execute_request");
	/* The parent of all answers is the header as it came, spaces and all. */
	parent = parent_slice(r->parent);
	CHECK(parent.len == strlen(HEADER) && !memcmp(parent.data, HEADER, parent.len));
	CHECK_INT(json_string_length(json_object_get(r->content, "code")), 3);
	CHECK(request_bool(r, "silent", false));
	CHECK(request_bool(r, "store_history", true));
	request_free(r);

	CHECK_INT(parse("{\"msg_type\":7}", "{}", &r), -EBADMSG);
	CHECK_INT(parse("[]", "{}", &r), -EBADMSG);
	CHECK_INT(parse("", "{}", &r), -EBADMSG);
}

static void test_repaired(void)
{
	struct request *r;

#define CODE(in, out)                                                     \
	do {                                                              \
		CHECK_INT(parse(HEADER, "{\"code\":\"" in "\"}", &r), 0); \
		CHECK_STR(r->malformed, "");                              \
		CHECK_STR(code_of(r), out);                               \
		request_free(r);                                          \
	} while (0)

	CODE("a\\ud83db", "a\xef\xbf\xbd"
			  "b");
	CODE("\\ud83d\\ude00 \\udcc3", "\xf0\x9f\x98\x80 \xef\xbf\xbd");
	CODE("\\\\ud83d\\ud83d", "\\ud83d\xef\xbf\xbd");
	CODE("\\ud83d", "\xef\xbf\xbd");
	CODE("\xff\xc3\xa9", "\xef\xbf\xbd\xc3\xa9");
	CODE("plain", "plain");

	/* A number that fits nowhere spoils nothing. */
	CHECK_INT(parse(HEADER, "{\"code\":\"1\",\"n\":99999999999999999999999}", &r), 0);
	CHECK_STR(code_of(r), "1");
	request_free(r);
	/* Not JSON at all: the request is there, to be answered. */
	CHECK_INT(parse(HEADER, "{\"code\":", &r), 0);
	CHECK(r->malformed[0]);
	CHECK(json_is_object(r->content));
	request_free(r);
	CHECK_INT(parse(HEADER, "[1]", &r), 0);
	CHECK(r->malformed[0]);
	request_free(r);
}

int main(void)
{
	test_digest();
	test_round_trip();
	test_refused();
	test_request();
	test_repaired();
	return 0;
}
